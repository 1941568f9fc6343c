/** A question with yes or no, as `approve 41? [y/N] ` (specification 9; contracts 4). */
import type { Io } from "./io.ts";
import type { Lines } from "./lines.ts";
import { notices } from "./notices.ts";

/** `withdrawn`: the approval ended otherwise before the owner answered. */
export type Answer = "yes" | "no" | "withdrawn";

/** Asks whether to approve. `ended` is aborted once the approval has ended otherwise. */
export function askToApprove(
  approval: number,
  lines: Lines,
  io: Io,
  ended: AbortSignal,
): Promise<Answer> {
  return ask(`approve ${approval}? [y/N] `, lines, io, ended);
}

/**
 * Asks `question` on stderr, and reads one line that was typed after it was there. Only `y` is yes. `ended`
 * withdraws it.
 */
export async function ask(
  question: string,
  lines: Lines,
  io: Io,
  ended: AbortSignal,
): Promise<Answer> {
  if (await lines.discard()) io.tell(...notices.discarded());
  if (ended.aborted) return "withdrawn";
  const input = await lines.answer(question, ended);
  switch (input.kind) {
    case "line":
      return input.text === "y" ? "yes" : "no";
    case "not_utf8":
    case "end":
      return "no";
    case "withdrawn":
      // A late answer must not become the next line of the chat.
      await lines.discard();
      return "withdrawn";
  }
}
