/** `deno task mutate`: it breaks what it says, sees what the tests notice, and leaves the project alone. */
import assert from "node:assert/strict";
import { type Change, patternChanges } from "../../scripts/mutate/changes.ts";
import { EQUIVALENT, isSame } from "../../scripts/mutate/equivalent.ts";
import { type Mutant, mutantsIn, mutantsOf } from "../../scripts/mutate/mutants.ts";
import plugin from "../../scripts/mutate/plugin.ts";
import { Stand } from "../../scripts/mutate/stand.ts";
import { isEnough, type Result, tally, tell } from "../../scripts/mutate/tally.ts";
import { TESTS_OF } from "../../scripts/mutate/tests_of.ts";
import { until } from "../support/broker.ts";
import { Followed, processesWith, ROOT, runScript, TempDir } from "../support/scripts.ts";

/** The mutants of `source`, without starting anything. */
function mutants(source: string, file = "a.ts"): Mutant[] {
  const [found, ...more] = Deno.lint.runPlugin(plugin, `${ROOT}/${file}`, source);
  assert(found !== undefined && more.length === 0);
  return mutantsOf(file, source, JSON.parse(found.message) as Change[]);
}

/** What is done to `source`, which is one line, and what becomes of it. */
function changes(source: string): [string, string][] {
  return mutants(source).map(({ id, from, to }) => {
    assert.equal(from, source);
    return [id.replace(/^a\.ts:1:\d+ /, ""), to];
  });
}

const CASES: Readonly<Record<string, readonly [source: string, ...[string, string][]]>> = {
  "comparisons flip, and a bound moves": [
    "f(a === b, c < d);",
    ["drop statement", ";"],
    ["=== to !==", "f(a !== b, c < d);"],
    ["< to <=", "f(a === b, c <= d);"],
    ["< to >=", "f(a === b, c >= d);"],
  ],
  "a condition is negated, or never holds": [
    "if (a) { b(c); return d; }",
    ["never", "if (false) { b(c); return d; }"],
    ["negate", "if (!(a)) { b(c); return d; }"],
    ["drop statement", "if (a) { ; return d; }"],
  ],
  "what only throws is dropped, and its message is nobody's business": [
    'if (!a) throw new Error("b");',
    ["drop !", 'if (a) throw new Error("b");'],
    ["drop throw", "if (!a) ;"],
  ],
  "both sides of && and || count, and which of the two it is": [
    "const x = a && b || !c;",
    ["drop operand #2", "const x = false || !c;"],
    ["drop operand", "const x = true && b || !c;"],
    ["&& to ||", "const x = a || b || !c;"],
    ["drop operand", "const x = a && true || !c;"],
    ["|| to &&", "const x = a && b && !c;"],
    ["drop !", "const x = a && b || c;"],
    ["drop operand", "const x = a && b || false;"],
  ],
  "numbers move by one, and to 0": [
    "const x = a ? 7 : 0;",
    ["negate", "const x = !(a) ? 7 : 0;"],
    ["7 to 0", "const x = a ? 0 : 0;"],
    ["7 to 6", "const x = a ? 6 : 0;"],
    ["7 to 8", "const x = a ? 8 : 0;"],
    ["0 to -1", "const x = a ? 7 : (-1);"],
    ["0 to 1", "const x = a ? 7 : 1;"],
  ],
  "texts that decide are emptied, sentences and types are left": [
    'const x: "t" | null = a("s", "", `${b}/`, "a sentence", "k" as "k");',
    ["empty text", 'const x: "t" | null = a("", "", `${b}/`, "a sentence", "k" as "k");'],
    ["fill text", 'const x: "t" | null = a("s", "mutant", `${b}/`, "a sentence", "k" as "k");'],
    ["empty text", 'const x: "t" | null = a("s", "", "", "a sentence", "k" as "k");'],
    ["empty text", 'const x: "t" | null = a("s", "", `${b}/`, "a sentence", "" as "k");'],
  ],
  "sums, methods and calls in between change": [
    "const x = Math.max(a + b, c.slice(d)).e;",
    ["max to min", "const x = Math.min(a + b, c.slice(d)).e;"],
    ["+ to -", "const x = Math.max(a - b, c.slice(d)).e;"],
    ["drop slice", "const x = Math.max(a + b, c).e;"],
  ],
  "a text that is put together is no sum": ['const x = a + "b c";'],
  "what every object has is in no table": ["const x = a.toString().constructor(b);"],
  "what stands in for nothing goes": [
    "const x = a?.b ?? c;",
    ["?. to .", "const x = a.b ?? c;"],
    ["drop ??", "const x = a?.b;"],
  ],
  "a test answers the other way": [
    "const x = a.every((b) => b.c());",
    ["every to some", "const x = a.some((b) => b.c());"],
    ["negate", "const x = a.every((b) => !(b.c()));"],
  ],
  "so does a function whose answer is a boolean": [
    "function f(): boolean { return g(); }",
    ["negate", "function f(): boolean { return !(g()); }"],
  ],
  "an early end is passed over": [
    "function f() { if (a) return; g(); }",
    ["negate", "function f() { if (!(a)) return; g(); }"],
    ["never", "function f() { if (false) return; g(); }"],
    ["drop return", "function f() { if (a) ; g(); }"],
    ["drop statement", "function f() { if (a) return; ; }"],
  ],
  "a table loses each of its elements": [
    "const X = Object.freeze([a, b]);",
    ["drop Object.freeze", "const X = [a, b];"],
    ["drop element", "const X = Object.freeze([b]);"],
    ["drop element", "const X = Object.freeze([a]);"],
  ],
  "a case does nothing, but for one that cannot be reached": [
    "switch (a) { case b: f(c); break; default: assertNever(a); }",
    ["drop case", "switch (a) { case b: break; default: assertNever(a); }"],
    ["drop statement", "switch (a) { case b: ; break; default: assertNever(a); }"],
  ],
  "a regular expression is let loose at its ends, its counts and its flags": [
    "const X = /^a{2,3}$/i;",
    ["^ to nothing", "const X = /a{2,3}$/i;"],
    ["{2,3} to {3,3}", "const X = /^a{3,3}$/i;"],
    ["{2,3} to {2,4}", "const X = /^a{2,4}$/i;"],
    ["{2,3} to {2,2}", "const X = /^a{2,2}$/i;"],
    ["$ to nothing", "const X = /^a{2,3}/i;"],
    ["drop flag i", "const X = /^a{2,3}$/;"],
  ],
  "types, imports and keys are no code": [
    'import type { A } from "./a.ts"; interface B { c: 1 | true; d?: "e" }',
  ],
};

for (const [claim, [source, ...expected]] of Object.entries(CASES)) {
  Deno.test(`mutants: ${claim}`, () => {
    const sorted = (list: readonly [string, string][]) => list.map(String).sort();
    assert.deepEqual(sorted(changes(source)), sorted(expected));
  });
}

Deno.test("what is escaped in a regular expression, or stands in a class, is no operator", () => {
  assert.deepEqual(
    patternChanges(String.raw`\+[+*]\[(?:a)?`, 10),
    [
      { operator: "[ to [^", start: 12, end: 13, text: "[^" },
      { operator: "? to nothing", start: 23, end: 24, text: "" },
    ],
  );
});

/** A project with a test that misses something, and code that can be made to run for ever. */
function tinyProject(place: TempDir): void {
  place.write("deno.json", "{}");
  place.write("node_modules/left/behind.ts", "");
  place.write(
    "sum.ts",
    `export function sum(n: number): number {
  let total = 0;
  for (let i = n; i > 0; i -= 1) total += i;
  return total;
}
`,
  );
  place.write(
    "sum_test.ts",
    `import { sum } from "./sum.ts";
Deno.test("sums", () => {
  if (sum(3) !== 6) throw new Error("wrong");
});
`,
  );
}

Deno.test("a mutant is killed, or survives, or never ends; the project stays as it is", async () => {
  using place = new TempDir();
  tinyProject(place);
  using stand = new Stand(place.path, 2_000);
  const before = Deno.readTextFileSync(`${place.path}/sum.ts`);
  const found = await mutantsIn(stand.copy, "sum.ts");
  assert.deepEqual(
    found.map(({ id, within }) => [id, within]),
    [
      ["sum.ts:2:15 0 to 1", "sum"],
      ["sum.ts:2:15 0 to -1", "sum"],
      ["sum.ts:3:21 > to >=", "sum"],
      ["sum.ts:3:21 > to <=", "sum"],
      ["sum.ts:3:23 0 to 1", "sum"],
      ["sum.ts:3:23 0 to -1", "sum"],
      ["sum.ts:3:28 -= to +=", "sum"],
      ["sum.ts:3:31 1 to 2", "sum"],
      ["sum.ts:3:31 1 to 0", "sum"],
      ["sum.ts:3:34 drop statement", "sum"],
      ["sum.ts:3:40 += to -=", "sum"],
    ],
  );
  const usual = await stand.baseline(["sum_test.ts"]);
  assert(usual !== null);
  const outcome = (id: string) => {
    const mutant = found.find((mutant) => mutant.id === `sum.ts:${id}`);
    assert(mutant !== undefined);
    return stand.run(mutant, ["sum_test.ts"], usual);
  };
  assert.equal(await outcome("3:21 > to <="), "killed");
  assert.equal(await outcome("3:21 > to >="), "survived");
  assert.equal(await outcome("3:28 -= to +="), "timeout");
  assert.notEqual(await stand.baseline(["sum_test.ts"]), null, "the copy is whole again");
  assert.equal(Deno.readTextFileSync(`${place.path}/sum.ts`), before);
});

Deno.test("tests that fail by themselves are no measure", async () => {
  using place = new TempDir();
  tinyProject(place);
  place.write("sum_test.ts", 'Deno.test("never", () => Promise.reject(new Error("no")));');
  using stand = new Stand(place.path);
  assert.equal(await stand.baseline(["sum_test.ts"]), null);
  assert.equal(await stand.baseline(["gone_test.ts"]), null);
});

Deno.test("the figures: equivalent ones do not count, 95 % are enough and are not rounded up to", () => {
  const [mutant] = mutants("f(a > b);");
  assert(mutant !== undefined);
  const results = (killed: number, survived: number): Result[] => [
    ...Array.from({ length: killed }, () => ({ mutant, outcome: "killed" as const })),
    ...Array.from({ length: survived }, () => ({ mutant, outcome: "survived" as const })),
    { mutant, outcome: "timeout" },
    { mutant, outcome: "equivalent" },
  ];
  const enough = tally("a.ts", results(94, 5));
  assert.equal(
    tell(enough),
    "a.ts: 101 mutants, 94 killed, 1 timed out, 1 equivalent, 5 survived: 95.0 %",
  );
  assert(isEnough(enough));
  const { from, to, id, within } = mutant;
  assert.deepEqual(enough.survived[0], { id, within, from, to });
  const missed = tally("a.ts", results(9489, 500));
  assert.match(tell(missed), / 94\.9 %$/);
  assert(!isEnough(missed));
  assert(isEnough(tally("a.ts", [])));
});

Deno.test("each mutant that is said to be equivalent is one of the sources as they are", () => {
  for (const file of new Set(EQUIVALENT.map((known) => known.file))) {
    const made = mutants(Deno.readTextFileSync(`${ROOT}/${file}`), file);
    for (const known of EQUIVALENT.filter((one) => one.file === file)) {
      const fitting = made.filter((mutant) => isSame(known, mutant));
      assert.equal(fitting.length, 1, `${file}, ${known.within}: ${known.from} -> ${known.to}`);
    }
  }
});

Deno.test("what is broken and what must notice exist", () => {
  for (const [file, tests] of Object.entries(TESTS_OF)) {
    assert(tests.length > 0);
    for (const path of [file, ...tests]) assert(Deno.statSync(`${ROOT}/${path}`).isFile, path);
  }
});

Deno.test("the command tries the mutant that it is given", async () => {
  const [mutant] = await mutantsIn(ROOT, "broker/paths.ts");
  assert(mutant !== undefined);
  const { code, stdout, stderr } = await runScript("mutate.ts", ["--json", "--only", mutant.id]);
  assert.deepEqual([code, stderr], [0, ""]);
  const { files, score } = JSON.parse(stdout);
  assert.deepEqual([files.length, files[0].file, score], [1, "broker/paths.ts", 1]);
  assert.deepEqual([files[0].mutants, files[0].killed], [1, 1]);
});

Deno.test("stopped in the middle of a mutant it leaves no copy behind", async () => {
  using place = new TempDir();
  const program = [Deno.execPath(), "run", "--quiet", "--frozen", "-A"] as const;
  const script = `${ROOT}/scripts/mutate.ts`;
  await using mutate = Followed.start([...program, script, "broker/hosts.ts"], {
    env: { TMPDIR: place.path },
  });
  const copy = () => [...Deno.readDirSync(place.path)].find(({ name }) => /-mutate-/.test(name));
  await until("its copy", () => copy() !== undefined);
  await until("a test in it", () => processesWith("tests/broker/hosts_test.ts").length > 0);
  mutate.signal("SIGTERM");
  assert.equal(await mutate.ends(), 128 + 15);
  assert.equal(copy(), undefined);
});

Deno.test("a command line that is not one ends with 2", async () => {
  const wrong = [["broker/main.ts"], ["--shard", "3/2"], ["--only", "broker/paths.ts:1:1 flip"]];
  for (const args of wrong) {
    const { code, stdout, stderr } = await runScript("mutate.ts", args);
    assert.deepEqual([code, stdout], [2, ""], stderr);
    assert.match(stderr, /^mutate: .*(tests_of|I\/N|no mutant)/);
  }
});
