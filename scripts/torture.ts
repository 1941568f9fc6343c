/** `deno task torture`: the worst that disk, machine and clock can do, to the real brokerd. */
import { display } from "../proto/escape.ts";
import { readArgs, runScript, UsageError } from "./support/cli.ts";
import { canLast, type Fault, faultNamed, faultsAt, named, TARGETS } from "./torture/points.ts";
import { census, roundOf, type Work } from "./torture/rounds.ts";
import { pick, random, runFixed, runRandom } from "./torture/workload.ts";
import { PLACES } from "./torture/places.ts";
import { LONG_TTL_MS } from "./torture/stand.ts";
import { Tally } from "./torture/tally.ts";

const HELP =
  `torture makes system calls of the real brokerd fail, and kills it there, at every point

usage: deno task torture [--rounds N] [--seed S] [--part PART]… [--fault FAULT] [--every K]

  --rounds N     random faults beyond the enumerated ones (default 200)
  --seed S       of what is random; printed at the start
  --part PART    only this: points, random, ${Object.keys(PLACES).join(", ")}; may be repeated
  --every K      only every K-th enumerated point and round (default 1: all)
  --fault FAULT  this fault alone, as the report names it
  --help         this text

needs strace and prlimit; the full disk needs root, for a small tmpfs
exit status: 0 nothing was found, 1 something was, 2 wrong usage`;

/** Rounds at once: brokerd waits most of the time. */
const AT_ONCE = 3;
/** Of the random faults, how many stay: a disk that has died, not one call that failed. */
const ONWARDS = 0.3;

const FIXED_WORK: Work = { run: runFixed, ttlMs: LONG_TTL_MS };
/** Here some calls are left to expire. */
const randomWork = (seed: number): Work => ({
  run: (stand) => runRandom(stand, random(seed)),
  ttlMs: 1500,
});

interface Options {
  readonly parts: readonly string[];
  readonly rounds: number;
  readonly every: number;
  readonly seed: number;
}

/** Runs `round` for each of `items`, some at once. */
async function each<T>(items: readonly T[], round: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const worker = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await round(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** Every point of the fixed workload once with every way to fail there. */
async function everyPoint({ every }: Options): Promise<Tally[]> {
  const tallies: Tally[] = [];
  for (const target of TARGETS) {
    const counts = await census(target, FIXED_WORK);
    const tally = new Tally(`points of ${target}`);
    const faults = faultsAt(target, counts).filter((_, at) => at % every === 0);
    await each(faults, async (fault) => tally.add(named(fault), await roundOf(fault, FIXED_WORK)));
    tell(tally);
    tallies.push(tally);
  }
  return tallies;
}

/** Random faults at random points, with many clients at once. */
async function randomPoints({ rounds, seed }: Options): Promise<Tally[]> {
  const next = random(seed);
  const tally = new Tally("random points");
  const counts: Fault[] = [];
  for (const target of TARGETS) {
    counts.push(...faultsAt(target, await census(target, randomWork(seed))));
  }
  const faults = Array.from({ length: rounds }, (): [Fault, number] => {
    const fault = pick(next, counts);
    const onwards = next() < ONWARDS && canLast(fault);
    return [{ ...fault, onwards }, Math.floor(next() * 2 ** 32)];
  });
  await each(faults, async ([fault, seed]) => {
    tally.add(`${named(fault)}, seed ${seed}`, await roundOf(fault, randomWork(seed)));
  });
  tell(tally);
  return [tally];
}

async function place(name: keyof typeof PLACES, { seed, every }: Options): Promise<Tally[]> {
  const tally = new Tally(name);
  for await (const [round, outcome] of PLACES[name](random(seed), every)) tally.add(round, outcome);
  tell(tally);
  return [tally];
}

function tell(tally: Tally): void {
  console.log(tally.lines().join("\n"));
  for (const finding of tally.findings) console.log(`  FOUND ${display(finding)}`);
}

const PARTS: Readonly<Record<string, (options: Options) => Promise<Tally[]>>> = {
  points: everyPoint,
  random: randomPoints,
  ...Object.fromEntries(
    (Object.keys(PLACES) as (keyof typeof PLACES)[]).map((name) => [
      name,
      (options: Options) => place(name, options),
    ]),
  ),
};

/** `text` as a whole number from `least`. */
function whole(name: string, text: string, least: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least) return value;
  throw new UsageError(`--${name} takes a whole number from ${least}`);
}

async function main(args: string[]): Promise<number> {
  const { values } = readArgs({
    args,
    options: {
      rounds: { type: "string", default: "200" },
      seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 32)) },
      every: { type: "string", default: "1" },
      part: { type: "string", multiple: true, default: [] },
      fault: { type: "string" },
    },
  });
  const named = values.part.length === 0 ? Object.keys(PARTS) : values.part;
  const unknown = named.find((part) => !Object.hasOwn(PARTS, part));
  if (unknown !== undefined) throw new UsageError(`no part is called ${unknown}`);
  if (values.fault !== undefined) return await oneFault(values.fault);
  const options: Options = {
    parts: named,
    rounds: whole("rounds", values.rounds, 0),
    every: whole("every", values.every, 1),
    seed: whole("seed", values.seed, 0),
  };
  console.log(`torture: seed ${options.seed}`);
  const tallies: Tally[] = [];
  for (const part of options.parts) tallies.push(...await PARTS[part]?.(options) ?? []);
  const sum = (of: (tally: Tally) => number) =>
    tallies.reduce((total, tally) => total + of(tally), 0);
  const found = sum(({ findings }) => findings.length);
  const total = `${sum(({ rounds }) => rounds)} rounds, ${sum(({ hits }) => hits)} faults reached`;
  console.log(
    `torture: ${total}, ${sum(({ records }) => records)} records checked, ${found} findings`,
  );
  return found === 0 ? 0 : 1;
}

async function oneFault(name: string): Promise<number> {
  const fault = faultNamed(name);
  if (fault === null) throw new UsageError("no such fault; the report names them");
  const tally = new Tally(name);
  tally.add(name, await roundOf(fault, FIXED_WORK));
  tell(tally);
  return tally.findings.length === 0 ? 0 : 1;
}

if (import.meta.main) await runScript("torture", HELP, Deno.args, main);
