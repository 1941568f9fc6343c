/** What is warned of in valid grants, and what is not; that an overridden grant never decides is true. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { decide } from "../../broker/policy.ts";
import { grantWarnings } from "../../ctl/grant_warnings.ts";
import { lineOfKey } from "../../proto/toml.ts";
import { type GrantFields, grantFile, grantSet } from "../support/grants.ts";
import { runs } from "../support/long.ts";
import { aCase, situationOf } from "../support/policy_cases.ts";

const NOW = Date.parse("2026-12-01T10:00:00.000Z");
const WEEK = "2026-12-08T10:00:00.000Z";
const RUNS = runs(3_000, 100_000);
const pure = { permissions: "none" } as const;

/** The warnings of files with these stems, as `file:line: warning`. */
function warned(
  files: Readonly<Record<string, GrantFields>>,
  missing: readonly string[] = [],
): string[] {
  const set = grantSet(files);
  assert.ok(set.ok, JSON.stringify(set));
  const texts = new Map(Object.entries(files).map(([id, fields]) => [id, grantFile(fields)]));
  const lineOf = ({ id }: { id: string }, key: readonly string[]) =>
    lineOfKey(texts.get(id) ?? "", key);
  return grantWarnings(set.grants, NOW, lineOf, (path) => missing.includes(path))
    .map(({ file, line, warning }) => `${file}:${line}: ${warning}`);
}

const of = (tool: string, ...paths: string[]): GrantFields => ({ tool, constraints: { paths } });
const READ = of("read_file", "/n");
const DENY: GrantFields = { ...READ, mode: "deny" };
const web = (...hosts: string[]): GrantFields => ({ tool: "http_fetch", constraints: { hosts } });
const beats = "it never decides: grant a covers all that it covers, and ";

Deno.test(
  "a deny grant that stops denying is warned of, and one that does not is not",
  pure,
  () => {
    assert.deepEqual(warned({ a: DENY }), []);
    assert.deepEqual(warned({ a: { ...DENY, max_taint: "private" } }), [
      "a.toml:3: it denies only up to taint private: above that, another grant may let the call run",
    ]);
    assert.deepEqual(warned({ a: { ...READ, max_taint: "private" } }), []);
    const later = "2027-06-01T00:00:00.000Z";
    assert.deepEqual(warned({ a: { ...DENY, expires: later } }), [
      `a.toml:5: it stops denying at ${later}: after that, another grant may let the call run`,
    ]);
    assert.deepEqual(warned({ a: { ...READ, expires: later } }), []);
  },
);

Deno.test("a grant up to public is warned of, since no session is at public", pure, () => {
  const never =
    "a.toml:3: it applies to no session: its max_taint is public, and each starts at private";
  const upTo = { max_taint: "public" } as const;
  assert.deepEqual(warned({ a: { ...READ, ...upTo } }), [never]);
  assert.deepEqual(warned({ a: { ...DENY, ...upTo } }), [
    `${never}: another grant may let the call run`,
  ]);
});

Deno.test(
  "an end within a week is warned of, to the millisecond, and so is one that has come",
  pure,
  () => {
    const ending = (expires: string) => warned({ a: { ...READ, expires } });
    assert.deepEqual(ending(WEEK), []);
    assert.deepEqual(ending("2026-12-08T09:59:59.999Z"), [
      "a.toml:5: it expires within a week, at 2026-12-08T09:59:59.999Z",
    ]);
    assert.deepEqual(ending("2026-12-01T10:00:00.001Z"), [
      "a.toml:5: it expires within a week, at 2026-12-01T10:00:00.001Z",
    ]);
    assert.deepEqual(ending("2026-12-01T10:00:00.000Z"), [
      "a.toml:5: it expired at 2026-12-01T10:00:00.000Z",
    ]);
  },
);

Deno.test(
  "a grant of everything is warned of: of /, or of names that anybody can get",
  pure,
  () => {
    assert.deepEqual(warned({ a: of("read_file", "/n", "/") }), [
      "a.toml:6: its path / covers every file",
    ]);
    for (const host of ["*.co.uk", "*.com.au", "*.org.nz", "*.github.io", "*.pages.dev"]) {
      assert.deepEqual(warned({ a: web(host) }), [
        `a.toml:6: ${host} covers names that anybody can get`,
      ]);
    }
    for (
      const host of ["co.uk", "example.co.uk", "*.example.co.uk", "*.example.uk", "*.co.com"]
        .concat("github.io", "*.me.github.io", "*.ac.example")
    ) assert.deepEqual(warned({ a: web(host) }), [], host);
  },
);

/** What one grant makes of another: `a` always goes before `b`, or it does not. */
const OVERRIDES: Readonly<Record<string, readonly [a: GrantFields, b: GrantFields, why: string]>> =
  {
    "a stricter mode": [DENY, of("read_file", "/n/a"), "mode deny goes before auto"],
    "a lower id": [READ, READ, "of two grants of one mode the one whose id is lower does"],
    "a longer life": [
      { ...DENY, expires: "2027-02-01T00:00:00.000Z" },
      { ...READ, expires: "2027-01-01T00:00:00.000Z" },
      "mode deny goes before auto",
    ],
    "a shell grant without paths": [
      { tool: "shell", mode: "ask" },
      { tool: "shell" },
      "mode ask goes before auto",
    ],
    "a pattern": [
      { ...web("*.example.com"), mode: "ask" },
      web("a.example.com", "*.b.example.com", "*.example.com"),
      "mode ask goes before auto",
    ],
    "a directory to write in": [
      { ...of("write_file", "/n"), mode: "ask" },
      of("write_file", "/n/a"),
      "mode ask goes before auto",
    ],
  };
const NOT: Readonly<Record<string, readonly [a: GrantFields, b: GrantFields]>> = {
  "a milder mode": [READ, { ...of("read_file", "/n/a"), mode: "ask" }],
  "a part of the paths": [DENY, of("read_file", "/n", "/m")],
  "a lower taint": [{ ...READ, max_taint: "public" }, { ...READ, max_taint: "private" }],
  "a shorter life": [{ ...READ, expires: "2027-01-01T00:00:00.000Z" }, READ],
  "another tool": [DENY, of("write_file", "/n")],
  "a shell grant with paths": [{ tool: "shell", mode: "ask" }, of("shell", "/n")],
  "a pattern that leaves its own name out": [
    { ...web("*.example.com"), mode: "ask" },
    web("example.com"),
  ],
  "a directory that only the other can write over": [
    { ...of("write_file", "/n", "/n/a/b"), mode: "ask" },
    of("write_file", "/n/a"),
  ],
};

for (const [name, [a, b, why]] of Object.entries(OVERRIDES)) {
  Deno.test(`overridden by ${name}`, pure, () => {
    assert.deepEqual(warned({ a, b }).filter((one) => one.includes("never decides")), [
      `b.toml:2: ${beats}${why}`,
    ]);
  });
}
for (const [name, [a, b]] of Object.entries(NOT)) {
  Deno.test(`not overridden by ${name}`, pure, () => {
    assert.deepEqual(warned({ a, b }).filter((one) => one.includes("never decides")), []);
  });
}

Deno.test("a grant that is said never to decide decides no generated call", pure, () => {
  let decided = 0;
  let overridden = 0;
  fc.assert(
    fc.property(aCase, (one) => {
      const situation = situationOf(one);
      if (!situation.grants.ok) return;
      const never = grantWarnings(situation.grants.grants, NOW, () => null, () => false)
        .filter(({ warning }) => warning.startsWith("it never decides"))
        .map(({ file }) => file);
      const { covered } = decide(situation);
      overridden += never.length;
      if (covered === null) return;
      decided += 1;
      assert.ok(!never.includes(`${covered.grant.id}.toml`), covered.grant.id);
    }),
    { numRuns: RUNS },
  );
  assert.ok(decided > 500 && overridden > 500, `${decided} decided, ${overridden} overridden`);
});

Deno.test("each path that is missing is warned of, and no other", pure, () => {
  const grants = { a: of("read_file", "/n", "/m"), b: of("write_file", "/n"), c: web("n.example") };
  assert.deepEqual(warned(grants), []);
  assert.deepEqual(warned(grants, ["/n", "/n/x"]), [
    'a.toml:6: its path "/n" does not exist',
    'b.toml:6: its path "/n" does not exist',
  ]);
});
