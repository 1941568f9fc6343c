/**
 * What a report says of a log: counts over all calls, and the latest calls themselves. Memory grows with
 * the number of sessions and grants, some hundred bytes each, and not with that of calls. Pure.
 */
import type { ApprovalAnswer } from "../proto/audit.ts";
import type { DenyReason } from "../proto/decisions.ts";
import type { Timestamp } from "../proto/ids.ts";
import { type DataClass, isAbove } from "../proto/tools.ts";
import { type Call, type CallOutcome, outcomeOf } from "./audit_calls.ts";

/** The calls of so many sessions are kept, those that were active last, and of each so many. */
export const SESSIONS_WITH_CALLS = 50;
export const CALLS_OF_SESSION = 200;
/** So many rises of taint are kept, the latest. */
export const RISES_KEPT = 500;

export interface SessionSummary {
  readonly session: string;
  first: Timestamp;
  last: Timestamp;
  calls: number;
  readonly outcomes: Map<CallOutcome, number>;
  /** The highest so far. */
  taint: DataClass;
}

/** A call after which, or at whose decision, a session's taint was higher than before. */
export interface Rise {
  readonly call: Call;
  readonly from: DataClass;
  readonly to: DataClass;
}

/** How long the answers took, in milliseconds. */
export interface Waits {
  count: number;
  total: number;
  shortest: number;
  longest: number;
}

export class AuditSummary {
  calls = 0;
  readonly denials = new Map<DenyReason, number>();
  readonly waits = new Map<ApprovalAnswer, Waits>();
  /** How many calls each grant decided. */
  readonly grants = new Map<string, number>();
  /** The one that was active last comes last. */
  readonly sessions = new Map<string, SessionSummary>();
  readonly rises: Rise[] = [];
  /** All of them, those that are not kept too. */
  riseCount = 0;
  readonly #recent = new Map<string, Call[]>();

  /** Counts `call`, which has ended or never will. */
  add(call: Call): void {
    const { outcome, reason } = outcomeOf(call);
    this.calls += 1;
    if (reason !== null) count(this.denials, reason);
    if (call.grant !== null) count(this.grants, call.grant);
    this.#addAnswer(call);
    this.#addToSession(call, outcome);
    this.#keep(call);
  }

  /** The calls of `session` that are kept, in order. */
  recent(session: string): readonly Call[] {
    return (this.#recent.get(session) ?? []).toSorted((a, b) => a.seq - b.seq);
  }

  #addAnswer(call: Call): void {
    const { approval } = call;
    const ms = waitOf(call);
    if (approval === null || ms === null) return;
    const waits = this.waits.get(approval.answer);
    if (waits === undefined) {
      this.waits.set(approval.answer, { count: 1, total: ms, shortest: ms, longest: ms });
      return;
    }
    waits.count += 1;
    waits.total += ms;
    waits.shortest = Math.min(waits.shortest, ms);
    waits.longest = Math.max(waits.longest, ms);
  }

  #addToSession(call: Call, outcome: CallOutcome): void {
    const { session, time, taint } = call;
    const summary = this.sessions.get(session) ??
      { session, first: time, last: time, calls: 0, outcomes: new Map(), taint };
    this.sessions.delete(session);
    this.sessions.set(session, summary);
    // Calls come as they end, and the clock may go back.
    if (time < summary.first) summary.first = time;
    if (time > summary.last) summary.last = time;
    summary.calls += 1;
    count(summary.outcomes, outcome);
    // The state may have risen without a result too: where that could not be recorded.
    for (const to of [taint, call.result?.taint ?? taint]) {
      if (!isAbove(to, summary.taint)) continue;
      this.rises.push({ call, from: summary.taint, to });
      if (this.rises.length > RISES_KEPT) this.rises.shift();
      this.riseCount += 1;
      summary.taint = to;
    }
  }

  #keep(call: Call): void {
    const calls = this.#recent.get(call.session) ?? [];
    this.#recent.delete(call.session);
    this.#recent.set(call.session, calls);
    calls.push(call);
    if (calls.length > CALLS_OF_SESSION) calls.shift();
    const [oldest] = this.#recent.keys();
    if (this.#recent.size > SESSIONS_WITH_CALLS && oldest !== undefined) {
      this.#recent.delete(oldest);
    }
  }
}

/** How long the answer to `call` took in milliseconds; null where it was not asked, or not answered. */
export function waitOf({ time, approval }: Call): number | null {
  // The clock may have been set back meanwhile.
  return approval === null ? null : Math.max(0, Date.parse(approval.time) - Date.parse(time));
}

function count<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
