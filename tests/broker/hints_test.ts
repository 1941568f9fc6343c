/** Hints (decision 113): the owner's words for the model, of the grant that made a denial and of no other. */
import assert from "node:assert/strict";
import { explain } from "../../broker/explain.ts";
import { readGrant } from "../../broker/grant_rules.ts";
import { decide, type Situation } from "../../broker/policy.ts";
import { MAX_HINT_BYTES } from "../../proto/grants.ts";
import { utf8 } from "../../proto/text.ts";
import { explainedLines } from "../../ctl/explained.ts";
import { DecisionPath } from "../support/decision_path.ts";
import { type GrantFields, grantFile, grantSet } from "../support/grants.ts";

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

const NOW = "2026-12-01T10:00:00.000Z";
const N = { constraints: { paths: ["/n"] } };

function situation(
  files: Readonly<Record<string, GrantFields>>,
  differs: Partial<Situation> = {},
): Situation {
  return {
    now: NOW,
    grants: grantSet(files),
    state: { taint: "private", untrusted: false },
    tool: "read_file",
    arguments: '{"path":"/n/a"}',
    ...differs,
  };
}

const hinted = (files: Readonly<Record<string, GrantFields>>, differs: Partial<Situation> = {}) => {
  const decision = decide(situation(files, differs));
  const record = decision.toRecord();
  return [record.outcome === "denied" ? record.reason : record.outcome, decision.hint];
};

pure("a denial has the hint of the grant whose clause made it", () => {
  const deny = { ...N, mode: "deny", hint: "ask for /n/public" };
  assert.deepEqual(hinted({ a: { ...N, hint: "not this" }, d: deny }), [
    "denied_by_grant",
    "ask for /n/public",
  ]);
  assert.deepEqual(hinted({ d: { ...N, mode: "deny" }, e: deny }), ["denied_by_grant", null]);
  assert.deepEqual(hinted({ a: { ...N, max_taint: "public", hint: "a new session" } }), [
    "taint_too_high",
    "a new session",
  ]);
  assert.deepEqual(hinted({ a: { ...N, expires: NOW, hint: "it is over" } }), [
    "grant_expired",
    "it is over",
  ]);
  // Expiry is the reason here, so the grant with too much taint has no say.
  const both = {
    a: { ...N, max_taint: "public", hint: "taint" },
    b: { ...N, expires: NOW, hint: "expiry" },
  };
  assert.deepEqual(hinted(both), ["grant_expired", "expiry"]);
  // Of several the one that would have decided.
  for (
    const [reason, fields] of [
      ["taint_too_high", { ...N, max_taint: "public" }],
      ["grant_expired", { ...N, expires: NOW }],
    ] as const
  ) {
    const auto = { ...fields, hint: "auto" };
    const ask = { ...fields, mode: "ask", hint: "ask" };
    assert.deepEqual(hinted({ a: auto, b: ask }), [reason, "ask"]);
    assert.deepEqual(hinted({ a: ask, b: auto }), [reason, "ask"]);
  }
});

pure("what runs or waits, and what no grant denied, has none", () => {
  const hint = "never said";
  assert.deepEqual(hinted({ a: { ...N, hint } }), ["allowed", null]);
  assert.deepEqual(hinted({ a: { ...N, mode: "ask", hint } }), ["ask", null]);
  const elsewhere = { d: { mode: "deny", hint, constraints: { paths: ["/m"] } } };
  assert.deepEqual(hinted(elsewhere), ["no_grant", null]);
  const deny = { d: { ...N, mode: "deny", hint } };
  assert.deepEqual(hinted(deny, { arguments: "{" }), ["invalid_arguments", null]);
  assert.deepEqual(hinted(deny, { state: null }), ["state_unreadable", null]);
  assert.deepEqual(hinted(deny), ["denied_by_grant", hint]);
});

pure("a hint is one or a few lines of at most 1 KiB without control characters", () => {
  const problem = (hint: string) => {
    const loaded = readGrant("g.toml", utf8(grantFile({ ...N, hint })));
    if (!Array.isArray(loaded)) return loaded.hint === hint ? null : "changed";
    return loaded.map(({ line, problem }) => `${line}: ${problem}`).join();
  };
  const whole = "ü".repeat(MAX_HINT_BYTES / 2);
  for (const hint of ["x", "two\nlines", "„ü“ 😀", whole]) assert.equal(problem(hint), null, hint);
  const control = "5: hint: has a control character in it";
  for (const hint of ["a\tb", "a\rb", "a\u001b[2J", "a\u007f", "a\u009b1A", "\0"]) {
    assert.equal(problem(hint), control, JSON.stringify(hint));
  }
  assert.equal(problem(`${whole}!`), "5: hint: is over 1 KiB");
  assert.equal(problem(" \n "), "5: hint: is empty");
});

pure("why shows what the model is told", () => {
  const lines = (hint?: string) => {
    const deny = { ...N, mode: "deny", ...hint === undefined ? {} : { hint } };
    return explainedLines(explain(situation({ d: deny }), () => null));
  };
  assert.deepEqual(lines("ask\nme \u202efirst").slice(0, 2), [
    "denied (denied_by_grant): grant d denies it",
    "the model is told: ask\\u000ame \\u202efirst",
  ]);
  assert.ok(!lines().join().includes("told"));
});

Deno.test("the answer carries the hint, also after an approval, and the log does not", async () => {
  using path = new DecisionPath();
  const request = (call: string) => ({
    ...{ session: "s", call, tool: "read_file" },
    arguments: '{"path":"/n/a"}',
  });
  const put = (fields: GrantFields) =>
    Deno.writeTextFileSync(`${path.grants}/g.toml`, grantFile({ ...N, ...fields }));
  const hint = "use /n/public instead";
  put({ mode: "deny", hint });
  const denied = { status: "denied", reason: "denied_by_grant" };
  assert.deepEqual(await path.pipeline.begin(request("c1")).answer, { ...denied, hint });
  put({ mode: "deny" });
  assert.deepEqual(await path.pipeline.begin(request("c2")).answer, denied);
  put({ mode: "ask" });
  const asked = path.pipeline.begin(request("c3"));
  put({ mode: "deny", hint });
  assert.ok(asked.pending !== null);
  path.pipeline.approve(asked.pending.approval);
  assert.deepEqual(await asked.answer, { ...denied, hint });
  // What the owner refuses is not a grant's denial.
  put({ mode: "ask", hint });
  const refused = path.pipeline.begin(request("c4"));
  assert.ok(refused.pending !== null);
  path.pipeline.refuse(refused.pending.approval, "no");
  assert.deepEqual(await refused.answer, { status: "denied", reason: "approval_refused" });
  for (const { name } of Deno.readDirSync(path.audit)) {
    assert.ok(!Deno.readTextFileSync(`${path.audit}/${name}`).includes("/n/public"));
  }
});
