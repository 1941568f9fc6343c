/**
 * The server's side of a socket: one request a connection (contracts 2). Nothing that one client sends,
 * leaves out or does slowly affects another connection.
 */
import {
  decodeRequest,
  encodeFrame,
  type FrameError,
  MAX_ANSWER_BYTES,
  MAX_REQUEST_BYTES,
  REQUEST_TIMEOUT_MS,
} from "../frames.ts";
import {
  type ErrorCode,
  type Message,
  type RequestKind,
  REQUESTS,
  type SocketName,
} from "../messages.ts";
import { FrameConnection } from "./connection.ts";
import { pause, ReadingShare, Turnstile } from "./pace.ts";

/** Connections of one socket that may wait with their request unfinished. */
const MAX_WAITING = 128;
/**
 * None of them is closed for another one sooner than this many milliseconds after it was accepted: a request
 * that comes right behind its connection is read, whatever the number of those that send nothing.
 */
const GRACE_MS = 50;
/** So many connections are accepted before what came on them is looked at. */
const ACCEPTS_IN_A_ROW = 32;
/** Bytes of answers of one socket that may wait for their clients to read them. */
const MAX_UNREAD_BYTES = 128 * MAX_ANSWER_BYTES;
/** Requests that may wait for their refusal. */
const MAX_REFUSALS = 256;
/** Between two refusals, in milliseconds: for any request, and for each MiB of it. */
const REFUSAL_PAUSE_MS = 2;
const REFUSAL_PAUSE_MS_PER_MIB = 16;
/** Pause after a failed accept, as when file descriptors have run out. */
const ACCEPT_PAUSE_MS = 100;

/** The way back to the client of one request. */
export interface Exchange {
  /** Sends an answer; false once the client is gone or no longer reads. */
  send(message: Message): Promise<boolean>;
  /** Resolves once the client has closed its connection. Ask for it once. */
  whenGone(): Promise<void>;
}

export interface ServerOptions<S extends SocketName> {
  readonly listener: Deno.UnixListener;
  readonly socket: S;
  /** How long a client may take to read an answer, in milliseconds. */
  readonly sendTimeoutMs: number;
  /** How long a client may take to send its request, in milliseconds; 10 s unless given. */
  readonly requestTimeoutMs?: number;
  /** Answers one request. What it throws is answered with `internal` and handed to `failed`. */
  handle(request: Message<RequestKind<S>>, exchange: Exchange): Promise<void>;
  /** A known kind on the wrong socket. */
  forbidden(kind: string): void;
  /** A bug, or I/O that failed where nothing foresaw it. */
  failed(error: unknown): void;
}

export interface Server {
  /** Stops accepting, and closes every connection. */
  stop(): void;
}

/** Serves a socket until `stop`. */
export function serve<S extends SocketName>(options: ServerOptions<S>): Server {
  const { listener } = options;
  const open = new Set<FrameConnection>();
  /** In order of opening, with the time of it. */
  const waiting = new Map<FrameConnection, number>();
  /** In order of their beginning, with the bytes of each. */
  const unread = new Map<FrameConnection, number>();
  let unreadBytes = 0;
  const reading = new ReadingShare();
  const refusals = new Turnstile();
  let stopped = false;

  async function acceptAll(): Promise<void> {
    for (let accepted = 1; !stopped; accepted += 1) {
      try {
        const conn = await listener.accept();
        const pace = () => reading.next(performance.now());
        const connection = new FrameConnection(conn, MAX_REQUEST_BYTES, pace);
        if (stopped) connection.close();
        else admit(connection);
        const left = graceLeft();
        if (left > 0) await pause(left);
        // A pause that ended late may end before anything was read.
        if (left > 0 || accepted % ACCEPTS_IN_A_ROW === 0) await pause(0);
      } catch (error) {
        if (stopped) return;
        options.failed(error);
        await pause(ACCEPT_PAUSE_MS);
      }
    }
  }

  /** Milliseconds until one more connection may close the oldest. */
  function graceLeft(): number {
    const [opened] = waiting.size < MAX_WAITING ? [] : waiting.values();
    return opened === undefined ? 0 : Math.max(0, opened + GRACE_MS - performance.now());
  }

  function admit(connection: FrameConnection): void {
    const [oldest] = waiting.size < MAX_WAITING ? [] : waiting.keys();
    if (oldest !== undefined) {
      waiting.delete(oldest);
      void refuse(oldest, "timeout", "too many unfinished requests").finally(() => oldest.close());
    }
    open.add(connection);
    waiting.set(connection, performance.now());
    void converse(connection).catch(options.failed).finally(() => {
      waiting.delete(connection);
      open.delete(connection);
      connection.close();
    });
  }

  /** Sends an answer. While too much waits to be read, the connection that waits longest is closed. */
  async function send(connection: FrameConnection, message: Message): Promise<boolean> {
    const frame = encodeFrame(message);
    unread.set(connection, frame.length);
    unreadBytes += frame.length;
    for (const oldest of unread.keys()) {
      if (unreadBytes <= MAX_UNREAD_BYTES) break;
      forget(oldest);
      oldest.close();
    }
    const sent = await connection.sendBytes(frame, options.sendTimeoutMs);
    forget(connection);
    return sent;
  }

  function forget(connection: FrameConnection): void {
    unreadBytes -= unread.get(connection) ?? 0;
    unread.delete(connection);
  }

  async function refuse(
    connection: FrameConnection,
    code: ErrorCode,
    message: string,
  ): Promise<void> {
    const error: Message = { kind: "error", final: true, body: { code, message } };
    await send(connection, error);
  }

  async function converse(connection: FrameConnection): Promise<void> {
    const received = await connection.receive(options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS);
    if (!waiting.delete(connection) || received.status === "gone") return;
    if (received.status === "too_large") {
      await refusalTurn(MAX_REQUEST_BYTES);
      return await refuse(connection, "too_large", "a request is at most 1 MiB");
    }
    if (received.status === "timeout") {
      return await refuse(connection, "timeout", "the request took over 10 s");
    }
    const kinds = REQUESTS[options.socket] as readonly RequestKind<S>[];
    const request = decodeRequest(received.bytes, kinds);
    if (!request.ok) {
      await refusalTurn(received.bytes.length);
      return await refuseFrame(connection, request.error);
    }
    try {
      await options.handle(request.message, {
        send: (message) => send(connection, message),
        whenGone: () => connection.whenGone(),
      });
    } catch (error) {
      options.failed(error);
      await refuse(connection, "internal", "an internal error; the daemon's log says more");
    }
  }

  /** Whoever sends garbage again once it was refused does so no faster than others can bear. */
  async function refusalTurn(bytes: number): Promise<void> {
    if (refusals.length >= MAX_REFUSALS) return;
    await refusals.pass(REFUSAL_PAUSE_MS + REFUSAL_PAUSE_MS_PER_MIB * bytes / MAX_REQUEST_BYTES);
  }

  async function refuseFrame(connection: FrameConnection, error: FrameError): Promise<void> {
    if (error.kind !== null) options.forbidden(error.kind);
    await refuse(connection, error.code, error.message);
  }

  void acceptAll();
  return {
    stop() {
      if (stopped) return;
      stopped = true;
      listener.close();
      for (const connection of open) connection.close();
    },
  };
}
