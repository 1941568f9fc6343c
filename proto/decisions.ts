/** The words of a decision, as records and answers carry it (specification 5 and 10). Pure. */
import * as z from "zod";

export const DENY_REASONS = [
  "no_grant",
  "grant_expired",
  "taint_too_high",
  "denied_by_grant",
  "approval_refused",
  "approval_expired",
  "grants_invalid",
  "audit_unavailable",
  "invalid_arguments",
  "state_unreadable",
] as const;
export const DenyReason = z.enum(DENY_REASONS);
export type DenyReason = z.infer<typeof DenyReason>;

/** The plain record of a decision. */
export const DecisionRecord = z.discriminatedUnion("outcome", [
  z.strictObject({ outcome: z.literal("allowed") }),
  z.strictObject({ outcome: z.literal("ask") }),
  z.strictObject({ outcome: z.literal("denied"), reason: DenyReason }),
]);
export type DecisionRecord = z.infer<typeof DecisionRecord>;

/** The record of a denial for `reason`. */
export function denied(reason: DenyReason): DecisionRecord {
  return { outcome: "denied", reason };
}
