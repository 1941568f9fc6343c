/** Approvals, and what is on disk before anything happens (specification 5, "Write order", and 6). */
import assert from "node:assert/strict";
import type { DenyReason } from "../../proto/decisions.ts";
import { CONTENT, PipelineBench, RESULT, settledNow } from "../support/pipeline.ts";
import { diskFull } from "../support/watched_files.ts";

const denied = (reason: DenyReason) => ({ status: "denied", reason }) as const;
const whole = {
  status: "result",
  content: CONTENT,
  class: "private",
  untrusted: false,
  truncated: false,
} as const;

/** Ends the run that started last. */
function finish(bench: PipelineBench): void {
  bench.runtime.started.at(-1)?.end(RESULT);
}

Deno.test("approve: the call runs, under the re-decision that is recorded", async () => {
  using bench = new PipelineBench();
  bench.grant("notes", { mode: "ask" });
  const { approval, answer } = bench.ask();
  assert.equal(bench.runtime.started.length, 0);
  assert.deepEqual(bench.pipeline.approve(approval), { outcome: "ask" });
  finish(bench);
  assert.deepEqual(await answer, whole);
  const [, approved, result] = bench.events();
  assert(approved?.type === "approval" && result?.type === "result");
  assert.deepEqual([approved.decision, approved.answer, approved.by], [
    approval,
    "approved",
    "bxctl",
  ]);
  assert.deepEqual(approved.outcome, { outcome: "ask" });
  assert.deepEqual([result.decision, result.taint_after], [approval, "private"]);
  assert.equal(bench.report().failure, null);
});

Deno.test("approve after the grant became auto: it runs, and the record says allowed", async () => {
  using bench = new PipelineBench();
  bench.grant("notes", { mode: "ask" });
  const { approval, answer } = bench.ask();
  bench.grant("notes", { mode: "auto" });
  assert.deepEqual(bench.pipeline.approve(approval), { outcome: "allowed" });
  finish(bench);
  assert.deepEqual(await answer, whole);
});

Deno.test("approve under another grant than the asked one: it runs, and the operator is told which", async () => {
  using bench = new PipelineBench();
  bench.grant("notes", { mode: "ask" });
  const { approval, answer } = bench.ask();
  bench.removeGrant("notes");
  bench.grant("other", { mode: "ask", result_class: "public" });
  assert.deepEqual(bench.pipeline.approve(approval), { outcome: "ask" });
  finish(bench);
  assert.deepEqual(await answer, { ...whole, class: "public" });
  assert(bench.said.some((line) => line.includes("notes") && line.includes("other")));
});

Deno.test("approve when the call is no longer ask: denied with the reason of now, and nothing runs", async (t) => {
  const changes: Record<string, readonly [DenyReason, (bench: PipelineBench) => void]> = {
    "the grant file is removed": ["no_grant", (bench) => bench.removeGrant("notes")],
    "the taint rose past max_taint": [
      "taint_too_high",
      (bench) => bench.states.raise("s1", { taint: "secret", untrusted: false }),
    ],
    "a deny grant came": ["denied_by_grant", (bench) => bench.grant("never", { mode: "deny" })],
    "a grant is invalid": ["grants_invalid", (bench) => bench.grant("bad", { mode: "sometimes" })],
    "the state is damaged": [
      "state_unreadable",
      (bench) => Deno.writeTextFileSync(`${bench.root}/sessions/s1.json`, "{"),
    ],
  };
  for (const [what, [reason, change]] of Object.entries(changes)) {
    await t.step(what, async () => {
      using bench = new PipelineBench();
      bench.grant("notes", { mode: "ask", max_taint: "private" });
      const first = bench.ask();
      assert.deepEqual(bench.pipeline.approve(first.approval), { outcome: "ask" });
      finish(bench);
      assert.deepEqual(await first.answer, whole);

      const { approval, answer } = bench.ask();
      change(bench);
      assert.deepEqual(bench.pipeline.approve(approval), { outcome: "denied", reason });
      assert.deepEqual(await answer, denied(reason));
      assert.equal(bench.runtime.started.length, 1);
      const last = bench.events().at(-1);
      assert(last?.type === "approval" && last.answer === "approved");
      assert.deepEqual(last.outcome, { outcome: "denied", reason });
    });
  }
});

Deno.test("refuse: denied, the owner's reason in the log and not in the answer", async () => {
  using bench = new PipelineBench();
  bench.grant("notes", { mode: "ask" });
  const { approval, answer } = bench.ask();
  assert.equal(bench.pipeline.refuse(approval, "not today"), "ok");
  assert.deepEqual(await answer, denied("approval_refused"));
  const last = bench.events().at(-1);
  assert(last?.type === "approval");
  assert.deepEqual([last.answer, last.reason, last.by], ["refused", "not today", "bxctl"]);
});

Deno.test("expire with ttl_ms 100: from expires on nothing else ends the call", async () => {
  using bench = new PipelineBench(100);
  bench.grant("notes", { mode: "ask" });
  const early = bench.ask();
  bench.now += 99;
  assert.deepEqual(bench.pipeline.approve(early.approval), { outcome: "ask" });
  finish(bench);
  assert.deepEqual(await early.answer, whole);

  const { approval, answer } = bench.ask();
  bench.now += 100;
  // No periodic check has run: the owner's answer itself finds that it comes too late.
  assert.equal(bench.pipeline.approve(approval), "no_such_approval");
  assert.deepEqual(await answer, denied("approval_expired"));
  const last = bench.events().at(-1);
  assert(last?.type === "approval");
  assert.deepEqual([last.answer, last.by], ["expired", null]);

  const unanswered = bench.ask();
  bench.now += 100;
  bench.pipeline.expire();
  assert.deepEqual(await unanswered.answer, denied("approval_expired"));
});

Deno.test("an approval ends with its grant, where that comes first", () => {
  using bench = new PipelineBench();
  bench.grant("notes", { mode: "ask", expires: "2026-12-01T10:00:01.000Z" });
  const { pending } = bench.begin();
  assert.equal(pending?.expires, "2026-12-01T10:00:01.000Z");
  bench.grant("notes", { mode: "ask", expires: "2027-01-01T00:00:00.000Z" });
  assert.equal(bench.begin().pending?.expires, "2026-12-01T10:01:00.000Z");
});

Deno.test("an unknown or answered approval is no_such_approval", async () => {
  using bench = new PipelineBench();
  bench.grant("notes", { mode: "ask" });
  assert.equal(bench.pipeline.approve(0), "no_such_approval");
  const { approval, answer } = bench.ask();
  assert.equal(bench.pipeline.refuse(approval + 1, null), "no_such_approval");
  assert.equal(bench.pipeline.refuse(approval, null), "ok");
  assert.equal(bench.pipeline.refuse(approval, null), "no_such_approval");
  assert.equal(bench.pipeline.approve(approval), "no_such_approval");
  await answer;
  assert.equal(bench.events().length, 2);
});

Deno.test("a dropped connection while pending: removed, nothing written, reported as abandoned", async () => {
  using bench = new PipelineBench();
  bench.grant("notes", { mode: "ask" });
  const { approval, answer } = bench.ask();
  assert.equal(bench.pipeline.pending().length, 1);
  bench.pipeline.lost(approval);
  assert.equal(await answer, null);
  assert.deepEqual(bench.pipeline.pending(), []);
  assert.equal(bench.events().length, 1);
  assert.deepEqual(bench.report().abandoned, [approval]);
});

Deno.test("16 calls of a session and 128 in all may be pending: one more has its record and fails", async () => {
  using bench = new PipelineBench();
  bench.grant("notes", { mode: "ask" });
  const full = { status: "failed", message: "too many approvals are pending" };
  for (let i = 0; i < 16; i++) bench.ask("s0");
  assert.deepEqual(await bench.begin("s0").answer, full);
  for (let i = 16; i < 128; i++) bench.ask(`s${Math.floor(i / 16)}`);
  assert.deepEqual(await bench.begin("s9").answer, full);
  const asked = bench.events().filter((event) =>
    event.type === "decision" && event.outcome.outcome === "ask"
  );
  assert.equal(asked.length, 130);
  const [first] = bench.pipeline.pending();
  assert.equal(bench.pipeline.refuse(first?.approval ?? -1, null), "ok");
  bench.ask("s9");
});

const ENDERS = {
  approve: (bench: PipelineBench, approval: number) => bench.pipeline.approve(approval),
  "approve again": (bench: PipelineBench, approval: number) => bench.pipeline.approve(approval),
  refuse: (bench: PipelineBench, approval: number) => bench.pipeline.refuse(approval, null),
  expire(bench: PipelineBench) {
    bench.now += 60_000;
    bench.pipeline.expire();
  },
  "lose the connection": (bench: PipelineBench, approval: number) => bench.pipeline.lost(approval),
} as const;

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, index) =>
    permutations(items.toSpliced(index, 1)).map((rest) => [item, ...rest])
  );
}

Deno.test("approve, approve, refuse, expiry and a dropped connection: one winner, in every order", async () => {
  const names = Object.keys(ENDERS) as (keyof typeof ENDERS)[];
  let tried = 0;
  for (const order of permutations(names)) {
    // Between two of them, nothing or a turn of the event loop: each pattern of pauses is tried.
    for (let pauses = 0; pauses < 4; pauses++) {
      using bench = new PipelineBench();
      bench.grant("notes", { mode: "ask" });
      const { approval, answer } = bench.ask();
      for (const [index, name] of order.entries()) {
        ENDERS[name](bench, approval);
        if ((pauses >> (index % 2)) & 1) await Promise.resolve();
      }
      for (const { end } of bench.runtime.started) end(RESULT);
      const approvals = bench.events().filter(({ type }) => type === "approval");
      const expected = {
        approve: whole,
        "approve again": whole,
        refuse: denied("approval_refused"),
        expire: denied("approval_expired"),
        "lose the connection": null,
      }[order[0] ?? "expire"];
      assert.deepEqual(await answer, expected, `${order.join(", ")} (${pauses})`);
      assert.equal(approvals.length, expected === null ? 0 : 1, order.join(", "));
      assert.equal(bench.runtime.started.length, expected === whole ? 1 : 0, order.join(", "));
      tried += 1;
    }
  }
  assert.equal(tried, 480);
});

Deno.test("a writer that fails: audit_unavailable, and nothing runs", async (t) => {
  for (const what of ["write", "sync"] as const) {
    await t.step(`the decision's ${what}`, async () => {
      using bench = new PipelineBench();
      bench.grant("notes", { mode: "auto" });
      bench.files.fault = (operation) =>
        operation.what === what && operation.name.endsWith(".jsonl") ? diskFull() : null;
      assert.deepEqual(await bench.begin().answer, denied("audit_unavailable"));
      assert.equal(bench.runtime.started.length, 0);
      assert(bench.said.some((line) => line.includes("docs/runbook.md#audit-unavailable")));
      bench.files.fault = () => null;
      const { answer } = bench.begin();
      finish(bench);
      // After a failed sync only a restart tells what is on disk.
      assert.deepEqual(await answer, what === "write" ? whole : denied("audit_unavailable"));
    });
    await t.step(`the approval's ${what}`, async () => {
      using bench = new PipelineBench();
      bench.grant("notes", { mode: "ask" });
      const { approval, answer } = bench.ask();
      bench.files.fault = (operation) =>
        operation.what === what && operation.name.endsWith(".jsonl") ? diskFull() : null;
      const outcome = { outcome: "denied", reason: "audit_unavailable" };
      assert.deepEqual(bench.pipeline.approve(approval), outcome);
      assert.deepEqual(await answer, denied("audit_unavailable"));
      assert.equal(bench.runtime.started.length, 0);
      assert.equal(bench.pipeline.approve(approval), "no_such_approval");
    });
  }
  await t.step("a refusal and an expiry", async () => {
    using bench = new PipelineBench();
    bench.grant("notes", { mode: "ask" });
    const refused = bench.ask();
    const expired = bench.ask();
    bench.files.fault = ({ name }) => name.endsWith(".jsonl") ? diskFull() : null;
    assert.equal(bench.pipeline.refuse(refused.approval, null), "audit_unavailable");
    assert.deepEqual(await refused.answer, denied("audit_unavailable"));
    bench.now += 60_000;
    bench.pipeline.expire();
    assert.deepEqual(await expired.answer, denied("audit_unavailable"));
  });
});

Deno.test("a state or a result that cannot be written: failed, and the content is absent", async (t) => {
  const failed = { status: "failed", message: "the result could not be recorded" };
  const places = {
    "the state file": (name: string) => name === "s1.json.tmp",
    "the result record": (name: string) => name.endsWith(".jsonl"),
  };
  for (const [what, hit] of Object.entries(places)) {
    await t.step(what, async () => {
      using bench = new PipelineBench();
      bench.grant("notes", { mode: "auto" });
      const { answer } = bench.begin();
      bench.files.fault = ({ what, name }) => what === "write" && hit(name) ? diskFull() : null;
      finish(bench);
      const response = await answer;
      assert.deepEqual(response, failed);
      assert(!JSON.stringify(response).includes(CONTENT));
      assert.deepEqual(bench.events().map(({ type }) => type), ["decision"]);
      bench.files.fault = () => null;
      const again = bench.begin();
      finish(bench);
      assert.deepEqual(await again.answer, whole);
      assert.deepEqual(bench.report().unfinished, [0]);
    });
  }
});

Deno.test("a failed tool raises the taint as a result does; one that did not run changes nothing", async () => {
  using bench = new PipelineBench();
  bench.grant("notes", { mode: "auto", result_class: "secret", untrusted: true });
  const unavailable = bench.begin("s1");
  bench.runtime.started.at(-1)?.end({ status: "unavailable", message: "no container" });
  assert.deepEqual(await unavailable.answer, { status: "failed", message: "no container" });
  assert.deepEqual(bench.states.read("s1"), { taint: "private", untrusted: false });
  const first = bench.events().at(-1);
  assert(first?.type === "result");
  assert.deepEqual([first.class, first.untrusted, first.taint_after], ["public", false, "private"]);

  const failing = bench.begin("s1");
  bench.runtime.started.at(-1)?.end({ status: "failed", message: "no such file" });
  assert.deepEqual(await failing.answer, { status: "failed", message: "no such file" });
  assert.deepEqual(bench.states.read("s1"), { taint: "secret", untrusted: true });
  const second = bench.events().at(-1);
  assert(second?.type === "result");
  assert.deepEqual([second.class, second.untrusted, second.taint_after], [
    "secret",
    true,
    "secret",
  ]);
});

Deno.test("two calls of one session that finish together lose no taint", async () => {
  for (const order of [[0, 1], [1, 0]]) {
    using bench = new PipelineBench();
    bench.grant("notes", { mode: "auto", result_class: "public", untrusted: true });
    bench.grant("keys", { mode: "auto", result_class: "secret", constraints: { paths: ["/k"] } });
    const calls = [bench.begin("s1", "/n/a"), bench.begin("s1", "/k/a")];
    for (const index of order) bench.runtime.started[index]?.end(RESULT);
    await Promise.all(calls.map(({ answer }) => answer));
    assert.deepEqual(bench.states.read("s1"), { taint: "secret", untrusted: true });
  }
});

Deno.test("no call waits for a pending approval, a running tool or another session", async () => {
  using bench = new PipelineBench();
  bench.grant("notes", { mode: "ask" });
  bench.grant("keys", { mode: "auto", constraints: { paths: ["/k"] } });
  const pending = bench.ask("s1");
  const running = bench.begin("s1", "/k/a");
  assert.equal(bench.runtime.started.length, 1);

  assert.deepEqual(await bench.begin("s1", "/x").answer, denied("no_grant"));
  assert.deepEqual(await bench.begin("s2", "/x").answer, denied("no_grant"));
  const other = bench.begin("s1", "/k/b");
  finish(bench);
  assert.deepEqual(await other.answer, whole);
  assert.equal(await settledNow(pending.answer), null);
  assert.equal(await settledNow(running.answer), null);
  bench.runtime.started[0]?.end(RESULT);
  assert.deepEqual(await running.answer, whole);
});

Deno.test("a decision made after an answer sees that answer's taint", async () => {
  using bench = new PipelineBench();
  bench.grant("keys", { mode: "auto", result_class: "secret", max_taint: "private" });
  const first = bench.begin();
  finish(bench);
  assert.equal((await first.answer)?.status, "result");
  assert.deepEqual(await bench.begin().answer, denied("taint_too_high"));
  assert.equal(bench.begin("s2").pending, null);
});
