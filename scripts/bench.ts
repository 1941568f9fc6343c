/** `deno task bench`: what Boxmaker costs, as ratios to baselines taken in the same run. */
import { readArgs, runScript, UsageError } from "./support/cli.ts";
import type { Figure } from "./bench/figures.ts";
import { GROUPS, Logs, QUICK, type Row, ROWS, type Sizes, USUAL } from "./bench/rows.ts";
import { line } from "./bench/table.ts";

const HELP =
  `bench measures what Boxmaker costs, each figure as a ratio to a baseline of the same run

usage: deno task bench [--quick] [--only NAME] [--records N] [--calls N] [--json]

  --quick       small logs and few rounds: a minute, for a rough answer
  --only NAME   one row or one group of them
  --records N   records of the log that is verified and started with (default 1000000)
  --calls N     calls after which brokerd's memory is looked at (default 100000)
  --json        the figures as one JSON document
  --help        this text

rows by group:
${
    Object.entries(GROUPS).map(([group, rows]) => `  ${group}: ${Object.keys(rows).join(", ")}`)
      .join("\n")
  }

Medians, with the quartiles in brackets; what is compared is measured in turns.
exit status: 0 measured, whatever came of it; 2 wrong usage`;

const OPTIONS = {
  json: { type: "boolean", default: false },
  quick: { type: "boolean", default: false },
  only: { type: "string" },
  records: { type: "string" },
  calls: { type: "string" },
} as const;

/** The smallest number that the options take. */
const LEAST = 2000;

function rowsFor(only: string | undefined): readonly Row[] {
  const rows = ROWS.filter(({ name, group }) => only === undefined || [name, group].includes(only));
  if (rows.length === 0) throw new UsageError("--only takes the name of a row or of a group");
  return rows;
}

function number(option: string, value: string | undefined, usual: number): number {
  if (value === undefined) return usual;
  const read = /^\d{1,9}$/.test(value) ? Number(value) : 0;
  if (read < LEAST) throw new UsageError(`${option} is a number from ${LEAST}`);
  return read;
}

async function main(args: string[]): Promise<number> {
  const { values } = readArgs({ args, options: OPTIONS });
  const rows = rowsFor(values.only);
  const usual = values.quick ? QUICK : USUAL;
  const sizes: Sizes = {
    ...usual,
    records: number("--records", values.records, usual.records),
    memoryCalls: number("--calls", values.calls, usual.memoryCalls),
  };
  using logs = new Logs();
  const all: Figure[] = [];
  for (const { measure } of rows) {
    const figures = await measure(sizes, logs);
    all.push(...figures);
    if (!values.json) console.log(figures.map(line).join("\n"));
  }
  if (values.json) console.log(JSON.stringify(all, null, 2));
  return 0;
}

if (import.meta.main) await runScript("bench", HELP, Deno.args, main);
