/**
 * The quick reading of records against the full one: whatever the first takes, the second takes, and both
 * give the same record. The judge of everything else is the full reading.
 */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { AuditRecord, encodeRecord, type Link } from "../../proto/audit.ts";
import { scanLink, scanRecord } from "../../proto/audit_scan.ts";
import { denied, DENY_REASONS } from "../../proto/decisions.ts";
import { ZERO_HASH } from "../../proto/ids.ts";
import { parseExact } from "../../proto/json.ts";
import { fromUtf8 } from "../../proto/text.ts";
import { DATA_CLASSES } from "../../proto/tools.ts";
import { badForms } from "../support/json_forms.ts";

const PURE = { permissions: "none" } as const;
const FIXTURES = new URL("../../fixtures/", import.meta.url);

/** What the chain needs of `record`. */
function linkOf({ event, ...record }: AuditRecord): Link {
  switch (event.type) {
    case "decision":
      return { ...record, event: { type: event.type, outcome: event.outcome } };
    case "approval": {
      const { type, decision, outcome } = event;
      return { ...record, event: { type, decision, outcome } };
    }
    case "result":
      return { ...record, event: { type: event.type, decision: event.decision } };
    default:
      return { ...record, event };
  }
}

/** Fails where the readings of `line` differ. Returns whether the quick ones took it. */
function compared(line: string): boolean {
  const full = parseExact(AuditRecord, line);
  const quick = scanRecord(line);
  if (quick !== null) assert.deepEqual(quick, full, line);
  const link = quick && linkOf(quick);
  // Whatever hash is expected, and where it is the very one that the line names.
  for (const before of [null, ZERO_HASH, "f".repeat(64), ...full === null ? [] : [full.prev]]) {
    assert.deepEqual(scanLink(line, before), link, line);
  }
  return quick !== null;
}

const hash = fc.string({
  unit: fc.constantFrom(..."0123456789abcdef"),
  minLength: 64,
  maxLength: 64,
});
const session = fc.string({ unit: fc.constantFrom(..."az09-"), minLength: 1, maxLength: 64 });
const call = fc.string({ unit: fc.constantFrom(..."aZ9_-"), minLength: 1, maxLength: 64 });
const words = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.string({ unit: fc.constantFrom(...'"\\/\b\f\n\r\t\0\x1f\x7f\u2028aé😀'), maxLength: 20 }),
);
/** The largest number that the quick reading takes. */
const MOST = 999_999_999_999_999;
const number = fc.oneof(fc.nat(), fc.constantFrom(0, MOST));
const dataClass = fc.constantFrom(...DATA_CLASSES);
const outcome = fc.constantFrom(
  { outcome: "allowed" as const },
  { outcome: "ask" as const },
  ...DENY_REASONS.map(denied),
);
const event = fc.oneof(
  fc.record({
    type: fc.constant("decision" as const),
    ...{ session, call, tool: words, arguments: words, outcome },
    grant: fc.option(words),
    grant_sha256: fc.option(hash),
    taint: dataClass,
    untrusted: fc.boolean(),
  }),
  fc.record({
    type: fc.constant("approval" as const),
    ...{ session, call, decision: number },
    answer: fc.constantFrom("approved" as const, "refused" as const, "expired" as const),
    ...{ by: fc.option(words), post: fc.option(words), reason: fc.option(words), outcome },
  }),
  fc.record({
    type: fc.constant("result" as const),
    ...{ session, call, decision: number },
    status: fc.constantFrom("result" as const, "failed" as const),
    ...{ class: dataClass, untrusted: fc.boolean(), truncated: fc.boolean() },
    ...{ bytes: number, sha256: hash, taint_after: dataClass },
  }),
);
/** The line of a record that is a decision, an approval or a result. */
const usual = fc.record({
  seq: number,
  time: fc.date({ min: new Date(0), max: new Date("9999-12-31"), noInvalidDate: true })
    .map((date) => date.toISOString()),
  prev: hash,
  event,
}).map((record) => fromUtf8(encodeRecord(record)) ?? "");

Deno.test("every usual record is taken by the quick reading", PURE, () => {
  fc.assert(fc.property(usual, (line) => compared(line)), { numRuns: 2000 });
});

Deno.test(
  "a line with one thing changed is taken by both readings alike, or not by the quick one",
  PURE,
  () => {
    const pieces = [
      ...['"', "\\", "{", "}", ",", ":", "0", "1", "9", "-", "a", "é", " ", "\n", "\0", "\ud800"],
      ...["null", "true", "\\u0041", "\\u000a", "\\/", "\\ud800", "1e3", "01", "9007199254740992"],
      ...["2026-02-30", "24:00", "allowed", "secret", ',"x":1', "\\u001F", "\u2028"],
    ];
    const change = fc.record({
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      remove: fc.nat(3),
      put: fc.constantFrom("", ...pieces),
    });
    fc.assert(
      fc.property(usual, change, (line, { at, remove, put }) => {
        const place = Math.floor(at * line.length);
        compared(line.slice(0, place) + put + line.slice(place + remove));
      }),
      { numRuns: 20_000 },
    );
  },
);

Deno.test("half of a character is left to the full reading", PURE, () => {
  for (const line of fc.sample(usual, { seed: 1, numRuns: 30 })) {
    for (const half of ["\ud83d", "\ude00"]) {
      for (let at = 0; at <= line.length; at += 1) {
        const changed = line.slice(0, at) + half + line.slice(at);
        if (!changed.isWellFormed()) assert.equal(scanRecord(changed), null, changed);
      }
    }
  }
});

Deno.test("a wrong form of a record is taken at no place", PURE, () => {
  for (const line of fc.sample(usual, { seed: 1, numRuns: 30 })) {
    const taken = badForms(line).filter(({ json }) => compared(json));
    // Some are right by chance, such as null for a text that may be missing.
    assert(taken.length < 10, taken.map(({ what }) => what).join());
  }
});

Deno.test("what is no real time and no safe number is left to the full reading", PURE, () => {
  const [line = ""] = fc.sample(usual, { seed: 2, numRuns: 1 });
  const timed = (time: string) => line.replace(/"time":"[^"]*"/, `"time":"${time}"`);
  for (const time of ["2026-02-29", "2026-13-01", "2026-00-10", "2100-02-29"]) {
    assert.equal(scanRecord(timed(`${time}T10:00:00.000Z`)), null, time);
  }
  for (const time of ["2026-02-28", "2024-02-29", "0000-01-01"]) {
    assert(compared(timed(`${time}T23:59:59.999Z`)), time);
  }
  for (const time of ["24:00:00.000", "23:60:00.000", "23:59:60.000", "1:00:00.000"]) {
    assert.equal(scanRecord(timed(`2026-02-28T${time}Z`)), null, time);
  }
  const counted = (seq: string) => line.replace(/"seq":\d+/, `"seq":${seq}`);
  assert(compared(counted(`${MOST}`)));
  const large = counted("9007199254740991");
  assert.deepEqual([scanRecord(large), parseExact(AuditRecord, large) === null], [null, false]);
  for (
    const seq of [
      "1000000000000000",
      "9007199254740992",
      "9007199254740993",
      "00",
      "-1",
      "1.0",
      "1e3",
    ]
  ) {
    assert.equal(scanRecord(counted(seq)), null, seq);
  }
});

Deno.test("a hash is looked at digit by digit, but for the one that is expected", PURE, () => {
  const good = ["0", "a", "f"].map((digit) => digit.repeat(64));
  const bad = good.flatMap((hash) =>
    ["g", "A", "/", ":", "`", "\\", " "].flatMap((digit) =>
      [0, 31, 63].map((at) => hash.slice(0, at) + digit + hash.slice(at + 1))
    )
  );
  const lines = fc.sample(usual, { seed: 3, numRuns: 60 });
  let put = 0;
  for (const line of lines) {
    assert(compared(line));
    for (const [field] of line.matchAll(/"(?:prev|grant_sha256|sha256)":"[0-9a-f]{64}"/g)) {
      const name = field.slice(0, -65);
      for (const wrong of bad) {
        const changed = line.replace(field, `${name}${wrong}"`);
        for (const before of [null, ...good]) assert.equal(scanLink(changed, before), null);
        put += 1;
      }
    }
  }
  assert(put > 3000, `${put} wrong hashes were put`);
});

Deno.test("text that is no Unicode is left to the full reading", PURE, () => {
  const [line = ""] = fc.sample(usual, { seed: 1, numRuns: 60 }).filter((line) =>
    line.includes('"tool":"')
  );
  const named = (tool: string) => line.replace('"tool":"', `"tool":"${tool}`);
  assert(compared(named("\u{1f600}")));
  for (const lone of ["\ud83d", "\ude00", "\ude00\ud83d", "\ud83d1\ude00"]) {
    assert.equal(scanRecord(named(lone)), null);
    assert(!compared(named(lone)));
  }
});

Deno.test("every line of the fixtures is read alike", () => {
  let taken = 0;
  const walk = (url: URL) => {
    for (const { name, isDirectory } of Deno.readDirSync(url)) {
      if (isDirectory) walk(new URL(`${name}/`, url));
      else if (name.endsWith(".jsonl")) {
        for (const line of Deno.readTextFileSync(new URL(name, url)).split("\n")) {
          if (compared(line)) taken += 1;
        }
      }
    }
  };
  for (const folder of ["records/", "audit/", "vectors/"]) walk(new URL(folder, FIXTURES));
  assert(taken > 100, `${taken} lines were taken`);
});
