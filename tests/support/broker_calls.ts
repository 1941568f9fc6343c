/** The calls of a model test, and what must hold of their answers and records whatever happens beside. */
import assert from "node:assert/strict";
import type { RunOutcome } from "../../broker/runner.ts";
import type { AuditEvent, AuditRecord } from "../../proto/audit.ts";
import type { DecisionRecord } from "../../proto/decisions.ts";
import { sha256 } from "../../proto/ids.ts";
import type { FinalToolResponse, ToolRequest } from "../../proto/messages.ts";
import { utf8 } from "../../proto/text.ts";
import type { Place } from "./armed_fault.ts";
import type { Expected, Seen, Session, Terms } from "./broker_model.ts";
import type { SettledLog } from "./settled_log.ts";

/** A call that was begun and has no answer yet. */
export interface Open {
  readonly request: ToolRequest;
  readonly session: Session;
  /** Its place in `TARGETS`. */
  readonly target: number;
  phase: "waiting" | "running";
  /** Its approval and until when, where the owner was asked. */
  approval: { readonly id: number; readonly expires: number } | null;
  /** What ended the waiting. */
  ended: "lost" | "refused" | "approved" | null;
  /** The grant that let it run. */
  terms: Terms | null;
  /** How its run was ended. */
  how: keyof typeof ENDS | null;
}

/** How a run ends: what the runtime gives, or null where it throws. */
export const ENDS = {
  result: { status: "result", content: "the content", truncated: false },
  failed: { status: "failed", message: "no such file" },
  unavailable: { status: "unavailable", message: "nothing ran" },
  throws: null,
} as const satisfies Record<string, RunOutcome | null>;

/** What a call has let its session see. */
export function seenOf({ terms, how }: Open): Seen {
  if (how === "unavailable") return { taint: "public", untrusted: false };
  if (terms === null) throw new Error("it ran under no grant");
  return { taint: terms.result_class, untrusted: terms.untrusted };
}

/** An outcome is what the naive account says, unless something failed where the reason says so. */
export function checkOutcome(
  outcome: DecisionRecord,
  { outcome: wanted }: Expected,
  failed: (place: Place) => boolean,
): void {
  if (outcome.outcome === "denied") {
    if (outcome.reason === "grants_invalid" && failed("grants")) return;
    if (outcome.reason === "state_unreadable" && failed("sessions")) return;
  }
  assert.deepEqual(outcome, wanted);
}

/** A decision that nothing disturbed says what was asked, what was known, and which grant decided. */
export function checkDecision(
  request: ToolRequest,
  decision: Extract<AuditEvent, { type: "decision" }>,
  { grant }: Expected,
  seen: Seen,
): void {
  const { session, call, tool, arguments: args, taint, untrusted } = decision;
  assert.deepEqual({ session, call, tool, arguments: args }, request);
  assert.deepEqual({ grant: decision.grant, taint, untrusted }, { grant, ...seen });
}

/** A call was denied for a reason that its record must give. */
export function checkDenied(call: Open, log: SettledLog, now: number, reason: string): void {
  const { request, approval, ended } = call;
  const record = { outcome: "denied", reason };
  if (approval === null) {
    return assert.deepEqual(log.event(request.call, "decision")?.outcome, record);
  }
  assert.deepEqual(log.event(request.call, "approval")?.outcome, record);
  if (reason === "approval_refused") assert.equal(ended, "refused");
  else if (reason !== "approval_expired") assert.equal(ended, "approved");
  else assert.ok(ended === null && now >= approval.expires, "expired too early");
}

/** A call that ran was answered: as its run ended, and its record, which is given back, says the same. */
export function checkRan(
  call: Open,
  log: SettledLog,
  answer: FinalToolResponse,
): Extract<AuditEvent, { type: "result" }> {
  const outcome = ENDS[call.how ?? "result"];
  const seen = seenOf(call);
  const { taint, untrusted } = seen;
  const gave = outcome?.status === "result";
  const text = outcome === null
    ? "the tool could not be run"
    : outcome.status === "result"
    ? outcome.content
    : outcome.message;
  const wanted = gave
    ? { status: "result", content: text, class: taint, untrusted, truncated: false }
    : { status: "failed", message: text };
  assert.deepEqual(answer, wanted);
  const result = log.event(call.request.call, "result");
  assert.ok(result !== undefined, "the result is on the disk");
  assert.deepEqual([result.status, result.sha256], [answer.status, sha256(utf8(text))]);
  assert.deepEqual([result.class, result.untrusted], [taint, untrusted]);
  return result;
}

/** Whether a call may run after this record. */
export function letsRun(event: AuditEvent): boolean {
  if (event.type === "decision") return event.outcome.outcome === "allowed";
  return event.type === "approval" && event.outcome.outcome !== "denied";
}

/** Each record follows one that lets it stand there. */
export function checkOrder(records: readonly AuditRecord[]): void {
  /** What may come next for each decision. */
  const next = new Map<number, "approval" | "result">();
  for (const { seq, event } of records) {
    if (event.type === "recovery") continue;
    assert.ok(event.type !== "accepted_break");
    if (event.type !== "decision") {
      assert.equal(next.get(event.decision), event.type, `record ${seq}`);
      next.delete(event.decision);
    }
    const decision = event.type === "decision" ? seq : event.decision;
    if (letsRun(event)) next.set(decision, "result");
    else if (event.type === "decision" && event.outcome.outcome === "ask") {
      next.set(decision, "approval");
    }
  }
}
