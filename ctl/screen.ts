/** How the line that is being typed looks on a terminal, and what to write so that it does. Pure. */
import { display } from "../proto/escape.ts";
import { characters, type Line } from "./editor.ts";
import { columnsOf } from "./width.ts";

/** A terminal's size in characters. */
export interface Size {
  readonly columns: number;
  readonly rows: number;
}

/** Rows of text, and the cursor's place among them, both counted from 0. */
export interface View {
  readonly rows: readonly string[];
  readonly row: number;
  readonly column: number;
}

/** What the owner typed or pasted as data: a tab as spaces, what cannot be seen escaped. */
function shown(character: string): string {
  return character === "\t" ? "    " : display(character);
}

/**
 * `prompt` and `line` in rows of a terminal of `size`. The last column stays free: what a terminal does
 * there differs. Of more rows than it has, those up to the cursor's and after it are left that fit.
 */
export function viewOf(prompt: string, { text, at }: Line, { columns, rows: most }: Size): View {
  const width = Math.max(columns - 1, 1);
  const rows: string[] = [prompt];
  let column = columnsOf(prompt);
  let cursor = { row: 0, column };
  let unit = 0;
  const begin = () => {
    rows.push("");
    column = 0;
  };
  for (const character of characters(text)) {
    const newline = character === "\n";
    const word = newline ? "" : shown(character);
    const wide = columnsOf(word);
    if (column + wide > width && column > 0) begin();
    if (unit === at) cursor = { row: rows.length - 1, column };
    unit += character.length;
    if (newline) begin();
    rows.push((rows.pop() ?? "") + word);
    column += wide;
  }
  if (unit === at) {
    if (column >= width) begin();
    cursor = { row: rows.length - 1, column };
  }
  const height = Math.max(most, 1);
  const first = Math.max(0, Math.min(cursor.row - height + 1, rows.length - height));
  return { ...cursor, rows: rows.slice(first, first + height), row: cursor.row - first };
}

const NOTHING: View = { rows: [""], row: 0, column: 0 };

/**
 * One line being typed, as it stands on the terminal. The cursor begins in the first column. The kernel
 * is left to make each newline begin a row, as for all that bxctl prints.
 */
export class Screen {
  #drawn = NOTHING;

  /** What to write for `view` in place of what is there; `columns`: the terminal's, as it is now. */
  draw(view: View, columns: number): string {
    const { rows, row, column } = this.#drawn;
    const atEnd = (one: View) =>
      one.row === one.rows.length - 1 && one.column === columnsOf(one.rows.at(-1) ?? "");
    const [old, text] = [rows.join("\n"), view.rows.join("\n")];
    const grows = atEnd(this.#drawn) && atEnd(view) && text.startsWith(old);
    this.#drawn = view;
    if (grows) return text.slice(old.length);
    // A terminal that became narrower has broken the rows that no longer fit.
    const above = rows.slice(0, row).reduce((sum, one) => sum + taken(one, columns), 0) +
      Math.floor(column / columns);
    const below = view.rows.length - 1 - view.row;
    return `${up(above)}\r\x1b[J${text}${up(below)}\r${across(view.column)}`;
  }

  /** What stands there is not known any more: the next drawing clears the terminal. */
  clear(): string {
    this.#drawn = NOTHING;
    return "\x1b[H\x1b[2J";
  }

  /** What to write so that the cursor stands below it all. */
  leave(): string {
    const { rows, row } = this.#drawn;
    this.#drawn = NOTHING;
    return `${down(rows.length - 1 - row)}\n`;
  }
}

/** How many rows of a terminal `row` takes. */
function taken(row: string, columns: number): number {
  return Math.max(1, Math.ceil(columnsOf(row) / columns));
}

const up = (rows: number) => rows > 0 ? `\x1b[${rows}A` : "";
const down = (rows: number) => rows > 0 ? `\x1b[${rows}B` : "";
const across = (columns: number) => columns > 0 ? `\x1b[${columns}C` : "";
