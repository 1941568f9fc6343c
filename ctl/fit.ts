/**
 * Lines that fit a terminal. One that the terminal itself breaks goes on at its left edge, where what a
 * model wrote could pass for a line of bxctl's; broken here, it goes on indented. Pure.
 */

import { columnsOf } from "./width.ts";

/** A terminal that says less is taken for this wide, in columns. */
export const MIN_WIDTH = 40;
/** How much further in a broken line goes on than it begins, in columns. */
const INDENT = 4;

/** The width that lines have on a terminal of so many columns; null where it does not say how many. */
export function widthOf(columns: number): number | null {
  return columns > 0 ? Math.max(MIN_WIDTH, columns) : null;
}

/** `line` where it fits into `width` columns; else its beginning and `…`. */
export function cut(line: string, width: number | null): string {
  if (width === null || fits(line, width)) return line;
  return `${line.slice(0, endWithin(line, 0, width - 1))}…`;
}

/** The column at which a broken `line` goes on: further in than it begins. */
export function hangOf(line: string): number {
  return line.length - line.trimStart().length + INDENT;
}

/**
 * `line` as lines of at most `width` columns, the second and further ones indented by `hang`. Nothing is left
 * out: a line ends after a space where its second half has one, or else anywhere.
 */
export function wrapped(line: string, width: number | null, hang = hangOf(line)): string[] {
  if (width === null || fits(line, width)) return [line];
  // What is indented too far for a narrow terminal has room all the same.
  const indent = Math.min(hang, Math.floor(width / 2));
  const lines: string[] = [];
  for (let at = 0; at < line.length;) {
    const room = lines.length === 0 ? width : width - indent;
    const most = endWithin(line, at, room);
    const space = most < line.length ? line.lastIndexOf(" ", most - 1) + 1 : most;
    const good = space > at + (most - at) / 2 && line.slice(at, space).trim() !== "";
    const end = good ? space : most;
    lines.push(`${lines.length === 0 ? "" : " ".repeat(indent)}${line.slice(at, end)}`);
    at = end;
  }
  return lines;
}

function fits(line: string, width: number): boolean {
  return endWithin(line, 0, width) === line.length;
}

/** Where in `line` the longest piece ends that begins at `at` and takes at most `width` columns. */
function endWithin(line: string, at: number, width: number): number {
  let end = at;
  let columns = 0;
  while (end < line.length) {
    const character = String.fromCodePoint(line.codePointAt(end) ?? 0);
    columns += columnsOf(character);
    if (columns > width) break;
    end += character.length;
  }
  return end;
}
