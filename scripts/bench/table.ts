/** The bench's figures as a table, and which of them miss their targets. Pure. */
import type { Figure } from "./figures.ts";

/** Whether `figure` is within its target, made wider by `margin`; one without target always is. */
export function within({ ratio, target }: Figure, margin = 1): boolean {
  if (target === undefined) return true;
  return "atMost" in target ? ratio <= target.atMost * margin : ratio >= target.atLeast / margin;
}

/** One line for people. */
export function line(figure: Figure): string {
  const { name, unit, measured, baseline, least, ratio, target } = figure;
  const { median, low, high } = measured;
  const digits = unit === "MiB" || unit === "calls/s" || median >= 10 ? 0 : 2;
  const [shown, from, to, held] = [median, low, high, least].map((value) => value.toFixed(digits));
  const said = `${name}: ${shown} ${unit} [${from} to ${to}], ${
    ratio.toFixed(2)
  } x ${baseline} (${held} ${unit})`;
  if (target === undefined) return said;
  const wanted = "atMost" in target ? `at most ${target.atMost}` : `at least ${target.atLeast}`;
  return `${said}: ${within(figure) ? "within" : "MISSES"} ${wanted}`;
}
