import assert from "node:assert/strict";
import { asciiText, assertNever, fromUtf8, text, u64, utf8, utf8Length } from "../../proto/text.ts";

Deno.test("text is well-formed Unicode", { permissions: "none" }, () => {
  for (const value of ["", "a\0b", "\ufeff", "😀", "\ud83d\ude00", "\u2028", "é"]) {
    assert.equal(text.parse(value), value);
  }
  const bad = ["\ud800", "a\udfffb", "\ude00\ud83d", "\ud83d", "\ud800\ud800\udc00", 1, null, {}];
  for (const value of bad) assert.ok(!text.safeParse(value).success, JSON.stringify(value));
});

Deno.test("u64 is a safe integer from 0 on", { permissions: "none" }, () => {
  for (const value of [0, 1, 2 ** 32, Number.MAX_SAFE_INTEGER]) {
    assert.equal(u64.parse(value), value);
  }
  const bad = [-1, 0.5, 2 ** 53, 1e300, NaN, Infinity, -Infinity, "1", 1n, null, undefined, true];
  for (const value of bad) assert.ok(!u64.safeParse(value).success, String(value));
});

Deno.test("lengths count bytes of UTF-8", { permissions: "none" }, () => {
  for (const [value, bytes] of [["", 0], ["abc", 3], ["é", 2], ["€", 3], ["😀", 4]] as const) {
    assert.equal(utf8(value).length, bytes);
    assert.equal(utf8Length(value), bytes);
  }
});

Deno.test("bytes that are not UTF-8 have no text", { permissions: "none" }, () => {
  const bad = {
    "a lone continuation": [0x80],
    "a cut character": [0xc3],
    "Latin-1": [0x61, 0xe9, 0x61],
    "an overlong slash": [0xc0, 0xaf],
    "an overlong NUL": [0xc0, 0x80],
    "a surrogate": [0xed, 0xa0, 0x80],
    "above U+10FFFF": [0xf4, 0x90, 0x80, 0x80],
    "UTF-16": [0xff, 0xfe, 0x61, 0x00],
  };
  for (const [what, bytes] of Object.entries(bad)) {
    assert.equal(fromUtf8(new Uint8Array(bytes)), null, what);
  }
  for (const value of ["", "a", "😀\0\r\n"]) assert.equal(fromUtf8(utf8(value)), value);
});

Deno.test("a byte-order mark stays in the text", { permissions: "none" }, () => {
  assert.equal(fromUtf8(new Uint8Array([0xef, 0xbb, 0xbf, 0x61])), "\ufeffa");
});

Deno.test("a case that nobody foresaw throws", { permissions: "none" }, () => {
  const value: string = "new";
  // @ts-expect-error: that this does not compile is the point
  assert.throws(() => assertNever(value), /unexpected value: "new"/);
});

Deno.test(
  "bytes are ASCII text where each of them is, and nowhere else",
  { permissions: "none" },
  () => {
    for (const ascii of ["", "a", "\0\n\x7f", '{"a":"\\u00e9"}']) {
      assert.equal(asciiText(utf8(ascii)), ascii);
    }
    for (const text of ["é", "aé", "\u2028", "😀", "\ufeff", "\u0080"]) {
      assert.equal(asciiText(utf8(text)), null, text);
    }
    for (const bytes of [[0x80], [0xff], [0x61, 0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80]]) {
      assert.equal(asciiText(Uint8Array.from(bytes)), null, bytes.join());
    }
  },
);
