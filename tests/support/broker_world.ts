/**
 * The real broker on a disk that loses things, beside what a naive account of it says must be (see
 * `tests/broker/model_test.ts`). One step after another is taken, and after each it is looked whether
 * what left the broker is where no crash can take it away.
 */
import assert from "node:assert/strict";
import type { Pipeline } from "../../broker/pipeline.ts";
import type { FinalToolResponse } from "../../proto/messages.ts";
import { utf8 } from "../../proto/text.ts";
import { type Arm, ArmedFault, isIn, type Place } from "./armed_fault.ts";
import {
  checkDecision,
  checkDenied,
  checkOrder,
  checkOutcome,
  checkRan,
  ENDS,
  letsRun,
  type Open,
  seenOf,
} from "./broker_calls.ts";
import {
  covers,
  type Expected,
  expected,
  FRESH,
  join,
  type Seen,
  seenIn,
  type Session,
  SESSIONS,
  type Slot,
  SLOT_COUNT,
  slotFile,
  slotText,
  type State,
  TARGETS,
  type Terms,
} from "./broker_model.ts";
import { type Run, turn } from "./decision_path.ts";
import { AUDIT, GRANTS, newDisk, startOn, STATES, TTL_MS } from "./losing_broker.ts";
import type { LosingFiles, Pick } from "./losing_files.ts";
import { SettledLog, unsettled, verifyLog } from "./settled_log.ts";
import type { Operation } from "./watched_files.ts";

/** When the world begins, in milliseconds since 1970: two minutes before midnight. */
export const START = Date.parse("2026-12-01T23:58:00.000Z");
const MAX_PENDING_OF_SESSION = 16;
const UNRECORDED = "the result could not be recorded";

export class World {
  /** Milliseconds since 1970. */
  now = START;
  readonly slots: Slot[];
  readonly states: Record<Session, State>;
  /** Calls without an answer, by id. */
  readonly open = new Map<string, Open>();
  /** Every approval of this process. */
  readonly asked: Open[] = [];
  /** What has happened how often. */
  readonly count: (what: string) => void;

  #files = newDisk();
  #log = new SettledLog(AUDIT);
  #pipeline: Pipeline;
  readonly #running = new Map<string, Run>();
  #calls = 0;
  #armed: ArmedFault | null = null;
  /** The operations that failed in this step. */
  #fired: Operation[] = [];
  /** What the machine loses when it ends by what was armed. */
  #loss: Pick | null = null;
  /** How many records there were when a sync of the log failed: until a restart there are no more. */
  #lost: number | null = null;
  /** What was found wrong as an answer left or a run began. */
  readonly #wrong: unknown[] = [];

  constructor(slots: readonly Slot[], count: (what: string) => void) {
    this.slots = [...slots];
    this.count = count;
    const fresh = (): State => ({ now: FRESH, floor: FRESH, reach: FRESH, damaged: false });
    this.states = { s0: fresh(), s1: fresh() };
    for (let slot = 0; slot < SLOT_COUNT; slot += 1) {
      this.setSlot(slot, this.slots[slot] ?? "absent");
    }
    this.#pipeline = this.#boot(null, null);
  }

  // What others do. ------------------------------------------------------------------------------

  setSlot(slot: number, state: Slot): void {
    this.slots[slot] = state;
    const text = slotText(slot, state);
    this.#files.put(`${GRANTS}/${slotFile(slot)}`, text === null ? null : utf8(text));
  }

  damage(session: Session): void {
    this.states[session].damaged = true;
    this.#files.put(this.#statePath(session), utf8("{"));
  }

  /** Whether a state or a grant is damaged. */
  get needsMending(): boolean {
    return SESSIONS.some((session) => this.states[session].damaged) ||
      this.slots.includes("invalid");
  }

  /** Puts back the states that were there before, and takes the invalid grants away. */
  mend(): void {
    for (const session of SESSIONS) {
      const state = this.states[session];
      if (!state.damaged) continue;
      state.damaged = false;
      this.#files.put(this.#statePath(session), utf8(JSON.stringify(state.now)));
    }
    for (const [slot, state] of this.slots.entries()) {
      if (state === "invalid") this.setSlot(slot, "absent");
    }
  }

  /** From now on, one of the next operations goes wrong. */
  arm(arm: Arm): void {
    this.#armed = new ArmedFault(arm);
  }

  // What clients, tools and the owner do. ----------------------------------------------------------

  begin(session: Session, target: number): void {
    const { tool = "", arguments: args = "" } = TARGETS[target] ?? {};
    const request = { session, call: `c${this.#calls += 1}`, tool, arguments: args };
    const call: Open = {
      ...{ request, session, target },
      ...{ phase: "running", approval: null, ended: null, terms: null, how: null },
    };
    this.open.set(request.call, call);
    const expects = this.#expected(call);
    const waiting = [...this.open.values()]
      .filter((one) => one.phase === "waiting" && one.session === session).length;
    const { pending, answer } = this.#pipeline.begin(request);
    this.#hear(call, answer);
    if (this.#files.stopped) return;
    const decision = this.#decided(call, expects);
    if (decision === null) return assert.equal(pending, null, "asked unrecorded");
    call.terms = expects.terms;
    const asks = decision === "ask" && waiting < MAX_PENDING_OF_SESSION;
    assert.equal(
      pending !== null,
      asks,
      `${decision}, and the owner is ${pending ? "" : "not "}asked`,
    );
    if (pending === null) return;
    const seq = this.#log.of(request.call).at(0)?.seq;
    assert.equal(pending.approval, seq, "the approval is the seq of the decision");
    const ttlEnd = this.now + TTL_MS;
    const expires = Math.min(ttlEnd, call.terms?.expires ?? ttlEnd);
    assert.equal(Date.parse(pending.expires), expires, "expires");
    call.phase = "waiting";
    call.approval = { id: pending.approval, expires };
    this.asked.push(call);
  }

  /** Calls whose tool runs. */
  get running(): string[] {
    return [...this.#running.keys()];
  }

  end(id: string, how: keyof typeof ENDS): void {
    const run = this.#running.get(id);
    const call = this.open.get(id);
    if (run === undefined || call === undefined) return;
    this.#running.delete(id);
    call.how = how;
    const outcome = ENDS[how];
    const state = this.states[call.session];
    state.reach = join(state.reach, seenOf(call));
    if (outcome === null) run.fail(new Error("broken"));
    else run.end(outcome);
  }

  approve(call: Open): void {
    const waits = this.#isWaiting(call);
    const expects = this.#expected(call);
    const got = this.#pipeline.approve(call.approval?.id ?? -1);
    if (this.#files.stopped) return;
    assert.equal(got !== "no_such_approval", waits, `approve: ${JSON.stringify(got)}`);
    if (got === "no_such_approval") return this.count("too late");
    call.ended = "approved";
    this.#log.read(this.#files);
    const record = this.#log.event(call.request.call, "approval");
    if (got.outcome === "denied" && got.reason === "audit_unavailable") {
      return this.#excused("audit", "an approval was not recorded");
    }
    assert.equal(record?.answer, "approved");
    assert.deepEqual(record?.outcome, got, "the re-decision is recorded");
    checkOutcome(got, expects, (place) => this.#hasExcuse(place));
    call.terms = expects.terms;
    if (got.outcome !== "denied") call.phase = "running";
    this.count("approved");
  }

  refuse(call: Open): void {
    const waits = this.#isWaiting(call);
    const got = this.#pipeline.refuse(call.approval?.id ?? -1, "no");
    if (this.#files.stopped) return;
    assert.equal(got !== "no_such_approval", waits, `refuse: ${got}`);
    if (got === "no_such_approval") return this.count("too late");
    call.ended = "refused";
    if (got === "audit_unavailable") return this.#excused("audit", "a refusal was not recorded");
    this.#log.read(this.#files);
    assert.equal(this.#log.event(call.request.call, "approval")?.answer, "refused");
  }

  lose(call: Open): void {
    if (this.#isWaiting(call)) call.ended = "lost";
    this.#pipeline.lost(call.approval?.id ?? -1);
  }

  expire(): void {
    this.#pipeline.expire();
  }

  // What is looked at. -------------------------------------------------------------------------------

  /** Takes a step, and whatever waits for nothing after it; then looks. */
  async take(step: () => void): Promise<void> {
    this.#fired = [];
    try {
      step();
    } catch (error) {
      // Whatever a process does as it ends is nobody's to see.
      if (!this.#files.stopped || error instanceof assert.AssertionError) throw error;
    }
    await turn();
    for (const error of this.#wrong) throw error;
    if (this.#files.stopped) this.restart(this.#loss, null);
    this.#look();
  }

  /** Ends the process, with the machine where `loss` says what that loses, and starts the next one. */
  restart(loss: Pick | null, arm: Arm | null): void {
    this.count(loss === null ? "killed" : "crashed");
    this.#log.read(this.#files);
    this.#pipeline = this.#boot(loss, arm);
  }

  /** Gives every cause of a denial up, and shows that the broker works and has forgotten nothing. */
  async finish(loss: Pick): Promise<void> {
    await this.take(() => this.restart(loss, null));
    const terms: Terms = {
      ...{ mode: "auto", max_taint: "secret", result_class: "secret" },
      ...{ untrusted: true, expires: null },
    };
    await this.take(() => {
      for (let slot = 0; slot < SLOT_COUNT; slot += 1) this.setSlot(slot, terms);
      this.mend();
    });
    await this.take(() => this.begin("s0", 0));
    const [id = ""] = this.running;
    await this.take(() => this.end(id, "result"));
    assert.equal(this.open.size, 0, "the call is answered");
    await this.take(() => this.restart((count) => count - 1, null));
    assert.deepEqual(this.states.s0.now, { taint: "secret", untrusted: true });
  }

  #statePath(session: Session): string {
    return `${STATES}/${session}.json`;
  }

  /** What stands in a session's file. */
  #seen(session: Session): Seen {
    return seenIn(this.#files.content(this.#statePath(session)));
  }

  #expected({ session, target }: Open): Expected {
    const { now, damaged } = this.states[session];
    return expected(this.slots, damaged ? null : now, target, this.now);
  }

  #isWaiting({ request, phase, approval }: Open): boolean {
    return this.open.has(request.call) && phase === "waiting" &&
      this.now < (approval?.expires ?? 0);
  }

  /** Something in this directory failed in this step, or the log has been lost. */
  #hasExcuse(place: Place): boolean {
    return this.#fired.some((operation) => isIn(place, operation)) ||
      (place === "audit" && this.#lost !== null);
  }

  #excused(place: Place, what: string): void {
    assert.ok(this.#hasExcuse(place), `${what}, and nothing failed in ${place}`);
    this.count(`excused: ${place}`);
  }

  /** Holds the decision on the disk against the naive account; null where it could not be recorded. */
  #decided(call: Open, expects: Expected): "allowed" | "ask" | "denied" | null {
    this.#log.read(this.#files);
    const decision = this.#log.event(call.request.call, "decision");
    if (decision === undefined) {
      this.#excused("audit", "a decision was not recorded");
      return null;
    }
    const { outcome } = decision;
    checkOutcome(outcome, expects, (place) => this.#hasExcuse(place));
    const { now, damaged } = this.states[call.session];
    const seen: Seen = damaged ? { taint: "secret", untrusted: true } : now;
    if (this.#fired.length === 0) checkDecision(call.request, decision, expects, seen);
    this.count(outcome.outcome === "denied" ? outcome.reason : outcome.outcome);
    return outcome.outcome;
  }

  /** Hears the answer of a call, unless its broker has ended before. */
  #hear(call: Open, answer: Promise<FinalToolResponse | null>): void {
    const files = this.#files;
    const hear = (one: FinalToolResponse | null) => {
      if (files.stopped) return;
      this.open.delete(call.request.call);
      this.#running.delete(call.request.call);
      this.#log.read(files);
      this.#answered(call, one);
    };
    answer.then(hear).catch((error) => void this.#wrong.push(error));
  }

  /** An answer has left: what it says is where no crash can take it away. */
  #answered(call: Open, answer: FinalToolResponse | null): void {
    const id = call.request.call;
    this.count(`answer: ${answer?.status ?? "lost"}`);
    if (answer === null) return assert.equal(call.ended, "lost");
    switch (answer.status) {
      case "denied": {
        const { reason } = answer;
        if (reason === "audit_unavailable") return this.#excused("audit", "denied unrecorded");
        if (reason === "approval_expired") this.count("expired");
        return checkDenied(call, this.#log, this.now, reason);
      }
      case "failed":
        if (answer.message === UNRECORDED) return this.#isUnrecorded(call);
        if (call.how === null) {
          assert.equal(answer.message, "too many approvals are pending");
          return assert.deepEqual(this.#log.event(id, "decision")?.outcome, { outcome: "ask" });
        }
        break;
      case "result":
        break;
    }
    const result = checkRan(call, this.#log, answer);
    this.#hold(call.session, { taint: result.taint_after, untrusted: result.untrusted });
    this.#hold(call.session, seenOf(call));
  }

  /** From now on, no crash takes the state of a session below that; not now either. */
  #hold(session: Session, seen: Seen): void {
    const state = this.states[session];
    state.floor = join(state.floor, seen);
    if (state.damaged) return;
    for (const left of this.#files.survivors(this.#statePath(session)).map(seenIn)) {
      assert.ok(
        covers(left, state.floor),
        `${session} may come back as ${JSON.stringify(left)}, and ${JSON.stringify(seen)} was told`,
      );
    }
  }

  #isUnrecorded({ session }: Open): void {
    if (this.states[session].damaged || this.#hasExcuse("sessions")) {
      return this.count("not raised");
    }
    this.#excused("audit", "a result was not recorded");
  }

  /** A run begins: what lets it is where no crash can take it away. */
  #letRun(files: LosingFiles, run: Run): void {
    if (files.stopped) return;
    this.#log.read(files);
    const calls = [...this.open.values()].filter(({ request }) => !this.#running.has(request.call));
    // The one whose last record has just been written.
    const last = this.#log.settled.at(-1)?.record;
    const call = calls.find(({ request }) => this.#log.of(request.call).at(-1) === last);
    assert.ok(call !== undefined && last !== undefined, "something runs unrecorded");
    assert.ok(letsRun(last.event), `runs after ${JSON.stringify(last.event)}`);
    this.#running.set(call.request.call, run);
    this.count("run");
  }

  #fault(files: LosingFiles, operation: Operation): Error | number | null {
    if (operation.what === "write" && operation.name === `${AUDIT}/head.json`) {
      // All that it will speak of is where no crash can take it away.
      const left = unsettled(files, AUDIT);
      if (left.length > 0) this.#wrong.push(new Error(`head.json may lead ${left.join(" ")}`));
    }
    const action = files === this.#files ? this.#armed?.at(operation) ?? null : null;
    if (action === null) return null;
    this.#armed = null;
    if (action.do === "end") {
      this.#loss = action.loss;
      this.count("ended within a step");
      files.stop();
      return null;
    }
    this.#fired.push(operation);
    this.count(`fault: ${operation.what}`);
    const isOfLog = operation.name.endsWith(".jsonl") || operation.name === AUDIT;
    if (isOfLog && operation.what.startsWith("sync")) {
      this.#log.read(files);
      this.#lost = this.#log.settled.length;
    }
    return action.do === "cut"
      ? action.bytes
      : Object.assign(new Error(action.code), { code: action.code });
  }

  /** A process over what the last one left. It must start, unless a fault stops it: then the next one. */
  #boot(loss: Pick | null, arm: Arm | null): Pipeline {
    this.#files = loss === null ? this.#files.killed() : this.#files.crashed(loss);
    const files = this.#files;
    this.#armed = arm === null ? null : new ArmedFault(arm);
    this.#fired = [];
    this.#lost = null;
    this.#loss = null;
    for (const left of [this.open, this.#running]) left.clear();
    this.asked.splice(0);
    files.fault = (operation) => this.#fault(files, operation);
    const broker = this.#start(files);
    if (files.stopped) return this.#boot(this.#loss, null);
    if (broker?.started.status !== "open") {
      assert.ok(this.#fired.length > 0, `did not start: ${JSON.stringify(broker?.started)}`);
      this.count("start refused");
      return this.#boot(null, null);
    }
    this.#survived();
    return broker.pipeline;
  }

  #start(files: LosingFiles): ReturnType<typeof startOn> | null {
    const begun = (run: Run) => {
      try {
        this.#letRun(files, run);
      } catch (error) {
        this.#wrong.push(error);
      }
    };
    try {
      return startOn(files, () => this.now, begun);
    } catch (error) {
      if (this.#fired.length > 0 || files.stopped) return null;
      throw error;
    }
  }

  /** After a start: everything that was settled before is there, the log verifies, and no taint went down. */
  #survived(): void {
    const before = this.#log.settled;
    this.#log = new SettledLog(AUDIT);
    this.#log.read(this.#files);
    const after = this.#log.settled;
    for (const [at, { hash, record }] of before.entries()) {
      assert.equal(after[at]?.hash, hash, `record ${record.seq} did not survive`);
    }
    const report = verifyLog(this.#files, AUDIT);
    assert.deepEqual([report.failure, report.torn_tail], [null, null]);
    assert.equal(report.records, after.length, "all that is trusted is synced");
    if (report.recoveries.length > 0) this.count("recovered");
    checkOrder(after.map(({ record }) => record));
    for (const session of SESSIONS) {
      const state = this.states[session];
      for (const { record: { event } } of after) {
        if (event.type !== "result" || event.session !== session) continue;
        state.floor = join(state.floor, { taint: event.taint_after, untrusted: event.untrusted });
      }
      if (state.damaged) continue;
      const seen = this.#seen(session);
      assert.ok(covers(seen, state.floor), `${session} came back as ${JSON.stringify(seen)}`);
      assert.ok(covers(state.reach, seen), `${session} came back as ${JSON.stringify(seen)}`);
      if (!covers(seen, state.now)) this.count("a state that nobody was told of went down");
      state.now = seen;
    }
  }

  /** What must hold after every step. */
  #look(): void {
    this.#log.read(this.#files);
    if (this.#lost !== null) {
      assert.equal(this.#log.settled.length, this.#lost, "recorded when lost");
    }
    for (const session of SESSIONS) {
      const state = this.states[session];
      if (state.damaged) continue;
      const seen = this.#seen(session);
      assert.ok(covers(seen, state.now), `${session} went down to ${JSON.stringify(seen)}`);
      assert.ok(covers(state.reach, seen), `${session} went up to ${JSON.stringify(seen)}`);
      state.now = seen;
    }
  }
}
