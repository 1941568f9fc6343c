/** Keys out of bytes. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { type Key, KeyReader, MAX_PASTE } from "../../ctl/keys.ts";
import { utf8 } from "../../proto/text.ts";

const pure = { permissions: "none" } as const;

/** The keys of `typed`, in the pieces that `cuts` make of its bytes; text that was cut is joined again. */
function keysOf(typed: string | Uint8Array, cuts: readonly number[] = []): Key[] {
  const bytes = typeof typed === "string" ? utf8(typed) : typed;
  const places = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) =>
    a - b
  );
  const reader = new KeyReader();
  const keys: Key[] = [];
  let at = 0;
  for (const place of places) {
    for (const key of reader.push(bytes.slice(at, place))) {
      const last = keys.at(-1);
      if (key.kind === "text" && last?.kind === "text") {
        keys[keys.length - 1] = { kind: "text", text: last.text + key.text };
      } else keys.push(key);
    }
    at = place;
  }
  return keys;
}

const text = (typed: string): Key => ({ kind: "text", text: typed });
const names = (typed: string) =>
  keysOf(typed).map((key) => "text" in key ? `${key.kind} ${key.text}` : key.kind);

Deno.test("the keys of the usual terminals", pure, () => {
  assert.deepEqual(names("\x01\x02\x03\x04\x05\x06"), [
    ...["start", "left", "interrupt", "delete_or_end", "end", "right"],
  ]);
  assert.deepEqual(names("\x08\x7f\r\n\x0b\x0c\x0e\x10\x15\x17"), [
    ...["backspace", "backspace", "enter", "enter", "cut_after", "redraw", "newer", "older"],
    ...["cut_before", "cut_word"],
  ]);
  assert.deepEqual(names("\x1b[A\x1b[B\x1b[C\x1b[D\x1bOA\x1bOB\x1bOC\x1bOD"), [
    ...["older", "newer", "right", "left", "older", "newer", "right", "left"],
  ]);
  assert.deepEqual(names("\x1b[H\x1bOH\x1b[1~\x1b[7~\x1b[F\x1bOF\x1b[4~\x1b[8~\x1b[3~"), [
    ...["start", "start", "start", "start", "end", "end", "end", "end", "delete"],
  ]);
  assert.deepEqual(names("\x1bb\x1bf\x1b[1;5D\x1b[1;5C"), [
    ...["word_left", "word_right", "word_left", "word_right"],
  ]);
});

Deno.test(
  "characters of several bytes come whole, and bytes that are none are told apart",
  pure,
  () => {
    assert.deepEqual(keysOf("é漢🥛e\u0301", [1, 3, 6, 7]), [text("é漢🥛e\u0301")]);
    assert.deepEqual(keysOf(new Uint8Array([0x61, 0xff, 0x62])), [text("a\ufffdb")]);
  },
);

Deno.test(
  "keys and sequences that mean nothing here do nothing, and take nothing with them",
  pure,
  () => {
    assert.deepEqual(names("a\x00\x1a\x1c\tb"), ["text ab"]);
    // The oldest report of a mouse has three characters more.
    assert.deepEqual(names("a\x1b[Ma!!b\x1b[M yy\r"), ["text ab", "enter"]);
    assert.deepEqual(names("\x1b[My\x03"), ["text [My", "interrupt"]);
    assert.deepEqual(names("a\x1b[15~\x1b[?1;2c\x1bOP\x1b[<0;1;1M\x1bxb"), ["text ab"]);
    // Nothing hides a Ctrl-C, an Enter or the next sequence.
    assert.deepEqual(names("\x1b\x03\x1b[\x03\x1b[1;\r"), [
      "interrupt",
      "text [",
      "interrupt",
      "text [1;",
      "enter",
    ]);
    assert.deepEqual(names("\x1b\x1b[A"), ["older"]);
    assert.deepEqual(names(`\x1b[${"1".repeat(40)}A`).at(-1), `text [${"1".repeat(40)}A`);
  },
);

Deno.test("a paste is one key with its newlines, whatever is in it", pure, () => {
  assert.deepEqual(keysOf("a\x1b[200~one\r\ntwo\rthree\nfour\x1b[201~b\r"), [
    text("a"),
    { kind: "paste", text: "one\ntwo\nthree\nfour" },
    text("b"),
    { kind: "enter" },
  ]);
  assert.deepEqual(keysOf("\x1b[200~\x03\x1b[A\x1b[200~\t\x1b[201~"), [
    { kind: "paste", text: "\x03\x1b[A\x1b[200~\t" },
  ]);
  assert.deepEqual(keysOf("\x1b[200~never ended"), []);
  assert.deepEqual(keysOf("an end\x1b[201~ without a paste"), [text("an end without a paste")]);
  const [long] = keysOf(`\x1b[200~${"x".repeat(2 * MAX_PASTE)}\x1b[201~`, [MAX_PASTE]);
  assert(long !== undefined && "text" in long);
  assert.equal(long.text.length, MAX_PASTE);
});

Deno.test("the beginning of a key is forgotten, a paste is not", pure, () => {
  for (const begun of ["\x1b", "\x1b[1;", new Uint8Array([0xe6, 0xbc])]) {
    const reader = new KeyReader();
    assert.deepEqual(reader.push(typeof begun === "string" ? utf8(begun) : begun), []);
    reader.forget();
    assert.deepEqual(reader.push(utf8("y\r")), [text("y"), { kind: "enter" }]);
  }
  const reader = new KeyReader();
  reader.push(utf8("\x1b[200~y\r"));
  reader.forget();
  assert.deepEqual(reader.push(utf8("y\r\x1b[201~")), [{ kind: "paste", text: "y\ny\n" }]);
});

const piece = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.constantFrom(
    "\x1b",
    "\x1b[",
    "\x1b[A",
    "\x1bOF",
    "\x1b[3~",
    "\x1b[1;5C",
    "\x03",
    "\r",
    "\x7f",
  ),
  fc.constantFrom("\x1b[200~", "\x1b[201~", "\x1b[20", "\r\n", "漢", "\u0301"),
);

Deno.test("it makes no difference where the bytes are cut", pure, () => {
  fc.assert(
    fc.property(fc.array(piece), fc.array(fc.nat()), (pieces, cuts) => {
      const typed = pieces.join("");
      assert.deepEqual(keysOf(typed, cuts), keysOf(typed));
    }),
  );
});

Deno.test("whatever bytes come, keys are well-formed text without control characters", pure, () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      for (const key of keysOf(bytes)) {
        if (!("text" in key)) continue;
        assert.ok(key.text.isWellFormed());
        // deno-lint-ignore no-control-regex
        if (key.kind === "text") assert.doesNotMatch(key.text, /[\x00-\x1f\x7f]/);
      }
    }),
  );
});
