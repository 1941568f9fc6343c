/** An explanation as the owner reads it. Everything that came from elsewhere is shown as data. Pure. */
import type { Candidate, Explanation } from "../broker/explain.ts";
import type { DecisionRecord } from "../proto/decisions.ts";
import { display } from "../proto/escape.ts";

const VERDICTS = {
  decides: "decides",
  loses: "loses",
  ruled_out: "ruled out",
} as const satisfies Record<Candidate["verdict"], string>;

/** An outcome in words: `allowed`, `ask`, `denied (no_grant)`. */
export function outcomeWords(outcome: DecisionRecord): string {
  return outcome.outcome === "denied" ? `denied (${outcome.reason})` : outcome.outcome;
}

/** `1 decision`, `2 decisions`. */
export function counted(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

/** `file:line: words`, or without a line `file: words`. */
export function placed(file: string, line: number | null, words: string): string {
  const place = line === null ? display(file) : `${display(file)}:${line}`;
  return `${place}: ${display(words)}`;
}

/** The outcome with its reason, then a line or more for each candidate, then what else there is to know. */
export function explainedLines(explanation: Explanation): string[] {
  const { outcome, why, hint, candidates, other_tools, problems } = explanation;
  return [
    `${outcomeWords(outcome)}: ${display(why)}`,
    ...hint === null ? [] : [`the model is told: ${display(hint)}`],
    ...candidates.flatMap(candidateLines),
    ...problems.map(({ file, line, problem }) => `  ${placed(file, line, problem)}`),
    ...other_tools === 0 ? [] : [`of other tools: ${counted(other_tools, "grant")}`],
  ];
}

function candidateLines({ file, verdict, clauses }: Candidate): string[] {
  return clauses.map(({ line, words }, index) => {
    const said = index === 0 ? VERDICTS[verdict] : "too";
    return `  ${placed(file, line, `${said}: ${words}`)}`;
  });
}
