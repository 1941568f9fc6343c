/** `bxctl why`, `grants test` and `grants replay` as they read: golden outputs, hostile texts included. */
import assert from "node:assert/strict";
import { replayGrants } from "../../ctl/grants_replay.ts";
import { testGrants } from "../../ctl/grants_try.ts";
import { Failed } from "../../ctl/notices.ts";
import { why } from "../../ctl/why.ts";
import { mayBeDecision } from "../../ctl/audit_records.ts";
import { type AuditEvent, encodeRecord, parseRecord } from "../../proto/audit.ts";
import { denied } from "../../proto/decisions.ts";
import { acceptedBreak, approval, LogBuilder, recovery } from "../support/chain_log.ts";
import { ALLOWED, ASK, decided, DecidedHome, NO_GRANT, raised } from "../support/decided_log.ts";
import type { GrantFields } from "../support/grants.ts";

const READ: GrantFields = { constraints: { paths: ["/n"] } };
const BY_A = { id: "a", fields: READ };
const FETCH: GrantFields = { tool: "http_fetch", constraints: { hosts: ["example.com"] } };

Deno.test("why: what was recorded, and that today's grants come to the same", () => {
  using home = new DecidedHome({ a: READ, b: { ...READ, max_taint: "public" }, c: FETCH });
  home.log.add(decided(ALLOWED, BY_A));
  assert.equal(why(home.write().places, 0, home.io, false), 0);
  assert.equal(
    home.said(),
    `decision 0  2026-12-01T10:00:00.000Z  session s1  taint private
    read_file {"path":"/n/a"}
recorded: allowed by a
with the grants as they are now it comes out the same:
allowed: grant a lets it run
  a.toml:2: decides: mode auto, its path "/n" contains "/n/a"
  b.toml:3: ruled out: its max_taint is public, and the taint is private
of other tools: 1 grant
`,
  );
  assert.equal(home.io.err, "");
});

Deno.test("a record that a crash tore off and a recovery describes was never decided", () => {
  using home = new DecidedHome({ a: READ });
  home.log.add(decided(ALLOWED, BY_A));
  const torn = encodeRecord({
    ...{ seq: 1, time: "2026-12-01T10:00:00.000Z", prev: home.log.head },
    event: decided(ALLOWED, BY_A),
  });
  home.log.raw(torn);
  assert.equal(why(home.write().places, 1, home.io, false), 0);
  home.said();
  replayGrants(home.places, null, home.io, true);
  assert.equal(JSON.parse(home.said()).decisions, 2);
  home.log.add(recovery([torn]));
  home.write();
  assert.throws(() => why(home.places, 1, home.io, false), Failed);
  home.said();
  replayGrants(home.places, null, home.io, true);
  assert.equal(JSON.parse(home.said()).decisions, 1);
});

Deno.test("why: that it comes out differently, and that the grant's file is another or gone", () => {
  using home = new DecidedHome({ a: { ...READ, mode: "ask" } });
  home.log.add(decided(ALLOWED, BY_A)).add(decided(ALLOWED, { id: "old", fields: READ }))
    .add(decided(ASK, { id: "a", fields: { ...READ, mode: "ask" } }));
  home.write();
  const lines = (seq: number) => {
    assert.equal(why(home.places, seq, home.io, false), 0);
    return home.said().split("\n").slice(2);
  };
  const now = [
    "with the grants as they are now it comes out differently:",
    "ask: grant a lets it run once the owner approves",
    '  a.toml:2: decides: mode ask, its path "/n" contains "/n/a"',
    "",
  ];
  const changed = "grant a has been changed since: its file is not the one recorded";
  assert.deepEqual(lines(0), ["recorded: allowed by a", changed, ...now]);
  const gone = "grant old is not among the grants any more";
  assert.deepEqual(lines(1), ["recorded: allowed by old", gone, ...now]);
  assert.deepEqual(lines(2), [
    ...["recorded: ask by a", "no answer is in the log"],
    "with the grants as they are now it comes out the same:",
    ...now.slice(1),
  ]);
  why(home.places, 0, home.io, true);
  const json = JSON.parse(home.said());
  assert.deepEqual(
    [json.record.seq, json.same_outcome, json.grant_file, json.now.outcome, json.now.grant],
    [0, false, "changed", ASK, "a"],
  );
});

Deno.test("why: of a call that was asked for, what the answer made of it", () => {
  using home = new DecidedHome({ a: { ...READ, mode: "ask" } });
  const asked = decided(ASK, { id: "a", fields: { ...READ, mode: "ask" } });
  const tooHigh = { ...approval(1, "approved"), outcome: denied("taint_too_high") } as const;
  home.log.add(asked).add(asked).add(asked).add(asked).add(asked)
    .add(approval(2, "refused")).add(tooHigh).add(approval(0, "approved"))
    .add(approval(3, "expired"));
  const torn = encodeRecord({
    ...{ seq: 9, time: "2026-12-01T10:00:00.000Z", prev: home.log.head },
    event: approval(4, "approved"),
  });
  home.log.raw(torn).add(recovery([torn]));
  home.write();
  // A file after them that cannot be read takes nothing from what is known.
  Deno.mkdirSync(`${home.places.audit}/2026-12-09.jsonl`);
  const answers = [0, 1, 2, 3, 4].map((seq) => {
    assert.equal(why(home.places, seq, home.io, false), 0);
    return home.said().split("\n")[3];
  });
  assert.deepEqual(answers, [
    "record 7: approved by bxctl, then let run",
    "record 6: approved by bxctl, then denied (taint_too_high)",
    "record 5: refused by bxctl, then denied (approval_refused)",
    "record 8: expired, then denied (approval_expired)",
    "no answer is in the log",
  ]);
  const numbers = [1, 4].map((seq) => {
    why(home.places, seq, home.io, true);
    return JSON.parse(home.said()).answer?.seq ?? null;
  });
  assert.deepEqual(numbers, [6, null]);
});

Deno.test("why: the time and the taint are those recorded", () => {
  const expires = "2026-12-01T10:00:00.000Z";
  using home = new DecidedHome({ a: { ...READ, expires, max_taint: "private" } });
  home.log.add(decided(ALLOWED, BY_A), { time: "2026-12-01T09:59:59.999Z" })
    .add(decided(denied("grant_expired"), null), { time: expires })
    .add(decided(denied("taint_too_high"), null, { taint: "secret" }), {
      time: "2026-12-01T09:00:00.000Z",
    })
    .add(decided(denied("state_unreadable"), null, { taint: "secret", untrusted: true }));
  home.write();
  for (const seq of [0, 1, 2, 3]) {
    why(home.places, seq, home.io, true);
    const { same_outcome, now } = JSON.parse(home.said());
    assert.ok(same_outcome, `${seq}: ${JSON.stringify(now)}`);
  }
});

Deno.test("why: a record that is not there, or no decision, is told", () => {
  using home = new DecidedHome({ a: READ });
  home.log.add(decided(ASK, BY_A)).add(approval(0, "approved"));
  home.write();
  const told = (seq: number, code: string, lines: readonly string[]) =>
    assert.throws(() => why(home.places, seq, home.io, false), (error) => {
      assert.ok(error instanceof Failed);
      assert.deepEqual([error.code, error.lines], [code, lines]);
      return true;
    });
  told(7, "no_such_record", [
    "no record 7 is in the audit log",
    "see bxctl audit log for the calls there are",
  ]);
  told(1, "not_a_decision", [
    "record 1 is of type approval, and no decision",
    "it belongs to the decision 0: bxctl why 0",
  ]);
  assert.equal(why(home.places, 0, home.io, false), 0);
});

Deno.test("why: what the model and the log say moves no cursor", () => {
  using home = new DecidedHome({ a: READ });
  home.log.add(decided(NO_GRANT, null, {
    tool: "re\x1b[2Jad\u202e",
    arguments: '{"path":"\x1b]0;x\x07"}',
  })).add(decided(ALLOWED, BY_A, { arguments: '{"path":"/n/\\u001b[2J\u200b"}', grant: "\x1bg" }));
  home.write();
  for (const seq of [0, 1]) {
    for (const json of [false, true]) {
      why(home.places, seq, home.io, json);
      assert.match(home.said(), /^[\x20-\x7e\n]+$/);
    }
  }
  why(home.places, 1, home.io, false);
  assert.match(home.said(), /contains "\/n\/\\\\?u001b\[2J\\u200b"/);
});

Deno.test("grants test: a call that would be made, in a new session, at a taint, in a session of the log", () => {
  using home = new DecidedHome({ a: { ...READ, max_taint: "private" } });
  home.log.add(decided(ALLOWED, BY_A)).add(raised(0, "secret"))
    .add(decided(ALLOWED, BY_A, { session: "s2" }));
  home.write();
  const call = { tool: "read_file", arguments: '{"path":"/n/b"}', session: null, taint: null };
  const test = (differs: Partial<Parameters<typeof testGrants>[1]>) => {
    assert.equal(testGrants(home.places, { ...call, ...differs }, home.io, false), 0);
    return home.said();
  };
  assert.equal(
    test({}),
    `a new session  taint private
    read_file {"path":"/n/b"}
allowed: grant a lets it run
  a.toml:2: decides: mode auto, its path "/n" contains "/n/b"
`,
  );
  const tooHigh = `taint secret
    read_file {"path":"/n/b"}
denied (taint_too_high): a grant would cover it, but not at this taint
  a.toml:3: ruled out: its max_taint is private, and the taint is secret
`;
  assert.equal(test({ taint: "secret" }), `a new session  ${tooHigh}`);
  assert.equal(test({ session: "s1" }), `session s1  ${tooHigh}`);
  assert.match(test({ session: "s2" }), /^session s2 {2}taint private\n.*\nallowed: /);
  assert.equal(home.io.err, "");
  assert.match(test({ session: "s3" }), /^session s3 {2}taint private\n/);
  assert.equal(
    home.io.err,
    "bxctl: session s3 is not in the audit log: decided as in a new one\n",
  );
  // Of a session whose state brokerd could not read, at a call or at its approval, it can decide nothing.
  const unreadable = denied("state_unreadable");
  const damaged = { session: "s4", taint: "secret", untrusted: true } as const;
  home.log.add(decided(ALLOWED, BY_A, { session: "s4" })).add(decided(unreadable, null, damaged))
    .add(decided(ASK, BY_A, { session: "s5" }))
    .add({ ...approval(5, "approved"), session: "s5", outcome: unreadable } as AuditEvent);
  home.write();
  for (const session of ["s4", "s5"] as const) {
    home.io.err = "";
    assert.match(test({ session }), /taint secret\n.*\ndenied \(state_unreadable\): /);
    assert.equal(
      home.io.err,
      `bxctl: at the last call of session ${session} brokerd could not read its state; ` +
        "see docs/runbook.md#broker-state-damaged\n",
    );
  }
  testGrants(home.places, { ...call, session: "s1" }, home.io, true);
  const json = JSON.parse(home.said());
  assert.deepEqual(
    [json.taint, json.session, json.time, json.outcome, json.candidates[0].clauses[0].line],
    ["secret", "s1", "2026-12-01T10:00:00.000Z", denied("taint_too_high"), 3],
  );
});

Deno.test("grants test: invalid grants are the explanation, and end with 1", () => {
  using home = new DecidedHome({ a: READ });
  const call = { tool: "read_file", arguments: '{"path":"/n/b"}', session: null, taint: null };
  assert.equal(testGrants(home.places, call, home.io, false), 0);
  home.said();
  Deno.writeTextFileSync(`${home.layout.grants}/b.toml`, "x = 1\n");
  Deno.mkdirSync(`${home.layout.grants}/d.toml`);
  assert.equal(testGrants(home.places, call, home.io, false), 1);
  assert.equal(
    home.said().split("\n").slice(2).filter((line) => !line.includes("missing")).join("\n"),
    `denied (grants_invalid): a grant file is invalid, and then every call is denied
  b.toml:1: unknown key x
  d.toml: is not a regular file
`,
  );
  assert.equal(
    home.io.err,
    "bxctl: with these grants every call would be denied; see docs/runbook.md#grants-invalid\n",
  );
});

Deno.test("grants replay: what would come out differently, by grant", () => {
  using home = new DecidedHome();
  const others = home.grantsAt(`${home.root}/others`, {
    b: { ...READ, mode: "ask" },
    c: { constraints: { paths: ["/m"] }, expires: "2026-12-01T11:00:00.000Z" },
  });
  const inM = { arguments: '{"path":"/m/a"}', session: "s2" };
  home.log.add(decided(ALLOWED, BY_A)).add(raised(0, "private"))
    .add(decided(ASK, BY_A))
    .add(decided(NO_GRANT, null, inM)).add(decided(NO_GRANT, null, inM), {
      time: "2026-12-01T11:00:00.000Z",
    })
    .add(decided(ALLOWED, { id: "old", fields: READ }, { arguments: '{"path":"/o"}' }))
    .add(decided(NO_GRANT, null, { arguments: '{"path":"/o"}' }));
  home.log.file("2026-12-02.jsonl").add(decided(ALLOWED, BY_A));
  home.write();
  const places = { ...home.places, grants: others };
  assert.equal(replayGrants(places, null, home.io, false), 0);
  const time = "2026-12-01T10:00:00.000Z";
  assert.equal(
    home.said(),
    `replayed 7 decisions: 5 would come out differently
grant b: 2
  0  ${time}  session s1  read_file  allowed by a -> ask by b
  7  2026-12-02T10:00:00.000Z  session s1  read_file  allowed by a -> ask by b
grant c: 1
  3  ${time}  session s2  read_file  denied (no_grant) -> allowed by c
grant old: 1
  5  ${time}  session s1  read_file  allowed by old -> denied (no_grant)
no grant: 1
  4  2026-12-01T11:00:00.000Z  session s2  read_file  denied (no_grant) -> denied (grant_expired)
1 would come out as recorded, by another grant than recorded
`,
  );
  assert.equal(home.io.err, "");
  // Since a day, since a moment within one.
  const decisions = (since: string) => {
    replayGrants(places, since, home.io, true);
    const { decisions, differing } = JSON.parse(home.said());
    return [decisions, differing];
  };
  assert.deepEqual(decisions("2026-12-02T00:00:00.000Z"), [1, 1]);
  assert.deepEqual(decisions("2026-12-01T10:00:00.001Z"), [2, 2]);
  assert.deepEqual(decisions("2026-12-01T10:00:00.000Z"), [7, 5]);
  assert.deepEqual(decisions("2026-12-03T00:00:00.000Z"), [0, 0]);
});

Deno.test("grants replay: only an approval and a result are passed over unparsed", () => {
  const log = new LogBuilder().file("2026-12-01.jsonl");
  const events = [decided(NO_GRANT, null), approval(0, "approved"), raised(0, "secret")];
  const others = [recovery([]), acceptedBreak({ file: "a", line: 1 }, "0".repeat(64))];
  for (const seq of [0, 9, 10, 9007199254740990]) {
    for (const event of [...events, ...others]) log.add(event, { seq });
  }
  const lines = log.lines().flatMap(({ lines }) => lines);
  assert.equal(lines.length, 20);
  for (const line of lines) {
    const record = parseRecord(line);
    assert.ok(record !== null);
    const passed = ["approval", "result"].includes(record.event.type);
    assert.equal(mayBeDecision(line), !passed, new TextDecoder().decode(line));
  }
  for (const line of ["", "{}", ",", "x".repeat(300)]) {
    assert.ok(mayBeDecision(new TextEncoder().encode(line)));
  }
});

Deno.test("grants replay: lists a hundred calls of a grant and counts the rest", () => {
  using home = new DecidedHome({ a: READ });
  for (let n = 0; n < 103; n += 1) home.log.add(decided(NO_GRANT, null));
  home.write();
  assert.equal(replayGrants(home.places, null, home.io, false), 0);
  const lines = home.said().split("\n");
  assert.deepEqual([lines[1], lines.at(-2), lines.length], ["grant a: 103", "  … and 3 more", 104]);
  replayGrants(home.places, null, home.io, true);
  const { groups: [group] } = JSON.parse(home.said());
  assert.deepEqual([group.count, group.calls.length], [103, 100]);
});

Deno.test("grants replay: invalid grants decide nothing, and lines that are no records are told", () => {
  using home = new DecidedHome({ a: READ });
  home.log.add(decided(ALLOWED, BY_A)).raw(new TextEncoder().encode("{}"));
  home.write();
  assert.equal(replayGrants(home.places, null, home.io, false), 0);
  assert.equal(home.said(), "replayed 1 decision: 0 would come out differently\n");
  assert.equal(
    home.io.err,
    "bxctl: lines of the log that are no records were passed over: 1; " +
      "see docs/runbook.md#audit-chain-broken\n",
  );
  Deno.writeTextFileSync(`${home.layout.grants}/a.toml`, "x = \x1b\n");
  for (const json of [false, true]) {
    assert.equal(replayGrants(home.places, null, home.io, json), 1);
    assert.match(home.said(), json ? /^\{"problems":\[\{"file":"a.toml"/ : /^a\.toml:1: not valid/);
  }
  const nowhere = { ...home.places, grants: `${home.root}/nowhere` };
  assert.equal(replayGrants(nowhere, null, home.io, false), 1);
  assert.match(home.said(), /nowhere: the grants directory cannot be read: /);
});
