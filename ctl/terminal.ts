/** The terminal as a whole screen: taken, drawn on, and given back as it was. */
import type { Io } from "./io.ts";
import type { Source } from "./keyboard.ts";
import type { Row } from "./watch_screen.ts";

// The other screen; no cursor; pasted text comes in brackets, so that it can be told from keys.
const TAKE = "\x1b[?1049h\x1b[?25l\x1b[?2004h";
const GIVE_BACK = "\x1b[?2004l\x1b[?25h\x1b[?1049l";
const CLEAR = "\x1b[2J";
const REVERSE = "\x1b[7m";
const UPRIGHT = "\x1b[27m";

export class FullScreen implements Disposable {
  readonly #io: Io;
  readonly #source: Source;
  /** The rows that are on the screen; null: it is to be drawn anew. */
  #drawn: readonly Row[] | null = null;

  /** Takes the terminal. Throws `OutputGone`. */
  constructor(io: Io, source: Source) {
    this.#io = io;
    this.#source = source;
    // Ctrl-Z would leave the terminal as it is here.
    source.setRaw(true, "keys");
    try {
      io.answer(TAKE);
    } catch (error) {
      source.setRaw(false);
      throw error;
    }
  }

  /** The next draw draws every row. */
  forget(): void {
    this.#drawn = null;
  }

  /** Draws what is not on the screen yet. Throws `OutputGone`. */
  draw(rows: readonly Row[]): void {
    const before = this.#drawn?.length === rows.length ? this.#drawn : null;
    const parts = rows.map((row, at) => {
      const old = before?.[at];
      if (old?.text === row.text && old.selected === row.selected) return "";
      const text = row.selected && this.#io.colours ? `${REVERSE}${row.text}${UPRIGHT}` : row.text;
      // Cleared first: at the end of a full row the cursor stands on its last character.
      return `\x1b[${at + 1};1H\x1b[2K${text}`;
    });
    const all = `${before === null ? CLEAR : ""}${parts.join("")}`;
    this.#drawn = rows;
    if (all !== "") this.#io.answer(all);
  }

  /** Gives the terminal back. */
  [Symbol.dispose](): void {
    try {
      this.#io.answer(GIVE_BACK);
    } catch {
      // nobody looks at it any more
    }
    this.#source.setRaw(false);
  }
}
