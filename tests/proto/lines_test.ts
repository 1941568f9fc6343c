import assert from "node:assert/strict";
import fc from "fast-check";
import { type Line, LineSplitter } from "../../proto/lines.ts";
import { asciiText, utf8 } from "../../proto/text.ts";

const NEWLINE = 0x0a;

/** The lines of `bytes`, copied as they come, pushed in pieces that end at `cuts`. */
function split(bytes: Uint8Array, cuts: readonly number[] = []): Line[] {
  const splitter = new LineSplitter();
  const lines: Line[] = [];
  const ends = [...cuts.filter((cut) => cut <= bytes.length), bytes.length].sort((a, b) => a - b);
  let from = 0;
  for (const to of ends) {
    for (const { bytes: line, ended } of splitter.push(bytes.slice(from, to))) {
      lines.push({ bytes: line.slice(), ended });
    }
    from = to;
  }
  const rest = splitter.end();
  if (rest !== null) lines.push(rest);
  return lines;
}

function shown(lines: readonly Line[]): string[] {
  return lines.map(({ bytes, ended }) => String.fromCharCode(...bytes) + (ended ? "\n" : ""));
}

const CASES = {
  "nothing": ["", []],
  "a line": ["a\n", ["a\n"]],
  "a line without its newline": ["a", ["a"]],
  "two lines": ["a\nb\n", ["a\n", "b\n"]],
  "a line and a piece": ["a\nb", ["a\n", "b"]],
  "empty lines": ["\n\n", ["\n", "\n"]],
  "an empty line first": ["\na", ["\n", "a"]],
  "CR and CR LF": ["a\rb\r\nc\r", ["a\rb\r\n", "c\r"]],
  "other line ends": ["a\x0bb\x0cc\x85d\n", ["a\x0bb\x0cc\x85d\n"]],
  "NUL": ["\0\n\0", ["\0\n", "\0"]],
} as const;

for (const [what, [text, lines]] of Object.entries(CASES)) {
  Deno.test(`splits at 0x0A and nowhere else: ${what}`, { permissions: "none" }, () => {
    const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
    assert.deepEqual(shown(split(bytes)), lines);
    assert.deepEqual(shown(split(bytes, [...bytes.keys()])), lines, "byte by byte");
  });
}

Deno.test("U+2028 and U+0085 in UTF-8 end no line", { permissions: "none" }, () => {
  assert.equal(split(utf8("a\u2028b\u2029c\u0085d\n")).length, 1);
});

Deno.test(
  "chunks of any size give the same lines, and no byte is lost",
  { permissions: "none" },
  () => {
    const byte = fc.oneof(fc.constant(NEWLINE), fc.constant(0x0d), fc.nat(255));
    fc.assert(fc.property(
      fc.array(byte, { maxLength: 60 }),
      fc.array(fc.nat(60)),
      (values, cuts) => {
        const bytes = new Uint8Array(values);
        const lines = split(bytes, cuts);
        assert.deepEqual(lines, split(bytes));
        const back = lines.flatMap(({ bytes, ended }) => [...bytes, ...(ended ? [NEWLINE] : [])]);
        assert.deepEqual(back, values);
        assert.ok(lines.every(({ bytes }) => !bytes.includes(NEWLINE)));
        assert.ok(lines.slice(0, -1).every(({ ended }) => ended), "only the last may be unended");
      },
    ));
  },
);

Deno.test("pending counts the bytes of the unfinished line", { permissions: "none" }, () => {
  const splitter = new LineSplitter();
  const push = (text: string) => shown([...splitter.push(utf8(text))]);
  assert.equal(splitter.pending, 0);
  assert.deepEqual(push("ab"), []);
  assert.equal(splitter.pending, 2);
  assert.deepEqual(push("c"), []);
  assert.equal(splitter.pending, 3);
  assert.deepEqual(push("\nx\nyz"), ["abc\n", "x\n"]);
  assert.equal(splitter.pending, 2);
  assert.deepEqual(shown([splitter.end() ?? assert.fail()]), ["yz"]);
  assert.equal(splitter.pending, 0);
  assert.equal(splitter.end(), null);
});

Deno.test("a chunk may be used again after the push", { permissions: "none" }, () => {
  const splitter = new LineSplitter();
  const chunk = utf8("ab");
  assert.deepEqual([...splitter.push(chunk)], []);
  chunk.fill(0x78);
  assert.deepEqual(shown([...splitter.push(utf8("c\n"))]), ["abc\n"]);
});

Deno.test(
  "what comes after a line does not change the line before",
  { permissions: "none" },
  () => {
    const splitter = new LineSplitter();
    assert.deepEqual([...splitter.push(utf8("abc"))], []);
    const [first] = splitter.push(utf8("def\n"));
    assert.deepEqual([...splitter.push(utf8("uvwxyz"))], []);
    assert.deepEqual(shown([first ?? assert.fail()]), ["abcdef\n"]);
  },
);

Deno.test("a long line in many small pieces is whole", { permissions: "none" }, () => {
  const splitter = new LineSplitter();
  const piece = utf8("0123456");
  const count = 100_000;
  for (let n = 0; n < count; n += 1) assert.deepEqual([...splitter.push(piece)], []);
  const [line] = splitter.push(new Uint8Array([NEWLINE]));
  assert.equal(new TextDecoder().decode(line?.bytes), "0123456".repeat(count));
});

Deno.test("a line has its text where its chunk is given as text and holds all of it", {
  permissions: "none",
}, () => {
  const splitter = new LineSplitter();
  const texts = (chunk: string) => {
    const bytes = utf8(chunk);
    return [...splitter.push(bytes, asciiText(bytes))].map(({ bytes, text }) => {
      if (text !== null) assert.deepEqual(utf8(text), bytes);
      return text;
    });
  };
  assert.deepEqual(texts("a\n\nbc\nd"), ["a", "", "bc"]);
  assert.deepEqual(texts("e\nf\n"), [null, "f"], "the first began in the chunk before");
  assert.deepEqual(texts("g\né\n"), [null, null], "a chunk that is not ASCII has no text");
  assert.deepEqual(texts("h\n"), ["h"]);
  assert.deepEqual([...splitter.push(utf8("i\n"))].map(({ text }) => text), [null]);
});
