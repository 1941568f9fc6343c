/** As much of a terminal as bxctl's line editing writes to: rows of characters, and a cursor. */
import { columnsOf } from "../../ctl/width.ts";

export class TinyTerminal {
  readonly columns: number;
  /** All rows so far, those that have scrolled away too. */
  readonly rows: string[][] = [[]];
  row = 0;
  column = 0;

  constructor(columns: number) {
    this.columns = columns;
  }

  /** Takes what is written, with newlines as the kernel makes them. Throws at what it does not know. */
  write(text: string): void {
    // deno-lint-ignore no-control-regex
    for (const [part] of text.matchAll(/\x1b\[[0-9;?]*[A-Za-z]|[^]/gu)) this.#take(part);
  }

  #take(part: string): void {
    // deno-lint-ignore no-control-regex
    const [, digits = "", name = ""] = /^\x1b\[(\d*)([A-Z])$/.exec(part) ?? [];
    const count = Number(digits === "" ? "1" : digits);
    if (part === "\r") this.column = 0;
    else if (part === "\n") this.#down(1, true);
    else if (name === "A") this.row = Math.max(0, this.row - count);
    else if (name === "B") this.#down(count, false);
    else if (name === "C") this.column = Math.min(this.columns - 1, this.column + count);
    else if (name === "J" && digits === "") this.#clearBelow();
    else if (name === "" && !/[\p{Cc}]/u.test(part)) this.#put(part);
    else throw new Error(`what does ${JSON.stringify(part)} do?`);
  }

  #down(count: number, scrolls: boolean): void {
    if (scrolls) this.column = 0;
    this.row += count;
    while (this.rows.length <= this.row) this.rows.push([]);
  }

  #clearBelow(): void {
    this.rows.splice(this.row + 1);
    this.rows[this.row] = (this.rows[this.row] ?? []).slice(0, this.column);
  }

  #put(character: string): void {
    const row = this.rows[this.row] ?? [];
    const width = columnsOf(character);
    if (this.column + width > this.columns) throw new Error("the row is full");
    if (width === 0) row[this.column - 1] = (row[this.column - 1] ?? "") + character;
    while (row.length < this.column) row.push(" ");
    // The second column of a wide character is empty.
    for (let n = 0; n < width; n++) row[this.column + n] = n === 0 ? character : "";
    this.column += width;
    this.rows[this.row] = row;
  }

  get shown(): string[] {
    return this.rows.map((row) => row.join(""));
  }
}
