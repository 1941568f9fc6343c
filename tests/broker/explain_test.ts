/** What an explanation says of each clause, in words and with the line of the grant's file. */
import assert from "node:assert/strict";
import { explain } from "../../broker/explain.ts";
import type { Situation } from "../../broker/policy.ts";
import { lineOfKey } from "../../proto/toml.ts";
import { type GrantFields, grantFile, grantSet } from "../support/grants.ts";

const NOW = "2026-12-01T10:00:00.000Z";

/** What is said of each candidate: `id:line verdict: words`. */
function said(
  files: Readonly<Record<string, GrantFields>>,
  tool: string,
  args: unknown,
  differs: Partial<Situation> = {},
): string[] {
  const situation: Situation = {
    ...{ now: NOW, grants: grantSet(files), state: { taint: "private", untrusted: false }, tool },
    ...{ arguments: JSON.stringify(args), ...differs },
  };
  const texts = new Map(Object.entries(files).map(([id, fields]) => [id, grantFile(fields)]));
  const { candidates, why } = explain(
    situation,
    ({ id }, key) => lineOfKey(texts.get(id) ?? "", key),
  );
  return [
    why,
    ...candidates.flatMap(({ grant, verdict, clauses }) =>
      clauses.map(({ line, words }) => `${grant}:${line} ${verdict}: ${words}`)
    ),
  ];
}

const READ: GrantFields = { constraints: { paths: ["/n"] } };
const FETCH: GrantFields = { tool: "http_fetch", constraints: { hosts: ["example.com"] } };
const SHELL: GrantFields = { tool: "shell" };
const nothing = "no grant covers it";

const CASES: Readonly<Record<string, readonly [actual: () => string[], expected: string[]]>> = {
  "the grant that decides, what loses to it and why": [
    () =>
      said(
        { a: READ, b: READ, c: { ...READ, mode: "ask" }, d: { ...READ, mode: "ask" } },
        "read_file",
        { path: "/n/a" },
      ),
    [
      "grant c lets it run once the owner approves",
      'c:2 decides: mode ask, its path "/n" contains "/n/a"',
      "a:2 loses: grant c goes before it: mode ask goes before auto",
      "b:2 loses: grant c goes before it: mode ask goes before auto",
      "d:2 loses: grant c goes before it: of two grants of mode ask the one whose id is lower",
    ],
  ],
  "expiry, at its moment and not before": [
    () =>
      said(
        { a: { ...READ, expires: NOW }, b: { ...READ, expires: "2026-12-01T10:00:00.001Z" } },
        "read_file",
        { path: "/n" },
      ),
    [
      "grant b lets it run",
      'b:2 decides: mode auto, its path "/n" contains "/n"',
      `a:5 ruled_out: it expired at ${NOW}`,
    ],
  ],
  "every clause that rules out, the first one first": [
    () => said({ a: { ...READ, expires: NOW, max_taint: "public" } }, "read_file", { path: "/nn" }),
    [
      nothing,
      `a:5 ruled_out: it expired at ${NOW}`,
      "a:3 ruled_out: its max_taint is public, and the taint is private",
      'a:7 ruled_out: its path "/n" does not contain "/nn"',
    ],
  ],
  "taint": [
    () => said({ a: { ...READ, max_taint: "public" } }, "read_file", { path: "/n/a" }),
    [
      "a grant would cover it, but not at this taint",
      "a:3 ruled_out: its max_taint is public, and the taint is private",
    ],
  ],
  "many paths": [
    () => {
      const constraints = { paths: ["/a", "/b", "/c", "/d", "/e"] };
      return said({ a: { constraints } }, "read_file", { path: "/n" });
    },
    [nothing, 'a:6 ruled_out: its paths "/a", "/b", "/c" and 2 more do not contain "/n"'],
  ],
  "as many paths as are named, and one more": [
    () => {
      const paths = ["/a", "/b", "/c"];
      const constraints = { paths: [...paths, "/d"] };
      return said({ a: { constraints: { paths } }, b: { constraints } }, "read_file", {
        path: "/n",
      });
    },
    [
      nothing,
      'a:6 ruled_out: its paths "/a", "/b", "/c" do not contain "/n"',
      'b:6 ruled_out: its paths "/a", "/b", "/c" and 1 more do not contain "/n"',
    ],
  ],
  "a grant that denies": [
    () => said({ a: { ...READ, mode: "deny" } }, "read_file", { path: "/n/a" }),
    ["grant a denies it", 'a:2 decides: mode deny, its path "/n" contains "/n/a"'],
  ],
  "a directory that cannot be written over": [
    () => said({ a: { ...READ, tool: "write_file" } }, "write_file", { path: "/n", content: "" }),
    [nothing, 'a:6 ruled_out: "/n" is one of its paths itself, which no write may replace'],
  ],
  "and one elsewhere": [
    () => said({ a: { ...READ, tool: "write_file" } }, "write_file", { path: "/m", content: "" }),
    [nothing, 'a:6 ruled_out: its path "/n" does not contain "/m"'],
  ],
  "and one below it that can": [
    () => said({ a: { ...READ, tool: "write_file" } }, "write_file", { path: "/n/a", content: "" }),
    ["grant a lets it run", 'a:2 decides: mode auto, its path "/n" contains "/n/a"'],
  ],
  "a shell call without a cwd": [
    () => said({ a: SHELL, b: { ...SHELL, ...READ } }, "shell", { command: "ls" }),
    [
      "grant a lets it run",
      "a:2 decides: mode auto, it has no paths and the call has no cwd",
      "b:6 ruled_out: it has paths, and the call has no cwd",
    ],
  ],
  "and with one": [
    () => said({ a: SHELL, b: { ...SHELL, ...READ } }, "shell", { command: "ls", cwd: "/m" }),
    [
      nothing,
      'a:null ruled_out: it has no paths, so it covers only calls without a cwd, not "/m"',
      'b:6 ruled_out: its path "/n" does not contain "/m"',
    ],
  ],
  "a host": [
    () =>
      said(
        { a: FETCH, b: { ...FETCH, constraints: { hosts: ["*.example.com", "a.example"] } } },
        "http_fetch",
        { url: "https://example.com/x" },
      ),
    [
      "grant a lets it run",
      "a:2 decides: mode auto, one of its hosts covers example.com",
      'b:6 ruled_out: its hosts "*.example.com", "a.example" do not cover example.com',
    ],
  ],
  "another host": [
    () => said({ a: FETCH }, "http_fetch", { url: "https://other.example/x" }),
    [nothing, 'a:6 ruled_out: its host "example.com" does not cover other.example'],
  ],
  "grants of other tools are no candidates": [
    () => said({ a: FETCH }, "read_file", { path: "/n" }),
    [nothing],
  ],
  "arguments": [
    () => said({ a: READ }, "read_file", { path: "n" }),
    ["the arguments are not those of read_file, or a path or URL in them is malformed"],
  ],
  "a tool that is none": [
    () => said({ a: READ }, "cl\u202eock", {}),
    ['"cl\u202eock" is no tool; the tools are read_file, write_file, shell, http_fetch'],
  ],
  "a state that cannot be read": [
    () => said({ a: READ }, "read_file", { path: "/n" }, { state: null }),
    ["the session's state cannot be read"],
  ],
};

for (const [name, [actual, expected]] of Object.entries(CASES)) {
  Deno.test(`explained: ${name}`, { permissions: "none" }, () => {
    assert.deepEqual(actual(), expected);
  });
}

Deno.test("explained: the problems of invalid grants, and how many grants are of other tools", {
  permissions: "none",
}, () => {
  const call = { tool: "read_file", arguments: '{"path":"/n"}', now: NOW } as const;
  const state = { taint: "private", untrusted: false } as const;
  const problems = [{ file: "a.toml", line: 3, problem: "unknown key x" }];
  const invalid = explain({ ...call, state, grants: { ok: false, problems } }, () => null);
  assert.deepEqual(invalid.outcome, { outcome: "denied", reason: "grants_invalid" });
  assert.deepEqual([invalid.problems, invalid.candidates, invalid.other_tools], [problems, [], 0]);
  const grants = grantSet({ a: READ, b: FETCH, c: SHELL });
  const valid = explain({ ...call, state, grants }, () => null);
  assert.deepEqual([valid.problems, valid.other_tools], [[], 2]);
  assert.deepEqual(valid.candidates.map(({ file }) => file), ["a.toml"]);
});
