/**
 * A second verifier of audit logs, written from the specification (5) and the contracts (5) alone and
 * deliberately naive: the whole log in memory, every question asked by looking at all lines anew. It
 * shares no code with `proto/chain.ts`; the two must agree on every log. Pure.
 */
import { createHash } from "node:crypto";
import type { Anchors, ChainReport, Location } from "../../proto/chain.ts";
import type { LogFile } from "./audit_case.ts";

type Json = { readonly [key: string]: unknown };

/** A record that was read: its header, and its event as it is. */
interface Read {
  readonly seq: number;
  readonly time: string;
  readonly prev: string;
  readonly event: Json;
}

interface Line extends Location {
  readonly bytes: Uint8Array;
  readonly ended: boolean;
  readonly hash: string;
  readonly record: Read | null;
}

const ZEROS = "0".repeat(64);
const hex = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

const REASONS = [
  ...["no_grant", "grant_expired", "taint_too_high", "denied_by_grant", "approval_refused"],
  ...["approval_expired", "grants_invalid", "audit_unavailable", "invalid_arguments"],
  "state_unreadable",
];
type Check = (value: unknown) => boolean;
const isTable = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isText: Check = (value) => typeof value === "string" && value.isWellFormed();
const matches = (pattern: RegExp): Check => (value) =>
  typeof value === "string" && pattern.test(value);
const oneOf = (...words: string[]): Check => (value) =>
  words.includes(String(value)) && isText(value);
const isCount: Check = (value) => Number.isSafeInteger(value) && Number(value) >= 0;
const isFlag: Check = (value) => typeof value === "boolean";
const orNull = (check: Check): Check => (value) => value === null || check(value);
const isHash = matches(/^[0-9a-f]{64}$/);
const isSession = matches(/^[a-z0-9-]{1,64}$/);
const isCall = matches(/^[A-Za-z0-9_-]{1,64}$/);
const isClass = oneOf("public", "private", "secret");
const isTime: Check = (value) => {
  const parts = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.\d{3}Z$/.exec(String(value));
  if (parts === null || typeof value !== "string") return false;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.slice(1).map(
    Number,
  );
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0;
  return day >= 1 && day <= days && hour < 24 && minute < 60 && second < 60;
};
const isOutcome: Check = (value) =>
  isTable(value) &&
  (hasExactly(value, { outcome: oneOf("allowed", "ask") }) ||
    hasExactly(value, { outcome: oneOf("denied"), reason: oneOf(...REASONS) }));

const EVENTS: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
  decision: {
    ...{ type: isText, session: isSession, call: isCall, tool: isText, arguments: isText },
    ...{ outcome: isOutcome, grant: orNull(isText), grant_sha256: orNull(isHash), taint: isClass },
    untrusted: isFlag,
  },
  approval: {
    ...{ type: isText, session: isSession, call: isCall, decision: isCount },
    ...{
      answer: oneOf("approved", "refused", "expired"),
      by: orNull(isText),
      post: orNull(isText),
    },
    ...{ reason: orNull(isText), outcome: isOutcome },
  },
  result: {
    ...{ type: isText, session: isSession, call: isCall, decision: isCount },
    ...{ status: oneOf("result", "failed"), class: isClass, untrusted: isFlag, truncated: isFlag },
    ...{ bytes: isCount, sha256: isHash, taint_after: isClass },
  },
  recovery: { type: isText, torn_bytes: isCount, torn_sha256: isHash },
  accepted_break: { type: isText, file: isText, line: isCount, last_good: isHash },
};

/** The fields of `fields`, in that order, and no others. */
function hasExactly(value: Json, fields: Readonly<Record<string, Check>>): boolean {
  return JSON.stringify(Object.keys(value)) === JSON.stringify(Object.keys(fields)) &&
    Object.entries(fields).every(([name, check]) => check(value[name]));
}

/** The record of a line that is exactly what `JSON.stringify` gives for it. */
function read(bytes: Uint8Array): Read | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const value: unknown = JSON.parse(text);
    if (!isTable(value) || JSON.stringify(value) !== text) return null;
    const { seq, time, prev, event } = value;
    const isEvent: Check = (one) =>
      isTable(one) && hasExactly(one, EVENTS[String(one.type)] ?? { never: () => false });
    if (!hasExactly(value, { seq: isCount, time: isTime, prev: isHash, event: isEvent })) {
      return null;
    }
    if (!isTable(event)) return null;
    return { seq: Number(seq), time: String(time), prev: String(prev), event };
  } catch {
    return null;
  }
}

function linesOf({ name, bytes }: LogFile): Line[] {
  const lines: Line[] = [];
  for (let from = 0; from < bytes.length;) {
    const at = bytes.indexOf(0x0a, from);
    const to = at < 0 ? bytes.length : at;
    const line = bytes.slice(from, to);
    const place = { file: name, line: lines.length + 1 };
    lines.push({ ...place, bytes: line, ended: at >= 0, hash: hex(line), record: read(line) });
    from = to + 1;
  }
  return lines;
}

/** The report on the log `files`, in order of names. Its `what` says nothing. */
export function verifyNaively(files: readonly LogFile[], anchors: Anchors): ChainReport {
  const lines = files.flatMap(linesOf);
  const last = lines.length - 1;
  /** Lines that are verified, by their index. */
  const good: number[] = [];
  const recoveries: Location[] = [];
  const noted = [anchors.head, anchors.expected].filter((anchor) => anchor !== null);

  const lineAt = (at: number): Line => {
    const line = lines[at];
    if (line === undefined) throw new Error(`no line ${at}`);
    return line;
  };
  const place = (at: number): Location => ({ file: lineAt(at).file, line: lineAt(at).line });
  const recordAt = (at: number) => lineAt(at).record;
  const head = () => good.length === 0 ? ZEROS : lineAt(good.at(-1) ?? 0).hash;
  const nextSeq = () => good.length === 0 ? 0 : (recordAt(good.at(-1) ?? 0)?.seq ?? 0) + 1;
  /** Ended by a newline, or the very last line, which may still get its own. */
  const whole = (at: number) => lineAt(at).ended || at === last;
  const sameFile = (from: number, to: number) => lineAt(from).file === lineAt(to).file;
  /** All lines from `from` on and before `to` do not parse. */
  const noneParses = (from: number, to: number) =>
    lines.slice(from, to).every((line) => line.record === null);

  /** Whether line `to` is the `Recovery` of exactly the lines from `from` on. */
  const recovers = (from: number, to: number): boolean => {
    const record = recordAt(to);
    if (record?.event.type !== "recovery" || !sameFile(from, to) || !whole(to)) return false;
    if (!noneParses(from, to - 1)) return false;
    if (record.seq !== nextSeq() || record.prev !== head()) return false;
    const torn = lines.slice(from, to).flatMap(({ bytes }) => [0x0a, ...bytes]).slice(1);
    return record.event.torn_bytes === torn.length &&
      record.event.torn_sha256 === hex(new Uint8Array(torn));
  };

  /** Whether line `at` accepts a failure at line `failed`. */
  const accepts = (failed: number, at: number): boolean => {
    const record = recordAt(at);
    return at > failed && record?.event.type === "accepted_break" && whole(at) &&
      record.event.file === lineAt(failed).file && record.event.line === lineAt(failed).line &&
      record.prev === lineAt(at - 1).hash && record.event.last_good === head() &&
      record.seq >= nextSeq();
  };

  /** Whether line `at` is the next record, in order. */
  const follows = (at: number): boolean => {
    const { record, file, line, ended } = lineAt(at);
    if (record === null || record.seq !== nextSeq() || record.prev !== head()) return false;
    const { type } = record.event;
    if (type === "recovery") return false;
    if (type !== "accepted_break") return ended;
    return whole(at) && record.event.file === file && record.event.line === line &&
      record.event.last_good === record.prev;
  };

  /** Whether what is left from line `at` on is a torn tail. */
  const torn = (at: number): boolean => {
    if (!sameFile(at, last) || !noneParses(at, last)) return false;
    if (recordAt(last) === null) return true;
    if (lineAt(last).ended) return false;
    return at === last ? !follows(last) : !accepts(at, last);
  };

  /** Whether line `at`, a good record, is not the one that was noted elsewhere. */
  const contradicted = (at: number) =>
    noted.some(({ seq, hash }) => seq === recordAt(at)?.seq && hash !== lineAt(at).hash);

  let failed: number | null = null;
  let tail: number | null = null;
  for (let at = 0; at <= last;) {
    if (failed !== null) {
      if (accepts(failed, at)) {
        failed = contradicted(at) ? at : null;
        if (failed === null) good.push(at);
      }
      at += 1;
      continue;
    }
    const to = lines.findIndex((_, to) => to > at && recovers(at, to));
    if (to >= 0) {
      if (contradicted(to)) {
        failed = to;
      } else {
        recoveries.push(place(at));
        good.push(to);
      }
      at = to + 1;
    } else if (torn(at)) {
      tail = at;
      break;
    } else {
      if (follows(at) && !contradicted(at)) good.push(at);
      else failed = at;
      at += 1;
    }
  }

  let failure = failed === null ? null : place(failed);
  if (failure === null && noted.some(({ seq }) => seq >= nextSeq())) {
    const after = good.length === 0
      ? { file: files.at(-1)?.name ?? "", line: 0 }
      : place(good.at(-1) ?? 0);
    failure = tail === null ? { file: after.file, line: after.line + 1 } : place(tail);
  }

  const records = good.flatMap((at) => recordAt(at) ?? []);
  const of = (type: string) => records.filter(({ event }) => event.type === type);
  const outcome = ({ event }: Read) => isTable(event.outcome) ? String(event.outcome.outcome) : "";
  const decided = (word: string) => of("decision").filter((one) => outcome(one) === word);
  /** Whether a record of `type` after `start` belongs to the decision `seq`. */
  const later = (type: string, seq: number, start: Read) =>
    of(type).some((one) => one.event.decision === seq && one.seq > start.seq);
  const started = [
    ...decided("allowed").map((one) => [one.seq, one] as const),
    ...of("approval").filter((one) => outcome(one) !== "denied")
      .map((one) => [Number(one.event.decision), one] as const),
  ];
  const ascending = (list: readonly number[]) => [...new Set(list)].sort((a, b) => a - b);
  return {
    records: records.length,
    head: records.length === 0 ? null : head(),
    next_seq: nextSeq(),
    failure: failure === null ? null : { ...failure, what: "" },
    recoveries,
    accepted_breaks: good.filter((at) => recordAt(at)?.event.type === "accepted_break").map(place),
    abandoned: decided("ask").filter((one) => !later("approval", one.seq, one))
      .map(({ seq }) => seq),
    unfinished: ascending(
      started.filter(([seq, one]) => !later("result", seq, one)).map(([seq]) => seq),
    ),
    clock_warnings: good.filter((at, index) => {
      const before = good[index - 1];
      const time = (one: number) => recordAt(one)?.time ?? "";
      return before !== undefined && time(at) < time(before);
    }).map(place),
    torn_tail: tail === null || failure !== null ? null : place(tail),
    anchored: anchors.head?.seq ?? null,
  };
}
