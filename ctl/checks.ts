/** What `bxctl status` and `bxctl doctor` say: a line for each thing looked at, and what helps. Pure. */
import { display } from "../proto/escape.ts";
import { hangOf } from "./fit.ts";

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

/** A name is shown up to here, in UTF-16 units: a daemon chose it. */
const MAX_NAME = 80;

/** An entry of the runbook, written out in each place, so that `check-runbook` finds it. */
export type Entry = `docs/runbook.md#${string}`;

/** What helps: commands, and an entry of the runbook. */
export function helps(entry: Entry, ...commands: readonly string[]): string {
  return [...commands, `see ${entry}`].join("; ");
}

/** `lines` of a daemon; where none of them names an entry of the runbook, `entry` too. */
export function withEntry(lines: readonly string[], entry: Entry): string[] {
  const named = lines.some((line) => /see docs\/runbook\.md#[a-z-]+/.test(line));
  return named ? [...lines] : [...lines, `see ${entry}`];
}

/** Whether nothing is wrong. A warning, and what could not be looked at, are not. */
export function allRight(checks: readonly Check[]): boolean {
  return checks.every(({ state }) => state !== "wrong");
}

/** What each line of `checks` begins with, its state and its name, in columns. */
function startOf(checks: readonly Check[]): number {
  return Math.max(...checks.map(({ name }) => shownName(name).length)) + "warning    ".length;
}

function shownName(name: string): string {
  return display(name).slice(0, MAX_NAME);
}

/** The column at which a broken line of `checkLines` goes on: where no line's state could stand. */
export function hangOfChecks(checks: readonly Check[]): (line: string) => number {
  const start = startOf(checks);
  return (line) => line.startsWith(" ") ? hangOf(line) : start;
}

/** The checks as the owner reads them, a line or more each, and a line that sums them up. */
export function checkLines(checks: readonly Check[]): string[] {
  const start = startOf(checks);
  const lines = checks.flatMap(({ name, state, words, more }) => [
    `${`${state.padEnd(7)}  ${shownName(name)}`.padEnd(start)}${display(words)}`,
    ...more.map((line) => `${" ".repeat(start)}${display(line)}`),
  ]);
  const count = (wanted: CheckState) => checks.filter(({ state }) => state === wanted).length;
  const numbers = [["wrong", "wrong"], ["warning", "to look at"], ["unknown", "unknown"]] as const;
  const parts = numbers.filter(([state]) => count(state) > 0)
    .map(([state, words]) => `${count(state)} ${words}`);
  return [...lines, parts.length === 0 ? "all right" : parts.join(", ")];
}
