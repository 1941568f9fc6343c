/** Where the owner's lines come from: the kernel's own line editing, or ours (contracts 4). */
import type { Io } from "./io.ts";
import type { Input, Keyboard } from "./keyboard.ts";

/** What stands before a message of the chat. */
export const PROMPT = "> ";

/** A line, or why there is none; `interrupted`: Ctrl-C on an empty line. */
export type Asked = Input | { readonly kind: "interrupted" };

export interface Lines {
  /** Whether somebody can be asked. */
  readonly isTerminal: boolean;
  /** The next message of the chat. */
  message(): Promise<Asked>;
  /** The answer to `question`, which is shown. Stops waiting once `until` is aborted. */
  answer(question: string, until: AbortSignal): Promise<Input>;
  /**
   * Forgets everything that was typed so far and waits until nothing has been typed for a while. On a
   * terminal only. Whether there was anything.
   */
  discard(): Promise<boolean>;
  /** Runs at each Ctrl-C while no message is being typed; where lines are not edited here, never. */
  interrupted: () => void;
}

/** Lines from a pipe, or as the kernel gives them out on a terminal that cannot be drawn on. */
export class PlainLines implements Lines {
  readonly #keyboard: Keyboard;
  readonly #io: Pick<Io, "prompt">;
  interrupted: () => void = () => {};

  constructor(keyboard: Keyboard, io: Pick<Io, "prompt">) {
    this.#keyboard = keyboard;
    this.#io = io;
  }

  get isTerminal(): boolean {
    return this.#keyboard.isTerminal;
  }

  async message(): Promise<Input> {
    if (this.isTerminal) this.#io.prompt(PROMPT);
    const input = await this.#keyboard.line();
    if (input.kind === "end" && this.isTerminal) this.#io.prompt("\n");
    return input;
  }

  async answer(question: string, until: AbortSignal): Promise<Input> {
    this.#io.prompt(question);
    const input = await this.#keyboard.line(until);
    if (input.kind === "end" || input.kind === "withdrawn") this.#io.prompt("\n");
    return input;
  }

  async discard(): Promise<boolean> {
    return await this.#keyboard.discard();
  }
}
