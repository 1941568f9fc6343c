/**
 * A second thread, which hashes the lines of chunks ahead of the thread that judges them: hashing takes as
 * long as all the rest. They share memory and count chunks in it, so that neither waits for an event. What
 * the second thread has not begun in time the first one hashes itself: a second thread that does not start,
 * is slow or stops costs time and changes no verdict.
 */

/** Bytes of a chunk. Each is decoded at once: text of more than 64 KiB would wait long until it is freed. */
export const CHUNK_BYTES = 32 * 1024;
/** Chunks held at a time. */
export const CHUNKS = 16;
/** `MOST`: hashes handed over for one chunk. A chunk of shorter lines than records are has more. */
const SIZES = { CHUNK: CHUNK_BYTES, CHUNKS, MOST: 512, DIGITS: 64 } as const;
/** How long a chunk that the other thread has begun may take, in milliseconds; most take a tenth of one. */
const PATIENCE_MS = 10_000;

/**
 * Where in `counts` is how many chunks have been put; how many of them one of the threads has begun to hash;
 * and, not 0, that there will be no more.
 */
const AT = { PUT: 0, BEGUN: 1, STOP: 2 } as const;

/** What both threads see. What belongs to chunk `n` has the place `n % CHUNKS`. */
export interface Shared {
  readonly counts: Int32Array<SharedArrayBuffer>;
  /** Bytes of the chunk. */
  readonly sizes: Int32Array<SharedArrayBuffer>;
  readonly chunks: Uint8Array<SharedArrayBuffer>;
  /** One more than the number of the chunk that the second thread has hashed last. */
  readonly hashed: Int32Array<SharedArrayBuffer>;
  /** How many hashes that gave, and these in hex, one after the other. */
  readonly hashCounts: Int32Array<SharedArrayBuffer>;
  readonly hashes: Uint8Array<SharedArrayBuffer>;
}

export function share(): Shared {
  const numbers = (count: number) => new Int32Array(new SharedArrayBuffer(4 * count));
  const bytes = (count: number) => new Uint8Array(new SharedArrayBuffer(count));
  return {
    counts: numbers(3),
    sizes: numbers(CHUNKS),
    chunks: bytes(CHUNKS * CHUNK_BYTES),
    hashed: numbers(CHUNKS),
    hashCounts: numbers(CHUNKS),
    hashes: bytes(CHUNKS * SIZES.MOST * SIZES.DIGITS),
  };
}

/** A chunk of a file, with what is known of its lines. */
export interface HashedChunk {
  /** Valid until `CHUNKS` more have been put. */
  readonly bytes: Uint8Array;
  /**
   * The hashes, one after the other, of the lines that have both their ends in the chunk and a newline
   * before them in it: of all of these, of the first ones, or of none.
   */
  readonly hashes: string;
}

/** The hash of the line that is the `index`th to end in `chunk`, counted from 0; null where none is known. */
export function knownHash({ hashes }: HashedChunk, index: number): string | null {
  const hash = index === 0 ? "" : hashes.slice((index - 1) * SIZES.DIGITS, index * SIZES.DIGITS);
  return hash === "" ? null : hash;
}

/** The first thread's side: chunks are taken in the order in which they were put. */
export class HashedChunks {
  readonly #shared: Shared;
  readonly #patienceMs: number;
  /** The first thread's own copies: nothing that it judges can change under its hands. */
  readonly #own = Array.from({ length: CHUNKS }, () => new Uint8Array(CHUNK_BYTES));
  readonly #decoder = new TextDecoder();
  #put = 0;
  #taken = 0;

  constructor(shared: Shared, patienceMs = PATIENCE_MS) {
    this.#shared = shared;
    this.#patienceMs = patienceMs;
  }

  /** How many chunks were put and not taken. */
  get waiting(): number {
    return this.#put - this.#taken;
  }

  /** Puts the chunk that `read` writes, with its size; none for a size of 0. `waiting` is below `CHUNKS`. */
  put(read: (into: Uint8Array) => number): boolean {
    const place = this.#put % CHUNKS;
    const own = this.#ownOf(place);
    const size = read(own);
    if (size === 0) return false;
    const { counts, sizes, chunks } = this.#shared;
    sizes[place] = size;
    chunks.set(own.subarray(0, size), place * CHUNK_BYTES);
    this.#put += 1;
    Atomics.store(counts, AT.PUT, this.#put);
    return true;
  }

  /** Wakes the second thread where it waits for chunks. */
  wake(): void {
    Atomics.notify(this.#shared.counts, AT.PUT);
  }

  /** Takes the next chunk, waiting where the second thread is just at it. `waiting` is above 0. */
  take(): HashedChunk {
    const { counts, sizes, hashed } = this.#shared;
    const number = this.#taken;
    const place = number % CHUNKS;
    this.#taken += 1;
    const bytes = this.#ownOf(place).subarray(0, sizes[place]);
    // Not begun: from now on it is this thread's.
    const mine = Atomics.compareExchange(counts, AT.BEGUN, number, number + 1) === number;
    return { bytes, hashes: mine || !this.#comes(hashed, place, number) ? "" : this.#read(place) };
  }

  /** Waits until the second thread has hashed the chunk that it has begun. False where it has stopped. */
  #comes(hashed: Int32Array<SharedArrayBuffer>, place: number, number: number): boolean {
    const end = performance.now() + this.#patienceMs;
    for (;;) {
      const last = Atomics.load(hashed, place);
      if (last === number + 1) return true;
      const left = end - performance.now();
      if (left <= 0) return false;
      Atomics.wait(hashed, place, last, left);
    }
  }

  #read(place: number): string {
    const { hashCounts, hashes } = this.#shared;
    const start = place * SIZES.MOST * SIZES.DIGITS;
    // A copy: text is not decoded from shared memory.
    return this.#decoder.decode(
      hashes.slice(start, start + (hashCounts[place] ?? 0) * SIZES.DIGITS),
    );
  }

  #ownOf(place: number): Uint8Array {
    const own = this.#own[place];
    if (own === undefined) throw new Error("there is no such place");
    return own;
  }
}

/** What the second thread is given. */
interface Task {
  readonly shared: Shared;
  readonly at: typeof AT;
  readonly sizes: typeof SIZES;
}

/**
 * All of the second thread. It is started from its own text and may name nothing outside of itself: to load
 * a module a thread needs leave to read the file, which bxctl does not have.
 */
function secondThread(): void {
  addEventListener("message", async (event) => {
    const { shared, at, sizes } = (event as MessageEvent<Task>).data;
    const { counts, chunks, hashed, hashCounts, hashes } = shared;
    const { createHash } = await import("node:crypto");
    const empty = createHash("sha256");
    const encoder = new TextEncoder();
    const bytes = new Uint8Array(sizes.CHUNK);
    while (Atomics.load(counts, at.STOP) === 0) {
      const put = Atomics.load(counts, at.PUT);
      const number = Atomics.load(counts, at.BEGUN);
      if (number >= put) {
        Atomics.wait(counts, at.PUT, put);
        continue;
      }
      if (Atomics.compareExchange(counts, at.BEGUN, number, number + 1) !== number) continue;
      const place = number % sizes.CHUNKS;
      const start = place * sizes.CHUNK;
      // A copy: shared memory is not hashed.
      bytes.set(chunks.subarray(start, start + sizes.CHUNK));
      const chunk = bytes.subarray(0, shared.sizes[place]);
      const found: string[] = [];
      let from = chunk.indexOf(0x0a) + 1;
      for (let to = chunk.indexOf(0x0a, from); to >= 0; to = chunk.indexOf(0x0a, from)) {
        if (found.length === sizes.MOST) break;
        found.push(empty.copy().update(chunk.subarray(from, to)).digest("hex"));
        from = to + 1;
      }
      hashes.set(encoder.encode(found.join("")), place * sizes.MOST * sizes.DIGITS);
      hashCounts[place] = found.length;
      Atomics.store(hashed, place, number + 1);
      Atomics.notify(hashed, place);
    }
  });
}

/** Starts the second thread, which takes some 50 ms until it hashes. Dispose of it at the end. */
export function startHashing(shared: Shared): Disposable {
  const text = `data:text/javascript,${encodeURIComponent(`(${secondThread})()`)}`;
  const worker = new Worker(text, { type: "module" });
  // Where it fails the first thread does its work, and says so to nobody: nothing is lost by it.
  worker.addEventListener("error", (event) => event.preventDefault());
  const task: Task = { shared, at: AT, sizes: SIZES };
  worker.postMessage(task);
  return {
    [Symbol.dispose]() {
      // It would not notice its end while it waits for a chunk.
      Atomics.store(shared.counts, AT.STOP, 1);
      Atomics.add(shared.counts, AT.PUT, 1);
      Atomics.notify(shared.counts, AT.PUT);
      worker.terminate();
    },
  };
}
