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
  using bench = asking();
  await bench.call(reading("s0", "c0", "/elsewhere"));
  const { pending, answer, approval } = bench.ask(reading("s1", "c1"));
  assert.equal(approval, 1, "the number of its decision record");
  const expires = timestamp(bench.now + TTL_MS);
  assert.deepEqual(pending, { status: "pending_approval", approval, expires });
  const last = bench.events().at(-1);
  assert.ok(last?.type === "decision" && last.grant === "ask");
  assert.deepEqual(last.outcome, { outcome: "ask" });
  assert.deepEqual(bench.pipeline.pending(), [{
    ...{ approval, ...reading("s1", "c1"), grant: "ask", taint: "private" },
    ...{ created: timestamp(bench.now), expires },
  }]);
  assert.ok(bench.said.some((line) => /approval 1: session s1 asks to run read_file/.test(line)));
  assert.ok(await isOpen(answer));
  assert.equal(bench.runtime.runs.length, 0);
});

Deno.test("an approved call runs, and its approval is recorded before it does", async () => {
  using bench = asking();
  const { answer, approval } = bench.ask(reading("s1", "c1"));
  let before: AuditEvent | undefined;
  bench.runtime.started = () => void (before = bench.events().at(-1));
  assert.deepEqual(bench.pipeline.approve(approval), { outcome: "ask" });
  assert.deepEqual(await answer, RAN);
  const ask: DecisionRecord = { outcome: "ask" };
  const record = recorded(approval, {
    answer: "approved",
    by: "bxctl",
    reason: null,
    outcome: ask,
  });
  assert.deepEqual(before, record);
  assert.deepEqual(approvalsOf(bench), [record]);
  assert.deepEqual(bench.events().map(({ type }) => type), ["decision", "approval", "result"]);
  assert.equal(bench.runtime.runs.length, 1);
  assert.deepEqual(bench.pipeline.pending(), []);
  const { failure, abandoned, unfinished } = bench.report();
  assert.deepEqual({ failure, abandoned, unfinished }, {
    ...{ failure: null, abandoned: [], unfinished: [] },
  });
});

Deno.test("a refused call does not run; the owner's reason is recorded and goes nowhere else", async () => {
  for (const reason of [null, "", "not before Monday"]) {
    using bench = asking();
    const { answer, approval } = bench.ask(reading("s1", "c1"));
    assert.equal(bench.pipeline.refuse(approval, reason), "ok");
    assert.deepEqual(await answer, deny("approval_refused"));
    const outcome = denied("approval_refused");
    assert.deepEqual(approvalsOf(bench), [
      recorded(approval, { answer: "refused", by: "bxctl", reason, outcome }),
    ]);
    assert.equal(bench.runtime.runs.length, 0);
    assert.equal(bench.report().failure, null);
    const other = bench.ask(reading("s1", "c2"));
    bench.pipeline.approve(other.approval);
    assert.deepEqual(await other.answer, RAN, "the same call, approved");
  }
});

Deno.test("a call that nobody answers for ttl_ms expires", async () => {
  using bench = asking();
  const { answer, approval } = bench.ask(reading("s1", "c1"));
  bench.now += TTL_MS - 1;
  bench.pipeline.expire();
  assert.ok(await isOpen(answer));
  assert.equal(bench.pipeline.pending().length, 1);
  bench.now += 1;
  bench.pipeline.expire();
  assert.deepEqual(await answer, deny("approval_expired"));
  assert.deepEqual(approvalsOf(bench), [
    recorded(approval, {
      ...{ answer: "expired", by: null, reason: null },
      outcome: denied("approval_expired"),
    }),
  ]);
  assert.equal(bench.runtime.runs.length, 0);
  assert.equal(bench.report().failure, null);

  const other = bench.ask(reading("s1", "c2"));
  bench.now += TTL_MS - 1;
  assert.deepEqual(bench.pipeline.approve(other.approval), { outcome: "ask" });
  assert.deepEqual(await other.answer, RAN, "the same call, approved a millisecond before");
});

interface Change {
  /** What has changed when the owner approves. */
  readonly change: (bench: DecisionPath) => void | Promise<void>;
  readonly outcome: DecisionRecord;
  /** The answer to the call where it runs, but for what stands in `RAN`. */
  readonly answer?: Partial<Extract<FinalToolResponse, { status: "result" }>>;
  /** The grant that the operator is told of. */
  readonly other?: string;
}

const CHANGES: Readonly<Record<string, Change>> = {
  "nothing": { change: () => {}, outcome: { outcome: "ask" } },
  "the grant file was removed": {
    change: (bench) => bench.removeGrant("ask"),
    outcome: denied("no_grant"),
  },
  "the taint rose past max_taint": {
    change: async (bench) => {
      bench.grant("secret", { result_class: "secret", constraints: { paths: ["/secret"] } });
      bench.grant("ask", { ...ASK, max_taint: "private" });
      assert.equal((await bench.call(reading("s1", "c9", "/secret/a")))?.status, "result");
    },
    outcome: denied("taint_too_high"),
  },
  "the taint rose to max_taint": {
    change: async (bench) => {
      bench.grant("secret", { result_class: "secret", constraints: { paths: ["/secret"] } });
      assert.equal((await bench.call(reading("s1", "c9", "/secret/a")))?.status, "result");
    },
    outcome: { outcome: "ask" },
  },
  "max_taint was lowered": {
    change: (bench) => bench.grant("ask", { ...ASK, max_taint: "public" }),
    outcome: denied("taint_too_high"),
  },
  "the grant became deny": {
    change: (bench) => bench.grant("ask", { mode: "deny" }),
    outcome: denied("denied_by_grant"),
  },
  "a deny grant was added": {
    change: (bench) => bench.grant("z", { mode: "deny" }),
    outcome: denied("denied_by_grant"),
    other: "z",
  },
  "the grant became auto": {
    change: (bench) => bench.grant("ask", { mode: "auto" }),
    outcome: { outcome: "allowed" },
  },
  "the grant has expired": {
    change: (bench) => bench.grant("ask", { ...ASK, expires: timestamp(bench.now) }),
    outcome: denied("grant_expired"),
  },
  "the grant covers something else": {
    change: (bench) => bench.grant("ask", { ...ASK, constraints: { paths: ["/m"] } }),
    outcome: denied("no_grant"),
  },
  "the grants are invalid": {
    change: (bench) => bench.grant("other", { tool: "clock" }),
    outcome: denied("grants_invalid"),
  },
  "the grants directory is gone": {
    change: (bench) => Deno.removeSync(bench.grants, { recursive: true }),
    outcome: denied("grants_invalid"),
  },
  "the session's state cannot be read": {
    change: (bench) => Deno.writeTextFileSync(`${bench.sessions}/s1.json`, ""),
    outcome: denied("state_unreadable"),
  },
  "another session's state cannot be read": {
    change: (bench) => Deno.writeTextFileSync(`${bench.sessions}/s2.json`, ""),
    outcome: { outcome: "ask" },
  },
  "another grant matches": {
    change: (bench) => {
      bench.removeGrant("ask");
      bench.grant("b", { mode: "auto", result_class: "secret", untrusted: true });
    },
    outcome: { outcome: "allowed" },
    answer: { class: "secret", untrusted: true },
    other: "b",
  },
  "a grant with a lower id asks too": {
    change: (bench) => bench.grant("a", { ...ASK, result_class: "secret" }),
    outcome: { outcome: "ask" },
    answer: { class: "secret" },
    other: "a",
  },
  "the grant gives another class": {
    change: (bench) => bench.grant("ask", { ...ASK, result_class: "public", untrusted: true }),
    outcome: { outcome: "ask" },
    answer: { class: "public", untrusted: true },
  },
};

for (const [what, { change, outcome, answer: differs = {}, other }] of Object.entries(CHANGES)) {
  const word = outcome.outcome === "denied" ? outcome.reason : `${outcome.outcome}, and runs`;
  Deno.test(`an approval decides again: ${what}: ${word}`, async () => {
    using bench = asking();
    const { answer, approval } = bench.ask(reading("s1", "c1"));
    await change(bench);
    const before = bench.runtime.runs.length;
    assert.deepEqual(bench.pipeline.approve(approval), outcome);
    const ran = outcome.outcome !== "denied";
    const expected = ran ? { ...RAN, ...differs } : deny(outcome.reason);
    assert.deepEqual(await answer, expected);
    assert.equal(bench.runtime.runs.length - before, ran ? 1 : 0);
    assert.deepEqual(approvalsOf(bench), [
      recorded(approval, { answer: "approved", by: "bxctl", reason: null, outcome }),
    ]);
    const told = bench.said.filter((line) => line.includes("asked under grant"));
    assert.equal(told.length, other === undefined ? 0 : 1, told.join("\n"));
    if (other !== undefined) {
      const words = `asked under grant ask, approved under grant ${other}`;
      assert.equal(told[0], `approval ${approval}: ${words}`);
    }
    assert.equal(bench.report().failure, null);
    assert.deepEqual(bench.report().abandoned, []);
  });
}

Deno.test("the grant that matches at the approval is what the runtime is handed", async () => {
  using bench = asking();
  const { answer, approval } = bench.ask(reading("s1", "c1", "/n/a/b"));
  bench.grant("ask", { ...ASK, constraints: { paths: ["/n", "/n/a"] } });
  bench.pipeline.approve(approval);
  await answer;
  assert.deepEqual(bench.runtime.runs.map(({ spec }) => spec.mounts), [
    [{ path: "/n/a", writable: false }],
  ]);
});

Deno.test("an approval that is unknown, used up or none is no_such_approval", async () => {
  using bench = asking();
  bench.grant("auto", { constraints: { paths: ["/auto"] } });
  const { pipeline } = bench;
  const none = (approval: number) => {
    const before = bench.events().length;
    assert.equal(pipeline.approve(approval), "no_such_approval");
    assert.equal(pipeline.refuse(approval, "no"), "no_such_approval");
    assert.equal(bench.events().length, before, "nothing is written");
  };
  none(0);
  await bench.call(reading("s1", "c0", "/auto/a"));
  const denial = bench.events().length;
  await bench.call(reading("s1", "c1", "/elsewhere"));
  none(0);
  none(1);
  none(denial);
  const approved = bench.ask(reading("s1", "c2"));
  none(approved.approval + 1);
  none(Number.MAX_SAFE_INTEGER);
  assert.deepEqual(pipeline.approve(approved.approval), { outcome: "ask" });
  none(approved.approval);
  await approved.answer;
  none(approved.approval);
  const refused = bench.ask(reading("s1", "c3"));
  assert.equal(pipeline.refuse(refused.approval, null), "ok");
  none(refused.approval);
  const lost = bench.ask(reading("s1", "c4"));
  pipeline.lost(lost.approval);
  none(lost.approval);
  const deniedAtLast = bench.ask(reading("s1", "c5"));
  bench.removeGrant("ask");
  assert.deepEqual(pipeline.approve(deniedAtLast.approval), denied("no_grant"));
  none(deniedAtLast.approval);
});

/** What the owner may do with a call, as a test does it. */
const ANSWERS: Readonly<Record<string, (bench: DecisionPath, approval: number) => unknown>> = {
  approve: (bench, approval) => bench.pipeline.approve(approval),
  refuse: (bench, approval) => bench.pipeline.refuse(approval, "no"),
};

for (const [what, act] of Object.entries(ANSWERS)) {
  Deno.test(`from expires on ${what} comes too late, whether or not the periodic check has run`, async () => {
    for (const late of [0, 1, 1_000_000]) {
      for (const checked of [false, true]) {
        using bench = asking();
        const { answer, approval } = bench.ask(reading("s1", "c1"));
        bench.now += TTL_MS + late;
        if (checked) bench.pipeline.expire();
        assert.equal(act(bench, approval), "no_such_approval");
        assert.deepEqual(await answer, deny("approval_expired"));
        assert.deepEqual(approvalsOf(bench).map((event) => event.answer), ["expired"]);
        assert.equal(bench.runtime.runs.length, 0);
      }
    }
    using bench = asking();
    const { answer, approval } = bench.ask(reading("s1", "c1"));
    bench.now += TTL_MS - 1;
    assert.notEqual(act(bench, approval), "no_such_approval");
    assert.notDeepEqual(await answer, deny("approval_expired"));
  });
}

Deno.test("an expired call is not listed, and a lost connection does not undo its end", async () => {
  for (const look of ["list", "lost"] as const) {
    using bench = asking();
    const { answer, approval } = bench.ask(reading("s1", "c1"));
    bench.now += TTL_MS;
    if (look === "list") assert.deepEqual(bench.pipeline.pending(), []);
    else bench.pipeline.lost(approval);
    assert.deepEqual(await answer, deny("approval_expired"));
    assert.deepEqual(approvalsOf(bench).map((event) => event.answer), ["expired"], look);
  }
});

Deno.test("a grant that ends before ttl_ms ends the waiting then", async () => {
  const expiresAfter = async (grantMs: number, waitsMs: number) => {
    using bench = asking();
    bench.grant("ask", { ...ASK, expires: timestamp(bench.now + grantMs) });
    const first = bench.ask(reading("s1", "c1"));
    assert.equal(first.pending?.expires, timestamp(bench.now + waitsMs));
    const second = bench.ask(reading("s1", "c2"));
    bench.now += waitsMs - 1;
    assert.deepEqual(bench.pipeline.approve(first.approval), { outcome: "ask" });
    assert.deepEqual(await first.answer, RAN);
    bench.now += 1;
    assert.equal(bench.pipeline.approve(second.approval), "no_such_approval");
    assert.deepEqual(await second.answer, deny("approval_expired"));
  };
  await expiresAfter(TTL_MS - 1, TTL_MS - 1);
  await expiresAfter(TTL_MS, TTL_MS);
  await expiresAfter(TTL_MS + 1, TTL_MS);
  await expiresAfter(1, 1);
});

Deno.test("a lost connection removes the call, and verifying tells that it was abandoned", async () => {
  using bench = asking();
  const kept = bench.ask(reading("s2", "c1"));
  const { answer, approval } = bench.ask(reading("s1", "c1"));
  const before = bench.events().length;
  bench.pipeline.lost(approval);
  assert.equal(await answer, null);
  bench.pipeline.lost(approval);
  bench.pipeline.lost(12_345);
  assert.equal(bench.events().length, before, "nothing is written");
  assert.deepEqual(bench.pipeline.pending().map((one) => one.approval), [kept.approval]);
  bench.pipeline.approve(kept.approval);
  await kept.answer;
  const { failure, abandoned } = bench.report();
  assert.deepEqual({ failure, abandoned }, { failure: null, abandoned: [approval] });
  assert.equal(bench.runtime.runs.length, 1);
});

Deno.test("after a restart nothing is pending, and the calls were abandoned", () => {
  using bench = asking();
  const { approval } = bench.ask(reading("s1", "c1"));
  bench.restart();
  assert.deepEqual(bench.pipeline.pending(), []);
  assert.equal(bench.pipeline.approve(approval), "no_such_approval");
  assert.deepEqual(bench.report().abandoned, [approval]);
});

Deno.test("a call that the owner let run goes on without its client, and its result is recorded", async () => {
  using bench = asking();
  bench.grant("ask", { ...ASK, result_class: "secret" });
  bench.runtime.outcome = null;
  const { answer, approval } = bench.ask(reading("s1", "c1"));
  bench.pipeline.approve(approval);
  bench.pipeline.lost(approval);
  assert.ok(await isOpen(answer));
  bench.runtime.runs[0]?.end(CONTENT);
  assert.deepEqual(await answer, { ...RAN, class: "secret" });
  const last = bench.events().at(-1);
  assert.ok(last?.type === "result" && last.decision === approval);
  assert.equal(bench.stateOf("s1")?.taint, "secret");
  assert.deepEqual(bench.report().unfinished, []);
});

Deno.test("16 calls of one session may wait; one more is recorded as to ask about, and fails", async () => {
  using bench = asking({ synced: false });
  const waiting = Array.from({ length: 16 }, (_, n) => bench.ask(reading("s1", `c${n}`)));
  const tooMany = { status: "failed", message: "too many approvals are pending" };
  const one = bench.pipeline.begin(reading("s1", "c16"));
  assert.equal(one.pending, null);
  assert.deepEqual(await one.answer, tooMany);
  const last = bench.events().at(-1);
  assert.ok(last?.type === "decision" && last.call === "c16" && last.outcome.outcome === "ask");
  assert.equal(bench.pipeline.pending().length, 16);
  assert.ok(bench.pipeline.begin(reading("s2", "c0")).pending !== null, "another session");

  // Each way of ending makes room for exactly one.
  const ends: readonly ((approval: number) => void)[] = [
    (approval) => bench.pipeline.approve(approval),
    (approval) => bench.pipeline.refuse(approval, null),
    (approval) => bench.pipeline.lost(approval),
  ];
  for (const [at, end] of ends.entries()) {
    end(waiting[at]?.approval ?? -1);
    assert.ok(bench.pipeline.begin(reading("s1", `d${at}`)).pending !== null);
    assert.deepEqual(await bench.call(reading("s1", `e${at}`)), tooMany);
  }
  assert.equal(bench.runtime.runs.length, 1);
});

Deno.test("128 calls in all may wait", async () => {
  using bench = asking({ synced: false });
  for (let n = 0; n < 128; n += 1) {
    bench.ask(reading(`s${n % 8}`, `c${n}`));
  }
  const tooMany = { status: "failed", message: "too many approvals are pending" };
  assert.deepEqual(await bench.call(reading("s9", "c0")), tooMany);
  bench.pipeline.lost(0);
  assert.ok(bench.pipeline.begin(reading("s9", "c1")).pending !== null);
  assert.deepEqual(await bench.call(reading("s9", "c2")), tooMany);
  assert.deepEqual([MAX_PENDING, MAX_PENDING_PER_SESSION], [128, 16]);
});

Deno.test("a call whose time is up takes no room, whether or not the periodic check has run", async () => {
  using bench = asking({ synced: false });
  const waiting = Array.from({ length: 16 }, (_, n) => bench.ask(reading("s1", `c${n}`)));
  bench.now += TTL_MS - 1;
  assert.equal(bench.pipeline.begin(reading("s1", "d")).pending, null);
  bench.now += 1;
  assert.ok(bench.pipeline.begin(reading("s1", "e")).pending !== null);
  for (const { answer } of waiting) assert.deepEqual(await answer, deny("approval_expired"));
  assert.equal(bench.report().failure, null);
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
