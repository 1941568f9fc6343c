/** Ctrl-C in a turn: the first stops the turn, a second one ends the chat. */
import { Call, ClientError } from "../proto/io/client.ts";
import type { SessionId } from "../proto/ids.ts";

/** How long loopd may take to end a turn, in milliseconds; after that its client just hangs up. */
const STOP_MS = 10_000;

export interface StopOptions {
  /** `loop.sock`. */
  readonly path: string;
  /** Told once, at the first Ctrl-C. */
  readonly stopping: () => void;
  /** Closes the turn's connection, which ends the turn too. */
  readonly hangUp: () => void;
  /** Ends the chat. */
  readonly leave: () => void;
}

export class Stopper {
  readonly #options: StopOptions;
  readonly #pressed = new AbortController();
  #session: SessionId | null = null;
  #asking: Promise<void> | null = null;

  constructor(options: StopOptions) {
    this.#options = options;
  }

  /** Aborted once the owner wants the turn stopped. */
  get signal(): AbortSignal {
    return this.#pressed.signal;
  }

  /** Ctrl-C. */
  press(): void {
    if (this.signal.aborted) return this.#options.leave();
    this.#pressed.abort();
    this.#options.stopping();
    this.#send();
  }

  /** loopd has said which session the turn belongs to; before that nobody can ask it to stop. */
  known(session: SessionId): void {
    this.#session = session;
    if (this.signal.aborted) this.#send();
  }

  /** Waits for loopd's answer, where it was asked: a stop that comes late must not end the next turn. */
  async settled(): Promise<void> {
    await this.#asking;
  }

  #send(): void {
    if (this.#session !== null) this.#asking ??= this.#ask(this.#session);
  }

  async #ask(session: SessionId): Promise<void> {
    let call: Call<"ok" | "error"> | null = null;
    try {
      const request = { kind: "stop", final: true, body: { session } } as const;
      call = await Call.open(this.#options.path, request, ["ok", "error"]);
      if ((await call.next(STOP_MS)).kind === "error") this.#options.hangUp();
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      this.#options.hangUp();
    } finally {
      call?.close();
    }
  }
}
