/** `bxctl approvals --watch`: whatever happens, no key answers what was not looked at for a second. */
import assert from "node:assert/strict";
import fc from "fast-check";
import type { Key } from "../../ctl/watch_keys.ts";
import type { Size } from "../../ctl/watch_screen.ts";
import { LOOK_MS, type Shown } from "../../ctl/watch_state.ts";
import type { PendingApproval } from "../../proto/messages.ts";
import { pending } from "../support/daemons.ts";
import { A, B, Bench, SAME } from "../support/watch_bench.ts";

const pure = { permissions: "none" } as const;

/** One moment of the screen, as somebody saw it who looked over the owner's shoulder. */
interface Seen {
  readonly at: number;
  readonly shown: Shown | null;
}

type Step =
  | { readonly kind: "key"; readonly key: Key }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "list"; readonly at: readonly number[]; readonly edited: readonly number[] }
  | { readonly kind: "away" }
  | { readonly kind: "size"; readonly size: Size }
  | { readonly kind: "answered" };

const CALLS: readonly PendingApproval[] = [
  A,
  { ...A, approval: 44 },
  B,
  pending({ approval: 45, session: "s9", arguments: "y".repeat(700) }),
  pending({ approval: 46, session: "s9", arguments: "z".repeat(3000) }),
  { ...A, approval: 47 },
];

const arbitraryStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("key" as const),
      key: fc.constantFrom<Key>(
        "approve",
        "refuse",
        "approve",
        "down",
        "up",
        "page_down",
        "page_up",
        "together",
      ),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("wait" as const),
      ms: fc.constantFrom(1, 300, 999, 1000, 1001, 2000, 2000, 6000),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("list" as const),
      at: fc.subarray([0, 1, 2, 3, 4, 5]),
      edited: fc.subarray([41, 42, 45]),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "away" as const }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("size" as const),
      size: fc.record({
        columns: fc.constantFrom(20, 30, 40, 80),
        rows: fc.constantFrom(5, 8, 10, 24),
      }),
    }),
  },
  { weight: 6, arbitrary: fc.constant({ kind: "answered" as const }) },
);

/** As an owner does who reads a call to its end, waits about a second and answers; and single steps. */
const arbitrarySteps: fc.Arbitrary<Step[]> = fc.oneof(
  { weight: 4, arbitrary: arbitraryStep.map((step) => [step]) },
  {
    weight: 1,
    arbitrary: fc.record({
      pages: fc.nat(5),
      ms: fc.constantFrom(999, 1000, 1000, 1001),
      key: fc.constantFrom<Key>("approve", "refuse"),
    }).map(({ pages, ms, key }): Step[] => [
      { kind: "list", at: [0, 1, 2, 3, 4, 5], edited: [] },
      ...Array.from({ length: pages }, (): Step => ({ kind: "key", key: "page_down" })),
      { kind: "wait", ms },
      { kind: "key", key },
      { kind: "answered" },
      { kind: "key", key: "down" },
    ]),
  },
);

/**
 * Whether somebody who saw `frames` had the call `approval` before their eyes for a second without a break
 * up to `now`, all of it where `whole`: written without the state's own bookkeeping.
 */
function lookedAt(frames: readonly Seen[], approval: number, whole: boolean, now: number): boolean {
  const last = frames.at(-1)?.shown ?? null;
  if (last === null || last.approval !== approval) return false;
  const other = frames.findLastIndex(({ shown }) =>
    shown === null || shown.approval !== approval || shown.content !== last.content ||
    shown.size !== last.size
  );
  const unbroken = frames.slice(other + 1);
  const first = unbroken[0];
  if (first === undefined || now - first.at < LOOK_MS) return false;
  if (!whole) return true;
  // Each line has to have been there, the last of them to come a second ago.
  return Array.from({ length: last.total }, (_, line) => line).every((line) =>
    unbroken.some(({ at, shown }) =>
      shown !== null && shown.from <= line && line < shown.to && now - at >= LOOK_MS
    )
  );
}

Deno.test(
  "no sequence of keys, lists, sizes and times answers a call that was not looked at for a second",
  pure,
  () => {
    let approved = 0;
    let refused = 0;
    let paged = 0;
    fc.assert(
      fc.property(fc.array(arbitrarySteps, { maxLength: 40, size: "max" }), (parts) => {
        const steps = parts.flat();
        const bench = new Bench();
        const frames: Seen[] = [];
        const look = () => frames.push({ at: bench.now, shown: bench.shown });
        bench.list(CALLS);
        look();
        for (const step of steps) {
          const before = bench.state.answer;
          const seen = frames.length;
          switch (step.kind) {
            case "wait":
              bench.now += step.ms;
              continue;
            case "key":
              bench.key(step.key);
              break;
            case "list": {
              const changes = step.edited.map((approval) =>
                ({ approval, ...SAME, grant: "edited" }) as const
              );
              bench.list(CALLS.filter((_, at) => step.at.includes(at)), changes);
              break;
            }
            case "away":
              bench.take({ kind: "away", lines: ["away"] });
              break;
            case "size":
              bench.size = step.size;
              bench.draw();
              break;
            case "answered":
              if (before === null) continue;
              bench.take({ kind: "answered", line: "" });
              break;
          }
          look();
          const { answer } = bench.state;
          if (answer === null || answer === before) continue;
          assert.ok(step.kind === "key" && step.key === answer.kind, "only its own key answers");
          assert.equal(before, null, "one thing at a time");
          const whole = answer.kind === "approve";
          const eyes = frames.slice(0, seen);
          assert.ok(lookedAt(eyes, answer.approval, whole, bench.now), JSON.stringify(steps));
          if (whole) approved += 1;
          else refused += 1;
          if (whole && answer.approval >= 45 && answer.approval <= 46) paged += 1;
        }
      }),
      { numRuns: 300 },
    );
    assert.ok(approved > 100 && refused > 50, `${approved} approved, ${refused} refused`);
    assert.ok(paged > 20, `${paged} of them on several pages`);
  },
);
