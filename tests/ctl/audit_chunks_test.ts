/** A log of several chunks is judged by its lines, wherever chunks end and whatever else they hold. */
import assert from "node:assert/strict";
import { verifyLog } from "../../ctl/audit_files.ts";
import { encodeRecord } from "../../proto/audit.ts";
import { sha256, ZERO_HASH } from "../../proto/ids.ts";
import { event } from "../support/log.ts";
import { TempDir } from "../support/scripts.ts";

/** Some 400 bytes each: more than 2 MiB, so that many chunks are read. */
const RECORDS = 6000;

/** The lines of a whole log; the arguments of the records in `odd` are not ASCII. */
function logOf(odd: readonly number[]): Uint8Array[] {
  let prev = ZERO_HASH;
  return Array.from({ length: RECORDS }, (_, seq) => {
    const word = odd.includes(seq) ? "é😀" : "e";
    const decision = { ...event(seq), arguments: JSON.stringify({ path: `/${word.repeat(40)}` }) };
    const time = "2026-01-01T00:00:00.000Z";
    const line = encodeRecord({ seq, time, prev, event: decision });
    prev = sha256(line);
    return line;
  });
}

/** The failure of a log of these lines, and the count of its good records. */
function verdict(lines: readonly Uint8Array[]) {
  using place = new TempDir();
  const file = Deno.openSync(`${place.path}/2026-01-01.jsonl`, { write: true, createNew: true });
  const bytes = new Uint8Array(lines.reduce((size, line) => size + line.length + 1, 0));
  let at = 0;
  for (const line of lines) {
    bytes.set(line, at);
    at += line.length;
    bytes[at++] = 0x0a;
  }
  assert(bytes.length > 2 * 1024 * 1024, `${bytes.length} bytes`);
  for (let from = 0; from < bytes.length;) from += file.writeSync(bytes.subarray(from));
  file.close();
  const { failure, records, next_seq, head } = verifyLog(place.path, null);
  return { line: failure?.line ?? null, records, next_seq, head };
}

Deno.test("a log of several chunks is whole, with and without what is not ASCII", () => {
  for (const odd of [[], [0], [RECORDS / 2], [0, RECORDS / 2, RECORDS - 1]]) {
    const lines = logOf(odd);
    const head = sha256(lines.at(-1) ?? assert.fail());
    assert.deepEqual(verdict(lines), { line: null, records: RECORDS, next_seq: RECORDS, head });
  }
});

Deno.test("one changed byte is found in its line, whatever the rest of its chunk holds", () => {
  for (const odd of [[], [10, RECORDS / 2]]) {
    const lines = logOf(odd);
    // The byte within the first letter of the arguments' path, which is of two bytes where it is odd.
    for (const at of [10, RECORDS / 2]) {
      for (const byte of [0x66, 0xff, 0xa9, 0x0d]) {
        const changed = lines.map((line) => line.slice());
        const line = changed[at] ?? assert.fail();
        line[line.lastIndexOf(0x2f) + 1] = byte;
        const { line: failed, records } = verdict(changed);
        // A line that still parses is only found out by the hash in the line after it.
        assert([at + 1, at + 2].includes(failed ?? 0), `line ${failed} for byte ${byte} in ${at}`);
        assert.equal(records, (failed ?? 0) - 1);
      }
    }
  }
});
