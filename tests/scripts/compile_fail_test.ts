/** The check of what must not compile: exactly the marked lines, with exactly the marked errors. */
import assert from "node:assert/strict";
import { differences, errorsIn, marksIn } from "../../scripts/compile_fail.ts";
import { runScript, TempDir } from "../support/scripts.ts";

const PURE = { permissions: "none" } as const;

Deno.test("marks stand at the end of a line", PURE, () => {
  const source = "a;\nb; //~ TS2345\nc; //~ TS2345 TS2341\nd; // ~ TS1\ne; //~ TS2 because\n";
  assert.deepEqual(marksIn("f.ts", source), ["f.ts:2 TS2345", "f.ts:3 TS2345", "f.ts:3 TS2341"]);
});

Deno.test("errors are read with their place, and not with what else is said of them", PURE, () => {
  const output = `TS2322 [ERROR]: Type 'number' is not assignable to type 'string'.
const b: B = { c: 1 };
               ^
    at file:///a%20b/c.ts:3:26

    The expected type comes from property 'c' which is declared here on type 'B'
        at file:///a%20b/c.ts:2:25

TS2341 [ERROR]: Property 'y' is private.
    at file:///a%20b/c.ts:4:9

Found 2 errors.
`;
  assert.deepEqual(errorsIn(output), ["/a b/c.ts:3 TS2322", "/a b/c.ts:4 TS2341"]);
});

Deno.test("a difference in either direction is one", PURE, () => {
  assert.deepEqual(differences(["a", "b"], ["b", "a"]), []);
  assert.deepEqual(differences(["a", "b"], ["b"]), ["a was wanted, and it compiles"]);
  assert.deepEqual(differences(["a"], ["a", "a"]), ["a was not wanted"]);
});

const FORBIDDEN = "class Sealed {\n  private constructor() {}\n}\n";

/** What the script says of a folder with one fixture, or of an empty one. */
async function check(content: string | null): Promise<{ code: number; said: string }> {
  using place = new TempDir();
  Deno.mkdirSync(`${place.path}/fixtures`);
  if (content !== null) place.write("fixtures/sealed.ts", content);
  const { code, stdout, stderr } = await runScript("compile_fail.ts", [`${place.path}/fixtures`]);
  return { code, said: (stdout + stderr).replaceAll(place.path, "") };
}

Deno.test("a forbidden act that is marked passes; once it compiles, the check fails", async () => {
  const act = "new Sealed(); //~ TS2673\n";
  const good = await check(FORBIDDEN + act);
  assert.equal(good.code, 0, good.said);
  assert(good.said.startsWith("compile_fail: 1 errors, each on the line that names it"));
  const open = await check(FORBIDDEN.replace("private", "public") + act);
  assert.equal(open.code, 1);
  assert(open.said.startsWith("compile_fail: /fixtures/sealed.ts:4 TS2673 was wanted, and it"));
});

Deno.test("another code, another line and an error without a mark fail", async () => {
  const cases: Readonly<Record<string, string>> = {
    "new Sealed(); //~ TS2345\n": "/fixtures/sealed.ts:4 TS2673 was not wanted",
    "\nnew Sealed();\n//~ TS2673\n": "/fixtures/sealed.ts:5 TS2673 was not wanted",
    "new Sealed(); //~ TS2673\nabsent;\n": "/fixtures/sealed.ts:5 TS2304 was not wanted",
    "const a = ; //~ TS2673\n": "/fixtures/sealed.ts:4 TS2673 was wanted, and it compiles",
  };
  for (const [act, problem] of Object.entries(cases)) {
    const { code, said } = await check(FORBIDDEN + act);
    assert.equal(code, 1, said);
    assert(said.includes(`compile_fail: ${problem}\n`), said);
  }
});

Deno.test("a check of nothing fails: no folder, no fixture, no mark", async () => {
  const empty = await check(null);
  assert.deepEqual(empty, { code: 1, said: "compile_fail: /fixtures: no fixture\n" });
  const unmarked = await check(FORBIDDEN);
  assert.deepEqual(unmarked, {
    code: 1,
    said: "compile_fail: /fixtures/sealed.ts: no line is marked with //~\n",
  });
  const { code, stderr } = await runScript("compile_fail.ts", ["/nonexistent"]);
  assert.deepEqual([code, stderr], [1, "compile_fail: /nonexistent: no such folder\n"]);
});
