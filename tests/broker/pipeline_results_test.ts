/** How a run ends: taint, record and answer (specification 4 and 5; contracts 3), of one call and of several. */
import assert from "node:assert/strict";
import type { SessionState } from "../../broker/policy.ts";
import type { RunOutcome } from "../../broker/runner.ts";
import type { AuditEvent } from "../../proto/audit.ts";
import { encodeFrame, MAX_ANSWER_BYTES } from "../../proto/frames.ts";
import { sha256 } from "../../proto/ids.ts";
import type { FinalToolResponse } from "../../proto/messages.ts";
import { utf8 } from "../../proto/text.ts";
import {
  allowing,
  answerOf,
  CONTENT,
  DecisionPath,
  deny,
  isOpen,
  RAN,
  reading,
  turn,
} from "../support/decision_path.ts";

function lastResult(path: DecisionPath): Extract<AuditEvent, { type: "result" }> {
  const last = path.events().at(-1);
  assert.ok(last?.type === "result");
  return last;
}

const GRANTED = { result_class: "secret", untrusted: true };
const RAISED: SessionState = { taint: "secret", untrusted: true };

Deno.test("a result raises the taint by the grant's class, and says so", async () => {
  using path = allowing();
  path.grant("read", GRANTED);
  path.runtime.outcome = { status: "result", content: "", truncated: true };
  assert.deepEqual(await path.call(reading("s1", "c1")), {
    ...{ status: "result", content: "", class: "secret", untrusted: true, truncated: true },
  });
  assert.deepEqual(path.stateOf("s1"), RAISED);
  const { type: _type, session: _session, call: _call, ...record } = lastResult(path);
  assert.deepEqual(record, {
    ...{ decision: 0, status: "result", class: "secret", untrusted: true, truncated: true },
    ...{ bytes: 0, sha256: sha256(utf8("")), taint_after: "secret" },
  });
  assert.equal(path.stateOf("s2"), null, "another session has seen nothing");
});

Deno.test("a result of a lower class lowers nothing", async () => {
  using path = allowing();
  path.grant("read", GRANTED);
  await path.call(reading("s1", "c1"));
  path.grant("read", { result_class: "public" });
  assert.deepEqual(await path.call(reading("s1", "c2")), { ...RAN, class: "public" });
  assert.deepEqual(path.stateOf("s1"), RAISED);
  const { class: own, untrusted, taint_after } = lastResult(path);
  assert.deepEqual([own, untrusted, taint_after], ["public", false, "secret"]);
});

Deno.test("a run that failed raises the taint as a result does: its message is the tool's", async () => {
  for (const broken of [false, true]) {
    using path = allowing();
    path.grant("read", GRANTED);
    path.runtime.outcome = null;
    const { answer } = path.pipeline.begin(reading("s1", "c1"));
    if (broken) path.runtime.runs[0]?.fail(new Error("the runtime broke"));
    else path.runtime.runs[0]?.end({ status: "failed", message: "no such file" });
    const message = broken ? "the tool could not be run" : "no such file";
    assert.deepEqual(await answer, { status: "failed", message });
    assert.deepEqual(path.stateOf("s1"), RAISED);
    const { type: _type, session: _session, call: _call, ...record } = lastResult(path);
    assert.deepEqual(record, {
      ...{ decision: 0, status: "failed", class: "secret", untrusted: true, truncated: false },
      ...{ bytes: message.length, sha256: sha256(utf8(message)), taint_after: "secret" },
    });
    const told = path.said.filter((line) => line.includes("the runtime broke"));
    assert.equal(told.length, broken ? 1 : 0);
  }
});

Deno.test("where nothing could be run nothing changes: public, trusted, and no state file", async () => {
  using path = allowing();
  path.grant("read", GRANTED);
  path.runtime.outcome = { status: "unavailable", message: "the runner arrives in M3b" };
  const answer = await path.call(reading("s1", "c1"));
  assert.deepEqual(answer, { status: "failed", message: "the runner arrives in M3b" });
  assert.equal(path.stateOf("s1"), null);
  const record = lastResult(path);
  assert.deepEqual([record.status, record.class, record.untrusted, record.taint_after], [
    ...["failed", "public", false, "private"],
  ]);
  path.runtime.outcome = CONTENT;
  await path.call(reading("s1", "c2"));
  path.runtime.outcome = { status: "unavailable", message: "" };
  await path.call(reading("s1", "c3"));
  assert.deepEqual(path.stateOf("s1"), RAISED);
  assert.deepEqual([lastResult(path).class, lastResult(path).taint_after], ["public", "secret"]);
});

/** What a tool said, in its answer. */
function textOf(answer: FinalToolResponse): string {
  if (answer.status === "result") return answer.content;
  return answer.status === "failed" ? answer.message : "";
}

const brief = (answer: FinalToolResponse) => JSON.stringify(answer).slice(0, 60);

Deno.test("what does not fit a frame of 2 MiB fails, and has raised the taint", async () => {
  const empty: FinalToolResponse = { ...RAN, content: "" };
  const around = encodeFrame({ kind: "tool_response", final: true, body: empty }).length;
  const most = "a".repeat(MAX_ANSWER_BYTES - around);
  const failed = { status: "failed", message: "" } as const;
  const aroundMessage = encodeFrame({ kind: "tool_response", final: true, body: failed }).length;
  const longest = "a".repeat(MAX_ANSWER_BYTES - aroundMessage);
  const tooLarge: FinalToolResponse = { status: "failed", message: "the result is too large" };
  const ends: readonly (readonly [RunOutcome, FinalToolResponse])[] = [
    [{ status: "result", content: most, truncated: false }, { ...RAN, content: most }],
    [{ status: "result", content: `${most}a`, truncated: false }, tooLarge],
    // The same length in characters; each takes two bytes.
    [{ status: "result", content: "ü".repeat(most.length), truncated: true }, tooLarge],
    // JSON writes six bytes for each.
    [{ status: "result", content: "\u0001".repeat(400_000), truncated: false }, tooLarge],
    [{ status: "failed", message: longest }, { status: "failed", message: longest }],
    [{ status: "failed", message: `${longest}a` }, tooLarge],
  ];
  for (const [end, expected] of ends) {
    using path = allowing();
    path.grant("read", { result_class: "private", untrusted: false });
    path.runtime.outcome = end;
    const answer = await path.call(reading("s1", "c1"));
    // Not deepEqual: its message would show megabytes.
    assert.ok(JSON.stringify(answer) === JSON.stringify(expected), brief(expected));
    const frame = encodeFrame({ kind: "tool_response", final: true, body: expected });
    assert.ok(frame.length <= MAX_ANSWER_BYTES);
    const text = utf8(textOf(expected));
    const { status, bytes, sha256: hash, truncated, class: own } = lastResult(path);
    assert.deepEqual([status, bytes, hash, truncated, own], [
      ...[expected.status, text.length, sha256(text), false, "private"],
    ]);
    assert.equal(path.stateOf("s1")?.taint, "private");
  }
});

Deno.test("text of a tool that is no Unicode is given and recorded as well-formed text", async () => {
  using path = allowing();
  const bad = "a\ud800b\udc00";
  const good = "a\ufffdb\ufffd";
  for (
    const end of [
      { status: "result", content: bad, truncated: false },
      { status: "failed", message: bad },
    ] as const
  ) {
    path.runtime.outcome = end;
    const answer = await path.call(reading("s1", "c1"));
    assert.ok(answer?.status === end.status);
    assert.equal(textOf(answer), good);
    assert.deepEqual([lastResult(path).bytes, lastResult(path).sha256], [8, sha256(utf8(good))]);
  }
});

// ── Several calls ───────────────────────────────────────────────────────────────────────────────

Deno.test("a decision made after an answer was sent sees that answer's taint", async () => {
  using path = allowing();
  path.grant("secret", { result_class: "secret", constraints: { paths: ["/secret"] } });
  path.grant("read", { max_taint: "private" });
  assert.deepEqual(await path.call(reading("s1", "c1")), RAN);
  path.runtime.outcome = null;
  const secret = path.pipeline.begin(reading("s1", "c2", "/secret/a"));
  const meanwhile = path.pipeline.begin(reading("s1", "c3"));
  path.runtime.runs.at(-2)?.end(CONTENT);
  assert.deepEqual(await answerOf(secret), { ...RAN, class: "secret" });
  assert.deepEqual(await path.call(reading("s1", "c4")), deny("taint_too_high"));
  path.runtime.runs.at(-1)?.end(CONTENT);
  assert.deepEqual(await answerOf(meanwhile), RAN, "decided before");
  assert.deepEqual(await path.call(reading("s1", "c5")), deny("taint_too_high"));
  const other = path.pipeline.begin(reading("s2", "c6"));
  path.runtime.runs.at(-1)?.end(CONTENT);
  assert.deepEqual(await answerOf(other), RAN, "another session");
});

Deno.test("calls of one session that finish together lose no taint, in any order", async () => {
  const orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
  for (const order of orders) {
    for (const apart of [false, true]) {
      using path = new DecisionPath();
      path.grant("a", { result_class: "secret", constraints: { paths: ["/a"] } });
      path.grant("b", {
        result_class: "public",
        untrusted: true,
        constraints: { paths: ["/b"] },
      });
      path.grant("c", { result_class: "public", constraints: { paths: ["/c"] } });
      path.runtime.outcome = null;
      const calls = ["/a", "/b", "/c"].map((one) =>
        path.pipeline.begin(reading("s1", one.slice(1), one))
      );
      for (const at of order) {
        path.runtime.runs[at]?.end(CONTENT);
        if (apart) await turn();
      }
      for (const call of calls) assert.equal((await answerOf(call))?.status, "result");
      assert.deepEqual(path.stateOf("s1"), RAISED);
      const afters = path.events().filter((event) => event.type === "result")
        .map(({ call, taint_after }) => `${call} ${taint_after}`);
      const secretAt = order.indexOf(0);
      assert.deepEqual(
        afters,
        order.map((one, at) => `${"abc"[one]} ${at < secretAt ? "private" : "secret"}`),
      );
    }
  }
});

Deno.test("no call waits for a pending approval, a running tool or another session", async () => {
  using path = allowing();
  path.grant("ask", { mode: "ask", constraints: { paths: ["/ask"] } });
  path.runtime.outcome = null;
  const open = [
    path.ask(reading("s1", "c1", "/ask/a")).answer,
    path.pipeline.begin(reading("s1", "c2")).answer,
    path.ask(reading("s2", "c1", "/ask/a")).answer,
    path.pipeline.begin(reading("s2", "c2")).answer,
  ];
  assert.equal(path.runtime.runs.length, 2, "both tools run at once");
  path.runtime.outcome = CONTENT;
  for (const session of ["s1", "s2", "s3"]) {
    assert.deepEqual(await path.call(reading(session, "c3")), RAN);
    assert.deepEqual(await path.call(reading(session, "c4", "/no")), deny("no_grant"));
    const { approval, answer } = path.ask(reading(session, "c5", "/ask/a"));
    path.pipeline.approve(approval);
    assert.deepEqual(await answer, RAN);
  }
  for (const answer of open) assert.ok(await isOpen(answer));
  for (const run of path.runtime.runs) run.end(CONTENT);
  for (const { approval } of path.pipeline.pending()) path.pipeline.refuse(approval, null);
  assert.deepEqual(await Promise.all(open), [
    ...[deny("approval_refused"), RAN, deny("approval_refused"), RAN],
  ]);
  assert.equal(path.report().failure, null);
});

Deno.test("a tool that never ends keeps nothing else from ending, and verifying tells of it", async () => {
  using path = allowing();
  path.runtime.outcome = null;
  const { answer } = path.pipeline.begin(reading("s1", "c1"));
  path.runtime.outcome = CONTENT;
  assert.deepEqual(await path.call(reading("s1", "c2")), RAN);
  assert.ok(await isOpen(answer));
  assert.deepEqual(path.report().unfinished, [0]);
});
