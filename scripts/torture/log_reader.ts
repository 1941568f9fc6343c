/**
 * The audit log read by itself: written from the specification alone (specification 5; contracts 5), so that
 * a misunderstanding of the programs shows. Nothing here is theirs.
 */
import { createHash } from "node:crypto";

/** A record of the log, with the place where it stands. */
export interface LogRecord {
  readonly at: string;
  readonly seq: number;
  /** Of its line, without the newline. */
  readonly hash: string;
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
const isOneOf = (...words: string[]) => (value: unknown) =>
  typeof value === "string" && words.includes(value);
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
    const { type } = event;
    if (typeof type !== "string" || !Object.hasOwn(EVENTS, type)) return false;
    const shape = EVENTS[type];
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

/**
 * The names in `directory`, in order: none where it has not been made yet, null where it cannot be listed,
 * such as a file in its place.
 */
export function namesIn(directory: string): string[] | null {
  try {
    return [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
  } catch (error) {
    return error instanceof Deno.errors.NotFound ? [] : null;
  }
}

/** Whether `path` is a regular file, or a link to one. Anything else is never opened: a FIFO would block. */
export function isRegular(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

/** Whether `name` is a file of the log: a real date, and nothing else. */
function isOfLog(name: string): boolean {
  return /^.{10}\.jsonl$/.test(name) && isTime(`${name.slice(0, 10)}T00:00:00.000Z`);
}

/** Neighbouring lines of one file as one piece, their inner newlines included. */
function joined(lines: readonly Line[]): Uint8Array {
  const [first, last] = [lines[0]?.bytes, lines.at(-1)?.bytes];
  if (first === undefined || last === undefined) return new Uint8Array();
  const length = last.byteOffset + last.length - first.byteOffset;
  return new Uint8Array(first.buffer, first.byteOffset, length);
}

/**
 * Reads the log in `directory`. `mayBeTorn`: lines at the end of the newest file that a crash cut are no
 * problem.
 */
export function readLog(directory: string, mayBeTorn: boolean): LogRead {
  // First, since brokerd may be writing: read after the log it could lead it.
  const head = readHead(directory);
  const records: LogRecord[] = [];
  const problems: string[] = [];
  const names = namesIn(directory)?.filter(isOfLog);
  if (names === undefined) return { records, problems: [`${directory}: cannot be listed`] };
  const unread = names.filter((name) => !isRegular(`${directory}/${name}`));
  problems.push(...unread.map((name) => `${name}:0: is no regular file`));
  const files = names.filter((name) => !unread.includes(name))
    .map((name) => linesOf(directory, name)).filter(({ length }) => length > 0);
  let seq = 0;
  let prev = ZEROS;

  const chained = (line: Line, record: Parsed): boolean => {
    const follows = record.seq === seq && record.prev === prev;
    if (!follows) problems.push(`${line.at}: does not follow the line before it`);
    return follows;
  };
  const take = (line: Line, record: Parsed) => {
    const hash = hashOf(line.bytes);
    records.push({ at: line.at, seq: record.seq, hash, event: record.event });
    seq = record.seq + 1;
    prev = hash;
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
  const headed = head === null ? null : headProblem(head, records);
  if (headed !== null) problems.push(headed);
  return { records, problems };
}

/** Whether `record` is a recovery of exactly `torn`. */
function coversExactly(record: Parsed | null, torn: readonly Line[]): boolean {
  if (record?.event.type !== "recovery" || torn.length === 0) return false;
  const whole = joined(torn);
  return record.event.torn_bytes === whole.length && record.event.torn_sha256 === hashOf(whole);
}

interface Head {
  readonly seq: number;
  readonly hash: string;
}

/** What `head.json` says; null where there is none, or one that nobody wrote whole. */
function readHead(directory: string): Head | null {
  const path = `${directory}/head.json`;
  if (!isRegular(path)) return null;
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Deno.readFileSync(path));
  const [, seq, hash] = /^\{"seq":(\d+),"hash":"([0-9a-f]{64})"\} *\n$/.exec(text) ?? [];
  if (seq === undefined || hash === undefined || !isCount(Number(seq))) return null;
  const head = { seq: Number(seq), hash };
  return text === `${JSON.stringify(head).padEnd(HEAD_BYTES - 1)}\n` ? head : null;
}

/** What `head` says against the log, or null: it may lag, never lead. */
function headProblem({ seq, hash }: Head, records: readonly LogRecord[]): string | null {
  const record = records.find((record) => record.seq === seq);
  if (record === undefined) return `head.json:1: names record ${seq}, and the log ends before it`;
  return record.hash === hash ? null : `${record.at}: head.json has another hash of it`;
}
