/** The table "What stays possible" and the tests that show it. */
import assert from "node:assert/strict";
import { read } from "../support/docs.ts";

Deno.test("every row of what stays possible is a test of that name, and every such test a row", () => {
  const [, after = ""] = read("docs/architecture.md").split("### What stays possible\n");
  const [section = ""] = after.split(/^##/m);
  const rows = [...section.matchAll(/^\| ([^|]+?) +\| [^|]+\|$/gm)].map(([, first]) => first);
  // The first two are the head and the line under it.
  const named = rows.filter((row) => row !== "It stays possible that" && !/^-+$/.test(row ?? ""));
  const code = read("tests/e2e/stays_possible_test.ts");
  const tests = [...code.matchAll(/Deno\.test\("stays possible: ([^"]+)"/g)].map(([, name]) =>
    name
  );
  assert(tests.length > 10);
  assert.deepEqual(named, tests);
});
