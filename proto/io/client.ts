/** The client's side of a socket: one request, then its answers (contracts 2). */
import { decodeFrame, encodeFrame, MAX_ANSWER_BYTES, MAX_REQUEST_BYTES } from "../frames.ts";
import type { Kind, Message } from "../messages.ts";
import { FrameConnection } from "./connection.ts";

/** Why an exchange did not give an answer. */
export type ClientFailure =
  /** Nobody listens there. */
  | "unreachable"
  /** Somebody may be there, but this process may not connect. */
  | "no_permission"
  /** The request is larger than a frame may be; it was not sent. */
  | "request_too_large"
  /** The connection ended without a last answer. */
  | "closed"
  | "timeout"
  /** What came is not a frame of the kinds expected here. */
  | "bad_answer";

export class ClientError extends Error {
  readonly failure: ClientFailure;
  constructor(failure: ClientFailure, cause?: unknown) {
    super(failure, { cause });
    this.failure = failure;
  }
}

/** How long a server may take to take a request, in milliseconds. */
const SEND_TIMEOUT_MS = 10_000;

/** How long a client waits for room in a server's queue of new connections, and between two tries. */
const QUEUE_TIMEOUT_MS = 5000;
const QUEUE_PAUSE_MS = 10;

/** Connects to the socket at `path`; where its queue is full, tries again for a while. */
async function connect(path: string): Promise<Deno.Conn> {
  const end = performance.now() + QUEUE_TIMEOUT_MS;
  while (true) {
    try {
      return await Deno.connect({ transport: "unix", path });
    } catch (error) {
      if (!(error instanceof Deno.errors.WouldBlock) || performance.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, QUEUE_PAUSE_MS));
    }
  }
}

/** A request on its way. Close it when done. Every failure is a `ClientError`. */
export class Call<K extends Kind> {
  readonly #connection: FrameConnection;
  readonly #kinds: readonly K[];

  private constructor(connection: FrameConnection, kinds: readonly K[]) {
    this.#connection = connection;
    this.#kinds = kinds;
  }

  /** Connects to the socket at `path` and sends `request`; answers are of `kinds`. */
  static async open<K extends Kind>(
    path: string,
    request: Message,
    kinds: readonly K[],
  ): Promise<Call<K>> {
    const frame = encodeFrame(request);
    if (frame.length > MAX_REQUEST_BYTES) throw new ClientError("request_too_large");
    let conn: Deno.Conn;
    try {
      conn = await connect(path);
    } catch (error) {
      const refused = error instanceof Deno.errors.PermissionDenied ||
        error instanceof Deno.errors.NotCapable;
      throw new ClientError(refused ? "no_permission" : "unreachable", error);
    }
    const connection = new FrameConnection(conn, MAX_ANSWER_BYTES);
    // A server that refuses a request may close before it has read all of it: its answer still counts.
    await connection.sendBytes(frame, SEND_TIMEOUT_MS);
    return new Call(connection, kinds);
  }

  /** The next answer, within `timeoutMs`. */
  async next(timeoutMs: number): Promise<Message<K>> {
    const received = await this.#connection.receive(timeoutMs);
    if (received.status === "gone") throw new ClientError("closed");
    if (received.status === "timeout") throw new ClientError("timeout");
    if (received.status === "too_large") throw new ClientError("bad_answer");
    const decoded = decodeFrame(received.bytes, this.#kinds);
    if (!decoded.ok) throw new ClientError("bad_answer");
    return decoded.message;
  }

  close(): void {
    this.#connection.close();
  }
}
