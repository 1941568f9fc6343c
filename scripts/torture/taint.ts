/**
 * The taint of each session along the log and on disk (specification 4; contracts 3 and 8). Written from
 * the specification alone; nothing here is the programs'.
 */
import type { Evidence, State } from "./checker.ts";
import { isRegular, type LogRecord, namesIn } from "./log_reader.ts";
import { neverBegan, object, reasonOf } from "./log_stories.ts";

const CLASSES = ["public", "private", "secret"];
const height = (name: unknown) => CLASSES.indexOf(String(name));

/** A session without a file. */
const START: State = { taint: "private", untrusted: false };

/** The states in `directory`, by session. */
export function readStates(directory: string, find: (what: string) => void): Map<string, State> {
  const states = new Map<string, State>();
  const names = namesIn(directory);
  if (names === null) find(`${directory}: cannot be listed`);
  for (const name of names ?? []) {
    const [, session] = /^(.*)\.json$/.exec(name) ?? [];
    if (session === undefined) continue;
    const path = `${directory}/${name}`;
    if (!/^[a-z0-9-]{1,64}$/.test(session) || !isRegular(path)) {
      find(`${name}:0: is no session's, or no regular file`);
      continue;
    }
    const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Deno.readFileSync(path));
    const [, taint, untrusted] =
      /^\{"taint":"(private|secret)","untrusted":(true|false)\}$/.exec(text) ?? [];
    if (taint === undefined) find(`${name}:1: is no state that a session can be in: ${text}`);
    else states.set(session, { taint, untrusted: untrusted === "true" });
  }
  return states;
}

/** Nothing was lowered, and nothing was given out whose taint is not on disk. */
export function checkTaint(
  { before, calls }: Evidence,
  records: readonly LogRecord[],
  states: ReadonlyMap<string, State>,
  find: (what: string) => void,
): void {
  const reached = new Map<string, State>();
  /** The sessions that must have a file. */
  const marked = new Set(before.keys());
  const rise = (session: string, taint: unknown, untrusted: unknown) => {
    const { taint: old, untrusted: was } = reached.get(session) ?? START;
    const higher = height(taint) > height(old) ? String(taint) : old;
    reached.set(session, { taint: higher, untrusted: was || untrusted === true });
  };
  for (const { at, event } of records) {
    const session = String(event.session);
    const { taint, untrusted } = reached.get(session) ?? START;
    if (event.type === "decision") {
      const lower = height(event.taint) < height(taint) || untrusted && event.untrusted !== true;
      if (lower) find(`${at}: was decided on less than the session had seen`);
      const unread = event.taint === "secret" && event.untrusted === true;
      const reason = reasonOf(event);
      if (reason === "state_unreadable" && !unread) {
        find(`${at}: could not read the state, and does not stand as the highest`);
      }
      // What stands for a state that cannot be read lasts only as long; grants_invalid comes before it.
      if (reason === "state_unreadable" || reason === "grants_invalid") continue;
      rise(session, event.taint, event.untrusted);
    }
    if (event.type === "result") {
      if (height(event.taint_after) < height(taint)) find(`${at}: the taint went down`);
      if (height(event.taint_after) < height(event.class)) find(`${at}: the taint did not rise`);
      rise(session, event.taint_after, event.untrusted);
      if (!neverBegan(event)) marked.add(session);
    }
  }
  for (const { session, answers } of calls) {
    for (const { status, class: given, untrusted } of answers.map((a) => object(object(a).body))) {
      if (status !== "result") continue;
      rise(session, given, untrusted);
      marked.add(session);
    }
  }
  for (const [session, { taint, untrusted }] of before) rise(session, taint, untrusted);
  for (const session of marked) {
    if (!states.has(session)) find(`${session}.json:0: has seen content, and has no state on disk`);
  }
  for (const [session, { taint, untrusted }] of reached) {
    const state = states.get(session) ?? START;
    if (height(state.taint) < height(taint) || untrusted && !state.untrusted) {
      const wanted = JSON.stringify({ taint, untrusted });
      find(`${session}.json:1: has reached ${wanted}, and on disk is ${JSON.stringify(state)}`);
    }
  }
}
