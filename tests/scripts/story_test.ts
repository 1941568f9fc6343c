/** What the demo and the device check hold an outcome against: each thing that can be wrong is found. */
import assert from "node:assert/strict";
import { type AuditEvent, AuditRecord, encodeRecord } from "../../proto/audit.ts";
import { ZERO_HASH } from "../../proto/ids.ts";
import { checksOf, type Shown } from "../../scripts/device_check.ts";
import {
  inWords,
  type Outcome,
  outcomeLines,
  problemsOf,
  recordsIn,
  type Step,
} from "../../scripts/support/story.ts";
import { TempDir } from "../support/scripts.ts";

const PURE = { permissions: "none" } as const;

const call = { session: "s1", call: "c1" } as const;
const decision: AuditEvent = {
  type: "decision",
  ...call,
  tool: "read_file",
  arguments: '{"path":"/n/a"}',
  outcome: { outcome: "ask" },
  grant: "notes-read",
  grant_sha256: ZERO_HASH,
  taint: "private",
  untrusted: false,
};
const approval: AuditEvent = {
  type: "approval",
  ...call,
  decision: 7,
  answer: "approved",
  by: "bxctl",
  post: null,
  reason: null,
  outcome: { outcome: "ask" },
};
const result: AuditEvent = {
  type: "result",
  ...call,
  decision: 7,
  status: "failed",
  class: "public",
  untrusted: false,
  truncated: false,
  bytes: 24,
  sha256: ZERO_HASH,
  taint_after: "private",
};

function records(...events: AuditEvent[]): AuditRecord[] {
  return events.map((event, index) => ({
    seq: 7 + index,
    time: "2026-12-01T10:00:00.000Z",
    prev: ZERO_HASH,
    event,
  }));
}

const STEP: Step = {
  title: "approved",
  say: "read /n/a",
  answer: "approve",
  tool: "read_file",
  result: { status: "failed", content: "later" },
  records: [
    "decision on read_file: ask, grant notes-read",
    "approval approved: ask",
    "result: failed",
  ],
};

const GOOD: Outcome = {
  approval: 7,
  answered: "approved 7: runs",
  result: {
    type: "tool_result",
    call: "c1",
    tool: "read_file",
    status: "failed",
    content: "later",
  },
  text: "The tool said: later",
  done: true,
  records: records(decision, approval, result),
};

Deno.test("an outcome that is as it must be has no problem", PURE, () => {
  assert.deepEqual(problemsOf(STEP, GOOD), []);
  const denied: Step = {
    ...STEP,
    answer: null,
    result: { status: "denied", content: "no" },
    records: ["decision on read_file: denied no_grant, grant -"],
  };
  const outcome: Outcome = {
    ...GOOD,
    approval: null,
    answered: null,
    result: { type: "tool_result", call: "c1", tool: "read_file", status: "denied", content: "no" },
    records: records({
      ...decision,
      outcome: { outcome: "denied", reason: "no_grant" },
      grant: null,
    }),
  };
  assert.deepEqual(problemsOf(denied, outcome), []);
  assert.deepEqual(problemsOf(denied, { ...outcome, approval: 7 }), ["the owner was asked"]);
});

const WRONG: Readonly<Record<string, readonly [Partial<Outcome>, RegExp]>> = {
  "no approval": [{ approval: null }, /^the owner was not asked$/],
  "another approval": [{ approval: 8, answered: "approved 8: runs" }, /^approval 8 is of the/],
  "another answer": [{ answered: "approved 7: denied (no_grant)" }, /^bxctl said "approved 7: den/],
  "no result": [{ result: null }, /^the call was of undefined, not of read_file$/],
  "another tool": [
    {
      result: {
        type: "tool_result",
        call: "c1",
        tool: "shell",
        status: "failed",
        content: "later",
      },
    },
    /^the call was of shell, not of read_file$/,
  ],
  "another status": [
    {
      result: {
        type: "tool_result",
        call: "c1",
        tool: "read_file",
        status: "result",
        content: "later",
      },
    },
    /^the call was result, not failed$/,
  ],
  "other words": [
    {
      result: {
        type: "tool_result",
        call: "c1",
        tool: "read_file",
        status: "failed",
        content: "never",
      },
    },
    /^the model was told "never", not "later"$/,
  ],
  "no end": [{ done: false }, /^the turn did not come to its end$/],
  "a record too few": [{ records: records(decision, approval) }, /^the log gained \[/],
  "a record too many": [
    { records: records(decision, approval, result, result) },
    /^the log gained \[/,
  ],
  "records in another order": [
    { records: records(decision, result, approval) },
    /^the log gained \[/,
  ],
  "a record of another decision": [
    { records: records(decision, { ...approval, decision: 6 }, result) },
    /^a record belongs to 6 and not to the decision 7$/,
  ],
};

for (const [name, [wrong, problem]] of Object.entries(WRONG)) {
  Deno.test(`${name} is found`, PURE, () => {
    const problems = problemsOf(STEP, { ...GOOD, ...wrong });
    assert.ok(problems.some((words) => problem.test(words)), problems.join("; "));
  });
}

Deno.test("every kind of record has words of its own", PURE, () => {
  const words = [
    decision,
    { ...decision, outcome: { outcome: "allowed" } } as const,
    { ...decision, outcome: { outcome: "denied", reason: "no_grant" } } as const,
    { ...decision, grant: null },
    approval,
    { ...approval, answer: "expired" } as const,
    result,
    { ...result, status: "result" } as const,
    { type: "recovery", torn_bytes: 1, torn_sha256: ZERO_HASH } as const,
    { type: "accepted_break", file: "f", line: 1, last_good: ZERO_HASH } as const,
  ].map(inWords);
  assert.equal(new Set(words).size, words.length);
});

Deno.test("what is shown of an outcome is data", PURE, () => {
  const lines = outcomeLines(STEP, { ...GOOD, text: "two\nlines \u001b[2J" });
  assert.deepEqual(lines, [
    "> read /n/a",
    "[approval 7] approved 7: runs",
    "[failed] read_file: later",
    "model: two",
    "model: lines \\u001b[2J",
    "log 7: decision on read_file: ask, grant notes-read",
    "log 8: approval approved: ask",
    "log 9: result: failed",
  ]);
});

Deno.test("the records are read from all files in order; a line that is none is named", () => {
  using place = new TempDir();
  const [first, second] = records(decision, approval).map((record) =>
    new TextDecoder().decode(encodeRecord(record))
  );
  place.write("2026-12-02.jsonl", `${second}\n`);
  place.write("2026-12-01.jsonl", `${first}\n`);
  place.write("head.json", "{}\n");
  assert.deepEqual(recordsIn(place.path), records(decision, approval));
  place.write("2026-12-02.jsonl", `${second}\n{"seq":9}\n`);
  assert.throws(() => recordsIn(place.path), /^Error: 2026-12-02\.jsonl:2 is no record$/);
});

const WANTED = { line: "[result] read_file # Shopping", record: "result: result" };
const SHOWN: Shown = {
  code: 0,
  approval: { number: 0, call: '    read_file {"path":"/n/a.md"}' },
  answered: "approved 0: runs",
  lines: [
    "[reasoning] I read.",
    '[call] read_file {"path":"/n/a.md"}',
    "0  0 sec ago  expires in 15 min  session s1  grant notes-read  taint private",
    '    read_file {"path":"/n/a.md"}',
    "[result] read_file # Shopping\\u000a",
    "[reasoning] There it is.",
    "It is a list.",
  ],
};

Deno.test("the device check fails for each thing that does not come", PURE, () => {
  const failing = (shown: Shown) =>
    checksOf(shown, "/n/a.md", WANTED).filter(([, holds]) => !holds).map(([name]) => name);
  assert.deepEqual(failing(SHOWN), []);
  const { lines } = SHOWN;
  const wrong: Readonly<Record<string, Partial<Shown>>> = {
    "the approval block appears": { approval: null, answered: "approved undefined: runs" },
    "it shows the call": { approval: { number: 0, call: '    read_file {"path":"/n/b.md"}' } },
    "approving it lets it run": { answered: "approved 0: denied (no_grant)" },
    "it comes out as it must, and the model is told": {
      lines: lines.filter((line) => !line.startsWith("[result]")),
    },
    "the model reports it in words": { lines: lines.slice(0, -1) },
    "the turn comes to its end": { code: 1 },
  };
  assert.deepEqual(Object.keys(wrong), checksOf(SHOWN, "/n/a.md", WANTED).map(([name]) => name));
  for (const [name, change] of Object.entries(wrong)) {
    assert.ok(failing({ ...SHOWN, ...change }).includes(name), name);
  }
});
