/** How the events of a turn look on stdout. Everything that came from elsewhere is shown as data. */
import { display } from "../proto/escape.ts";
import type { TurnEvent } from "../proto/messages.ts";
import { expiry } from "./ago.ts";
import { shortened } from "./block.ts";
import type { Io } from "./io.ts";
import { Prose } from "./prose.ts";

/** The model's own words. */
type ProseType = "text" | "reasoning";
type EventOf<T extends TurnEvent["type"]> = Extract<TurnEvent, { type: T }>;

export class Printer {
  readonly #io: Io;
  #prose: { readonly type: ProseType; readonly stream: Prose } | null = null;
  /** The last line has no newline yet. */
  #open = false;

  constructor(io: Io) {
    this.#io = io;
  }

  /** Prints a piece of the model's text as it comes. Reasoning is dimmed, or else named. */
  prose({ type, text }: EventOf<ProseType>): void {
    if (this.#prose?.type !== type) {
      this.endLine();
      this.#prose = { type, stream: new Prose() };
      if (type === "reasoning" && !this.#io.colours) this.#write("[reasoning] ");
    }
    this.#write(this.#prose.stream.push(text));
  }

  call({ tool, arguments: args }: EventOf<"tool_call">): void {
    this.lines(`[call] ${display(tool)} ${shortened(args, "see --json")}\n`);
  }

  result({ status, tool, content }: EventOf<"tool_result">): void {
    this.lines(`[${status}] ${display(tool)} ${shortened(content, "see --json")}\n`);
  }

  /** A waiting call whose block cannot be had. */
  pending({ approval, tool, expires }: EventOf<"approval_pending">): void {
    this.lines(`[approval ${approval}] ${display(tool)}  ${expiry(expires, this.#io.now())}\n`);
  }

  /** Prints whole lines, each with its newline. */
  lines(text: string): void {
    this.endLine();
    this.#io.answer(text);
  }

  /** Ends what the model was saying. */
  endLine(): void {
    if (this.#prose !== null) this.#write(this.#prose.stream.end());
    this.#prose = null;
    if (this.#open) this.#io.answer("\n");
    this.#open = false;
  }

  #write(shown: string): void {
    if (shown === "") return;
    const dimmed = this.#io.colours && this.#prose?.type === "reasoning";
    this.#io.answer(dimmed ? `\x1b[2m${shown}\x1b[22m` : shown);
    this.#open = !shown.endsWith("\n");
  }
}
