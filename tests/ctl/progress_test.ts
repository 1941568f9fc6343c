/** The line that says how far a long reading of the log is. */
import assert from "node:assert/strict";
import { writeReport } from "../../ctl/audit_report.ts";
import { verifyAudit } from "../../ctl/audit_verify.ts";
import { replayGrants } from "../../ctl/grants_replay.ts";
import { Progress, progressLine } from "../../ctl/progress.ts";
import { PROJECT } from "../support/broker.ts";
import { decision } from "../support/chain_log.ts";
import { Recorder, runCtl, Terminal } from "../support/ctl.ts";
import { DecidedHome } from "../support/decided_log.ts";

const pure = { permissions: "none" } as const;
const READING = { what: "verifying the log", total: 1000 };

Deno.test("the line has the percent of the bytes and the records per second", pure, () => {
  const line = (done: number, records: number, ms: number) =>
    progressLine(READING, { done, records, ms });
  assert.equal(line(0, 0, 0), "bxctl: verifying the log: 0 %, 0 records/s");
  assert.equal(line(429, 366, 2), "bxctl: verifying the log: 42 %, 183,000 records/s");
  assert.equal(line(999, 1234567, 1000), "bxctl: verifying the log: 99 %, 1,234,567 records/s");
  // The log has grown meanwhile.
  assert.equal(line(1100, 500, 1000), "bxctl: verifying the log: 100 %, 500 records/s");
  const unknown = { ...READING, total: 0 };
  const known = { done: 5, records: 1, ms: 1000 };
  assert.equal(progressLine(unknown, known), "bxctl: verifying the log: 1 records/s");
});

/** Time goes on by `step` milliseconds with every look at the clock. */
class Slow extends Recorder {
  readonly #step: number;
  #now = super.now();

  constructor(step: number, statusWidth: number | null = 80) {
    super({ statusWidth });
    this.#step = step;
  }

  override now(): number {
    this.#now += this.#step;
    return this.#now;
  }
}

const MANY = 256 * 1024;

Deno.test("it comes after half a second, at most every fifth of one, and goes", pure, () => {
  const io = new Slow(100);
  const progress = new Progress(io, { what: "reading", total: 100 * MANY });
  const said: string[] = [];
  for (let look = 0; look < 9; look += 1) {
    progress.lineRead(MANY);
    said.push(io.err);
    io.err = "";
  }
  assert.deepEqual(said, [
    ...["", "", "", ""],
    "\rbxctl: reading: 5 %, 10 records/s",
    "",
    "\rbxctl: reading: 7 %, 10 records/s",
    "",
    "\rbxctl: reading: 9 %, 10 records/s",
  ]);
  progress.end();
  assert.equal(io.err, `\r${" ".repeat(33)}\r`);
  progress.end();
  assert.equal(io.err, `\r${" ".repeat(33)}\r`);
});

Deno.test("what is over sooner is not spoken of", pure, () => {
  const io = new Slow(100);
  const progress = new Progress(io, { what: "reading", total: 0 });
  for (let look = 0; look < 4; look += 1) progress.lineRead(MANY);
  progress.end();
  assert.equal(io.err, "");
});

Deno.test("it is cut where the terminal is narrow, and covers what was longer before", pure, () => {
  const io = new Slow(600, 30);
  const progress = new Progress(io, { what: "verifying the log", total: 0 });
  progress.lineRead(MANY);
  assert.equal(io.err, "\rbxctl: verifying the log: 2 …");
  const shorter = new Slow(1000);
  const second = new Progress(shorter, { what: "reading", total: 0 });
  for (let record = 0; record < 99_999; record += 1) second.lineRead(1);
  second.lineRead(MANY);
  shorter.err = "";
  second.lineRead(MANY);
  assert.equal(shorter.err, "\rbxctl: reading: 50,001 records/s ".padEnd(33));
});

/** A home with a log of some 600 KiB. */
function largeHome(): DecidedHome {
  const home = new DecidedHome({ notes: { constraints: { paths: ["/n"] } } });
  for (let n = 0; n < 1500; n += 1) home.log.add(decision("denied", n));
  return home.write();
}

Deno.test("verification, replay and report speak of it, and leave nothing", () => {
  using home = largeHome();
  const { audit, grants } = home.places;
  const out = `${home.root}/page.html`;
  const runs = {
    "verifying the log": (io: Slow) => verifyAudit(audit, io, false, null),
    "replaying the log": (io: Slow) => replayGrants(home.places, null, io, true),
    "reading the log": (io: Slow) => writeReport({ audit, grants, out }, null, io, false),
  };
  for (const [what, run] of Object.entries(runs)) {
    const io = new Slow(400);
    assert.equal(run(io), 0, what);
    assert.match(io.err, new RegExp(`\\rbxctl: ${what}: [1-9]\\d? %, [\\d,]+ records/s`));
    assert.match(io.err, /\r +\r$/);
    assert.notEqual(io.out, "");
  }
  // stderr is no terminal.
  const io = new Slow(400, null);
  assert.equal(verifyAudit(audit, io, true, null), 0);
  assert.equal(io.err, "");
});

Deno.test("a verification that fails has taken the line away before it tells", () => {
  using home = largeHome();
  const io = new Slow(400);
  const other = { seq: 7, hash: "0".repeat(64) };
  assert.equal(verifyAudit(home.layout.audit, io, false, other), 1);
  assert.match(io.err, /records\/s\r +\rbxctl: [^\r]+$/);
});

/** The log of `home` verified by the probe on a terminal; what comes on it, and at its end. */
async function probed(home: DecidedHome, shell: string, ...looks: string[]): Promise<string> {
  const probe = new URL("tests/support/progress_probe.ts", PROJECT).pathname;
  const words = [Deno.execPath(), "run", "--quiet", "--allow-read", probe, home.layout.audit];
  await using terminal = new Terminal(home.layout.home, ["--version"], {
    shell: shell.replace("$PROBE", [...words, ...looks].join(" ")),
  });
  assert.equal(await terminal.ends(), 0, terminal.screen);
  return terminal.screen;
}

Deno.test("on a terminal it is written over in place and erased, and then comes the answer", async () => {
  using home = largeHome();
  const screen = await probed(home, "stty cols 100; exec $PROBE");
  const [, line = "", rest = ""] =
    /^((?:\rbxctl: verifying the log: \d+ %, [\d,]+ records\/s *)+)\r +\r([^]*)$/.exec(screen) ??
      [];
  assert.notEqual(line, "", JSON.stringify(screen));
  assert.match(rest, /^audit: ok, 1500 records, head \w{64}\r\nnot anchored\r\n$/);
  assert.ok(!screen.includes("\x1b"));
});

Deno.test("nothing of it where stderr goes elsewhere, or the terminal is dumb", async () => {
  using home = largeHome();
  const file = `${home.root}/stderr`;
  const elsewhere = await probed(home, `exec $PROBE 2>${file}`);
  assert.match(elsewhere, /^audit: ok, 1500 records/);
  assert.equal(Deno.readTextFileSync(file), "");
  assert.match(await probed(home, "exec $PROBE", "dumb"), /^audit: ok, 1500 records/);
  // stdout elsewhere: it is still shown, and stdout has the answer alone.
  const out = `${home.root}/stdout`;
  assert.match(await probed(home, `exec $PROBE >${out}`), /\rbxctl: verifying the log: .*\r +\r$/);
  assert.match(Deno.readTextFileSync(out), /^audit: ok, 1500 records/);
});

Deno.test("with --json into pipes both streams have nothing of it", async () => {
  using home = largeHome();
  const { code, stdout, stderr } = await runCtl(home.layout.home, ["audit", "verify", "--json"]);
  assert.deepEqual([code, stderr], [0, ""]);
  assert.equal(JSON.parse(stdout).records, 1500);
});
