/** Reading the audit directory: what is read and how, held against the same log in memory (contracts 5). */
import assert from "node:assert/strict";
import { inspect, type Inspection, readHead } from "../../broker/audit_files.ts";
import { type Files, type OpenFile, realFiles } from "../../broker/files.ts";
import { type Anchor, encodeRecord, parseRecord } from "../../proto/audit.ts";
import type { ResumePoint } from "../../proto/chain.ts";
import { sha256, ZERO_HASH } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";
import { directoriesIn, type LogFile, readCase, verify } from "../support/audit_case.ts";
import { AuditBench, event } from "../support/log.ts";
import { ioError, WatchedFiles } from "../support/watched_files.ts";

const VECTORS = new URL("../../fixtures/vectors/audit/", import.meta.url);
const OLDEST = "2026-11-29.jsonl";
const OLDER = "2026-11-30.jsonl";
const NEWEST = "2026-12-01.jsonl";

const WHOLE = { whole: true, anchored: true, expected: null } as const;
const RESUMED = { ...WHOLE, whole: false } as const;

/** Where a verification of the file after `file` starts, from all of its lines. */
function pointAfter({ name, bytes }: LogFile): ResumePoint {
  const newlines = [...bytes.keys()].filter((at) => bytes[at] === 0x0a);
  const ended = newlines.at(-1) === bytes.length - 1;
  const before = newlines.at(ended ? -2 : -1) ?? -1;
  const last = bytes.subarray(before + 1, ended ? -1 : bytes.length);
  const record = parseRecord(last);
  const line = newlines.length + (ended ? 0 : 1);
  const what = ended
    ? "does not parse as an audit record"
    : "the last line of an older file has no newline";
  return {
    nextSeq: record === null ? 0 : record.seq + 1,
    prev: sha256(last),
    failure: record === null || !ended ? { file: name, line, what } : null,
  };
}

/** What a look at `files` must give, whole or from the last line of the file before the newest. */
function reportOf(files: readonly LogFile[], head: Anchor | null, whole: boolean) {
  const filled = files.filter(({ bytes }) => bytes.length > 0);
  const before = filled.at(-2);
  const anchors = { head, expected: null };
  return whole || before === undefined
    ? verify(files, anchors)
    : verify(filled.slice(-1), anchors, pointAfter(before));
}

/** Real files of which a read gives at most `most` bytes. */
function slow(most: number): Files {
  const slowly = (file: OpenFile): OpenFile => ({
    ...file,
    read: (buffer, position) => file.read(buffer.subarray(0, most), position),
  });
  return { ...realFiles, openRead: (path) => slowly(realFiles.openRead(path)) };
}

function threeDays(): AuditBench {
  const bench = new AuditBench();
  for (const name of [OLDEST, OLDER, NEWEST]) bench.fill(name.slice(0, 10), 5);
  return bench;
}

/** `inspect` over the bench's files. Nothing is left open. */
function look(bench: AuditBench, how: Parameters<typeof inspect>[2] = RESUMED): Inspection {
  const found = inspect(bench.files, bench.directory, how);
  assert.equal(bench.files.open, 0);
  return found;
}

const place = ({ report: { failure } }: Inspection) =>
  failure === null ? null : `${failure.file}:${failure.line}`;

Deno.test("a bad last line of the file before is named by its line, with the reason", () => {
  const bad: Readonly<Record<string, (lines: string[]) => string>> = {
    "does not parse as an audit record": (lines) => [...lines, "{", ""].join("\n"),
    "the last line of an older file has no newline": (lines) => lines.join("\n"),
  };
  for (const [what, content] of Object.entries(bad)) {
    using bench = threeDays();
    bench.write(OLDER, content(bench.lines(OLDER)));
    const line = what.startsWith("does") ? 6 : 5;
    for (const how of [WHOLE, RESUMED]) {
      assert.deepEqual(look(bench, how).report.failure, { file: OLDER, line, what });
    }
    // Where what accepts it may go on: after a record that was read, though not trusted.
    assert.equal(look(bench).report.next_seq, line === 6 ? 0 : 10);
  }
  // An empty line is one too.
  using bench = threeDays();
  bench.write(OLDER, "\n");
  assert.equal(place(look(bench)), `${OLDER}:1`);
});

Deno.test("only the newest file and the last line of the one before it are read", () => {
  using bench = threeDays();
  bench.writeLines(OLDER, bench.lines(OLDER).with(0, "{"));
  bench.write(OLDEST, "{\n");
  assert.equal(place(look(bench)), null);
  assert.equal(place(look(bench, WHOLE)), `${OLDEST}:1`);
  // Empty files do not count as the one before, nor as the newest that is verified.
  bench.write("2026-12-02.jsonl", "");
  bench.write("2026-11-30.json", "no file of the log");
  const found = look(bench);
  assert.deepEqual([place(found), found.report.records], [null, 5]);
  assert.equal(found.newest, "2026-12-02.jsonl");
});

Deno.test("of a long file before the newest no more is read than holds its last line", () => {
  using bench = threeDays();
  bench.write(OLDER, `${"x\n".repeat(2_000_000)}${bench.lines(OLDER).at(-1)}\n`);
  let reads = 0;
  bench.files.fault = ({ what, name }) => {
    if (what === "read" && name === OLDER) reads += 1;
    return null;
  };
  assert.equal(place(look(bench)), null);
  assert.equal(reads, 1);
});

Deno.test("what the caller knows is looked for as far back as needed", () => {
  using bench = threeDays();
  const anchor = (name: string, line: number, seq: number): Anchor => ({
    seq,
    hash: sha256(utf8(bench.lines(name)[line - 1] ?? "")),
  });
  const known = [anchor(NEWEST, 1, 10), anchor(OLDER, 5, 9), anchor(OLDER, 4, 8)];
  for (const expected of known) assert.equal(place(look(bench, { ...RESUMED, expected })), null);
  const wrong = known.map(({ seq }) => ({ seq, hash: ZERO_HASH }));
  assert.deepEqual(
    wrong.map((expected) => place(look(bench, { ...RESUMED, expected }))),
    [`${NEWEST}:1`, `${OLDER}:5`, `${OLDER}:4`],
  );
  // The right hash under another number is not what stands there.
  const { hash } = anchor(OLDER, 5, 9);
  assert.equal(place(look(bench, { ...RESUMED, expected: { seq: 3, hash } })), `${OLDEST}:4`);
  // A failure further back is found only by the one that is looked for beyond it.
  bench.write(OLDEST, "{\n");
  assert.deepEqual(
    known.map((expected) => place(look(bench, { ...RESUMED, expected }))),
    [null, null, `${OLDEST}:1`],
  );
});

Deno.test("a file of the log that is none, or cannot be opened, is a failure without a line", () => {
  using bench = threeDays();
  const head = look(bench).head;
  assert.notEqual(head, null);
  bench.files.fault = ({ what, name }) => what === "openRead" && name === OLDEST ? ioError() : null;
  for (const how of [WHOLE, RESUMED]) {
    const found = look(bench, how);
    assert.deepEqual(found.report.failure, {
      ...{ file: OLDEST, line: 0 },
      what: "cannot be read: input/output error",
    });
    assert.deepEqual([found.head, found.newest, found.report.anchored], [head, NEWEST, 14]);
    assert.deepEqual([found.report.next_seq, found.end.last], [0, null], "nothing was read");
  }
  bench.files.fault = () => null;
  Deno.removeSync(bench.path(OLDER));
  Deno.mkdirSync(bench.path(OLDER));
  assert.deepEqual(look(bench).report.failure, {
    ...{ file: OLDER, line: 0 },
    what: "is not a regular file",
  });
  Deno.removeSync(bench.path(OLDER));
  Deno.symlinkSync("gone", bench.path(OLDER));
  assert.deepEqual(look(bench).report.failure, {
    ...{ file: OLDER, line: 0 },
    what: "is not a regular file",
  }, "a link to nothing");
});

Deno.test("a file that shrinks or fails while it is read is no whole log, and is closed", () => {
  for (const name of [OLDER, NEWEST]) {
    using bench = threeDays();
    using failing = new WatchedFiles();
    failing.fault = ({ what, name: read }) => what === "read" && read === name ? ioError() : null;
    assert.throws(() => inspect(failing, bench.directory, RESUMED), /i\/o error/);
    assert.equal(failing.open, 0);
  }
  using bench = threeDays();
  const shrunk: Files = {
    ...realFiles,
    openRead: (path) => ({ ...realFiles.openRead(path), read: () => 0 }),
  };
  assert.throws(() => inspect(shrunk, bench.directory, RESUMED), /shrank while it was read/);
  const emptied: Files = {
    ...realFiles,
    openRead(path) {
      const file = realFiles.openRead(path);
      return { ...file, stat: () => ({ ...file.stat(), size: 0 }) };
    },
  };
  assert.throws(() => inspect(emptied, bench.directory, RESUMED), /the file is empty/);
});

Deno.test("head.json is read where it is exactly what brokerd writes, and is else no head", () => {
  using bench = threeDays();
  const read = () => readHead(bench.files, bench.directory);
  assert.equal(read()?.seq, 14);
  bench.files.fault = ({ what, name }) =>
    what === "read" && name === "head.json" ? ioError() : null;
  assert.equal(read(), null);
  bench.files.fault = () => null;
  bench.write("head.json", new Uint8Array([...bench.read("head.json"), 0x0a]));
  assert.equal(read(), null);
  Deno.removeSync(bench.path("head.json"));
  assert.equal(read(), null);
  Deno.mkdirSync(bench.path("head.json"));
  assert.equal(read(), null);
  assert.equal(place(look(bench)), null);
});

Deno.test("each log of the vectors is read as it stands, whole and from its newest file", () => {
  for (const group of directoriesIn(VECTORS).filter((name) => name !== "usage")) {
    for (const name of directoriesIn(new URL(`${group}/`, VECTORS))) {
      const { files, anchors: { head } } = readCase(name, new URL(`${group}/${name}/`, VECTORS));
      const directory = new URL(`${group}/${name}/audit`, VECTORS).pathname;
      for (const whole of [true, false]) {
        const found = inspect(realFiles, directory, { ...WHOLE, whole });
        assert.deepEqual(found.report, reportOf(files, head, whole), `${group}/${name}`);
        assert.deepEqual([found.head, found.newest], [head, files.at(-1)?.name ?? null]);
        const unanchored = inspect(realFiles, directory, { ...WHOLE, whole, anchored: false });
        assert.deepEqual(unanchored.report, reportOf(files, null, whole), `${group}/${name}`);
        assert.deepEqual(unanchored.head, head, "told, though not held against");
      }
    }
  }
});

Deno.test("lines longer than what is read at once are whole, however little a read gives", () => {
  for (const last of [10, 1024 * 1024 - 1, 1024 * 1024, 2_500_000]) {
    using bench = new AuditBench();
    let prev = ZERO_HASH;
    let seq = 0;
    for (const [name, sizes] of [[OLDER, [30, last]], [NEWEST, [30, 2_500_000, 40]]] as const) {
      const lines: string[] = [];
      for (const size of sizes) {
        const time = `${name.slice(0, 10)}T10:00:00.000Z`;
        const record = { seq, time, prev, event: { ...event(seq), arguments: "x".repeat(size) } };
        const line = encodeRecord(record);
        lines.push(new TextDecoder().decode(line));
        prev = sha256(line);
        seq += 1;
      }
      bench.writeLines(name, lines);
    }
    for (const files of [realFiles, slow(300_000)]) {
      for (const how of [WHOLE, RESUMED]) {
        const { report, end } = inspect(files, bench.directory, how);
        assert.deepEqual([report.failure, report.head, report.next_seq], [null, prev, seq]);
        assert.equal(report.records, how.whole ? 5 : 3);
        assert.deepEqual(end.last, { file: NEWEST, line: 3 });
      }
    }
  }
});
