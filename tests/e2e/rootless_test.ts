/**
 * Tools run for an ordinary user of the machine as they do for root: the same tests, run by such a user, and
 * what bounds a tool where a user has no control groups.
 */
import assert from "node:assert/strict";
import { reasonFor, type TestResult } from "../../scripts/support/junit.ts";
import { PROJECT } from "../../scripts/support/roles.ts";
import { canMakeUsers, OrdinaryUser } from "../support/rootless.ts";

/** Tests that any user can run, all but those that say of themselves that they need root. */
const FILES = [
  "tests/e2e/tools_run_test.ts",
  "tests/e2e/container_pages_test.ts",
  "tests/e2e/hostile_container_files_test.ts",
  "tests/e2e/hostile_container_network_test.ts",
  "tests/e2e/hostile_container_output_test.ts",
  "tests/support/rootless_limits.ts",
];
/** How long those of one file may take, in milliseconds. */
const MOST_MS = 300_000;

/** Whether a test was skipped since it needs root, as the comment above its `ignore` says. */
function needsRoot({ file, line, outcome }: TestResult): boolean {
  if (outcome !== "skipped") return false;
  return /\broot\b/.test(reasonFor(Deno.readTextFileSync(`${PROJECT}/${file}`), line) ?? "");
}

Deno.test({
  name: "an ordinary user's tools run, and are bounded, as those of root",
  // Only root can make a user; an ordinary user's containers need newuidmap (Debian's package uidmap).
  ignore: !canMakeUsers(),
  fn: async (t) => {
    await using user = await OrdinaryUser.make();
    for (const file of FILES) {
      await t.step(file, async () => {
        const { code, tests, output } = await user.test(file, MOST_MS);
        assert.equal(code, 0, output);
        const bad = tests.filter((test) => test.outcome !== "passed" && !needsRoot(test));
        assert.deepEqual(bad, [], output);
        assert(tests.some(({ outcome }) => outcome === "passed"), `no test ran:\n${output}`);
      });
    }
  },
});
