/** Remembered answers (decision 110): what they let run, and that they let nothing else run. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { explain } from "../../broker/explain.ts";
import { type LoadedGrant, readGrant } from "../../broker/grant_rules.ts";
import { decide, type Decision, redecide, type Situation } from "../../broker/policy.ts";
import { utf8 } from "../../proto/text.ts";
import { type GrantFields, grantOf, tomlText } from "../support/grants.ts";
import { runs } from "../support/long.ts";
import { aCase, situationOf } from "../support/policy_cases.ts";

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

const RUNS = runs(4_000, 100_000);
const NOW = "2026-12-01T10:00:00.000Z";
const LATER = "2026-12-01T11:00:00.000Z";

/** A remembered grant for the `ask` grant `asked`; `fields` and `more`, lines of `[remembered]`, in place of the usual. */
function remembering(
  asked: LoadedGrant,
  path: string | null,
  fields: GrantFields = {},
  id = "r",
): LoadedGrant {
  const { tool, max_taint, result_class, untrusted, constraints } = asked;
  const head: GrantFields = {
    ...{ tool, mode: "auto", max_taint, result_class, untrusted, expires: LATER },
    ...fields,
  };
  const loaded = readGrant(`${id}.toml`, utf8(textOf(head, constraints, asked, path)));
  assert.ok(!Array.isArray(loaded), JSON.stringify(loaded));
  return loaded;
}

function textOf(
  head: GrantFields,
  { paths, hosts }: LoadedGrant["constraints"],
  { id, sha256 }: Pick<LoadedGrant, "id" | "sha256">,
  path: string | null,
): string {
  const value = (one: unknown) => typeof one === "string" ? tomlText(one) : String(one);
  return [
    ...Object.entries(head).map(([key, one]) => `${key} = ${value(one)}`),
    ...["[constraints]", `paths = [${paths.map(tomlText)}]`, `hosts = [${hosts.map(tomlText)}]`],
    ...["[remembered]", `grant = "${id}"`, `sha256 = "${sha256}"`],
    ...path === null ? [] : [`path = ${tomlText(path)}`],
  ].join("\n");
}

const ASK = grantOf({ mode: "ask", constraints: { paths: ["/n"] } }, "a");

function situation(
  grants: readonly LoadedGrant[],
  path = "/n/x",
  differs: Partial<Situation> = {},
): Situation {
  return {
    now: NOW,
    grants: { ok: true, grants },
    state: { taint: "private", untrusted: false },
    tool: "read_file",
    arguments: JSON.stringify({ path }),
    ...differs,
  };
}

function told(decision: Decision): string {
  const record = decision.toRecord();
  const outcome = record.outcome === "denied" ? record.reason : record.outcome;
  return decision.covered === null ? outcome : `${outcome} by ${decision.covered.grant.id}`;
}

const decided = (...given: Parameters<typeof situation>) => told(decide(situation(...given)));

pure(
  "a remembered answer lets exactly its path run, and the grant itself asks for the rest",
  () => {
    const set = [ASK, remembering(ASK, "/n/x")];
    assert.equal(decided([ASK]), "ask by a");
    assert.equal(decided(set), "allowed by r");
    const others = ["/n", "/n/y", "/n/x/y", "/n/xy", "/n/X", "/n/x\n", "/n/*"];
    for (const path of others) assert.equal(decided(set, path), "ask by a", path);
    assert.equal(decided(set, "/m"), "no_grant");
    // A path is no pattern.
    const star = [ASK, remembering(ASK, "/n/*")];
    assert.equal(decided(star, "/n/*"), "allowed by r");
    assert.equal(decided(star, "/n/x"), "ask by a");
    const root = [ASK, remembering(ASK, "/n")];
    assert.equal(decided(root, "/n"), "allowed by r");
    assert.equal(decided(root, "/n/x"), "ask by a");
  },
);

pure("without its ask grant, or once that was edited, it lets nothing run", () => {
  const remembered = remembering(ASK, "/n/x");
  assert.equal(decided([remembered]), "no_grant");
  const edited = grantOf({ mode: "ask", constraints: { paths: ["/n", "/m"] } }, "a");
  assert.equal(decided([edited, remembered]), "ask by a");
  const renamed = grantOf({ mode: "ask", constraints: { paths: ["/n"] } }, "b");
  assert.equal(decided([renamed, remembered]), "ask by b");
  const auto = grantOf({ constraints: { paths: ["/n"] } }, "a");
  assert.equal(decided([auto, remembered]), "allowed by a");
});

pure("a deny grant and an ask grant that goes before its own still decide", () => {
  const remembered = remembering(ASK, "/n/x");
  const rule = (mode: string, id: string) => grantOf({ mode, constraints: { paths: ["/n"] } }, id);
  assert.equal(decided([ASK, remembered, rule("deny", "z")]), "denied_by_grant by z");
  assert.equal(decided([rule("ask", "0"), ASK, remembered]), "ask by 0");
  // Where its own would have been asked, neither of these would have decided.
  assert.equal(decided([ASK, remembered, rule("ask", "z")]), "allowed by r");
  assert.equal(decided([rule("auto", "0"), ASK, remembered]), "allowed by r");
  // Whatever it names: only for an ask does it answer.
  for (const [mode, outcome] of [["deny", "denied_by_grant by a"], ["auto", "allowed by a"]]) {
    const named = rule(mode ?? "", "a");
    assert.equal(decided([named, remembering(named, "/n/x")]), outcome);
  }
});

pure("it ends, and holds for no more taint than its grants say", () => {
  const remembered = remembering(ASK, "/n/x");
  assert.equal(decided([ASK, remembered], "/n/x", { now: LATER }), "ask by a");
  const before = "2026-12-01T10:59:59.999Z";
  assert.equal(decided([ASK, remembered], "/n/x", { now: before }), "allowed by r");
  const secret = { state: { taint: "secret", untrusted: false } } as const;
  assert.equal(decided([ASK, remembered], "/n/x", secret), "allowed by r");
  const lower = remembering(ASK, "/n/x", { max_taint: "private" });
  assert.equal(decided([ASK, lower], "/n/x", secret), "ask by a");
  assert.equal(decided([ASK, lower]), "allowed by r");
  // The ask grant's own limit is not passed over either.
  const low = grantOf({ mode: "ask", max_taint: "private", constraints: { paths: ["/n"] } }, "a");
  const wide = remembering(low, "/n/x", { max_taint: "secret" });
  assert.equal(decided([low, wide], "/n/x", secret), "taint_too_high");
  assert.equal(decided([low, wide]), "allowed by r");
});

pure("an expired one gives no denial its reason", () => {
  assert.equal(decided([remembering(ASK, "/n/x")], "/n/x", { now: LATER }), "no_grant");
  const expired = grantOf({ mode: "auto", expires: NOW, constraints: { paths: ["/n"] } }, "e");
  assert.equal(decided([expired], "/n/x", { now: LATER }), "grant_expired");
});

pure("write_file, shell and http_fetch: the one path, cwd and host", () => {
  const write = grantOf({ tool: "write_file", mode: "ask", constraints: { paths: ["/d"] } }, "a");
  const written = [write, remembering(write, "/d/a.md")];
  const call = (set: readonly LoadedGrant[], tool: string, args: object) =>
    decided(set, "", { tool, arguments: JSON.stringify(args) });
  assert.equal(call(written, "write_file", { path: "/d/a.md", content: "2" }), "allowed by r");
  assert.equal(call(written, "write_file", { path: "/d/b.md", content: "2" }), "ask by a");
  assert.equal(call(written, "read_file", { path: "/d/a.md" }), "no_grant");
  // The directory itself stays out of reach.
  const own = [write, remembering(write, "/d")];
  assert.equal(call(own, "write_file", { path: "/d", content: "2" }), "no_grant");

  const shell = grantOf({ tool: "shell", mode: "ask", constraints: { paths: ["/s", "/t"] } }, "a");
  const run = [shell, remembering(shell, "/s/b")];
  assert.equal(call(run, "shell", { command: "ls", cwd: "/s/b" }), "allowed by r");
  for (const cwd of ["/s", "/s/b/c", "/t"]) {
    assert.equal(call(run, "shell", { command: "ls", cwd }), "ask by a");
  }

  const fields = { tool: "http_fetch", mode: "ask", constraints: { hosts: ["*.a.example"] } };
  const fetch = grantOf(fields, "a");
  const one = { ...fetch, constraints: { paths: [], hosts: ["x.a.example"], patterns: [] } };
  const fetched = [fetch, remembering(one, null)];
  assert.equal(call(fetched, "http_fetch", { url: "https://x.a.example/p" }), "allowed by r");
  for (const host of ["y.a.example", "y.x.a.example"]) {
    assert.equal(call(fetched, "http_fetch", { url: `https://${host}/p` }), "ask by a");
  }
  assert.equal(call(fetched, "http_fetch", { url: "https://a.example/" }), "no_grant");
});

pure("a call that waits and is approved once it is remembered runs by the remembered grant", () => {
  const decision = redecide(situation([ASK, remembering(ASK, "/n/x")]));
  assert.equal(told(decision), "allowed by r");
  assert.ok(decision.mayRun);
  assert.equal(told(redecide(situation([ASK]))), "ask by a");
});

pure("of two that remember the same, the one whose id is lower decides", () => {
  const two = ["r2", "r1"].map((id) => remembering(ASK, "/n/x", {}, id));
  assert.equal(decided([ASK, ...two]), "allowed by r1");
});

pure("an explanation says what each grant comes to", () => {
  // In place of a number the key itself: which line is named.
  const named: string[] = [];
  const lineOf = (_: LoadedGrant, key: readonly string[]) => named.push(key.join("."));
  const clauses = (grants: readonly LoadedGrant[], path?: string) =>
    explain(situation(grants, path), lineOf).candidates
      .map(({ grant, verdict, clauses: [first] }) =>
        `${grant} ${named[(first?.line ?? 0) - 1]} ${verdict}: ${first?.words}`
      );
  const remembered = remembering(ASK, "/n/x");
  assert.equal(
    explain(situation([ASK, remembered]), lineOf).why,
    "grant r remembers the owner's answer to a",
  );
  assert.deepEqual(clauses([ASK, remembered]), [
    'r mode decides: mode auto, its path "/n" contains "/n/x"',
    "a mode loses: mode ask, which r answers for the owner",
  ]);
  assert.deepEqual(clauses([ASK, remembered], "/n/y"), [
    'a mode decides: mode ask, its path "/n" contains "/n/y"',
    'r remembered.path ruled_out: it remembers "/n/x" alone, not "/n/y"',
  ]);
  const outside = 'constraints.paths ruled_out: its path "/n" does not contain "/m"';
  assert.deepEqual(clauses([ASK, remembered], "/m"), [`a ${outside}`, `r ${outside}`]);
  const edited = grantOf({ mode: "ask", constraints: { paths: ["/n", "/m"] } }, "a");
  assert.deepEqual(
    clauses([edited, remembered])[1],
    "r remembered.sha256 loses: the file of a has been changed since",
  );
  const auto = grantOf({ constraints: { paths: ["/n"] } }, "a");
  assert.deepEqual(
    clauses([auto, remembered])[1],
    "r remembered.sha256 loses: a does not ask any more",
  );
  const other = "r remembered.grant loses: it answers for a alone, which does not decide here";
  assert.deepEqual(clauses([remembered]), [other]);
  const deny = grantOf({ mode: "deny", constraints: { paths: ["/n"] } }, "d");
  assert.ok(clauses([ASK, deny, remembered]).includes(other));
  const second = remembering(ASK, "/n/x", {}, "s");
  assert.ok(
    clauses([ASK, remembered, second]).includes(
      "s remembered.grant loses: grant r, whose id is lower, answers in its place",
    ),
  );
});

pure("a remembered grant is held to what makes it one", () => {
  const whole = textOf(
    {
      tool: "read_file",
      mode: "auto",
      max_taint: "secret",
      result_class: "private",
      expires: LATER,
    },
    ASK.constraints,
    ASK,
    "/n/x",
  );
  const problems = (from: string, to: string) => {
    assert.ok(whole.includes(from), from);
    const loaded = readGrant("r.toml", utf8(whole.replace(from, to)));
    return Array.isArray(loaded) ? loaded.map(({ line, problem }) => `${line}: ${problem}`) : [];
  };
  assert.deepEqual(problems("", ""), []);
  assert.deepEqual(problems('"auto"', '"ask"'), ["2: a grant with [remembered] has the mode auto"]);
  assert.deepEqual(problems('"auto"', '"deny"'), [
    "2: a grant with [remembered] has the mode auto",
  ]);
  assert.deepEqual(problems(`expires = "${LATER}"\n`, ""), [
    "8: a grant with [remembered] needs expires",
  ]);
  assert.deepEqual(problems('grant = "a"', 'grant = "A/b"'), [
    '10: "A/b" is not the name of a grant',
  ]);
  assert.deepEqual(problems('path = "/n/x"', 'path = "/n/../x"'), [
    '12: path "/n/../x" has a .. component',
  ]);
  assert.deepEqual(problems('path = "/n/x"', ""), ["9: read_file needs path in [remembered]"]);
  assert.deepEqual(problems('path = "/n/x"', 'paths = ["/n"]'), [
    "12: unknown key remembered.paths",
  ]);
  assert.deepEqual(problems(ASK.sha256, "00"), [
    "11: remembered.sha256: Invalid string: must match pattern /^[0-9a-f]{64}$/",
  ]);
  const fetching = (hosts: string, path = "") =>
    problems(
      whole,
      whole.replace("read_file", "http_fetch").replace('paths = ["/n"]', "paths = []")
        .replace("hosts = []", `hosts = ${hosts}`).replace('path = "/n/x"', path),
    );
  assert.deepEqual(fetching('["a.example"]'), []);
  const one = "8: a grant with [remembered] covers one host, without *";
  assert.deepEqual(fetching('["*.a.example"]'), [one]);
  assert.deepEqual(fetching('["a.example", "b.example"]'), [one]);
  assert.deepEqual(fetching('["a.example"]', 'path = "/n/x"'), ["12: http_fetch takes no path"]);
});

Deno.test("whatever is remembered, nothing but an ask of the grant it names comes out otherwise", {
  permissions: "none",
}, () => {
  const seen = { allowed: 0, same: 0 };
  fc.assert(
    fc.property(aCase, fc.boolean(), fc.nat(), (one, exact, pick) => {
      const without = situationOf(one);
      if (!without.grants.ok) return;
      const grants = without.grants.grants;
      const plain = decide(without);
      const asking = grants.filter(({ mode, tool }) => mode === "ask" && tool !== "http_fetch");
      const named = asking[pick % Math.max(asking.length, 1)];
      if (named === undefined) return;
      const path = placeOf(without.arguments) ?? named.constraints.paths[0] ?? "/";
      const expires = new Date(Date.parse(without.now) + 1000).toISOString();
      const remembered = remembering(
        named,
        exact ? path : `${path === "/" ? "" : path}/x`,
        { expires, max_taint: "secret" },
        // No id of the generator's.
        "remembered-9",
      );
      const decision = decide({
        ...without,
        grants: { ok: true, grants: [...grants, remembered] },
      });
      if (decision.covered?.grant.id !== remembered.id) {
        seen.same += 1;
        assert.deepEqual(decision.toRecord(), plain.toRecord());
        assert.equal(decision.covered?.grant.id, plain.covered?.grant.id);
        return;
      }
      seen.allowed += 1;
      assert.deepEqual(plain.toRecord(), { outcome: "ask" });
      assert.equal(plain.covered?.grant.id, named.id);
      assert.deepEqual(decision.toRecord(), { outcome: "allowed" });
      assert.equal(placeOf(without.arguments), path);
      assert.equal(decision.covered.matchedPath, plain.covered?.matchedPath);
    }),
    { numRuns: RUNS },
  );
  // Both have happened, or this has shown nothing.
  assert.ok(seen.allowed > 5 && seen.same > 100, JSON.stringify(seen));
});

/** The path or cwd of arguments as the model writes them. */
function placeOf(args: string): string | null {
  try {
    const { path, cwd } = JSON.parse(args);
    const place: unknown = path ?? cwd;
    return typeof place === "string" && /^(\/|(\/[^/\0]+)+)$/.test(place) &&
        !/\/\.{1,2}(\/|$)/.test(place) && utf8(place).length < 4000
      ? place
      : null;
  } catch {
    return null;
  }
}
