import assert from "node:assert/strict";
import type * as z from "zod";
import {
  CallId,
  GrantId,
  Hash32,
  isTimestamp,
  SessionId,
  sha256,
  Timestamp,
  timestamp,
  ZERO_HASH,
} from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";

function holds(schema: z.ZodType, good: readonly string[], bad: readonly unknown[]): void {
  for (const value of good) assert.ok(schema.safeParse(value).success, JSON.stringify(value));
  for (const value of bad) assert.ok(!schema.safeParse(value).success, JSON.stringify(value));
}

const NOT_TEXT = [1, null, undefined, {}, [], ["a"], true];

for (const [name, schema] of [["session", SessionId], ["grant", GrantId]] as const) {
  Deno.test(`a ${name} id is 1 to 64 of a-z, 0-9 and -`, { permissions: "none" }, () => {
    holds(schema, ["a", "0", "-", "--", "chat-1758", "a".repeat(64)], [
      ...["", "a".repeat(65), "A", "a_b", "a b", "a.b", "a/b", "..", "a\n", "\na", "a\0", "é", "а"],
      ...NOT_TEXT,
    ]);
  });
}

Deno.test("a call id is 1 to 64 of letters, digits, _ and -", { permissions: "none" }, () => {
  holds(CallId, ["a", "Z", "0", "_", "-", "call_0-A", "Z".repeat(64)], [
    ...["", "a".repeat(65), "a b", "a.b", "a/b", "a\n", "\ra", "é", "А", "ａ"],
    ...NOT_TEXT,
  ]);
});

Deno.test("a hash is 64 lowercase hex digits", { permissions: "none" }, () => {
  const hash = "0123456789abcdef".repeat(4);
  holds(Hash32, [hash, ZERO_HASH, "f".repeat(64)], [
    ...["", hash.slice(1), `${hash}0`, hash.toUpperCase(), `${hash.slice(1)}g`, `${hash}\n`],
    ...[`0x${hash.slice(2)}`, ` ${hash.slice(1)}`],
    ...NOT_TEXT,
  ]);
  assert.equal(ZERO_HASH.length, 64);
});

Deno.test("sha256 gives the hashes of FIPS 180-2", { permissions: "none" }, () => {
  const known = {
    "": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq":
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
  };
  for (const [text, hash] of Object.entries(known)) assert.equal(sha256(utf8(text)), hash);
  const part = utf8("xabcx").subarray(1, 4);
  assert.equal(sha256(part), known.abc, "a view into a larger buffer counts as what it shows");
});

const TIMES = [
  "2026-12-01T10:00:00.000Z",
  "1970-01-01T00:00:00.000Z",
  "1969-12-31T23:59:59.999Z",
  "2024-02-29T12:00:00.001Z",
  "2000-02-29T00:00:00.000Z",
  "9999-12-31T23:59:59.999Z",
  "0001-01-01T00:00:00.000Z",
] as const;

const NO_TIMES = {
  "midnight as 24:00": "2026-12-01T24:00:00.000Z",
  "hour 25": "2026-12-01T25:00:00.000Z",
  "minute 60": "2026-12-01T10:60:00.000Z",
  "second 60": "2026-12-01T10:00:60.000Z",
  "a leap second": "2016-12-31T23:59:60.000Z",
  "30 February": "2026-02-30T10:00:00.000Z",
  "29 February of a year without": "2025-02-29T10:00:00.000Z",
  "29 February 2100": "2100-02-29T10:00:00.000Z",
  "31 April": "2026-04-31T10:00:00.000Z",
  "day 0": "2026-12-00T10:00:00.000Z",
  "day 32": "2026-12-32T10:00:00.000Z",
  "month 0": "2026-00-01T10:00:00.000Z",
  "month 13": "2026-13-01T10:00:00.000Z",
  "a year of two digits": "26-12-01T10:00:00.000Z",
  "a year of five digits": "12026-12-01T10:00:00.000Z",
  "a year with a plus": "+002026-12-01T10:00:00.000Z",
  "a year with a minus": "-000001-12-01T10:00:00.000Z",
  "no milliseconds": "2026-12-01T10:00:00Z",
  "two decimals": "2026-12-01T10:00:00.00Z",
  "six decimals": "2026-12-01T10:00:00.000000Z",
  "a comma": "2026-12-01T10:00:00,000Z",
  "a space for the T": "2026-12-01 10:00:00.000Z",
  "a small t": "2026-12-01t10:00:00.000Z",
  "a small z": "2026-12-01T10:00:00.000z",
  "an offset": "2026-12-01T10:00:00.000+00:00",
  "no zone": "2026-12-01T10:00:00.000",
  "the basic form": "20261201T100000.000Z",
  "a date": "2026-12-01",
  "a week": "2026-W49-2T10:00:00.000Z",
  "space before": " 2026-12-01T10:00:00.000Z",
  "a newline after": "2026-12-01T10:00:00.000Z\n",
  "other digits": "２０26-12-01T10:00:00.000Z",
  "words": "Tue Dec 01 2026 10:00:00 GMT",
  "nothing": "",
} as const;

Deno.test("a time is exactly YYYY-MM-DDTHH:MM:SS.mmmZ", { permissions: "none" }, () => {
  for (const time of TIMES) {
    assert.ok(isTimestamp(time), time);
    assert.equal(timestamp(Date.parse(time)), time);
    assert.equal(Timestamp.parse(time), time);
  }
  assert.ok(!Timestamp.safeParse(1_700_000_000_000).success, "a number");
  assert.ok(!Timestamp.safeParse(new Date(0)).success, "a Date");
});

for (const [what, value] of Object.entries(NO_TIMES)) {
  Deno.test(`no time: ${what}`, { permissions: "none" }, () => {
    assert.ok(!isTimestamp(value));
    assert.ok(!Timestamp.safeParse(value).success);
  });
}

Deno.test("times compare as text in order of time", { permissions: "none" }, () => {
  const byText = [...TIMES].sort();
  const byTime = [...TIMES].sort((a, b) => Date.parse(a) - Date.parse(b));
  assert.deepEqual(byText, byTime);
});
