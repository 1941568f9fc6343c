/** `bxctl why SEQ`: a decision of the audit log, and what the grants make of the call today. */
import { explain, type Explanation } from "../broker/explain.ts";
import type { AuditRecord } from "../proto/audit.ts";
import { display } from "../proto/escape.ts";
import { utf8 } from "../proto/text.ts";
import { eachRecord } from "./audit_records.ts";
import { shortened } from "./block.ts";
import { explainedLines } from "./explained.ts";
import { readGrantFiles } from "./grants_files.ts";
import { answerJson, answerLines, type Io, type Status } from "./io.ts";
import { Failed, noSuchRecord, notices } from "./notices.ts";
import {
  type Decided,
  decisionWords,
  type GrantFileChange,
  grantFileChange,
  isDecided,
  sameOutcome,
  situationOf,
} from "./replayed.ts";

/** Where the log and the grants are. */
export interface WhyPlaces {
  readonly audit: string;
  readonly grants: string;
}

/**
 * Prints the decision `seq` as it was recorded, then as it would come out with the grants as they are now,
 * the recorded state of the session and the recorded time. Throws `Failed` where there is no such decision.
 */
export function why({ audit, grants }: WhyPlaces, seq: number, io: Io, json: boolean): Status {
  const record = decisionOf(audit, seq);
  const { set, lineOf } = readGrantFiles(grants);
  const now = explain(situationOf(record, set), lineOf);
  const same = sameOutcome(now.outcome, record.event.outcome);
  const file = grantFileChange(record, set);
  if (json) answerJson(io, { record, same_outcome: same, grant_file: file, now });
  else answerLines(io, whyLines(record, now, same, file));
  if (set.ok) return 0;
  io.tell(...notices.grantProblemsThere());
  return 1;
}

function decisionOf(audit: string, seq: number): Decided {
  // The one form of a record begins with its number: no other line needs to be parsed.
  const start = utf8(`{"seq":${seq},`);
  const found: AuditRecord[] = [];
  eachRecord(audit, (record) => found.push(record) > 0, {
    wanted: (line) => start.every((byte, at) => line[at] === byte),
  });
  const [record] = found;
  if (record === undefined) throw noSuchRecord(seq);
  if (isDecided(record)) return record;
  const { event } = record;
  const decision = "decision" in event ? event.decision : null;
  throw new Failed("not_a_decision", notices.notADecision(seq, event.type, decision));
}

const FILES = {
  none: null,
  same: null,
  changed: "has been changed since: its file is not the one recorded",
  gone: "is not among the grants any more",
  unknown: null,
} as const satisfies Record<GrantFileChange, string | null>;

function whyLines(
  { seq, time, event }: Decided,
  now: Explanation,
  same: boolean,
  file: GrantFileChange,
): string[] {
  const { session, tool, arguments: args, taint, outcome, grant } = event;
  const change = FILES[file];
  return [
    `decision ${seq}  ${time}  session ${session}  taint ${taint}`,
    `    ${display(tool)} ${shortened(args, "see --json")}`,
    `recorded: ${decisionWords({ outcome, grant })}`,
    ...change === null ? [] : [`grant ${display(grant ?? "")} ${change}`],
    same
      ? "with the grants as they are now it comes out the same:"
      : "with the grants as they are now it comes out differently:",
    ...explainedLines(now),
  ];
}
