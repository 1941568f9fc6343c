/** How the events of a turn look on stdout. Everything that came from elsewhere is shown as data. */
import { display } from "../proto/escape.ts";
import type { TurnEvent } from "../proto/messages.ts";
import { expiry } from "./ago.ts";
import { shortened } from "./block.ts";
import type { Io } from "./io.ts";
import { fitted } from "./one_line.ts";
import { Prose } from "./prose.ts";
import { columnsOf } from "./width.ts";

/** The model's own words. */
type ProseType = "text" | "reasoning";
type EventOf<T extends TurnEvent["type"]> = Extract<TurnEvent, { type: T }>;

export class Printer {
  readonly #io: Io;
  readonly #columns: (() => number) | null;
  #prose: { readonly type: ProseType; readonly stream: Prose } | null = null;
  /** The last line has no newline yet. */
  #open = false;

  /** `columns`: how wide a line about a call may be; null where that is the display rules' matter alone. */
  constructor(io: Io, columns: (() => number) | null) {
    this.#io = io;
    this.#columns = columns;
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
    this.#about(`[call] ${display(tool)} `, args);
  }

  result({ status, tool, content }: EventOf<"tool_result">): void {
    this.#about(`[${status}] ${display(tool)} `, content);
  }

  /** A call that was with brokerd when the turn was stopped: what came of it is not known here. */
  stopped({ tool }: EventOf<"tool_call">, session: string): void {
    const where = `bxctl audit log --session ${display(session)}`;
    this.lines(`[stopped] ${display(tool)} what came of it: ${where}\n`);
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

  #about(what: string, text: string): void {
    const rest = this.#columns === null
      ? shortened(text, "see --json")
      : fitted(text, this.#columns() - columnsOf(what));
    this.lines(`${what}${rest}\n`);
  }

  #write(shown: string): void {
    if (shown === "") return;
    const dimmed = this.#io.colours && this.#prose?.type === "reasoning";
    this.#io.answer(dimmed ? `\x1b[2m${shown}\x1b[22m` : shown);
    this.#open = !shown.endsWith("\n");
  }
}
