/**
 * A tool call from its request to its answer, in the order that the log promises (specification 5,
 * "Write order"): decide, record, ask, record, run, raise the taint, record, answer. Whatever stands
 * between two awaits runs as one step: no other call comes between its reading and its writing.
 */
import type { AuditEvent } from "../proto/audit.ts";
import { type DecisionRecord, denied, type DenyReason } from "../proto/decisions.ts";
import { encodeFrame, MAX_ANSWER_BYTES } from "../proto/frames.ts";
import { sha256, type Timestamp, timestamp } from "../proto/ids.ts";
import type { RunningItem } from "../proto/status.ts";
import type {
  ApprovalChange,
  FinalToolResponse,
  GrantProblem,
  PendingApproval,
  PendingResponse,
  ToolRequest,
} from "../proto/messages.ts";
import { utf8 } from "../proto/text.ts";
import { Approvals } from "./approvals.ts";
import type { AuditLog } from "./audit_log.ts";
import { type Basis, changeSince } from "./changes.ts";
import type { GrantSet } from "./grant_rules.ts";
import type { Notices } from "./notices.ts";
import { type Covered, decide, type Decision, redecide, type SessionState } from "./policy.ts";
import { run, type RunOutcome, type Runtime } from "./runner.ts";
import type { SessionStates } from "./state.ts";

export interface Parts {
  readonly audit: AuditLog;
  readonly states: SessionStates;
  /** Reads the grants as they are now. */
  readonly grants: () => GrantSet;
  readonly runtime: Runtime;
  readonly notices: Notices;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** How long an approval waits, in milliseconds. */
  readonly ttlMs: number;
}

/** A call under way. */
export interface Call {
  /** Set where the owner is asked first. */
  readonly pending: PendingResponse | null;
  /** The last answer; null where the client went away while the owner was asked. */
  readonly answer: Promise<FinalToolResponse | null>;
}

/** A call that waits for the owner. */
interface Asked {
  readonly request: ToolRequest;
  readonly basis: Basis;
  readonly settle: (answer: FinalToolResponse | null | Promise<FinalToolResponse>) => void;
}

/** Why an answer of the owner did not take effect. */
export type Refused = "no_such_approval" | "audit_unavailable";

const NOT_RECORDED: FinalToolResponse = {
  status: "failed",
  message: "the result could not be recorded",
};

const deny = (reason: DenyReason, hint: string | null = null): FinalToolResponse => ({
  status: "denied",
  reason,
  ...hint === null ? {} : { hint },
});

export class Pipeline {
  readonly #parts: Parts;
  readonly #approvals = new Approvals<Asked>();
  /** The calls that run, or wait for their turn to, in order of their start. */
  readonly #running = new Set<RunningItem>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Decides a request, and starts what its decision says. */
  begin(request: ToolRequest): Call {
    const answered = (answer: FinalToolResponse | Promise<FinalToolResponse>): Call => ({
      pending: null,
      answer: Promise.resolve(answer),
    });
    if (!this.#parts.audit.ready()) return answered(deny("audit_unavailable"));
    const decision = this.#decide(decide, request);
    const outcome = decision.toRecord();
    const { covered, state } = decision;
    const seq = this.#parts.audit.append({
      type: "decision",
      ...request,
      outcome,
      grant: covered?.grant.id ?? null,
      grant_sha256: covered?.grant.sha256 ?? null,
      taint: state.taint,
      untrusted: state.untrusted,
    });
    if (seq === null) return answered(deny("audit_unavailable"));
    if (outcome.outcome === "denied") return answered(deny(outcome.reason, decision.hint));
    if (covered === null) throw new Error("a call is let through only by a grant");
    if (outcome.outcome === "ask") return this.#ask(request, seq, covered, state);
    return answered(this.#run(request, seq, decision, covered));
  }

  /** What waits for the owner, by number. */
  pending(): PendingApproval[] {
    this.expire();
    return this.#approvals.list();
  }

  /** The calls that run or wait for their turn to, in order of their start. */
  running(): RunningItem[] {
    return [...this.#running];
  }

  /** What has changed for the waiting calls since each was asked about, by number. Decides nothing. */
  changes(): ApprovalChange[] {
    this.expire();
    const waiting = this.#approvals.waiting();
    if (waiting.length === 0) return [];
    const grants = this.#readGrants();
    const sessions = new Set(waiting.map(({ shown }) => shown.session));
    const states = new Map([...sessions].map((session) => [session, this.#readState(session)]));
    return waiting.flatMap(({ shown: { approval, session }, call: { basis } }) =>
      changeSince(approval, basis, { grants, state: states.get(session) ?? null }) ?? []
    );
  }

  /** What is wrong with the grants as they are now. */
  checkGrants(): readonly GrantProblem[] {
    return this.grantsNow().problems;
  }

  /** How many grants count as they are now, and what is wrong with them. */
  grantsNow(): { readonly count: number; readonly problems: readonly GrantProblem[] } {
    const grants = this.#readGrants();
    return grants.ok
      ? { count: grants.grants.length, problems: [] }
      : { count: 0, problems: grants.problems };
  }

  /** The owner approves: the call is decided again, and the re-decision stands (specification 6). */
  approve(approval: number): DecisionRecord | Extract<Refused, "no_such_approval"> {
    const asked = this.#take(approval);
    if (asked === null) return "no_such_approval";
    const { request, settle } = asked;
    const decision = this.#decide(redecide, request);
    const outcome = decision.toRecord();
    if (!this.#recordApproval(request, approval, { answer: "approved", by: "bxctl", outcome })) {
      settle(deny("audit_unavailable"));
      return denied("audit_unavailable");
    }
    const { covered } = decision;
    if (covered !== null && covered.grant.id !== asked.basis.grant) {
      this.#parts.notices.otherGrant(approval, asked.basis.grant, covered.grant.id);
    }
    if (outcome.outcome === "denied") settle(deny(outcome.reason, decision.hint));
    else if (covered === null) throw new Error("a call is let through only by a grant");
    else settle(this.#run(request, approval, decision, covered));
    return outcome;
  }

  /** The owner refuses. `reason` is for the log, never for the model. */
  refuse(approval: number, reason: string | null): "ok" | Refused {
    const asked = this.#take(approval);
    if (asked === null) return "no_such_approval";
    const outcome = denied("approval_refused");
    const answer = { answer: "refused", by: "bxctl", reason, outcome } as const;
    const recorded = this.#recordApproval(asked.request, approval, answer);
    asked.settle(deny(recorded ? "approval_refused" : "audit_unavailable"));
    return recorded ? "ok" : "audit_unavailable";
  }

  /** Ends every call whose time is up. To be called every second; each answer looks for itself too. */
  expire(): void {
    const outcome = denied("approval_expired");
    for (const { shown, call } of this.#approvals.takeExpired(this.#time())) {
      const answer = { answer: "expired", by: null, outcome } as const;
      const recorded = this.#recordApproval(call.request, shown.approval, answer);
      call.settle(deny(recorded ? "approval_expired" : "audit_unavailable"));
    }
  }

  /** The client of a waiting call went away: nothing is written. Without effect once the call has ended. */
  lost(approval: number): void {
    this.#take(approval)?.settle(null);
  }

  #ask(request: ToolRequest, seq: number, { grant }: Covered, state: SessionState): Call {
    const { session, call, tool, arguments: args } = request;
    // What has expired takes no room, even where the periodic check has not come to it.
    this.expire();
    if (!this.#approvals.hasRoom(session)) {
      const message = "too many approvals are pending";
      return { pending: null, answer: Promise.resolve({ status: "failed", message }) };
    }
    // One reading: the call waits exactly as long as it says.
    const now = this.#parts.now();
    const created = timestamp(now);
    const ttlEnd = timestamp(now + this.#parts.ttlMs);
    const expires = grant.expires !== null && grant.expires < ttlEnd ? grant.expires : ttlEnd;
    const ids = { approval: seq, session, call, tool, arguments: args };
    const answer = new Promise<FinalToolResponse | null>((settle) => {
      this.#approvals.add({
        shown: { ...ids, grant: grant.id, taint: state.taint, created, expires },
        call: { request, basis: { grant: grant.id, sha256: grant.sha256, state }, settle },
      });
    });
    this.#parts.notices.waiting(seq, request);
    return { pending: { status: "pending_approval", approval: seq, expires }, answer };
  }

  #take(approval: number): Asked | null {
    this.expire();
    return this.#approvals.take(approval)?.call ?? null;
  }

  #recordApproval(
    { session, call }: ToolRequest,
    decision: number,
    given: Pick<Extract<AuditEvent, { type: "approval" }>, "answer" | "by" | "outcome"> & {
      readonly reason?: string | null;
    },
  ): boolean {
    const { answer, by, outcome, reason = null } = given;
    return this.#parts.audit.append({
      type: "approval",
      ...{ session, call, decision, answer, by, post: null, reason, outcome },
    }) !== null;
  }

  /** Runs a call whose decision is on disk. No other call waits for it. */
  async #run(
    request: ToolRequest,
    seq: number,
    decision: Decision,
    covered: Covered,
  ): Promise<FinalToolResponse> {
    const { session, tool } = request;
    const running: RunningItem = { decision: seq, session, tool, since: this.#time() };
    this.#running.add(running);
    let outcome: RunOutcome;
    try {
      outcome = await run(decision, this.#parts.runtime);
    } catch (error) {
      this.#parts.notices.internal(error);
      // Something may have run, so the taint rises as for a failed tool.
      outcome = { status: "failed", message: "the tool could not be run" };
    } finally {
      this.#running.delete(running);
    }
    return this.#finish(request, seq, covered, outcome);
  }

  /** Raises the taint, records the result, and only then lets its content out. */
  #finish(
    { session, call }: ToolRequest,
    decision: number,
    { grant }: Covered,
    outcome: RunOutcome,
  ): FinalToolResponse {
    const response = toResponse(outcome, grant.result_class, grant.untrusted);
    const content = utf8(response.status === "result" ? response.content : response.message);
    const ran = outcome.status !== "unavailable";
    const seen: SessionState = ran
      ? { taint: grant.result_class, untrusted: grant.untrusted }
      : { taint: "public", untrusted: false };
    try {
      const { states, audit } = this.#parts;
      const after = ran ? states.raise(session, seen) : states.confirm(session);
      const recorded = audit.append({
        type: "result",
        ...{ session, call, decision, status: response.status },
        ...{ class: seen.taint, untrusted: seen.untrusted },
        truncated: response.status === "result" && response.truncated,
        bytes: content.length,
        sha256: sha256(content),
        taint_after: after.taint,
      });
      if (recorded !== null) return response;
    } catch (error) {
      this.#parts.notices.resultNotRecorded(error);
    }
    return NOT_RECORDED;
  }

  #decide(how: typeof decide, { session, tool, arguments: args }: ToolRequest): Decision {
    const grants = this.#readGrants();
    return how({
      now: this.#time(),
      grants,
      state: this.#readState(session),
      tool,
      arguments: args,
    });
  }

  #readGrants(): GrantSet {
    const grants = this.#parts.grants();
    if (grants.ok) this.#parts.notices.grantsValid();
    else this.#parts.notices.grantsInvalid(grants.problems);
    return grants;
  }

  #readState(session: string): SessionState | null {
    try {
      const state = this.#parts.states.read(session);
      this.#parts.notices.stateReadable(session);
      return state;
    } catch (error) {
      this.#parts.notices.stateUnreadable(session, error);
      return null;
    }
  }

  #time(): Timestamp {
    return timestamp(this.#parts.now());
  }
}

type ToolAnswer = Extract<FinalToolResponse, { status: "result" | "failed" }>;

/** The answer for a run. What does not fit a frame fails: half a content would lie. */
function toResponse(
  outcome: RunOutcome,
  dataClass: SessionState["taint"],
  untrusted: boolean,
): ToolAnswer {
  const response: ToolAnswer = outcome.status === "result"
    ? {
      status: "result",
      content: outcome.content.toWellFormed(),
      class: dataClass,
      untrusted,
      truncated: outcome.truncated,
    }
    : { status: "failed", message: outcome.message.toWellFormed() };
  const frame = encodeFrame({ kind: "tool_response", final: true, body: response });
  return frame.length <= MAX_ANSWER_BYTES
    ? response
    : { status: "failed", message: "the result is too large" };
}
