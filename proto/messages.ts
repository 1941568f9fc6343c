/** The messages of the three sockets (specification 6 and 10; contracts 2). Pure. */
import * as z from "zod";
import { GrantProblem } from "./grants.ts";
import { CallId, SessionId, Timestamp } from "./ids.ts";
import { DataClass } from "./tools.ts";
import { DecisionRecord, DenyReason } from "./decisions.ts";
import { BrokerStatus, LoopStatus } from "./status.ts";
import { Hint } from "./grants.ts";
import { text, u64, utf8Length } from "./text.ts";

export { GrantProblem };

/** The message of the `failed` that ends a turn which its owner stopped. */
export const STOPPED = "stopped by the owner";
/** A refusal's reason, in bytes (contracts 4). */
export const MAX_REASON_BYTES = 1024;

export const ToolRequest = z.strictObject({
  session: SessionId,
  call: CallId,
  tool: text,
  /** The model's JSON object, as received. */
  arguments: text,
});
export type ToolRequest = z.infer<typeof ToolRequest>;

export const ToolResponse = z.discriminatedUnion("status", [
  z.strictObject({ status: z.literal("pending_approval"), approval: u64, expires: Timestamp }),
  z.strictObject({
    status: z.literal("result"),
    content: text,
    class: DataClass,
    untrusted: z.boolean(),
    truncated: z.boolean(),
  }),
  z.strictObject({ status: z.literal("failed"), message: text }),
  /** `hint`: of the grant that made the denial, where that has one (decision 113). */
  z.strictObject({ status: z.literal("denied"), reason: DenyReason, hint: Hint.optional() }),
]);
export type ToolResponse = z.infer<typeof ToolResponse>;
export type PendingResponse = Extract<ToolResponse, { status: "pending_approval" }>;
/** A tool response that ends its request. */
export type FinalToolResponse = Exclude<ToolResponse, PendingResponse>;

export const PendingApproval = z.strictObject({
  /** `seq` of the call's decision record. */
  approval: u64,
  session: SessionId,
  call: CallId,
  tool: text,
  arguments: text,
  grant: text,
  taint: DataClass,
  created: Timestamp,
  expires: Timestamp,
});
export type PendingApproval = z.infer<typeof PendingApproval>;

/**
 * What has changed since the owner was asked about a call (docs/protocol.md, `changes`). Nothing that is as
 * it was then has an item.
 */
export const ApprovalChange = z.strictObject({
  approval: u64,
  /** What became of the file of the grant that asked; `invalid`: no grant can be read now. Null: nothing. */
  grant: z.enum(["edited", "gone", "invalid"]).nullable(),
  /** The session's taint now, where it is another one. */
  taint: DataClass.nullable(),
  /** The session has seen untrusted content since, and had not before. */
  untrusted: z.boolean(),
  /** The session's state cannot be read now. */
  unreadable: z.boolean(),
});
export type ApprovalChange = z.infer<typeof ApprovalChange>;

export const TurnEvent = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("session"), session: SessionId }),
  z.strictObject({ type: z.literal("reasoning"), text }),
  z.strictObject({ type: z.literal("text"), text }),
  z.strictObject({ type: z.literal("tool_call"), call: CallId, tool: text, arguments: text }),
  z.strictObject({
    type: z.literal("approval_pending"),
    approval: u64,
    tool: text,
    expires: Timestamp,
  }),
  z.strictObject({
    type: z.literal("tool_result"),
    call: CallId,
    tool: text,
    status: z.enum(["result", "failed", "denied"]),
    content: text,
  }),
  z.strictObject({ type: z.literal("done") }),
  z.strictObject({ type: z.literal("failed"), message: text }),
]);
export type TurnEvent = z.infer<typeof TurnEvent>;

export const ERROR_CODES = [
  "bad_frame",
  "too_large",
  "unsupported_version",
  "forbidden",
  "no_such_approval",
  "timeout",
  "audit_unavailable",
  "internal",
] as const;
export const ErrorCode = z.enum(ERROR_CODES);
export type ErrorCode = z.infer<typeof ErrorCode>;

/** The body of each kind of message. */
export const BODIES = {
  tool_request: ToolRequest,
  tool_response: ToolResponse,
  chat: z.strictObject({ session: SessionId.nullable(), text }),
  turn_event: TurnEvent,
  stop: z.strictObject({ session: SessionId }),
  approvals: z.strictObject({}),
  approval_list: z.strictObject({ items: z.array(PendingApproval) }),
  approve: z.strictObject({ approval: u64 }),
  approve_result: z.strictObject({ outcome: DecisionRecord }),
  refuse: z.strictObject({
    approval: u64,
    reason: text.refine((value) => utf8Length(value) <= MAX_REASON_BYTES, "over 1 KiB").nullable(),
  }),
  ok: z.strictObject({}),
  check_grants: z.strictObject({}),
  grants_report: z.strictObject({ problems: z.array(GrantProblem) }),
  changes: z.strictObject({}),
  change_list: z.strictObject({ items: z.array(ApprovalChange) }),
  status: z.strictObject({}),
  broker_status: BrokerStatus,
  loop_status: LoopStatus,
  error: z.strictObject({ code: ErrorCode, message: text }),
} as const;

export type Kind = keyof typeof BODIES;
export type Body<K extends Kind> = z.infer<(typeof BODIES)[K]>;
/** A message of one of the kinds `K`, with its body. */
export type Message<K extends Kind = Kind> = {
  [N in K]: { readonly kind: N; readonly final: boolean; readonly body: Body<N> };
}[K];

/** The kinds that each socket accepts as a request (specification 6, "Two sockets"). */
export const REQUESTS = {
  "broker.sock": ["tool_request"],
  "admin.sock": ["approvals", "approve", "refuse", "check_grants", "changes", "status"],
  "loop.sock": ["chat", "stop", "status"],
} as const satisfies Record<string, readonly Kind[]>;
export type SocketName = keyof typeof REQUESTS;
export type RequestKind<S extends SocketName> = (typeof REQUESTS)[S][number];
