/** What was typed on a terminal that gives out every key at once: its bytes as keys. Pure. */

/** A key, or what a whole paste brought. */
export type Key =
  | { readonly kind: "text" | "paste"; readonly text: string }
  | { readonly kind: KeyName };

export type KeyName =
  | "enter"
  /** Ctrl-C. */
  | "interrupt"
  /** Ctrl-D: delete, or on an empty line the end of the input. */
  | "delete_or_end"
  | "backspace"
  | "delete"
  | "left"
  | "right"
  | "word_left"
  | "word_right"
  | "start"
  | "end"
  /** Ctrl-U, Ctrl-K and Ctrl-W: what is before the cursor, after it, and the word before it. */
  | "cut_before"
  | "cut_after"
  | "cut_word"
  | "older"
  | "newer"
  /** Ctrl-L. */
  | "redraw";

/** More than a message may have, in UTF-16 units: the rest of a longer paste is left out, and it is not sent. */
export const MAX_PASTE = 1024 * 1024 + 1;

const PASTE_END = "\x1b[201~";

/** By the code of Ctrl with a letter, and of two keys of their own. What is not here does nothing. */
const CONTROLS: Readonly<Record<string, KeyName>> = {
  "\x01": "start",
  "\x02": "left",
  "\x03": "interrupt",
  "\x04": "delete_or_end",
  "\x05": "end",
  "\x06": "right",
  "\x08": "backspace",
  "\x0a": "enter",
  "\x0b": "cut_after",
  "\x0c": "redraw",
  "\x0d": "enter",
  "\x0e": "newer",
  "\x10": "older",
  "\x15": "cut_before",
  "\x17": "cut_word",
  "\x7f": "backspace",
};

/** By what follows ESC. */
const SEQUENCES: Readonly<Record<string, KeyName>> = {
  ...{ "[A": "older", "[B": "newer", "[C": "right", "[D": "left", "[H": "start", "[F": "end" },
  ...{ "OA": "older", "OB": "newer", "OC": "right", "OD": "left", "OH": "start", "OF": "end" },
  ...{ "[1~": "start", "[7~": "start", "[4~": "end", "[8~": "end", "[3~": "delete" },
  ...{ "[1;5C": "word_right", "[1;5D": "word_left", "[1;3C": "word_right", "[1;3D": "word_left" },
  ...{ "f": "word_right", "b": "word_left" },
};

const ESCAPE = "\x1b";
// What follows ESC: a whole sequence, or one character; and the beginning of one that is not whole yet. After
// `[M`, which a mouse's oldest report begins with, come three characters more.
const WHOLE = /^(?:\[M\P{Cc}{3}|\[(?!M)[0-?]{0,32}[ -/]{0,4}[@-~]|O[@-~]|[^\p{Cc}[O])/u;
const BEGUN = /^(?:\[(?:M\P{Cc}{0,2}|[0-?]{0,32}[ -/]{0,4})|O)?$/u;
const PLAIN = /^\P{Cc}+/u;

/** Reads keys out of bytes that come in pieces, cut anywhere. */
export class KeyReader {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  /** What is no whole key yet. */
  #rest = "";
  /** Of the paste that is under way. */
  #paste: string | null = null;

  /** The keys that are whole with `bytes`. What is not UTF-8 is U+FFFD. */
  push(bytes: Uint8Array): Key[] {
    this.#rest += this.#decoder.decode(bytes, { stream: true });
    const keys: Key[] = [];
    while (this.#rest !== "") {
      const key = this.#paste === null ? this.#next() : this.#pasted(this.#paste);
      if (key === "unfinished") break;
      if (key !== "nothing") keys.push(key);
    }
    return keys;
  }

  /** Forgets the beginning of a key. A paste under way goes on: its end is no typing. */
  forget(): void {
    if (this.#paste !== null) return;
    this.#rest = "";
    this.#decoder.decode();
  }

  #next(): Key | "unfinished" | "nothing" {
    const rest = this.#rest;
    const [text] = PLAIN.exec(rest) ?? [];
    if (text !== undefined) {
      this.#rest = rest.slice(text.length);
      return { kind: "text", text };
    }
    const after = rest.startsWith(ESCAPE) ? rest.slice(ESCAPE.length) : null;
    const [sequence = ""] = after === null ? [] : WHOLE.exec(after) ?? [];
    if (after !== null && sequence === "" && BEGUN.test(after)) return "unfinished";
    // Where ESC begins nothing, what follows it stands for itself: no Ctrl-C is lost behind one.
    this.#rest = rest.slice(1 + sequence.length);
    if (sequence === "[200~") {
      this.#paste = "";
      return "nothing";
    }
    const kind = sequence === "" ? CONTROLS[rest.charAt(0)] : SEQUENCES[sequence];
    return kind === undefined ? "nothing" : { kind };
  }

  #pasted(before: string): Key | "unfinished" {
    const end = this.#rest.indexOf(PASTE_END);
    // The end may be cut in two.
    const known = end < 0 ? Math.max(0, this.#rest.length - PASTE_END.length + 1) : end;
    const pasted = (before + this.#rest.slice(0, known)).slice(0, MAX_PASTE);
    this.#rest = this.#rest.slice(end < 0 ? known : end + PASTE_END.length);
    this.#paste = end < 0 ? pasted : null;
    if (end < 0) return "unfinished";
    return { kind: "paste", text: pasted.replace(/\r\n?/g, "\n").toWellFormed() };
  }
}
