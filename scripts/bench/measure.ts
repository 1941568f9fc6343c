/** Interleaved measurements: what is compared is measured in turns, in one run. */

export interface Spread {
  readonly median: number;
  /** Lower and upper quartile. */
  readonly low: number;
  readonly high: number;
}

/** Median and quartiles of `values`, which are not empty. */
export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.round((sorted.length - 1) * share)] ?? NaN;
  return { median: at(0.5), low: at(0.25), high: at(0.75) };
}

/**
 * Runs each of `tasks` in turn, `rounds` times, and gives the milliseconds that each took. A task that
 * gives a number has measured itself.
 */
export async function interleave<N extends string>(
  tasks: Readonly<Record<N, () => Promise<number | void> | number | void>>,
  rounds: number,
): Promise<Record<N, Spread>> {
  const names = Object.keys(tasks) as N[];
  const times = new Map<N, number[]>(names.map((name) => [name, []]));
  // The first rounds warm caches and compilers, and do not count.
  const warmUp = Math.max(1, Math.round(rounds / 10));
  for (let round = -warmUp; round < rounds; round++) {
    for (const name of names) {
      const start = performance.now();
      const own = await tasks[name]();
      const time = typeof own === "number" ? own : performance.now() - start;
      if (round >= 0) times.get(name)?.push(time);
    }
  }
  const result: Partial<Record<N, Spread>> = {};
  for (const name of names) result[name] = spread(times.get(name) ?? []);
  return result as Record<N, Spread>;
}
