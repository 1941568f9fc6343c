/** The two lines that show a waiting call (specification 9; contracts 6). Pure. */
import { display } from "../proto/escape.ts";
import type { PendingApproval } from "../proto/messages.ts";
import { ago, expiry } from "./ago.ts";
import { wrapped } from "./fit.ts";

/** Longer texts are shown by their two ends, in characters. */
const LONGEST_WHOLE = 2000;
const FIRST = 1500;
const LAST = 400;

/**
 * `text` as data. Where it is longer than 2,000 characters its middle is left out, which is said:
 * `… <n> more characters, <how> …`. It is cut before anything is escaped, and between characters.
 */
export function shortened(text: string, how: string): string {
  const characters = text.length <= LONGEST_WHOLE ? [] : [...text];
  if (characters.length <= LONGEST_WHOLE) return display(text);
  const first = characters.slice(0, FIRST).join("");
  const last = characters.slice(-LAST).join("");
  const more = characters.length - FIRST - LAST;
  return `${display(first)}… ${more} more characters, ${how} …${display(last)}`;
}

/**
 * A waiting call on two lines, with a newline after each; `whole`: with its arguments in full. `now` in
 * milliseconds since 1970. In `width` columns what is longer goes on indented. `notes`: further lines, which
 * have been through `display`.
 */
export function approvalBlock(
  item: PendingApproval,
  now: number,
  whole: boolean,
  width: number | null = null,
  notes: readonly string[] = [],
): string {
  const { approval, created, expires, session, grant, taint, tool } = item;
  const facts = [
    String(approval),
    ago(created, now),
    expiry(expires, now),
    `session ${display(session)}`,
    `grant ${display(grant)}`,
    `taint ${taint}`,
  ];
  const call = whole
    ? display(item.arguments)
    : shortened(item.arguments, `bxctl approvals show ${approval}`);
  const lines = [
    facts.join("  "),
    `    ${display(tool)} ${call}`,
    ...notes.map((note) => `    ${note}`),
  ];
  return lines.flatMap((line) => wrapped(line, width)).map((line) => `${line}\n`).join("");
}
