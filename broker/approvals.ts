/**
 * The table of calls that wait for the owner (specification 6, "Approvals"; contracts 4). In memory
 * only. Whoever takes an entry out ends the call: taking is one step, so there is one winner. Pure.
 */
import type { SessionId, Timestamp } from "../proto/ids.ts";
import type { PendingApproval } from "../proto/messages.ts";

/** Calls that may wait at once. */
export const MAX_PENDING = 128;
export const MAX_PENDING_PER_SESSION = 16;

/** A waiting call: what the owner sees, and what the broker needs to end it. */
export interface Waiting<T> {
  readonly shown: PendingApproval;
  readonly call: T;
}

export class Approvals<T> {
  readonly #waiting = new Map<number, Waiting<T>>();

  /** Whether one more call of `session` may wait. */
  hasRoom(session: SessionId): boolean {
    let ofSession = 0;
    for (const { shown } of this.#waiting.values()) if (shown.session === session) ofSession += 1;
    return this.#waiting.size < MAX_PENDING && ofSession < MAX_PENDING_PER_SESSION;
  }

  add(waiting: Waiting<T>): void {
    this.#waiting.set(waiting.shown.approval, waiting);
  }

  /** Takes the call out, whatever the time; null where it has been taken. */
  take(approval: number): Waiting<T> | null {
    const waiting = this.#waiting.get(approval) ?? null;
    this.#waiting.delete(approval);
    return waiting;
  }

  /** Takes out every call whose time is up: from `expires` on, nothing else ends it. */
  takeExpired(now: Timestamp): Waiting<T>[] {
    const expired = [...this.#waiting.values()].filter(({ shown }) => now >= shown.expires);
    for (const { shown } of expired) this.#waiting.delete(shown.approval);
    return expired;
  }

  /** What waits, by number, with what the broker needs. */
  waiting(): Waiting<T>[] {
    return [...this.#waiting.values()].sort((a, b) => a.shown.approval - b.shown.approval);
  }

  /** What waits, by number. */
  list(): PendingApproval[] {
    return this.waiting().map(({ shown }) => shown);
  }
}
