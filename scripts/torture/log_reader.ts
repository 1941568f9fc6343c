/**
 * The audit log read by itself: written from the specification alone (specification 5; contracts 5), so that
 * a misunderstanding of the programs shows. Nothing here is theirs.
 */
import { createHash } from "node:crypto";

/** A record of the log, with the place where it stands. */
export interface LogRecord {
  readonly at: string;
  readonly seq: number;
  readonly event: Readonly<Record<string, unknown>> & { readonly type: string };
}

export interface LogRead {
  readonly records: readonly LogRecord[];
  readonly problems: readonly string[];
}

const ZEROS = "0".repeat(64);
const HEAD_BYTES = 128;

const isHash = (value: unknown) => typeof value === "string" && /^[0-9a-f]{64}$/.test(value);
const isText = (value: unknown) => typeof value === "string" && value.isWellFormed();
const isCount = (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0;
const isFlag = (value: unknown) => typeof value === "boolean";
const isOneOf = (...words: string[]) => (value: unknown) => words.includes(String(value));
const isSession = (value: unknown) => typeof value === "string" && /^[a-z0-9-]{1,64}$/.test(value);
const isCall = (value: unknown) => typeof value === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(value);
const isClass = isOneOf("public", "private", "secret");
const orNull = (is: (value: unknown) => boolean) => (value: unknown) => value === null || is(value);

const REASONS = [
  ...["no_grant", "grant_expired", "taint_too_high", "denied_by_grant", "approval_refused"],
  ...["approval_expired", "invalid_arguments", "grants_invalid", "audit_unavailable"],
  "state_unreadable",
];

function isOutcome(value: unknown): boolean {
  const text = JSON.stringify(value);
  return text === '{"outcome":"allowed"}' || text === '{"outcome":"ask"}' ||
    REASONS.some((reason) => text === `{"outcome":"denied","reason":"${reason}"}`);
}

type Shape = Readonly<Record<string, (value: unknown) => boolean>>;

/** The keys of each event after `type`, in the order they stand in. */
const EVENTS: Readonly<Record<string, Shape>> = {
  decision: {
    session: isSession,
    call: isCall,
    tool: isText,
    arguments: isText,
    outcome: isOutcome,
    grant: orNull(isText),
    grant_sha256: orNull(isHash),
    taint: isClass,
    untrusted: isFlag,
  },
  approval: {
    session: isSession,
    call: isCall,
    decision: isCount,
    answer: isOneOf("approved", "refused", "expired"),
    by: orNull(isText),
    post: orNull(isText),
    reason: orNull(isText),
    outcome: isOutcome,
  },
  result: {
    session: isSession,
    call: isCall,
    decision: isCount,
    status: isOneOf("result", "failed"),
    class: isClass,
    untrusted: isFlag,
    truncated: isFlag,
    bytes: isCount,
    sha256: isHash,
    taint_after: isClass,
  },
  recovery: { torn_bytes: isCount, torn_sha256: isHash },
  accepted_break: { file: isText, line: isCount, last_good: isHash },
};

function hasShape(value: unknown, shape: Shape): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const entries = Object.entries(value);
  const keys = Object.keys(shape);
  return entries.length === keys.length &&
    entries.every(([key, held], at) => key === keys[at] && shape[key]?.(held) === true);
}

function isTime(value: unknown): boolean {
  if (typeof value !== "string" || !/^\d{4}(-\d\d){2}T\d\d(:\d\d){2}\.\d{3}Z$/.test(value)) {
    return false;
  }
  const time = new Date(value);
  return !Number.isNaN(time.getTime()) && time.toISOString() === value;
}

interface Parsed {
  readonly seq: number;
  readonly prev: string;
  readonly event: LogRecord["event"];
}

/** The record that `line` is, or null. */
function parse(line: Uint8Array): Parsed | null {
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(line);
    value = JSON.parse(text);
  } catch {
    return null;
  }
  // One byte form only: it leaves no room for two equal keys, white space or other escapes.
  if (JSON.stringify(value) !== text) return null;
  const isEvent = (event: unknown) => {
    if (typeof event !== "object" || event === null || !("type" in event)) return false;
    const shape = EVENTS[String(event.type)];
    return shape !== undefined && hasShape(event, { type: isText, ...shape });
  };
  if (!hasShape(value, { seq: isCount, time: isTime, prev: isHash, event: isEvent })) return null;
  return {
    seq: Number(value.seq),
    prev: String(value.prev),
    event: value.event as Parsed["event"],
  };
}

function hashOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** One line of a file, and whether a newline ends it. */
interface Line {
  readonly at: string;
  readonly bytes: Uint8Array;
  readonly ended: boolean;
}

function linesOf(directory: string, name: string): Line[] {
  const bytes = Deno.readFileSync(`${directory}/${name}`);
  const lines: Line[] = [];
  for (let start = 0, number = 1; start < bytes.length; number += 1) {
    const newline = bytes.indexOf(0x0a, start);
    const end = newline < 0 ? bytes.length : newline;
    const at = `${name}:${number}`;
    lines.push({ at, bytes: bytes.subarray(start, end), ended: newline >= 0 });
    start = end + 1;
  }
  return lines;
}

/** The names in `directory`, in order; none where it has not been made yet. */
export function namesIn(directory: string): string[] {
  try {
    return [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** The lines of a torn run as one piece, its inner newlines included. */
function joined(lines: readonly Line[]): Uint8Array {
  const pieces = lines.map(({ bytes }, at) =>
    at < lines.length - 1 ? Uint8Array.of(...bytes, 0x0a) : bytes
  );
  const whole = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/**
 * Reads the log in `directory`. `mayBeTorn`: lines at the end of the newest file that a crash cut are no
 * problem.
 */
export function readLog(directory: string, mayBeTorn: boolean): LogRead {
  const names = namesIn(directory).filter((name) => /^\d{4}-\d\d-\d\d\.jsonl$/.test(name));
  const files = names.map((name) => linesOf(directory, name)).filter(({ length }) => length > 0);
  const records: LogRecord[] = [];
  const problems: string[] = [];
  let seq = 0;
  let prev = ZEROS;

  const chained = (line: Line, record: Parsed): boolean => {
    const follows = record.seq === seq && record.prev === prev;
    if (!follows) problems.push(`${line.at}: does not follow the line before it`);
    return follows;
  };
  const take = (line: Line, record: Parsed) => {
    records.push({ at: line.at, seq: record.seq, event: record.event });
    seq = record.seq + 1;
    prev = hashOf(line.bytes);
  };

  for (const [index, lines] of files.entries()) {
    let torn: Line[] = [];
    for (const [at, line] of lines.entries()) {
      const record = parse(line.bytes);
      const next = lines[at + 1];
      // A recovery may cover a whole record that lacked nothing but its newline.
      const covered = record !== null && next !== undefined &&
        coversExactly(parse(next.bytes), [...torn, line]);
      if (record === null || !line.ended || covered) {
        torn.push(line);
        continue;
      }
      if (record.event.type === "accepted_break") problems.push(`${line.at}: an accepted break`);
      const covers = coversExactly(record, torn);
      if (record.event.type === "recovery" && !covers || torn.length > 0 && !covers) {
        const [first = line] = torn;
        problems.push(`${first.at}: does not parse, and no recovery describes it`);
      }
      torn = [];
      if (!chained(line, record)) return { records, problems };
      take(line, record);
    }
    const [first] = torn;
    if (first !== undefined && (index < files.length - 1 || !mayBeTorn)) {
      problems.push(`${first.at}: is torn`);
    }
  }
  problems.push(...headProblems(directory, records, seq, prev));
  return { records, problems };
}

/** Whether `record` is a recovery of exactly `torn`. */
function coversExactly(record: Parsed | null, torn: readonly Line[]): boolean {
  if (record?.event.type !== "recovery" || torn.length === 0) return false;
  const whole = joined(torn);
  return record.event.torn_bytes === whole.length && record.event.torn_sha256 === hashOf(whole);
}

/** What `head.json` says against the log: it may lag, never lead. None, or one that nobody wrote whole, says nothing. */
function headProblems(
  directory: string,
  records: readonly LogRecord[],
  nextSeq: number,
  prev: string,
): string[] {
  let text: string;
  try {
    text = Deno.readTextFileSync(`${directory}/head.json`);
  } catch {
    return [];
  }
  const [, seq, hash] = /^\{"seq":(\d+),"hash":"([0-9a-f]{64})"\} *\n$/.exec(text) ?? [];
  if (text.length !== HEAD_BYTES || seq === undefined) return [];
  if (Number(seq) >= nextSeq) return [`head.json: names record ${seq}, and the log ends before it`];
  if (Number(seq) === nextSeq - 1 && hash !== prev) {
    return ["head.json: another hash than the log's"];
  }
  return records.some((record) => record.seq === Number(seq))
    ? []
    : [`head.json: names record ${seq}, which is not there`];
}
