/** A text in what is left of a line. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { fitted } from "../../ctl/one_line.ts";
import { columnsOf } from "../../ctl/width.ts";
import { display } from "../../proto/escape.ts";

const pure = { permissions: "none" } as const;

Deno.test(
  "what fits is whole; what does not keeps both ends and says what is left out",
  pure,
  () => {
    assert.equal(fitted("x".repeat(60), 60), "x".repeat(60));
    assert.equal(
      fitted("b".repeat(70) + "e".repeat(30), 60),
      `${"b".repeat(36)}… 52 more …${"e".repeat(12)}`,
    );
    assert.equal(
      fitted("\x1b[2J".repeat(40), 70),
      "\\u001b[2J\\u001b[2J\\u001b[2J\\u001b[2J\\u001b[2J… 133 more …[2J\\u001b[2J",
    );
  },
);

Deno.test(
  "it is never wider than the line, no character is lost uncounted, and it is data",
  pure,
  () => {
    const texts = fc.oneof(
      fc.string({ unit: "binary", maxLength: 300 }),
      fc.string({
        unit: fc.constantFrom("a", "漢", "\x1b", "\u0301", "\u{e0041}", "🥛"),
        maxLength: 300,
      }),
    );
    fc.assert(
      fc.property(texts, fc.integer({ min: 60, max: 120 }), (given, columns) => {
        const text = given.toWellFormed();
        const shown = fitted(text, columns);
        assert.doesNotMatch(shown, /[\p{Cc}\p{Cf}]/u);
        const cut = /^([^]*)… (\d+) more …([^]*)$/u.exec(shown);
        if (shown === display(text)) {
          return;
        }
        assert(cut !== null);
        assert.ok(columnsOf(shown) <= columns, `${columnsOf(shown)} > ${columns}`);
        const [, first = "", more = "", last = ""] = cut;
        const left = Number(more);
        const all = [...text];
        const ends = Array.from(
          { length: all.length - left + 1 },
          (_, n) => [display(all.slice(0, n).join("")), display(all.slice(n + left).join(""))],
        );
        assert.ok(ends.some(([a, b]) => a === first && b === last));
      }),
    );
  },
);
