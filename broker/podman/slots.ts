/** How many calls run side by side; the rest wait their turn, first come first served. Pure. */
export class Slots {
  #free: number;
  readonly #maxWaiting: number;
  readonly #waiting: (() => void)[] = [];

  /** `parallel` at once, and at most `maxWaiting` that wait. */
  constructor(parallel: number, maxWaiting: number) {
    this.#free = parallel;
    this.#maxWaiting = maxWaiting;
  }

  /** Resolves when it is one's turn; null where too many wait already. Each turn must be given back. */
  take(): Promise<void> | null {
    if (this.#free > 0) {
      this.#free -= 1;
      return Promise.resolve();
    }
    if (this.#waiting.length >= this.#maxWaiting) return null;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Gives a turn back: to the one that has waited longest, if any. */
  give(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}
