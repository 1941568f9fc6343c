/** Calls of the audit log decided again: what was known when they were decided, and what differs. Pure. */
import type { GrantSet } from "../broker/grant_rules.ts";
import { decide, type SessionState, type Situation } from "../broker/policy.ts";
import type { AuditEvent, AuditRecord } from "../proto/audit.ts";
import type { DecisionRecord } from "../proto/decisions.ts";
import { display } from "../proto/escape.ts";
import type { Hash32, SessionId, Timestamp } from "../proto/ids.ts";
import { counted, outcomeWords } from "./explained.ts";

/** A decision record. */
export type Decided = AuditRecord & { readonly event: Extract<AuditEvent, { type: "decision" }> };

/** So many calls are listed for each grant; the others are counted. */
export const MOST_LISTED = 100;

/** An outcome with the grant that gave it; null where none did. */
export interface Decision {
  readonly outcome: DecisionRecord;
  readonly grant: string | null;
}

/** A call that would come out differently. */
export interface Differing {
  readonly seq: number;
  readonly time: Timestamp;
  readonly session: SessionId;
  readonly tool: string;
  readonly was: Decision;
  readonly would_be: Decision;
}

/** The calls that come out differently because of one grant, or with null because of none. */
export interface Group {
  readonly grant: string | null;
  readonly count: number;
  /** The first `MOST_LISTED`, in the order of the log. */
  readonly calls: readonly Differing[];
}

export interface ReplayReport {
  readonly decisions: number;
  readonly differing: number;
  /** Decided as recorded, but by another grant. */
  readonly other_grant: number;
  readonly groups: readonly Group[];
}

/** Whether `record` is a decision. */
export function isDecided(record: AuditRecord): record is Decided {
  return record.event.type === "decision";
}

/** The call of `record` with the state and the time recorded, for a decision by `grants`. */
export function situationOf({ time, event }: Decided, grants: GrantSet): Situation {
  const { tool, arguments: args } = event;
  return { now: time, grants, state: stateOf(event), tool, arguments: args };
}

/** The session's state that a decision was made with; null where it could not be read. */
export function stateOf({ outcome, taint, untrusted }: Decided["event"]): SessionState | null {
  // The record has `secret` then, which stands for no state.
  return isUnreadable(outcome) ? null : { taint, untrusted };
}

/** Whether a call was denied because the session's state could not be read. */
export function isUnreadable(outcome: DecisionRecord): boolean {
  return outcome.outcome === "denied" && outcome.reason === "state_unreadable";
}

/** Whether two outcomes are the same, the reason of a denial included. */
export function sameOutcome(a: DecisionRecord, b: DecisionRecord): boolean {
  return outcomeWords(a) === outcomeWords(b);
}

/** Decides the calls of a log again, one by one. Holds what it lists and no more. */
export class Replay {
  readonly #grants: GrantSet;
  readonly #groups = new Map<string | null, { count: number; calls: Differing[] }>();
  #decisions = 0;
  #differing = 0;
  #otherGrant = 0;

  constructor(grants: GrantSet) {
    this.#grants = grants;
  }

  add(record: Decided): void {
    const { seq, time, event } = record;
    const decision = decide(situationOf(record, this.#grants));
    const outcome = decision.toRecord();
    const grant = decision.covered?.grant.id ?? null;
    this.#decisions += 1;
    if (sameOutcome(outcome, event.outcome)) {
      if (grant !== event.grant) this.#otherGrant += 1;
      return;
    }
    this.#differing += 1;
    // The grant that decides now, or else the one that does so no more.
    const cause = grant ?? event.grant;
    const group = this.#groups.get(cause) ?? { count: 0, calls: [] };
    this.#groups.set(cause, group);
    group.count += 1;
    if (group.calls.length >= MOST_LISTED) return;
    group.calls.push({
      ...{ seq, time, session: event.session, tool: event.tool },
      was: { outcome: event.outcome, grant: event.grant },
      would_be: { outcome, grant },
    });
  }

  /** What differs so far; the groups in the order of their grants' names, that of no grant last. */
  report(): ReplayReport {
    const groups = [...this.#groups].map(([grant, { count, calls }]) => ({ grant, count, calls }));
    return {
      decisions: this.#decisions,
      differing: this.#differing,
      other_grant: this.#otherGrant,
      groups: groups.sort((a, b) => byName(a.grant, b.grant)),
    };
  }
}

function byName(a: string | null, b: string | null): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The report as the owner reads it. */
export function replayLines({ decisions, differing, other_grant, groups }: ReplayReport): string[] {
  return [
    `replayed ${counted(decisions, "decision")}: ${differing} would come out differently`,
    ...groups.flatMap(groupLines),
    ...other_grant === 0
      ? []
      : [`${other_grant} would come out as recorded, by another grant than recorded`],
  ];
}

function groupLines({ grant, count, calls }: Group): string[] {
  const more = count - calls.length;
  return [
    `${grant === null ? "no grant" : `grant ${display(grant)}`}: ${count}`,
    ...calls.map(({ seq, time, session, tool, was, would_be }) =>
      `  ${seq}  ${time}  session ${session}  ${display(tool)}  ` +
      `${decisionWords(was)} -> ${decisionWords(would_be)}`
    ),
    ...more === 0 ? [] : [`  … and ${more} more`],
  ];
}

/** An outcome with its grant: `allowed by notes-read`. */
export function decisionWords({ outcome, grant }: Decision): string {
  return grant === null ? outcomeWords(outcome) : `${outcomeWords(outcome)} by ${display(grant)}`;
}

/** What the log says of the grant file that decided a call, beside what stands there now. */
export type GrantFileChange = "none" | "same" | "changed" | "gone" | "unknown";

/** Whether the file of the recorded grant is still the one recorded. */
export function grantFileChange(
  { event: { grant, grant_sha256 } }: Decided,
  grants: GrantSet,
): GrantFileChange {
  if (grant === null) return "none";
  if (!grants.ok) return "unknown";
  const now: Hash32 | undefined = grants.grants.find(({ id }) => id === grant)?.sha256;
  if (now === undefined) return "gone";
  return now === grant_sha256 ? "same" : "changed";
}
