/**
 * Every log of `fixtures/vectors/audit` at brokerd's own start: what a start makes of it, that a refused one
 * leaves every byte alone, and that the log is whole after whatever a start wrote.
 */
import assert from "node:assert/strict";
import { differences, verify } from "../support/audit_case.ts";
import { AuditBench, event, filesIn, recordsIn } from "../support/log.ts";

const VECTORS = new URL("../../fixtures/vectors/audit/", import.meta.url);

function directoriesIn(directory: URL): string[] {
  return [...Deno.readDirSync(directory)].filter((entry) => entry.isDirectory)
    .map((entry) => entry.name).sort();
}

/**
 * A start verifies the newest file and the last line of the one before it; the rest is `bxctl audit
 * verify`'s (specification 5, "Startup"). So a failure further back does not stop it. Each of these logs
 * has one: the start opens, or finds what else is wrong in the newest file.
 */
const FURTHER_BACK: Readonly<Record<string, "open" | string>> = {
  // The file before the newest ends as it should.
  "blank/crlf-end-of-a-day": "open",
  "blank/end-of-a-day": "open",
  "changed/second-file": "open",
  "cut/newline-of-a-day-gone": "open",
  "deleted/last-of-first-file": "open",
  "deleted/last-two-of-first-file": "open",
  "files/first-emptied": "open",
  "files/first-gone": "open",
  "files/first-two-gone": "open",
  "files/not-chained": "open",
  "files/renamed-last-to-first": "open",
  "moved/double-over-boundary": "open",
  "seq/gap-over-files": "open",
  // The second of two changed lines stands in the newest file.
  "changed/two-lines": "2024-02-29.jsonl:3",
  // The newest file does not chain from what is now before it either.
  "files/exchanged": "2024-03-01.jsonl:1",
  "files/renamed-last-into-middle": "2024-02-20.jsonl:1",
};

interface Expected {
  readonly arguments?: readonly string[];
  readonly report: Readonly<Record<string, unknown>>;
}

/** The report on the log as found: as the vectors give it, but for an owner's `--expect`. */
function reportOf(name: string, bench: AuditBench) {
  const report = bench.report();
  const expected: Expected = JSON.parse(
    Deno.readTextFileSync(new URL(`${name}/expected.json`, VECTORS)),
  );
  if (expected.arguments === undefined) {
    assert.deepEqual(differences(report, expected.report), [], "the verdict of the vectors");
  }
  return report;
}

const copy = (name: string) => new AuditBench(new URL(`${name}/audit`, VECTORS).pathname);

function checkStart(name: string): void {
  using bench = copy(name);
  const found = reportOf(name, bench);
  const before = bench.snapshot();
  const { audit, started } = bench.restart();

  const wanted = found.failure === null
    ? "open"
    : FURTHER_BACK[name] ?? `${found.failure.file}:${found.failure.line}`;
  const got = started.status === "broken"
    ? `${started.failure.file}:${started.failure.line}`
    : started.status;
  assert.equal(got, wanted);
  if (got !== "open") return assert.deepEqual(bench.snapshot(), before);

  assert.equal(audit.append(event(0)), recordsIn(bench.directory).at(-1)?.seq);
  const after = bench.report();
  assert.deepEqual(after.failure, found.failure);
  if (found.failure !== null) return;
  const recovered = found.torn_tail === null ? [] : [found.torn_tail];
  assert.deepEqual(after.recoveries, [...found.recoveries, ...recovered]);
  assert.equal(after.records, found.records + recovered.length + 1);
  assert.equal(after.torn_tail, null);
  assert.equal(after.anchored, after.next_seq - 1);
}

function checkAccepting(name: string): void {
  using bench = copy(name);
  const found = reportOf(name, bench);
  // Without head.json: where that disagrees about a break, the report ends before it.
  const acceptedBefore = verify(filesIn(bench.directory)).accepted_breaks.length;
  const before = bench.snapshot();
  const { started } = bench.restart(true);
  if (found.failure === null || found.failure.line === 0) {
    assert.equal(started.status, found.failure === null ? "nothing_to_accept" : "broken");
    return assert.deepEqual(bench.snapshot(), before);
  }
  assert.equal(started.status, "open");
  const accepted = bench.report();
  assert.equal(accepted.failure, null);
  assert.equal(accepted.accepted_breaks.length, acceptedBefore + 1);
  assert.equal(recordsIn(bench.directory).at(-1)?.event.type, "accepted_break");
  assert.equal(accepted.anchored, accepted.next_seq - 1, "head.json names the break");

  // It stays accepted: at a plain restart, over a new day, and at a restart after that.
  const year2100 = Date.parse("2100-01-01T00:00:00.000Z");
  for (const now of [bench.now, year2100]) {
    bench.now = now;
    assert.notEqual(bench.open().append(event(0)), null);
    const later = bench.report();
    assert.equal(later.failure, null);
    assert.deepEqual(later.accepted_breaks, accepted.accepted_breaks);
  }
  bench.open();
  assert.equal(bench.restart(true).started.status, "nothing_to_accept");
}

let cases = 0;
for (const group of directoriesIn(VECTORS)) {
  const names = directoriesIn(new URL(`${group}/`, VECTORS)).map((name) => `${group}/${name}`);
  cases += names.length;
  for (
    const [claim, check] of [
      [
        "a start opens or refuses as the vectors say, and goes on well or changes nothing",
        checkStart,
      ],
      ["--accept-break accepts what can be accepted, for good", checkAccepting],
    ] as const
  ) {
    Deno.test(`${claim}: ${group}`, () => {
      for (const name of names) {
        try {
          check(name);
        } catch (error) {
          throw new Error(name, { cause: error });
        }
      }
    });
  }
}

Deno.test("the vectors are all there", () => assert.equal(cases, 377));
