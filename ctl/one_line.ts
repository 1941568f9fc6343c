/** A text on what is left of one line of a terminal. Pure. */
import { display } from "../proto/escape.ts";
import { columnsOf } from "./width.ts";

/** Where less is left, the line is broken by the terminal. */
const LEAST = 20;

/**
 * `text` as data in `columns` columns. Where it is longer its middle is left out, which is said, as
 * `… <n> more …`, in characters: three quarters of what is shown are its beginning. It is cut before
 * anything is escaped, and between characters.
 */
export function fitted(text: string, columns: number): string {
  // The display rules only make a text longer, and a character without width is part of another one.
  const short = text.length <= 4 * columns ? display(text) : null;
  if (short !== null && columnsOf(short) <= columns) return short;
  const characters = [...text];
  const note = (more: number) => `… ${more} more …`;
  const room = Math.max(LEAST, columns - note(characters.length).length);
  const last = fitting(
    characters.slice(-room).reverse(),
    Math.floor(room / 4),
    (some) => display(some.toReversed().join("")),
  );
  const first = fitting(
    characters.slice(0, room),
    room - columnsOf(last.shown),
    (some) => display(some.join("")),
  );
  const more = characters.length - first.count - last.count;
  return more <= 0 ? display(text) : `${first.shown}${note(more)}${last.shown}`;
}

/** The most of the first `characters` that `show` makes no wider than `columns`. */
function fitting(
  characters: readonly string[],
  columns: number,
  show: (some: readonly string[]) => string,
): { readonly count: number; readonly shown: string } {
  let [count, over] = [0, characters.length + 1];
  while (over - count > 1) {
    const middle = Math.floor((count + over) / 2);
    if (columnsOf(show(characters.slice(0, middle))) <= columns) count = middle;
    else over = middle;
  }
  return { count, shown: show(characters.slice(0, count)) };
}
