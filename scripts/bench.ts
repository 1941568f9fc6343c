/** `deno task bench`: what brokerd costs and a replay of its log, as ratios to baselines taken in the same run. */
import { readArgs, runScript } from "./support/cli.ts";
import { besideHostile } from "./bench/beside.ts";
import { replayOfLog } from "./bench/replay.ts";
import { BenchHome, deniedCall, type Figure, startAndRest } from "./bench/figures.ts";

const HELP =
  `bench measures what brokerd costs, each figure as a ratio to a baseline of the same run

usage: deno task bench [--json]

  --json    the figures as one JSON document
  --help    this text

Medians, with the quartiles in brackets; what is compared is measured in turns.`;

const STARTS = 20;
const CALLS = 1500;
const HOSTILE_ROUNDS = 10;
const REPLAYED_CALLS = 100_000;
const REPLAY_ROUNDS = 5;

function row({ name, unit, measured, baseline, least, ratio }: Figure): string {
  const { median, low, high } = measured;
  const digits = unit === "MiB" || median >= 10 ? 0 : 2;
  const shown = [median, low, high, least].map((value) => value.toFixed(digits));
  return `${name}: ${shown[0]} ${unit} [${shown[1]} to ${shown[2]}], ${
    ratio.toFixed(2)
  } x ${baseline} (${shown[3]} ${unit})`;
}

async function main(args: string[]): Promise<number> {
  const { values } = readArgs({ args, options: { json: { type: "boolean", default: false } } });
  using home = new BenchHome();
  const figures = [
    ...await startAndRest(home, STARTS),
    ...await deniedCall(home, CALLS),
    ...await besideHostile(home, HOSTILE_ROUNDS),
    ...await replayOfLog(home, REPLAYED_CALLS, REPLAY_ROUNDS),
  ];
  console.log(values.json ? JSON.stringify(figures, null, 2) : figures.map(row).join("\n"));
  return 0;
}

if (import.meta.main) await runScript("bench", HELP, Deno.args, main);
