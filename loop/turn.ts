/**
 * The turn loop: the model speaks, asks for tools, is told what came of them, and speaks again, until it
 * asks for nothing more (contracts 7). Everything is in the session log, synced, before it is shown.
 */
import { type CallId, type SessionId, timestamp } from "../proto/ids.ts";
import { STOPPED, type TurnEvent } from "../proto/messages.ts";
import { assertNever } from "../proto/text.ts";
import type { ToolPort } from "./broker_port.ts";
import { conversation } from "./conversation.ts";
import { denialText } from "./denials.ts";
import type { EntryOf } from "./entries.ts";
import { parts } from "./events.ts";
import type { ModelServer } from "./llama.ts";
import type { SessionLog } from "./session_log.ts";
import type { AskedCall, Piece } from "./stream.ts";
import { readCall, type ToolUse } from "./tools.ts";

export interface TurnPorts {
  readonly model: Pick<ModelServer, "answer">;
  readonly broker: ToolPort;
  /** Tool calls that one turn may make, those of the core tools included. */
  readonly maxToolCalls: number;
  readonly now: () => number;
}

/** How a turn came out. `interrupted`: the owner stopped it. */
export type TurnEnd =
  | { readonly outcome: "done" }
  | { readonly outcome: "failed" | "interrupted"; readonly message: string };

/** The reason of a turn's signal where the owner stopped the turn: its client is still there. */
export class Stopped extends Error {
  constructor() {
    super(STOPPED);
  }
}

/** What the model is told of a call. */
type Result = Omit<EntryOf<"result">, "type" | "call">;

/** Follows a result that the runner cut. */
const TRUNCATED = "\n[The result is longer; the rest was cut off.]";

export class Turn {
  readonly #ports: TurnPorts;
  readonly #session: SessionId;
  readonly #log: SessionLog;
  readonly #emit: (event: TurnEvent) => Promise<void>;
  readonly #signal: AbortSignal;
  #callsLeft: number;
  /** The calls of the model's last answer that nobody was asked for yet. */
  #unmade: CallId[] = [];

  /** `emit` throws, and `signal` is aborted, once the client is gone or the owner stopped the turn. */
  constructor(
    ports: TurnPorts,
    session: SessionId,
    log: SessionLog,
    emit: (event: TurnEvent) => Promise<void>,
    signal: AbortSignal,
  ) {
    this.#ports = ports;
    this.#session = session;
    this.#log = log;
    this.#emit = emit;
    this.#signal = signal;
    this.#callsLeft = ports.maxToolCalls;
  }

  /**
   * Runs the turn that `text` of the owner begins. Throws `ModelError`, `SessionLogUnavailable` and the
   * reason of the signal, unless that is `Stopped`; the log can be gone on from after each of them.
   */
  async run(text: string): Promise<TurnEnd> {
    try {
      return await this.#run(text);
    } catch (error) {
      if (!(error instanceof Stopped)) throw error;
      // A call that brokerd was asked for has no result here: it may run to its end all the same.
      for (const call of this.#unmade) {
        const result = ours("failed", "not called: the owner stopped the turn");
        await this.#log.append({ type: "result", call, ...result });
      }
      return { outcome: "interrupted", message: error.message };
    }
  }

  async #run(text: string): Promise<TurnEnd> {
    const { model, maxToolCalls } = this.#ports;
    await this.#log.append({ type: "user", time: this.#time(), text });
    while (true) {
      const { calls, cut } = await model.answer(
        conversation(this.#log.entries),
        this.#signal,
        (pieces) => this.#show(pieces),
      );
      if (calls.length === 0) {
        return cut
          ? { outcome: "failed", message: "the model's answer was cut off at its length limit" }
          : { outcome: "done" };
      }
      for (const asked of await this.#logCalls(calls)) await this.#use(asked);
      if (this.#callsLeft < 0) {
        const message = `the limit of ${maxToolCalls} tool calls in a turn is used up`;
        return { outcome: "failed", message };
      }
    }
  }

  async #show(pieces: readonly Piece[]): Promise<void> {
    await this.#log.append(...pieces);
    for (const { type, text } of pieces) {
      for (const part of parts(text)) await this.#emit({ type, text: part });
    }
  }

  /** Gives each call an id of our own: the model's may be missing, repeated, or no ids at all. */
  async #logCalls(asked: readonly AskedCall[]): Promise<(AskedCall & { readonly call: CallId })[]> {
    const earlier = this.#log.entries.reduce(
      (count, entry) => entry.type === "calls" ? count + entry.calls.length : count,
      0,
    );
    const calls = asked.map((one, index) => ({ call: callId(earlier + index + 1), ...one }));
    await this.#log.append({ type: "calls", calls });
    this.#unmade = calls.map(({ call }) => call);
    return calls;
  }

  async #use({ call, name, arguments: given }: AskedCall & { readonly call: CallId }) {
    this.#signal.throwIfAborted();
    const use = readCall(name, given, this.#time());
    const { tool } = use;
    await this.#emit({ type: "tool_call", call, tool, arguments: use.arguments });
    this.#callsLeft -= 1;
    const result = this.#callsLeft < 0
      ? ours("failed", "not called: the limit of tool calls in a turn is used up")
      : await this.#resultOf(call, use);
    this.#made(call);
    await this.#log.append({ type: "result", call, ...result });
    const { status, content } = result;
    await this.#emit({ type: "tool_result", call, tool, status, content });
  }

  async #resultOf(call: CallId, use: ToolUse): Promise<Result> {
    if (use.kind === "answered") return ours(use.status, use.content);
    const { tool } = use;
    this.#signal.throwIfAborted();
    this.#made(call);
    const response = await this.#ports.broker.call(
      { session: this.#session, call, tool, arguments: use.arguments },
      ({ approval, expires }) => this.#emit({ type: "approval_pending", approval, tool, expires }),
      this.#signal,
    );
    switch (response.status) {
      case "result": {
        const content = response.content + (response.truncated ? TRUNCATED : "");
        return {
          status: "result",
          content,
          class: response.class,
          untrusted: response.untrusted,
        };
      }
      case "failed":
        return { status: "failed", content: response.message, class: null, untrusted: null };
      case "denied":
        return ours("denied", denialText(response.reason, response.hint));
      default:
        return assertNever(response);
    }
  }

  #made(call: CallId): void {
    this.#unmade = this.#unmade.filter((unmade) => unmade !== call);
  }

  #time() {
    return timestamp(this.#ports.now());
  }
}

/** Words of Boxmaker itself. */
function ours(status: Result["status"], content: string): Result {
  return { status, content, class: "public", untrusted: false };
}

/** Nine letters and digits, since the templates of some models take no other ids. */
function callId(number: number): CallId {
  return `call${String(number).padStart(5, "0")}`;
}
