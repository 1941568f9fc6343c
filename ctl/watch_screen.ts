/**
 * The screen of `bxctl approvals --watch`, as rows of text. All that is not the program's own has been
 * through `display`, and no row is wider than the screen in any terminal. Pure.
 */
import { display } from "../proto/escape.ts";
import { ago, expiry } from "./ago.ts";
import { changedLine, type Group } from "./waiting.ts";
import {
  type AnswerKind,
  contentOf,
  selectedGroup,
  type Shown,
  STALE_MS,
  type WatchState,
  whyNot,
} from "./watch_state.ts";

/** In characters. */
export interface Size {
  readonly columns: number;
  readonly rows: number;
}

export interface Row {
  readonly text: string;
  /** The selected call in the list. */
  readonly selected: boolean;
}

export interface Frame {
  /** As many as the screen has. */
  readonly rows: readonly Row[];
  /** What of the selected call is on it. */
  readonly shown: Shown | null;
}

/** Nothing is shown on a smaller screen, and so nothing can be answered on it. */
export const SMALLEST: Size = { columns: 30, rows: 8 };
/** Rows for the title, the heading of the selected call, what the last key came to, and the keys. */
const FIXED_ROWS = 4;
/** Before each line of the selected call, so that nothing in it can pass for another row of the screen. */
const GUTTER = "| ";

/** What the keys do; those that answer only where they would now. The first line that fits. */
function keysLine(state: WatchState, columns: number, now: number): string {
  const may = (kind: AnswerKind) => whyNot(state, kind, now) === null;
  const [approve, refuse] = [may("approve"), may("refuse")];
  const long = "j/k or arrows: move  space/b: page  " +
    `a: ${approve ? "approve" : "not yet"}  r: ${refuse ? "refuse" : "not yet"}  q: quit`;
  const short = `j/k space/b ${approve ? "a" : "-"} ${refuse ? "r" : "-"} q`;
  return long.length <= columns ? long : short;
}

/**
 * How many columns `character` may take: no terminal gives one more than two, and which of those beyond
 * ASCII it gives two depends on the terminal.
 */
function columnsOf(character: string): number {
  return character <= "\x7f" ? 1 : 2;
}

/** `text`, which has been through `display`, in pieces of at most `columns` columns; at least one. */
export function wrap(text: string, columns: number): string[] {
  const lines: string[] = [];
  let start = 0;
  let at = 0;
  let used = 0;
  for (const character of text) {
    const width = columnsOf(character);
    if (used + width > columns) {
      lines.push(text.slice(start, at));
      start = at;
      used = 0;
    }
    used += width;
    at += character.length;
  }
  return [...lines, text.slice(start)];
}

/** The beginning of `text` that fits. */
function cut(text: string, columns: number): string {
  return wrap(text, columns)[0] ?? "";
}

const plain = (text: string): Row => ({ text, selected: false });

/** Makes screens, and keeps the lines of the call that it showed last: they may be many. */
export class Composer {
  #kept: { readonly content: string; readonly columns: number; readonly lines: string[] } | null =
    null;

  /**
   * The screen for `state`. `now`: the moment in `state`'s time; `clock`: milliseconds since 1970, for the
   * times that are shown.
   */
  compose(state: WatchState, size: Size, now: number, clock: number): Frame {
    const { columns, rows } = size;
    if (columns < SMALLEST.columns || rows < SMALLEST.rows) {
      const text = `needs ${SMALLEST.columns} columns and ${SMALLEST.rows} rows`;
      return filled([plain(cut(text, Math.max(1, columns)))], rows, null);
    }
    const group = selectedGroup(state);
    const foot = [
      plain(cut(state.status, columns)),
      plain(keysLine(state, columns, now)),
    ];
    const title = plain(cut(titleOf(state, now), columns));
    if (state.away !== null) {
      const why = state.away.flatMap((line) => wrap(line, columns)).map(plain);
      return framed([title, ...why], foot, rows, null);
    }
    if (group === null) return framed([title], foot, rows, null);

    const list = listRows(state, group, size, clock);
    const height = rows - FIXED_ROWS - list.length;
    const content = contentOf(group);
    const lines = this.#linesOf(group, content, columns);
    const total = lines.length;
    const from = Math.max(0, Math.min(state.offset, total - height));
    const to = Math.min(total, from + height);
    const heading = headingOf(group, from, to, total, clock);
    const shown: Shown = {
      ...{ approval: group.item.approval, content, size: `${columns}x${rows}` },
      ...{ from, to, total },
    };
    const head = [title, ...list, plain(cut(heading, columns).padEnd(columns, "-"))];
    return framed([...head, ...lines.slice(from, to).map(plain)], foot, rows, shown);
  }

  #linesOf(group: Group, content: string, columns: number): string[] {
    const kept = this.#kept;
    if (kept?.content === content && kept.columns === columns) return kept.lines;
    const { item, change } = group;
    const facts = [
      `session ${display(item.session)}`,
      `grant ${display(item.grant)}`,
      `taint ${item.taint}`,
    ];
    const changed = changedLine(item, change);
    const texts = [
      facts.join("  "),
      ...changed === null ? [] : [changed],
      `${display(item.tool)} ${display(item.arguments)}`,
    ];
    const lines = texts.flatMap((text) => wrap(text, columns - GUTTER.length))
      .map((line) => GUTTER + line);
    this.#kept = { content, columns, lines };
    return lines;
  }
}

function titleOf({ away, listedAt, groups }: WatchState, now: number): string {
  if (away !== null) return "brokerd does not answer; trying again";
  if (listedAt === null) return "asking brokerd";
  const old = now - listedAt;
  if (old > STALE_MS) return `no answer of brokerd for ${Math.floor(old / 1000)} s; trying again`;
  const calls = groups.reduce((sum, { approvals }) => sum + approvals.length, 0);
  if (calls === 0) return "no approvals are pending";
  const different = groups.length === calls ? "" : `, ${groups.length} of them different`;
  return `approvals pending: ${calls}${different}`;
}

/** A row for each group, as many as leave room for the selected call. */
function listRows(
  { groups }: WatchState,
  selected: Group,
  { columns, rows }: Size,
  clock: number,
): Row[] {
  const most = Math.max(1, Math.floor((rows - FIXED_ROWS) / 3));
  const count = Math.min(groups.length, most);
  const middle = groups.indexOf(selected) - Math.floor(count / 2);
  const first = Math.max(0, Math.min(middle, groups.length - count));
  return groups.slice(first, first + count).map((group) => {
    const { item, change, approvals } = group;
    const times = approvals.length > 1 ? ` x${approvals.length}` : "";
    const changed = change === null ? "" : "  changed";
    const mark = group === selected ? ">" : " ";
    // Enough to fill the row: the call is shown whole below.
    const call = `${item.tool.slice(0, columns)} ${item.arguments.slice(0, columns)}`;
    const text = `${mark} ${item.approval}${times}  ${expiry(item.expires, clock)}${changed}  ` +
      display(call);
    return { text: cut(text, columns), selected: group === selected };
  });
}

/** What goes by (times, numbers of identical calls) stands here, so that the lines below stay. */
function headingOf(
  { item, approvals }: Group,
  from: number,
  to: number,
  total: number,
  clock: number,
): string {
  const part = to - from < total ? [`lines ${from + 1}-${to} of ${total}`] : [];
  const alike = approvals.length > 1 ? [`identical: ${approvals.join(", ")}`] : [];
  const facts = [...part, ago(item.created, clock), expiry(item.expires, clock), ...alike];
  return `-- ${item.approval}: ${facts.join(", ")} `;
}

/** `head` above and `foot` at the bottom of a screen of `rows` rows. */
function framed(head: readonly Row[], foot: readonly Row[], rows: number, shown: Shown | null) {
  const above = head.slice(0, rows - foot.length);
  const space = Array.from({ length: rows - foot.length - above.length }, () => plain(""));
  return filled([...above, ...space, ...foot], rows, shown);
}

function filled(rows: readonly Row[], count: number, shown: Shown | null): Frame {
  const space = Array.from({ length: Math.max(0, count - rows.length) }, () => plain(""));
  return { rows: [...rows, ...space].slice(0, count), shown };
}
