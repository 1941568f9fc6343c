/**
 * Keys of a terminal from its bytes. What is not a key of ours is passed over whole: the letter at the end
 * of an escape sequence, or in what is pasted, must not answer anything. Pure.
 */

export type Key =
  | "up"
  | "down"
  | "page_up"
  | "page_down"
  | "approve"
  | "refuse"
  /** Of those two, one that did not come alone; `KeyReader` does not give it. */
  | "together"
  | "redraw"
  | "quit";

const CTRL_C = 0x03;
const ESCAPE = 0x1b;
const BELL = 0x07;

const PLAIN: Readonly<Record<string, Key>> = {
  j: "down",
  k: "up",
  " ": "page_down",
  b: "page_up",
  a: "approve",
  r: "refuse",
  q: "quit",
  "\x0c": "redraw",
};
/** By what follows `ESC [`, its last byte included. */
const SEQUENCES: Readonly<Record<string, Key>> = {
  A: "up",
  B: "down",
  "5~": "page_up",
  "6~": "page_down",
};
/** A report of the mouse in its oldest form: three bytes more, which are letters or anything else. */
const MOUSE = "M";
const MOUSE_BYTES = 3;
const PASTE_BEGINS = "200~";
const PASTE_ENDS = "201~";
/** More of a sequence is not kept, in bytes; none of ours is longer. */
const LONGEST = 8;

type State =
  | "plain"
  /** After ESC. */
  | "escape"
  /** After `ESC [`, up to a byte of 0x40 to 0x7e. */
  | "sequence"
  /** After `ESC O`: one byte more. */
  | "one_more"
  /** After `ESC [ M`: the bytes of the mouse. */
  | "mouse"
  /** After `ESC ]` and the like: a text up to BEL or ESC and one byte. */
  | "text";

/** Reads the bytes of one terminal, in pieces as they come. */
export class KeyReader {
  #state: State = "plain";
  #sequence = "";
  /** Bytes of the mouse that are still to come. */
  #mouse = 0;
  #pasting = false;

  /** The keys that `bytes` complete, in order. */
  push(bytes: Uint8Array): Key[] {
    return [...bytes].flatMap((byte) => this.#take(byte) ?? []);
  }

  #take(byte: number): Key | null {
    // Whatever the terminal has begun to say, Ctrl-C ends.
    if (byte === CTRL_C) return "quit";
    if (byte === ESCAPE) {
      this.#state = "escape";
      return null;
    }
    const character = String.fromCharCode(byte);
    switch (this.#state) {
      case "plain":
        return this.#pasting ? null : keyIn(PLAIN, character);
      case "escape":
        this.#sequence = "";
        this.#state = character === "["
          ? "sequence"
          : character === "O"
          ? "one_more"
          : "]PX^_".includes(character)
          ? "text"
          : "plain";
        return null;
      case "one_more":
        this.#state = "plain";
        return this.#pasting ? null : keyIn(SEQUENCES, character);
      case "mouse":
        this.#mouse -= 1;
        if (this.#mouse === 0) this.#state = "plain";
        return null;
      case "text":
        if (byte === BELL) this.#state = "plain";
        return null;
      case "sequence":
        if (this.#sequence.length < LONGEST) this.#sequence += character;
        if (byte < 0x40 || byte > 0x7e) return null;
        this.#state = "plain";
        return this.#ended(this.#sequence);
    }
  }

  #ended(sequence: string): Key | null {
    if (sequence === MOUSE) {
      this.#state = "mouse";
      this.#mouse = MOUSE_BYTES;
    }
    if (sequence === PASTE_BEGINS) this.#pasting = true;
    if (sequence === PASTE_ENDS) this.#pasting = false;
    return this.#pasting ? null : keyIn(SEQUENCES, sequence);
  }
}

function keyIn(table: Readonly<Record<string, Key>>, name: string): Key | null {
  return Object.hasOwn(table, name) ? table[name] ?? null : null;
}
