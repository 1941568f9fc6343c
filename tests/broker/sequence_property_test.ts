/**
 * Sequences of calls in several sessions, with tools that run at the same time and end in any order,
 * answers of the owner, clients that go away, edits of the grants, and a disk that fails (specification
 * 12, "Property test"; contracts 3). What must hold is looked for on disk: in the log, and in the state
 * files as they were whenever something was written to the log.
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import type { SessionState } from "../../broker/policy.ts";
import type { RunOutcome } from "../../broker/runner.ts";
import type { AuditEvent, AuditRecord } from "../../proto/audit.ts";
import { sha256 } from "../../proto/ids.ts";
import type { FinalToolResponse, ToolRequest } from "../../proto/messages.ts";
import { utf8 } from "../../proto/text.ts";
import { within } from "../support/broker.ts";
import { DecisionPath, reading, turn } from "../support/decision_path.ts";
import { recordsIn } from "../support/log.ts";
import { runs } from "../support/long.ts";
import { diskFull } from "../support/watched_files.ts";

const RUNS = runs(100, 5_000);
const TTL_MS = 1_000;
const SESSIONS = ["s0", "s1", "s2"] as const;
/** A grant each, but for the last. */
const DIRECTORIES = ["/a", "/b", "/none"] as const;
const ENDS = {
  result: { status: "result", content: "the content", truncated: false },
  failed: { status: "failed", message: "no such file" },
  unavailable: { status: "unavailable", message: "nothing ran" },
} as const satisfies Record<string, RunOutcome>;
const FAULTS = ["write the log", "cut the log short", "create a state", "rename a state"] as const;

type Step =
  | { readonly do: "call"; readonly session: number; readonly directory: number }
  | { readonly do: "approve" | "refuse" | "lose"; readonly which: number }
  | { readonly do: "end"; readonly which: number; readonly how: keyof typeof ENDS | "break" }
  | { readonly do: "turn" }
  | { readonly do: "wait"; readonly ms: number; readonly check: boolean }
  | {
    readonly do: "grant";
    readonly directory: number;
    readonly mode: "auto" | "ask" | "deny" | "none" | "invalid";
    readonly max_taint: SessionState["taint"];
    readonly result_class: SessionState["taint"];
    readonly untrusted: boolean;
  }
  | { readonly do: "fail"; readonly fault: (typeof FAULTS)[number] };

const taint = fc.constantFrom<SessionState["taint"]>("public", "private", "secret");
const is = <T extends string>(word: T) => fc.constant(word);
const STEPS = {
  call: fc.record({
    do: is("call"),
    session: fc.nat(2),
    directory: fc.constantFrom(0, 0, 1, 1, 2),
  }),
  answer: fc.record({
    do: fc.constantFrom("approve" as const, "approve", "refuse", "lose"),
    which: fc.nat(20),
  }),
  end: fc.record({
    do: is("end"),
    which: fc.nat(20),
    how: fc.constantFrom("result" as const, "result", "failed", "unavailable", "break"),
  }),
  turn: fc.record({ do: is("turn") }),
  wait: fc.record({
    do: is("wait"),
    ms: fc.constantFrom(1, TTL_MS - 1, TTL_MS),
    check: fc.boolean(),
  }),
  grant: fc.record({
    do: is("grant"),
    directory: fc.nat(1),
    mode: fc.constantFrom(
      ...(["auto", "auto", "ask", "ask", "deny", "deny", "none", "invalid"] as const),
    ),
    max_taint: fc.oneof(is("secret"), taint),
    result_class: taint,
    untrusted: fc.boolean(),
  }),
  fail: fc.record({ do: is("fail"), fault: fc.constantFrom(...FAULTS, ...FAULTS.slice(2)) }),
} as const;

/** Sequences of steps; with `failing`, the disk fails now and then. */
function sequences(failing: boolean): fc.Arbitrary<Step[]> {
  return fc.array(
    fc.oneof<[fc.MaybeWeightedArbitrary<Step>, ...fc.MaybeWeightedArbitrary<Step>[]]>(
      { weight: 8, arbitrary: STEPS.call },
      { weight: 5, arbitrary: STEPS.answer },
      { weight: 8, arbitrary: STEPS.end },
      { weight: 4, arbitrary: STEPS.turn },
      { weight: 1, arbitrary: STEPS.wait },
      { weight: 3, arbitrary: STEPS.grant },
      { weight: failing ? 3 : 0, arbitrary: STEPS.fail },
    ),
    { minLength: 8, maxLength: 40, size: "max" },
  );
}

type State = SessionState;
type States = Readonly<Record<string, State>>;
const RANK = { public: 0, private: 1, secret: 2 } as const;

/** A call that was begun, and what came of it so far. */
interface Begun {
  readonly request: ToolRequest;
  /** Its approval where the owner was asked, and until when. */
  readonly pending: { readonly approval: number; readonly expires: number } | null;
  readonly answers: (FinalToolResponse | null)[];
  readonly answered: Promise<unknown>;
}

/** One sequence: what happens, and what is looked at after every step. */
class Sequence implements Disposable {
  readonly path = new DecisionPath(TTL_MS);
  readonly calls: Begun[] = [];
  /** The states on disk at the writing of each record, in order. */
  readonly atRecord: States[] = [];
  /** The highest state that the answers to each session's calls have told. */
  readonly told: Record<string, State> = {};
  /** What has happened how often. */
  readonly count: (what: string) => void;

  /** Runs that have not ended, by their place among all. */
  readonly #running: number[] = [];
  /** Approvals that nobody has ended, by the naive account of this test. */
  readonly #waiting = new Set<number>();
  /** What was found wrong as an answer left. */
  readonly #wrong: unknown[] = [];
  #fault: (typeof FAULTS)[number] | null = null;
  #before: States;

  constructor(count: (what: string) => void) {
    this.count = count;
    const { path } = this;
    path.runtime.outcome = null;
    path.grant("g0", { mode: "ask", constraints: { paths: ["/a"] } });
    path.grant("g1", {
      ...{ max_taint: "private", result_class: "secret" },
      constraints: { paths: ["/b"] },
    });
    path.runtime.started = ({ args }) => {
      assert.ok(args.tool === "read_file");
      this.#letRun(args.path.slice(args.path.lastIndexOf("/") + 1));
      this.#running.push(path.runtime.runs.length);
    };
    path.files.fault = ({ what, name }) => this.#failing(what, name);
    this.#before = this.#states();
  }

  /** What is on disk now; a session without a file is fresh. */
  #states(): States {
    const fresh: State = { taint: "private", untrusted: false };
    return Object.fromEntries(
      SESSIONS.map((session) => [session, this.path.stateOf(session) ?? fresh]),
    );
  }

  #failing(what: string, name: string): Error | number | null {
    const log = what === "write" && name.endsWith(".jsonl");
    const fault = this.#fault;
    const fails = (one: (typeof FAULTS)[number], now: boolean) => {
      if (fault !== one || !now) return false;
      this.#fault = null;
      this.count(one);
      return true;
    };
    if (fails("write the log", log)) return diskFull();
    if (fails("cut the log short", log)) return 40;
    if (fails("create a state", what === "create")) return diskFull();
    if (fails("rename a state", what === "rename")) return diskFull();
    if (log) this.atRecord.push(this.#states());
    return null;
  }

  /** The runtime is handed a call: the log on disk must let it run already. */
  #letRun(call: string): void {
    const last = this.path.eventsOf(call).at(-1);
    assert.ok(last?.type === "decision" || last?.type === "approval", `${call} has no record`);
    const { outcome } = last.outcome;
    const may = outcome === "allowed" || (last.type === "approval" && outcome === "ask");
    assert.ok(may, `${call} runs after ${JSON.stringify(last)}`);
    this.count("run");
    if (this.#running.length > 0) this.count("run beside another");
  }

  async take(step: Step): Promise<void> {
    const { path } = this;
    switch (step.do) {
      case "call": {
        const session = SESSIONS[step.session] ?? "s0";
        const call = `c${this.calls.length}`;
        this.#begin(reading(session, call, `${DIRECTORIES[step.directory]}/${call}`));
        break;
      }
      case "approve":
      case "refuse":
      case "lose":
        this.#answer(step.do, step.which);
        break;
      case "end": {
        if (this.#running.length === 0) break;
        const [at = -1] = this.#running.splice(step.which % this.#running.length, 1);
        const run = path.runtime.runs[at];
        if (step.how === "break") run?.fail(new Error("broken"));
        else run?.end(ENDS[step.how]);
        this.count(step.how);
        break;
      }
      case "turn":
        await turn();
        break;
      case "wait":
        path.now += step.ms;
        if (step.check) path.pipeline.expire();
        break;
      case "grant": {
        const { mode, max_taint, result_class, untrusted, directory } = step;
        const constraints = { paths: [mode === "none" ? "/other" : DIRECTORIES[directory] ?? "/"] };
        const written = { none: "auto", invalid: "allow" }[String(mode)] ?? mode;
        const fields = { mode: written, max_taint, result_class, untrusted, constraints };
        path.grant(`g${directory}`, fields);
        break;
      }
      case "fail":
        this.#fault = step.fault;
        break;
    }
    this.#look();
  }

  #begin(request: ToolRequest): void {
    const { pending, answer } = this.path.pipeline.begin(request);
    const answers: (FinalToolResponse | null)[] = [];
    const answered = answer.then((one) => {
      answers.push(one);
      this.#answered(request, one);
    }).catch((error) => void this.#wrong.push(error));
    const expires = pending === null ? 0 : Date.parse(pending.expires);
    if (pending !== null) this.#waiting.add(pending.approval);
    this.calls.push({
      request,
      pending: pending === null ? null : { approval: pending.approval, expires },
      answers,
      answered,
    });
    const [decision] = this.path.eventsOf(request.call);
    if (decision?.type !== "decision") return;
    const told = this.told[request.session];
    if (told === undefined) return;
    assert.ok(
      RANK[decision.taint] >= RANK[told.taint],
      `${request.call} was decided without ${told.taint}`,
    );
    assert.ok(decision.untrusted || !told.untrusted, `${request.call} was decided as trusted`);
    this.count("decision after an answer");
  }

  /** An answer has left: what it tells is on disk, and its record too. */
  #answered({ session, call }: ToolRequest, answer: FinalToolResponse | null): void {
    this.count(
      answer === null ? "lost" : answer.status === "denied" ? answer.reason : answer.status,
    );
    if (answer?.status !== "result") return;
    const disk = this.#states()[session];
    assert.ok(disk !== undefined && RANK[disk.taint] >= RANK[answer.class], "the taint is on disk");
    assert.ok(disk.untrusted || !answer.untrusted, "the flag is on disk");
    const recorded = this.path.eventsOf(call).some(({ type }) => type === "result");
    assert.ok(recorded, "the result is on disk");
    this.told[session] = disk;
  }

  /** Ends an approval as the owner or its client would, now and then one that has ended long ago. */
  #answer(how: "approve" | "refuse" | "lose", which: number): void {
    const ever = this.calls.flatMap(({ pending }) => pending ?? []);
    const waiting = ever.filter(({ approval }) => this.#waiting.has(approval));
    const asked = which % 4 === 0 ? ever : waiting;
    const one = asked[which % Math.max(1, asked.length)];
    if (one === undefined) return;
    const waits = this.#waiting.has(one.approval) && this.path.now < one.expires;
    this.#waiting.delete(one.approval);
    const { pipeline } = this.path;
    if (how === "lose") return pipeline.lost(one.approval);
    const got = how === "approve"
      ? pipeline.approve(one.approval)
      : pipeline.refuse(one.approval, null);
    assert.equal(
      got !== "no_such_approval",
      waits,
      `${how} ${one.approval}: ${JSON.stringify(got)}`,
    );
    this.count(waits ? how : "too late");
  }

  /** What must hold after every step. */
  #look(): void {
    for (const error of this.#wrong) throw error;
    const now = this.#states();
    for (const session of SESSIONS) {
      const [before, after] = [this.#before[session], now[session]];
      assert.ok(before !== undefined && after !== undefined);
      assert.ok(RANK[after.taint] >= RANK[before.taint], `the taint of ${session} went down`);
      assert.ok(after.untrusted || !before.untrusted, `the flag of ${session} went down`);
      if (after.taint !== before.taint) this.count("taint rose");
    }
    this.#before = now;
  }

  /** Ends all that is open, and holds the log against what was seen. */
  async finish(): Promise<void> {
    const { path } = this;
    this.#fault = null;
    for (const at of this.#running.splice(0)) path.runtime.runs[at]?.end(ENDS.result);
    path.now += TTL_MS;
    path.pipeline.expire();
    await within("answer to each call", Promise.all(this.calls.map(({ answered }) => answered)));
    await turn();
    this.#look();
    path.files.fault = () => null;
    path.restart();

    const report = path.report();
    assert.equal(report.failure, null);
    assert.equal(report.torn_tail, null);
    const records = recordsIn(path.audit);
    this.#replay(records.slice(0, this.atRecord.length));
    for (const call of this.calls) {
      assert.equal(call.answers.length, 1, `${call.request.call} has one answer`);
      checkAnswer(call, records);
    }
  }

  /** Every record follows what lets it stand there, and tells the state that was on disk. */
  #replay(records: readonly AuditRecord[]): void {
    /** What may follow on each decision. */
    const open = new Map<number, { readonly call: string; readonly may: "approval" | "result" }>();
    for (const [at, { seq, event }] of records.entries()) {
      if (event.type === "recovery") continue;
      assert.ok(event.type !== "accepted_break");
      const disk = this.atRecord[at]?.[event.session];
      const { call } = event;
      if (event.type === "decision") {
        const { outcome: { outcome }, taint, untrusted } = event;
        assert.deepEqual({ taint, untrusted }, disk, `record ${seq}: the state decided on`);
        if (outcome === "allowed") open.set(seq, { call, may: "result" });
        if (outcome === "ask") open.set(seq, { call, may: "approval" });
        continue;
      }
      assert.deepEqual(open.get(event.decision), { call, may: event.type }, `record ${seq}`);
      open.delete(event.decision);
      if (event.type === "result") assert.equal(event.taint_after, disk?.taint, `record ${seq}`);
      else if (event.outcome.outcome !== "denied") {
        open.set(event.decision, { call, may: "result" });
      }
    }
  }

  [Symbol.dispose](): void {
    this.path[Symbol.dispose]();
  }
}

/** Holds the one answer of a call against its records. */
function checkAnswer(
  { request: { call }, pending, answers: [answer] }: Begun,
  log: AuditRecord[],
): void {
  const own = log.map(({ event }) => event).filter((event) =>
    "call" in event && event.call === call
  );
  const [decision, ...after] = own;
  const approval = after.find((event) => event.type === "approval");
  const result = after.find((event) => event.type === "result");
  const what = `${call}: ${JSON.stringify(answer)} after ${JSON.stringify(own)}`;
  const is = (expected: FinalToolResponse | null) => assert.deepEqual(answer, expected, what);
  const unrecorded = { status: "denied", reason: "audit_unavailable" } as const;

  if (decision === undefined) return is(unrecorded);
  assert.ok(decision.type === "decision", what);
  if (decision.outcome.outcome === "denied") {
    return is({ status: "denied", reason: decision.outcome.reason });
  }
  if (decision.outcome.outcome === "ask") {
    assert.notEqual(pending, null, what);
    // Nothing was written: it was lost, or the record of its end could not be.
    if (approval === undefined) return is(answer === null ? null : unrecorded);
    const { outcome } = approval.outcome;
    assert.equal(approval.answer === "approved" || outcome === "denied", true, what);
    if (approval.outcome.outcome === "denied") {
      return is({ status: "denied", reason: approval.outcome.reason });
    }
  } else {
    assert.equal(pending, null, what);
  }
  if (result === undefined) {
    return is({ status: "failed", message: "the result could not be recorded" });
  }
  checkResult(answer ?? null, result, what);
}

function checkResult(
  answer: FinalToolResponse | null,
  record: Extract<AuditEvent, { type: "result" }>,
  what: string,
): void {
  assert.ok(answer !== null && answer.status === record.status, what);
  const text = answer.status === "result" ? answer.content : answer.message;
  assert.equal(record.sha256, sha256(utf8(text)), what);
  if (answer.status !== "result") return;
  const { class: own, untrusted, truncated } = answer;
  const { class: recorded, untrusted: flag, truncated: cut } = record;
  assert.deepEqual([own, untrusted, truncated], [recorded, flag, cut], what);
}

/** Plays `RUNS` sequences, and asserts that each of `must` has happened often. */
async function playMany(failing: boolean, must: readonly string[]): Promise<void> {
  const counts = new Map<string, number>();
  const count = (what: string) => counts.set(what, (counts.get(what) ?? 0) + 1);
  await fc.assert(
    fc.asyncProperty(sequences(failing), async (steps) => {
      using sequence = new Sequence(count);
      for (const step of steps) await sequence.take(step);
      await sequence.finish();
    }),
    { numRuns: RUNS },
  );
  for (const what of must) {
    const often = counts.get(what) ?? 0;
    assert.ok(often >= RUNS / 50, `${what} happened only ${often} times in ${RUNS} sequences`);
  }
}

const HAPPENS = [
  ...["run", "run beside another", "taint rose", "decision after an answer"],
  ...["approve", "refuse", "lost", "too late", "approval_refused", "approval_expired"],
  ...["result", "failed", "unavailable", "break", "no_grant", "denied_by_grant", "taint_too_high"],
  ...["grants_invalid"],
];

Deno.test("over any sequence: nothing runs unrecorded, no taint goes down, the log verifies", async () => {
  await playMany(false, HAPPENS);
});

Deno.test("over any sequence on a disk that fails: the same, and no answer tells what is not on disk", async () => {
  await playMany(true, [...HAPPENS, ...FAULTS, "audit_unavailable"]);
});
