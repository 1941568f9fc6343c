/** `bxctl why SEQ`: a decision of the audit log, and what the grants make of the call today. */
import { explain, type Explanation } from "../broker/explain.ts";
import type { AuditEvent, AuditRecord } from "../proto/audit.ts";
import type { DecisionRecord } from "../proto/decisions.ts";
import { display } from "../proto/escape.ts";
import { utf8 } from "../proto/text.ts";
import { LogReader } from "./audit_reader.ts";
import { shortened } from "./block.ts";
import { explainedLines, outcomeWords } from "./explained.ts";
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

/** The record of an owner's answer, or of there being none in time. */
type Answered = AuditRecord & { readonly event: Extract<AuditEvent, { type: "approval" }> };

/** What the log holds of a decision; `answer` is null where it was not asked, or not answered. */
interface Recorded {
  readonly record: Decided;
  readonly answer: Answered | null;
}

/**
 * Prints the decision `seq` and its answer as they were recorded, then as it would come out with the grants as
 * they are now, the recorded state of the session and the recorded time. Throws `Failed` where there is no such decision.
 */
export function why({ audit, grants }: WhyPlaces, seq: number, io: Io, json: boolean): Status {
  const recorded = recordedOf(audit, seq);
  const { record, answer } = recorded;
  const { set, lineOf } = readGrantFiles(grants);
  const now = explain(situationOf(record, set), lineOf);
  const same = sameOutcome(now.outcome, record.event.outcome);
  const file = grantFileChange(record, set);
  if (json) answerJson(io, { record, answer, same_outcome: same, grant_file: file, now });
  else answerLines(io, whyLines(recorded, now, same, file));
  if (set.ok) return 0;
  io.tell(...notices.grantProblemsThere());
  return 1;
}

function recordedOf(audit: string, seq: number): Recorded {
  // The one form of a record begins with its number: no line before it needs to be parsed.
  const start = utf8(`{"seq":${seq},`);
  let reached = false;
  using reader = new LogReader(audit, {
    wanted: (line) => reached ||= start.every((byte, at) => line[at] === byte),
  });
  let record: Decided | null = null;
  for (const one of reader.more()) {
    if (record !== null) {
      if (isAnswerTo(one, seq)) return { record, answer: one };
    } else if (one.seq === seq) {
      record = decisionIn(one);
      if (record.event.outcome.outcome !== "ask") break;
    }
  }
  // The decision itself is worth showing, whatever of the log behind it cannot be read.
  if (record !== null) return { record, answer: null };
  const { problem } = reader;
  if (problem === null) throw noSuchRecord(seq);
  throw new Failed("log_unreadable", notices.logUnreadable(problem.path, problem.why));
}

function decisionIn(record: AuditRecord): Decided {
  if (isDecided(record)) return record;
  const { seq, event } = record;
  const decision = "decision" in event ? event.decision : null;
  throw new Failed("not_a_decision", notices.notADecision(seq, event.type, decision));
}

function isAnswerTo(record: AuditRecord, seq: number): record is Answered {
  return record.event.type === "approval" && record.event.decision === seq;
}

const FILES = {
  none: null,
  same: null,
  changed: "has been changed since: its file is not the one recorded",
  gone: "is not among the grants any more",
  unknown: null,
} as const satisfies Record<GrantFileChange, string | null>;

function whyLines(
  { record: { seq, time, event }, answer }: Recorded,
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
    ...answerLine(event.outcome, answer),
    ...change === null ? [] : [`grant ${display(grant ?? "")} ${change}`],
    same
      ? "with the grants as they are now it comes out the same:"
      : "with the grants as they are now it comes out differently:",
    ...explainedLines(now),
  ];
}

/** What became of a call that was asked for: `why` it was denied may be in the answer, not the decision. */
function answerLine({ outcome }: DecisionRecord, answer: Answered | null): string[] {
  if (outcome !== "ask") return [];
  if (answer === null) return ["no answer is in the log"];
  const { seq, event } = answer;
  const by = event.by === null ? "" : ` by ${display(event.by)}`;
  const then = event.outcome.outcome === "denied" ? outcomeWords(event.outcome) : "let run";
  return [`record ${seq}: ${event.answer}${by}, then ${then}`];
}
