/** `bxctl audit report`: what the page says, what it leaves out, and the one file that is written. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { writeReport } from "../../ctl/audit_report.ts";
import { CALLS_OF_SESSION, SESSIONS_WITH_CALLS } from "../../ctl/audit_summary.ts";
import { Failed } from "../../ctl/notices.ts";
import { flagsOfRun } from "../../scripts/launch.ts";
import { aDay, answered, at, CallsHome, decided, ended } from "../support/calls_log.ts";
import { flagsFor, type Ran, Recorder, runCtl } from "../support/ctl.ts";
import { grantFile } from "../support/grants.ts";
import { ROOT } from "../support/scripts.ts";

const GRANT = grantFile({ constraints: { paths: ["/n"] } });
const denied = { outcome: { outcome: "denied", reason: "no_grant" } } as const;

interface Reported extends Ran {
  readonly page: string;
}

/** Writes a report of `home` in this process, and takes the file away again. */
function report(home: CallsHome, since: string | null = null, grants?: string): Reported {
  const io = new Recorder();
  const { audit, root } = home;
  const places = { audit, grants: grants ?? `${root}/grants`, out: `${root}/page.html` };
  const code = writeReport(places, since, io, false);
  const page = Deno.readTextFileSync(places.out);
  Deno.removeSync(places.out);
  return { code, stdout: io.out, stderr: io.err, page };
}

/** The part of a page between two headings, without markup. */
function section(page: string, heading: string): string {
  const from = page.indexOf(`>${heading}</h`);
  assert.ok(from >= 0, heading);
  const end = page.slice(from + 1).search(/<h[23]|<\/body/);
  return page.slice(from + 1, from + 1 + end).replace(/<[^>]*>/g, " ").replace(/\s+/g, " ").trim();
}

Deno.test("the page says where taint rose, what was denied and answered, and what was never used", () => {
  using home = new CallsHome();
  aDay(home);
  for (const id of ["notes-read", "never", "web"]) {
    Deno.writeTextFileSync(`${home.root}/grants/${id}.toml`, GRANT);
  }
  Deno.writeTextFileSync(`${home.root}/grants/README`, "");
  const { code, stdout, stderr, page } = report(home);
  assert.deepEqual([code, stderr], [0, ""]);
  assert.equal(stdout, `wrote ${home.root}/page.html: 8 calls in 2 sessions\n`);
  const sections = {
    "What happened":
      "What happened Made 2026-12-01T10:00:00.000Z from the audit log: the whole log. 8 calls in 2 " +
      "sessions. All times are UTC.",
    "Where taint rose": "Where taint rose Call Time Session Taint Tool What for " +
      "0 2026-12-01T09:00:00.000Z chat-1 public to private read_file &quot;/home/o/notes.md&quot; " +
      "3 2026-12-01T09:02:00.000Z chat-1 private to secret shell &quot;ls -l&quot;",
    "Denials by reason":
      "Denials by reason Reason Calls approval_expired 1 approval_refused 1 no_grant 1",
    "Approvals and how long they took": "Approvals and how long they took " +
      "Answer Calls Shortest Mean Longest approved 1 30 sec 30 sec 30 sec " +
      "refused 1 2 min 2 min 2 min expired 1 15 min 15 min 15 min",
    "Never used": "Never used never",
    "Used": "Used Grant Calls shell-ask 4 not in the directory any more notes-read 2 web 1",
    "Sessions": "Sessions chat-1 : 4 calls (2 result, 1 denied, 1 unfinished), " +
      "2026-12-01T09:00:00.000Z to 2026-12-01T09:51:00.000Z, taint secret " +
      "Call Time Tool What for Outcome Approval Taint " +
      "0 2026-12-01T09:00:00.000Z read_file &quot;/home/o/notes.md&quot; result not asked public to private " +
      "2 2026-12-01T09:01:00.000Z write_file &quot;/etc/passwd&quot; denied: no_grant not asked private " +
      "3 2026-12-01T09:02:00.000Z shell &quot;ls -l&quot; result approved by bxctl after 30 sec " +
      "private to secret " +
      "13 2026-12-01T09:51:00.000Z read_file &quot;/home/o/notes.md&quot; unfinished not asked secret " +
      "chat-2 : 4 calls (1 failed, 2 denied, 1 pending), " +
      "2026-12-01T09:10:00.000Z to 2026-12-01T09:50:00.000Z, taint public " +
      "Call Time Tool What for Outcome Approval Taint " +
      "6 2026-12-01T09:10:00.000Z shell &quot;rm -rf /&quot; denied: approval_refused refused by bxctl " +
      "after 2 min public " +
      "8 2026-12-01T09:20:00.000Z shell &quot;make&quot; denied: approval_expired expired after 15 min public " +
      "10 2026-12-01T09:40:00.000Z http_fetch &quot;https://example.com/a&quot; failed not asked public " +
      "12 2026-12-01T09:50:00.000Z shell &quot;date&quot; pending no answer public",
  };
  for (const [heading, text] of Object.entries(sections)) {
    assert.equal(section(page, heading), text);
  }
});

Deno.test("a page about nothing says so", () => {
  using home = new CallsHome();
  aDay(home);
  const { page } = report(home, "2026-12-02T00:00:00.000Z");
  assert.match(
    section(page, "What happened"),
    /calls since 2026-12-02T00:00:00\.000Z\. 0 calls in 0/,
  );
  assert.equal(section(page, "Where taint rose"), "Where taint rose Nowhere.");
  assert.equal(section(page, "Denials by reason"), "Denials by reason None.");
  assert.match(section(page, "Approvals and how long they took"), /No call was answered\.$/);
  assert.equal(section(page, "Never used"), "Never used No grant is in the directory.");
  assert.equal(section(page, "Sessions"), "Sessions");
});

Deno.test("only calls from --since on are counted, those of the days before are not", () => {
  using home = new CallsHome();
  aDay(home);
  Deno.writeTextFileSync(`${home.root}/grants/web.toml`, GRANT);
  const { page } = report(home, at("09:40:00"));
  assert.match(section(page, "What happened"), / 3 calls in 2 sessions\./);
  assert.match(section(page, "Denials by reason"), /None\.$/);
  assert.match(
    section(page, "Never used"),
    / None: every grant in the directory decided some call\.$/,
  );
  assert.match(section(page, "Used"), /notes-read 1 .*shell-ask 1 .*web 1/);
  const { stdout } = report(home, at("09:51:00"));
  assert.equal(stdout, `wrote ${home.root}/page.html: 1 call in 1 session\n`);
});

Deno.test("a grants directory that cannot be read, or used, is told on the page", () => {
  using home = new CallsHome();
  aDay(home);
  const problem =
    /Which grants were never used is not known: the grants in \/nowhere&lt;b&gt; could not be used: /;
  const { code, page } = report(home, null, "/nowhere<b>");
  assert.equal(code, 0);
  assert.match(page, problem);
  assert.match(page, /the grants directory cannot be read: /);
  assert.ok(!page.includes("Never used"));
  assert.ok(report(home).page.includes("Never used"));
  // One that is invalid makes all of them unusable, for brokerd too.
  Deno.writeTextFileSync(`${home.root}/grants/a.toml`, GRANT);
  Deno.writeTextFileSync(`${home.root}/grants/b.toml`, "<b> = 1\n");
  const { code: status, page: invalid } = report(home);
  assert.equal(status, 0);
  assert.match(invalid, /never used is not known: the grants in .* could not be used: b\.toml:1: /);
  assert.ok(!invalid.includes("Never used"));
});

Deno.test("a report that may not read the grants is written all the same, and says so", async () => {
  using home = new CallsHome();
  aDay(home);
  const out = `${home.root}/page.html`;
  const flags = flagsOf(home, out).map((flag) => flag.replace(`${home.root}/grants,`, ""));
  const args = ["audit", "report", "--out", out, "--home", home.root];
  assert.deepEqual(await runCtl(home.root, args, { flags }), {
    ...{ code: 0, stderr: "" },
    stdout: `wrote ${out}: 8 calls in 2 sessions\n`,
  });
  const page = Deno.readTextFileSync(out);
  assert.match(page, /could not be used: started without leave to read the grants in /);
});

Deno.test("a log that is not whole has its page, with a warning there and on stderr, and status 1", () => {
  using home = new CallsHome();
  aDay(home);
  assert.ok(!report(home).page.includes("is not whole"));
  const path = home.path(at("09:00:00"));
  Deno.writeTextFileSync(path, Deno.readTextFileSync(path).replace("ls -l", "ls -a"));
  const { code, stderr, page } = report(home);
  assert.equal(code, 1);
  assert.match(stderr, /^bxctl: 2026-12-01\.jsonl:5: prev .*\n.*#audit-chain-broken\n$/);
  assert.match(page, /is not whole\.<\/strong> 2026-12-01\.jsonl:5: prev .*#audit-chain-broken/);
  assert.match(page, /ls -a/);
});

Deno.test("the page names its one style by its hash and allows nothing else", () => {
  using home = new CallsHome();
  aDay(home);
  const { page } = report(home);
  const [, style = ""] = /<style>([^]*?)<\/style>/.exec(page) ?? [];
  const hash = createHash("sha256").update(style).digest("base64");
  const [, policy = ""] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(page) ?? [];
  assert.equal(
    policy.replaceAll("&#39;", "'"),
    `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'`,
  );
  assert.ok(page.indexOf("Content-Security-Policy") < page.indexOf("<style>"));
  assert.doesNotMatch(
    page,
    /<script|<link|<img|<iframe| style=| on\w+=| src=| href=|@import|url\(/i,
  );
});

Deno.test("the latest calls of the latest sessions are on the page, the others are counted", () => {
  using home = new CallsHome();
  const calls = CALLS_OF_SESSION + 5;
  const sessions = SESSIONS_WITH_CALLS + 3;
  const numbered = (n: number) => ({ arguments: `{"path":"/n/${n}"}`, ...denied });
  for (let n = 0; n < sessions; n += 1) {
    home.add(at("09:00:00"), decided({ session: `early-${n}`, ...numbered(n) }));
  }
  for (let n = 0; n < calls; n += 1) {
    home.add(at("09:01:00"), decided({ session: "busy", ...numbered(n) }));
  }
  const text = section(report(home).page, "Sessions");
  assert.match(
    text,
    new RegExp(
      `^Sessions busy : ${calls} calls .* 5 earlier calls not shown here: ` +
        "see bxctl audit log --session busy\\. ",
    ),
  );
  const [busy = ""] = text.split(" early-");
  assert.deepEqual(
    [...busy.matchAll(/\/n\/(\d+)/g)].map(([, n]) => Number(n)),
    Array.from({ length: CALLS_OF_SESSION }, (_, n) => n + 5),
  );
  // The four that were active longest ago have their line and no calls.
  const without = [
    ...text.matchAll(/(early-\d+) : 1 call \([^)]*\), \S+ to \S+, taint public 1 earlier/g),
  ];
  assert.deepEqual(without.map(([, name]) => name), ["early-3", "early-2", "early-1", "early-0"]);
});

Deno.test("100,000 calls come to a page within a heap of 20 MB", async () => {
  using home = new CallsHome();
  for (let round = 0; round < 100; round += 1) {
    home.addAll(
      Array.from({ length: 1000 }, (_, n) => {
        const seq = 2 * (round * 1000 + n);
        const session = `s-${seq % 997}`;
        return [
          [at("09:00:00"), decided({ session })] as const,
          [at("09:00:01"), ended(seq, { session })] as const,
        ];
      }).flat(),
    );
  }
  const out = `${home.root}/page.html`;
  const flags = ["--v8-flags=--max-old-space-size=20", ...flagsOf(home, out)];
  const args = ["audit", "report", "--out", out, "--home", home.root, "--json"];
  const { code, stdout, stderr } = await runCtl(home.root, args, { flags });
  assert.deepEqual([code, stderr], [0, ""]);
  assert.deepEqual(JSON.parse(stdout), { file: out, calls: 100_000, sessions: 997, failure: null });
  const page = Deno.readTextFileSync(out);
  assert.match(section(page, "What happened"), / 100000 calls in 997 sessions\./);
  assert.match(
    section(page, "Sessions"),
    /497 more sessions not shown here: see bxctl audit log\.$/,
  );
});

/** The flags of bxctl for a report of `home` to `out`. */
function flagsOf({ root }: CallsHome, out: string): string[] {
  return flagsFor(root, ["audit", "report", "--out", out]);
}

Deno.test("a report may write its own file and read the grants, and no other command may", async () => {
  using home = new CallsHome();
  aDay(home);
  Deno.writeTextFileSync(`${home.root}/grants/never.toml`, GRANT);
  const out = `${home.root}/page.html`;
  const args = (path: string) => ["audit", "report", "--out", path, "--home", home.root];
  const flags = flagsOf(home, out);
  // What the launcher works out from the same command line.
  assert.deepEqual(flagsOfRun("bxctl", args(out), undefined), flags);
  const others = flagsOfRun("bxctl", ["audit", "log", "--home", home.root], undefined);
  assert.ok(!others.some((flag) => flag.includes("page.html") || flag.includes("/grants")));
  assert.equal((await runCtl(home.root, args(out), { flags })).code, 0);
  assert.equal((Deno.statSync(out).mode ?? 0) & 0o777, 0o600);
  assert.match(section(Deno.readTextFileSync(out), "Never used"), /^Never used never$/);
  // With the flags of a report, another command refuses; with those of another command, a report.
  const wide = await runCtl(home.root, ["audit", "log"], { flags });
  assert.equal(wide.code, 1);
  assert.match(wide.stderr, /this process may read .*\/grants, which it must not/);
  const reads = flagsOfRun("bxctl", ["why", "0", "--home", home.root], undefined);
  const withoutPage = await runCtl(home.root, args(`${home.root}/other.html`), { flags: reads });
  assert.deepEqual([withoutPage.code, withoutPage.stdout], [1, ""]);
  assert.match(withoutPage.stderr, /^bxctl: started without leave to write .*\/other\.html\n/);
  const narrow = await runCtl(home.root, args(`${home.root}/other.html`), { flags: others });
  assert.deepEqual([narrow.code, narrow.stdout], [1, ""]);
  assert.match(
    narrow.stderr,
    /^bxctl: started without leave to write .*\/other\.html\n.*#report-not-written\n$/,
  );
});

Deno.test("what is there already stays as it is, also behind a link", () => {
  using home = new CallsHome();
  aDay(home);
  const write = (out: string, audit = home.audit) => () =>
    writeReport({ audit, grants: `${home.root}/grants`, out }, null, new Recorder(), false);
  const path = `${home.root}/page.html`;
  Deno.writeTextFileSync(path, "mine");
  assert.throws(write(path), /page\.html is there already and stays as it is/);
  assert.equal(Deno.readTextFileSync(path), "mine");
  // Not through a link either.
  Deno.symlinkSync(`${home.root}/linked`, `${home.root}/link.html`);
  assert.throws(write(`${home.root}/link.html`), Failed);
  assert.throws(() => Deno.statSync(`${home.root}/linked`), Deno.errors.NotFound);
  assert.throws(write(`${home.root}/none/page.html`), /cannot write .*none\/page\.html/);
  assert.equal(write(`${home.root}/new.html`)(), 0);
});

Deno.test("a disk that is full is told, and nothing of the page stays", async () => {
  using home = new CallsHome();
  aDay(home);
  const out = `${home.root}/page.html`;
  const report = async (limit: string) => {
    const main = `${ROOT}/ctl/main.ts`;
    const args = [...["audit", "report"], ...["--out", out, "--home", home.root]];
    const command = new Deno.Command("sh", {
      // Under a limit on the size of files, in KiB.
      args: [
        ...["-c", `ulimit -f ${limit}; trap '' XFSZ; exec "$@"`, "sh", Deno.execPath(), "run"],
        ...["--quiet", "--no-check", ...flagsOf(home, out), main, ...args],
      ],
    });
    const { code, stderr } = await command.output();
    return { code, stderr: new TextDecoder().decode(stderr) };
  };
  const { code, stderr } = await report("1");
  assert.equal(code, 1, stderr);
  assert.match(stderr, /bxctl: cannot write .*page\.html: .*\nbxctl: see .*#report-not-written\n$/);
  assert.throws(() => Deno.lstatSync(out), Deno.errors.NotFound);
  assert.deepEqual(await report("unlimited"), { code: 0, stderr: "" });
});

Deno.test("while the log is read there is no file yet, which a Ctrl-C would leave", () => {
  using home = new CallsHome();
  aDay(home);
  const out = `${home.root}/page.html`;
  let looked = 0;
  const io = new (class extends Recorder {
    override now(): number {
      looked += 1;
      assert.throws(() => Deno.lstatSync(out), Deno.errors.NotFound);
      return super.now();
    }
  })();
  const places = { audit: home.audit, grants: `${home.root}/grants`, out };
  assert.equal(writeReport(places, null, io, false), 0);
  assert.notEqual(looked, 0);
  assert.ok(Deno.lstatSync(out).isFile);
});

Deno.test("each answer and each rise is of its own session and call", () => {
  using home = new CallsHome();
  const outcome = { outcome: "ask" } as const;
  home.add(at("09:00:00"), decided({ session: "a", outcome }));
  home.add(at("09:00:00"), decided({ session: "b", outcome }));
  // The clock goes back: a wait is never below zero.
  home.add(at("08:59:00"), answered(0, { session: "a" }));
  home.add(at("09:00:40"), answered(1, { session: "b" }));
  home.add(at("09:00:41"), ended(1, { session: "b", taint_after: "secret" }));
  home.add(at("09:00:42"), ended(0, { session: "a" }));
  // What rose without a result of its own shows at the next decision.
  home.add(at("09:01:00"), decided({ session: "a", taint: "private", ...denied }));
  const { page } = report(home);
  assert.match(
    section(page, "Approvals and how long they took"),
    /approved 2 0 sec 20 sec 40 sec$/,
  );
  const rises = section(page, "Where taint rose");
  assert.match(rises, / 1 \S+ b public to secret .* 6 \S+ a public to private /);
});
