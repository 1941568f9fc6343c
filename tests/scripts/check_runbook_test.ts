/** The runbook check finds what is missing and what is left over, and passes what is whole. */
import assert from "node:assert/strict";
import {
  entriesIn,
  PARTS,
  problemsOf,
  referencesIn,
  type Source,
} from "../../scripts/check_runbook.ts";
import { runScript, TempDir } from "../support/scripts.ts";

const PURE = { permissions: "none" } as const;

/** An entry with all its parts. */
function entry(anchor: string, parts: readonly string[] = PARTS): string {
  return `## ${anchor}\n\n${parts.map((part) => `### ${part}\n\nWords.\n`).join("\n")}\n`;
}

const RUNBOOK = `# Runbook\n\n${entry("grants-invalid")}${entry("deno-version")}`;
const code = (text: string, file = "broker/notices.ts"): Source => ({ file, text });
const BOTH = [code('runbook("grants-invalid")'), code("see docs/runbook.md#deno-version")];

Deno.test("a runbook whose entries are whole and named is right", PURE, () => {
  assert.deepEqual(problemsOf(RUNBOOK, BOTH), []);
});

const CASES: Readonly<Record<string, readonly [string, readonly Source[], string]>> = {
  "an entry that is named as an argument and missing": [
    RUNBOOK,
    [...BOTH, code('\n  runbook("audit-lost"),', "ctl/notices.ts")],
    "ctl/notices.ts:2: docs/runbook.md has no entry ## audit-lost",
  ],
  "one that is named as an address and missing": [
    RUNBOOK,
    [...BOTH, code("see docs/runbook.md#audit-lost", "docs/protocol.md")],
    "docs/protocol.md:1: docs/runbook.md has no entry ## audit-lost",
  ],
  "one that the runbook itself names and lacks": [
    RUNBOOK,
    [...BOTH, code("see docs/runbook.md#audit-lost", "docs/runbook.md")],
    "docs/runbook.md:1: docs/runbook.md has no entry ## audit-lost",
  ],
  "a name that the argument does not show": [
    RUNBOOK,
    [...BOTH, code("runbook(anchor)")],
    "broker/notices.ts:1: runbook is not given the entry's name as a literal",
  ],
  "an entry that is named nowhere": [
    RUNBOOK,
    [code('runbook("grants-invalid")')],
    "docs/runbook.md:25: deno-version is named nowhere",
  ],
  "one that only the runbook's own samples name": [
    RUNBOOK,
    [
      code('runbook("grants-invalid")'),
      code("see docs/runbook.md#deno-version", "docs/runbook.md"),
    ],
    "docs/runbook.md:25: deno-version is named nowhere",
  ],
  "an entry that is there twice": [
    RUNBOOK + entry("deno-version"),
    BOTH,
    "docs/runbook.md:47: deno-version is there twice",
  ],
  "an entry of which nothing but its samples is left": [
    `${entry("grants-invalid")}\`\`\`text\n${entry("deno-version")}\`\`\`\n`,
    BOTH,
    "broker/notices.ts:1: docs/runbook.md has no entry ## deno-version",
  ],
};

for (const [name, [runbook, sources, problem]] of Object.entries(CASES)) {
  Deno.test(`${name} is found`, PURE, () => {
    assert.deepEqual(problemsOf(runbook, sources), [problem]);
  });
}

Deno.test(
  "each part that an entry lacks, has too much, in another place or empty is found",
  PURE,
  () => {
    const sources = [code('runbook("a")')];
    for (const [index, part] of PARTS.entries()) {
      const without = PARTS.filter((other) => other !== part);
      const swapped = [...without.slice(0, index - 1), part, ...without.slice(index - 1)];
      for (const parts of [without, [...without, part, "More"], index === 0 ? [] : swapped]) {
        const [problem, ...more] = problemsOf(entry("a", parts), sources);
        assert.match(problem ?? "", /^docs\/runbook\.md:1: a has the parts \[/);
        assert.deepEqual(more, []);
      }
      const empty = entry("a").replace(`### ${part}\n\nWords.\n`, `### ${part}\n`);
      assert.deepEqual(problemsOf(empty, sources), [
        `docs/runbook.md:1: a: nothing stands under ${part}`,
      ]);
    }
  },
);

Deno.test("what is referred to is read off code and prose", PURE, () => {
  const text =
    'export function runbook(anchor: string)\n[runbook("a-b"), runbook("c")] // docs/runbook.md#d';
  const anchors = (file: string) => referencesIn({ file, text }).map(({ anchor }) => anchor);
  assert.deepEqual(anchors("proto/io/log.ts"), ["d", "a-b", "c"]);
  assert.deepEqual(anchors("docs/decisions.md"), ["d"]);
  assert.deepEqual(referencesIn(code("docs/runbook.md#<anchor>")), []);
});

Deno.test("headings in a block are no entries", PURE, () => {
  const anchors = entriesIn("## a\n```sh\n## b\n### c\n```\n## d\n").map(({ anchor }) => anchor);
  assert.deepEqual(anchors, ["a", "d"]);
});

function project(place: TempDir, runbook: string | null): void {
  for (const folder of ["broker", "loop", "ctl", "proto", "scripts", "docs"]) {
    place.write(`${folder}/deep/notices.ts`, "");
  }
  place.write("broker/deep/notices.ts", 'runbook("grants-invalid");\n');
  if (runbook !== null) place.write("docs/runbook.md", runbook);
}

Deno.test("as a script it looks through all the folders, and says what is wrong, with 1", async () => {
  using place = new TempDir();
  project(place, entry("grants-invalid"));
  const good = await runScript("check_runbook.ts", [place.path]);
  assert.deepEqual([good.code, good.stdout], [
    0,
    "check_runbook: 1 entries, each named and whole\n",
  ]);
  for (const folder of ["broker", "loop", "ctl", "proto", "scripts", "docs"]) {
    const file = `${folder}/deep/more.ts`;
    place.write(file, '\nrunbook("audit-lost");\n');
    const { code, stderr } = await runScript("check_runbook.ts", [place.path]);
    assert.equal(code, 1);
    assert.equal(
      stderr,
      `check_runbook: ${file}:2: docs/runbook.md has no entry ## audit-lost\n`,
    );
    Deno.removeSync(`${place.path}/${file}`);
  }
});

Deno.test("a project without a runbook fails", async () => {
  using place = new TempDir();
  project(place, null);
  const { code, stderr } = await runScript("check_runbook.ts", [place.path]);
  assert.deepEqual([code, stderr], [1, "check_runbook: there is no docs/runbook.md\n"]);
});

Deno.test("this project passes", async () => {
  const { code, stderr } = await runScript("check_runbook.ts");
  assert.equal(code, 0, stderr);
});
