import assert from "node:assert/strict";
import { ChainVerifier } from "../../proto/chain.ts";
import {
  type AuditCase,
  differences,
  directoriesIn,
  readCase,
  verify,
} from "../support/audit_case.ts";
import {
  acceptedBreak,
  approval,
  decision,
  LogBuilder,
  recovery,
  result,
} from "../support/chain_log.ts";
import { sha256, ZERO_HASH } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";

const FIXTURES = new URL("../../fixtures/", import.meta.url);

/** The cases in the directories of `root`. */
function casesIn(root: URL, prefix = ""): AuditCase[] {
  return directoriesIn(root).map((name) => readCase(prefix + name, new URL(`${name}/`, root)));
}

const VECTORS = new URL("vectors/audit/", FIXTURES);
// `usage` is about the command line: no report is expected there.
const GROUPS = directoriesIn(VECTORS).filter((name) => name !== "usage");
const CASES = GROUPS.flatMap((group) => casesIn(new URL(`${group}/`, VECTORS), `${group}/`));
const TAMPERED = casesIn(new URL("audit/", FIXTURES));

Deno.test("the vectors are all there", { permissions: "none" }, () => {
  assert.equal(CASES.length, 372);
});

for (const { name, files, anchors, report } of CASES) {
  Deno.test(`vector ${name}`, { permissions: "none" }, () => {
    assert.deepEqual(differences(verify(files, anchors), report), []);
  });
}

const FIELDS = [
  ...["abandoned", "accepted_breaks", "anchored", "clock_warnings", "failure", "head"],
  ...["next_seq", "records", "recoveries", "torn_tail", "unfinished"],
];

for (const { name, files, anchors, report } of TAMPERED) {
  Deno.test(`tampering: ${name.replaceAll("-", " ")}`, { permissions: "none" }, () => {
    assert.deepEqual(Object.keys(report).sort(), FIELDS, "the whole report is given");
    assert.deepEqual(differences(verify(files, anchors), report), []);
  });
}

Deno.test("chunks of any size give the same report", { permissions: "none" }, () => {
  for (const { name, files, anchors } of [...CASES, ...TAMPERED]) {
    const whole = verify(files, anchors);
    for (const size of [1, 2, 64, 259, 1024]) {
      assert.deepEqual(
        verify(files, anchors, null, size),
        whole,
        `${name}, ${size} bytes at a time`,
      );
    }
  }
});

const DAY = "2026-12-01.jsonl";
const log = () => new LogBuilder().file(DAY);

Deno.test("a log of no files and one of empty files are whole", { permissions: "none" }, () => {
  const nothing = {
    ...{ records: 0, head: null, next_seq: 0, failure: null, recoveries: [], accepted_breaks: [] },
    ...{ abandoned: [], unfinished: [], clock_warnings: [], torn_tail: null, anchored: null },
  };
  assert.deepEqual(verify([]), nothing);
  assert.deepEqual(verify(log().file("2026-12-02.jsonl").files()), nothing);
});

Deno.test("calls without their end are reported by the seq of their decision", {
  permissions: "none",
}, () => {
  const report = verify(
    log()
      .add(decision("ask")) // 0: refused
      .add(decision("ask")) // 1: nobody answered
      .add(decision("allowed")) // 2: ran to its end
      .add(decision("allowed")) // 3: did not
      .add(decision("ask")) // 4: approved, ran to its end
      .add(decision("ask")) // 5: approved, did not
      .add(decision("denied")) // 6
      .add(decision("ask")) // 7: approved, and allowed by then; did not run to its end
      .add(decision("ask")) // 8: expired
      .add(approval(7, "approved", "allowed"))
      .add(approval(5, "approved"))
      .add(approval(4, "approved"))
      .add(approval(0, "refused"))
      .add(approval(8, "expired"))
      .add(result(4))
      .add(result(2))
      .files(),
  );
  assert.equal(report.failure, null);
  assert.deepEqual(report.abandoned, [1]);
  assert.deepEqual(report.unfinished, [3, 5, 7]);
});

Deno.test(
  "a clock warning compares a record with the one before it",
  { permissions: "none" },
  () => {
    const at = (ms: number) => ({
      time: new Date(Date.parse("2026-12-01T10:00:00Z") + ms).toISOString(),
    });
    const builder = log();
    for (const ms of [0, 5, 5, 4, 5, 3, 3]) builder.add(decision("denied"), at(ms));
    builder.file("2026-12-02.jsonl").add(decision("denied"), at(2)).add(decision("denied"), at(2));
    assert.deepEqual(verify(builder.files()).clock_warnings, [
      { file: DAY, line: 4 },
      { file: DAY, line: 6 },
      { file: "2026-12-02.jsonl", line: 1 },
    ]);
  },
);

Deno.test("head.json and the owner's anchor are both checked", { permissions: "none" }, () => {
  const builder = log();
  const hashes = [0, 1, 2].map((n) => builder.add(decision("denied", n)).head);
  const files = builder.files();
  const anchor = (seq: number, of = seq) => ({ seq, hash: hashes[of] ?? ZERO_HASH });
  const failure = (head: number | null, expected: [number, number]) =>
    verify(files, { head: head === null ? null : anchor(head), expected: anchor(...expected) })
      .failure;
  for (const head of [null, 0, 1, 2]) {
    assert.equal(failure(head, [1, 1]), null);
    // Whatever head.json says of the same record.
    for (const seq of [0, 1, 2]) {
      const found = failure(head, [seq, (seq + 1) % 3]);
      assert.deepEqual({ file: found?.file, line: found?.line }, { file: DAY, line: seq + 1 });
      assert.match(found?.what ?? "", /^head/);
    }
    assert.deepEqual(failure(head, [3, 3])?.line, 4, "the log ends before it");
  }
});

Deno.test("a recovery that head.json contradicts recovers nothing", { permissions: "none" }, () => {
  const torn = utf8('{"seq":1,"ti');
  const files = log().add(decision("denied")).raw(torn).add(recovery([torn])).files();
  assert.deepEqual(verify(files).recoveries, [{ file: DAY, line: 2 }]);
  const report = verify(files, { head: { seq: 1, hash: ZERO_HASH }, expected: null });
  assert.equal(report.failure?.line, 3);
  assert.deepEqual(report.recoveries, []);
  assert.equal(report.records, 1);
});

Deno.test(
  "a recovery or a break that lacks only its newline is not torn",
  { permissions: "none" },
  () => {
    const torn = utf8('{"seq":1,"ti');
    const recovered = log().add(decision("denied")).raw(torn).add(recovery([torn])).unended();
    assert.equal(verify(recovered.files()).torn_tail, null);
    assert.equal(verify(recovered.files()).records, 2);

    const start = log().add(decision("denied"));
    const last = sha256(torn);
    const at = { file: DAY, line: 2 };
    const accepted = start.raw(torn)
      .add(acceptedBreak(at, start.head), { seq: 2, prev: last }).unended();
    assert.deepEqual(verify(accepted.files()).accepted_breaks, [{ file: DAY, line: 3 }]);
    assert.equal(verify(accepted.files()).torn_tail, null);

    const other = log().add(decision("denied")).raw(torn)
      .add(acceptedBreak({ file: DAY, line: 1 }, ZERO_HASH), { seq: 2, prev: last }).unended();
    assert.deepEqual(verify(other.files()).torn_tail, at, "a break in the wrong place is");
  },
);

Deno.test("bytes that were fed may change afterwards", { permissions: "none" }, () => {
  const torn = utf8('{"seq":2,"ti');
  const [file] = log().add(decision("allowed")).add(result(0))
    .raw(torn).add(recovery([torn])).raw(utf8("a")).raw(utf8("bc")).lines();
  const verifier = new ChainVerifier();
  verifier.file(DAY);
  for (const [at, line] of file?.lines.entries() ?? []) {
    const bytes = line.slice();
    verifier.line(bytes, at < 5);
    bytes.fill(0x78);
  }
  const report = verifier.finish();
  assert.equal(report.failure, null);
  assert.equal(report.records, 3);
  assert.deepEqual(verifier.end().torn, { bytes: 4, sha256: sha256(utf8("a\nbc")) });
});

Deno.test("end tells a writer where to go on", { permissions: "none" }, () => {
  const endOf = (builder: LogBuilder) => {
    const verifier = new ChainVerifier();
    for (const { name, lines, ended } of builder.lines()) {
      verifier.file(name);
      for (const [at, line] of lines.entries()) verifier.line(line, ended || at < lines.length - 1);
    }
    verifier.finish();
    return verifier.end();
  };
  assert.deepEqual(endOf(log()), {
    ...{ last: null, unended: false, lastLine: ZERO_HASH, lastGood: ZERO_HASH, unverified: 0 },
    torn: null,
  });
  const whole = log().add(decision("denied"));
  assert.deepEqual(endOf(whole), {
    last: { file: DAY, line: 1 },
    ...{ unended: false, lastLine: whole.head, lastGood: whole.head, unverified: 0, torn: null },
  });
  assert.deepEqual(endOf(whole.file("2026-12-02.jsonl")).last, { file: DAY, line: 1 });
  const torn = log().add(decision("denied")).raw(utf8("a")).raw(utf8("bc")).unended();
  assert.deepEqual(endOf(torn), {
    last: { file: DAY, line: 3 },
    ...{ unended: true, lastLine: sha256(utf8("bc")), lastGood: torn.head, unverified: 2 },
    torn: { bytes: 4, sha256: sha256(utf8("a\nbc")) },
  });
  const broken = log().add(decision("denied")).raw(utf8("a")).add(decision("denied"))
    .add(decision("denied"));
  const end = endOf(broken);
  assert.equal(end.unverified, 3);
  assert.equal(end.lastLine, broken.head);
  assert.equal(end.torn, null);
});

Deno.test("head.json without any file fails at its own first line", { permissions: "none" }, () => {
  const head = { seq: 0, hash: ZERO_HASH };
  assert.deepEqual(verify([], { head, expected: null }).failure, {
    ...{ file: "head.json", line: 1 },
    what: "head: the log ends before record 0",
  });
});

Deno.test("before a file that cannot be read nothing is torn, and no line accepts it", {
  permissions: "none",
}, () => {
  const name = "2026-12-02.jsonl";
  const good = () => log().add(decision("denied"));
  const accepts = good();
  accepts.add(acceptedBreak({ file: name, line: 0 }, accepts.head)).unended();
  const torn = good().raw(utf8("torn"));
  for (const builder of [torn, good().raw(utf8("torn")).unended(), accepts]) {
    const verifier = new ChainVerifier();
    verifier.file(DAY);
    const [{ lines, ended } = assert.fail()] = builder.lines();
    for (const [at, line] of lines.entries()) verifier.line(line, ended || at < lines.length - 1);
    verifier.unreadable(name, "is not a regular file");
    const { records, failure } = verifier.finish();
    assert.deepEqual([records, failure?.file, failure?.line], [1, name, 0]);
    const { torn, unended } = verifier.end();
    assert.deepEqual([torn, unended], [null, false]);
  }
});

Deno.test("a break in its right place that lacks only its newline is no torn tail", {
  permissions: "none",
}, () => {
  const builder = log().add(decision("denied"));
  builder.add(acceptedBreak({ file: DAY, line: 2 }, builder.head)).unended();
  const report = verify(builder.files());
  assert.deepEqual([report.failure, report.torn_tail, report.records], [null, null, 2]);
  assert.deepEqual(report.accepted_breaks, [{ file: DAY, line: 2 }]);
  // One that names another line is torn, as any other record without its newline.
  const other = log().add(decision("denied"));
  other.add(acceptedBreak({ file: DAY, line: 1 }, other.head)).unended();
  assert.deepEqual(verify(other.files()).torn_tail, { file: DAY, line: 2 });
});

Deno.test("a break in order names its own line and its own file", { permissions: "none" }, () => {
  for (
    const [at, whole] of [
      [{ file: DAY, line: 2 }, true],
      [{ file: DAY, line: 3 }, false],
      [{ file: "2026-12-02.jsonl", line: 2 }, false],
    ] as const
  ) {
    const builder = log().add(decision("denied"));
    builder.add(acceptedBreak(at, builder.head));
    assert.deepEqual(
      verify(builder.files()).failure,
      whole ? null : { file: DAY, line: 2, what: "accepts a break that is not there" },
    );
  }
});

Deno.test("of two failures in one file the first one is told", { permissions: "none" }, () => {
  const older = log().raw(utf8("{")).add(decision("denied")).unended();
  const report = verify(older.file("2026-12-02.jsonl").add(decision("denied")).files());
  assert.deepEqual([report.failure?.file, report.failure?.line], [DAY, 1]);
  assert.equal(report.failure?.what, "does not parse as an audit record");
});
