/** Editing a line, and the history of a chat. */
import assert from "node:assert/strict";
import fc from "fast-check";
import {
  characters,
  edited,
  EMPTY,
  History,
  type Line,
  MAX_ENTRIES,
  MAX_HISTORY,
  MAX_LINE,
} from "../../ctl/editor.ts";
import type { Key, KeyName } from "../../ctl/keys.ts";

const pure = { permissions: "none" } as const;

const typed = (text: string): Key => ({ kind: "text", text });

/** `line` with a | where the cursor is, once all of `keys` are typed. A key in plain words is text. */
function after(...keys: readonly (KeyName | `'${string}`)[]): string {
  let line = EMPTY;
  for (const key of keys) {
    line = edited(line, key.startsWith("'") ? typed(key.slice(1)) : { kind: key as KeyName });
  }
  return `${line.text.slice(0, line.at)}|${line.text.slice(line.at)}`;
}

Deno.test("each key does what it usually does", pure, () => {
  assert.equal(after("'abc"), "abc|");
  assert.equal(after("'abc", "left", "'x"), "abx|c");
  assert.equal(after("'abc", "start", "right", "'x"), "ax|bc");
  assert.equal(after("'abc", "start", "left", "end", "right"), "abc|");
  assert.equal(after("'abc", "backspace", "left", "delete"), "a|");
  assert.equal(after("'abc", "delete", "start", "backspace", "delete_or_end"), "|bc");
  assert.equal(after("'abcd", "left", "left", "cut_after"), "ab|");
  assert.equal(after("'abcd", "left", "left", "cut_before"), "|cd");
  assert.equal(after("'one two  ", "cut_word"), "one |");
  assert.equal(after("'one two", "left", "cut_word"), "one |o");
  assert.equal(
    after("'one two", "word_left", "'x", "word_left", "word_left", "word_right"),
    "one| xtwo",
  );
  assert.equal(after("'abc", "enter", "interrupt", "older", "newer", "redraw"), "abc|");
});

Deno.test("a character is what people count as one", pure, () => {
  for (const one of ["漢", "🥛", "e\u0301", "👨‍👩‍👧", "🇩🇪", "각"]) {
    assert.equal(after(`'a${one}b`, "left", "left", "'x"), `ax|${one}b`);
    assert.equal(after(`'a${one}b`, "left", "backspace"), "a|b");
    assert.equal(after(`'a${one}b`, "start", "right", "delete"), "a|b");
  }
  // A mark typed later joins the character before it, and the cursor is never inside.
  assert.equal(after("'eb", "left", "'\u0301", "backspace"), "|b");
  assert.equal(after("'e\u0301", "start", "right", "left", "delete"), "|");
});

Deno.test(
  "a paste keeps its newlines, and a line longer than any message stays just that",
  pure,
  () => {
    assert.deepEqual(edited(EMPTY, { kind: "paste", text: "a\n\tb" }), { text: "a\n\tb", at: 4 });
    let line = edited(EMPTY, { kind: "paste", text: "x".repeat(MAX_LINE - 1) });
    line = edited(line, typed("🥛"));
    assert.equal(line.text.length, MAX_LINE);
    assert.ok(line.text.isWellFormed());
    assert.deepEqual(edited(line, typed("y")), line);
  },
);

/** The same editor, slow and plain: characters before the cursor and after it. */
class Naive {
  before: string[] = [];
  after: string[] = [];

  press(key: Key): void {
    switch (key.kind) {
      case "text":
      case "paste":
        this.before.push(...key.text);
        break;
      case "backspace":
        this.before.pop();
        break;
      case "delete":
        this.after.shift();
        break;
      case "left":
        this.after.unshift(...this.before.splice(-1));
        break;
      case "right":
        this.before.push(...this.after.splice(0, 1));
        break;
      case "start":
        this.after.unshift(...this.before.splice(0));
        break;
      case "end":
        this.before.push(...this.after.splice(0));
        break;
      case "cut_before":
        this.before = [];
        break;
      case "cut_after":
        this.after = [];
        break;
      case "cut_word":
        while (this.before.at(-1) === " ") this.before.pop();
        while (this.before.length > 0 && this.before.at(-1) !== " ") this.before.pop();
        break;
      default:
        throw new Error(key.kind);
    }
  }
}

const KEYS = [
  ...[
    "backspace",
    "delete",
    "left",
    "right",
    "start",
    "end",
    "cut_before",
    "cut_after",
    "cut_word",
  ],
] as const;
const namedKey = fc.constantFrom(...KEYS as readonly KeyName[]).map((
  kind,
): Key => ({ kind } as Key));
const plainKey = fc.oneof(
  fc.string({ unit: fc.constantFrom("a", "b", " ", "漢", "🥛"), maxLength: 5 }).map(typed),
  namedKey,
);

Deno.test("it does the same as an editor that is slow and plain", pure, () => {
  fc.assert(
    fc.property(fc.array(plainKey, { maxLength: 60 }), (keys) => {
      const naive = new Naive();
      let line = EMPTY;
      for (const key of keys) {
        line = edited(line, key);
        naive.press(key);
        const before = naive.before.join("");
        assert.deepEqual(line, { text: before + naive.after.join(""), at: before.length });
      }
    }),
  );
});

/** Where the cursor of a line may be. */
function places({ text }: Line): Set<number> {
  const found = new Set([0]);
  let at = 0;
  for (const one of characters(text)) found.add(at += one.length);
  return found;
}

Deno.test(
  "whatever is typed, the cursor is never inside a character, and the text is well-formed",
  pure,
  () => {
    const anyKey = fc.oneof(
      fc.string({ unit: "binary" }).map((text) => typed(text.toWellFormed())),
      fc.constantFrom("\u0301", "\u200d", "🇩", "👩", "\ud83e\udd5b", "\u1100", "\u1161").map(typed),
      namedKey,
      fc.constantFrom<Key>({ kind: "word_left" }, { kind: "word_right" }),
    );
    fc.assert(
      fc.property(fc.array(anyKey, { maxLength: 60 }), (keys) => {
        let line = EMPTY;
        for (const key of keys) {
          line = edited(line, key);
          assert.ok(line.text.isWellFormed());
          assert.ok(places(line).has(line.at), JSON.stringify(line));
        }
      }),
    );
  },
);

const at = (text: string): Line => ({ text, at: text.length });

Deno.test("older and newer messages, and the line that was begun", pure, () => {
  const history = new History();
  for (const text of ["one", "two", "two", "three\nlines"]) history.add(text);
  const browsing = history.browse();
  assert.deepEqual(browsing.move({ text: "begun", at: 2 }, -1), at("three\nlines"));
  assert.deepEqual(browsing.move(at("three"), -1), at("two"), "the same one twice is kept once");
  assert.deepEqual(browsing.move(at("two"), -1), at("one"));
  assert.deepEqual(browsing.move({ text: "one!", at: 1 }, -1), { text: "one!", at: 1 });
  assert.deepEqual(browsing.move(at("one!"), 1), at("two"));
  assert.deepEqual(browsing.move(at("two"), -1), at("one!"), "what was changed stays");
  for (let n = 0; n < 2; n++) browsing.move(at("two"), 1);
  assert.deepEqual(browsing.move(at("two"), 1), at("begun"));
  assert.deepEqual(browsing.move(at("begun"), 1), at("begun"));
  // What was changed and not sent is gone with the next line.
  assert.deepEqual(history.browse().move(EMPTY, -1), at("three\nlines"));
});

Deno.test("the history has a limit: the oldest go", pure, () => {
  const history = new History();
  for (let n = 0; n < MAX_ENTRIES + 5; n++) history.add(`message ${n}`);
  const oldest = () => {
    const browsing = history.browse();
    let [line, count] = [EMPTY, 0];
    for (let next = browsing.move(line, -1); next !== line; next = browsing.move(line, -1)) {
      line = next;
      count += 1;
    }
    return [line.text.slice(0, 20), count];
  };
  assert.deepEqual(oldest(), ["message 5", MAX_ENTRIES]);
  history.add("x".repeat(MAX_HISTORY - 30));
  const [first, count] = oldest();
  assert.deepEqual([first, count], [`message ${MAX_ENTRIES + 3}`, 3]);
  history.add("y".repeat(MAX_HISTORY + 1));
  assert.deepEqual(oldest(), [`message ${MAX_ENTRIES + 3}`, 3], "one that is too long is not kept");
});
