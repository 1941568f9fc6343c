/** The question before a grant file is written or removed (decision 111). */
import { ask } from "./ask.ts";
import type { Io } from "./io.ts";
import type { Lines } from "./lines.ts";
import { Failed, notConfirmed } from "./notices.ts";

/** How the owner is asked: on a terminal, or by `--yes` beforehand. */
export interface Asking {
  readonly lines: Lines;
  readonly yes: boolean;
  /** With `--json` nothing is asked: only `--yes` counts. */
  readonly json: boolean;
}

/**
 * Returns once the owner has said yes to `question`. Throws `Failed` for any other answer, and where there
 * is nobody to be asked. `left`: what stays as it was, escaped.
 */
export async function confirm(
  question: string,
  { lines, yes, json }: Asking,
  io: Io,
  left: readonly string[],
): Promise<void> {
  if (yes) return;
  if (json || !lines.isTerminal) throw notConfirmed(left);
  const never = new AbortController().signal;
  if (await ask(question, lines, io, never) === "yes") return;
  throw new Failed("not_confirmed", ["nothing was done", ...left]);
}
