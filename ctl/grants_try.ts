/** `bxctl grants test`: how a call would be decided, and why, without making it. */
import { explain } from "../broker/explain.ts";
import { type SessionState, UNREADABLE } from "../broker/policy.ts";
import { display } from "../proto/escape.ts";
import { type SessionId, timestamp } from "../proto/ids.ts";
import type { DataClass } from "../proto/tools.ts";
import { eachRecord } from "./audit_records.ts";
import { shortened } from "./block.ts";
import { explainedLines } from "./explained.ts";
import { readGrantFiles } from "./grants_files.ts";
import { answerJson, answerLines, type Io, type Status } from "./io.ts";
import { notices } from "./notices.ts";
import { isUnreadable, stateOf } from "./replayed.ts";
import type { WhyPlaces } from "./why.ts";

/** The call, and the session that it would come from: with both null a new one. */
export interface TestedCall {
  readonly tool: string;
  readonly arguments: string;
  readonly session: SessionId | null;
  readonly taint: DataClass | null;
}

/** A session that brokerd has not seen (specification 4). */
const NEW_SESSION: SessionState = { taint: "private", untrusted: false };

/** Prints how `call` would be decided now. */
export function testGrants(places: WhyPlaces, call: TestedCall, io: Io, json: boolean): Status {
  const { tool, arguments: args, session } = call;
  const state = stateFor(places.audit, call, io);
  const shown = state ?? UNREADABLE;
  const { set, lineOf } = readGrantFiles(places.grants);
  const now = timestamp(io.now());
  const explanation = explain({ now, grants: set, state, tool, arguments: args }, lineOf);
  if (json) {
    answerJson(io, { tool, arguments: args, session, time: now, ...shown, ...explanation });
  } else {
    const lines = [
      `${session === null ? "a new session" : `session ${session}`}  taint ${shown.taint}`,
      `    ${display(tool)} ${shortened(args, "see --json")}`,
      ...explainedLines(explanation),
    ];
    answerLines(io, lines);
  }
  if (set.ok) return 0;
  io.tell(...notices.grantProblemsThere());
  return 1;
}

function stateFor(audit: string, { session, taint }: TestedCall, io: Io): SessionState | null {
  if (taint !== null) return { ...NEW_SESSION, taint };
  if (session === null) return NEW_SESSION;
  const recorded = recordedState(audit, session, io);
  if (recorded === undefined) io.tell(...notices.sessionNotInLog(session));
  else if (recorded === null) io.tell(...notices.stateWasUnreadable(session));
  return recorded === undefined ? NEW_SESSION : recorded;
}

/**
 * The state of `session` after its last record in the log, null where brokerd could not read it then, and
 * undefined where the session has no record. brokerd's own is in its directory, which bxctl may not read; the
 * log holds each result that raised it.
 */
function recordedState(audit: string, session: SessionId, io: Io): SessionState | null | undefined {
  let state: SessionState | null | undefined;
  const unreadable = eachRecord(audit, ({ event }) => {
    if (!("session" in event) || event.session !== session) return;
    if (event.type === "result") {
      const untrusted = event.untrusted || state?.untrusted === true;
      state = { taint: event.taint_after, untrusted };
    }
    if (event.type === "decision") state = stateOf(event);
    if (event.type === "approval" && isUnreadable(event.outcome)) state = null;
  });
  if (unreadable > 0) io.tell(...notices.noRecords(unreadable));
  return state;
}
