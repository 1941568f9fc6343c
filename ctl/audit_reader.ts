/**
 * The records of a log as its files have them, whole or not, for the commands that show them: whether
 * the log can be believed is `audit verify`'s to say. Holds one line and one record.
 */
import { type AuditRecord, parseRecord } from "../proto/audit.ts";
import type { Timestamp } from "../proto/ids.ts";
import { type Attempt, attempt, LineFile, namesIn } from "./audit_files.ts";
import { type LineRead, unwatched } from "./progress.ts";

export interface ReaderOptions {
  /** Leaves out the records before this time, and the files that can have no other. */
  readonly since?: Timestamp | null;
  /** Which lines are parsed at all, that of each recovery among them; the others are passed over. */
  readonly wanted?: (line: Uint8Array) => boolean;
  /** Told of each line that was read. */
  readonly lineRead?: LineRead;
}

/** Reads a log to its end, and on from there once more was written, into files of new names too. */
export class LogReader implements Disposable {
  readonly #directory: string;
  readonly #since: Timestamp | null;
  readonly #wanted: (line: Uint8Array) => boolean;
  readonly #lineRead: LineRead;
  #name = "";
  #file: LineFile | null = null;
  /** A record right before a recovery is a part of what that recovered, and none (contracts 5.2). */
  #held: AuditRecord | null = null;
  #unparsed = 0;
  #problem: { readonly path: string; readonly why: string } | null = null;

  /** Of the log in `directory`, which may be missing. */
  constructor(
    directory: string,
    { since = null, wanted = () => true, lineRead = unwatched }: ReaderOptions = {},
  ) {
    this.#directory = directory;
    this.#since = since;
    this.#wanted = wanted;
    this.#lineRead = lineRead;
  }

  /** How many lines so far were no records. */
  get unparsed(): number {
    return this.#unparsed;
  }

  /** The first place that could not be read, and why; null where all could. */
  get problem(): { readonly path: string; readonly why: string } | null {
    return this.#problem;
  }

  /**
   * The records since the last call, up to the present end. Lines that do not parse and files that cannot
   * be read are passed over. Throws `Failed` where this process lacks the permission to read.
   */
  *more(): Generator<AuditRecord> {
    while (true) {
      yield* this.#rest();
      const next = this.#nextName();
      if (next === undefined) break;
      // What was written before the next file was there: brokerd writes to this one no more.
      yield* this.#rest();
      yield* this.#release();
      this.#open(next);
    }
    yield* this.#release();
  }

  [Symbol.dispose](): void {
    this.#file?.[Symbol.dispose]();
    this.#file = null;
  }

  #nextName(): string | undefined {
    // A file has no records of a later day than its name: those start a new file.
    const first = this.#since?.slice(0, 10) ?? "";
    return this.#read(this.#directory, () => namesIn(this.#directory))
      ?.find((name) => name > this.#name && name.slice(0, 10) >= first);
  }

  #open(name: string): void {
    this.#file?.[Symbol.dispose]();
    const path = `${this.#directory}/${name}`;
    this.#file = this.#read(path, () => new LineFile(path));
    this.#name = name;
  }

  #read<T>(path: string, run: () => T): T | null {
    const read: Attempt<T> = attempt(path, run);
    if (read.ok) return read.value;
    this.#problem ??= { path, why: read.why };
    return null;
  }

  /** The records of the lines that the open file has gained. */
  *#rest(): Generator<AuditRecord> {
    const lines = this.#file?.more();
    while (lines !== undefined) {
      const next = this.#read(`${this.#directory}/${this.#name}`, () => lines.next());
      if (next === null || next.done === true) return;
      const { bytes, text } = next.value;
      this.#lineRead(bytes.length + 1);
      const wanted = this.#wanted(bytes);
      const record = wanted ? parseRecord(bytes, text ?? undefined) : null;
      if (wanted && record === null) this.#unparsed += 1;
      if (record?.event.type === "recovery") this.#held = null;
      yield* this.#release();
      this.#held = record;
    }
  }

  *#release(): Generator<AuditRecord> {
    const record = this.#held;
    this.#held = null;
    if (record === null) return;
    if (this.#since === null || record.time >= this.#since) yield record;
  }
}
