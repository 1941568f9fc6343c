/** What `bxctl status` and `bxctl doctor` say: a line for each thing looked at, and what helps. Pure. */
import { display } from "../proto/escape.ts";

/** `unknown`: it could not be looked at, and the line says why. */
export type CheckState = "ok" | "warning" | "wrong" | "unknown";

/** One thing that was looked at. Its texts may be anybody's: they are escaped where they are shown. */
export interface Check {
  readonly name: string;
  readonly state: CheckState;
  /** What was found. */
  readonly words: string;
  /** What else there is to know, and what helps; each a line. */
  readonly more: readonly string[];
}

/** Builds a check. */
export function check(
  name: string,
  state: CheckState,
  words: string,
  ...more: readonly string[]
): Check {
  return { name, state, words, more };
}

/** What helps: a command, or several, and the entry of the runbook at `anchor`. */
export function helps(anchor: string, ...commands: readonly string[]): string {
  return [...commands, runbookOf(anchor)].join("; ");
}

/** Where the runbook is about `anchor`. */
function runbookOf(anchor: string): string {
  return `see docs/runbook.md#${anchor}`;
}

/** `lines` of a daemon; where none of them names an entry of the runbook, the one at `anchor` too. */
export function withEntry(lines: readonly string[], anchor: string): string[] {
  const named = lines.some((line) => /see docs\/runbook\.md#[a-z-]+/.test(line));
  return named ? [...lines] : [...lines, runbookOf(anchor)];
}

/** Whether nothing is wrong. A warning, and what could not be looked at, are not. */
export function allRight(checks: readonly Check[]): boolean {
  return checks.every(({ state }) => state !== "wrong");
}

/** The checks as the owner reads them, a line or more each, and a line that sums them up. */
export function checkLines(checks: readonly Check[]): string[] {
  const width = Math.max(...checks.map(({ name }) => display(name).length));
  const lines = checks.flatMap(({ name, state, words, more }) => [
    `${state.padEnd(7)}  ${display(name).padEnd(width)}  ${display(words)}`,
    ...more.map((line) => `${" ".repeat(width + 11)}${display(line)}`),
  ]);
  const count = (wanted: CheckState) => checks.filter(({ state }) => state === wanted).length;
  const numbers = [["wrong", "wrong"], ["warning", "to look at"], ["unknown", "unknown"]] as const;
  const parts = numbers.filter(([state]) => count(state) > 0)
    .map(([state, words]) => `${count(state)} ${words}`);
  return [...lines, parts.length === 0 ? "all right" : parts.join(", ")];
}
