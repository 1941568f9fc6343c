/** A log whose next file cannot be read: where it fails (contracts 5, and "Verification"). */
import assert from "node:assert/strict";
import { type ChainReport, ChainVerifier } from "../../proto/chain.ts";
import { utf8 } from "../../proto/text.ts";
import { decision, type FileLines, LogBuilder } from "../support/chain_log.ts";

const OLDER = "2026-11-30.jsonl";
const NEWEST = "2026-12-01.jsonl";
const WHAT = "is not a regular file";

/** The report of `files`, after which NEWEST cannot be read. */
function unreadableAfter(files: readonly FileLines[]): ChainReport {
  const verifier = new ChainVerifier();
  for (const { name, lines, ended } of files) {
    verifier.file(name);
    for (const [at, line] of lines.entries()) verifier.line(line, ended || at < lines.length - 1);
  }
  verifier.unreadable(NEWEST, WHAT);
  return verifier.finish();
}

const whole = () => new LogBuilder().file(OLDER).add(decision("denied")).add(decision("denied", 1));

/** What stands before the file, and the place of the failure with how many records count before it. */
const CASES: Readonly<Record<string, readonly [LogBuilder, string, number, number]>> = {
  "nothing": [new LogBuilder(), NEWEST, 0, 0],
  "a whole file": [whole(), NEWEST, 0, 2],
  // Its end is torn, or it fails: without the next file nobody can say which.
  "a file without its last newline": [whole().unended(), NEWEST, 0, 1],
  "last lines that do not parse": [whole().raw(utf8("{")).raw(utf8("[")), NEWEST, 0, 2],
  // A line that fails comes first.
  "a last line that does not follow": [whole().add(decision("denied"), { seq: 9 }), OLDER, 3, 2],
  "a record after a line that does not parse": [
    whole().raw(utf8("{")).add(decision("denied")),
    ...[OLDER, 3, 2] as const,
  ],
};

for (const [what, [builder, file, line, records]] of Object.entries(CASES)) {
  Deno.test({
    name: `a file that cannot be read is a failure without a line, after ${what}`,
    permissions: "none",
    fn: () => {
      const report = unreadableAfter(builder.lines());
      assert.deepEqual([report.failure?.file, report.failure?.line], [file, line]);
      if (file === NEWEST) assert.equal(report.failure?.what, WHAT);
      assert.deepEqual([report.torn_tail, report.records], [null, records]);
    },
  });
}
