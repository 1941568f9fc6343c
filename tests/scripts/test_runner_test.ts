/** `deno task test` counts what really ran, and does not pass over what did not. */
import assert from "node:assert/strict";
import { reasonFor, testsIn } from "../../scripts/support/junit.ts";
import { runScript, TempDir } from "../support/scripts.ts";

const PURE = { permissions: "none" } as const;

const REPORT = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="deno test" tests="6" failures="2" errors="0" time="0.014">
  <testsuite name="./a_test.ts" tests="6" disabled="2" errors="0" failures="2">
    <testcase name="a &lt;b&gt; &amp; &quot;c&quot; &#x1f95b; name=&quot;x" classname="./a_test.ts" time="0.1" line="2" col="6">
    </testcase>
    <testcase name="root only" classname="./a_test.ts" time="0.000" line="3" col="6">
      <skipped/>
    </testcase>
    <testcase name="steps" classname="./a_test.ts" time="0.004" line="4" col="6">
      <failure message="1 test step failed">1 test step failed.</failure>
    </testcase>
    <testcase name="steps &gt; one" classname="./a_test.ts" time="0.000" line="4" col="41">
    </testcase>
    <testcase name="steps &gt; two" classname="./a_test.ts" time="0.001" line="4" col="69">
      <failure message="Uncaught Error: x &lt; y">Error: &lt;skipped/&gt;</failure>
    </testcase>
    <testcase name="steps &gt; three" classname="./a_test.ts" time="0.000" line="9" col="123">
      <skipped/>
    </testcase>
    <testcase name="one &gt; two is no step" classname="./a_test.ts" time="0.000" line="12" col="1"/>
  </testsuite>
</testsuites>`;

Deno.test("each test of a report counts once, its steps not, skipped ones always", PURE, () => {
  const file = "./a_test.ts";
  assert.deepEqual(testsIn(REPORT), [
    { name: 'a <b> & "c" 🥛 name="x', file, line: 2, outcome: "passed" },
    { name: "root only", file, line: 3, outcome: "skipped" },
    { name: "steps", file, line: 4, outcome: "failed" },
    { name: "steps > three", file, line: 9, outcome: "skipped" },
    { name: "one > two is no step", file, line: 12, outcome: "passed" },
  ]);
  assert.deepEqual(testsIn(""), []);
});

Deno.test("why a test is skipped stands above its ignore", PURE, () => {
  const source = `Deno.test({
  name: "a",
  // Only root can.
  ignore: Deno.uid() !== 0,
  fn() {},
});
Deno.test({
  name: "b",
  ignore: true,
  fn() {},
});
Deno.test({ name: "c", fn() {} });
`;
  assert.equal(reasonFor(source, 1), "Only root can.");
  assert.equal(reasonFor(source, 7), null);
  assert.equal(reasonFor(source, 12), null);
  assert.equal(reasonFor("", 1), null);
});

const GOOD = 'Deno.test("good", () => {});\n';
const BAD = 'Deno.test("bad", () => { throw new Error("as it is meant"); });\n';
const SKIPPED = `Deno.test({
  name: "never",
  // Nobody can.
  ignore: true,
  fn() {},
});
`;

/** Runs the tests in `files` by the script, and gives its status, last line and all of its output. */
async function run(files: Readonly<Record<string, string>>, ci = "") {
  using place = new TempDir();
  for (const [name, content] of Object.entries(files)) place.write(name, content);
  const { code, stdout, stderr } = await runScript("test.ts", [place.path], { env: { CI: ci } });
  return { code, last: stdout.trimEnd().split("\n").at(-1), output: stdout + stderr };
}

Deno.test("the last line counts what passed, failed and was skipped; the status says whether all is well", async () => {
  const good = await run({ "a_test.ts": GOOD, "b_test.ts": GOOD });
  assert.deepEqual([good.code, good.last], [0, "2 passed, 0 failed"], good.output);
  const bad = await run({ "a_test.ts": GOOD, "b_test.ts": BAD + GOOD });
  assert.deepEqual([bad.code, bad.last], [1, "2 passed, 1 failed"]);
  assert(bad.output.includes("as it is meant"), "the failure can be read");
  const skipped = await run({ "a_test.ts": GOOD + SKIPPED });
  assert.deepEqual([skipped.code, skipped.last], [0, "1 passed, 0 failed, 1 skipped"]);
  assert.match(skipped.output, /^skipped: never \(\S+a_test\.ts:2\): Nobody can\.$/m);
});

Deno.test("where CI is true, a skipped test counts as failed", async () => {
  const skipped = await run({ "a_test.ts": GOOD + SKIPPED }, "true");
  assert.deepEqual([skipped.code, skipped.last], [1, "1 passed, 1 failed"]);
  const good = await run({ "a_test.ts": GOOD }, "true");
  assert.deepEqual([good.code, good.last], [0, "1 passed, 0 failed"]);
});

Deno.test("what goes wrong outside the tests counts as failed", async () => {
  const cases = {
    "a file that does not load": { "a_test.ts": GOOD, "b_test.ts": "this is no code\n" },
    "a file that throws": { "a_test.ts": GOOD, "b_test.ts": `${GOOD}throw new Error("early");\n` },
    "a file that ends the process": { "a_test.ts": `${GOOD}Deno.exit(0);\n` },
    "no test at all": { "a_test.ts": "export {};\n" },
    "no test file": { "a.ts": GOOD },
  };
  for (const [name, files] of Object.entries(cases)) {
    const { code, last, output } = await run(files);
    assert.equal(code, 1, `${name}: ${output}`);
    assert.match(last ?? "", /^[01] passed, 1 failed$/, name);
  }
});

Deno.test("a filter and a path choose tests, and the other checks are not run then", async () => {
  using place = new TempDir();
  const file = place.write("a_test.ts", GOOD + BAD);
  const run = (...args: string[]) => runScript("test.ts", args);
  const one = await run("--", file, "good");
  assert.equal(one.code, 0, one.stdout);
  assert(one.stdout.endsWith("\n1 passed, 0 failed\n"), one.stdout);
  assert.equal(one.stdout.includes("formatted"), false);
  assert((await run(file)).stdout.endsWith("\n1 passed, 1 failed\n"));
  const none = await run(file, "no such test");
  assert.equal(none.code, 1);
  assert(none.stdout.endsWith("\n0 passed, 1 failed\n"));
  assert.equal((await run("one", "two")).code, 2);
});
