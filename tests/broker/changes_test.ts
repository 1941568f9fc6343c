/** What has changed since the owner was asked (docs/protocol.md, `changes`), through the real pipeline. */
import assert from "node:assert/strict";
import type { ApprovalChange } from "../../proto/messages.ts";
import { asking, DecisionPath, reading, TTL_MS } from "../support/decision_path.ts";
import type { GrantFields } from "../support/grants.ts";

const ASK: GrantFields = { mode: "ask" };
const SAME = { grant: null, taint: null, untrusted: false, unreadable: false } as const;

/** Has session s1 read something of `fields`, as a tool's result. */
async function readsMore(path: DecisionPath, fields: GrantFields): Promise<void> {
  path.grant("other", { ...fields, constraints: { paths: ["/other"] } });
  assert.equal((await path.call(reading("s1", "c9", "/other/a")))?.status, "result");
}

interface Case {
  readonly change: (path: DecisionPath) => void | Promise<void>;
  /** Null: nothing is told. */
  readonly told: Partial<ApprovalChange> | null;
}

const CASES: Readonly<Record<string, Case>> = {
  "nothing": { change: () => {}, told: null },
  "the same grant written again": { change: (path) => path.grant("ask", ASK), told: null },
  "another grant added": {
    change: (path) => path.grant("z", { constraints: { paths: ["/z"] } }),
    told: null,
  },
  "the grant edited": {
    change: (path) => path.grant("ask", { ...ASK, result_class: "public" }),
    told: { grant: "edited" },
  },
  "the grant removed": { change: (path) => path.removeGrant("ask"), told: { grant: "gone" } },
  "any grant invalid": {
    change: (path) => path.grant("z", { tool: "clock" }),
    told: { grant: "invalid" },
  },
  "the session read something of its own class": {
    change: (path) => readsMore(path, { result_class: "private" }),
    told: null,
  },
  "the session read something secret": {
    change: (path) => readsMore(path, { result_class: "secret" }),
    told: { taint: "secret" },
  },
  "the session read something untrusted": {
    change: (path) => readsMore(path, { result_class: "public", untrusted: true }),
    told: { untrusted: true },
  },
  "the session's state damaged": {
    change: (path) => Deno.writeTextFileSync(`${path.sessions}/s1.json`, "{"),
    told: { unreadable: true },
  },
  "another session's state damaged": {
    change: (path) => Deno.writeTextFileSync(`${path.sessions}/s2.json`, "{"),
    told: null,
  },
  "grant and session at once": {
    async change(path) {
      await readsMore(path, { result_class: "secret", untrusted: true });
      path.removeGrant("ask");
    },
    told: { grant: "gone", taint: "secret", untrusted: true },
  },
};

for (const [what, { change, told }] of Object.entries(CASES)) {
  const word = told === null ? "nothing" : Object.keys(told).join(", ");
  Deno.test(`changed since the ask: ${what}: ${word}`, async () => {
    using path = asking();
    const { approval } = path.ask(reading("s1", "c1"));
    assert.deepEqual(path.pipeline.changes(), [], "before");
    await change(path);
    const before = path.events().length;
    const expected = told === null ? [] : [{ approval, ...SAME, ...told }];
    assert.deepEqual(path.pipeline.changes(), expected);
    assert.equal(path.events().length, before, "nothing is written");
    assert.deepEqual(path.pipeline.pending().map(({ taint }) => taint), ["private"], "as asked");
  });
}

Deno.test("what was untrusted at the ask has not changed", async () => {
  using path = asking();
  await readsMore(path, { result_class: "public", untrusted: true });
  path.ask(reading("s1", "c1"));
  assert.deepEqual(path.pipeline.changes(), []);
});

Deno.test("each call is held against its own ask, and ended calls are left out", async () => {
  using path = asking();
  const first = path.ask(reading("s1", "c1"));
  path.grant("ask", { ...ASK, result_class: "public" });
  const second = path.ask(reading("s1", "c2"));
  assert.deepEqual(path.pipeline.changes(), [
    { approval: first.approval, ...SAME, grant: "edited" },
  ]);
  path.removeGrant("ask");
  const gone = { ...SAME, grant: "gone" };
  assert.deepEqual(path.pipeline.changes(), [
    { approval: first.approval, ...gone },
    { approval: second.approval, ...gone },
  ]);
  path.pipeline.refuse(first.approval, null);
  assert.deepEqual(path.pipeline.changes(), [{ approval: second.approval, ...gone }]);
  path.now += TTL_MS;
  assert.deepEqual(path.pipeline.changes(), []);
  await Promise.all([first.answer, second.answer]);
});
