import assert from "node:assert/strict";
import fc from "fast-check";
import { parseRecord } from "../../proto/audit.ts";
import type { Anchors, ChainReport, ResumePoint } from "../../proto/chain.ts";
import { sha256, ZERO_HASH } from "../../proto/ids.ts";
import { type Line, LineSplitter } from "../../proto/lines.ts";
import { utf8 } from "../../proto/text.ts";
import { type LogFile, verify } from "../support/audit_case.ts";
import {
  acceptedBreak,
  approval,
  decision,
  type Header,
  LogBuilder,
  recovery,
  result,
} from "../support/chain_log.ts";
import { Story, storySteps } from "../support/chain_story.ts";

const OLDER = "2026-11-30.jsonl";
const NEWEST = "2026-12-01.jsonl";
const NO_ANCHORS: Anchors = { head: null, expected: null };

/** Where a verifier of the file after `file` starts: its last line, found by reading all of it. */
function pointAfter({ name, bytes }: LogFile): ResumePoint {
  const splitter = new LineSplitter();
  const lines: Line[] = [...splitter.push(bytes)];
  const rest = splitter.end();
  if (rest !== null) lines.push(rest);
  const last = lines.at(-1) ?? assert.fail("an empty file");
  const record = parseRecord(last.bytes);
  const bad = record === null || !last.ended;
  return {
    nextSeq: record === null ? 0 : record.seq + 1,
    prev: sha256(last.bytes),
    failure: bad ? { file: name, line: lines.length, what: "bad" } : null,
  };
}

/** The report of a verifier that reads the newest file alone. */
function resumed(files: readonly LogFile[], anchors = NO_ANCHORS): ChainReport {
  const filled = files.filter(({ bytes }) => bytes.length > 0);
  const before = filled.at(-2);
  return verify(filled.slice(-1), anchors, before === undefined ? null : pointAfter(before));
}

/** What a start goes by: where it stopped, and where a record would go on. */
function verdict({ failure, torn_tail, next_seq }: ChainReport): unknown {
  const place = failure === null ? null : { file: failure.file, line: failure.line };
  return { failure: place, torn_tail, next_seq };
}

/** Two files; the newest has a recovery and an accepted break in it. */
function eventful(): LogBuilder {
  const builder = new LogBuilder()
    .file("2026-11-29.jsonl").add(decision("allowed")).add(result(0))
    .file(OLDER).add(decision("denied")).add(decision("ask"))
    .file(NEWEST).add(approval(3, "approved"));
  const torn = [utf8('{"seq":5,'), utf8('{"seq":5,"time')];
  for (const line of torn) builder.raw(line);
  builder.add(recovery(torn)).add(result(3));
  const good = builder.head;
  builder.raw(utf8("junk")).add(decision("denied"), { seq: 90 });
  builder.add(acceptedBreak({ file: NEWEST, line: 6 }, good), { seq: 9 });
  return builder.add(decision("denied"));
}

Deno.test("resumed in the newest file it says what the whole log says, for every cut", {
  permissions: "none",
}, () => {
  const files = eventful().files();
  const newest = files.at(-1) ?? assert.fail();
  const whole = verify(files);
  assert.equal(whole.failure, null);
  assert.equal(whole.recoveries.length + whole.accepted_breaks.length, 2);
  const seen = new Set<string>();
  for (let size = 1; size <= newest.bytes.length; size += 1) {
    const cut = [...files.slice(0, -1), { ...newest, bytes: newest.bytes.slice(0, size) }];
    const full = verify(cut);
    assert.deepEqual(verdict(resumed(cut)), verdict(full), `the first ${size} bytes`);
    const head = { seq: whole.next_seq - 1, hash: whole.head ?? ZERO_HASH };
    const anchors = { head, expected: null };
    assert.deepEqual(verdict(resumed(cut, anchors)), verdict(verify(cut, anchors)));
    seen.add(full.failure !== null ? "failure" : full.torn_tail !== null ? "torn" : "whole");
  }
  assert.deepEqual([...seen].sort(), ["failure", "torn", "whole"]);
});

Deno.test("resumed it finds any changed byte of the newest file where the whole log does", {
  permissions: "none",
}, () => {
  const files = eventful().files();
  const newest = files.at(-1) ?? assert.fail();
  const whole = verify(files);
  const anchors = {
    head: { seq: whole.next_seq - 1, hash: whole.head ?? ZERO_HASH },
    expected: null,
  };
  for (const at of newest.bytes.keys()) {
    const bytes = newest.bytes.slice();
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    const changed = [...files.slice(0, -1), { ...newest, bytes }];
    const full = verify(changed, anchors);
    const line = newest.bytes.slice(0, at).filter((byte) => byte === 0x0a).length + 1;
    const accepted = line === 6 && newest.bytes[at] !== 0x0a;
    assert.equal(full.failure === null, accepted, `byte ${at} of line ${line}`);
    const named = /"accepted_break","file":"([^"]*)"/.exec(new TextDecoder().decode(bytes))?.[1];
    if (named !== undefined && named < NEWEST) {
      // A break that names an older file is taken as given; the next line shows that it was changed.
      assert.equal(resumed(changed, anchors).failure?.line, line + 1);
    } else {
      assert.deepEqual(verdict(resumed(changed, anchors)), verdict(full), `byte ${at}`);
    }
  }
});

Deno.test(
  "resumed it agrees on every log whose older files are whole",
  { permissions: "none" },
  () => {
    fc.assert(
      fc.property(storySteps, (steps) => {
        const story = new Story();
        for (const step of steps) story.happen(step);
        const files = story.files().filter(({ bytes }) => bytes.length > 0);
        fc.pre(files.length > 1);
        const older = verify(files.slice(0, -1));
        fc.pre(older.failure === null && older.torn_tail === null);
        fc.pre(files.at(-2)?.bytes.at(-1) === 0x0a);
        const newest = files.at(-1) ?? assert.fail();
        // Such a break is taken as given: see below.
        const names = new TextDecoder().decode(newest.bytes).matchAll(
          /"accepted_break","file":"([^"]*)"/g,
        );
        fc.pre([...names].every(([, name = ""]) => name >= newest.name));
        assert.deepEqual(verdict(resumed(files)), verdict(verify(files)));
      }),
      { numRuns: 30 },
    );
  },
);

/** An older file with `bad` as its last line, and a newest one that `write` goes on with. */
function afterBad(bad: Uint8Array, write: (newest: LogBuilder, good: string) => void): LogBuilder {
  const builder = new LogBuilder().file(OLDER).add(decision("denied")).add(decision("denied"));
  const good = builder.head;
  write(builder.raw(bad).file(NEWEST), good);
  return builder;
}

const BAD = utf8("junk");
const BAD_LINE = { file: OLDER, line: 3 };
const givenBreak = (good: string, more: Header = {}) =>
  [acceptedBreak(BAD_LINE, good), { seq: 3, prev: sha256(BAD), ...more }] as const;

Deno.test("a bad last line of the file before is a failure there", { permissions: "none" }, () => {
  const files = afterBad(BAD, (newest) => newest.add(decision("denied"))).files();
  const { failure, records } = resumed(files);
  assert.deepEqual({ file: failure?.file, line: failure?.line }, BAD_LINE);
  assert.equal(records, 0);
  const unended = files.map((file) =>
    file.name === OLDER ? { ...file, bytes: file.bytes.slice(0, -1) } : file
  );
  assert.equal(resumed(unended).failure?.line, 3, "and so is one without its newline");
});

Deno.test("a bad last line of the file before is no failure once it is accepted", {
  permissions: "none",
}, () => {
  const files = afterBad(BAD, (newest, good) => {
    newest.add(...givenBreak(good)).add(decision("denied"));
  }).files();
  assert.equal(verify(files).failure, null, "the whole log says so too");
  const report = resumed(files);
  assert.equal(report.failure, null);
  assert.deepEqual(report.accepted_breaks, [{ file: NEWEST, line: 1 }]);
  assert.equal(report.next_seq, 5);
});

Deno.test("a break that names an older file is taken as given, whatever stands before it", {
  permissions: "none",
}, () => {
  const before = {
    "nothing": [],
    "records that do not chain": [decision("denied"), decision("allowed")],
    "lines that do not parse": [utf8("x"), utf8("")],
    "a record and a line that does not parse": [decision("denied"), utf8("x")],
    "a line that does not parse and a record": [utf8("x"), decision("denied")],
  };
  for (const [what, lines] of Object.entries(before)) {
    const files = afterBad(BAD, (newest, good) => {
      let last = sha256(BAD);
      for (const line of lines) {
        if (line instanceof Uint8Array) {
          newest.raw(line);
          last = sha256(line);
        } else {
          newest.add(line, { seq: 90 });
          last = newest.head;
        }
      }
      newest.add(acceptedBreak(BAD_LINE, good), { seq: 12, prev: last }).add(decision("denied"));
    }).files();
    const full = verify(files);
    assert.equal(full.failure, null, what);
    const report = resumed(files);
    assert.equal(report.failure, null, what);
    assert.equal(report.next_seq, 14, what);
    assert.deepEqual(report.accepted_breaks, full.accepted_breaks, what);
  }
});

Deno.test(
  "a break of an older file that is not chained accepts nothing",
  { permissions: "none" },
  () => {
    const wrong = {
      "another prev": { prev: ZERO_HASH },
      "the prev of the last good line": { prev: sha256(utf8("other")) },
    };
    for (const [what, header] of Object.entries(wrong)) {
      const files = afterBad(BAD, (newest, good) => newest.add(...givenBreak(good, header)))
        .files();
      assert.equal(resumed(files).failure?.file, OLDER, what);
      assert.notEqual(verify(files).failure, null, what);
    }
    const later = afterBad(BAD, (newest, good) => {
      newest.add(acceptedBreak({ file: "2026-12-02.jsonl", line: 1 }, good), {
        seq: 3,
        prev: sha256(BAD),
      });
    });
    assert.equal(resumed(later.files()).failure?.file, OLDER, "a break that names a newer file");
    const here = afterBad(BAD, (newest, good) => {
      newest.add(acceptedBreak({ file: NEWEST, line: 1 }, good), { seq: 3, prev: sha256(BAD) });
    });
    assert.equal(resumed(here.files()).failure?.file, OLDER, "a break that names its own file");
  },
);

Deno.test("a break that lacks its newline is taken as given too", { permissions: "none" }, () => {
  for (const lines of [[], [utf8("x")], [decision("denied")]]) {
    const files = afterBad(BAD, (newest, good) => {
      let last = sha256(BAD);
      for (const line of lines) {
        if (line instanceof Uint8Array) newest.raw(line);
        else newest.add(line, { seq: 90 });
        last = line instanceof Uint8Array ? sha256(line) : newest.head;
      }
      newest.add(...givenBreak(good, { prev: last })).unended();
    }).files();
    const report = resumed(files);
    assert.equal(report.failure, null);
    assert.equal(report.torn_tail, null);
    assert.equal(report.accepted_breaks.length, 1);
  }
});

Deno.test("only a resumed verifier takes a break as given", { permissions: "none" }, () => {
  const files = new LogBuilder().file(OLDER).add(decision("denied")).file(NEWEST)
    .add(decision("denied"));
  files.add(acceptedBreak({ file: OLDER, line: 1 }, files.head));
  assert.equal(resumed(files.files()).failure, null);
  const { failure } = verify(files.files());
  assert.deepEqual({ file: failure?.file, line: failure?.line }, { file: NEWEST, line: 2 });
});

Deno.test("resumed, head.json is checked in the newest file only", { permissions: "none" }, () => {
  const builder = new LogBuilder().file(OLDER).add(decision("denied")).file(NEWEST);
  builder.add(decision("denied")).add(decision("denied"));
  const files = builder.files();
  const report = (seq: number, hash: string) =>
    resumed(files, { head: { seq, hash }, expected: null });
  assert.equal(report(0, ZERO_HASH).failure, null, "a record of an older file");
  assert.equal(report(0, ZERO_HASH).anchored, 0);
  assert.equal(report(2, builder.head).failure, null);
  assert.equal(report(1, ZERO_HASH).failure?.line, 1);
  assert.equal(report(2, ZERO_HASH).failure?.line, 2);
  assert.equal(report(3, ZERO_HASH).failure?.line, 3);
});

Deno.test("a verifier that is fed nothing has no head, and goes on where it was told", {
  permissions: "none",
}, () => {
  const prev = sha256(utf8("a line"));
  const report = verify([{ name: NEWEST, bytes: new Uint8Array() }], NO_ANCHORS, {
    ...{ nextSeq: 7, prev, failure: null },
  });
  assert.deepEqual([report.head, report.records, report.next_seq], [null, 0, 7]);
  assert.deepEqual([report.failure, report.torn_tail], [null, null]);
});
