/**
 * What the model is told of a denial (specification 8): fixed words, never the owner's reason, and after
 * them the hint of the grant that made it, where that has one (decision 113). Pure.
 */
import type { DenyReason } from "../proto/decisions.ts";

export const DENIALS = {
  no_grant: "Denied: no grant allows this call.",
  grant_expired: "Denied: the grant for this call has expired.",
  taint_too_high: "Denied: this session has seen data too sensitive for this call.",
  denied_by_grant: "Denied: a grant forbids this call.",
  approval_refused: "Denied: the owner refused this call.",
  approval_expired: "Denied: the approval request expired without an answer.",
  invalid_arguments: "Denied: the arguments are not valid for this tool.",
  grants_invalid: "Denied: the grant files have an error; the owner has been told.",
  audit_unavailable: "Denied: the audit log cannot be written; the owner has been told.",
  state_unreadable: "Denied: this session's broker state is damaged; the owner has been told.",
} as const satisfies Record<DenyReason, string>;

/** The words for `reason`; `hint` is the owner's own text for the model. */
export function denialText(reason: DenyReason, hint: string | undefined): string {
  return hint === undefined ? DENIALS[reason] : `${DENIALS[reason]}\nYour owner says: ${hint}`;
}
