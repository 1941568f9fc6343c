/** One turn of a chat, as loopd tells of it (contracts 2, `loop.sock`). */
import { Call, ClientError } from "../proto/io/client.ts";
import type { CallId, SessionId } from "../proto/ids.ts";
import type { Message, TurnEvent } from "../proto/messages.ts";
import { noAnswer, refused } from "./notices.ts";

/**
 * The longest silence of loopd, in milliseconds: no limit but the runtime's. A model may think, and a
 * call may wait for its approval, for as long as loopd and brokerd let them.
 */
const SILENCE_MS = 2 ** 31 - 1;

type Item =
  | { readonly kind: "event"; readonly event: TurnEvent }
  | { readonly kind: "end" }
  | { readonly kind: "failed"; readonly error: unknown };

/**
 * The events of a turn. They are read ahead of what is shown, so that the end of an approval is seen
 * while the owner is being asked. Close it when done.
 */
export class Turn {
  readonly #path: string;
  readonly #call: Call<"turn_event" | "error">;
  readonly #items: Item[] = [];
  #wake: () => void = () => {};
  #watched: { readonly call: CallId; readonly ended: AbortController } | null = null;

  private constructor(path: string, call: Call<"turn_event" | "error">) {
    this.#path = path;
    this.#call = call;
    void this.#readAll();
  }

  /** Sends `text` to loopd at the socket `path`; `session` null starts a new one. Throws `Failed`. */
  static async start(path: string, session: SessionId | null, text: string): Promise<Turn> {
    const request: Message = { kind: "chat", final: true, body: { session, text } };
    try {
      return new Turn(path, await Call.open(path, request, ["turn_event", "error"]));
    } catch (error) {
      throw error instanceof ClientError ? noAnswer("loopd", path, error) : error;
    }
  }

  /** The next event; null after the last one. Throws `Failed`. */
  async next(): Promise<TurnEvent | null> {
    while (this.#items.length === 0) {
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
    const item = this.#items[0];
    switch (item?.kind) {
      case "event":
        this.#items.shift();
        return item.event;
      case "failed":
        throw item.error;
      default:
        return null;
    }
  }

  /** Is aborted once `call`, or the turn, has ended. Watches one call at a time. */
  endOf(call: CallId): AbortSignal {
    const ended = new AbortController();
    this.#watched = { call, ended };
    for (const item of this.#items) this.#notice(item);
    return ended.signal;
  }

  close(): void {
    this.#call.close();
  }

  async #readAll(): Promise<void> {
    try {
      for (let last = false; !last;) {
        const message = await this.#call.next(SILENCE_MS);
        if (message.kind === "error") throw refused("loopd", message.body, null);
        last = message.final;
        const { type } = message.body;
        if (last !== (type === "done" || type === "failed")) throw new ClientError("bad_answer");
        this.#add({ kind: "event", event: message.body });
      }
      this.#add({ kind: "end" });
    } catch (error) {
      const failed = error instanceof ClientError ? noAnswer("loopd", this.#path, error) : error;
      this.#add({ kind: "failed", error: failed });
    }
  }

  #add(item: Item): void {
    this.#items.push(item);
    this.#notice(item);
    this.#wake();
  }

  /** Tells whoever watches a call that it has ended. */
  #notice(item: Item): void {
    const ends = item.kind !== "event" || item.event.type === "done" ||
      item.event.type === "failed" ||
      (item.event.type === "tool_result" && item.event.call === this.#watched?.call);
    if (ends) this.#watched?.ended.abort();
  }
}
