/** `bxctl approvals --watch`: what a key answers, and when it does not. */
import assert from "node:assert/strict";
import type { Key } from "../../ctl/watch_keys.ts";
import {
  LOOK_MS,
  next,
  STALE_MS,
  START,
  type WatchEvent,
  type WatchState,
} from "../../ctl/watch_state.ts";
import type { PendingApproval } from "../../proto/messages.ts";
import { pending } from "../support/daemons.ts";
import { A, B, Bench, C, SAME } from "../support/watch_bench.ts";

const pure = { permissions: "none" } as const;

function looking(items: readonly PendingApproval[] = [A, B, C]): Bench {
  const bench = new Bench();
  bench.list(items);
  return bench;
}

Deno.test(
  "a key answers once its call was on the screen for a second, and not before",
  pure,
  () => {
    assert.deepEqual([LOOK_MS, STALE_MS], [1000, 5000], "in milliseconds");
    for (const key of ["approve", "refuse"] as const) {
      const early = looking();
      early.now = LOOK_MS - 1;
      assert.equal(early.key(key), null);
      assert.equal(early.state.status, "shown for under 1 s: look, then press");
      const bench = looking();
      bench.now = LOOK_MS;
      assert.equal(bench.key(key), `${key} 41`);
      const saying = { approve: "approving 41", refuse: "refusing 41" };
      assert.equal(bench.state.status, saying[key]);
    }
  },
);

Deno.test(
  "a key that comes early begins the second anew: one that is held down answers nothing",
  pure,
  () => {
    const bench = looking();
    for (let repeat = 0; repeat < 100; repeat += 1) {
      bench.now += 900;
      bench.list([A, B, C]);
      assert.equal(bench.key(repeat % 2 === 0 ? "approve" : "refuse"), null);
    }
    bench.now += LOOK_MS;
    assert.equal(bench.key("approve"), "approve 41");
  },
);

Deno.test(
  "a key that came together with others answers nothing and begins the second anew",
  pure,
  () => {
    const bench = looking();
    bench.now = LOOK_MS;
    assert.equal(bench.key("together"), null);
    assert.equal(bench.state.status, "several keys at once");
    bench.now += LOOK_MS - 1;
    assert.equal(bench.key("approve"), null);
    bench.now += LOOK_MS;
    assert.equal(bench.key("approve"), "approve 41");
  },
);

Deno.test("the selection moves with the keys, within the list, and begins a second", pure, () => {
  const bench = looking();
  const selected = (key: Key) => {
    bench.key(key);
    return bench.state.selected;
  };
  assert.equal(bench.state.selected, 41);
  assert.equal(selected("up"), 41);
  assert.deepEqual([selected("down"), selected("down"), selected("down")], [42, 43, 43]);
  assert.equal(selected("up"), 42);
  bench.now = LOOK_MS - 1;
  assert.equal(bench.key("approve"), null);
  bench.now += LOOK_MS;
  assert.equal(bench.key("approve"), "approve 42");
});

Deno.test("the selection stays with its call when others come and go", pure, () => {
  const bench = looking();
  bench.key("down");
  bench.now = 900;
  bench.list([B, C]);
  assert.equal(bench.state.selected, 42);
  bench.list([pending({ approval: 7 }), A, B, C]);
  assert.equal(bench.state.selected, 42);
  bench.now = 1000;
  assert.equal(bench.key("approve"), "approve 42", "it was there all the time");
});

Deno.test("where the last one of the list goes, the one before it is selected", pure, () => {
  const bench = looking();
  bench.key("down");
  bench.key("down");
  bench.list([A, B]);
  assert.deepEqual([bench.state.selected, bench.state.status], [42, "43 waits no more"]);
  bench.key("up");
  assert.deepEqual([bench.state.selected, bench.state.status], [41, ""]);
  bench.list([]);
  assert.equal(bench.state.selected, null);
  for (const key of ["down", "up"] as const) {
    assert.equal(bench.key(key), null);
    assert.equal(bench.state.selected, null);
  }
  bench.list([C]);
  assert.equal(bench.state.selected, 43);
});

Deno.test("a call that slides into the cursor's place has a second of its own", pure, () => {
  const bench = looking();
  bench.now = 5000;
  bench.list([B, C]);
  assert.equal(bench.state.selected, 42);
  assert.equal(bench.state.status, "41 waits no more");
  assert.equal(bench.key("approve"), null);
  bench.now += LOOK_MS;
  assert.equal(bench.key("approve"), "approve 42");
});

Deno.test(
  "of identical calls the first is answered, and the next has a second of its own",
  pure,
  () => {
    const twin = { ...A, approval: 50 };
    const bench = looking([A, B, twin]);
    bench.key("down");
    assert.equal(bench.state.selected, 42);
    bench.key("up");
    bench.now = 2000;
    bench.list([A, B, twin]);
    assert.equal(bench.key("approve"), "approve 41");
    bench.take({ kind: "answered", line: "approved 41: runs" });
    bench.list([B, twin]);
    assert.equal(bench.state.selected, 50, "its twin, wherever it stands now");
    assert.equal(bench.state.status, "approved 41: runs");
    assert.equal(bench.key("approve"), null);
    bench.now += LOOK_MS;
    assert.equal(bench.key("approve"), "approve 50");
  },
);

Deno.test("what changes about a call has to be looked at for a second", pure, () => {
  const bench = looking();
  bench.now = 2000;
  bench.list([A, B, C], [{ approval: 41, ...SAME, grant: "edited" }]);
  assert.equal(bench.key("approve"), null);
  bench.now += LOOK_MS;
  assert.equal(bench.key("approve"), "approve 41");

  const other = looking();
  other.now = 2000;
  other.list([A, B, C], [{ approval: 42, ...SAME, grant: "edited" }]);
  assert.equal(other.key("approve"), "approve 41", "another call's change is none of it");
});

Deno.test("an answer is not sent where its call is gone or another by then", pure, () => {
  const cases = {
    same: { items: [A, B], changes: [], lost: null },
    gone: { items: [B], changes: [], lost: "41 waits no more" },
    changed: {
      items: [A, B],
      changes: [{ approval: 41, ...SAME, grant: "gone" }],
      lost: "41 has changed: not answered",
    },
  } as const;
  for (const [name, { items, changes, lost }] of Object.entries(cases)) {
    const bench = looking([A, B]);
    bench.now = LOOK_MS;
    assert.equal(bench.key("approve"), "approve 41");
    assert.equal(bench.key("refuse"), "approve 41", "one thing at a time");
    bench.key("down");
    bench.list(items, changes);
    assert.equal(bench.state.answer === null, lost !== null, name);
    assert.equal(bench.state.status, lost ?? "", name);
  }
  const bench = looking();
  bench.now = LOOK_MS;
  bench.key("approve");
  bench.take({ kind: "away", lines: ["gone"] });
  assert.equal(bench.state.answer, null);
  assert.equal(bench.state.status, "41 was not answered");
});

Deno.test("nothing is answered while brokerd is away or its list is old", pure, () => {
  const bench = looking();
  bench.now = 2000;
  bench.take({ kind: "away", lines: ["gone"] });
  assert.equal(bench.key("approve"), null);
  assert.equal(bench.state.status, "brokerd does not answer");
  bench.now = 4000;
  bench.list([A, B, C]);
  assert.equal(bench.key("approve"), null, "it was not on the screen meanwhile");
  bench.now += LOOK_MS;
  assert.equal(bench.key("approve"), "approve 41");

  const old = looking();
  old.now = STALE_MS + 1;
  assert.equal(old.key("approve"), null);
  assert.equal(old.state.status, "the list is too old");
  const fresh = looking();
  fresh.now = STALE_MS;
  assert.equal(fresh.key("approve"), "approve 41");
});

Deno.test(
  "a call longer than the screen is approved once every page of it was shown, the last for a second",
  pure,
  () => {
    const long = pending({ arguments: "x".repeat(78 * 50) });
    const bench = looking([long]);
    const lines = () => [bench.shown?.from, bench.shown?.to, bench.shown?.total];
    assert.deepEqual(lines(), [0, 19, 52]);
    bench.key("page_up");
    assert.deepEqual(lines(), [0, 19, 52], "there is nothing before its beginning");
    bench.now = 3000;
    assert.equal(bench.key("approve"), null);
    assert.equal(bench.state.status, "lines not shown yet: 33; press space");
    bench.key("page_down");
    assert.deepEqual(lines(), [19, 38, 52]);
    bench.list([long]);
    assert.deepEqual(lines(), [19, 38, 52], "a new list leaves the page where it is");
    bench.key("page_up");
    assert.deepEqual(lines(), [0, 19, 52]);
    bench.key("page_down");
    bench.now = 4500;
    assert.equal(bench.key("approve"), null);
    assert.equal(bench.state.status, "lines not shown yet: 14; press space");
    bench.key("page_down");
    bench.now += LOOK_MS - 1;
    assert.equal(bench.key("approve"), null, "its end has not been there for a second");
    bench.key("page_up");
    bench.list([long]);
    bench.now += LOOK_MS;
    assert.equal(bench.key("approve"), "approve 41");

    const refused = looking([long]);
    refused.now = LOOK_MS;
    assert.equal(refused.key("refuse"), "refuse 41", "to refuse needs no more than its beginning");
  },
);

Deno.test("pages that a screen jumped over count as not shown", pure, () => {
  const shown = (from: number): WatchEvent => ({
    kind: "drawn",
    shown: { approval: 41, content: "c", size: "80x24", from, to: from + 10, total: 30 },
  });
  const start: WatchState = { ...START, selected: 41 };
  const seen = (...pages: number[]) =>
    pages.reduce((state, from) => next(state, shown(from), 0), start).sight;
  assert.equal(seen(0, 20)?.seenTo, 10);
  assert.equal(seen(20)?.seenTo, 0);
  assert.equal(seen(0, 20, 10)?.wholeSince, null);
  assert.equal(seen(0, 20, 10, 20)?.wholeSince, 0);
  assert.equal(seen(0, 5, 15, 20)?.wholeSince, 0);
});

Deno.test(
  "a screen of another size has to be looked at anew, and one that is too small shows nothing",
  pure,
  () => {
    const bench = looking();
    bench.now = 2000;
    bench.size = { columns: 40, rows: 10 };
    bench.draw();
    assert.equal(bench.key("approve"), null);
    bench.now += LOOK_MS;
    assert.equal(bench.key("approve"), "approve 41");

    const small = looking();
    small.size = { columns: 20, rows: 10 };
    small.draw();
    small.now = 3000;
    assert.equal(small.key("approve"), null);
    assert.equal(small.key("refuse"), null);
    assert.equal(small.state.status, "41 is not on the screen");
  },
);

Deno.test("nothing is answered where nothing waits, and q ends", pure, () => {
  const bench = looking([]);
  bench.now = 2000;
  assert.equal(bench.key("approve"), null);
  assert.equal(bench.state.status, "nothing waits");
  assert.equal(bench.state.quit, false);
  bench.key("quit");
  assert.equal(bench.state.quit, true);
});
