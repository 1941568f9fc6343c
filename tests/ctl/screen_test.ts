/** The line that is being typed, as it looks, and what is written so that it does. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { edited, EMPTY, type Line } from "../../ctl/editor.ts";
import type { Key } from "../../ctl/keys.ts";
import { Screen, type Size, viewOf } from "../../ctl/screen.ts";
import { columnsOf } from "../../ctl/width.ts";
import { TinyTerminal } from "../support/tiny_terminal.ts";

const pure = { permissions: "none" } as const;
const WIDE: Size = { columns: 80, rows: 24 };

const at = (text: string, place = text.length): Line => ({ text, at: place });

Deno.test("the width of what a terminal shows", pure, () => {
  const widths = { "": 0, "abc": 3, "é": 1, "e\u0301": 1, "漢字": 4, "ｱ": 1, "Ａ": 2, "각": 2 };
  const more = { "🥛": 2, "🇩🇪": 2, "…": 1, "↑": 1, "한": 2, "𠀀": 2, "→ x": 3, "·": 1 };
  for (const [text, width] of Object.entries({ ...widths, ...more })) {
    assert.equal(columnsOf(text), width, text);
  }
});

Deno.test(
  "rows end before the last column, at newlines, and before a wide character that does not fit",
  pure,
  () => {
    const view = (text: string, columns: number) => viewOf("> ", at(text), { columns, rows: 24 });
    assert.deepEqual(view("", 10), { rows: ["> "], row: 0, column: 2 });
    assert.deepEqual(view("abcdef", 10), { rows: ["> abcdef"], row: 0, column: 8 });
    assert.deepEqual(view("abcdefg", 10), { rows: ["> abcdefg", ""], row: 1, column: 0 });
    assert.deepEqual(view("abcdefgh", 10), { rows: ["> abcdefg", "h"], row: 1, column: 1 });
    assert.deepEqual(view("abcdef漢", 10), { rows: ["> abcdef", "漢"], row: 1, column: 2 });
    assert.deepEqual(view("a\n\nb", 10), { rows: ["> a", "", "b"], row: 2, column: 1 });
  },
);

Deno.test(
  "what the owner pastes is shown as data: nothing of it reaches the terminal as a command",
  pure,
  () => {
    const { rows } = viewOf("> ", at("a\x1b[2J\u202e\u200b\tz"), WIDE);
    assert.deepEqual(rows, ["> a\\u001b[2J\\u202e\\u200b    z"]);
  },
);

Deno.test("of more rows than the terminal has, those around the cursor are left", pure, () => {
  const text = [..."abcdefgh"].join("\n");
  const view = (place: number) => viewOf("> ", at(text, place), { columns: 10, rows: 3 });
  assert.deepEqual(view(text.length), { rows: ["f", "g", "h"], row: 2, column: 1 });
  assert.deepEqual(view(6), { rows: ["b", "c", "d"], row: 2, column: 0 });
  assert.deepEqual(view(0), { rows: ["> a", "b", "c"], row: 0, column: 2 });
});

Deno.test("typing at the end writes what was typed and nothing else", pure, () => {
  const screen = new Screen();
  const draw = (line: Line) => screen.draw(viewOf("> ", line, WIDE), WIDE.columns);
  assert.equal(draw(EMPTY), "> ");
  assert.equal(draw(at("h")), "h");
  assert.equal(draw(at("hello")), "ello");
  assert.equal(draw(at("hello\nthere")), "\nthere");
  assert.equal(draw(at("hello\nthere", 2)), "\x1b[1A\r\x1b[J> hello\nthere\x1b[1A\r\x1b[4C");
  assert.equal(screen.leave(), "\x1b[1B\n");
  assert.equal(draw(at("next")), "> next");
});

const key: fc.Arbitrary<Key> = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 12 }).map((text): Key => ({ kind: "paste", text })),
  fc.constantFrom("漢", "🥛", "x", "\n", "\x1b[2J", "e\u0301").map((text): Key => ({
    kind: "text",
    text,
  })),
  fc.constantFrom<Key>({ kind: "left" }, { kind: "left" }, { kind: "backspace" }, {
    kind: "start",
  }),
  fc.constantFrom<Key>({ kind: "end" }, { kind: "right" }, { kind: "delete" }, {
    kind: "cut_after",
  }),
);

Deno.test(
  "whatever is typed, the terminal shows it, with the cursor where it belongs",
  pure,
  () => {
    fc.assert(
      fc.property(
        fc.array(key, { maxLength: 40 }),
        fc.integer({ min: 16, max: 40 }),
        fc.integer({ min: 2, max: 6 }),
        (keys, columns, rows) => {
          const terminal = new TinyTerminal(columns);
          const screen = new Screen();
          let line = EMPTY;
          terminal.write("before\n");
          for (const one of keys) {
            line = edited(line, one);
            const view = viewOf("> ", line, { columns, rows });
            terminal.write(screen.draw(view, columns));
            const start = terminal.row - view.row;
            const shown = terminal.shown.slice(start).map((row) => row.trimEnd());
            assert.deepEqual(shown, view.rows.map((row) => row.trimEnd()));
            assert.deepEqual([start, terminal.column], [1, view.column]);
          }
          terminal.write(screen.leave());
          assert.deepEqual([terminal.row, terminal.column], [terminal.rows.length - 1, 0]);
        },
      ),
    );
  },
);

Deno.test("after a change of the width the rows are drawn again in their place", pure, () => {
  const screen = new Screen();
  const text = "x".repeat(30);
  screen.draw(viewOf("> ", at(text), { columns: 40, rows: 24 }), 40);
  // The terminal has broken the 32 columns into two rows of 20, the cursor in the second.
  const written = screen.draw(viewOf("> ", at(text), { columns: 20, rows: 24 }), 20);
  assert.equal(written, `\x1b[1A\r\x1b[J> ${"x".repeat(17)}\n${"x".repeat(13)}\r\x1b[13C`);
});
