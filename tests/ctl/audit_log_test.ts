/** `bxctl audit log`: what each line says, which calls are meant, and following. */
import assert from "node:assert/strict";
import { readCommandLine } from "../../ctl/args.ts";
import { verifyLog } from "../../ctl/audit_files.ts";
import { listCalls } from "../../ctl/audit_log.ts";
import { encodeRecord } from "../../proto/audit.ts";
import { sha256, ZERO_HASH } from "../../proto/ids.ts";
import { layout } from "../../proto/layout.ts";
import { directoriesIn } from "../support/audit_case.ts";
import { PROJECT, within } from "../support/broker.ts";
import { aDay, answered, at, CallsHome, decided, ended } from "../support/calls_log.ts";
import { flagsFor, type Ran, Recorder, runCtl } from "../support/ctl.ts";
import { AuditBench, event } from "../support/log.ts";
import { Followed, ROOT } from "../support/scripts.ts";

/** `bxctl audit log` with these arguments, in this process. */
async function run(home: string, ...args: string[]): Promise<Ran> {
  const io = new Recorder();
  const read = readCommandLine(["audit", "log", ...args]);
  assert.ok(read.kind === "run" && read.command.name === "audit log", JSON.stringify(read));
  const { audit } = layout(home);
  const code = await listCalls(audit, read.command.filter, io, read.json, null);
  return { code, stdout: io.out, stderr: io.err };
}

/** The numbers of the calls that are listed. */
async function seqs(home: string, ...args: string[]): Promise<number[]> {
  const { code, stdout } = await run(home, ...args);
  assert.equal(code, 0);
  return stdout.split("\n").filter((line) => line !== "").map((line) => parseInt(line));
}

const DAY =
  `0  2026-12-01T09:00:00.000Z  session chat-1  result  not asked  taint public -> private  \
read_file "/home/o/notes.md"
2  2026-12-01T09:01:00.000Z  session chat-1  denied no_grant  not asked  taint private  \
write_file "/etc/passwd"
3  2026-12-01T09:02:00.000Z  session chat-1  result  approved by bxctl  taint private -> secret  \
shell "ls -l"
6  2026-12-01T09:10:00.000Z  session chat-2  denied approval_refused  refused by bxctl  taint public  \
shell "rm -rf /"
8  2026-12-01T09:20:00.000Z  session chat-2  denied approval_expired  expired  taint public  shell "make"
10  2026-12-01T09:40:00.000Z  session chat-2  failed  not asked  taint public  \
http_fetch "https://example.com/a"
12  2026-12-01T09:50:00.000Z  session chat-2  pending  no answer  taint public  shell "date"
13  2026-12-01T09:51:00.000Z  session chat-1  unfinished  not asked  taint secret  \
read_file "/home/o/notes.md"
`;

Deno.test("each call is one line, however it came out", async () => {
  using home = new CallsHome();
  aDay(home);
  assert.deepEqual(await run(home.root), { code: 0, stdout: DAY, stderr: "" });
  // The same through the program, under its own locks.
  assert.deepEqual(await runCtl(home.root, ["audit", "log"]), { code: 0, stdout: DAY, stderr: "" });
});

Deno.test("with --json each call is one document on a line", async () => {
  using home = new CallsHome();
  aDay(home);
  const { stdout } = await run(home.root, "--json");
  const calls = stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(calls.map(({ seq }) => seq), [0, 2, 3, 6, 8, 10, 12, 13]);
  assert.deepEqual(calls[3], {
    ...{ seq: 6, time: at("09:10:00"), session: "chat-2", call: "c1", tool: "shell" },
    ...{ what: '"rm -rf /"', outcome: "denied", reason: "approval_refused", grant: "shell-ask" },
    ...{ answer: "refused", answered: at("09:12:00"), by: "bxctl" },
    ...{ taint: "public", untrusted: false, taint_after: null },
  });
  assert.equal(calls[2].taint_after, "secret");
});

Deno.test("the list is limited by session, tool, outcome, reason and time", async () => {
  using home = new CallsHome();
  aDay(home);
  const cases: Record<string, number[]> = {
    "": [0, 2, 3, 6, 8, 10, 12, 13],
    "--session chat-2": [6, 8, 10, 12],
    "--session chat-3": [],
    "--tool shell": [3, 6, 8, 12],
    "--outcome result": [0, 3],
    "--outcome failed": [10],
    "--outcome denied": [2, 6, 8],
    "--outcome no_grant": [2],
    "--outcome approval_expired": [8],
    "--outcome pending": [12],
    "--outcome unfinished": [13],
    "--since 2026-12-01": [0, 2, 3, 6, 8, 10, 12, 13],
    "--since 2026-12-01T09:40:00.000Z": [10, 12, 13],
    "--since 2026-12-02": [],
    "--session chat-1 --tool read_file --since 2026-12-01T09:00:00.001Z": [13],
  };
  for (const [args, expected] of Object.entries(cases)) {
    assert.deepEqual(
      await seqs(home.root, ...args.split(" ").filter((word) => word !== "")),
      expected,
    );
  }
});

Deno.test("what a call is for is its path, command or URL, and else its arguments as they came", async () => {
  using home = new CallsHome();
  const long = "x".repeat(1_000_000);
  const denied = { outcome: { outcome: "denied", reason: "no_grant" } } as const;
  const cases: [tool: string, args: string, shown: string][] = [
    ["write_file", '{"content":"secret","path":"/a"}', 'write_file "/a"'],
    ["shell", '{"command":"a\\nb\\u001b[2J \\\\n"}', String.raw`shell "a\nb\u001b[2J \\n"`],
    [
      "http_fetch",
      '{"url":"https://xn--80ak6aa92e.com"}',
      '"https://xn--80ak6aa92e.com (аррӏе.com)"',
    ],
    ["shell", '{"command":"a","command":"b"}', 'shell {"command":"a","command":"b"}'],
    ["read_file", '{"path":1}', 'read_file {"path":1}'],
    ["read_file", "{", "read_file {"],
    ["read_file", `{"path":"/a"${",".repeat(20)}}`, `read_file {"path":"/a"${",".repeat(20)}}`],
    ["a  b\u202e\nc", "{}", "a  b\\u202e\\u000ac {}"],
    ["__proto__", "{}", "__proto__ {}"],
    ["shell", `{"command":"${long}"}`, "… 998102 more characters, bxctl audit show 9 …x"],
    [long, "{}", "… 998100 more characters, bxctl audit show 10 …x"],
  ];
  for (const [tool, args] of cases) {
    home.add(at("09:00:00"), decided({ ...denied, tool, arguments: args }));
  }
  const { stdout } = await run(home.root);
  const lines = stdout.trimEnd().split("\n");
  for (const [index, [, , shown]] of cases.entries()) {
    assert.ok(lines[index]?.includes(`  taint public  `), lines[index]);
    assert.ok(lines[index]?.includes(shown), `${shown}: ${lines[index]?.slice(0, 300)}`);
    assert.ok((lines[index] ?? "").length < 2200);
  }
  // A name with hidden characters can be asked for as it is.
  assert.deepEqual(await seqs(home.root, "--tool", "a  b\u202e\nc"), [7]);
});

Deno.test("calls are listed as they end, and those that have not ended at the end", async () => {
  using home = new CallsHome();
  home.add(at("09:00:00"), decided());
  home.add(at("09:00:01"), decided({ session: "s2" }));
  home.add(at("09:00:02"), decided({ session: "s3" }));
  assert.deepEqual(await seqs(home.root), [0, 1, 2]);
  home.add(at("09:00:03"), ended(1, { session: "s2" }));
  // The day after, in another file.
  home.add("2026-12-02T00:00:01.000Z", ended(0));
  assert.deepEqual(await seqs(home.root), [1, 0, 2]);
  assert.deepEqual(await seqs(home.root, "--outcome", "unfinished"), [2]);
});

Deno.test("an approval after which the call is denied is a denial", async () => {
  using home = new CallsHome();
  home.add(at("09:00:00"), decided({ outcome: { outcome: "ask" } }));
  const outcome = { outcome: "denied", reason: "taint_too_high" } as const;
  home.add(at("09:00:01"), answered(0, { outcome }));
  const { stdout } = await run(home.root);
  assert.match(stdout, / {2}denied taint_too_high {2}approved by bxctl {2}/);
});

Deno.test("a log that is not whole is shown all the same, with a warning and status 1", async () => {
  using home = new CallsHome();
  aDay(home);
  const path = home.path(at("09:00:00"));
  const whole = Deno.readTextFileSync(path);
  Deno.writeTextFileSync(path, whole.replace("ls -l", "ls -a"));
  const { code, stdout, stderr } = await run(home.root);
  assert.equal(code, 1);
  assert.equal(stdout, DAY.replace("ls -l", "ls -a"));
  assert.equal(
    stderr,
    "bxctl: 2026-12-01.jsonl:5: prev is not the hash of the line before it\n" +
      "bxctl: the audit log is not whole; see docs/runbook.md#audit-chain-broken\n",
  );
  Deno.writeTextFileSync(path, whole);
  assert.equal((await run(home.root)).code, 0);
});

Deno.test("lines that are none, numbers that stand twice and files that are none stop nothing", async () => {
  using home = new CallsHome();
  home.add(at("09:00:00"), decided());
  const line = Deno.readTextFileSync(home.path(at("09:00:00")));
  home.append(at("09:00:00"), `not a record\n${line}`);
  Deno.mkdirSync(`${home.audit}/2026-12-02.jsonl`);
  home.add("2026-12-03T09:00:00.000Z", decided({ session: "s3" }));
  const { code, stdout } = await run(home.root);
  assert.equal(code, 1);
  assert.deepEqual(stdout.trimEnd().split("\n").map((line) => line.split(" ")[0]), ["0", "0", "1"]);
  Deno.removeSync(home.audit, { recursive: true });
  const absent = await run(home.root);
  assert.deepEqual([absent.code, absent.stdout], [1, ""]);
  assert.match(absent.stderr, /^bxctl: audit:0: cannot be read/);
});

Deno.test("a record that a crash tore off and a recovery describes is no call", async () => {
  using home = new CallsHome();
  home.add(at("09:00:00"), decided());
  const path = home.path(at("09:00:00"));
  const first = Deno.readFileSync(path);
  const prev = sha256(first.subarray(0, -1));
  const time = at("09:00:01");
  // Whole, but for its newline: brokerd had no answer from the disk, and sent none.
  const torn = encodeRecord({ seq: 1, time, prev, event: decided({ session: "torn" }) });
  home.append(time, new TextDecoder().decode(torn));
  assert.deepEqual(await seqs(home.root), [0]);
  const recovery = {
    type: "recovery",
    torn_bytes: torn.length,
    torn_sha256: sha256(torn),
  } as const;
  const line = new TextDecoder().decode(encodeRecord({ seq: 1, time, prev, event: recovery }));
  home.append(time, `\n${line}\n`);
  assert.deepEqual(await seqs(home.root), [0]);
  // The same line that nothing recovers is shown.
  Deno.writeTextFileSync(path, new TextDecoder().decode(new Uint8Array([...first, ...torn, 10])));
  assert.deepEqual(await seqs(home.root), [0, 1]);
});

Deno.test("in every log that is whole, what has not ended is what audit verify says", async () => {
  const vectors = new URL("fixtures/vectors/audit/", PROJECT);
  const homes = directoriesIn(vectors).flatMap((group) =>
    directoriesIn(new URL(`${group}/`, vectors)).map((name) =>
      new URL(`${group}/${name}`, vectors).pathname
    )
  );
  let compared = 0;
  let open = 0;
  for (const home of homes) {
    const report = verifyLog(`${home}/audit`, null);
    // After a break the records before it are shown, which the verifier leaves out.
    if (report.failure !== null || report.accepted_breaks.length > 0) continue;
    compared += 1;
    for (const outcome of ["pending", "unfinished"] as const) {
      const expected = report[outcome === "pending" ? "abandoned" : "unfinished"];
      assert.deepEqual(await seqs(home, "--outcome", outcome), expected, home);
      open += expected.length;
    }
  }
  assert.ok(compared > 50 && open > 10, `${compared} logs, ${open} calls`);
});

/** `bxctl audit log --follow` as its owner starts it. */
function follow(home: string, ...args: string[]): Followed {
  const main = `${ROOT}/ctl/main.ts`;
  const command = [Deno.execPath(), "run", "--quiet", ...flagsFor(home), main] as const;
  return Followed.start([...command, "audit", "log", "--follow", ...args], {
    env: { BOXMAKER_HOME: home },
  });
}

Deno.test("--follow goes on while brokerd writes, over midnight too, and Ctrl-C ends it with 0", async () => {
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    using bench = new AuditBench();
    const home = Deno.makeTempDirSync({ prefix: "boxmaker-" });
    Deno.symlinkSync(bench.directory, `${home}/audit`);
    try {
      bench.now = Date.parse("2026-12-01T23:59:58.000Z");
      const log = bench.open();
      log.append(event(0));
      await using list = follow(home);
      await list.shows('session s1  denied no_grant  not asked  taint private  read_file "/n/0"\n');
      for (let n = 1; n <= 4; n += 1) {
        bench.now += 1000;
        log.append(event(n));
        await list.shows(`read_file "/n/${n}"\n`);
      }
      assert.ok(bench.has("2026-12-02.jsonl"));
      // A call is shown once it has ended; what is open at the end comes then.
      log.append(decided({ call: "allowed" }));
      log.append(decided({ call: "open", session: "left" }));
      log.append(ended(5, { call: "allowed" }));
      await list.shows("  session chat-1  result  ");
      assert.ok(!list.output.includes("session left"), list.output);
      list.signal(signal);
      assert.equal(await list.ends(), 0);
      const numbers = list.output.trimEnd().split("\n").map((line) => parseInt(line));
      assert.deepEqual(numbers, [0, 1, 2, 3, 4, 5, 6]);
      assert.match(list.output, /session left {2}unfinished {2}/);
    } finally {
      Deno.removeSync(home, { recursive: true });
    }
  }
});

Deno.test("--follow waits for a log that is not there yet, and for lines to be whole", async () => {
  using home = new CallsHome();
  await using list = follow(home.root, "--json", "--tool=read_file");
  const time = at("09:00:00");
  const outcome = { outcome: "denied", reason: "no_grant" } as const;
  const line = new TextDecoder().decode(
    encodeRecord({ seq: 0, time, prev: ZERO_HASH, event: decided({ outcome }) }),
  );
  home.append(time, line.slice(0, 40));
  // Long enough for it to have been seen: the call is shown whole all the same.
  await new Promise((resolve) => setTimeout(resolve, 600));
  home.append(time, `${line.slice(40)}\n`);
  await list.shows('"outcome":"denied"');
  list.signal("SIGINT");
  assert.equal(await within("the end", list.ends()), 0);
  assert.equal(JSON.parse(list.output).what, '"/home/o/notes.md"');
});

Deno.test("--follow tells once of a file that comes and cannot be read, and goes on", async () => {
  using home = new CallsHome();
  aDay(home);
  const io = new Recorder();
  const filter = { session: "chat-2", tool: null, outcome: "failed", since: null } as const;
  const stop = new AbortController();
  const { audit } = layout(home.root);
  const list = listCalls(audit, filter, io, false, stop.signal);
  Deno.mkdirSync(`${audit}/2026-12-02.jsonl`);
  Deno.mkdirSync(`${audit}/2026-12-03.jsonl`);
  await new Promise((resolve) => setTimeout(resolve, 600));
  stop.abort();
  assert.equal(await within("the end", list), 1);
  assert.match(io.out, /^10 .* failed .*\n$/);
  const [problem, entry] = io.err.split("\n");
  assert.match(problem ?? "", /\/2026-12-02\.jsonl cannot be read: not a regular file$/);
  assert.equal(io.err, `${problem}\n${entry}\n`);
  assert.match(entry ?? "", /see docs\/runbook\.md#audit-chain-broken$/);
});

Deno.test("--follow as the launcher starts it on a terminal ends with 0 on Ctrl-C", async () => {
  using home = new CallsHome();
  aDay(home);
  const launch = [Deno.execPath(), "run", "--quiet", "-A", `${ROOT}/scripts/launch.ts`, "ctl"];
  await using list = Followed.onTerminal([
    ...[...launch, "audit", "log", "--follow"],
    ...["--session=chat-2", "--home", home.root],
  ]);
  await list.shows("  failed  ");
  await list.type("\x03");
  assert.equal(await list.ends(), 0);
  assert.match(list.output, /^12 .* pending {2}no answer /m);
});
