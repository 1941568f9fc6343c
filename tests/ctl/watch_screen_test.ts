/** The screens of `bxctl approvals --watch`, as they are drawn at two sizes. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { display } from "../../proto/escape.ts";
import type { ApprovalChange } from "../../proto/messages.ts";
import { groupsOf } from "../../ctl/waiting.ts";
import { Composer, type Frame, type Size, wrap } from "../../ctl/watch_screen.ts";
import { next, START, type WatchEvent, type WatchState } from "../../ctl/watch_state.ts";
import { pending } from "../support/daemons.ts";

const pure = { permissions: "none" } as const;
const CLOCK = Date.parse("2026-12-01T10:00:00.000Z");
const WIDE: Size = { columns: 80, rows: 24 };
const NARROW: Size = { columns: 40, rows: 10 };
const SAME = { grant: null, taint: null, untrusted: false, unreadable: false } as const;

const ITEMS = [
  pending({ approval: 41, taint: "public", grant: "notes" }),
  pending({ approval: 42, taint: "public", grant: "notes" }),
  pending({ approval: 43, session: "chat-2", tool: "read_file", arguments: '{"path":"/n/a"}' }),
];
const CHANGES: ApprovalChange[] = [{ approval: 41, ...SAME, taint: "private", grant: "edited" }];

/** The state after `events`, all at the moment 0. */
function after(...events: WatchEvent[]): WatchState {
  return events.reduce((state, event) => next(state, event, 0), START);
}

const list = (items = ITEMS, changes = CHANGES): WatchEvent => ({
  kind: "list",
  groups: groupsOf(items, changes),
});

function frameOf(state: WatchState, size: Size, now = 0): Frame {
  return new Composer().compose(state, size, now, CLOCK);
}

/** A screen as text; a full row of dashes is cut short. */
function text({ rows }: Frame): string {
  return rows.map(({ text }) => text.trimEnd()).join("\n") + "\n";
}

Deno.test("a screen of 80 by 24", pure, () => {
  const state = after(list());
  const frame = frameOf(state, WIDE);
  assert.equal(
    text(frame),
    `approvals pending: 3, 2 of them different
> 41 x2  expires in 13 min  changed  shell {"command":"ls"}
  43  expires in 13 min  read_file {"path":"/n/a"}
-- 41: 2 min ago, expires in 13 min, identical: 41, 42 -------------------------
| session chat-1  grant notes  taint public
| changed since: the taint rose from public to private; grant notes.toml was edi
| ted
| shell {"command":"ls"}















j/k or arrows: move  space/b: page  a: not yet  r: not yet  q: quit
`,
  );
  assert.equal(frame.rows.length, 24);
  assert.deepEqual(frame.rows.map(({ selected }) => selected).indexOf(true), 1);
  const seen = next(state, { kind: "drawn", shown: frame.shown }, 0);
  assert.match(text(frameOf(seen, WIDE, 999)), /a: not yet {2}r: not yet/);
  assert.match(text(frameOf(seen, WIDE, 1000)), /a: approve {2}r: refuse/);
});

Deno.test("a screen of 40 by 10, of a call that is longer than it", pure, () => {
  const long = pending({ arguments: `{"command":"${"0123456789".repeat(12)}"}` });
  let state = after(list([long], []));
  const first = frameOf(state, NARROW);
  assert.equal(
    text(first),
    `approvals pending: 1
> 41  expires in 13 min  shell {"command
-- 41: lines 1-5 of 6, 2 min ago, expire
| session chat-1  grant shell-scratch  t
| aint private
| shell {"command":"01234567890123456789
| 01234567890123456789012345678901234567
| 89012345678901234567890123456789012345

j/k space/b - - q
`,
  );
  state = next(state, { kind: "drawn", shown: first.shown }, 0);
  state = next(state, { kind: "key", key: "approve" }, 2000);
  const said = text(frameOf(state, NARROW, 3000)).split("\n").slice(-3);
  assert.deepEqual(said, ["lines not shown yet: 1; press space", "j/k space/b - r q", ""]);
  state = next(state, { kind: "key", key: "page_down" }, 3000);
  const last = frameOf(state, NARROW, 3000);
  assert.equal(
    text(last),
    `approvals pending: 1
> 41  expires in 13 min  shell {"command
-- 41: lines 2-6 of 6, 2 min ago, expire
| aint private
| shell {"command":"01234567890123456789
| 01234567890123456789012345678901234567
| 89012345678901234567890123456789012345
| 678901234567890123456789"}

j/k space/b - r q
`,
  );
  state = next(state, { kind: "drawn", shown: last.shown }, 3000);
  assert.match(text(frameOf(state, NARROW, 4000)), /\nj\/k space\/b a r q\n$/);
});

Deno.test("what is said where nothing can be shown", pure, () => {
  const first = (state: WatchState, now = 0) => text(frameOf(state, NARROW, now)).split("\n")[0];
  assert.equal(first(START), "asking brokerd");
  assert.equal(first(after(list([], []))), "no approvals are pending");
  assert.equal(first(after(list()), 5001), "no answer of brokerd for 5 s; trying ag".concat("a"));
  const away = after(list(), { kind: "away", lines: ["brokerd is not running", "x".repeat(60)] });
  assert.equal(
    text(frameOf(away, NARROW)),
    `brokerd does not answer; trying again
brokerd is not running
${"x".repeat(40)}
${"x".repeat(20)}





j/k space/b - - q
`,
  );
  assert.equal(frameOf(away, NARROW).shown, null);
  const small = frameOf(after(list()), { columns: 29, rows: 10 });
  assert.equal(small.rows[0]?.text, "needs 30 columns and 8 rows");
  assert.equal(small.shown, null);
  assert.notEqual(frameOf(after(list()), { columns: 30, rows: 8 }).shown, null);
  assert.equal(frameOf(after(list()), { columns: 1, rows: 1 }).rows.length, 1);
});

/** Texts that want to be more than text. */
const hostile = fc.string({
  unit: fc.oneof(
    fc.constantFrom("\x1b[2J", "\x1b]0;t\x07", "\x9b1A", "\r", "\n", "\t", "\0", "\x7f"),
    fc.constantFrom("\u202e", "\u2066", "\u200b", "\u200d", "\ufe0f", "\u{e0041}", "\u0301"),
    fc.constantFrom("漢", "한", "ｆ", "👨", "🇩", "א", "ع", "ä", "…", "x", " ", "\ud800"),
  ),
  maxLength: 120,
});

Deno.test("every text is on the screen as data, whole and within its columns", pure, () => {
  const sizes = fc.record({
    columns: fc.integer({ min: 30, max: 90 }),
    rows: fc.integer({ min: 8, max: 30 }),
  });
  fc.assert(fc.property(hostile, hostile, sizes, fc.nat(40), (tool, args, size, count) => {
    const items = Array.from(
      { length: 1 + count },
      (_, at) => pending({ approval: at, tool, arguments: args, session: `s${at}`, grant: args }),
    );
    const state = after(list(items, []), { kind: "key", key: "down" });
    const composer = new Composer();
    let lines: string[] = [];
    let at = 0;
    for (let current = state;;) {
      const { rows, shown } = composer.compose(current, size, 0, CLOCK);
      assert.equal(rows.length, size.rows);
      for (const { text } of rows) {
        assert.doesNotMatch(text, /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u);
        const most = [...text].reduce((sum, c) => sum + (c <= "\x7f" ? 1 : 2), 0);
        assert.ok(most <= size.columns, text);
      }
      assert.ok(shown !== null && shown.from <= at && shown.to > at, "no line is passed over");
      // The selected call's lines stand right below its heading.
      const heading = rows.findIndex(({ text }) => text.startsWith("-- "));
      const visible = rows.slice(heading + 1, heading + 1 + shown.to - shown.from);
      lines = [...lines.slice(0, shown.from), ...visible.map(({ text }) => text)];
      assert.ok(visible.every(({ text }) => text.startsWith("| ")));
      at = shown.to;
      if (at === shown.total) break;
      const drawn = next(current, { kind: "drawn", shown }, 0);
      current = next(drawn, { kind: "key", key: "page_down" }, 0);
    }
    const approval = count === 0 ? 0 : 1;
    const facts = `session s${approval}  grant ${display(args)}  taint private`;
    assert.equal(
      lines.map((line) => line.slice(2)).join(""),
      `${facts}${display(tool)} ${display(args)}`,
    );
  }));
});

Deno.test("a text is wrapped between characters, and nothing of it is lost", pure, () => {
  assert.deepEqual(wrap("", 5), [""]);
  assert.deepEqual(wrap("abcdef", 5), ["abcde", "f"]);
  assert.deepEqual(wrap("ab漢字cd", 5), ["ab漢", "字cd"]);
  assert.deepEqual(wrap("👨👨👨", 5), ["👨👨", "👨"]);
});
