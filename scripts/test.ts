/** `deno task test`: every check of the project and every test, counted. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { display } from "../proto/escape.ts";
import { readArgs, runScript, UsageError } from "./support/cli.ts";
import { reasonFor, type TestResult, testsIn } from "./support/junit.ts";
import { PROJECT } from "./support/roles.ts";

const HELP = `test runs every check of the project and every test

usage: deno task test [PATH…] [FILTER]
       deno task test:long            the same, with many more cases in the property tests

  PATH      only the tests in this file or folder, and no other check
  FILTER    only the tests whose name contains this, and no other check
  --help    this text

environment: CI             true: a test that is skipped counts as failed
             BOXMAKER_LONG  1: as test:long
exit status: 0 everything passed, 1 something failed or nothing ran, 2 wrong usage

The last line is "N passed, N failed", and ", N skipped" where there are any.`;

const FOLDERS = ["broker", "ctl", "loop", "proto", "scripts", "tests"] as const;
/** The task has filled the cache. */
const LOCKED = ["--frozen", "--cached-only"] as const;
const RUN = ["run", "--quiet", ...LOCKED, "--no-prompt", "--allow-read"] as const;

/** The checks beside the tests. Each is a command of Deno that must end with 0. */
const CHECKS = {
  "the files are formatted": ["fmt", "--check"],
  "the linter finds nothing": ["lint"],
  "the types are right": ["check", "--quiet", "--frozen", ...FOLDERS],
  "what must not compile does not": [...RUN, "--allow-run", "scripts/compile_fail.ts"],
  "the runbook has what is named": [...RUN, "scripts/check_runbook.ts"],
} as const satisfies Record<string, readonly string[]>;

interface Count {
  passed: number;
  failed: number;
  skipped: number;
}

async function deno(args: readonly string[]): Promise<boolean> {
  const command = new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd: PROJECT,
    stdin: "null",
    stdout: "inherit",
    stderr: "inherit",
  });
  return (await command.spawn().status).success;
}

async function runChecks(count: Count): Promise<void> {
  for (const [name, args] of Object.entries(CHECKS)) {
    console.log(`\n== ${name}`);
    const start = performance.now();
    const passed = await deno(args);
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    console.log(`${passed ? "ok" : "FAILED"}: ${name} (${seconds} s)`);
    count[passed ? "passed" : "failed"] += 1;
  }
}

/** Tells of each skipped test why. The comment above its `ignore:` says so. */
function tellSkipped(tests: readonly TestResult[]): void {
  for (const { name, file, line } of tests.filter(({ outcome }) => outcome === "skipped")) {
    const path = resolve(PROJECT, file);
    const source = existsSync(path) ? Deno.readTextFileSync(path) : "";
    const reason = reasonFor(source, line) ?? "no comment above its ignore says why";
    console.log(display(`skipped: ${name} (${file}:${line}): ${reason}`));
  }
}

/** Runs the tests in `paths`; with `filter`, those whose name contains it. */
async function runTests(
  count: Count,
  paths: readonly string[],
  filter: string | undefined,
): Promise<void> {
  console.log("\n== the tests pass");
  const report = Deno.makeTempFileSync({ prefix: "boxmaker-", suffix: ".xml" });
  try {
    // Their types have been checked above, and those of the programs that they start.
    const flags = ["--no-check", ...LOCKED, "--allow-all", `--junit-path=${report}`];
    const filters = filter === undefined ? [] : [`--filter=${filter}`];
    const passed = await deno(["test", ...flags, ...filters, ...paths]);
    // What a filter leaves out looks in the report like what is skipped.
    const tests = testsIn(Deno.readTextFileSync(report))
      .filter(({ outcome }) => outcome !== "skipped" || filter === undefined);
    for (const { outcome } of tests) count[outcome] += 1;
    tellSkipped(tests);
    const failed = tests.some(({ outcome }) => outcome === "failed");
    if (passed !== failed && tests.length > 0) return;
    // A file that does not load, or an error outside all tests, is in no test's result.
    console.log(`FAILED: ${tests.length === 0 ? "no test ran" : "an error outside the tests"}`);
    count.failed += 1;
  } finally {
    Deno.removeSync(report);
  }
}

async function main(args: string[]): Promise<number> {
  const { positionals } = readArgs({ args, allowPositionals: true });
  const paths = positionals.filter((word) => existsSync(word));
  const filters = positionals.filter((word) => !paths.includes(word));
  if (filters.length > 1) throw new UsageError("name one FILTER, or paths that exist");
  const count: Count = { passed: 0, failed: 0, skipped: 0 };
  if (positionals.length === 0) await runChecks(count);
  await runTests(count, paths.length === 0 ? ["tests"] : paths, filters[0]);
  if (Deno.env.get("CI") === "true" && count.skipped > 0) {
    console.log(`${count.skipped} skipped: where CI is true they count as failed`);
    count.failed += count.skipped;
    count.skipped = 0;
  }
  const { passed, failed, skipped } = count;
  console.log(`\n${passed} passed, ${failed} failed${skipped === 0 ? "" : `, ${skipped} skipped`}`);
  return failed === 0 ? 0 : 1;
}

if (import.meta.main) await runScript("test", HELP, Deno.args, main);
