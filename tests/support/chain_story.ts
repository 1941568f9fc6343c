/** Random lives of an audit log: records, crashes, recoveries, accepted breaks and tampering. Pure. */
import fc from "fast-check";
import { type AuditEvent, encodeRecord, parseRecord } from "../../proto/audit.ts";
import type { Anchors, ChainReport } from "../../proto/chain.ts";
import { type Hash32, sha256, ZERO_HASH } from "../../proto/ids.ts";
import type { LogFile } from "./audit_case.ts";
import { acceptedBreak, approval, decision, recovery, result } from "./chain_log.ts";
import { verifyNaively } from "./naive_chain.ts";

/** One event in the life of a log. `a`, `b` and `c` choose where and how, as far as `what` needs it. */
export interface Step {
  readonly what: (typeof STEPS)[number];
  readonly a: number;
  readonly b: number;
  readonly c: number;
}

/** In order of how much goes wrong, so that a failing case shrinks to the plain ones. */
export const STEPS = [
  ...["record", "record", "record", "file", "crash", "restart", "crash", "restart", "accept"],
  ...["record", "accept", "clock"],
  ...["byte", "cut", "insert", "delete", "swap", "double", "garbage"],
  ...["false recovery", "false break", "stray record"],
] as const;

const choice = fc.nat(1000);

/** Stories of some twenty steps. */
export const storySteps = fc.array(
  fc.record({ what: fc.constantFrom(...STEPS), a: choice, b: choice, c: choice }),
  { maxLength: 30, size: "max" },
);

const NEWLINE = 0x0a;
const NO_ANCHORS: Anchors = { head: null, expected: null };
const FIRST_DAY = Date.parse("2026-11-28T10:00:00.000Z");
const DAY_MS = 86_400_000;

interface Place {
  readonly file: number;
  readonly line: number;
}

/** A log to which things happen. */
export class Story {
  #files: { readonly name: string; bytes: Uint8Array }[] = [];
  #nextSeq = 0;
  #prev: Hash32 = ZERO_HASH;
  #now = FIRST_DAY;

  constructor() {
    this.#addFile();
  }

  files(): LogFile[] {
    return this.#files.map(({ name, bytes }) => ({ name, bytes }));
  }

  /** Lines of a file without their newlines; what stands after the last newline is one too. */
  #lines(file: number): Uint8Array[] {
    const lines: Uint8Array[] = [];
    const bytes = this.#bytes(file);
    for (let from = 0; from < bytes.length;) {
      const at = bytes.indexOf(NEWLINE, from);
      lines.push(bytes.slice(from, at < 0 ? bytes.length : at));
      from = at < 0 ? bytes.length : at + 1;
    }
    return lines;
  }

  #bytes(file: number): Uint8Array {
    return this.#files[file]?.bytes ?? new Uint8Array();
  }

  #addFile(): void {
    const name = `${
      new Date(FIRST_DAY + this.#files.length * DAY_MS).toISOString().slice(0, 10)
    }.jsonl`;
    this.#files.push({ name, bytes: new Uint8Array() });
  }

  /** The newest file that is not empty. */
  get #newest(): number {
    return Math.max(0, this.#files.findLastIndex(({ bytes }) => bytes.length > 0));
  }

  #append(file: number, bytes: Iterable<number>): void {
    const found = this.#files[file];
    if (found) found.bytes = new Uint8Array([...found.bytes, ...bytes]);
  }

  #set(file: number, bytes: Iterable<number>): void {
    const found = this.#files[file];
    if (found) found.bytes = new Uint8Array(bytes);
  }

  #line(seq: number, prev: Hash32, event: AuditEvent): Uint8Array {
    return encodeRecord({ seq, time: new Date(this.#now).toISOString(), prev, event });
  }

  /** Writes the record `event`, all but its last `missing` bytes, and goes on from it. */
  #write(file: number, event: AuditEvent, missing = 0): void {
    const line = this.#line(this.#nextSeq, this.#prev, event);
    this.#append(file, [...line, NEWLINE].slice(0, Math.max(0, line.length + 1 - missing)));
    if (missing > 0) return;
    this.#nextSeq += 1;
    this.#prev = sha256(line);
  }

  #event(a: number, b: number): AuditEvent {
    const seq = this.#nextSeq === 0 ? 0 : b % this.#nextSeq;
    const answers = ["approved", "refused", "expired"] as const;
    switch (a % 5) {
      case 0:
        return decision("denied", b);
      case 1:
        return decision("allowed", b);
      case 2:
        return decision("ask", b);
      case 3:
        return approval(seq, answers[b % 3] ?? "approved", b % 2 === 0 ? "ask" : "allowed");
      default:
        return result(seq);
    }
  }

  /** A line, counted over all files. */
  #place(n: number): Place | null {
    const places = this.#files.flatMap((_, file) =>
      this.#lines(file).map((_, line) => ({ file, line }))
    );
    return places[n % places.length] ?? null;
  }

  /** Changes the lines of a file; a last line without its newline keeps lacking it. */
  #edit(file: number, edit: (lines: Uint8Array[]) => Uint8Array[]): void {
    const unended = this.#bytes(file).at(-1) !== NEWLINE;
    const bytes = edit(this.#lines(file)).flatMap((line) => [...line, NEWLINE]);
    this.#set(file, unended ? bytes.slice(0, -1) : bytes);
  }

  /** As a start of brokerd; `missing` bytes of what it writes do not reach the disk. */
  #restart(accept: boolean, missing: number): void {
    const report = verifyNaively(this.files(), NO_ANCHORS);
    const { failure } = report;
    const file = this.#newest;
    const lines = this.#lines(file);
    const newline = this.#bytes(file).length > 0 && this.#bytes(file).at(-1) !== NEWLINE;
    const good = report.head ?? ZERO_HASH;
    if (failure !== null && !accept) return;
    const before = [...this.#bytes(file)];
    if (newline) this.#append(file, [NEWLINE]);
    this.#nextSeq = report.next_seq;
    this.#prev = good;
    if (failure !== null) {
      this.#nextSeq = report.next_seq + lines.length;
      this.#prev = sha256(lines.at(-1) ?? new Uint8Array());
      this.#write(file, acceptedBreak(failure, good), 0);
    } else if (report.torn_tail !== null) {
      this.#write(file, recovery(lines.slice(report.torn_tail.line - 1)), 0);
    }
    // One write: when its end is lost, what remains is its beginning.
    const after = this.#bytes(file);
    this.#set(file, after.slice(0, Math.max(before.length, after.length - missing)));
  }

  happen({ what, a, b, c }: Step): void {
    this.#now += 1000;
    const last = this.#files.length - 1;
    const place = this.#place(a);
    switch (what) {
      case "record":
        return this.#write(last, this.#event(a, b));
      case "file":
        return this.#addFile();
      case "crash":
        return this.#write(last, this.#event(a, b), 1 + c % 300);
      case "restart":
        return this.#restart(false, b % 3 === 0 ? c % 250 : 0);
      case "accept":
        return this.#restart(true, b % 4 === 0 ? c % 250 : 0);
      case "clock":
        this.#now += (a - b) * 1000;
        return;
      case "false recovery":
        return this.#falseRecovery(last, a, b, c);
      case "false break":
        return this.#falseBreak(last, a, b, c);
      case "stray record":
        return this.#append(last, [
          ...this.#line(Math.max(0, this.#nextSeq + a % 3 - 1), this.#prev, this.#event(b, c)),
          NEWLINE,
        ]);
      default:
        if (place !== null) this.#tamper(what, place, b, c);
    }
  }

  #tamper(what: Step["what"], { file, line }: Place, b: number, c: number): void {
    const bytes = this.#bytes(file);
    const at = bytes.length === 0 ? 0 : c % bytes.length;
    const byte = b % 5 === 0 ? NEWLINE : 0x20 + b % 0x5f;
    const other = c % this.#lines(file).length;
    switch (what) {
      case "byte":
        return this.#set(file, bytes.with(at, byte));
      case "cut":
        return this.#set(file, [...bytes].toSpliced(at, 1 + b % 3));
      case "insert":
        return this.#set(file, [...bytes].toSpliced(at, 0, byte));
      case "delete":
        return this.#edit(file, (lines) => lines.toSpliced(line, 1));
      case "swap":
        return this.#edit(file, (lines) => {
          const [one, two] = [lines[line], lines[other]];
          return one && two ? lines.with(line, two).with(other, one) : lines;
        });
      case "double":
        return this.#edit(
          file,
          (lines) => lines.toSpliced(other, 0, ...lines.slice(line, line + 1)),
        );
      case "garbage":
        return this.#edit(file, (lines) => lines.toSpliced(other, 0, new Uint8Array(b % 4)));
    }
  }

  /** A recovery of the last lines, right or wrong in one point. */
  #falseRecovery(file: number, a: number, b: number, c: number): void {
    const lines = this.#lines(file).slice(-(1 + a % 3));
    if (lines.length === 0) return;
    const covered = recovery(b % 4 === 0 ? lines.slice(1) : lines);
    // Sometimes after the record that stands before those lines, as it should be.
    const before = parseRecord(this.#lines(file).at(-lines.length - 1) ?? new Uint8Array());
    const header = before === null || b % 2 === 0
      ? { seq: this.#nextSeq, prev: this.#prev }
      : { seq: before.seq + 1, prev: sha256(encodeRecord(before)) };
    const line = this.#line(header.seq, header.prev, covered);
    const ended = this.#bytes(file).at(-1) === NEWLINE;
    this.#append(file, [...(ended ? [] : [NEWLINE]), ...line, ...(c % 3 === 0 ? [] : [NEWLINE])]);
    if (c % 2 === 0) [this.#nextSeq, this.#prev] = [header.seq + 1, sha256(line)];
  }

  /** An accepted break that names some line, right or wrong in some points. */
  #falseBreak(file: number, a: number, b: number, c: number): void {
    const report: ChainReport = verifyNaively(this.files(), NO_ANCHORS);
    const place = this.#place(c);
    const self = {
      file: this.#files[file]?.name ?? "",
      line: this.#lines(file).length + 1,
    };
    const named = a % 3 === 0
      ? self
      : a % 3 === 1 && report.failure !== null
      ? report.failure
      : { file: this.#files[place?.file ?? 0]?.name ?? "", line: (place?.line ?? 0) + 1 };
    const right = sha256(this.#lines(this.#newest).at(-1) ?? new Uint8Array());
    const prev = b % 2 === 0 ? right : this.#prev;
    const good = b % 3 === 0 ? prev : report.head ?? ZERO_HASH;
    const seq = Math.max(0, report.next_seq + b % 5 - 1);
    const line = this.#line(seq, prev, acceptedBreak(named, good));
    const ended = this.#bytes(file).length === 0 || this.#bytes(file).at(-1) === NEWLINE;
    this.#append(file, [...(ended ? [] : [NEWLINE]), ...line, ...(c % 3 === 0 ? [] : [NEWLINE])]);
    if (c % 2 === 0) [this.#nextSeq, this.#prev] = [seq + 1, sha256(line)];
  }

  /** Anchors for this log: none, right ones and wrong ones. */
  anchors(a: number, b: number, c: number): Anchors {
    const records = this.#files.flatMap((_, file) => this.#lines(file))
      .flatMap((line) => {
        const record = parseRecord(line);
        return record === null ? [] : [{ seq: record.seq, hash: sha256(line) }];
      });
    const some = records[b % records.length] ?? { seq: 0, hash: ZERO_HASH };
    const kinds = [
      null,
      some,
      records.at(-1) ?? null,
      { ...some, hash: ZERO_HASH },
      { ...some, seq: some.seq + c % 4 },
    ];
    return { head: kinds[a % 12] ?? null, expected: kinds[c % 24] ?? null };
  }
}
