import assert from "node:assert/strict";
import fc from "fast-check";
import { type Key, KeyReader } from "../../ctl/watch_keys.ts";
import { utf8 } from "../../proto/text.ts";

const pure = { permissions: "none" } as const;

const keysOf = (...pieces: string[]): Key[] => {
  const reader = new KeyReader();
  return pieces.flatMap((piece) => reader.push(utf8(piece)));
};

Deno.test("each key is read, arrows of both forms included", pure, () => {
  assert.deepEqual(keysOf("jk b"), ["down", "up", "page_down", "page_up"]);
  assert.deepEqual(keysOf("arq\x03\x0c"), ["approve", "refuse", "quit", "quit", "redraw"]);
  assert.deepEqual(keysOf("\x1b[A\x1b[B\x1bOA\x1bOB"), ["up", "down", "up", "down"]);
  assert.deepEqual(keysOf("\x1b[5~\x1b[6~"), ["page_up", "page_down"]);
});

Deno.test("what is no key of ours does nothing", pure, () => {
  assert.deepEqual(keysOf("ARQJK\r\n\t\x7f\x00yn1é漢"), []);
  // Shift and an arrow, Alt and a letter, a function key, a report of the terminal.
  assert.deepEqual(keysOf("\x1b[a\x1b[1;2a", "\x1ba\x1br\x1bq", "\x1bOa", "\x1b[15~"), []);
  assert.deepEqual(keysOf("\x1b]11;rgb:aaaa/rrrr/aaaa\x07", "\x1bPa\x1b\\", "a"), ["approve"]);
});

Deno.test("a sequence may come in pieces, and its letters are no keys", pure, () => {
  const sequences = ["\x1b[A", "\x1bOB", "\x1b[6~", "\x1b[1;2a", "\x1b]0;a r\x07", "\x1ba"];
  for (const sequence of sequences) {
    const whole = keysOf(`${sequence}r`);
    assert.equal(whole.at(-1), "refuse");
    for (let at = 1; at < sequence.length; at += 1) {
      assert.deepEqual(keysOf(sequence.slice(0, at), `${sequence.slice(at)}r`), whole, sequence);
    }
  }
});

Deno.test(
  "a report of the mouse in its oldest form is three bytes more, and none is a key",
  pure,
  () => {
    // The wheel is the button `a`; a click in column 65 is an `a` too, and one in column 81 a `q`.
    assert.deepEqual(keysOf("\x1b[Ma!!", "\x1b[M aq", "\x1b[M", "a", "r", "q", "r"), ["refuse"]);
    assert.deepEqual(keysOf("\x1b[M\x03", "\x1b[Ma\x1b[A", "a"), ["quit", "up", "approve"]);
  },
);

Deno.test("what is pasted answers nothing; Ctrl-C ends all the same", pure, () => {
  const paste = (text: string) => `\x1b[200~${text}\x1b[201~`;
  assert.deepEqual(keysOf(paste("aarrqq j\x1b[A\x1bOA\na")), []);
  assert.deepEqual(keysOf(paste("a") + "a"), ["approve"]);
  assert.deepEqual(keysOf("\x1b[200~", "aaa", "\x1b[20", "1~", "r"), ["refuse"]);
  assert.deepEqual(keysOf("\x1b[200~a\x03a", "\x1b[\x03", "\x1b]x\x03"), ["quit", "quit", "quit"]);
});

Deno.test("the keys do not depend on how the bytes come in pieces", pure, () => {
  const unit = fc.constantFrom("a", "r", "\x1b", "[", "O", "]", "A", "2", "0", "1", "~", "\x07");
  fc.assert(fc.property(fc.array(fc.string({ unit, maxLength: 8 })), (pieces) => {
    assert.deepEqual(keysOf(...pieces), keysOf(pieces.join("")));
  }));
});
