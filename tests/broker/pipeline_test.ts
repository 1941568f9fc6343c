/** A call from its request to its answer, and what is on disk before each step (specification 5; contracts 3). */
import assert from "node:assert/strict";
import { type DecisionRecord, denied, type DenyReason } from "../../proto/decisions.ts";
import { sha256 } from "../../proto/ids.ts";
import type { FinalToolResponse, ToolRequest } from "../../proto/messages.ts";
import { utf8 } from "../../proto/text.ts";
import type { SessionState } from "../../broker/policy.ts";
import { namesOf } from "../support/broker.ts";
import { allowing, CONTENT, DecisionPath, deny, RAN, reading } from "../support/decision_path.ts";
import { grantFile, grantOf } from "../support/grants.ts";
import { diskFull, type Fault, ioError } from "../support/watched_files.ts";

const LOG = "2026-12-01.jsonl";
const NOT_RECORDED: FinalToolResponse = {
  status: "failed",
  message: "the result could not be recorded",
};

Deno.test("an allowed call: its decision is on disk before it runs, taint and result before its answer", async () => {
  using path = allowing();
  await path.call(reading("s0", "c0"));
  const { done } = path.files;
  done.length = 0;
  path.runtime.started = () => void done.push("the tool runs");
  assert.deepEqual(await path.call(reading("s1", "c1")), RAN);
  done.push("the answer is there");
  const head = "write head.json";
  assert.deepEqual(done, [
    ...[`write ${LOG}`, `sync ${LOG}`, head],
    "the tool runs",
    ...["create s1.json.tmp", "write s1.json.tmp", "sync s1.json.tmp"],
    ...["rename s1.json", "syncDirectory sessions"],
    ...[`write ${LOG}`, `sync ${LOG}`, head],
    "the answer is there",
  ]);
});

Deno.test("the records of an allowed call: the grant with its file's hash, the result by hash and size", async () => {
  using path = allowing();
  const request = reading("s1", "c1");
  await path.call(request);
  const state = { taint: "private", untrusted: false };
  assert.deepEqual(path.events(), [{
    type: "decision",
    ...request,
    outcome: { outcome: "allowed" },
    grant: "read",
    grant_sha256: sha256(utf8(grantFile({ constraints: { paths: ["/n"] } }))),
    ...state,
  }, {
    type: "result",
    ...{ session: "s1", call: "c1", decision: 0, status: "result" },
    ...{ class: "private", untrusted: false, truncated: false },
    ...{ bytes: 11, sha256: sha256(utf8("the content")), taint_after: "private" },
  }]);
  assert.deepEqual(path.stateOf("s1"), state);
  assert.ok(!Deno.readTextFileSync(`${path.audit}/${LOG}`).includes("the content"));
});

/** Ways to be denied, each with what the record says. */
const DENIALS: Readonly<
  Record<string, {
    readonly spoil: (path: DecisionPath) => void;
    readonly request?: Partial<ToolRequest>;
    readonly outcome: DenyReason;
    readonly grant?: string;
    readonly state?: SessionState;
  }>
> = {
  "no grant": { spoil: (path) => path.removeGrant("read"), outcome: "no_grant" },
  "an unknown tool, whose arguments are not parsed": {
    spoil: () => {},
    request: { tool: "clo\u202eck", arguments: "not JSON \u0000" },
    outcome: "no_grant",
  },
  "an expired grant": {
    spoil: (path) => path.grant("read", { expires: "2026-12-01T10:00:00.000Z" }),
    outcome: "grant_expired",
  },
  "too much taint": {
    spoil: (path) => path.grant("read", { max_taint: "public" }),
    outcome: "taint_too_high",
  },
  "a deny grant": {
    spoil: (path) => path.grant("deny", { mode: "deny" }),
    outcome: "denied_by_grant",
    grant: "deny",
  },
  "bad arguments": {
    spoil: () => {},
    request: { arguments: '{"path":"/n/../a"}' },
    outcome: "invalid_arguments",
  },
  "invalid grants": {
    spoil: (path) => path.grant("x", { tool: "clock" }),
    outcome: "grants_invalid",
  },
  "a state that cannot be read": {
    spoil: (path) => Deno.writeTextFileSync(`${path.sessions}/s1.json`, "{}"),
    outcome: "state_unreadable",
    state: { taint: "secret", untrusted: true },
  },
  "invalid grants and a state that cannot be read": {
    spoil: (path) => {
      path.grant("x", { tool: "clock" });
      Deno.removeSync(path.sessions, { recursive: true });
    },
    outcome: "grants_invalid",
    state: { taint: "secret", untrusted: true },
  },
};

for (const [what, { spoil, request = {}, outcome, grant, state }] of Object.entries(DENIALS)) {
  Deno.test(`a denial is recorded in full, and nothing else is: ${what}: ${outcome}`, async () => {
    using path = allowing();
    assert.deepEqual(await path.call(reading("s1", "c0")), RAN, "allowed without the cause");
    spoil(path);
    const given = { ...reading("s1", "c1"), ...request };
    assert.deepEqual(await path.call(given), deny(outcome));
    assert.equal(path.runtime.runs.length, 1);
    const deciding = grant === undefined
      ? null
      : grantOf({ mode: "deny", constraints: { paths: ["/n"] } }, grant);
    assert.deepEqual(path.events().slice(2), [{
      type: "decision",
      ...given,
      outcome: denied(outcome),
      grant: deciding?.id ?? null,
      grant_sha256: deciding?.sha256 ?? null,
      ...state ?? { taint: "private", untrusted: false },
    }]);
    assert.equal(path.report().failure, null);
  });
}

Deno.test("arguments are recorded as received, up to a whole frame", async () => {
  using path = allowing();
  for (
    const text of ["", "\u0000\u202e\ud83d\ude00 \\u0041", `{"path":"/n/${"ü".repeat(400_000)}"}`]
  ) {
    await path.call({ ...reading("s1", "c1"), arguments: text });
    const last = path.events().at(-1);
    assert.ok(last?.type === "decision" && last.arguments === text);
  }
});

// ── Audit before action ─────────────────────────────────────────────────────────────────────────

/** Every operation on the log's file and directory that a record needs, as it fails. */
const AUDIT_FAULTS: Readonly<Record<string, { fault: Fault; untilRestart: boolean }>> = {
  "the file cannot be made": {
    fault: ({ what }) => what === "openAppend" ? diskFull() : null,
    untilRestart: false,
  },
  "the directory cannot be synced": {
    fault: ({ what, name }) => what === "syncDirectory" && name === "audit" ? ioError() : null,
    untilRestart: true,
  },
  "the write fails": {
    fault: ({ what, name }) => what === "write" && name === LOG ? diskFull() : null,
    untilRestart: false,
  },
  "the write is cut short": {
    fault: ({ what, name }) => what === "write" && name === LOG ? 40 : null,
    untilRestart: false,
  },
  "the sync fails": {
    fault: ({ what, name }) => what === "sync" && name === LOG ? ioError() : null,
    untilRestart: true,
  },
};

for (const [what, { fault, untilRestart }] of Object.entries(AUDIT_FAULTS)) {
  Deno.test(`nothing runs whose decision is not on disk: ${what}`, async () => {
    using path = allowing();
    path.files.fault = fault;
    for (const call of ["c1", "c2"]) {
      assert.deepEqual(await path.call(reading("s1", call)), deny("audit_unavailable"));
    }
    const { pending, answer } = path.pipeline.begin(reading("s1", "c3"));
    assert.equal(pending, null);
    assert.deepEqual(await answer, deny("audit_unavailable"));
    assert.equal(path.runtime.runs.length, 0);
    assert.equal(path.stateOf("s1"), null);
    const pointers = path.said.filter((line) => line.includes("docs/runbook.md#audit-unavailable"));
    assert.ok(pointers.length > 0, "the operator is told");

    path.files.fault = () => null;
    if (untilRestart) {
      assert.deepEqual(await path.call(reading("s1", "c4")), deny("audit_unavailable"));
      assert.equal(path.runtime.runs.length, 0);
      path.restart();
    }
    assert.deepEqual(await path.call(reading("s1", "c5")), RAN, "the same call, with a disk");
    assert.equal(path.runtime.runs.length, 1);
    assert.equal(path.report().failure, null);
  });

  Deno.test(`nobody is asked about a call whose decision is not on disk: ${what}`, async () => {
    using path = new DecisionPath();
    path.grant("ask", { mode: "ask" });
    path.files.fault = fault;
    const { pending, answer } = path.pipeline.begin(reading("s1", "c1"));
    assert.equal(pending, null);
    assert.deepEqual(await answer, deny("audit_unavailable"));
    assert.deepEqual(path.pipeline.pending(), []);
    path.files.fault = () => null;
    if (untilRestart) path.restart();
    assert.notEqual(path.pipeline.begin(reading("s1", "c2")).pending, null);
  });
}

for (
  const [what, fault] of Object.entries({
    "the write fails": AUDIT_FAULTS["the write fails"]?.fault,
    "the sync fails": AUDIT_FAULTS["the sync fails"]?.fault,
  })
) {
  Deno.test(`nothing runs whose approval is not on disk: ${what}`, async () => {
    using path = new DecisionPath();
    path.grant("ask", { mode: "ask" });
    const first = path.ask(reading("s1", "c1"));
    const second = path.ask(reading("s1", "c2"));
    assert.deepEqual(path.pipeline.approve(first.approval), { outcome: "ask" });
    assert.deepEqual(await first.answer, RAN, "the same call, with a disk");
    assert.ok(fault !== undefined);
    path.files.fault = fault;
    assert.deepEqual(path.pipeline.approve(second.approval), denied("audit_unavailable"));
    assert.deepEqual(await second.answer, deny("audit_unavailable"));
    assert.equal(path.runtime.runs.length, 1);
  });
}

Deno.test("a log that is latched comes before every other check", async () => {
  using path = allowing();
  path.files.fault = AUDIT_FAULTS["the write fails"]?.fault ?? (() => null);
  await path.call(reading("s1", "c1"));
  path.grant("x", { tool: "clock" });
  Deno.writeTextFileSync(`${path.sessions}/s1.json`, "");
  const request = { ...reading("s1", "c2"), arguments: "" };
  // So that the log cannot be opened again either.
  path.files.fault = () => diskFull();
  assert.deepEqual(await path.call(request), deny("audit_unavailable"));
  path.files.fault = () => null;
  assert.deepEqual(await path.call(request), deny("grants_invalid"));
  path.removeGrant("x");
  assert.deepEqual(await path.call(request), deny("state_unreadable"));
  Deno.removeSync(`${path.sessions}/s1.json`);
  assert.deepEqual(await path.call(request), deny("invalid_arguments"));
  assert.deepEqual(await path.call(reading("s1", "c3", "/elsewhere")), deny("no_grant"));
  assert.deepEqual(await path.call(reading("s1", "c4")), RAN);
});

// ── The result before its answer ────────────────────────────────────────────────────────────────

/** Every operation between the end of a run and its answer, as it fails. */
const RESULT_FAULTS: Readonly<Record<string, { fault: Fault; raised: boolean }>> = {
  "the state cannot be read": {
    fault: ({ what, name }) => what === "lstat" && name === "s1.json" ? ioError() : null,
    raised: false,
  },
  "the state file cannot be made": {
    fault: ({ what }) => what === "create" ? diskFull() : null,
    raised: false,
  },
  "the state cannot be written": {
    fault: ({ what, name }) => what === "write" && name === "s1.json.tmp" ? diskFull() : null,
    raised: false,
  },
  "the state is written short": {
    fault: ({ what, name }) => what === "write" && name === "s1.json.tmp" ? 5 : null,
    raised: false,
  },
  "the state cannot be synced": {
    fault: ({ what, name }) => what === "sync" && name === "s1.json.tmp" ? ioError() : null,
    raised: false,
  },
  "the state cannot be put in its place": {
    fault: ({ what }) => what === "rename" ? ioError() : null,
    raised: false,
  },
  "the directory of the states cannot be synced": {
    fault: ({ what, name }) => what === "syncDirectory" && name === "sessions" ? ioError() : null,
    raised: true,
  },
  "the record cannot be written": {
    fault: ({ what, name }) => what === "write" && name === LOG ? diskFull() : null,
    raised: true,
  },
  "the record is cut short": {
    fault: ({ what, name }) => what === "write" && name === LOG ? 40 : null,
    raised: true,
  },
  "the record cannot be synced": {
    fault: ({ what, name }) => what === "sync" && name === LOG ? ioError() : null,
    raised: true,
  },
};

for (const [what, { fault, raised }] of Object.entries(RESULT_FAULTS)) {
  Deno.test(`no content leaves before its taint and its record are on disk: ${what}`, async () => {
    using path = allowing();
    await path.call(reading("s1", "c0"));
    path.grant("read", { result_class: "secret" });
    path.runtime.outcome = null;
    const { answer } = path.pipeline.begin(reading("s1", "c1"));
    path.files.fault = fault;
    path.runtime.runs[1]?.end({ status: "result", content: "treasure", truncated: false });
    assert.deepEqual(await answer, NOT_RECORDED);
    path.files.fault = () => null;

    assert.equal(path.stateOf("s1")?.taint, raised ? "secret" : "private");
    const written = [...namesOf(path.audit)].map((name) =>
      Deno.readTextFileSync(`${path.audit}/${name}`)
    );
    assert.ok(!written.join().includes("treasure"));
    assert.ok(!path.said.join().includes("treasure"));
    const pointer = what.includes("record") ? "audit-unavailable" : "result-not-recorded";
    assert.ok(path.said.some((line) => line.includes(`docs/runbook.md#${pointer}`)));

    path.restart();
    path.runtime.outcome = { status: "result", content: "treasure", truncated: false };
    const given = { ...RAN, content: "treasure", class: "secret" };
    assert.deepEqual(await path.call(reading("s1", "c2")), given, "with a disk that works");
    assert.equal(path.report().failure, null);
  });
}

Deno.test("a state that was spoiled while the tool ran keeps its content back", async () => {
  using path = allowing();
  path.runtime.outcome = null;
  for (const [at, end] of [CONTENT, { status: "unavailable", message: "no" } as const].entries()) {
    const { answer } = path.pipeline.begin(reading("s1", `c${at}`));
    Deno.writeTextFileSync(`${path.sessions}/s1.json`, "{");
    path.runtime.runs[at]?.end(end);
    assert.deepEqual(await answer, NOT_RECORDED);
    assert.equal(Deno.readTextFileSync(`${path.sessions}/s1.json`), "{", "left as it was");
    Deno.removeSync(`${path.sessions}/s1.json`);
  }
});

// ── What the operator is told ───────────────────────────────────────────────────────────────────

Deno.test("each set of problems of the grants is told once, and that they are gone", async () => {
  using path = allowing();
  const told = () => path.said.splice(0).filter((line) => line.includes("grants"));
  const denyAll = async () => {
    for (const call of ["c1", "c2"]) {
      assert.deepEqual(await path.call(reading("s1", call)), deny("grants_invalid"));
    }
  };
  path.grant("x", { tool: "clock" });
  await denyAll();
  const pointer = "every call is denied until this is fixed; see docs/runbook.md#grants-invalid";
  const first = "grants: x.toml:1: tool is not one of read_file, write_file, shell, http_fetch";
  assert.deepEqual(told(), [first, pointer]);
  path.grant("y", { constraints: {} });
  await denyAll();
  assert.deepEqual(told(), [
    first,
    "grants: y.toml: read_file needs paths in [constraints]",
    pointer,
  ]);
  path.removeGrant("y");
  await denyAll();
  assert.deepEqual(told(), [first, pointer]);
  path.removeGrant("x");
  assert.deepEqual(await path.call(reading("s1", "c1")), RAN);
  assert.deepEqual(await path.call(reading("s1", "c2")), RAN);
  assert.deepEqual(told(), ["grants: valid again"]);
});

Deno.test("the grants can be checked without a call, and nothing is recorded", () => {
  using path = allowing();
  assert.deepEqual(path.pipeline.checkGrants(), []);
  path.grant("x", { tool: "clock" });
  const problem = "tool is not one of read_file, write_file, shell, http_fetch";
  assert.deepEqual(path.pipeline.checkGrants(), [{ file: "x.toml", line: 1, problem }]);
  assert.deepEqual(path.events(), []);
});

Deno.test("a session whose state cannot be read is named once, with what to do", async () => {
  using path = allowing();
  for (const session of ["s1", "s2"]) {
    Deno.mkdirSync(`${path.sessions}/${session}.json`);
    for (const call of ["c1", "c2"]) {
      assert.deepEqual(await path.call(reading(session, call)), deny("state_unreadable"));
    }
    const told = path.said.splice(0);
    assert.equal(told.length, 2);
    assert.match(told[0] ?? "", new RegExp(`every call of session ${session} is denied`));
    assert.equal(told[1], "see docs/runbook.md#broker-state-damaged");
  }
  const allowed: DecisionRecord = { outcome: "allowed" };
  await path.call(reading("s3", "c1"));
  const last = path.events().at(-2);
  assert.ok(last?.type === "decision");
  assert.deepEqual(last.outcome, allowed);
});
