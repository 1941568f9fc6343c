/** One end of a connection that carries frames: reading lines within limits, writing whole frames. */
import { LineSplitter } from "../lines.ts";

/** How reading one line came out. `gone`: the connection ended first, or broke. */
export type Received =
  | { readonly status: "line"; readonly bytes: Uint8Array }
  | { readonly status: "too_large" }
  | { readonly status: "timeout" }
  | { readonly status: "gone" };

const CHUNK_BYTES = 16 * 1024;
/** For a line that does not fit the first chunk. */
const LARGE_CHUNK_BYTES = 64 * 1024;
/** The runtime fires a timer of more milliseconds than this, some 24 days, at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;
/** Pause after bytes that nobody wants, so that sending them costs the sender more than us. */
const DRAIN_PAUSE_MS = 100;

export class FrameConnection {
  readonly #conn: Deno.Conn;
  readonly #maxBytes: number;
  readonly #splitter = new LineSplitter();
  readonly #lines: Uint8Array[] = [];
  readonly #pace: () => Promise<void>;
  #chunk = new Uint8Array(CHUNK_BYTES);

  /**
   * `maxBytes`: the largest line that is read, its newline included. `pace` is waited for after each reading
   * that left a line unfinished.
   */
  constructor(
    conn: Deno.Conn,
    maxBytes: number,
    pace: () => Promise<void> = () => Promise.resolve(),
  ) {
    this.#conn = conn;
    this.#maxBytes = maxBytes;
    this.#pace = pace;
  }

  /** The next line, within `timeoutMs`. After anything but a line the connection is of no more use. */
  async receive(timeoutMs: number): Promise<Received> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<Received>((resolve) => {
      timer = setTimeout(() => resolve({ status: "timeout" }), Math.min(timeoutMs, MAX_TIMER_MS));
    });
    try {
      return await Promise.race([this.#readLine(), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  async #readLine(): Promise<Received> {
    while (true) {
      const bytes = this.#lines.shift();
      if (bytes !== undefined) {
        return bytes.length < this.#maxBytes ? { status: "line", bytes } : { status: "too_large" };
      }
      if (this.#splitter.pending >= this.#maxBytes) return { status: "too_large" };
      const count = await this.#conn.read(this.#chunk).catch(() => null);
      if (count === null) return { status: "gone" };
      for (const line of this.#splitter.push(this.#chunk.subarray(0, count))) {
        this.#lines.push(line.bytes.slice());
      }
      if (this.#lines.length > 0) continue;
      await this.#pace();
      if (count === this.#chunk.length) this.#chunk = new Uint8Array(LARGE_CHUNK_BYTES);
    }
  }

  /** Resolves once the other side has closed. What it sends until then is ignored. */
  async whenGone(): Promise<void> {
    while (true) {
      const count = await this.#conn.read(this.#chunk).catch(() => null);
      if (count === null) return;
      await new Promise((resolve) => setTimeout(resolve, DRAIN_PAUSE_MS));
    }
  }

  /** Writes an encoded frame. False where the other side is gone or does not take it within `timeoutMs`. */
  async sendBytes(bytes: Uint8Array, timeoutMs: number): Promise<boolean> {
    const timer = setTimeout(() => this.close(), timeoutMs);
    try {
      for (let at = 0; at < bytes.length;) at += await this.#conn.write(bytes.subarray(at));
      return true;
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    try {
      this.#conn.close();
    } catch {
      // closed already
    }
  }
}
