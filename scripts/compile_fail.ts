/**
 * Holds fixtures/compile_fail/ to what the type checker says: each forbidden act stands on a line that
 * ends in `//~ TS2345`, the code of its error, and there are exactly these errors and no others.
 */
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { display } from "../proto/escape.ts";
import { Failure, readArgs, runScript } from "./support/cli.ts";
import { PROJECT } from "./support/roles.ts";

const HELP = `compile_fail checks that what must not compile does not

usage: scripts/compile_fail.ts [FOLDER]

  FOLDER    where the fixtures are (default fixtures/compile_fail)
  --help    this text

Each line of a fixture that must not compile ends in //~ and the code of its error, as //~ TS2345.

exit status: 0 exactly the marked errors, 1 others, or none are marked, 2 wrong usage`;

/** An error of the type checker, as `FILE:LINE TS2345`. */
type Place = string;

/** The errors that the marks in `source` want. */
export function marksIn(file: string, source: string): Place[] {
  return source.split("\n").flatMap((line, index) => {
    const [, codes] = /\/\/~((?: TS\d+)+)$/.exec(line) ?? [];
    return (codes ?? "").trim().split(" ").filter((code) => code !== "")
      .map((code) => `${file}:${index + 1} ${code}`);
  });
}

/** The errors that `deno check` has reported in `output`, without colours. */
export function errorsIn(output: string): Place[] {
  const places: Place[] = [];
  let code: string | null = null;
  for (const line of output.split("\n")) {
    const [, header] = /^(TS\d+) \[/.exec(line) ?? [];
    if (header !== undefined) code = header;
    const [, url, number] = /^ +at (file:\/\/\S+):(\d+):\d+$/.exec(line) ?? [];
    if (code === null || url === undefined) continue;
    places.push(`${fileURLToPath(url)}:${number} ${code}`);
    // What else is said of the error, such as where a name was declared, is at other places.
    code = null;
  }
  return places;
}

/** What of `found` was not `wanted`, and what was wanted and not found, in words. */
export function differences(wanted: readonly Place[], found: readonly Place[]): string[] {
  const left = [...found];
  const missing = wanted.filter((place) => {
    const at = left.indexOf(place);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
  return [
    ...missing.map((place) => `${place} was wanted, and it compiles`),
    ...left.map((place) => `${place} was not wanted`),
  ];
}

/** Checks the fixtures in `folder`. Returns how many errors they want. Throws `Failure`. */
export async function checkFolder(folder: string): Promise<number> {
  let files: string[];
  try {
    files = [...Deno.readDirSync(folder)].map(({ name }) => `${folder}/${name}`)
      .filter((file) => file.endsWith(".ts")).sort();
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new Failure(`${display(folder)}: no such folder`);
  }
  if (files.length === 0) throw new Failure(`${display(folder)}: no fixture`);
  const marks = files.map((file) => ({ file, wanted: marksIn(file, Deno.readTextFileSync(file)) }));
  const unmarked = marks.filter(({ wanted }) => wanted.length === 0);
  if (unmarked.length > 0) {
    throw new Failure(
      ...unmarked.map(({ file }) => `${display(file)}: no line is marked with //~`),
    );
  }
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["check", "--quiet", "--frozen", "--cached-only", ...files],
    cwd: PROJECT,
    env: { NO_COLOR: "1" },
  }).output();
  const decoder = new TextDecoder();
  const output = decoder.decode(stdout) + decoder.decode(stderr);
  const wanted = marks.flatMap((one) => one.wanted);
  const problems = differences(wanted, errorsIn(output));
  if (problems.length > 0) throw new Failure(...problems.map(display), ...output.split("\n"));
  return wanted.length;
}

async function main(args: string[]): Promise<number> {
  const { positionals } = readArgs({ args, allowPositionals: true });
  const folder = positionals[0] ?? `${PROJECT}/fixtures/compile_fail`;
  const count = await checkFolder(resolve(folder));
  console.log(`compile_fail: ${count} errors, each on the line that names it, and no others`);
  return 0;
}

if (import.meta.main) await runScript("compile_fail", HELP, Deno.args, main);
