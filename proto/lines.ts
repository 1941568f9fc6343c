/** Splits bytes at 0x0A and nowhere else. Pure. */

export interface Line {
  /** Without the newline. */
  readonly bytes: Uint8Array;
  /** False only for what stands after the last newline. */
  readonly ended: boolean;
}

/** A line that a chunk completes. */
export interface ChunkLine extends Line {
  /** The line as text, where its chunk was given as text too and holds all of it. */
  readonly text: string | null;
}

/** The least room made for an unfinished line, in bytes. */
const LEAST_ROOM = 1024;

/**
 * Turns chunks of any size into lines. Holds the unfinished line and nothing more, in one buffer: a line
 * that comes byte by byte costs no more than one that comes at once. The bytes of a yielded line are
 * valid until the next `push`, and their chunk must not be reused before.
 */
export class LineSplitter {
  #buffer = new Uint8Array(0);
  #size = 0;

  /** Bytes of the line that has not ended yet. */
  get pending(): number {
    return this.#size;
  }

  /**
   * The lines that `chunk` completes. `ascii`: the same chunk as text, where all of it is ASCII: to cut text
   * is much faster than to decode each line.
   */
  *push(chunk: Uint8Array, ascii: string | null = null): Generator<ChunkLine> {
    // A text is searched much faster than bytes are.
    const newline = (from: number) => ascii?.indexOf("\n", from) ?? chunk.indexOf(0x0a, from);
    let from = 0;
    for (let to = newline(0); to >= 0; to = newline(from)) {
      const text = this.#size === 0 && ascii !== null ? ascii.slice(from, to) : null;
      yield { bytes: this.#take(chunk.subarray(from, to)), ended: true, text };
      from = to + 1;
    }
    this.#hold(chunk.subarray(from));
  }

  /** What is left after the last newline, or null. Call once, at the end. */
  end(): Line | null {
    return this.#size === 0 ? null : { bytes: this.#take(new Uint8Array(0)), ended: false };
  }

  #hold(bytes: Uint8Array): void {
    const size = this.#size + bytes.length;
    if (size > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(size, 2 * this.#buffer.length, LEAST_ROOM));
      larger.set(this.#buffer.subarray(0, this.#size));
      this.#buffer = larger;
    }
    this.#buffer.set(bytes, this.#size);
    this.#size = size;
  }

  #take(rest: Uint8Array): Uint8Array {
    if (this.#size === 0) return rest;
    this.#hold(rest);
    const line = this.#buffer.subarray(0, this.#size);
    // The buffer goes with its line, so that what comes next cannot overwrite it.
    this.#buffer = new Uint8Array(0);
    this.#size = 0;
    return line;
  }
}
