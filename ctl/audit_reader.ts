/**
 * The records of a log as its files have them, whole or not, for the commands that show them: whether
 * the log can be believed is `audit verify`'s to say. Holds one line and one record.
 */
import { type AuditRecord, parseRecord } from "../proto/audit.ts";
import { attempt, LineFile, namesIn } from "./audit_files.ts";
import { type LineRead, unwatched } from "./progress.ts";

/** Reads a log to its end, and on from there once more was written, into files of new names too. */
export class LogReader implements Disposable {
  readonly #directory: string;
  #name = "";
  #file: LineFile | null = null;
  /** A record right before a recovery is a part of what that recovered, and none (contracts 5.2). */
  #held: AuditRecord | null = null;

  readonly #lineRead: LineRead;

  /** Of the log in `directory`, which may be missing. `lineRead` is told of each line. */
  constructor(directory: string, lineRead: LineRead = unwatched) {
    this.#directory = directory;
    this.#lineRead = lineRead;
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
    const names = attempt(this.#directory, () => namesIn(this.#directory));
    return names.ok ? names.value.find((name) => name > this.#name) : undefined;
  }

  #open(name: string): void {
    this.#file?.[Symbol.dispose]();
    const path = `${this.#directory}/${name}`;
    const opened = attempt(path, () => new LineFile(path));
    this.#file = opened.ok ? opened.value : null;
    this.#name = name;
  }

  /** The records of the lines that the open file has gained. */
  *#rest(): Generator<AuditRecord> {
    for (const { bytes } of this.#file?.more() ?? []) {
      const record = parseRecord(bytes);
      this.#lineRead(bytes.length + 1);
      if (record?.event.type === "recovery") this.#held = null;
      yield* this.#release();
      this.#held = record;
    }
  }

  *#release(): Generator<AuditRecord> {
    const record = this.#held;
    this.#held = null;
    if (record !== null) yield record;
  }
}
