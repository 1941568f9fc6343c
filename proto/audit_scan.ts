/**
 * A quick reading of what nearly every line of a log is: decisions, approvals and results in their one byte
 * form. It takes a line only where the full reading in `audit.ts` takes it, and gives the same; every other
 * line goes to the full reading. tests/proto/audit_scan_test.ts holds the two together. Pure.
 */
import type { AuditEvent, AuditRecord, Link, LinkEvent } from "./audit.ts";
import { type DecisionRecord, denied, DENY_REASONS } from "./decisions.ts";
import { isTimestamp } from "./ids.ts";
import { DATA_CLASSES } from "./tools.ts";

/** Longer lines are rare, and too much for a regular expression that goes on by single characters. */
const MAX_CHARACTERS = 16 * 1024;

// A string as JSON.stringify writes it; `scanLink` looks for lone surrogates.
const STRING = String
  .raw`"(?:[^"\\\x00-\x1f]|\\(?:["\\bfnrt]|u00(?:0[0-7bef]|1[0-9a-f])))*"`;
// Of so many digits each number is a safe integer.
const NUMBER = String.raw`(?:0|[1-9]\d{0,14})`;
const TIME = String.raw`"((\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z)"`;
const HASH = '"[0-9a-f]{64}"';
// Looking at 64 digits takes long. `link` does it, but for the hash that is expected there.
const PREV = '"([^"]{64})"';
const SESSION = '"[a-z0-9-]{1,64}"';
const CALL = '"[A-Za-z0-9_-]{1,64}"';
const CLASS = `"(?:${DATA_CLASSES.join("|")})"`;
const BOOLEAN = "(?:true|false)";
const OUTCOME = String.raw`(\{"outcome":"[a-z]+"(?:,"reason":"[a-z_]+")?\})`;
const orNull = (form: string) => `(?:null|${form})`;

/**
 * A record whose event has these fields, in their order. A group costs as much as a few characters: there is
 * one only where more is to be known than that the form is right.
 */
function form(type: AuditEvent["type"], fields: Readonly<Record<string, string>>): RegExp {
  const written = Object.entries(fields).map(([name, form]) => `,"${name}":${form}`).join("");
  return new RegExp(
    String
      .raw`^\{"seq":(${NUMBER}),"time":${TIME},"prev":${PREV},"event":\{"type":"${type}"${written}\}\}$`,
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
  decision: `(${NUMBER})`,
  answer: '"(?:approved|refused|expired)"',
  by: orNull(STRING),
  post: orNull(STRING),
  reason: orNull(STRING),
  outcome: OUTCOME,
});
const RESULT = form("result", {
  session: SESSION,
  call: CALL,
  decision: `(${NUMBER})`,
  status: '"(?:result|failed)"',
  class: CLASS,
  untrusted: BOOLEAN,
  truncated: BOOLEAN,
  bytes: NUMBER,
  sha256: HASH,
  taint_after: CLASS,
});

const OUTCOMES = new Map<string, DecisionRecord>(
  [
    ...(["allowed", "ask"] as const).map((outcome) => ({ outcome })),
    ...DENY_REASONS.map(denied),
  ].map((outcome) => [JSON.stringify(outcome), outcome]),
);

/** The last day that was looked at, and whether there is such a day: one file has one. */
let day = "";
let isDay = false;

function isRealDay(date: string): boolean {
  if (date === day) return isDay;
  day = date;
  isDay = isTimestamp(`${date}T00:00:00.000Z`);
  return isDay;
}

const DIGITS = /^[0-9a-f]{64}$/;

/**
 * What the chain needs of a line's record, or null where the full reading has to judge the line. `before`:
 * the hash that the record most likely names as the one before it.
 */
export function scanLink(line: string, before: string | null = null): Link | null {
  if (line.length > MAX_CHARACTERS || !line.isWellFormed()) return null;
  const type = line.indexOf('"type":"');
  switch (line[type + '"type":"'.length]) {
    case "d": {
      const found = DECISION.exec(line);
      if (found === null) return null;
      const outcome = OUTCOMES.get(found[5] ?? "");
      if (outcome === undefined) return null;
      return link(found, before, { type: "decision", outcome });
    }
    case "a": {
      const found = APPROVAL.exec(line);
      if (found === null) return null;
      const outcome = OUTCOMES.get(found[6] ?? "");
      if (outcome === undefined) return null;
      return link(found, before, { type: "approval", decision: Number(found[5]), outcome });
    }
    case "r": {
      const found = RESULT.exec(line);
      if (found === null) return null;
      return link(found, before, { type: "result", decision: Number(found[5]) });
    }
    default:
      return null;
  }
}

/** With what all records begin with; null for a day that there is not and a hash that is none. */
function link(found: RegExpExecArray, before: string | null, event: LinkEvent): Link | null {
  const time = found[2] ?? "";
  const day = found[3] ?? "";
  const prev = found[4] ?? "";
  if (!isRealDay(day) || prev !== before && !DIGITS.test(prev)) return null;
  return { seq: Number(found[1]), time, prev, event };
}

/** The record of a line, or null where the full reading has to judge it. */
export function scanRecord(line: string): AuditRecord | null {
  // The line has the one form of a record, so that this gives nothing else.
  return scanLink(line) === null ? null : JSON.parse(line);
}
