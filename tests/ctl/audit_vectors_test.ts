/** `bxctl audit verify` against every vector: its report, its exit status and the process itself. */
import assert from "node:assert/strict";
import { readCommandLine } from "../../ctl/args.ts";
import { verifyAudit } from "../../ctl/audit_verify.ts";
import { differences, directoriesIn } from "../support/audit_case.ts";
import { PROJECT } from "../support/broker.ts";
import { Recorder, runCtl } from "../support/ctl.ts";

const VECTORS = new URL("fixtures/vectors/audit/", PROJECT);

interface Expected {
  readonly arguments?: readonly string[];
  readonly exit: number;
  readonly report: Readonly<Record<string, unknown>>;
}

const cases = directoriesIn(VECTORS).flatMap((group) =>
  directoriesIn(new URL(`${group}/`, VECTORS)).map((name) => {
    const home = new URL(`${group}/${name}`, VECTORS).pathname;
    const expected: Expected = JSON.parse(Deno.readTextFileSync(`${home}/expected.json`));
    return { group, name: `${group}/${name}`, home, expected };
  })
);

Deno.test("there are 377 vectors", () => {
  assert.equal(cases.length, 377);
});

for (const group of new Set(cases.map((one) => one.group))) {
  Deno.test(`audit verify reports what the vectors say: ${group}`, () => {
    for (const { name, home, expected } of cases.filter((one) => one.group === group)) {
      const line = ["audit", "verify", "--json", "--home", home, ...expected.arguments ?? []];
      const invocation = readCommandLine(line);
      if (expected.exit === 2) {
        assert.equal(invocation.kind, "usage", name);
        continue;
      }
      assert(invocation.kind === "run" && invocation.command.name === "audit verify", name);
      const io = new Recorder();
      const status = verifyAudit(`${home}/audit`, io, true, invocation.command.expect);
      assert.equal(status, expected.exit, name);
      assert.deepEqual(differences(JSON.parse(io.out), expected.report), [], name);
    }
  });
}

Deno.test("the process itself says the same, under its own flags: the first of each group", async () => {
  const first = new Map(cases.toReversed().map((one) => [one.group, one]));
  const left = [...first.values()];
  const worker = async () => {
    for (let one = left.pop(); one !== undefined; one = left.pop()) {
      const { name, home, expected } = one;
      const given = ["audit", "verify", "--json", ...expected.arguments ?? []];
      const { code, stdout, stderr } = await runCtl(home, given);
      assert.equal(code, expected.exit, `${name}: ${stderr}`);
      if (code !== 2) assert.deepEqual(differences(JSON.parse(stdout), expected.report), [], name);
    }
  };
  await Promise.all([worker(), worker()]);
});
