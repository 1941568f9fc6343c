/** Sharing one process among clients that send much and clients that send little. */

/** Resolves after `ms` milliseconds. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** All connections that read on do so this often in a millisecond, after so many times for nothing. */
const READS_PER_MS = 5;
const FREE_READS = 64;

/**
 * Lets connections read on. A request or two of the largest size come at once; while more is sent, those that
 * read on wait between two readings, the longer the more of them there are. A request that is read at once does
 * not come here.
 */
export class ReadingShare {
  #free = FREE_READS;
  #counted = 0;
  #pausing = 0;

  /** To be waited for after each reading that left its line unfinished. `now`: a clock in milliseconds. */
  async next(now: number): Promise<void> {
    this.#free = Math.min(FREE_READS, this.#free + (now - this.#counted) * READS_PER_MS);
    this.#counted = now;
    if (this.#free >= 1) {
      this.#free -= 1;
      return;
    }
    this.#pausing += 1;
    await pause(Math.ceil(this.#pausing / READS_PER_MS));
    this.#pausing -= 1;
  }
}

/** Lets through one at a time, in order. */
export class Turnstile {
  #inside = 0;
  #free = Promise.resolve();

  /** Those that wait for their turn, or had it and are not over. */
  get length(): number {
    return this.#inside;
  }

  /** Resolves when it is the caller's turn. The next one's turn comes `ms` milliseconds after that. */
  async pass(ms: number): Promise<void> {
    const turn = this.#free;
    this.#inside += 1;
    this.#free = turn.then(() => pause(ms)).then(() => void (this.#inside -= 1));
    await turn;
  }
}
