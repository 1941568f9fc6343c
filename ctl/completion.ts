/**
 * `bxctl completion SHELL`: a script that completes bxctl's command line. It holds all that it offers, so
 * nothing of Boxmaker runs while somebody types. Pure.
 */
import { assertNever } from "../proto/text.ts";
import type { Shell } from "./commands.ts";
import { bashScript } from "./completion_bash.ts";
import { fishScript } from "./completion_fish.ts";
import { steps } from "./completion_steps.ts";
import { zshScript } from "./completion_zsh.ts";

/** The script for `shell`. Ends in a newline. */
export function completionScript(shell: Shell): string {
  switch (shell) {
    case "bash":
      return bashScript(steps());
    case "zsh":
      return zshScript(steps());
    case "fish":
      return fishScript(steps());
    default:
      return assertNever(shell);
  }
}
