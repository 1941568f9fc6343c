/** The turns of all sessions: one connection of `loop.sock` is one turn (contracts 2, 7 and 8). */
import { type SessionId, timestamp } from "../proto/ids.ts";
import { causes } from "../proto/io/log.ts";
import type { Exchange } from "../proto/io/server.ts";
import type { Message, TurnEvent } from "../proto/messages.ts";
import type { EntryOf } from "./entries.ts";
import { messageOf, shorten } from "./events.ts";
import { CoreUnreadable, readCore } from "./memory.ts";
import type { Notices } from "./notices.ts";
import { systemPrompt } from "./prompt.ts";
import {
  SessionLog,
  SessionLogDamaged,
  SessionLogTooLong,
  SessionLogUnavailable,
} from "./session_log.ts";
import { ModelError } from "./stream.ts";
import { Stopped, Turn, type TurnEnd, type TurnPorts } from "./turn.ts";

export interface ChatPorts extends TurnPorts {
  /** `<home>/loop/sessions`, which exists. */
  readonly sessions: string;
  /** `<home>/memory/core.md`, which may be missing. */
  readonly core: string;
  readonly notices: Notices;
  /** Letters and digits that no two sessions share. */
  readonly random: () => string;
}

/** The client closed its connection before its turn had ended. */
class ClientGone extends Error {}

/** Turns that run at once. Each may hold a conversation and an answer in memory, some 100 MiB at worst. */
const MAX_TURNS = 64;
/** Why a turn failed is told in at most this many UTF-16 units. */
const MAX_MESSAGE = 1000;

type Emit = (event: TurnEvent) => Promise<void>;

/** The turn that a session has. */
interface Busy {
  stop(): void;
  /** Resolves once the session is free again. */
  readonly ended: Promise<void>;
}

const failed = (message: string): TurnEnd => ({ outcome: "failed", message });

export class Chats {
  readonly #ports: ChatPorts;
  readonly #busy = new Map<SessionId, Busy>();
  readonly #running = new Set<Promise<void>>();

  constructor(ports: ChatPorts) {
    this.#ports = ports;
  }

  /** Answers one `chat`: `session` first, then what happens, then `done` or `failed`; or one `stop`. */
  async handle(request: Message<"chat" | "stop">, exchange: Exchange): Promise<void> {
    if (request.kind === "stop") return await this.#stop(request.body.session, exchange);
    const turn = this.#handle(request, exchange);
    this.#running.add(turn);
    try {
      await turn;
    } finally {
      this.#running.delete(turn);
    }
  }

  /** How many turns are running. */
  get turns(): number {
    return this.#running.size;
  }

  /** Resolves once every turn that is running has ended. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#running);
  }

  /** Stops the turn of `session`, if there is one, and answers once it has ended. */
  async #stop(session: SessionId, exchange: Exchange): Promise<void> {
    const busy = this.#busy.get(session);
    busy?.stop();
    await busy?.ended;
    await exchange.send({ kind: "ok", final: true, body: {} });
  }

  async #handle({ body }: Message<"chat">, exchange: Exchange): Promise<void> {
    const session = body.session ?? `chat-${this.#ports.now()}-${this.#ports.random()}`;
    const ending = new AbortController();
    const leave = () => ending.abort(new ClientGone());
    void exchange.whenGone().then(leave);
    const emit: Emit = async (event) => {
      if (!await exchange.send(messageOf(event))) leave();
      ending.signal.throwIfAborted();
    };
    try {
      await emit({ type: "session", session });
      const end = await this.#exclusively(session, body.text, emit, ending);
      const last: TurnEvent = end.outcome === "done"
        ? { type: "done" }
        : { type: "failed", message: end.message };
      await exchange.send(messageOf(last));
    } catch (error) {
      if (!(error instanceof ClientGone)) throw error;
    }
  }

  async #exclusively(
    session: SessionId,
    text: string,
    emit: Emit,
    ending: AbortController,
  ): Promise<TurnEnd> {
    if (this.#busy.has(session)) return failed("the session is busy with another turn");
    if (this.#busy.size >= MAX_TURNS) {
      return failed(`${MAX_TURNS} turns are running already; try again once one of them has ended`);
    }
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    this.#busy.set(session, { stop: () => ending.abort(new Stopped()), ended });
    try {
      return await this.#turn(session, text, emit, ending.signal);
    } catch (error) {
      return this.#explain(session, error);
    } finally {
      this.#busy.delete(session);
      resolve();
    }
  }

  async #turn(
    session: SessionId,
    text: string,
    emit: Emit,
    signal: AbortSignal,
  ): Promise<TurnEnd> {
    const { sessions, now, notices } = this.#ports;
    const log = await SessionLog.open(sessions, session, now, () => this.#start(session));
    try {
      notices.sessionGood(session);
      if (log.recovered !== null) notices.sessionRecovered(session, log.recovered.bytes);
      const end = await this.#run(new Turn(this.#ports, session, log, emit, signal), text, log);
      const message = end.outcome === "done" ? null : end.message;
      await log.append({ type: "end", time: this.#time(), outcome: end.outcome, message });
      return end;
    } finally {
      await log.close();
    }
  }

  /** Runs `turn`; what the model server does wrong is an end of it like others. */
  async #run(turn: Turn, text: string, log: SessionLog): Promise<TurnEnd> {
    try {
      return await turn.run(text);
    } catch (error) {
      if (error instanceof ModelError) return failed(shorten(causes(error), MAX_MESSAGE));
      if (error instanceof ClientGone) {
        const outcome = "interrupted" as const;
        await log.append({ type: "end", time: this.#time(), outcome, message: null });
      }
      throw error;
    }
  }

  /** The first entry of a new session. Throws `CoreUnreadable`. */
  #start(session: SessionId): EntryOf<"start"> {
    const core = readCore(this.#ports.core);
    this.#ports.notices.coreRead();
    return { type: "start", time: this.#time(), session, system: systemPrompt(core) };
  }

  /** What keeps a session from going on, told to its client and to the operator. */
  #explain(session: SessionId, error: unknown): TurnEnd {
    const { notices } = this.#ports;
    if (error instanceof ClientGone) throw error;
    if (error instanceof SessionLogDamaged) {
      notices.sessionDamaged(session, error);
      return failed("this session's log is damaged; the operator of loopd has been told");
    }
    if (error instanceof SessionLogTooLong) {
      notices.sessionUnavailable(session, error);
      return failed("this session has become too long; start a new one");
    }
    if (error instanceof SessionLogUnavailable) {
      notices.sessionUnavailable(session, error);
      return failed("this session's log cannot be used; the operator of loopd has been told");
    }
    if (error instanceof CoreUnreadable) {
      notices.coreUnreadable(error);
      return failed("memory/core.md cannot be read; the operator of loopd has been told");
    }
    notices.internal(error);
    return failed("an internal error; the log of loopd says more");
  }

  #time() {
    return timestamp(this.#ports.now());
  }
}
