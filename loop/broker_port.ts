/** Tool calls over `broker.sock`, each one connection (specification 8; contracts 8). */
import { Call, ClientError } from "../proto/io/client.ts";
import type { Timestamp } from "../proto/ids.ts";
import type { FinalToolResponse, PendingResponse, ToolRequest } from "../proto/messages.ts";
import type { Notices } from "./notices.ts";
import { TOO_LARGE } from "./tools.ts";

/** Where tool calls go. What it gives is for the model: no state of the broker ends a turn. */
export interface ToolPort {
  /**
   * Asks for one call. `onPending` is told when it waits for the owner's approval. Throws the reason of
   * `signal`, which gives the call up, and what `onPending` throws.
   */
  call(
    request: ToolRequest,
    onPending: (pending: PendingResponse) => Promise<void>,
    signal: AbortSignal,
  ): Promise<FinalToolResponse>;
}

/** How long brokerd may take for its first frame, and for its last after an approval has expired. */
export interface Patience {
  readonly firstMs: number;
  readonly afterExpiryMs: number;
}

const PATIENCE: Patience = { firstMs: 120_000, afterExpiryMs: 30_000 };
/** A timer of the runtime holds at most this many milliseconds, some 24 days. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

const failed = (message: string): FinalToolResponse => ({ status: "failed", message });

/** The port where no broker is configured. */
export const noBroker: ToolPort = {
  call: () => Promise.resolve(failed("no tool broker is configured")),
};

export class BrokerPort implements ToolPort {
  readonly #path: string;
  readonly #notices: Notices;
  readonly #now: () => number;
  readonly #patience: Patience;

  constructor(path: string, notices: Notices, now: () => number, patience: Patience = PATIENCE) {
    this.#path = path;
    this.#notices = notices;
    this.#now = now;
    this.#patience = patience;
  }

  async call(
    request: ToolRequest,
    onPending: (pending: PendingResponse) => Promise<void>,
    signal: AbortSignal,
  ): Promise<FinalToolResponse> {
    let call: Call<"tool_response" | "error"> | null = null;
    const drop = () => call?.close();
    signal.addEventListener("abort", drop);
    try {
      call = await Call.open(
        this.#path,
        { kind: "tool_request", final: true, body: request },
        ["tool_response", "error"],
      );
      signal.throwIfAborted();
      return await this.#converse(call, onPending);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ClientError)) throw error;
      if (error.failure === "request_too_large") {
        return failed(TOO_LARGE);
      }
      this.#notices.brokerUnavailable(this.#path, error);
      return failed("the tool broker is unavailable");
    } finally {
      signal.removeEventListener("abort", drop);
      call?.close();
    }
  }

  async #converse(
    call: Call<"tool_response" | "error">,
    onPending: (pending: PendingResponse) => Promise<void>,
  ): Promise<FinalToolResponse> {
    let pending: PendingResponse | null = null;
    while (true) {
      const { kind, final, body } = await call.next(this.#timeout(pending?.expires ?? null));
      if (kind === "error") {
        this.#notices.brokerRefused(this.#path, body.code);
        return failed("the tool broker refused the request");
      }
      if (body.status !== "pending_approval") {
        if (!final) throw new ClientError("bad_answer");
        this.#notices.brokerAnswers();
        return body;
      }
      if (final || pending !== null) throw new ClientError("bad_answer");
      pending = body;
      await onPending(body);
    }
  }

  /** Milliseconds to wait for the next frame; `expires` is that of the approval that is waited for. */
  #timeout(expires: Timestamp | null): number {
    const { firstMs, afterExpiryMs } = this.#patience;
    if (expires === null) return firstMs;
    const left = Math.max(0, Date.parse(expires) - this.#now());
    return Math.min(left + afterExpiryMs, MAX_TIMEOUT_MS);
  }
}
