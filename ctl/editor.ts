/** The line that the owner is typing, and the messages of this chat that were sent before. Pure. */
import type { Key } from "./keys.ts";

/** `at`: where the cursor is, in UTF-16 units, always between two characters as people count them. */
export interface Line {
  readonly text: string;
  readonly at: number;
}

export const EMPTY: Line = { text: "", at: 0 };

/** A line is not longer than this, in UTF-16 units: more than a message may have, so that none is cut and sent. */
export const MAX_LINE = 1024 * 1024 + 1;
/** The history holds at most so many messages, and so many UTF-16 units in all. */
export const MAX_ENTRIES = 100;
export const MAX_HISTORY = 1024 * 1024;

const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });

/** The characters of `text` as people count them. */
export function* characters(text: string): Generator<string> {
  for (const { segment } of segmenter.segment(text)) yield segment;
}

/** The cursor in a `text`, moved on to the end of the character that it would be inside of. */
function placed(text: string, at: number): Line {
  const found = at < text.length ? segmenter.segment(text).containing(at) : undefined;
  const inside = found !== undefined && found.index < at;
  return { text, at: inside ? found.index + found.segment.length : at };
}

/** Where the character before the cursor begins. */
function left({ text, at }: Line): number {
  return at === 0 ? 0 : segmenter.segment(text).containing(at - 1)?.index ?? 0;
}

/** Where the character after the cursor ends. */
function right({ text, at }: Line): number {
  const found = at === text.length ? undefined : segmenter.segment(text).containing(at);
  return found === undefined ? text.length : found.index + found.segment.length;
}

const isSpace = (unit: string) => /\s/.test(unit);

/** Where the word before the cursor begins. */
function wordLeft({ text, at }: Line): number {
  let start = at;
  while (start > 0 && isSpace(text.charAt(start - 1))) start -= 1;
  while (start > 0 && !isSpace(text.charAt(start - 1))) start -= 1;
  return start;
}

/** Where the word after the cursor ends. */
function wordRight({ text, at }: Line): number {
  let end = at;
  while (end < text.length && isSpace(text.charAt(end))) end += 1;
  while (end < text.length && !isSpace(text.charAt(end))) end += 1;
  return end;
}

/** `line` without what is from `from` to `to`, the cursor there. */
function without({ text }: Line, from: number, to: number): Line {
  return placed(text.slice(0, from) + text.slice(to), from);
}

function inserted({ text, at }: Line, more: string): Line {
  const fits = more.slice(0, Math.max(0, MAX_LINE - text.length)).toWellFormed();
  return placed(text.slice(0, at) + fits + text.slice(at), at + fits.length);
}

/** What `key` makes of `line`; keys that edit nothing leave it as it is. */
export function edited(line: Line, key: Key): Line {
  const { text, at } = line;
  switch (key.kind) {
    case "text":
    case "paste":
      return inserted(line, key.text);
    case "backspace":
      return without(line, left(line), at);
    case "delete":
    case "delete_or_end":
      return without(line, at, right(line));
    case "left":
      return { text, at: left(line) };
    case "right":
      return { text, at: right(line) };
    case "word_left":
      return placed(text, wordLeft(line));
    case "word_right":
      return placed(text, wordRight(line));
    case "start":
      return { text, at: 0 };
    case "end":
      return { text, at: text.length };
    case "cut_before":
      return without(line, 0, at);
    case "cut_after":
      return without(line, at, text.length);
    case "cut_word":
      return without(line, wordLeft(line), at);
    default:
      return line;
  }
}

/** What was sent in this chat, in memory alone: no file has it. */
export class History {
  #entries: string[] = [];

  /** Adds `text` as the newest, unless the newest is the same. The oldest go where it becomes too much. */
  add(text: string): void {
    if (text.length > MAX_HISTORY || text === this.#entries.at(-1)) return;
    this.#entries.push(text);
    let units = this.#entries.reduce((sum, entry) => sum + entry.length, 0);
    while (this.#entries.length > MAX_ENTRIES || units > MAX_HISTORY) {
      units -= this.#entries.shift()?.length ?? 0;
    }
  }

  /** A look through it, from the line that is being typed. */
  browse(): Browsing {
    return new Browsing([...this.#entries, ""]);
  }
}

/** Going up and down in the history. What was changed on the way stays until a line is sent. */
export class Browsing {
  readonly #lines: string[];
  #at: number;

  constructor(lines: string[]) {
    this.#lines = lines;
    this.#at = lines.length - 1;
  }

  /** The line `by` further, where there is one, with the cursor at its end. */
  move(line: Line, by: 1 | -1): Line {
    const text = this.#lines[this.#at + by];
    if (text === undefined) return line;
    this.#lines[this.#at] = line.text;
    this.#at += by;
    return { text, at: text.length };
  }
}
