/**
 * Line editing on a terminal: every key is read as it comes, for the whole of a chat, so that Ctrl-C ends
 * a turn and no program; what is typed while nothing is asked for is not shown before it is its turn.
 */
import { type Browsing, edited, EMPTY, History, type Line } from "./editor.ts";
import { type Input, QUIET_MS, type Source, whenAborted } from "./keyboard.ts";
import { type Key, KeyReader } from "./keys.ts";
import { type Asked, type Lines, PROMPT } from "./lines.ts";
import { Screen, type Size, viewOf } from "./screen.ts";

/** A terminal that can be drawn on, or what a test has in its place. */
export interface Tty extends Omit<Source, "isTerminal"> {
  write(text: string): void;
  size(): Size;
}

/** Pastes come in marks of their own, so that their newlines are no Enter. */
const PASTES_ON = "\x1b[?2004h";
const PASTES_OFF = "\x1b[?2004l";
/** Keys that may wait until they are asked for; Ctrl-C never waits. */
const MAX_KEYS = 64 * 1024;
const CHUNK_BYTES = 4096;

export class Typist implements Lines {
  readonly isTerminal = true;
  readonly #tty: Tty;
  readonly #quietMs: number;
  readonly #reader = new KeyReader();
  readonly #history = new History();
  #keys: Key[] = [];
  #ended = false;
  /** Counts what was read. */
  #reads = 0;
  #wake: () => void = () => {};
  /** The line that is being typed: draws it again. */
  #redraw: (() => void) | null = null;
  #inMessage = false;
  #interrupted: () => void = () => {};

  constructor(tty: Tty, quietMs = QUIET_MS) {
    this.#tty = tty;
    this.#quietMs = quietMs;
  }

  /** Takes the terminal over. */
  open(): void {
    this.#tty.setRaw(true);
    this.#tty.write(PASTES_ON);
    void this.#readAll();
  }

  /** Gives the terminal back as it was. */
  close(): void {
    this.#tty.write(PASTES_OFF);
    this.#tty.setRaw(false);
  }

  /** The program goes on after it was stopped: whoever had the terminal meanwhile left it as they liked. */
  resumed(): void {
    this.#tty.setRaw(true);
    this.#tty.write(PASTES_ON);
    this.#redraw?.();
  }

  /** The terminal's size has changed. */
  resized(): void {
    this.#redraw?.();
  }

  get interrupted(): () => void {
    return this.#interrupted;
  }

  set interrupted(interrupted: () => void) {
    this.#interrupted = interrupted;
    // It may have come right behind the Enter that began the turn.
    if (this.#keys.some(({ kind }) => kind === "interrupt")) this.#interrupt();
  }

  async message(): Promise<Asked> {
    const browsing = this.#history.browse();
    while (true) {
      this.#inMessage = true;
      const input = await this.#line(PROMPT, browsing, null).finally(() => this.#inMessage = false);
      // Ctrl-C on a line that has something gives it up, and the next one is empty.
      if (input.kind === "dropped") continue;
      if (input.kind === "line" && input.text.trim() !== "") this.#history.add(input.text);
      return input;
    }
  }

  async answer(question: string, until: AbortSignal): Promise<Input> {
    const input = await this.#line(question, null, until);
    // Ctrl-C does not come here as a key while a question is asked.
    return input.kind === "interrupted" || input.kind === "dropped" ? { kind: "withdrawn" } : input;
  }

  async discard(): Promise<boolean> {
    let found = false;
    for (let more = true; more && !this.#ended;) {
      found ||= this.#keys.length > 0;
      this.#keys = [];
      this.#reader.forget();
      const before = this.#reads;
      const quiet = new AbortController();
      const timer = setTimeout(() => quiet.abort(), this.#quietMs);
      while (this.#reads === before && !quiet.signal.aborted && !this.#ended) {
        await this.#more(quiet.signal);
      }
      clearTimeout(timer);
      more = this.#reads > before;
      found ||= more;
    }
    return found;
  }

  /** Lets a line be typed after `prompt`. Pastes and older lines belong to messages, which have a history. */
  async #line(
    prompt: string,
    browsing: Browsing | null,
    until: AbortSignal | null,
  ): Promise<Asked | { readonly kind: "dropped" }> {
    const screen = new Screen();
    let line: Line = EMPTY;
    const draw = () => {
      const size = this.#tty.size();
      this.#tty.write(screen.draw(viewOf(prompt, line, size), size.columns));
    };
    const leave = <T>(input: T, mark = ""): T => {
      line = { ...line, at: line.text.length };
      draw();
      this.#tty.write(mark + screen.leave());
      return input;
    };
    this.#redraw = draw;
    try {
      while (true) {
        if (until?.aborted) return leave({ kind: "withdrawn" });
        const key = this.#keys.shift();
        if (key === undefined) {
          if (this.#ended) return leave({ kind: "end" });
          draw();
          await this.#more(until);
          continue;
        }
        switch (key.kind) {
          case "enter":
            return leave({ kind: "line", text: line.text });
          case "interrupt":
            return leave({ kind: line.text === "" ? "interrupted" : "dropped" }, "^C");
          case "delete_or_end":
            if (line.text === "") return leave({ kind: "end" });
            line = edited(line, key);
            break;
          case "older":
          case "newer":
            line = browsing?.move(line, key.kind === "older" ? -1 : 1) ?? line;
            break;
          case "redraw":
            this.#tty.write(screen.clear());
            break;
          case "paste":
            // Nobody answers a question by a paste.
            if (browsing !== null) line = edited(line, key);
            break;
          default:
            line = edited(line, key);
        }
      }
    } finally {
      this.#redraw = null;
    }
  }

  /** Resolves once something was read, the input has ended or `until` is aborted. */
  async #more(until: AbortSignal | null): Promise<void> {
    const read = new Promise<void>((resolve) => this.#wake = resolve);
    await (until === null ? read : Promise.race([read, whenAborted(until)]));
  }

  async #readAll(): Promise<void> {
    const chunk = new Uint8Array(CHUNK_BYTES);
    while (!this.#ended) {
      // A terminal that has gone away fails; that is its end.
      const count = await this.#tty.read(chunk).catch(() => null);
      this.#ended = count === null;
      this.#reads += 1;
      for (const key of this.#reader.push(chunk.subarray(0, count ?? 0))) this.#take(key);
      this.#wake();
    }
  }

  #take(key: Key): void {
    if (key.kind === "interrupt" && !this.#inMessage) this.#interrupt();
    else if (this.#keys.length < MAX_KEYS) this.#keys.push(key);
  }

  #interrupt(): void {
    // Whoever ends a turn does not mean what they typed ahead of it.
    this.#keys = [];
    this.#interrupted();
  }
}
