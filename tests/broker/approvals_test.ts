/** Approvals (specification 6 and 12; contracts 4 and 8), from the pending call to its one end. */
import assert from "node:assert/strict";
import { Approvals, MAX_PENDING, MAX_PENDING_PER_SESSION } from "../../broker/approvals.ts";
import type { AuditEvent } from "../../proto/audit.ts";
import { type DecisionRecord, denied } from "../../proto/decisions.ts";
import { timestamp } from "../../proto/ids.ts";
import type { FinalToolResponse } from "../../proto/messages.ts";
import type { GrantFields } from "../support/grants.ts";
import {
  approvalsOf,
  asking,
  CONTENT,
  DecisionPath,
  deny,
  isOpen,
  RAN,
  reading,
  TTL_MS,
} from "../support/decision_path.ts";

const ASK: GrantFields = { mode: "ask" };

const recorded = (
  approval: number,
  given: Pick<Extract<AuditEvent, { type: "approval" }>, "answer" | "by" | "reason" | "outcome">,
): AuditEvent => ({
  type: "approval",
  ...{ session: "s1", call: "c1", decision: approval, post: null },
  ...given,
});

Deno.test("a call to ask about is recorded, told to the owner and waits", async () => {
  using path = asking();
  await path.call(reading("s0", "c0", "/elsewhere"));
  const { pending, answer, approval } = path.ask(reading("s1", "c1"));
  assert.equal(approval, 1, "the number of its decision record");
  const expires = timestamp(path.now + TTL_MS);
  assert.deepEqual(pending, { status: "pending_approval", approval, expires });
  const last = path.events().at(-1);
  assert.ok(last?.type === "decision" && last.grant === "ask");
  assert.deepEqual(last.outcome, { outcome: "ask" });
  assert.deepEqual(path.pipeline.pending(), [{
    ...{ approval, ...reading("s1", "c1"), grant: "ask", taint: "private" },
    ...{ created: timestamp(path.now), expires },
  }]);
  assert.ok(path.said.some((line) => /approval 1: session s1 asks to run read_file/.test(line)));
  assert.ok(await isOpen(answer));
  assert.equal(path.runtime.runs.length, 0);
});

Deno.test("an approved call runs, and its approval is recorded before it does", async () => {
  using path = asking();
  const { answer, approval } = path.ask(reading("s1", "c1"));
  let before: AuditEvent | undefined;
  path.runtime.started = () => void (before = path.events().at(-1));
  assert.deepEqual(path.pipeline.approve(approval), { outcome: "ask" });
  assert.deepEqual(await answer, RAN);
  const ask: DecisionRecord = { outcome: "ask" };
  const record = recorded(approval, {
    answer: "approved",
    by: "bxctl",
    reason: null,
    outcome: ask,
  });
  assert.deepEqual(before, record);
  assert.deepEqual(approvalsOf(path), [record]);
  assert.deepEqual(path.events().map(({ type }) => type), ["decision", "approval", "result"]);
  assert.equal(path.runtime.runs.length, 1);
  assert.deepEqual(path.pipeline.pending(), []);
  const { failure, abandoned, unfinished } = path.report();
  assert.deepEqual({ failure, abandoned, unfinished }, {
    ...{ failure: null, abandoned: [], unfinished: [] },
  });
});

Deno.test("a refused call does not run; the owner's reason is recorded and goes nowhere else", async () => {
  for (const reason of [null, "", "not before Monday"]) {
    using path = asking();
    const { answer, approval } = path.ask(reading("s1", "c1"));
    assert.equal(path.pipeline.refuse(approval, reason), "ok");
    assert.deepEqual(await answer, deny("approval_refused"));
    const outcome = denied("approval_refused");
    assert.deepEqual(approvalsOf(path), [
      recorded(approval, { answer: "refused", by: "bxctl", reason, outcome }),
    ]);
    assert.equal(path.runtime.runs.length, 0);
    assert.equal(path.report().failure, null);
    const other = path.ask(reading("s1", "c2"));
    path.pipeline.approve(other.approval);
    assert.deepEqual(await other.answer, RAN, "the same call, approved");
  }
});

Deno.test("a call that nobody answers for ttl_ms expires", async () => {
  using path = asking();
  const { answer, approval } = path.ask(reading("s1", "c1"));
  path.now += TTL_MS - 1;
  path.pipeline.expire();
  assert.ok(await isOpen(answer));
  assert.equal(path.pipeline.pending().length, 1);
  path.now += 1;
  path.pipeline.expire();
  assert.deepEqual(await answer, deny("approval_expired"));
  assert.deepEqual(approvalsOf(path), [
    recorded(approval, {
      ...{ answer: "expired", by: null, reason: null },
      outcome: denied("approval_expired"),
    }),
  ]);
  assert.equal(path.runtime.runs.length, 0);
  assert.equal(path.report().failure, null);

  const other = path.ask(reading("s1", "c2"));
  path.now += TTL_MS - 1;
  assert.deepEqual(path.pipeline.approve(other.approval), { outcome: "ask" });
  assert.deepEqual(await other.answer, RAN, "the same call, approved a millisecond before");
});

interface Change {
  /** What has changed when the owner approves. */
  readonly change: (path: DecisionPath) => void | Promise<void>;
  readonly outcome: DecisionRecord;
  /** The answer to the call where it runs, but for what stands in `RAN`. */
  readonly answer?: Partial<Extract<FinalToolResponse, { status: "result" }>>;
  /** The grant that the operator is told of. */
  readonly other?: string;
}

const CHANGES: Readonly<Record<string, Change>> = {
  "nothing": { change: () => {}, outcome: { outcome: "ask" } },
  "the grant file was removed": {
    change: (path) => path.removeGrant("ask"),
    outcome: denied("no_grant"),
  },
  "the taint rose past max_taint": {
    change: async (path) => {
      path.grant("secret", { result_class: "secret", constraints: { paths: ["/secret"] } });
      path.grant("ask", { ...ASK, max_taint: "private" });
      assert.equal((await path.call(reading("s1", "c9", "/secret/a")))?.status, "result");
    },
    outcome: denied("taint_too_high"),
  },
  "the taint rose to max_taint": {
    change: async (path) => {
      path.grant("secret", { result_class: "secret", constraints: { paths: ["/secret"] } });
      assert.equal((await path.call(reading("s1", "c9", "/secret/a")))?.status, "result");
    },
    outcome: { outcome: "ask" },
  },
  "max_taint was lowered": {
    change: (path) => path.grant("ask", { ...ASK, max_taint: "public" }),
    outcome: denied("taint_too_high"),
  },
  "the grant became deny": {
    change: (path) => path.grant("ask", { mode: "deny" }),
    outcome: denied("denied_by_grant"),
  },
  "a deny grant was added": {
    change: (path) => path.grant("z", { mode: "deny" }),
    outcome: denied("denied_by_grant"),
    other: "z",
  },
  "the grant became auto": {
    change: (path) => path.grant("ask", { mode: "auto" }),
    outcome: { outcome: "allowed" },
  },
  "the grant has expired": {
    change: (path) => path.grant("ask", { ...ASK, expires: timestamp(path.now) }),
    outcome: denied("grant_expired"),
  },
  "the grant covers something else": {
    change: (path) => path.grant("ask", { ...ASK, constraints: { paths: ["/m"] } }),
    outcome: denied("no_grant"),
  },
  "the grants are invalid": {
    change: (path) => path.grant("other", { tool: "clock" }),
    outcome: denied("grants_invalid"),
  },
  "the grants directory is gone": {
    change: (path) => Deno.removeSync(path.grants, { recursive: true }),
    outcome: denied("grants_invalid"),
  },
  "the session's state cannot be read": {
    change: (path) => Deno.writeTextFileSync(`${path.sessions}/s1.json`, ""),
    outcome: denied("state_unreadable"),
  },
  "another session's state cannot be read": {
    change: (path) => Deno.writeTextFileSync(`${path.sessions}/s2.json`, ""),
    outcome: { outcome: "ask" },
  },
  "another grant matches": {
    change: (path) => {
      path.removeGrant("ask");
      path.grant("b", { mode: "auto", result_class: "secret", untrusted: true });
    },
    outcome: { outcome: "allowed" },
    answer: { class: "secret", untrusted: true },
    other: "b",
  },
  "a grant with a lower id asks too": {
    change: (path) => path.grant("a", { ...ASK, result_class: "secret" }),
    outcome: { outcome: "ask" },
    answer: { class: "secret" },
    other: "a",
  },
  "the grant gives another class": {
    change: (path) => path.grant("ask", { ...ASK, result_class: "public", untrusted: true }),
    outcome: { outcome: "ask" },
    answer: { class: "public", untrusted: true },
  },
};

for (const [what, { change, outcome, answer: differs = {}, other }] of Object.entries(CHANGES)) {
  const word = outcome.outcome === "denied" ? outcome.reason : `${outcome.outcome}, and runs`;
  Deno.test(`an approval decides again: ${what}: ${word}`, async () => {
    using path = asking();
    const { answer, approval } = path.ask(reading("s1", "c1"));
    await change(path);
    const before = path.runtime.runs.length;
    assert.deepEqual(path.pipeline.approve(approval), outcome);
    const ran = outcome.outcome !== "denied";
    const expected = ran ? { ...RAN, ...differs } : deny(outcome.reason);
    assert.deepEqual(await answer, expected);
    assert.equal(path.runtime.runs.length - before, ran ? 1 : 0);
    assert.deepEqual(approvalsOf(path), [
      recorded(approval, { answer: "approved", by: "bxctl", reason: null, outcome }),
    ]);
    const told = path.said.filter((line) => line.includes("asked under grant"));
    assert.equal(told.length, other === undefined ? 0 : 1, told.join("\n"));
    if (other !== undefined) {
      const words = `asked under grant ask, approved under grant ${other}`;
      assert.equal(told[0], `approval ${approval}: ${words}`);
    }
    assert.equal(path.report().failure, null);
    assert.deepEqual(path.report().abandoned, []);
  });
}

Deno.test("the grant that matches at the approval is what the runtime is handed", async () => {
  using path = asking();
  const { answer, approval } = path.ask(reading("s1", "c1", "/n/a/b"));
  path.grant("ask", { ...ASK, constraints: { paths: ["/n", "/n/a"] } });
  path.pipeline.approve(approval);
  await answer;
  assert.deepEqual(path.runtime.runs.map(({ spec }) => spec.mounts), [
    [{ path: "/n/a", writable: false }],
  ]);
});

Deno.test("an approval that is unknown, used up or none is no_such_approval", async () => {
  using path = asking();
  path.grant("auto", { constraints: { paths: ["/auto"] } });
  const { pipeline } = path;
  const none = (approval: number) => {
    const before = path.events().length;
    assert.equal(pipeline.approve(approval), "no_such_approval");
    assert.equal(pipeline.refuse(approval, "no"), "no_such_approval");
    assert.equal(path.events().length, before, "nothing is written");
  };
  none(0);
  await path.call(reading("s1", "c0", "/auto/a"));
  const denial = path.events().length;
  await path.call(reading("s1", "c1", "/elsewhere"));
  none(0);
  none(1);
  none(denial);
  const approved = path.ask(reading("s1", "c2"));
  none(approved.approval + 1);
  none(Number.MAX_SAFE_INTEGER);
  assert.deepEqual(pipeline.approve(approved.approval), { outcome: "ask" });
  none(approved.approval);
  await approved.answer;
  none(approved.approval);
  const refused = path.ask(reading("s1", "c3"));
  assert.equal(pipeline.refuse(refused.approval, null), "ok");
  none(refused.approval);
  const lost = path.ask(reading("s1", "c4"));
  pipeline.lost(lost.approval);
  none(lost.approval);
  const deniedAtLast = path.ask(reading("s1", "c5"));
  path.removeGrant("ask");
  assert.deepEqual(pipeline.approve(deniedAtLast.approval), denied("no_grant"));
  none(deniedAtLast.approval);
});

/** What the owner may do with a call, as a test does it. */
const ANSWERS: Readonly<Record<string, (path: DecisionPath, approval: number) => unknown>> = {
  approve: (path, approval) => path.pipeline.approve(approval),
  refuse: (path, approval) => path.pipeline.refuse(approval, "no"),
};

for (const [what, act] of Object.entries(ANSWERS)) {
  Deno.test(`from expires on ${what} comes too late, whether or not the periodic check has run`, async () => {
    for (const late of [0, 1, 1_000_000]) {
      for (const checked of [false, true]) {
        using path = asking();
        const { answer, approval } = path.ask(reading("s1", "c1"));
        path.now += TTL_MS + late;
        if (checked) path.pipeline.expire();
        assert.equal(act(path, approval), "no_such_approval");
        assert.deepEqual(await answer, deny("approval_expired"));
        assert.deepEqual(approvalsOf(path).map((event) => event.answer), ["expired"]);
        assert.equal(path.runtime.runs.length, 0);
      }
    }
    using path = asking();
    const { answer, approval } = path.ask(reading("s1", "c1"));
    path.now += TTL_MS - 1;
    assert.notEqual(act(path, approval), "no_such_approval");
    assert.notDeepEqual(await answer, deny("approval_expired"));
  });
}

Deno.test("an expired call is not listed, and a lost connection does not undo its end", async () => {
  for (const look of ["list", "lost"] as const) {
    using path = asking();
    const { answer, approval } = path.ask(reading("s1", "c1"));
    path.now += TTL_MS;
    if (look === "list") assert.deepEqual(path.pipeline.pending(), []);
    else path.pipeline.lost(approval);
    assert.deepEqual(await answer, deny("approval_expired"));
    assert.deepEqual(approvalsOf(path).map((event) => event.answer), ["expired"], look);
  }
});

Deno.test("a grant that ends before ttl_ms ends the waiting then", async () => {
  const expiresAfter = async (grantMs: number, waitsMs: number) => {
    using path = asking();
    path.grant("ask", { ...ASK, expires: timestamp(path.now + grantMs) });
    const first = path.ask(reading("s1", "c1"));
    assert.equal(first.pending?.expires, timestamp(path.now + waitsMs));
    const second = path.ask(reading("s1", "c2"));
    path.now += waitsMs - 1;
    assert.deepEqual(path.pipeline.approve(first.approval), { outcome: "ask" });
    assert.deepEqual(await first.answer, RAN);
    path.now += 1;
    assert.equal(path.pipeline.approve(second.approval), "no_such_approval");
    assert.deepEqual(await second.answer, deny("approval_expired"));
  };
  await expiresAfter(TTL_MS - 1, TTL_MS - 1);
  await expiresAfter(TTL_MS, TTL_MS);
  await expiresAfter(TTL_MS + 1, TTL_MS);
  await expiresAfter(1, 1);
});

Deno.test("a call waits exactly as long as it says, whatever the clock does meanwhile", () => {
  using path = asking();
  let clock = path.now;
  Object.defineProperty(path, "now", { get: () => clock++ });
  path.ask(reading("s1", "c1"));
  const [shown] = path.pipeline.pending();
  assert.equal(Date.parse(shown?.expires ?? "") - Date.parse(shown?.created ?? ""), TTL_MS);
});

Deno.test("a lost connection removes the call, and verifying tells that it was abandoned", async () => {
  using path = asking();
  const kept = path.ask(reading("s2", "c1"));
  const { answer, approval } = path.ask(reading("s1", "c1"));
  const before = path.events().length;
  path.pipeline.lost(approval);
  assert.equal(await answer, null);
  path.pipeline.lost(approval);
  path.pipeline.lost(12_345);
  assert.equal(path.events().length, before, "nothing is written");
  assert.deepEqual(path.pipeline.pending().map((one) => one.approval), [kept.approval]);
  path.pipeline.approve(kept.approval);
  await kept.answer;
  const { failure, abandoned } = path.report();
  assert.deepEqual({ failure, abandoned }, { failure: null, abandoned: [approval] });
  assert.equal(path.runtime.runs.length, 1);
});

Deno.test("after a restart nothing is pending, and the calls were abandoned", () => {
  using path = asking();
  const { approval } = path.ask(reading("s1", "c1"));
  path.restart();
  assert.deepEqual(path.pipeline.pending(), []);
  assert.equal(path.pipeline.approve(approval), "no_such_approval");
  assert.deepEqual(path.report().abandoned, [approval]);
});

Deno.test("a call that the owner let run goes on without its client, and its result is recorded", async () => {
  using path = asking();
  path.grant("ask", { ...ASK, result_class: "secret" });
  path.runtime.outcome = null;
  const { answer, approval } = path.ask(reading("s1", "c1"));
  path.pipeline.approve(approval);
  path.pipeline.lost(approval);
  assert.ok(await isOpen(answer));
  path.runtime.runs[0]?.end(CONTENT);
  assert.deepEqual(await answer, { ...RAN, class: "secret" });
  const last = path.events().at(-1);
  assert.ok(last?.type === "result" && last.decision === approval);
  assert.equal(path.stateOf("s1")?.taint, "secret");
  assert.deepEqual(path.report().unfinished, []);
});

Deno.test("16 calls of one session may wait; one more is recorded as to ask about, and fails", async () => {
  using path = asking();
  const waiting = Array.from({ length: 16 }, (_, n) => path.ask(reading("s1", `c${n}`)));
  const tooMany = { status: "failed", message: "too many approvals are pending" };
  const one = path.pipeline.begin(reading("s1", "c16"));
  assert.equal(one.pending, null);
  assert.deepEqual(await one.answer, tooMany);
  const last = path.events().at(-1);
  assert.ok(last?.type === "decision" && last.call === "c16" && last.outcome.outcome === "ask");
  assert.equal(path.pipeline.pending().length, 16);
  assert.ok(path.pipeline.begin(reading("s2", "c0")).pending !== null, "another session");

  // Each way of ending makes room for exactly one.
  const ends: readonly ((approval: number) => void)[] = [
    (approval) => path.pipeline.approve(approval),
    (approval) => path.pipeline.refuse(approval, null),
    (approval) => path.pipeline.lost(approval),
  ];
  for (const [at, end] of ends.entries()) {
    end(waiting[at]?.approval ?? -1);
    assert.ok(path.pipeline.begin(reading("s1", `d${at}`)).pending !== null);
    assert.deepEqual(await path.call(reading("s1", `e${at}`)), tooMany);
  }
  assert.equal(path.runtime.runs.length, 1);
});

Deno.test("128 calls in all may wait", async () => {
  using path = asking();
  for (let n = 0; n < 128; n += 1) {
    path.ask(reading(`s${n % 8}`, `c${n}`));
  }
  const tooMany = { status: "failed", message: "too many approvals are pending" };
  assert.deepEqual(await path.call(reading("s9", "c0")), tooMany);
  path.pipeline.lost(0);
  assert.ok(path.pipeline.begin(reading("s9", "c1")).pending !== null);
  assert.deepEqual(await path.call(reading("s9", "c2")), tooMany);
  assert.deepEqual([MAX_PENDING, MAX_PENDING_PER_SESSION], [128, 16]);
});

Deno.test("a call whose time is up takes no room, whether or not the periodic check has run", async () => {
  using path = asking();
  const waiting = Array.from({ length: 16 }, (_, n) => path.ask(reading("s1", `c${n}`)));
  path.now += TTL_MS - 1;
  assert.equal(path.pipeline.begin(reading("s1", "d")).pending, null);
  path.now += 1;
  assert.ok(path.pipeline.begin(reading("s1", "e")).pending !== null);
  for (const { answer } of waiting) assert.deepEqual(await answer, deny("approval_expired"));
  assert.equal(path.report().failure, null);
});

Deno.test("what waits is listed by number, whatever the order of its coming and going", () => {
  const table = new Approvals<string>();
  const add = (approval: number, session: string) => {
    const [created, expires] = [timestamp(0), timestamp(approval)];
    const shown = { approval, ...reading(session, "c1"), grant: "g", taint: "private" } as const;
    table.add({ shown: { ...shown, created, expires }, call: `call ${approval}` });
  };
  for (const approval of [10, 9, 100, 2]) add(approval, "s1");
  const numbers = () => table.list().map(({ approval }) => approval);
  assert.deepEqual(numbers(), [2, 9, 10, 100]);
  assert.equal(table.take(9)?.call, "call 9");
  assert.equal(table.take(9), null);
  assert.deepEqual(table.takeExpired(timestamp(10)).map(({ call }) => call).sort(), [
    "call 10",
    "call 2",
  ]);
  assert.deepEqual(table.takeExpired(timestamp(10)), []);
  assert.deepEqual(numbers(), [100]);
});
