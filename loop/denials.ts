/** What the model is told of a denial (specification 8): fixed words, never the owner's reason. Pure. */
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
