/** What a terminal has on its screen after the bytes that were written to it: enough of one for ours. */
import { assertNever } from "../../proto/text.ts";

interface Cell {
  text: string;
}

/** East Asian wide characters and emoji, roughly: two columns. */
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60]/u;
const EMOJI = /\p{Emoji_Presentation}/u;
const MARK = /\p{M}/u;

type Token =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "csi"; readonly sequence: string };

/** Reads what was written so far anew each time: nothing here is kept between two looks. */
export class Emulator {
  readonly columns: number;
  readonly rows: number;
  /** The other screen is shown. */
  alternate = false;
  cursorHidden = false;
  pasteInBrackets = false;
  /** Something was written beyond the last column of a row. */
  overflowed = false;
  /** Anything that moved or restyled, and is none of what bxctl writes. */
  readonly unknown: string[] = [];
  readonly reversed = new Set<number>();
  #cells: Cell[][];
  #row = 0;
  #column = 0;
  #reverse = false;

  constructor(columns: number, rows: number) {
    this.columns = columns;
    this.rows = rows;
    this.#cells = this.#blank();
  }

  /** The screen after `written`. */
  static after(written: string, columns: number, rows: number): Emulator {
    const emulator = new Emulator(columns, rows);
    for (const token of tokens(written)) emulator.#take(token);
    return emulator;
  }

  /** The rows, without the spaces at their ends. */
  get lines(): string[] {
    return this.#cells.map((row) => row.map(({ text }) => text).join("").trimEnd());
  }

  get text(): string {
    return this.lines.join("\n");
  }

  #blank(): Cell[][] {
    return Array.from({ length: this.rows }, () => []);
  }

  #take(token: Token): void {
    switch (token.kind) {
      case "text":
        for (const character of token.text) this.#print(character);
        return;
      case "csi":
        return this.#control(token.sequence);
      default:
        return assertNever(token);
    }
  }

  #print(character: string): void {
    if (character === "\r") this.#column = 0;
    else if (character === "\n") this.#row = Math.min(this.rows - 1, this.#row + 1);
    else if (character < " " || /\p{C}/u.test(character)) {
      this.unknown.push(JSON.stringify(character));
    } else {
      const row = this.#cells[this.#row] ?? [];
      const width = MARK.test(character)
        ? 0
        : WIDE.test(character) || EMOJI.test(character)
        ? 2
        : 1;
      while (row.length < this.#column) row.push({ text: " " });
      if (width === 0) {
        const last = row[this.#column - 1];
        if (last !== undefined) last.text += character;
        return;
      }
      row[this.#column] = { text: character };
      if (width === 2) row[this.#column + 1] = { text: "" };
      this.#column += width;
      if (this.#column > this.columns && this.alternate) this.overflowed = true;
      if (this.#reverse) this.reversed.add(this.#row);
    }
  }

  #control(sequence: string): void {
    const [, row, column] = /^(\d+);(\d+)H$/.exec(sequence) ?? [];
    if (row !== undefined) {
      [this.#row, this.#column] = [Number(row) - 1, Number(column) - 1];
      if (this.#row >= this.rows) this.unknown.push(`row ${row} of ${this.rows}`);
      return;
    }
    switch (sequence) {
      case "2K":
        this.#cells[this.#row] = [];
        this.reversed.delete(this.#row);
        return;
      case "2J":
        this.#cells = this.#blank();
        this.reversed.clear();
        return;
      case "7m":
      case "27m":
        this.#reverse = sequence === "7m";
        return;
      case "?1049h":
      case "?1049l":
        this.alternate = sequence.endsWith("h");
        this.#cells = this.#blank();
        [this.#row, this.#column] = [0, 0];
        return;
      case "?25h":
      case "?25l":
        this.cursorHidden = sequence.endsWith("l");
        return;
      case "?2004h":
      case "?2004l":
        this.pasteInBrackets = sequence.endsWith("h");
        return;
      default:
        this.unknown.push(sequence);
    }
  }
}

function* tokens(written: string): Generator<Token> {
  // The end may be half a sequence, whose rest is still to come.
  // deno-lint-ignore no-control-regex
  const whole = written.replace(/\x1b(?:\[[0-?]*)?$/, "");
  // deno-lint-ignore no-control-regex
  for (const [text, sequence] of whole.matchAll(/\x1b\[([0-?]*[@-~])|[^\x1b]+|\x1b/g)) {
    yield sequence === undefined ? { kind: "text", text } : { kind: "csi", sequence };
  }
}
