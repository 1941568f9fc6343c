/**
 * The session log's entries, and what its bytes come to (contracts 7 and 8). One entry a line, in its
 * one form. A torn end is ended and described by a `recovery` entry; nothing is deleted, ever. Pure.
 */
import * as z from "zod";
import { CallId, Hash32, SessionId, sha256, Timestamp } from "../proto/ids.ts";
import { formatExact, parseExact } from "../proto/json.ts";
import { type Line, LineSplitter } from "../proto/lines.ts";
import { fromUtf8, text, u64, utf8 } from "../proto/text.ts";
import { DataClass } from "../proto/tools.ts";

export const LogEntry = z.discriminatedUnion("type", [
  /** Always the first. */
  z.strictObject({
    type: z.literal("start"),
    time: Timestamp,
    session: SessionId,
    /** The system prompt of the whole session. */
    system: text,
  }),
  z.strictObject({ type: z.literal("user"), time: Timestamp, text }),
  /** Pieces of the model's answer, in the order they came. */
  z.strictObject({ type: z.literal("reasoning"), text }),
  z.strictObject({ type: z.literal("text"), text }),
  /** Ends an answer that asks for tools: names and arguments as the model gave them. */
  z.strictObject({
    type: z.literal("calls"),
    calls: z.array(z.strictObject({ call: CallId, name: text, arguments: text })),
  }),
  /** What the model is told of a call. Class and flag are brokerd's word, null where it gave none. */
  z.strictObject({
    type: z.literal("result"),
    call: CallId,
    status: z.enum(["result", "failed", "denied"]),
    content: text,
    class: DataClass.nullable(),
    untrusted: z.boolean().nullable(),
  }),
  z.strictObject({
    type: z.literal("end"),
    time: Timestamp,
    outcome: z.enum(["done", "failed", "interrupted"]),
    message: text.nullable(),
  }),
  /** Describes the torn lines right before it, which count for nothing. */
  z.strictObject({
    type: z.literal("recovery"),
    time: Timestamp,
    torn_bytes: u64,
    torn_sha256: Hash32,
  }),
]);
export type LogEntry = z.infer<typeof LogEntry>;
export type EntryOf<T extends LogEntry["type"]> = Extract<LogEntry, { type: T }>;

/** The line of `entry` with its newline. Throws where a field does not fit its type. */
export function formatEntry(entry: LogEntry): Uint8Array<ArrayBuffer> {
  return utf8(formatExact(LogEntry, entry) + "\n");
}

/** The end of a log that a crash cut short. */
export interface Torn {
  /** Without the newline that ends it, if there is one. */
  readonly bytes: number;
  readonly sha256: Hash32;
  readonly ended: boolean;
}

export type LogReading =
  | { readonly ok: true; readonly entries: LogEntry[]; readonly torn: Torn | null }
  /** `line`: 1-based. */
  | { readonly ok: false; readonly line: number; readonly problem: string };

interface ReadLine extends Line {
  /** Null where the line does not parse or has no newline. */
  readonly entry: LogEntry | null;
}

/** Reads the whole log of `session`. */
export function readLog(bytes: Uint8Array, session: SessionId): LogReading {
  const lines = readLines(bytes);
  const tornFrom = startOfTornEnd(lines);
  const entries: { readonly entry: LogEntry | null; readonly line: number }[] = [];
  for (const [index, { entry }] of lines.slice(0, tornFrom).entries()) {
    if (entry?.type === "recovery") {
      const covered = coveredBy(entry, lines.slice(0, index));
      if (covered === null) {
        return damage(index + 1, "a recovery that does not fit what it follows");
      }
      entries.splice(entries.findLastIndex(({ line }) => line <= covered) + 1);
    }
    entries.push({ entry, line: index + 1 });
  }
  const order = new Order(session);
  const good: LogEntry[] = [];
  for (const { entry, line } of entries) {
    if (entry === null) return damage(line, "not an entry");
    const problem = order.problem(entry);
    if (problem !== null) return damage(line, problem);
    good.push(entry);
  }
  return { ok: true, entries: good, torn: describe(lines.slice(tornFrom)) };
}

function damage(line: number, problem: string): LogReading {
  return { ok: false, line, problem };
}

function readLines(bytes: Uint8Array): ReadLine[] {
  const splitter = new LineSplitter();
  const lines: ReadLine[] = [...splitter.push(bytes)].map((line) => {
    const content = fromUtf8(line.bytes);
    return { ...line, entry: content === null ? null : parseExact(LogEntry, content) };
  });
  const rest = splitter.end();
  return rest === null ? lines : [...lines, { ...rest, entry: null }];
}

/**
 * Where the torn end begins: at the last line when it does not count, or before it where that is the
 * beginning of a recovery which was itself cut short.
 */
function startOfTornEnd(lines: readonly ReadLine[]): number {
  let from = lines.length;
  if (lines.at(-1)?.entry !== null) return from;
  from -= 1;
  while (from > 0 && lines[from - 1]?.entry === null && isCutRecovery(lines[from])) from -= 1;
  return from;
}

const RECOVERY = '{"type":"recovery"';

function isCutRecovery(line: ReadLine | undefined): boolean {
  const content = new TextDecoder().decode(line?.bytes);
  return content.startsWith(RECOVERY) || RECOVERY.startsWith(content);
}

/** How many of `lines` stand before those that `recovery` describes, or null where it fits none. */
function coveredBy(recovery: EntryOf<"recovery">, lines: readonly ReadLine[]): number | null {
  for (let from = lines.length - 1, size = -1; from >= 0; from--) {
    size += 1 + (lines[from]?.bytes.length ?? 0);
    if (size < recovery.torn_bytes) continue;
    const torn = describe(lines.slice(from));
    return torn?.bytes === recovery.torn_bytes && torn.sha256 === recovery.torn_sha256
      ? from
      : null;
  }
  return null;
}

/** The lines of a torn end as one, or null where there are none. */
function describe(lines: readonly ReadLine[]): Torn | null {
  const last = lines.at(-1);
  if (last === undefined) return null;
  const size = lines.reduce((sum, { bytes }) => sum + bytes.length + 1, -1);
  const whole = new Uint8Array(size).fill(0x0a);
  let at = 0;
  for (const { bytes } of lines) {
    whole.set(bytes, at);
    at += bytes.length + 1;
  }
  return { bytes: size, sha256: sha256(whole), ended: last.ended };
}

/** The bytes that make a log with the torn end `torn` whole again. */
export function recoveryOf(torn: Torn, time: Timestamp): Uint8Array<ArrayBuffer> {
  const line = formatEntry({
    type: "recovery",
    time,
    torn_bytes: torn.bytes,
    torn_sha256: torn.sha256,
  });
  if (torn.ended) return line;
  const bytes = new Uint8Array(line.length + 1);
  bytes[0] = 0x0a;
  bytes.set(line, 1);
  return bytes;
}

/** Holds the entries against each other: what a conversation is made of must fit together. */
class Order {
  readonly #session: SessionId;
  #started = false;
  readonly #asked = new Set<CallId>();
  readonly #answered = new Set<CallId>();

  constructor(session: SessionId) {
    this.#session = session;
  }

  /** What is wrong with `entry` as the next one, or null. */
  problem(entry: LogEntry): string | null {
    if (entry.type === "recovery") return null;
    if (!this.#started) {
      this.#started = true;
      if (entry.type !== "start") return "the first entry is not a start";
      return entry.session === this.#session ? null : "the log of another session";
    }
    switch (entry.type) {
      case "start":
        return "a second start";
      case "calls":
        for (const { call } of entry.calls) {
          if (this.#asked.has(call)) return "a call that was asked before";
          this.#asked.add(call);
        }
        return null;
      case "result":
        if (!this.#asked.has(entry.call)) return "a result of no call";
        if (this.#answered.has(entry.call)) return "a second result of a call";
        this.#answered.add(entry.call);
        return null;
      default:
        return null;
    }
  }
}
