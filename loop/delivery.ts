/** Handing on what arrives faster than it can be handed on. Pure. */

/** The most that is handed on in one call. */
const MAX_ITEMS = 1000;

/**
 * Calls `take` with all that has arrived, at most 1,000 items, one call at a time: what arrives meanwhile
 * goes together in the next. So a sync of the disk for each piece holds up no stream.
 */
export class Delivery<T> {
  readonly #take: (items: T[]) => Promise<void>;
  readonly #failed: (error: unknown) => void;
  #waiting: T[] = [];
  #running: Promise<void> | null = null;
  #error: { readonly cause: unknown } | null = null;

  /** `failed` is told once when `take` throws; nothing is handed on after that. */
  constructor(take: (items: T[]) => Promise<void>, failed: (error: unknown) => void) {
    this.#take = take;
    this.#failed = failed;
  }

  add(item: T): void {
    this.#waiting.push(item);
    this.#running ??= this.#run();
  }

  /** Waits until everything is handed on. Throws what `take` threw. */
  async finish(): Promise<void> {
    await this.#running;
    if (this.#error !== null) throw this.#error.cause;
  }

  async #run(): Promise<void> {
    // Whatever else comes with the same chunk goes along.
    await Promise.resolve();
    try {
      while (this.#waiting.length > 0 && this.#error === null) {
        await this.#take(this.#waiting.splice(0, MAX_ITEMS));
      }
    } catch (cause) {
      this.#error = { cause };
      this.#failed(cause);
    }
    this.#running = null;
  }
}
