/** The writer of the audit log (specification 5 and 12, "Audit"; contracts 5.3, 5.4, 5.8, 5.10). */
import assert from "node:assert/strict";
import { encodeRecord, parseRecord } from "../../proto/audit.ts";
import { sha256, ZERO_HASH } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";
import { AuditBench, event, recordsIn } from "../support/log.ts";
import { NotOpened } from "../../broker/files.ts";
import { diskFull, ioError } from "../support/watched_files.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const FIRST = "2026-12-01.jsonl";
const SECOND = "2026-12-02.jsonl";

Deno.test("the chain starts at nothing and goes on over a day boundary", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  assert.equal(audit.append(event(0)), 0);
  assert.equal(audit.append(event(1)), 1);
  bench.now += DAY_MS;
  assert.equal(audit.append(event(2)), 2);
  assert.equal(audit.append(event(3)), 3);

  assert.equal(bench.lines(FIRST).length, 2);
  assert.equal(bench.lines(SECOND).length, 2);
  const lines = [...bench.lines(FIRST), ...bench.lines(SECOND)].map(utf8);
  for (const [seq, line] of lines.entries()) {
    const record = parseRecord(line);
    assert.equal(record?.seq, seq);
    assert.equal(record?.prev, seq === 0 ? ZERO_HASH : sha256(lines[seq - 1] ?? line));
    assert.equal(record?.time, `2026-12-0${seq < 2 ? 1 : 2}T10:00:00.000Z`);
  }
  assert.equal(bench.report().failure, null);
  assert.equal(bench.report().records, 4);
});

Deno.test("seq and chain go on after a restart, on the same day and on a later one", () => {
  using bench = new AuditBench();
  bench.open().append(event(0));
  assert.equal(bench.open().append(event(1)), 1);
  bench.now += DAY_MS;
  assert.equal(bench.open().append(event(2)), 2);
  assert.equal(bench.open().append(event(3)), 3);
  assert.deepEqual([bench.lines(FIRST).length, bench.lines(SECOND).length], [2, 2]);
  assert.equal(bench.report().failure, null);
});

Deno.test("a record is synced before its answer, a new file's directory before its first record", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  bench.done();
  audit.append(event(0));
  assert.deepEqual(bench.done(), [
    ...[`openAppend ${FIRST}`, "syncDirectory audit", `write ${FIRST}`, `sync ${FIRST}`],
    ...["openUpdate head.json", "write head.json"],
  ]);
  audit.append(event(1));
  assert.deepEqual(bench.done(), [`write ${FIRST}`, `sync ${FIRST}`, "write head.json"]);
  bench.now += DAY_MS;
  audit.append(event(2));
  assert.deepEqual(bench.done(), [
    ...[`openAppend ${SECOND}`, "syncDirectory audit", `write ${SECOND}`, `sync ${SECOND}`],
    "write head.json",
  ]);
});

Deno.test("only the owner can read the log, whatever the umask", () => {
  const umask = Deno.umask(0);
  try {
    using bench = new AuditBench();
    bench.open().append(event(0));
    for (const name of [FIRST, "head.json", ".lock"]) {
      assert.equal((Deno.statSync(bench.path(name)).mode ?? 0) & 0o777, 0o600, name);
    }
  } finally {
    Deno.umask(umask);
  }
});

Deno.test("the lock refuses a second writer, and is free once the first is gone", () => {
  using bench = new AuditBench();
  const first = bench.open();
  first.append(event(0));
  using other = new AuditBench();
  Deno.removeSync(other.directory, { recursive: true });
  Deno.symlinkSync(bench.directory, other.directory);
  try {
    const before = bench.snapshot();
    for (const acceptBreak of [false, true]) {
      assert.deepEqual(other.restart(acceptBreak).started, { status: "already_running" });
    }
    assert.deepEqual(bench.snapshot(), before);
    assert.equal(first.append(event(1)), 1);
    bench.files[Symbol.dispose]();
    assert.equal(other.open().append(event(2)), 2);
  } finally {
    Deno.removeSync(other.directory);
    Deno.mkdirSync(other.directory);
  }
});

Deno.test("no record goes to an older file when the clock goes back over midnight", () => {
  using bench = new AuditBench();
  bench.now += DAY_MS;
  const audit = bench.open();
  audit.append(event(0));
  bench.now -= DAY_MS;
  audit.append(event(1));
  assert.equal(bench.open().append(event(2)), 2);
  assert.deepEqual(bench.lines(SECOND).map((line) => parseRecord(utf8(line))?.time), [
    "2026-12-02T10:00:00.000Z",
    "2026-12-01T10:00:00.000Z",
    "2026-12-01T10:00:00.000Z",
  ]);
  assert.deepEqual(bench.report().clock_warnings, [{ file: SECOND, line: 2 }]);
  assert.equal(bench.report().failure, null);
  assert.throws(() => bench.read(FIRST), Deno.errors.NotFound);
  // An empty newest file holds records back from an older one too.
  bench.write("2026-12-05.jsonl", "");
  bench.open().append(event(3));
  assert.equal(bench.lines("2026-12-05.jsonl").length, 1);
  assert.equal(bench.report().failure, null);
});

const DISTURBED: Readonly<Record<string, [(bench: AuditBench) => void, "goes_on" | RegExp]>> = {
  "replaced by the same bytes": [(bench) => {
    const bytes = bench.read(FIRST);
    Deno.renameSync(bench.path(FIRST), bench.path("old"));
    bench.write(FIRST, bytes);
  }, "goes_on"],
  "some garbage appended": [(bench) => {
    Deno.writeTextFileSync(bench.path(FIRST), "garbage\n", { append: true });
  }, "goes_on"],
  "removed": [
    (bench) => Deno.removeSync(bench.path(FIRST)),
    /^audit: head\.json:1: head: the log ends before record 2$/,
  ],
  "removed, with head.json": [(bench) => {
    Deno.removeSync(bench.path(FIRST));
    Deno.removeSync(bench.path("head.json"));
  }, /^audit: head\.json:1: head: the log ends before record 2$/],
  "emptied": [
    (bench) => Deno.truncateSync(bench.path(FIRST)),
    /: head: the log ends before record 2$/,
  ],
  "its last line removed, with head.json": [(bench) => {
    bench.writeLines(FIRST, bench.lines(FIRST).slice(0, 2));
    Deno.removeSync(bench.path("head.json"));
  }, /^audit: 2026-12-01\.jsonl:3: head: the log ends before record 2$/],
  "its last line cut short": [(bench) => {
    Deno.truncateSync(bench.path(FIRST), bench.read(FIRST).length - 5);
  }, /^audit: 2026-12-01\.jsonl:3: head: the log ends before record 2$/],
  "another whole log in its place": [(bench) => {
    const records = [0, 1, 2, 3].reduce<string[]>((lines, seq) => {
      const prev = lines.length === 0 ? ZERO_HASH : sha256(utf8(lines.at(-1) ?? ""));
      const time = "2026-12-01T11:00:00.000Z";
      const line = encodeRecord({ seq, time, prev, event: event(seq) });
      return [...lines, new TextDecoder().decode(line)];
    }, []);
    bench.writeLines(FIRST, records);
    Deno.removeSync(bench.path("head.json"));
  }, /^audit: 2026-12-01\.jsonl:3: head: record 2 has another hash/],
  "a middle line changed, and one appended": [(bench) => {
    const [first = "", second = "", ...rest] = bench.lines(FIRST);
    bench.writeLines(FIRST, [first, second.replace("private", "public"), ...rest, "x"]);
  }, /^audit: 2026-12-01\.jsonl:3: prev is not the hash/],
  "its last line replaced, and a newer file chained to that": [(bench) => {
    const records = recordsIn(bench.directory);
    const other = encodeRecord({ ...records[2] ?? assert.fail(), event: event(99) });
    bench.writeLines(FIRST, [...bench.lines(FIRST).slice(0, 2), new TextDecoder().decode(other)]);
    Deno.removeSync(bench.path("head.json"));
    const next = { seq: 3, time: "2026-12-02T10:00:00.000Z", prev: sha256(other), event: event(3) };
    bench.writeLines(SECOND, [new TextDecoder().decode(encodeRecord(next))]);
  }, /^audit: 2026-12-01\.jsonl:3: head: record 2 has another hash/],
  "a directory in its place": [(bench) => {
    Deno.removeSync(bench.path(FIRST));
    Deno.mkdirSync(bench.path(FIRST));
  }, /^audit: 2026-12-01\.jsonl:0: is not a regular file$/],
  "the whole directory moved away": [(bench) => {
    Deno.renameSync(bench.directory, `${bench.directory}.away`);
    Deno.mkdirSync(bench.directory);
    // To be put back by the test.
    Deno.symlinkSync(`${bench.directory}.away`, bench.path("away"));
  }, /^audit: head\.json:1: head: the log ends before record 2$/],
};

Deno.test("whatever happens to the newest file, the chain never starts again", async (t) => {
  for (const [what, [disturb, outcome]] of Object.entries(DISTURBED)) {
    await t.step(what, () => {
      using bench = new AuditBench();
      const audit = bench.open();
      for (const n of [0, 1, 2]) audit.append(event(n));
      const [log, head] = [bench.read(FIRST), bench.read("head.json")];
      disturb(bench);
      const seq = audit.append(event(3));
      if (outcome === "goes_on") {
        assert.notEqual(seq, null);
        assert.equal(bench.report().failure, null);
        return;
      }
      assert.equal(seq, null);
      assert.equal(audit.ready(), false);
      const said = bench.said.find((line) => outcome.test(line));
      assert(said !== undefined, bench.said.join("\n"));
      assert(bench.said.at(-1)?.endsWith("see docs/runbook.md#audit-chain-broken"));
      const lines = bench.said.length;
      assert.equal(audit.append(event(3)), null);
      assert.equal(bench.said.length, lines, "said once");

      // The owner puts the log back: the next call goes on, without a restart.
      if (what === "the whole directory moved away") {
        Deno.removeSync(bench.directory, { recursive: true });
        Deno.renameSync(`${bench.directory}.away`, bench.directory);
      } else {
        if (what === "a directory in its place") Deno.removeSync(bench.path(FIRST));
        if (bench.has(SECOND)) Deno.removeSync(bench.path(SECOND));
        bench.write(FIRST, log);
        bench.write("head.json", head);
      }
      assert.equal(audit.append(event(3)), 3);
      assert.equal(bench.said.at(-1), "audit: written again");
      assert.deepEqual(bench.report().records, 4);
      assert.equal(bench.report().failure, null);
    });
  }
});

Deno.test("a record cut short by a full disk latches the log, and is recovered once there is space", () => {
  const recordBytes = encodeRecord({
    ...{ seq: 2, time: "2026-12-01T10:00:00.000Z", prev: ZERO_HASH, event: event(2) },
  }).length + 1;
  for (const written of [0, 1, 40, recordBytes - 2, recordBytes - 1]) {
    using bench = new AuditBench();
    const audit = bench.open();
    audit.append(event(0));
    audit.append(event(1));
    const full = bench.read(FIRST).length;
    let room = written;
    bench.files.fault = ({ what, name }) => {
      if (what !== "write" || name !== FIRST) return null;
      const now = room;
      room = 0;
      return now === 0 ? diskFull() : now;
    };
    assert.equal(audit.append(event(2)), null);
    assert.equal(bench.read(FIRST).length, full + written);
    // Still full: each call tries, and nothing more is written.
    assert.equal(audit.append(event(2)), null);
    assert.equal(audit.append(event(2)), null);
    assert.equal(bench.read(FIRST).length, full + written);
    assert(bench.said.some((line) => line.endsWith("see docs/runbook.md#audit-unavailable")));
    assert(!bench.said.includes("audit: written again"), "nothing has been written since");

    bench.files.fault = () => null;
    const seq = audit.append(event(2));
    const report = bench.report();
    assert.equal(report.failure, null);
    assert.deepEqual(report.recoveries, written === 0 ? [] : [{ file: FIRST, line: 3 }]);
    assert.equal(seq, written === 0 ? 2 : 3);
    assert.equal(recordsIn(bench.directory).at(-1)?.seq, seq);
    assert.equal(bench.said.includes("audit: written again"), true);
    assert.equal(
      bench.said.includes(`audit: recovered a torn final line at ${FIRST}:3`),
      written !== 0,
    );
  }
});

Deno.test("a Recovery that is itself cut short is recovered with what it was to recover", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  audit.append(event(0));
  const room = [20, 30, 50];
  bench.files.fault = ({ what, name }) =>
    what === "write" && name === FIRST ? room.shift() ?? null : null;
  for (let n = 0; n < 3; n += 1) assert.equal(audit.append(event(1)), null);
  assert.equal(audit.append(event(1)), 2);
  const report = bench.report();
  assert.equal(report.failure, null);
  assert.deepEqual(report.recoveries, [{ file: FIRST, line: 2 }]);
  assert.equal(report.records, 3);
  assert.equal(report.anchored, 2);
});

Deno.test("a first record that is cut short, ever or of a new day, is recovered where it stands", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  const cutAt = (bytes: number) => {
    let cut = false;
    bench.files.fault = ({ what, name }) => {
      if (cut || what !== "write" || name === "head.json") return null;
      cut = true;
      return bytes;
    };
  };
  cutAt(10);
  assert.equal(audit.append(event(0)), null);
  assert.equal(audit.append(event(0)), 1);
  bench.now += DAY_MS;
  cutAt(10);
  assert.equal(audit.append(event(1)), null);
  bench.now += DAY_MS;
  assert.equal(audit.append(event(1)), 3);
  const report = bench.report();
  assert.equal(report.failure, null);
  assert.deepEqual(report.recoveries, [{ file: FIRST, line: 1 }, { file: SECOND, line: 1 }]);
});

Deno.test("after a failed sync nothing is written until a restart, though syncs work again", async (t) => {
  const failing: Readonly<Record<string, (bench: AuditBench) => void>> = {
    "of the file": (bench) => {
      bench.files.fault = ({ what, name }) => what === "sync" && name === FIRST ? ioError() : null;
    },
    "of the directory, for a new file": (bench) => {
      bench.now += DAY_MS;
      bench.files.fault = ({ what }) => what === "syncDirectory" ? ioError() : null;
    },
    "of the file, while a torn line is recovered": (bench) => {
      Deno.writeTextFileSync(bench.path(FIRST), "torn", { append: true });
      bench.files.fault = ({ what, name }) => what === "sync" && name === FIRST ? ioError() : null;
    },
    "of the directory, while a torn line is recovered": (bench) => {
      Deno.writeTextFileSync(bench.path(FIRST), "torn", { append: true });
      bench.files.fault = ({ what }) => what === "syncDirectory" ? ioError() : null;
    },
  };
  for (const [what, fail] of Object.entries(failing)) {
    await t.step(what, () => {
      using bench = new AuditBench();
      const audit = bench.open();
      assert.equal(audit.append(event(0)), 0);
      fail(bench);
      assert.equal(audit.append(event(1)), null);
      bench.files.fault = () => null;
      const before = bench.snapshot();
      for (let n = 0; n < 3; n += 1) assert.equal(audit.append(event(1)), null);
      assert.equal(audit.ready(), false);
      assert.deepEqual(bench.snapshot(), before);
      const [said, pointer] = bench.said.slice(-2);
      assert.match(said ?? "", /^audit: every call is denied until a restart: a sync failed: /);
      assert.equal(pointer, "see docs/runbook.md#audit-unavailable");

      assert.notEqual(bench.open().append(event(2)), null);
      assert.equal(bench.report().failure, null);
    });
  }
});

Deno.test("a failed open is tried again at each call", async (t) => {
  const failing = {
    "of a new day's file": "openAppend",
    "of the file to read": "openRead",
    "of the directory": "list",
    "of the directory to sync it": "syncDirectory",
  } as const;
  for (const [what, operation] of Object.entries(failing)) {
    await t.step(what, () => {
      using bench = new AuditBench();
      const audit = bench.open();
      audit.append(event(0));
      bench.now += DAY_MS;
      bench.files.fault = (done) => {
        if (operation === "openAppend") return done.what === operation ? ioError() : null;
        if (operation === "syncDirectory") {
          return done.what === operation ? new NotOpened("no descriptors") : null;
        }
        // The others are reached only once the log is latched.
        return done.what === operation || done.what === "openAppend" ? ioError() : null;
      };
      for (let n = 0; n < 3; n += 1) assert.equal(audit.append(event(1)), null);
      bench.files.fault = () => null;
      assert.equal(audit.append(event(1)), 1);
      assert.equal(audit.append(event(2)), 2);
      assert.equal(bench.lines(SECOND).length, 2);
      assert.equal(bench.report().failure, null);
    });
  }
});

Deno.test("a file of a new day that somebody else made is not written to", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  audit.append(event(0));
  bench.now += DAY_MS;
  bench.write(SECOND, "not ours\n");
  const before = bench.snapshot();
  assert.equal(audit.append(event(1)), null);
  assert.deepEqual(bench.snapshot(), before);
  // As at a start: a last line that does not parse is a torn tail.
  assert.equal(audit.append(event(1)), 2);
  assert.deepEqual(bench.report().recoveries, [{ file: SECOND, line: 1 }]);
  assert.equal(bench.report().failure, null);
});
