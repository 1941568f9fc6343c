/**
 * brokerd's start over a log that was tampered with, torn or cut (specification 5, "Startup" and 12,
 * "Audit"; contracts 5). `--accept-break`: `audit_accept_test.ts`.
 */
import assert from "node:assert/strict";
import { type AuditRecord, encodeHead, encodeRecord, parseRecord } from "../../proto/audit.ts";
import { sha256 } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";
import { namesOf, refusedStart, snapshot, startBroker, TempHome } from "../support/broker.ts";
import { AuditBench, event, recordsIn, verifyDirectory } from "../support/log.ts";
import { ioError } from "../support/watched_files.ts";

const OLDEST = "2026-11-29.jsonl";
const OLDER = "2026-11-30.jsonl";
const NEWEST = "2026-12-01.jsonl";

/** A log over three days, five records each. */
function threeDays(): AuditBench {
  const bench = new AuditBench();
  for (const name of [OLDEST, OLDER, NEWEST]) bench.fill(name.slice(0, 10), 5);
  return bench;
}

function edit(line: string, change: (record: AuditRecord) => AuditRecord): string {
  const record = parseRecord(utf8(line));
  assert(record !== null);
  return new TextDecoder().decode(encodeRecord(change(record)));
}

type Edit = (lines: string[]) => string[];

/** The tampering suite: what is done to five lines, and the line and beginning of what is found. */
const TAMPERING: Readonly<Record<string, [Edit, number, string]>> = {
  "a changed byte in a middle line": [
    (lines) => lines.map((line, at) => at === 2 ? line.replace('"/n/', '"/m/') : line),
    4,
    "prev is not the hash",
  ],
  "a deleted line": [(lines) => lines.toSpliced(2, 1), 3, "seq is"],
  "two lines swapped": [([a = "", b = "", c = "", d = "", e = ""]) => [a, b, d, c, e], 3, "seq is"],
  "a seq gap": [
    (lines) =>
      lines.map((line, at) =>
        at === 2 ? edit(line, (record) => ({ ...record, seq: record.seq + 1 })) : line
      ),
    3,
    "seq is",
  ],
  "a file that does not chain from the one before": [
    ([first = "", ...rest]) => [
      edit(first, (record) => ({ ...record, prev: sha256(utf8("something else")) })),
      ...rest,
    ],
    1,
    "prev is not the hash",
  ],
  "a middle line cut short": [
    (lines) => lines.map((line, at) => at === 2 ? line.slice(0, -20) : line),
    3,
    "does not parse",
  ],
  "an accepted break that names the wrong line": [
    (lines) => {
      const [a = "", b = "", c = "", d = "", e = ""] = lines;
      const changed = [a, b, c.replace('"/n/', '"/m/'), d];
      return [
        ...changed,
        edit(e, (record) => ({
          ...record,
          prev: sha256(utf8(d)),
          event: {
            type: "accepted_break",
            file: NEWEST,
            line: 3,
            last_good: sha256(utf8(b)),
          },
        })),
      ];
    },
    4,
    "prev is not the hash",
  ],
};

Deno.test("tampering with the newest file is found at its line, and nothing is written", async (t) => {
  for (const [what, [tamper, line, begins]] of Object.entries(TAMPERING)) {
    await t.step(what, () => {
      using bench = threeDays();
      assert.equal(bench.restart().started.status, "open", "it opens without the tampering");
      bench.writeLines(NEWEST, tamper(bench.lines(NEWEST)));
      const before = bench.snapshot();
      const { audit, started } = bench.restart();
      assert.equal(started.status, "broken");
      if (started.status !== "broken") return;
      const { failure } = started;
      assert.deepEqual([failure.file, failure.line], [NEWEST, line]);
      assert(failure.what.startsWith(begins), failure.what);
      assert.deepEqual(failure, bench.report().failure);
      assert.equal(audit.append(event(0)), null, "a log that did not open takes no record");
      assert.deepEqual(bench.snapshot(), before);
    });
  }
});

Deno.test("tampering with an older file is left to bxctl audit verify, but for its last line", () => {
  for (const [what, [tamper, line]] of Object.entries(TAMPERING)) {
    using bench = threeDays();
    bench.writeLines(OLDEST, tamper(bench.lines(OLDEST)));
    assert.equal(bench.restart().started.status, "open", what);
    const { failure } = bench.report();
    assert.deepEqual([failure?.file, failure?.line], [OLDEST, line], what);
  }
  const spoils: ((last: string) => string)[] = [
    (last) => last.slice(0, -9) + "\n",
    (last) => last,
    (last) => last.slice(0, -9),
    (last) => last + "\n\n",
  ];
  for (const spoil of spoils) {
    using bench = threeDays();
    const lines = bench.lines(OLDER);
    const last = lines.pop() ?? "";
    bench.write(OLDER, lines.map((line) => `${line}\n`).join("") + spoil(last));
    const before = bench.snapshot();
    const { started } = bench.restart();
    const { failure } = bench.report();
    assert.equal(failure?.file, OLDER);
    assert.deepEqual(started, { status: "broken", failure });
    assert.deepEqual(bench.snapshot(), before);
  }
});

Deno.test("what stands in a file's place and is none stops the start, with no line", async (t) => {
  const places: Readonly<Record<string, (path: string) => void>> = {
    "a directory": (path) => Deno.mkdirSync(path),
    "a FIFO": (path) => assert(new Deno.Command("mkfifo", { args: [path] }).outputSync().success),
    "a link to nothing": (path) => Deno.symlinkSync(`${path}.none`, path),
    "a link to a directory": (path) => Deno.symlinkSync("/", path),
  };
  for (const [what, put] of Object.entries(places)) {
    for (const name of ["2026-11-01.jsonl", "2026-12-09.jsonl"]) {
      await t.step(`${what}: ${name}`, () => {
        using bench = threeDays();
        assert.equal(bench.restart().started.status, "open");
        put(bench.path(name));
        const before = bench.snapshot();
        for (const acceptBreak of [false, true]) {
          const { started } = bench.restart(acceptBreak);
          const failure = { file: name, line: 0, what: "is not a regular file" };
          assert.deepEqual(started, { status: "broken", failure });
        }
        assert.deepEqual(bench.snapshot(), before);
      });
    }
  }
  using bench = threeDays();
  Deno.renameSync(bench.path(NEWEST), bench.path("elsewhere"));
  Deno.symlinkSync("elsewhere", bench.path(NEWEST));
  assert.equal(bench.open().append(event(0)), 15, "a link to a regular file is read and written");
  assert.equal(bench.report().failure, null);
});

/** Five records of the newest day, `head.json` at the fourth, and the bytes of the fifth. */
function beforeTheLast(): { bench: AuditBench; kept: Uint8Array; last: Uint8Array } {
  const bench = threeDays();
  const lines = bench.lines(NEWEST);
  const [fourth = "", fifth = ""] = lines.slice(3);
  bench.write("head.json", encodeHead({ seq: 13, hash: sha256(utf8(fourth)) }));
  const kept = utf8(lines.slice(0, 4).map((line) => `${line}\n`).join(""));
  return { bench, kept, last: utf8(fifth) };
}

/** Starts over what is there, and checks that the log is whole then, a torn tail at `torn` recovered. */
function checkRecovered(bench: AuditBench, torn: number, what: string): void {
  assert.deepEqual(bench.report().torn_tail, { file: NEWEST, line: torn }, what);
  const recoveries = bench.report().recoveries.length;
  bench.said.length = 0;
  const audit = bench.open();
  assert.deepEqual(
    bench.said,
    [
      `audit: recovered a torn final line at ${NEWEST}:${torn}`,
      "see docs/runbook.md#audit-recovered",
    ],
    what,
  );
  const report = bench.report();
  assert.equal(report.failure, null, what);
  assert.equal(report.torn_tail, null, what);
  assert.deepEqual(report.recoveries.at(-1), { file: NEWEST, line: torn }, what);
  assert.equal(report.recoveries.length, recoveries + 1, what);
  assert.equal(report.anchored, report.next_seq - 1, what);
  assert.notEqual(audit.append(event(0)), null, what);
  assert.equal(bench.report().failure, null, what);
}

Deno.test("a last record cut at any byte is recovered, and every later verification says so", () => {
  const { bench, kept, last } = beforeTheLast();
  using _ = bench;
  bench.write(NEWEST, kept);
  bench.open();
  assert.deepEqual(bench.read(NEWEST), kept, "cut before its first byte, nothing is torn");
  for (let bytes = 1; bytes <= last.length; bytes += 1) {
    bench.write("head.json", encodeHead({ seq: 13, hash: lastHash(kept) }));
    bench.write(NEWEST, new Uint8Array([...kept, ...last.subarray(0, bytes)]));
    checkRecovered(bench, 5, `cut after ${bytes} bytes`);
    const recovery = recordsIn(bench.directory).at(-2);
    assert.deepEqual(recovery?.event, {
      type: "recovery",
      torn_bytes: bytes,
      torn_sha256: sha256(last.subarray(0, bytes)),
    });
    assert.equal(recovery?.seq, 14);
    assert.equal(recovery?.prev, lastHash(kept));
  }
});

function lastHash(bytes: Uint8Array): string {
  return sha256(utf8(new TextDecoder().decode(bytes).trimEnd().split("\n").at(-1) ?? ""));
}

Deno.test("a Recovery cut at any byte is recovered with what it covered, and so is the next one", () => {
  const { bench, kept, last } = beforeTheLast();
  using _ = bench;
  const head = encodeHead({ seq: 13, hash: lastHash(kept) });
  const torn = new Uint8Array([...kept, ...last.subarray(0, 50)]);
  bench.write(NEWEST, torn);
  bench.write("head.json", head);
  bench.open();
  const recovered = bench.read(NEWEST);
  // Without its last byte it lacks only its newline: that is the next test's.
  for (let bytes = torn.length + 1; bytes < recovered.length - 1; bytes += 1) {
    bench.write("head.json", head);
    bench.write(NEWEST, recovered.subarray(0, bytes));
    checkRecovered(bench, 5, `cut after ${bytes} bytes`);
    if (bytes % 16 !== 0) continue;
    // A second crash, in the second Recovery.
    bench.write("head.json", head);
    bench.write(NEWEST, recovered.subarray(0, bytes));
    bench.open();
    const again = bench.read(NEWEST);
    for (let more = bytes + 1; more < again.length - 1; more += 37) {
      bench.write("head.json", head);
      bench.write(NEWEST, again.subarray(0, more));
      checkRecovered(bench, 5, `cut after ${bytes} bytes, and again after ${more}`);
    }
  }
});

Deno.test("a Recovery or an accepted break that lacks only its newline gets just that", () => {
  const { bench, kept, last } = beforeTheLast();
  using _ = bench;
  bench.write(NEWEST, new Uint8Array([...kept, ...last.subarray(0, 50)]));
  bench.open();
  const recovered = bench.read(NEWEST);
  bench.write(NEWEST, new Uint8Array([...kept, ...last.subarray(0, 50), 0x0a]));
  bench.write("head.json", encodeHead({ seq: 3, hash: "0".repeat(64) }));
  const before: [string, Uint8Array][] = [["a Recovery", recovered]];

  const lines = bench.lines(NEWEST);
  bench.writeLines(NEWEST, [...lines.slice(0, 2), ...lines.slice(3)]);
  bench.open(true);
  before.push(["an accepted break", bench.read(NEWEST)]);

  for (const [what, whole] of before) {
    Deno.removeSync(bench.path("head.json"));
    bench.write(NEWEST, whole.subarray(0, -1));
    bench.said.length = 0;
    const audit = bench.open();
    assert.deepEqual(bench.read(NEWEST), whole, what);
    assert.deepEqual(bench.said.filter((line) => line.includes("recovered")), [], what);
    assert.equal(bench.report().failure, null, what);
    assert.equal(bench.report().anchored, bench.report().next_seq - 1, what);
    assert.notEqual(audit.append(event(0)), null, what);
    assert.equal(bench.report().failure, null, what);
  }
});

Deno.test("a Recovery goes to the torn file, whatever the date, in one write after what it trusts", () => {
  const { bench, kept, last } = beforeTheLast();
  using _ = bench;
  bench.write(NEWEST, new Uint8Array([...kept, ...last]));
  bench.write("2026-12-03.jsonl", "");
  bench.now = Date.parse("2026-12-24T10:00:00.000Z");
  bench.open().append(event(0));
  const directory = bench.directory.slice(bench.directory.lastIndexOf("/") + 1);
  assert.deepEqual(bench.files.done.map((one) => one.replace(directory, "audit")).slice(0, 8), [
    // What a crash or an I/O error left in memory only is on disk before anything chains from it.
    ...[`sync ${NEWEST}`, "sync 2026-12-03.jsonl", "syncDirectory audit"],
    ...[`openAppend ${NEWEST}`, `write ${NEWEST}`, `sync ${NEWEST}`, "syncDirectory audit"],
    "openAppend 2026-12-03.jsonl",
  ]);
  assert.equal(bench.lines(NEWEST).length, 6);
  assert.equal(bench.lines("2026-12-24.jsonl").length, 1);
  assert.equal(bench.report().failure, null);
  assert.equal(bench.report().clock_warnings.length, 0);
});

Deno.test("a start of a whole log syncs what it trusts, and writes nothing", () => {
  using bench = threeDays();
  bench.open();
  const directory = bench.directory.slice(bench.directory.lastIndexOf("/") + 1);
  assert.deepEqual(bench.files.done.map((one) => one.replace(directory, "audit")), [
    ...[`sync ${NEWEST}`, "syncDirectory audit"],
    `openAppend ${NEWEST}`, // for the next record
  ]);
});

Deno.test("a start trusts nothing that it cannot sync, and writes nothing then", () => {
  const { bench, kept, last } = beforeTheLast();
  using _ = bench;
  bench.write(NEWEST, new Uint8Array([...kept, ...last]));
  const before = bench.snapshot();
  for (const failing of ["sync", "syncDirectory"]) {
    assert.throws(() => {
      bench.restart(false, (files) => {
        files.fault = ({ what }) => what === failing ? ioError() : null;
      });
    }, /a sync failed/);
    assert.deepEqual(bench.snapshot(), before);
  }
  assert.equal(bench.restart().started.status, "open");
});

Deno.test("a start without a head.json that can be read says that the log is not anchored", () => {
  using bench = threeDays();
  const told = () => bench.said.some((line) => line.startsWith("audit: not anchored"));
  bench.open();
  assert.equal(told(), false);
  bench.write("head.json", bench.read("head.json").subarray(1));
  bench.open();
  assert.equal(told(), true);
  assert.equal(bench.said.at(-1), "see docs/runbook.md#audit-not-anchored");
  using fresh = new AuditBench();
  fresh.open();
  assert.deepEqual(fresh.said, [], "an empty log needs no anchor");
});

const VECTORS = new URL("../../fixtures/vectors/audit/", import.meta.url);

/** A home with the audit directory of a vector, and all that a start makes before it looks at the log. */
function homeWith(vector: string): TempHome {
  const home = new TempHome();
  Deno.mkdirSync(home.layout.audit, { recursive: true });
  Deno.mkdirSync(home.layout.brokerSessions, { recursive: true });
  Deno.writeTextFileSync(`${home.layout.audit}/.lock`, "");
  const from = new URL(`${vector}/audit/`, VECTORS);
  for (const name of namesOf(from.pathname)) {
    Deno.copyFileSync(new URL(name, from), `${home.layout.audit}/${name}`);
  }
  return home;
}

/** What the real process says of the tampering suite's vectors. */
const SAID = {
  "changed/middle-value": "2024-02-28.jsonl:5: prev is not the hash of the line before it",
  "deleted/two-lines": "2024-02-28.jsonl:4: seq is 5, not 3",
  "moved/swap-middle": "2024-02-28.jsonl:4: seq is 4, not 3",
  "seq/gap": "2024-02-28.jsonl:5: seq is 5, not 4",
  "files/newest-prev-zero": "2024-03-01.jsonl:1: prev is not the hash of the line before it",
  "cut/middle-half": "2024-02-28.jsonl:4: does not parse as an audit record",
  "break/line-before": "2024-02-28.jsonl:3: ",
  "head/last-deleted": "2024-02-28.jsonl:8: head: the log ends before record 7",
} as const;

Deno.test("brokerd does not start on a log that was tampered with, and leaves its home as it was", async (t) => {
  for (const [vector, said] of Object.entries(SAID)) {
    await t.step(vector, async () => {
      using home = homeWith(vector);
      const before = snapshot(home.root);
      const { code, stderr } = await refusedStart(home);
      assert.equal(code, 1);
      const [first, second, ...rest] = stderr.trimEnd().split("\n");
      assert(first?.startsWith(`brokerd: audit: ${said}`), stderr);
      assert.equal(second, "brokerd: see docs/runbook.md#audit-chain-broken");
      assert.deepEqual(rest, []);
      assert.deepEqual(snapshot(home.root), before);
    });
  }
});

Deno.test("brokerd starts on a whole log and recovers a torn one", async () => {
  for (const vector of ["whole/days", "torn/cut-148"]) {
    using home = homeWith(vector);
    const torn = verifyDirectory(home.layout.audit).torn_tail;
    assert.equal(torn === null, vector === "whole/days");
    await using broker = await startBroker(home);
    if (torn !== null) {
      const said = `audit: recovered a torn final line at ${torn.file}:${torn.line}\n`;
      assert(broker.stderr.includes(said), broker.stderr);
    }
    assert.equal(broker.stderr.includes("see docs/runbook.md#audit-recovered"), torn !== null);
    await broker.stop();
    const report = verifyDirectory(home.layout.audit);
    assert.equal(report.failure, null);
    assert.deepEqual(report.recoveries, torn === null ? [] : [torn]);
  }
});
