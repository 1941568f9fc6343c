/** Messages for people: stderr, the program's name before them (design, "Words"). */
import { display } from "../escape.ts";

const encoder = new TextEncoder();

/**
 * Writes `lines` to stderr, each with the program's name before it. The caller has put every text that
 * is not the program's own through `display`.
 */
export function say(program: string, ...lines: readonly string[]): void {
  const bytes = encoder.encode(lines.map((line) => `${program}: ${line}\n`).join(""));
  try {
    // A daemon must not die of a log that nobody reads any more.
    for (let at = 0; at < bytes.length;) at += Deno.stderr.writeSync(bytes.subarray(at));
  } catch {
    // There is nowhere left to say it.
  }
}

/** The end of every message of a state that refuses. */
export function runbook(anchor: string): string {
  return `see docs/runbook.md#${anchor}`;
}

/** An error with what caused it, on one line, as data. */
export function causes(error: unknown): string {
  const parts: string[] = [];
  for (let at = error; at !== undefined && at !== null && parts.length < 5;) {
    parts.push(at instanceof Error ? at.message : String(at));
    at = at instanceof Error ? at.cause : null;
  }
  return display(parts.join(": "));
}

/** Says something of each subject once, and again only when it is something else. */
export class SaidOnce {
  readonly #tell: (...lines: string[]) => void;
  readonly #said = new Map<string, string>();

  constructor(tell: (...lines: string[]) => void) {
    this.#tell = tell;
  }

  say(subject: string, lines: readonly string[]): void {
    const whole = lines.join("\n");
    if (this.#said.get(subject) === whole) return;
    this.#said.set(subject, whole);
    this.#tell(...lines);
  }

  /** What was said last of each subject that is not over, in lines. */
  all(): [subject: string, lines: string[]][] {
    return [...this.#said].map(([subject, whole]) => [subject, whole.split("\n")]);
  }

  /** That is over. Whether anything had been said of it. */
  forget(subject: string): boolean {
    return this.#said.delete(subject);
  }
}
