/**
 * Sequences of calls, answers of the owner, grant edits and ends of tools, over several sessions and with
 * calls in flight at once (specification 12, "Property test"). What must hold is looked for in the log
 * and in the state files, not in what the pipeline says of itself.
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import type { AuditEvent } from "../../proto/audit.ts";
import { DATA_CLASSES, type DataClass } from "../../proto/tools.ts";
import { runs } from "../support/long.ts";
import { CONTENT, PipelineBench } from "../support/pipeline.ts";

const RUNS = runs(150, 5_000);
const SESSIONS = ["s1", "s2", "s3"] as const;
const PATHS = ["/n/a", "/k/a", "/x"] as const;

type Command =
  | { readonly do: "call"; readonly session: number; readonly path: number }
  | { readonly do: "approve" | "refuse" | "lose" | "finish" | "fail"; readonly which: number }
  | { readonly do: "wait"; readonly ms: number }
  | { readonly do: "grant"; readonly path: number; readonly mode: number; readonly class: number };

const MODES = ["deny", "ask", "auto", "none"] as const;

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("call" as const), session: fc.nat(2), path: fc.nat(2) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom("approve" as const, "refuse", "lose", "finish", "finish", "fail"),
      which: fc.nat(7),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("wait" as const),
      ms: fc.constantFrom(1, 59_999, 60_000),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("grant" as const),
      path: fc.nat(1),
      mode: fc.nat(3),
      class: fc.nat(2),
    }),
  },
);

/** The taint on disk of each session; `private` where there is no file. */
function taints(bench: PipelineBench): Record<string, DataClass> {
  return Object.fromEntries(
    SESSIONS.map((session) => [session, bench.states.read(session).taint]),
  );
}

function setGrant(bench: PipelineBench, path: string, mode: string, resultClass: DataClass): void {
  const id = path.slice(1);
  if (mode === "none") {
    bench.grant(id, {
      mode: "auto",
      expires: "2020-01-01T00:00:00.000Z",
      constraints: { paths: [path] },
    });
  } else {
    bench.grant(id, { mode, result_class: resultClass, constraints: { paths: [path] } });
  }
}

async function play(commands: readonly Command[]): Promise<void> {
  using bench = new PipelineBench();
  setGrant(bench, "/n", "ask", "private");
  setGrant(bench, "/k", "auto", "secret");
  const answers: Promise<unknown>[] = [];
  let ended = 0;
  const inFlight = () => bench.runtime.started.filter((_, index) => !done.has(index));
  const done = new Set<number>();
  let before = taints(bench);

  for (const step of commands) {
    const startedBefore = bench.runtime.started.length;
    if (step.do === "call") {
      const call = bench.begin(SESSIONS[step.session], PATHS[step.path]);
      answers.push(call.answer);
    } else if (step.do === "wait") {
      bench.now += step.ms;
      bench.pipeline.expire();
    } else if (step.do === "grant") {
      const path = step.path === 0 ? "/n" : "/k";
      setGrant(bench, path, MODES[step.mode] ?? "none", DATA_CLASSES[step.class] ?? "secret");
    } else if (step.do === "finish" || step.do === "fail") {
      const running = inFlight();
      const one = running[step.which % Math.max(1, running.length)];
      if (one === undefined) continue;
      done.add(bench.runtime.started.indexOf(one));
      ended += 1;
      one.end(
        step.do === "finish"
          ? { status: "result", content: CONTENT, truncated: false }
          : { status: "failed", message: "the tool failed" },
      );
    } else {
      const pending = bench.pipeline.pending();
      const one = pending[step.which % Math.max(1, pending.length)];
      if (one === undefined) continue;
      if (step.do === "approve") bench.pipeline.approve(one.approval);
      else if (step.do === "refuse") bench.pipeline.refuse(one.approval, null);
      else bench.pipeline.lost(one.approval);
    }
    // The runtime sees a call only once the log lets it.
    if (bench.runtime.started.length > startedBefore) {
      assert.equal(
        bench.runtime.started.length,
        allowedIn(bench.events()),
        "a run without a record",
      );
    }
    await new Promise((resolve) => setImmediate(resolve));
    const now = taints(bench);
    for (const session of SESSIONS) {
      const rose = DATA_CLASSES.indexOf(now[session] ?? "public") -
        DATA_CLASSES.indexOf(before[session] ?? "public");
      assert(rose >= 0, `the taint of ${session} went down`);
    }
    before = now;
  }

  for (const one of inFlight()) {
    ended += 1;
    one.end({ status: "result", content: CONTENT, truncated: false });
  }
  for (const { approval } of bench.pipeline.pending()) bench.pipeline.lost(approval);
  await Promise.all(answers);

  checkLog(bench.events(), taints(bench));
  assert.equal(ended, bench.runtime.started.length);
  const report = bench.report();
  assert.equal(report.failure, null);
  assert.deepEqual(report.unfinished, []);
}

/** How many calls the log lets run. */
function allowedIn(events: readonly AuditEvent[]): number {
  return events.filter((event) =>
    event.type === "decision" && event.outcome.outcome === "allowed" ||
    event.type === "approval" && event.outcome.outcome !== "denied"
  ).length;
}

/** Every result follows a decision that let it run, once, and says the taint that was on disk then. */
function checkLog(events: readonly AuditEvent[], atEnd: Record<string, DataClass>): void {
  const mayRun = new Map<number, string>();
  const asked = new Map<number, string>();
  const taint = new Map<string, DataClass>(SESSIONS.map((session) => [session, "private"]));
  for (const [seq, event] of events.entries()) {
    switch (event.type) {
      case "decision":
        assert.equal(event.taint, taint.get(event.session), `record ${seq}: the decision's taint`);
        if (event.outcome.outcome === "allowed") mayRun.set(seq, event.call);
        if (event.outcome.outcome === "ask") asked.set(seq, event.call);
        break;
      case "approval":
        assert.equal(asked.get(event.decision), event.call, `record ${seq}: never asked, or twice`);
        asked.delete(event.decision);
        if (event.outcome.outcome !== "denied") mayRun.set(event.decision, event.call);
        break;
      case "result": {
        assert.equal(
          mayRun.get(event.decision),
          event.call,
          `record ${seq}: not let run, or twice`,
        );
        mayRun.delete(event.decision);
        const higher = Math.max(
          DATA_CLASSES.indexOf(event.class),
          DATA_CLASSES.indexOf(taint.get(event.session) ?? "public"),
        );
        assert.equal(event.taint_after, DATA_CLASSES[higher], `record ${seq}: taint_after`);
        taint.set(event.session, event.taint_after);
        break;
      }
      default:
        assert.fail(`record ${seq} is a ${event.type}`);
    }
  }
  assert.deepEqual(Object.fromEntries(taint), atEnd);
}

Deno.test("over any sequence of calls, answers and edits, nothing runs unrecorded and no taint goes down", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { minLength: 5, maxLength: 60 }), play),
    { numRuns: RUNS },
  );
});
