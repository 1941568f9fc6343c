/**
 * Mutants that no test can notice, since the program does the same with them, each with why. Named by
 * their text, so that they stay found when lines move; `tests/scripts/mutate_test.ts` holds each
 * against the source as it is.
 */
import { BROKER } from "./equivalent_broker.ts";
import { PROTO } from "./equivalent_proto.ts";
import type { Mutant } from "./mutants.ts";

export interface Equivalent extends Pick<Mutant, "file" | "within" | "from" | "to"> {
  readonly why: string;
}

/** The mutants of one line: what becomes of it, and why that is the same. */
interface Line extends Pick<Mutant, "within" | "from"> {
  readonly to: Readonly<Record<string, string>>;
}

/** The lines of each file. */
export type Lines = Readonly<Record<string, readonly Line[]>>;

export const EQUIVALENT: readonly Equivalent[] = Object.entries({ ...BROKER, ...PROTO }).flatMap((
  [file, lines],
) =>
  lines.flatMap(({ within, from, to }) =>
    Object.entries(to).map(([changed, why]) => ({ file, within, from, to: changed, why }))
  )
);

/** Whether `known` speaks of `mutant`. */
export function isSame(known: Equivalent, mutant: Mutant): boolean {
  return known.file === mutant.file && known.within === mutant.within &&
    known.from === mutant.from && known.to === mutant.to;
}
