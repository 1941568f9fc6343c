/**
 * The server's side of a socket: one request a connection (contracts 2). Nothing that one client sends,
 * leaves out or does slowly affects another connection.
 */
import {
  decodeRequest,
  type FrameError,
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

/** Connections of one socket that may wait with their request unfinished. */
const MAX_WAITING = 128;
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
  /** In order of opening. */
  const waiting = new Set<FrameConnection>();
  let stopped = false;

  async function acceptAll(): Promise<void> {
    while (!stopped) {
      try {
        const connection = new FrameConnection(await listener.accept(), MAX_REQUEST_BYTES);
        if (stopped) connection.close();
        else admit(connection);
      } catch (error) {
        if (stopped) return;
        options.failed(error);
        await new Promise((resolve) => setTimeout(resolve, ACCEPT_PAUSE_MS));
      }
    }
  }

  function admit(connection: FrameConnection): void {
    const oldest = waiting.size < MAX_WAITING ? undefined : waiting.values().next().value;
    if (oldest !== undefined) {
      waiting.delete(oldest);
      void refuse(oldest, "timeout", "too many unfinished requests").finally(() => oldest.close());
    }
    open.add(connection);
    waiting.add(connection);
    void converse(connection).catch(options.failed).finally(() => {
      waiting.delete(connection);
      open.delete(connection);
      connection.close();
    });
  }

  async function refuse(
    connection: FrameConnection,
    code: ErrorCode,
    message: string,
  ): Promise<void> {
    const error: Message = { kind: "error", final: true, body: { code, message } };
    await connection.send(error, options.sendTimeoutMs);
  }

  async function converse(connection: FrameConnection): Promise<void> {
    const received = await connection.receive(options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS);
    if (!waiting.delete(connection) || received.status === "gone") return;
    if (received.status === "too_large") {
      return await refuse(connection, "too_large", "a request is at most 1 MiB");
    }
    if (received.status === "timeout") {
      return await refuse(connection, "timeout", "the request took over 10 s");
    }
    const kinds = REQUESTS[options.socket] as readonly RequestKind<S>[];
    const request = decodeRequest(received.bytes, kinds);
    if (!request.ok) return await refuseFrame(connection, request.error);
    try {
      await options.handle(request.message, {
        send: (message) => connection.send(message, options.sendTimeoutMs),
        whenGone: () => connection.whenGone(),
      });
    } catch (error) {
      options.failed(error);
      await refuse(connection, "internal", "an internal error; the daemon's log says more");
    }
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
