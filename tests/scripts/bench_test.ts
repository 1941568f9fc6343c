/**
 * The bench measures, and nothing costs far more than it should: the ratios of a quick run, each with twice
 * its target for a margin. Ratios within one run, so that a slow or busy machine is slow on both sides.
 */
import assert from "node:assert/strict";
import { verifyLog } from "../../ctl/audit_files.ts";
import { type Figure, figure } from "../../scripts/bench/figures.ts";
import { writeLog } from "../../scripts/bench/log.ts";
import { Logs, QUICK, type Row, ROWS } from "../../scripts/bench/rows.ts";
import { line, within } from "../../scripts/bench/table.ts";
import { onPath } from "../../scripts/support/podman.ts";
import { runScript, TempDir } from "../support/scripts.ts";

const MARGIN = 2;

/**
 * Ratios that have been reached where the target is not: docs/performance.md says what stands in the way.
 * There the margin is about these.
 */
const REACHED: Readonly<Record<string, number>> = {
  "denied call: round trip": 2.3,
  "denied calls, 32 clients at once: appends and syncs": 0.2,
  "audit verify, 50010 records, less the start: sha256sum": 3.5,
  "audit verify, 50010 records, less the start: journalctl": 0.6,
  "grants replay, 20000 denied calls, a record each: audit verify": 3.5,
};

/** The figure with what has been reached in place of its target, where that is all there is. */
function asReached(figure: Figure): Figure {
  const { name, baseline, target } = figure;
  const [, ratio] =
    Object.entries(REACHED).find(([known]) => `${name}: ${baseline}`.startsWith(known)) ?? [];
  if (ratio === undefined || target === undefined) return figure;
  return { ...figure, target: "atMost" in target ? { atMost: ratio } : { atLeast: ratio } };
}

const isOver = (figure: Figure) => !within(asReached(figure), MARGIN);

async function measure({ measure }: Row, logs: Logs): Promise<Figure[]> {
  const figures = await measure(QUICK, logs);
  for (const figure of figures) console.log(line(figure));
  return figures;
}

Deno.test("nothing costs more than twice what it should", async () => {
  using logs = new Logs();
  const over: string[] = [];
  const seen: string[] = [];
  // What is measured for people only has no targets; without podman there are no containers.
  const unheld = ["beside", "start-idle", ...onPath("podman") === null ? ["containers"] : []];
  for (const row of ROWS.filter(({ name }) => !unheld.includes(name))) {
    let figures = await measure(row, logs);
    // The machine may have been busy on one side only. What is really slower is so each time.
    for (let again = 0; again < 2 && figures.some(isOver); again += 1) {
      figures = await measure(row, logs);
    }
    assert(figures.some(({ target }) => target !== undefined), `${row.name} has a target`);
    seen.push(...figures.map(({ name, baseline }) => `${name}: ${baseline}`));
    over.push(...figures.filter(isOver).map(line));
  }
  assert.deepEqual(over, []);
  for (const known of Object.keys(REACHED).filter((known) => !known.includes("journalctl"))) {
    assert(seen.some((name) => name.startsWith(known)), `${known} is a figure`);
  }
});

Deno.test(
  "a figure is held to its target, from the side that it has",
  { permissions: "none" },
  () => {
    const of = (median: number, target?: Figure["target"]) =>
      figure("it", "ms", { median, low: 1, high: 9 }, "that", 2, target);
    assert(within(of(4, { atMost: 2 })));
    assert(!within(of(4.2, { atMost: 2 })));
    assert(within(of(8, { atMost: 2 }), 2));
    assert(!within(of(8.2, { atMost: 2 }), 2));
    assert(within(of(4, { atLeast: 2 })));
    assert(!within(of(3.8, { atLeast: 2 })));
    assert(within(of(2, { atLeast: 2 }), 2));
    assert(!within(of(1.8, { atLeast: 2 }), 2));
    assert(within(of(1e9)), "without a target nothing is held to any");
    assert.equal(line(of(4)), "it: 4.00 ms [1.00 to 9.00], 2.00 x that (2.00 ms)");
    assert(line(of(4, { atMost: 2 })).endsWith(": within at most 2"));
    assert(line(of(5, { atMost: 2 })).endsWith(": MISSES at most 2"));
  },
);

Deno.test("the log of the bench is whole, in as many files and records as asked for", () => {
  using place = new TempDir();
  const files = writeLog(`${place.path}/audit`, [30, 21, 7]);
  assert.deepEqual(files.map((path) => path.split("/").at(-1)), [
    "2025-01-01.jsonl",
    "2025-01-02.jsonl",
    "2025-01-03.jsonl",
  ]);
  const report = verifyLog(`${place.path}/audit`, null);
  assert.deepEqual([report.failure, report.records, report.unfinished], [null, 58, []]);
});

Deno.test("one row is measured by its name or its group's, and answers in JSON", async () => {
  for (const [only, count] of [["decide", 2], ["grants", 3]] as const) {
    const { code, stdout } = await runScript("bench.ts", ["--quick", "--only", only, "--json"]);
    assert.equal(code, 0);
    const figures: Figure[] = JSON.parse(stdout);
    assert.equal(figures.length, count);
    for (const { name, ratio, measured, least } of figures) {
      assert.equal(ratio, measured.median / least, name);
    }
  }
});

Deno.test("what is no row and no number is wrong usage", async () => {
  for (const args of [["--only", "x"], ["--records", "1e6"], ["--calls", "10"], ["--fast"]]) {
    const { code, stdout } = await runScript("bench.ts", args);
    assert.deepEqual([code, stdout], [2, ""], args.join(" "));
  }
});
