import assert from "node:assert/strict";
import { Admin } from "../../ctl/admin.ts";
import { listApprovals, showApproval } from "../../ctl/approvals.ts";
import { approve } from "../../ctl/approve.ts";
import { checkGrants } from "../../ctl/grants_check.ts";
import { Failed } from "../../ctl/notices.ts";
import { refuse } from "../../ctl/refuse.ts";
import { CtlHome, Recorder } from "../support/ctl.ts";
import { type GrantFields, grantFile } from "../support/grants.ts";
import { FakeBroker, pending } from "../support/daemons.ts";

/** A fake brokerd, and how to ask it. */
class Bench implements Disposable {
  readonly #home = new CtlHome();
  readonly broker = new FakeBroker(this.#home.layout.adminSocket);
  readonly admin = new Admin(this.#home.layout.adminSocket);
  readonly io = new Recorder();
  readonly grants = this.#home.layout.grants;

  constructor() {
    Deno.mkdirSync(this.grants);
  }

  [Symbol.dispose](): void {
    this.broker[Symbol.dispose]();
    this.#home[Symbol.dispose]();
  }
}

const failsWith = (code: string) => (error: unknown) =>
  error instanceof Failed && error.code === code;

Deno.test("approvals lists what waits, by number, from all frames of the answer", async () => {
  using bench = new Bench();
  const { broker, admin, io } = bench;
  broker.items = [7, 3, 41, 5, 12].map((approval) =>
    pending({ approval, arguments: `${approval}` })
  );
  broker.perFrame = 2;
  assert.equal(await listApprovals(admin, io, false), 0);
  assert.equal(
    io.out,
    [3, 5, 7, 12, 41].map((id) =>
      `${id}  2 min ago  expires in 13 min  session chat-1  grant shell-scratch  taint private\n` +
      `    shell ${id}\n`
    ).join(""),
  );
  assert.equal(io.err, "");
});

Deno.test("approvals says so when nothing waits", async () => {
  using bench = new Bench();
  assert.equal(await listApprovals(bench.admin, bench.io, false), 0);
  assert.equal(bench.io.out, "no approvals are pending\n");
});

Deno.test("approvals --json is one list of what brokerd sent", async () => {
  using bench = new Bench();
  const { broker, admin, io } = bench;
  assert.equal(await listApprovals(admin, io, true), 0);
  assert.equal(io.out, "[]\n");
  io.out = "";
  broker.items = [pending({ arguments: "\x1b[2J\u202e" }), pending({ approval: 3 })];
  broker.perFrame = 1;
  await listApprovals(admin, io, true);
  assert.deepEqual(JSON.parse(io.out), [pending({ approval: 3 }), broker.items[0]]);
  assert.match(io.out, /^[\x20-\x7e]*\n$/);
});

Deno.test("approvals show prints one call in full, however long", async () => {
  using bench = new Bench();
  const { broker, admin, io } = bench;
  const args = "x".repeat(300_000);
  broker.items = [pending({ approval: 40 }), pending({ arguments: args })];
  await listApprovals(admin, io, false);
  assert.ok(io.out.includes("… 298100 more characters, bxctl approvals show 41 …"));
  io.out = "";
  assert.equal(await showApproval(admin, io, false, 41), 0);
  assert.equal(
    io.out,
    "41  2 min ago  expires in 13 min  session chat-1  grant shell-scratch  taint private\n" +
      `    shell ${args}\n`,
  );
  io.out = "";
  await showApproval(admin, io, true, 40);
  assert.deepEqual(JSON.parse(io.out), pending({ approval: 40 }));
  await assert.rejects(showApproval(admin, io, false, 42), failsWith("no_such_approval"));
});

Deno.test("approve says whether the call runs", async () => {
  using bench = new Bench();
  const { broker, admin, io } = bench;
  for (
    const [outcome, said] of [
      [{ outcome: "ask" }, "runs"],
      [{ outcome: "allowed" }, "runs"],
      [{ outcome: "denied", reason: "taint_too_high" }, "denied (taint_too_high)"],
    ] as const
  ) {
    broker.items = [pending()];
    broker.outcome = outcome;
    io.out = "";
    // A denial is an answer too: status 0.
    assert.equal(await approve(admin, io, false, 41), 0);
    assert.equal(io.out, `approved 41: ${said}\n`);
    broker.items = [pending()];
    io.out = "";
    assert.equal(await approve(admin, io, true, 41), 0);
    assert.deepEqual(JSON.parse(io.out), { approval: 41, answer: "approved", outcome });
  }
  await assert.rejects(approve(admin, io, false, 41), failsWith("no_such_approval"));
});

Deno.test("refuse sends the reason along", async () => {
  using bench = new Bench();
  const { broker, admin, io } = bench;
  broker.items = [pending(), pending({ approval: 42 })];
  assert.equal(await refuse(admin, io, false, 41, "not today"), 0);
  assert.equal(io.out, "refused 41\n");
  io.out = "";
  assert.equal(await refuse(admin, io, true, 42, null), 0);
  assert.deepEqual(JSON.parse(io.out), { approval: 42, answer: "refused" });
  assert.deepEqual(broker.answers.map(({ body }) => body), [
    { approval: 41, reason: "not today" },
    { approval: 42, reason: null },
  ]);
  await assert.rejects(refuse(admin, io, false, 41, null), failsWith("no_such_approval"));
});

Deno.test("an approval that is gone is told with what helps", async () => {
  using bench = new Bench();
  await assert.rejects(approve(bench.admin, bench.io, false, 41), (error) => {
    assert.ok(error instanceof Failed);
    assert.deepEqual(error.lines, [
      "no approval 41 is pending",
      "it was answered, or expired, or its call went away; see bxctl approvals",
    ]);
    return true;
  });
});

Deno.test("other errors of brokerd are told in words, with their runbook entry", async () => {
  using bench = new Bench();
  const { broker, admin, io } = bench;
  broker.error = { code: "audit_unavailable", message: "" };
  await assert.rejects(refuse(admin, io, false, 41, null), (error) => {
    assert.ok(error instanceof Failed && error.code === "audit_unavailable");
    assert.deepEqual(error.lines, [
      "brokerd cannot write the audit log",
      "see docs/runbook.md#audit-unavailable",
    ]);
    return true;
  });
  broker.error = { code: "internal", message: "bad\x1b[2J" };
  await assert.rejects(listApprovals(admin, io, false), (error) => {
    assert.ok(error instanceof Failed && error.code === "internal");
    assert.deepEqual(error.lines, [
      "brokerd refused the request (internal): bad\\u001b[2J",
      "see docs/runbook.md#broker-unavailable",
    ]);
    return true;
  });
});

Deno.test("grants check prints each problem where it is, and fails", async () => {
  using bench = new Bench();
  const { broker, admin, io } = bench;
  assert.equal(await checkGrants(admin, bench.grants, io, false), 0);
  assert.equal(io.out, "grants: ok\n");
  assert.equal(io.err, "");
  io.out = "";
  broker.problems = [
    { file: "notes.toml", line: 3, problem: "unknown key max_tain" },
    { file: "\x1b.toml", line: null, problem: "bad stem\u202e" },
  ];
  assert.equal(await checkGrants(admin, bench.grants, io, false), 1);
  assert.equal(
    io.out,
    "notes.toml:3: unknown key max_tain\n\\u001b.toml: bad stem\\u202e\n",
  );
  assert.match(io.err, /see docs\/runbook\.md#grants-invalid\n$/);
  io.out = "";
  assert.equal(await checkGrants(admin, bench.grants, io, true), 1);
  assert.deepEqual(JSON.parse(io.out), { problems: broker.problems, warnings: [] });
  broker.problems = [];
  io.out = "";
  assert.equal(await checkGrants(admin, bench.grants, io, true), 0);
  assert.deepEqual(JSON.parse(io.out), { problems: [], warnings: [] });
});

Deno.test("grants check warns of what is valid and may surprise, with 0", async () => {
  using bench = new Bench();
  const { broker, admin, io, grants } = bench;
  const write = (name: string, fields: GrantFields) =>
    Deno.writeTextFileSync(`${grants}/${name}`, grantFile(fields));
  write("all.toml", { constraints: { paths: ["/"] } });
  write("\x1b.toml.off", {});
  write("web.toml", { tool: "http_fetch", constraints: { hosts: ["*.co.uk"] } });
  assert.equal(await checkGrants(admin, grants, io, false), 0);
  const warnings = [
    { file: "all.toml", line: 6, warning: "its path / covers every file" },
    { file: "web.toml", line: 6, warning: "*.co.uk covers names that anybody can get" },
  ];
  const lines = warnings.map(({ file, line, warning }) => `${file}:${line}: warning: ${warning}\n`);
  assert.equal(io.out, `grants: ok\n${lines.join("")}`);
  assert.equal(io.err, "");
  io.out = "";
  assert.equal(await checkGrants(admin, grants, io, true), 0);
  assert.deepEqual(JSON.parse(io.out), { problems: [], warnings });

  // What brokerd finds wrong counts, whether or not the files can be used here.
  Deno.writeTextFileSync(`${grants}/bad.toml`, "x = \x1b\n");
  broker.problems = [{ file: "bad.toml", line: 1, problem: "not valid TOML" }];
  io.out = "";
  assert.equal(await checkGrants(admin, grants, io, true), 1);
  assert.deepEqual(JSON.parse(io.out), { problems: broker.problems, warnings: null });
  assert.match(
    io.err,
    /^bxctl: no warnings: the grants in .* could not be used: bad\.toml:1: not valid TOML/,
  );
  assert.match(io.err, /^[\x20-\x7e\n]+$/);
});

Deno.test("identical calls of a session are listed once, with their numbers, and --json has every one", async () => {
  using bench = new Bench();
  const { broker, admin, io } = bench;
  broker.items = [
    pending({ approval: 41 }),
    pending({ approval: 42, session: "chat-2" }),
    pending({ approval: 43, arguments: '{"command": "ls"}' }),
    pending({ approval: 44, tool: "read_file" }),
    pending({ approval: 45, grant: "other", taint: "secret" }),
    pending({ approval: 46 }),
  ];
  await listApprovals(admin, io, false);
  const facts = (id: number, session: string) =>
    `${id}  2 min ago  expires in 13 min  session ${session}  grant shell-scratch  taint private\n`;
  const alike = "    3 identical calls: 41, 45, 46; an answer is for one of them\n";
  assert.equal(
    io.out,
    `${facts(41, "chat-1")}    shell {"command":"ls"}\n${alike}` +
      `${facts(42, "chat-2")}    shell {"command":"ls"}\n` +
      `${facts(43, "chat-1")}    shell {"command": "ls"}\n` +
      `${facts(44, "chat-1")}    read_file {"command":"ls"}\n`,
  );
  io.out = "";
  await listApprovals(admin, io, true);
  assert.deepEqual(JSON.parse(io.out), broker.items);
  io.out = "";
  await showApproval(admin, io, false, 46);
  assert.equal(io.out, `${facts(46, "chat-1")}    shell {"command":"ls"}\n${alike}`);

  io.out = "";
  assert.equal(await approve(admin, io, false, 45), 0);
  assert.equal(io.out, "approved 45: runs\n");
  assert.equal(io.err, "bxctl: identical calls still wait: 41, 46\n");
  assert.deepEqual(broker.answers.map(({ body }) => body), [{ approval: 45 }], "exactly one");
});

Deno.test("what has changed since the ask is said below its call, and in --json", async () => {
  using bench = new Bench();
  const { broker, admin, io } = bench;
  const same = { grant: null, taint: null, untrusted: false, unreadable: false } as const;
  const lines = async () => {
    io.out = "";
    await listApprovals(admin, io, false);
    return io.out.split("\n").slice(2, -1);
  };
  broker.items = [pending({ taint: "public", grant: "notes\x1b" })];
  assert.deepEqual(await lines(), []);
  const cases = [
    [{ taint: "private" }, "the taint rose from public to private"],
    [{ untrusted: true }, "the session has seen untrusted content"],
    [{ unreadable: true }, "the session's state cannot be read"],
    [{ grant: "edited" }, "grant notes\\u001b.toml was edited"],
    [{ grant: "gone" }, "grant notes\\u001b.toml is gone"],
    [{ grant: "invalid" }, "the grants are not valid"],
    [
      { taint: "secret", grant: "edited", untrusted: true },
      "the taint rose from public to secret; the session has seen untrusted content; " +
      "grant notes\\u001b.toml was edited",
    ],
  ] as const;
  for (const [change, words] of cases) {
    const changed = { ...same, ...change };
    broker.changes = [{ approval: 40, ...same, grant: "gone" }, { approval: 41, ...changed }];
    assert.deepEqual(await lines(), [`    changed since: ${words}`]);
    io.out = "";
    await showApproval(admin, io, false, 41);
    assert.ok(io.out.endsWith(`\n    changed since: ${words}\n`), io.out);
    io.out = "";
    await showApproval(admin, io, true, 41);
    assert.deepEqual(JSON.parse(io.out), { ...broker.items[0], changed });
  }
});
