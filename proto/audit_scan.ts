/**
 * A quick reading of what nearly every line of a log is: decisions, approvals and results in their one byte
 * form. It takes a line only where the full reading in `audit.ts` takes it, and gives the same record; every
 * other line goes to the full reading. tests/proto/audit_scan_test.ts holds the two together. Pure.
 */
import type { AuditEvent, AuditRecord } from "./audit.ts";
import { type DecisionRecord, denied, DENY_REASONS } from "./decisions.ts";
import { isTimestamp } from "./ids.ts";
import { DATA_CLASSES } from "./tools.ts";

/** Longer lines are rare, and too much for a regular expression that goes on by single characters. */
const MAX_CHARACTERS = 16 * 1024;

// A string as JSON.stringify writes it, where there is no lone surrogate.
const STRING = String
  .raw`"((?:[^"\\\x00-\x1f]|\\(?:["\\bfnrt]|u00(?:0[0-7bef]|1[0-9a-f])))*)"`;
const NUMBER = String.raw`(0|[1-9]\d{0,15})`;
const HASH = '"([0-9a-f]{64})"';
const TIME = String.raw`"(\d{4}-\d\d-\d\d)(T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z)"`;
const SESSION = '"([a-z0-9-]{1,64})"';
const CALL = '"([A-Za-z0-9_-]{1,64})"';
const CLASS = `"(${DATA_CLASSES.join("|")})"`;
const BOOLEAN = "(true|false)";
const OUTCOME = String.raw`(\{"outcome":"[a-z]+"(?:,"reason":"[a-z_]+")?\})`;
const orNull = (form: string) => `(?:null|${form})`;

/** A record whose event has these fields, in their order. */
function form(type: AuditEvent["type"], fields: Readonly<Record<string, string>>): RegExp {
  const written = Object.entries(fields).map(([name, form]) => `,"${name}":${form}`).join("");
  return new RegExp(
    String
      .raw`^\{"seq":${NUMBER},"time":${TIME},"prev":${HASH},"event":\{"type":"${type}"${written}\}\}$`,
  );
}

const DECISION = form("decision", {
  session: SESSION,
  call: CALL,
  tool: STRING,
  arguments: STRING,
  outcome: OUTCOME,
  grant: orNull(STRING),
  grant_sha256: orNull(HASH),
  taint: CLASS,
  untrusted: BOOLEAN,
});
const APPROVAL = form("approval", {
  session: SESSION,
  call: CALL,
  decision: NUMBER,
  answer: '"(approved|refused|expired)"',
  by: orNull(STRING),
  post: orNull(STRING),
  reason: orNull(STRING),
  outcome: OUTCOME,
});
const RESULT = form("result", {
  session: SESSION,
  call: CALL,
  decision: NUMBER,
  status: '"(result|failed)"',
  class: CLASS,
  untrusted: BOOLEAN,
  truncated: BOOLEAN,
  bytes: NUMBER,
  sha256: HASH,
  taint_after: CLASS,
});

const byName = <N extends string>(names: readonly N[]) =>
  new Map<string, N>(names.map((n) => [n, n]));
const CLASSES = byName(DATA_CLASSES);
const ANSWERS = byName(["approved", "refused", "expired"]);
const STATUSES = byName(["result", "failed"]);
const OUTCOMES = new Map<string, DecisionRecord>(
  [
    ...(["allowed", "ask"] as const).map((outcome) => ({ outcome })),
    ...DENY_REASONS.map(denied),
  ].map((outcome) => [JSON.stringify(outcome), outcome]),
);

/** The value of a string, from what stands between its quotes. */
function value(written: string): string {
  return written.includes("\\") ? JSON.parse(`"${written}"`) : written;
}

const valueOrNull = (written: string | undefined) => written === undefined ? null : value(written);

/** The last day that was looked at, and whether there is such a day: one file has one. */
let day = "";
let isDay = false;

function isRealDay(date: string): boolean {
  if (date === day) return isDay;
  day = date;
  isDay = isTimestamp(`${date}T00:00:00.000Z`);
  return isDay;
}

/** The record of a line, or null where the full reading has to judge it. */
export function scanRecord(line: string): AuditRecord | null {
  if (line.length > MAX_CHARACTERS || !line.isWellFormed()) return null;
  const type = line.indexOf('"type":"');
  switch (line[type + '"type":"'.length]) {
    case "d":
      return decision(DECISION.exec(line));
    case "a":
      return approval(APPROVAL.exec(line));
    case "r":
      return result(RESULT.exec(line));
    default:
      return null;
  }
}

/** What all records begin with; null for a day or a number that there is not. */
function record(
  seq: string,
  date: string,
  time: string,
  prev: string,
  event: AuditEvent,
): AuditRecord | null {
  const number = Number(seq);
  if (!Number.isSafeInteger(number) || !isRealDay(date)) return null;
  return { seq: number, time: date + time, prev, event };
}

function decision(match: RegExpExecArray | null): AuditRecord | null {
  if (match === null) return null;
  const [, seq = "", date = "", time = "", prev = "", session = "", call = "", ...more] = match;
  const [tool = "", args = "", outcomeText = "", grant, hash, taintText = "", untrusted] = more;
  const outcome = OUTCOMES.get(outcomeText);
  const taint = CLASSES.get(taintText);
  if (outcome === undefined || taint === undefined) return null;
  return record(seq, date, time, prev, {
    type: "decision",
    ...{ session, call, tool: value(tool), arguments: value(args), outcome },
    grant: valueOrNull(grant),
    grant_sha256: hash ?? null,
    taint,
    untrusted: untrusted === "true",
  });
}

function approval(match: RegExpExecArray | null): AuditRecord | null {
  if (match === null) return null;
  const [, seq = "", date = "", time = "", prev = "", session = "", call = "", ...more] = match;
  const [of = "", answerText = "", by, post, reason, outcomeText = ""] = more;
  const answer = ANSWERS.get(answerText);
  const outcome = OUTCOMES.get(outcomeText);
  const decision = Number(of);
  if (answer === undefined || outcome === undefined || !Number.isSafeInteger(decision)) return null;
  return record(seq, date, time, prev, {
    type: "approval",
    ...{ session, call, decision, answer },
    by: valueOrNull(by),
    post: valueOrNull(post),
    reason: valueOrNull(reason),
    outcome,
  });
}

function result(match: RegExpExecArray | null): AuditRecord | null {
  if (match === null) return null;
  const [, seq = "", date = "", time = "", prev = "", session = "", call = "", ...more] = match;
  const [of = "", statusText = "", classText = "", untrusted, truncated, ...last] = more;
  const [size = "", sha256 = "", afterText = ""] = last;
  const status = STATUSES.get(statusText);
  const seen = CLASSES.get(classText);
  const after = CLASSES.get(afterText);
  if (status === undefined || seen === undefined || after === undefined) return null;
  const decision = Number(of);
  const bytes = Number(size);
  if (!Number.isSafeInteger(decision) || !Number.isSafeInteger(bytes)) return null;
  return record(seq, date, time, prev, {
    type: "result",
    ...{ session, call, decision, status, class: seen },
    untrusted: untrusted === "true",
    truncated: truncated === "true",
    ...{ bytes, sha256, taint_after: after },
  });
}
