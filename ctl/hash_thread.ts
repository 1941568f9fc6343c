/**
 * A second thread, which hashes the lines of chunks ahead of the thread that judges them: hashing takes as
 * long as all the rest. They share memory and count chunks in it, so that neither waits for an event. What
 * the second thread has not hashed the first one hashes itself: a second thread that does not start
 * or stops costs time and changes no verdict.
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

/** A chunk of a file: whole lines, but where a line is longer than a chunk or the file ends without one. */
export interface HashedChunk {
  /** Valid until `CHUNKS` more have been put. */
  readonly bytes: Uint8Array;
  /** Its first line has begun in the chunk before. */
  readonly goesOn: boolean;
  /** The hashes of what its newlines end, one after the other: of all, of the first ones, or of none. */
  readonly hashes: string;
}

/** The hash of the line that is the `index`th to end in `chunk`, counted from 0; null where it is not known. */
export function knownHash({ goesOn, hashes }: HashedChunk, index: number): string | null {
  const hash = hashes.slice(index * SIZES.DIGITS, (index + 1) * SIZES.DIGITS);
  return hash === "" || index === 0 && goesOn ? null : hash;
}

/** The first thread's side: chunks are taken in the order in which they were put. */
export class HashedChunks {
  readonly #shared: Shared;
  readonly #patienceMs: number;
  /** The first thread's own copies: nothing that it judges can change under its hands. */
  readonly #places = Array.from({ length: CHUNKS }, () => ({
    buffer: new Uint8Array(CHUNK_BYTES),
    size: 0,
    goesOn: false,
  }));
  readonly #decoder = new TextDecoder();
  readonly #digits = new Uint8Array(SIZES.MOST * SIZES.DIGITS);
  #put = 0;
  #taken = 0;
  /** What the last chunk left: the beginning of a line. */
  #rest = new Uint8Array(0);
  #goesOn = false;
  /** The second thread has hashed something. */
  #hashes = false;

  constructor(shared: Shared, patienceMs = PATIENCE_MS) {
    this.#shared = shared;
    this.#patienceMs = patienceMs;
  }

  /** How many chunks were put and not taken. */
  get waiting(): number {
    return this.#put - this.#taken;
  }

  /** What is put from now on is of another file. */
  begin(): void {
    this.#rest = new Uint8Array(0);
    this.#goesOn = false;
  }

  /**
   * Puts the next chunk of the file, of which `read` writes a part and gives its size. False at its end, where
   * that is 0. `waiting` is below `CHUNKS`.
   */
  put(read: (into: Uint8Array) => number): boolean {
    const place = this.#place(this.#put);
    const { buffer } = place;
    buffer.set(this.#rest);
    const count = read(buffer.subarray(this.#rest.length));
    const filled = buffer.subarray(0, this.#rest.length + count);
    if (filled.length === 0) return false;
    const lines = count === 0 ? 0 : filled.lastIndexOf(0x0a) + 1;
    place.size = lines === 0 ? filled.length : lines;
    place.goesOn = this.#goesOn;
    this.#rest = filled.subarray(place.size);
    this.#goesOn = lines === 0;
    const { counts, sizes, chunks } = this.#shared;
    sizes[this.#put % CHUNKS] = place.size;
    chunks.set(filled.subarray(0, place.size), (this.#put % CHUNKS) * CHUNK_BYTES);
    this.#put += 1;
    Atomics.store(counts, AT.PUT, this.#put);
    return true;
  }

  /** Wakes the second thread where it waits for chunks. */
  wake(): void {
    Atomics.notify(this.#shared.counts, AT.PUT);
  }

  /** Takes the next chunk, waiting for a second thread that hashes. `waiting` is above 0. */
  take(): HashedChunk {
    const number = this.#taken;
    this.#taken += 1;
    const { buffer, size, goesOn } = this.#place(number);
    const hashes = this.#isHashed(number) ? this.#read(number % CHUNKS) : "";
    return { bytes: buffer.subarray(0, size), goesOn, hashes };
  }

  #isHashed(number: number): boolean {
    const { counts, hashed } = this.#shared;
    const begin = () => Atomics.compareExchange(counts, AT.BEGUN, number, number + 1) === number;
    // Until the second thread has started, what it has not begun is the first one's. Later that would save
    // little time, and cost memory: what each hash leaves behind is freed late in this thread.
    if (!this.#hashes && begin()) return false;
    this.#hashes = this.#comes(hashed, number % CHUNKS, number);
    if (!this.#hashes) begin();
    return this.#hashes;
  }

  /** Waits until the second thread has hashed the chunk. False where it has stopped. */
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

  #place(number: number) {
    const place = this.#places[number % CHUNKS];
    if (place === undefined) throw new Error("there is no such place");
    return place;
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
    const digits = new Uint8Array(sizes.MOST * sizes.DIGITS);
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
      let from = 0;
      for (let to = chunk.indexOf(0x0a, from); to >= 0; to = chunk.indexOf(0x0a, from)) {
        if (found.length === sizes.MOST) break;
        found.push(empty.copy().update(chunk.subarray(from, to)).digest("hex"));
        from = to + 1;
      }
      encoder.encodeInto(found.join(""), digits);
      hashes.set(digits, place * digits.length);
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
