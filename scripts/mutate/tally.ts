/** What came of the mutants: figures, and whether they are enough. */
import type { Mutant } from "./mutants.ts";
import type { Outcome } from "./stand.ts";

/** What the tests must notice of the mutants that are not equivalent. */
const LEAST_SCORE = 0.95;

export interface Result {
  readonly mutant: Mutant;
  readonly outcome: Outcome | "equivalent";
}

/** The results of one file, or of all. */
export interface Tally {
  readonly file: string;
  readonly mutants: number;
  readonly killed: number;
  readonly timeout: number;
  readonly equivalent: number;
  readonly survived: readonly Pick<Mutant, "id" | "within" | "from" | "to">[];
  /** The share that was noticed of those that are not equivalent. */
  readonly score: number;
}

export function tally(file: string, results: readonly Result[]): Tally {
  const count = (wanted: Result["outcome"]) =>
    results.filter(({ outcome }) => outcome === wanted).length;
  const [killed, timeout, equivalent] = [count("killed"), count("timeout"), count("equivalent")];
  const survived = results.filter(({ outcome }) => outcome === "survived")
    .map(({ mutant: { id, within, from, to } }) => ({ id, within, from, to }));
  const tried = results.length - equivalent;
  const score = tried === 0 ? 1 : (killed + timeout) / tried;
  return { file, mutants: results.length, killed, timeout, equivalent, survived, score };
}

export function tell(
  { file, mutants, killed, timeout, equivalent, survived, score }: Tally,
): string {
  // Rounded down: 94.99 % is not 95 %.
  const percent = (Math.floor(score * 1000) / 10).toFixed(1);
  return `${file}: ${mutants} mutants, ${killed} killed, ${timeout} timed out, ` +
    `${equivalent} equivalent, ${survived.length} survived: ${percent} %`;
}

export function isEnough({ score }: Tally): boolean {
  return score >= LEAST_SCORE;
}
