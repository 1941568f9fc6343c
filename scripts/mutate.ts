/** `deno task mutate`: breaks the code on purpose, one small change at a time, and looks which the tests miss. */
import { EQUIVALENT, isSame } from "./mutate/equivalent.ts";
import { type Mutant, mutantsIn } from "./mutate/mutants.ts";
import { Stand } from "./mutate/stand.ts";
import { isEnough, type Result, type Tally, tally, tell } from "./mutate/tally.ts";
import { TESTS_OF } from "./mutate/tests_of.ts";
import { Failure, readArgs, runScript, UsageError } from "./support/cli.ts";
import { Ending } from "./support/ending.ts";
import { PROJECT } from "./support/roles.ts";

const HELP =
  `mutate breaks the code on purpose, one small change at a time, and looks which the tests miss

usage: deno task mutate [FILE…] [--only MUTANT]… [--shard I/N] [--json]

  FILE             only this file; see scripts/mutate/tests_of.ts (default: each of them)
  --only MUTANT    only this one, as the report names it; may be repeated
  --shard I/N      only every N-th mutant, from the I-th
  --json           one JSON document at the end, nothing else
  --help           this text

works in a copy: the project is not touched
exit status: 0 the tests notice at least 95 % of the mutants, 1 they do not, 2 wrong usage`;

/** The mutants of `files` that are asked for, in order. */
async function chosen(
  root: string,
  files: readonly string[],
  only: readonly string[],
  [part, parts]: readonly [number, number],
): Promise<Mutant[]> {
  const all: Mutant[] = [];
  for (const file of files) all.push(...await mutantsIn(root, file));
  const unknown = only.find((id) => all.every((mutant) => mutant.id !== id));
  if (unknown !== undefined) throw new UsageError(`there is no mutant ${unknown}`);
  return all.filter(({ id }, index) =>
    only.length > 0 ? only.includes(id) : index % parts === part - 1
  );
}

/** `I/N` of the command line. */
function shard(text: string): [number, number] {
  const [, part, parts] = (/^([1-9]\d*)\/([1-9]\d*)$/.exec(text) ?? []).map(Number);
  if (part !== undefined && parts !== undefined && part <= parts) return [part, parts];
  throw new UsageError("--shard takes I/N, as 1/4");
}

async function resultsOf(
  stand: Stand,
  file: string,
  mutants: readonly Mutant[],
  note: (line: string) => void,
): Promise<Result[]> {
  const tests = TESTS_OF[file] ?? [];
  const usual = await stand.baseline(tests);
  if (usual === null) throw new Failure(`the tests of ${file} fail without a mutant`, ...tests);
  const results: Result[] = [];
  for (const mutant of mutants) {
    const known = EQUIVALENT.some((equivalent) => isSame(equivalent, mutant));
    const outcome = known ? "equivalent" : await stand.run(mutant, tests, usual);
    results.push({ mutant, outcome });
    if (outcome !== "survived") continue;
    note(`survived: ${mutant.id}\n  - ${mutant.from}\n  + ${mutant.to}`);
  }
  return results;
}

async function main(args: string[]): Promise<number> {
  const { values, positionals } = readArgs({
    args,
    allowPositionals: true,
    options: {
      only: { type: "string", multiple: true, default: [] },
      shard: { type: "string", default: "1/1" },
      json: { type: "boolean", default: false },
    },
  });
  const { only, json } = values;
  const unknown = positionals.find((file) => !Object.hasOwn(TESTS_OF, file));
  if (unknown !== undefined) {
    throw new UsageError(`${unknown} is not in scripts/mutate/tests_of.ts`);
  }
  const named = only.map((id) => id.split(":", 1)[0] ?? "");
  const wanted = positionals.length > 0 ? positionals : named;
  const files = Object.keys(TESTS_OF).filter((file) =>
    wanted.length === 0 || wanted.includes(file)
  );
  const part = shard(values.shard);
  const note = (line: string) => json ? undefined : console.log(line);

  using ending = new Ending();
  using stand = new Stand(PROJECT);
  ending.asked.then(async (status) => {
    await stand.abandon();
    Deno.exit(status);
  });
  const mutants = await chosen(stand.copy, files, only, part);
  const all: Result[] = [];
  const tallies: Tally[] = [];
  for (const file of files) {
    const results = await resultsOf(
      stand,
      file,
      mutants.filter((mutant) => mutant.file === file),
      note,
    );
    all.push(...results);
    tallies.push(tally(file, results));
    note(tell(tally(file, results)));
  }
  const total = tally("all", all);
  if (json) console.log(JSON.stringify({ files: tallies, score: total.score }));
  else console.log(tell(total));
  return isEnough(total) ? 0 : 1;
}

if (import.meta.main) await runScript("mutate", HELP, Deno.args, main);
