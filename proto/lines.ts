/** Splits bytes at 0x0A and nowhere else. Pure. */

export interface Line {
  /** Without the newline. */
  readonly bytes: Uint8Array;
  /** False only for what stands after the last newline. */
  readonly ended: boolean;
}

/**
 * Turns chunks of any size into lines. Holds the unfinished line and nothing more; the bytes of a
 * yielded line are valid until the next `push`, and their chunk must not be reused before.
 */
export class LineSplitter {
  #parts: Uint8Array[] = [];
  #size = 0;

  /** Bytes of the line that has not ended yet. */
  get pending(): number {
    return this.#size;
  }

  /** The lines that `chunk` completes. */
  *push(chunk: Uint8Array): Generator<Line> {
    let from = 0;
    for (let to = chunk.indexOf(0x0a); to >= 0; to = chunk.indexOf(0x0a, from)) {
      yield { bytes: this.#take(chunk.subarray(from, to)), ended: true };
      from = to + 1;
    }
    if (from < chunk.length) {
      this.#parts.push(chunk.slice(from));
      this.#size += chunk.length - from;
    }
  }

  /** What is left after the last newline, or null. Call once, at the end. */
  end(): Line | null {
    return this.#size === 0 ? null : { bytes: this.#take(new Uint8Array(0)), ended: false };
  }

  #take(rest: Uint8Array): Uint8Array {
    if (this.#size === 0) return rest;
    const line = new Uint8Array(this.#size + rest.length);
    let at = 0;
    for (const part of [...this.#parts, rest]) {
      line.set(part, at);
      at += part.length;
    }
    this.#parts = [];
    this.#size = 0;
    return line;
  }
}
