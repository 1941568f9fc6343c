/** `--accept-break`: going on after a failure on the owner's word (contracts 5.6 to 5.8). */
import assert from "node:assert/strict";
import { type AuditEvent, encodeHead, parseRecord } from "../../proto/audit.ts";
import { sha256, ZERO_HASH } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";
import { refusedStart, snapshot, startBroker, TempHome } from "../support/broker.ts";
import { AuditBench, event, recordsIn, verifyDirectory } from "../support/log.ts";

const OLDEST = "2026-11-29.jsonl";
const OLDER = "2026-11-30.jsonl";
const NEWEST = "2026-12-01.jsonl";
const DAY_MS = 24 * 60 * 60 * 1000;

/** A log over three days, five records each, `seq` 0 to 14; `head.json` names the last. */
function threeDays(): AuditBench {
  const bench = new AuditBench();
  for (const name of [OLDEST, OLDER, NEWEST]) bench.fill(name.slice(0, 10), 5);
  return bench;
}

/** Changes the line `line` so that it still parses: the next one fails, or for the last one head.json. */
function change(bench: AuditBench, name: string, line: number): void {
  const lines = bench.lines(name);
  bench.writeLines(name, lines.with(line - 1, (lines[line - 1] ?? "").replace('"/n/', '"/m/')));
}

const hashOf = (bench: AuditBench, name: string, line: number) =>
  sha256(utf8(bench.lines(name).at(line - 1) ?? ""));

/** Accepts, and gives the break's record. The log must be whole then, and stay so. */
function accept(bench: AuditBench, breaks = 1) {
  const failure = bench.report().failure;
  assert.notEqual(failure, null, "there is something to accept");
  bench.said.length = 0;
  bench.open(true);
  const record = recordsIn(bench.directory).at(-1);
  assert(record?.event.type === "accepted_break");
  const said = `audit: accepted the break at ${failure?.file}:${failure?.line}: ${failure?.what}`;
  assert(bench.said.includes(said), bench.said.join("\n"));
  checkWhole(bench, breaks);
  assert.equal(bench.report().anchored, record.seq, "head.json was rewritten");

  // A plain restart serves, and so does one after a day change.
  for (let day = 0; day < 2; day += 1) {
    assert.notEqual(bench.open().append(event(day)), null);
    checkWhole(bench, breaks);
    bench.now += DAY_MS;
  }
  bench.open();
  return { ...record, event: record.event };
}

function checkWhole(bench: AuditBench, breaks: number): void {
  const report = bench.report();
  assert.equal(report.failure, null);
  assert.equal(report.accepted_breaks.length, breaks);
}

type Break = Extract<AuditEvent, { type: "accepted_break" }>;
const breakOf = (file: string, line: number, last_good: string): Break => ({
  ...{ type: "accepted_break", file, line, last_good },
});

Deno.test("a failure in the newest file is accepted", () => {
  using bench = threeDays();
  Deno.removeSync(bench.path("head.json"));
  change(bench, NEWEST, 2);
  const lastGood = hashOf(bench, NEWEST, 2);
  const before = hashOf(bench, NEWEST, 5);
  const record = accept(bench);
  assert.deepEqual(record.event, breakOf(NEWEST, 3, lastGood));
  assert.equal(record.prev, before);
  // The last verified one is 11, and three lines stand after it.
  assert.equal(record.seq, 11 + 1 + 3);
  assert.deepEqual(bench.report().accepted_breaks, [{ file: NEWEST, line: 6 }]);
});

Deno.test("a failure in an older file is accepted in the newest one, whatever the date", () => {
  for (const withHead of [true, false]) {
    using bench = threeDays();
    if (!withHead) Deno.removeSync(bench.path("head.json"));
    change(bench, OLDEST, 3);
    assert.equal(bench.restart().started.status, "open", "a plain start does not look there");
    bench.now = Date.parse("2026-12-24T10:00:00.000Z");
    const [lastGood, before] = [hashOf(bench, OLDEST, 3), hashOf(bench, NEWEST, 5)];
    const record = accept(bench);
    assert.deepEqual(record.event, breakOf(OLDEST, 4, lastGood));
    assert.equal(record.prev, before);
    assert.equal(record.seq, 2 + 1 + 12);
    assert.equal(record.time, "2026-12-24T10:00:00.000Z");
    assert.deepEqual(bench.report().accepted_breaks, [{ file: NEWEST, line: 6 }]);
  }
});

Deno.test("a spoiled last line of an older file is accepted", () => {
  for (const [ending, what] of [["\n", "parses not"], ["", "no newline"]] as const) {
    using bench = threeDays();
    const lines = bench.lines(OLDER);
    const last = what === "no newline" ? lines[4] : lines[4]?.slice(0, -9);
    bench.write(OLDER, lines.with(4, last ?? "").join("\n") + ending);
    assert.equal(bench.restart().started.status, "broken", what);
    const lastGood = hashOf(bench, OLDER, 4);
    assert.deepEqual(accept(bench).event, breakOf(OLDER, 5, lastGood), what);
  }
});

Deno.test("the whole first file gone is accepted, with nothing verified before it", () => {
  using bench = threeDays();
  Deno.removeSync(bench.path(OLDEST));
  const record = accept(bench);
  assert.deepEqual(record.event, breakOf(OLDER, 1, ZERO_HASH));
  // Ten lines stand there, which gives 10: head.json knows of more.
  assert.equal(record.seq, 15);
});

Deno.test("with a torn tail the torn line is ended, and the break chains from it without a Recovery", () => {
  using bench = threeDays();
  change(bench, NEWEST, 2);
  const torn = '{"seq":15,"time":"2026';
  Deno.writeTextFileSync(bench.path(NEWEST), torn, { append: true });
  const found = bench.read(NEWEST);
  const refused = bench.restart();
  assert.equal(refused.started.status, "broken");
  assert.deepEqual(bench.read(NEWEST), found, "without --accept-break nothing is written");

  const record = accept(bench);
  assert.equal(record.prev, sha256(utf8(torn)));
  assert.equal(record.seq, 11 + 1 + 4);
  const after = new TextDecoder().decode(bench.read(NEWEST));
  const lines = after.slice(found.length).split("\n");
  assert.equal(lines[0], "", "the torn line is ended");
  assert.deepEqual(parseRecord(utf8(lines[1] ?? ""))?.event, record.event);
  assert.deepEqual(bench.report().recoveries, []);
});

Deno.test("a failure of head.json is accepted in order, by a break that names itself", async (t) => {
  const losses: Readonly<
    Record<string, [(bench: AuditBench) => void, Break["file"], number, number]>
  > = {
    "the log ends early": [
      (bench) => bench.writeLines(NEWEST, bench.lines(NEWEST).slice(0, 3)),
      ...[NEWEST, 4, 13] as const,
    ],
    "another hash": [(bench) => change(bench, NEWEST, 5), NEWEST, 6, 15],
    "the newest file deleted": [(bench) => Deno.removeSync(bench.path(NEWEST)), OLDER, 6, 10],
    "the newest file emptied": [(bench) => Deno.truncateSync(bench.path(NEWEST)), OLDER, 6, 10],
    "the whole log deleted": [
      (bench) => {
        for (const name of [OLDEST, OLDER, NEWEST]) Deno.removeSync(bench.path(name));
      },
      "2026-12-01.jsonl",
      1,
      0,
    ],
    "the whole log emptied": [
      (bench) => {
        for (const name of [OLDEST, OLDER, NEWEST]) Deno.truncateSync(bench.path(name));
      },
      NEWEST,
      1,
      0,
    ],
  };
  for (const [what, [lose, file, line, seq]] of Object.entries(losses)) {
    await t.step(what, () => {
      using bench = threeDays();
      lose(bench);
      const before = bench.snapshot();
      const { started } = bench.restart();
      assert(started.status === "broken" && started.failure.what.startsWith("head"));
      assert.deepEqual(bench.snapshot(), before);
      const prev = seq === 0 ? ZERO_HASH : sha256(utf8(bench.lines(file).at(-1) ?? ""));
      const record = accept(bench);
      assert.deepEqual(record.event, breakOf(file, line, prev));
      assert.equal(record.prev, prev);
      assert.equal(record.seq, seq);
      assert.deepEqual(bench.report().accepted_breaks, [{ file, line }]);
    });
  }
});

Deno.test("head.json is synced for a break of its own, this once", () => {
  using bench = threeDays();
  bench.writeLines(NEWEST, bench.lines(NEWEST).slice(0, 3));
  const audit = bench.open(true);
  assert.equal(bench.files.done.at(-1), "sync head.json");
  bench.files.done.length = 0;
  audit.append(event(0));
  assert(!bench.files.done.includes("sync head.json"));
});

Deno.test("a break is accepted only after all that it chains from is synced", () => {
  using bench = threeDays();
  change(bench, NEWEST, 2);
  bench.open(true);
  const directory = bench.directory.slice(bench.directory.lastIndexOf("/") + 1);
  assert.deepEqual(bench.files.done.map((one) => one.replace(directory, "audit")).slice(0, 6), [
    ...[`sync ${NEWEST}`, "syncDirectory audit"],
    ...[`openAppend ${NEWEST}`, `write ${NEWEST}`, `sync ${NEWEST}`, "syncDirectory audit"],
  ]);
  assert.equal(bench.files.open, 2, "the one that records go to, and head.json");
});

Deno.test("for a failure of head.json a torn tail is recovered first, and the break follows", () => {
  for (const torn of ['{"seq":13', "garbage\nmore"]) {
    using bench = threeDays();
    const kept = bench.lines(NEWEST).slice(0, 3);
    bench.write(NEWEST, [...kept, torn].join("\n"));
    const record = accept(bench);
    const line = 3 + torn.split("\n").length + 2;
    assert.deepEqual(record.event, breakOf(NEWEST, line, record.prev));
    assert.equal(record.seq, 14);
    assert.deepEqual(bench.report().recoveries, [{ file: NEWEST, line: 4 }]);
    assert.equal(bench.said.includes(`audit: recovered a torn final line at ${NEWEST}:4`), true);
  }
});

Deno.test("where chain and head.json both fail, one break accepts both", () => {
  // head.json names a record that is gone; the chain breaks before.
  using gone = threeDays();
  change(gone, NEWEST, 2);
  gone.writeLines(NEWEST, gone.lines(NEWEST).slice(0, 4));
  assert.deepEqual(accept(gone).event, breakOf(NEWEST, 3, hashOf(gone, NEWEST, 2)));
  // head.json has another hash for a record; the chain breaks behind it.
  using other = threeDays();
  other.write("head.json", encodeHead({ seq: 10, hash: "1".repeat(64) }));
  change(other, NEWEST, 4);
  other.said.length = 0;
  other.open(true);
  checkWhole(other, 1);
  other.open();
  assert.notEqual(other.open().append(event(0)), null);
});

Deno.test("the break's seq follows the lines there are, or head.json where that knows of more", () => {
  const most = Number.MAX_SAFE_INTEGER;
  // The last verified one is 11, and three lines stand after it.
  const cases = [
    ...[[0, 15], [11, 15], [14, 15], [15, 16], [99, 100]] as const,
    // The record after the break needs a number too.
    ...[[most - 2, most - 1], [most - 1, 15], [most, 15]] as const,
  ];
  for (const [head, seq] of cases) {
    using bench = threeDays();
    bench.write("head.json", encodeHead({ seq: head, hash: hashOf(bench, OLDEST, 1) }));
    change(bench, NEWEST, 2);
    bench.open(true);
    const record = recordsIn(bench.directory).at(-1);
    assert.deepEqual([record?.event.type, record?.seq], ["accepted_break", seq], `head ${head}`);
    checkWhole(bench, 1);
  }
});

Deno.test("a head.json without a record is accepted in the newest file, though it is an old one", () => {
  using bench = new AuditBench();
  for (const name of [OLDEST, OLDER]) bench.write(name, "");
  bench.write("head.json", encodeHead({ seq: 3, hash: ZERO_HASH }));
  bench.open(true);
  assert.deepEqual(bench.report().accepted_breaks, [{ file: OLDER, line: 1 }]);
  checkWhole(bench, 1);
});

Deno.test("where no file of the log is left, records go on right after the break", () => {
  using bench = new AuditBench();
  bench.write("head.json", encodeHead({ seq: 3, hash: ZERO_HASH }));
  const audit = bench.open(true);
  assert.equal(audit.append(event(0)), 1);
  assert.equal(bench.lines(NEWEST).length, 2);
  checkWhole(bench, 1);
});

Deno.test("a failure after an accepted break is a new one, and can be accepted too", () => {
  using bench = threeDays();
  change(bench, NEWEST, 2);
  accept(bench);
  const newest = recordsIn(bench.directory).length;
  const name = "2026-12-02.jsonl";
  bench.fill("2026-12-02", 4);
  change(bench, name, 3);
  assert.equal(bench.restart().started.status, "broken");
  accept(bench, 2);
  assert(recordsIn(bench.directory).length > newest);
});

Deno.test("a break that was cut short is not accepted, and a second one is", () => {
  using bench = threeDays();
  change(bench, NEWEST, 2);
  assert.throws(
    () =>
      bench.restart(true, (files) => {
        files.fault = ({ what, name }) => what === "write" && name === NEWEST ? 100 : null;
      }),
    /a short write/,
  );
  assert.equal(bench.restart().started.status, "broken");
  accept(bench);
});

Deno.test("with nothing to accept nothing is written, with a torn tail too", () => {
  const states: Readonly<Record<string, (bench: AuditBench) => void>> = {
    "whole": () => {},
    "torn": (bench) => Deno.writeTextFileSync(bench.path(NEWEST), "torn", { append: true }),
    "lines that do not parse at the end": (bench) =>
      Deno.writeTextFileSync(bench.path(NEWEST), "torn\nmore\n", { append: true }),
    "without a log": (bench) => {
      for (const name of [OLDEST, OLDER, NEWEST, "head.json"]) Deno.removeSync(bench.path(name));
    },
  };
  for (const [what, prepare] of Object.entries(states)) {
    using bench = threeDays();
    prepare(bench);
    const before = bench.snapshot();
    assert.deepEqual(bench.restart(true).started, { status: "nothing_to_accept" }, what);
    assert.deepEqual(bench.snapshot(), before, what);
    assert.equal(bench.restart().started.status, "open", what);
  }
});

/** A home with three days of log. */
function homeWithLog(): TempHome {
  using bench = threeDays();
  const home = new TempHome();
  Deno.mkdirSync(home.layout.audit, { recursive: true });
  Deno.mkdirSync(home.layout.brokerSessions, { recursive: true });
  for (const name of [OLDEST, OLDER, NEWEST, "head.json", ".lock"]) {
    if (name === ".lock") bench.open();
    Deno.copyFileSync(bench.path(name), `${home.layout.audit}/${name}`);
  }
  return home;
}

const ACCEPT = { args: ["--accept-break"] };

Deno.test("brokerd --accept-break with nothing to accept ends with 2 and changes nothing", async () => {
  for (const torn of ["", "torn"]) {
    using home = homeWithLog();
    Deno.writeTextFileSync(`${home.layout.audit}/${NEWEST}`, torn, { append: true });
    const before = snapshot(home.root);
    const { code, stderr } = await refusedStart(home, ACCEPT);
    assert.equal(code, 2);
    assert(stderr.startsWith("brokerd: audit: nothing to accept"), stderr);
    assert.deepEqual(snapshot(home.root), before);
  }
});

Deno.test("brokerd accepts no failure that has no line", async () => {
  using home = homeWithLog();
  Deno.mkdirSync(`${home.layout.audit}/2026-12-09.jsonl`);
  const before = snapshot(home.root);
  for (const options of [{}, ACCEPT]) {
    const { code, stderr } = await refusedStart(home, options);
    assert.equal(code, 1);
    assert(stderr.startsWith("brokerd: audit: 2026-12-09.jsonl:0: is not a regular file\n"));
    assert(stderr.endsWith("see docs/runbook.md#audit-chain-broken\n"));
    assert.deepEqual(snapshot(home.root), before);
  }
});

Deno.test("brokerd --accept-break says what it accepted and serves, and so does the next start", async () => {
  using home = homeWithLog();
  const path = `${home.layout.audit}/${NEWEST}`;
  const lines = Deno.readTextFileSync(path).trimEnd().split("\n");
  Deno.writeTextFileSync(path, lines.toSpliced(2, 1).map((line) => `${line}\n`).join(""));
  assert.equal((await refusedStart(home)).code, 1);
  {
    await using broker = await startBroker(home, ACCEPT);
    const said = `brokerd: audit: accepted the break at ${NEWEST}:3: seq is 13, not 12\n`;
    assert(broker.stderr.includes(said), broker.stderr);
    await broker.stop();
  }
  await using broker = await startBroker(home);
  await broker.stop();
  const report = verifyDirectory(home.layout.audit);
  assert.equal(report.failure, null);
  assert.deepEqual(report.accepted_breaks, [{ file: NEWEST, line: 5 }]);
});
