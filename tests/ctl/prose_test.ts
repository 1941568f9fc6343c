import assert from "node:assert/strict";
import fc from "fast-check";
import { Prose } from "../../ctl/prose.ts";
import { displayProse } from "../../proto/escape.ts";

const pure = { permissions: "none" } as const;

/** What is shown of `pieces` after each of them, and at the end. */
function shown(...pieces: string[]): string[] {
  const prose = new Prose();
  return [...pieces.map((piece) => prose.push(piece)), prose.end()];
}

Deno.test("text is shown as it comes", pure, () => {
  assert.deepEqual(shown("Hel", "lo wor", "ld", "\n\t"), ["Hel", "lo wor", "ld", "\n\t", ""]);
  assert.deepEqual(shown("\x1b[31", "m"), ["\\u001b[31", "m", ""]);
});

Deno.test("the beginning of an encoded host waits for its end", pure, () => {
  assert.deepEqual(
    shown("see x", "n--mnch", "en-3ya.de", " now"),
    ["see ", "", "", "xn--mnchen-3ya.de (münchen.de) now", ""],
  );
  assert.deepEqual(shown("xn--mnchen-3ya.de"), ["", "xn--mnchen-3ya.de (münchen.de)"]);
  assert.deepEqual(shown("an x", "ray"), ["an ", "xray", ""]);
});

Deno.test("an encoded host is decoded wherever its text is cut", pure, () => {
  const text = "see https://xn--mnchen-3ya.de/x now";
  for (let at = 0; at <= text.length; at += 1) {
    assert.equal(shown(text.slice(0, at), text.slice(at)).join(""), displayProse(text));
  }
});

Deno.test("a text in pieces is shown as the whole text is", pure, () => {
  const piece = fc.oneof(
    fc.string({ unit: "grapheme", maxLength: 6 }),
    fc.constantFrom("x", "xn", "-", ".", "a", " ", "\n", "\x1b"),
  );
  fc.assert(fc.property(fc.array(piece), (pieces) => {
    fc.pre(!/xn--/i.test(pieces.join("")));
    assert.equal(shown(...pieces).join(""), displayProse(pieces.join("")));
  }));
});

Deno.test("what is too long for a host is not held back", pure, () => {
  const prose = new Prose();
  assert.equal(prose.push(`xn--${"a".repeat(249)}`), "");
  assert.equal(prose.push("a"), `xn--${"a".repeat(250)}`);
});
