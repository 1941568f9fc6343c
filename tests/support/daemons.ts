/** Small stand-ins for brokerd and loopd on real unix sockets, for the tests of their client. */
import type { DecisionRecord } from "../../proto/decisions.ts";
import { listen } from "../../proto/io/socket.ts";
import { type Exchange, serve, type Server } from "../../proto/io/server.ts";
import type {
  ApprovalChange,
  Body,
  ErrorCode,
  GrantProblem,
  Kind,
  Message,
  PendingApproval,
  TurnEvent,
} from "../../proto/messages.ts";
import { messagesOf } from "./messages.ts";

/** An answer of kind `kind`. */
function firstOf<K extends Kind>(kind: K): Message<K> {
  const [first] = messagesOf(kind);
  if (first === undefined) throw new Error(`there is no message of kind ${kind}`);
  return first;
}

/** How a fake answers without a socket error of its own making the test hang. */
const SEND_TIMEOUT_MS = 10_000;

/** Something that can be waited for, once or before. */
export class Gate {
  readonly opened: Promise<void>;
  readonly open: () => void;
  constructor() {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.opened = promise;
    this.open = resolve;
  }
}

/** A call that waits, as brokerd lists it; `fields` in place of the usual ones. */
export function pending(fields: Partial<PendingApproval> = {}): PendingApproval {
  return {
    approval: 41,
    session: "chat-1",
    call: "c1",
    tool: "shell",
    arguments: '{"command":"ls"}',
    grant: "shell-scratch",
    taint: "private",
    created: "2026-12-01T09:58:00.000Z",
    expires: "2026-12-01T10:13:00.000Z",
    ...fields,
  };
}

/** brokerd's side of admin.sock: a table of waiting calls, and no policy. */
export class FakeBroker implements Disposable {
  /** What waits, in frames of `perFrame`. A call that was answered is taken out. */
  items: PendingApproval[] = [];
  perFrame = 100;
  /** What approving gives. */
  outcome: DecisionRecord = { outcome: "ask" };
  problems: GrantProblem[] = [];
  /** What has changed since the asks. */
  changes: ApprovalChange[] = [];
  /** Answers every request with this error. */
  error: { code: ErrorCode; message: string } | null = null;
  readonly requests: Message[] = [];
  /** Runs for each approve and refuse, before it is answered. */
  answered: (request: Message) => void = () => {};
  status: Message<"broker_status"> = firstOf("broker_status");
  readonly #server: Server;

  constructor(path: string) {
    this.#server = serve({
      listener: listen(path),
      socket: "admin.sock",
      sendTimeoutMs: SEND_TIMEOUT_MS,
      handle: (request, exchange) => this.#handle(request, exchange),
      forbidden: (kind) => {
        throw new Error(`a client of admin.sock sent ${kind}`);
      },
      failed: (error) => {
        throw error;
      },
    });
  }

  /** The answers that were given to calls, in order. */
  get answers(): Message[] {
    return this.requests.filter(({ kind }) => kind === "approve" || kind === "refuse");
  }

  async #handle(
    request: Message<
      "approvals" | "approve" | "refuse" | "check_grants" | "changes" | "status"
    >,
    { send }: Exchange,
  ): Promise<void> {
    this.requests.push(request);
    if (this.error !== null) {
      await send({ kind: "error", final: true, body: this.error });
      return;
    }
    if (request.kind === "approvals") {
      const frames = [...this.#frames()];
      for (const [index, items] of frames.entries()) {
        const final = index === frames.length - 1;
        await send({ kind: "approval_list", final, body: { items } });
      }
    } else if (request.kind === "check_grants") {
      await send({ kind: "grants_report", final: true, body: { problems: this.problems } });
    } else if (request.kind === "status") {
      await send(this.status);
    } else if (request.kind === "changes") {
      await send({ kind: "change_list", final: true, body: { items: this.changes } });
    } else {
      await send(this.#answer(request));
    }
  }

  *#frames(): Generator<PendingApproval[]> {
    for (let at = 0; at === 0 || at < this.items.length; at += this.perFrame) {
      yield this.items.slice(at, at + this.perFrame);
    }
  }

  #answer(request: Message<"approve" | "refuse">): Message {
    const { approval } = request.body;
    const index = this.items.findIndex((item) => item.approval === approval);
    if (index < 0) {
      const body: Body<"error"> = { code: "no_such_approval", message: "no such approval" };
      return { kind: "error", final: true, body };
    }
    this.items.splice(index, 1);
    this.answered(request);
    return request.kind === "refuse"
      ? { kind: "ok", final: true, body: {} }
      : { kind: "approve_result", final: true, body: { outcome: this.outcome } };
  }

  [Symbol.dispose](): void {
    this.#server.stop();
  }
}

/** What a fake loopd does in a turn; it ends with `done` or `failed`, or the connection just ends. */
export type Script = (
  send: (event: TurnEvent) => Promise<void>,
  request: Body<"chat">,
) => Promise<void>;

/** loopd's side of loop.sock: plays a script for each turn, the last one over and over. */
export class FakeLoop implements Disposable {
  readonly requests: Body<"chat">[] = [];
  /** The sessions that were to be stopped. */
  readonly stops: string[] = [];
  /** Runs for each stop, before it is answered. */
  stopped: () => Promise<void> | void = () => {};
  stopAnswer: Message = { kind: "ok", final: true, body: {} };
  status: Message<"loop_status"> = firstOf("loop_status");
  readonly #server: Server;

  constructor(path: string, ...scripts: Script[]) {
    this.#server = serve({
      listener: listen(path),
      socket: "loop.sock",
      sendTimeoutMs: SEND_TIMEOUT_MS,
      handle: async (request, exchange) => {
        if (request.kind === "status") return void await exchange.send(this.status);
        if (request.kind === "stop") {
          this.stops.push(request.body.session);
          await this.stopped();
          await exchange.send(this.stopAnswer);
          return;
        }
        const { body } = request;
        const script = scripts[Math.min(this.requests.length, scripts.length - 1)];
        this.requests.push(body);
        const send = async (event: TurnEvent) => {
          const final = event.type === "done" || event.type === "failed";
          await exchange.send({ kind: "turn_event", final, body: event });
        };
        await send({ type: "session", session: body.session ?? "chat-1" });
        await script?.(send, body);
      },
      forbidden: (kind) => {
        throw new Error(`a client of loop.sock sent ${kind}`);
      },
      failed: (error) => {
        throw error;
      },
    });
  }

  [Symbol.dispose](): void {
    this.#server.stop();
  }
}

/** A turn of these events. */
export function playing(...events: TurnEvent[]): Script {
  return async (send) => {
    for (const event of events) await send(event);
  };
}
