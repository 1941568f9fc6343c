/** The owner's lines from stdin, and forgetting what was typed too early (contracts 4). */
import { LineSplitter } from "../proto/lines.ts";
import { fromUtf8 } from "../proto/text.ts";

/** stdin, or what a test has in its place. */
export interface Source {
  /** Reads into `buffer`; null at the end. */
  read(buffer: Uint8Array): Promise<number | null>;
  isTerminal(): boolean;
  /**
   * On: what is typed can be read at once and is not echoed. Ctrl-C still works; with `keys` it, too, is
   * only read.
   */
  setRaw(on: boolean, keys?: "keys"): void;
}

export const stdin: Source = {
  read: (buffer) => Deno.stdin.read(buffer),
  isTerminal: () => Deno.stdin.isTerminal(),
  setRaw: (on, keys) => Deno.stdin.setRaw(on, { cbreak: on && keys === undefined }),
};

export type Input =
  | { readonly kind: "line"; readonly text: string }
  | { readonly kind: "not_utf8" }
  /** The end of the input, on a terminal Ctrl-D. */
  | { readonly kind: "end" }
  /** The caller stopped waiting. */
  | { readonly kind: "withdrawn" };

/**
 * How long nothing must be typed before a question, in milliseconds. Long enough that everything typed
 * earlier has come through, and that somebody in the middle of typing sees the question first.
 */
export const QUIET_MS = 500;
/** How long a read may take to begin, in milliseconds. */
const BEGIN_MS = 50;
/** So many ends of the input are no Ctrl-D any more: the terminal has gone away. */
const MAX_ENDS = 16;
const CHUNK_BYTES = 4096;

export class Keyboard {
  readonly isTerminal: boolean;
  readonly #source: Source;
  readonly #quietMs: number;
  readonly #chunk = new Uint8Array(CHUNK_BYTES);
  #splitter = new LineSplitter();
  #lines: Uint8Array[] = [];
  #ended = false;
  /** The one read under way; it stays under way while nobody waits for it. */
  #reading: Promise<void> | null = null;

  constructor(source: Source, quietMs = QUIET_MS) {
    this.#source = source;
    this.#quietMs = quietMs;
    this.isTerminal = source.isTerminal();
  }

  /** The next line, without its newline. Stops waiting once `until` is aborted. */
  async line(until?: AbortSignal): Promise<Input> {
    const withdrawn = whenAborted(until);
    while (true) {
      const line = this.#lines.shift();
      if (line !== undefined) {
        const text = fromUtf8(line);
        return text === null ? { kind: "not_utf8" } : { kind: "line", text };
      }
      if (until?.aborted) return { kind: "withdrawn" };
      if (this.#ended) {
        // A terminal goes on after Ctrl-D.
        this.#ended = !this.isTerminal;
        return { kind: "end" };
      }
      await Promise.race([this.#read(), withdrawn]);
    }
  }

  /**
   * Forgets everything that was typed so far, a line without its Enter included, and waits until
   * nothing has been typed for a while. On a terminal only. Whether there was anything.
   */
  async discard(): Promise<boolean> {
    let found = false;
    let ends = 0;
    for (let more = true; more && ends < MAX_ENDS;) {
      found ||= this.#lines.length > 0 || this.#splitter.pending > 0;
      this.#splitter = new LineSplitter();
      this.#lines = [];
      this.#ended = false;
      // It is to begin while the terminal gives out lines: one that began later would not see Ctrl-D.
      more = await this.#readsWithin(BEGIN_MS);
      if (!more) {
        // Without this the terminal keeps a line back until its Enter.
        this.#source.setRaw(true);
        more = await this.#readsWithin(this.#quietMs).finally(() => this.#source.setRaw(false));
      }
      // A Ctrl-D that was typed ends one read, and what was typed after it is forgotten too.
      if (this.#ended) ends += 1;
    }
    // What may still be there after so many must not be taken for an answer.
    this.#ended = ends === MAX_ENDS;
    return found;
  }

  /** Whether something is read, of what is there or comes within `ms` milliseconds. */
  async #readsWithin(ms: number): Promise<boolean> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const quiet = new Promise<false>((resolve) => {
      timer = setTimeout(() => resolve(false), ms);
    });
    try {
      return await Promise.race([this.#read().then(() => true), quiet]);
    } finally {
      clearTimeout(timer);
    }
  }

  #read(): Promise<void> {
    this.#reading ??= this.#readChunk().finally(() => this.#reading = null);
    return this.#reading;
  }

  async #readChunk(): Promise<void> {
    // A terminal that has gone away fails; that is its end.
    const count = await this.#source.read(this.#chunk).catch(() => null);
    if (count === null) {
      const rest = this.#splitter.end();
      if (rest !== null) this.#lines.push(rest.bytes);
      this.#ended = true;
      return;
    }
    for (const line of this.#splitter.push(this.#chunk.subarray(0, count))) {
      this.#lines.push(line.bytes.slice());
    }
  }
}

/** Never resolves without a signal. */
export function whenAborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) resolve();
    signal?.addEventListener("abort", () => resolve(), { once: true });
  });
}
