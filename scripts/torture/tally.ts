/** What a part of the harness came to, added up over its rounds. */

/** What one round came to. Empty `findings`: everything held. */
export interface Round {
  readonly findings: readonly string[];
  /** Whether what was to go wrong did; a fault that is never reached shows nothing. */
  readonly hit: boolean;
  /** Answers by kind. */
  readonly answers: Readonly<Record<string, number>>;
  /** Records in the log at the end. */
  readonly records: number;
}

export class Tally {
  readonly part: string;
  readonly findings: string[] = [];
  readonly answers: Record<string, number> = {};
  rounds = 0;
  hits = 0;
  records = 0;

  constructor(part: string) {
    this.part = part;
  }

  /** Adds a round; `name` says which, for whoever wants to run it again. */
  add(name: string, { findings, hit, answers, records }: Round): void {
    this.rounds += 1;
    if (hit) this.hits += 1;
    this.records += records;
    for (const [kind, count] of Object.entries(answers)) {
      this.answers[kind] = (this.answers[kind] ?? 0) + count;
    }
    this.findings.push(...findings.map((finding) => `${name}: ${finding}`));
  }

  /** Two lines: figures, then answers by kind. */
  lines(): string[] {
    const { part, rounds, hits, records, findings } = this;
    const kinds = Object.entries(this.answers).sort(([a], [b]) => a < b ? -1 : 1);
    const figures = [
      ...[`${rounds} rounds`, `${hits} with the fault reached`, `${records} records checked`],
      `${findings.length} findings`,
    ];
    return [
      `${part}: ${figures.join(", ")}`,
      `  ${kinds.map(([kind, count]) => `${count} ${kind}`).join(", ")}`,
    ];
  }
}
