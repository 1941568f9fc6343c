/** Audit records (specification 5, "Records"; contracts 5). Pure. */
import * as z from "zod";
import { CallId, Hash32, SessionId, Timestamp } from "./ids.ts";
import { DataClass } from "./tools.ts";
import { DecisionRecord } from "./decisions.ts";
import { formatExact, parseExact } from "./json.ts";
import { scanLink, scanRecord } from "./audit_scan.ts";
import { fromUtf8, text, u64, utf8 } from "./text.ts";

export const APPROVAL_ANSWERS = ["approved", "refused", "expired"] as const;
export const ApprovalAnswer = z.enum(APPROVAL_ANSWERS);
export type ApprovalAnswer = z.infer<typeof ApprovalAnswer>;

export const ResultStatus = z.enum(["result", "failed"]);
export type ResultStatus = z.infer<typeof ResultStatus>;

export const AuditEvent = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("decision"),
    session: SessionId,
    call: CallId,
    tool: text,
    /** In full, as received. */
    arguments: text,
    outcome: DecisionRecord,
    /** The matched grant and the hash of its file. */
    grant: text.nullable(),
    grant_sha256: Hash32.nullable(),
    /** The session's state when decided. */
    taint: DataClass,
    untrusted: z.boolean(),
  }),
  z.strictObject({
    type: z.literal("approval"),
    session: SessionId,
    call: CallId,
    /** `seq` of the decision. */
    decision: u64,
    answer: ApprovalAnswer,
    /** `bxctl`, or null for an expiry. */
    by: text.nullable(),
    post: text.nullable(),
    /** The owner's text, for refusals. */
    reason: text.nullable(),
    /** The re-decision as it came out: `ask` and `allowed` both ran. */
    outcome: DecisionRecord,
  }),
  z.strictObject({
    type: z.literal("result"),
    session: SessionId,
    call: CallId,
    /** `seq` of the decision. */
    decision: u64,
    status: ResultStatus,
    class: DataClass,
    untrusted: z.boolean(),
    truncated: z.boolean(),
    /** Size in bytes and hash of the content, or of the failure message. Never the content itself. */
    bytes: u64,
    sha256: Hash32,
    /** The session's taint on disk after this result. */
    taint_after: DataClass,
  }),
  z.strictObject({
    type: z.literal("recovery"),
    torn_bytes: u64,
    torn_sha256: Hash32,
  }),
  z.strictObject({
    type: z.literal("accepted_break"),
    file: text,
    line: u64,
    last_good: Hash32,
  }),
]);
export type AuditEvent = z.infer<typeof AuditEvent>;

export const AuditRecord = z.strictObject({
  seq: u64,
  time: Timestamp,
  prev: Hash32,
  event: AuditEvent,
});
export type AuditRecord = z.infer<typeof AuditRecord>;

type Of<T extends AuditEvent["type"]> = Extract<AuditEvent, { type: T }>;

/** What the chain needs of an event (`chain.ts`). */
export type LinkEvent =
  | Pick<Of<"decision">, "type" | "outcome">
  | Pick<Of<"approval">, "type" | "decision" | "outcome">
  | Pick<Of<"result">, "type" | "decision">
  | Of<"recovery">
  | Of<"accepted_break">;

/** What the chain needs of a record. Each record is one. */
export type Link = Omit<AuditRecord, "event"> & { readonly event: LinkEvent };

/** The line of `record`, without its newline. Throws where a field does not fit its type. */
export function encodeRecord(record: AuditRecord): Uint8Array<ArrayBuffer> {
  return utf8(formatExact(AuditRecord, record));
}

/**
 * The record of a line, or null where the line is anything but the one byte form of a record. `content`: its
 * text, where that is known already.
 */
export function parseRecord(
  line: Uint8Array,
  content: string | null = fromUtf8(line),
): AuditRecord | null {
  // The scan takes nothing that the full reading would not.
  return content === null ? null : scanRecord(content) ?? parseExact(AuditRecord, content);
}

/**
 * As `parseRecord`, null for the same lines, but gives no more than the chain needs: to make the whole record
 * takes longer than to look at it. `before`: the hash that the record most likely names as the one before it.
 */
export function parseLink(content: string | null, before: Hash32): Link | null {
  return content === null ? null : scanLink(content, before) ?? parseExact(AuditRecord, content);
}

/** The name of the file that a record of `time` starts, by its UTC date. */
export function auditFileName(time: Timestamp): string {
  return `${time.slice(0, 10)}.jsonl`;
}

/** Whether a file of `audit/` belongs to the log: `YYYY-MM-DD.jsonl` with a real date. */
export function isAuditFileName(name: string): boolean {
  return name.length === 16 && name.endsWith(".jsonl") &&
    Timestamp.safeParse(`${name.slice(0, 10)}T00:00:00.000Z`).success;
}

/** Size in bytes of `head.json` (contracts 5.8). */
export const HEAD_BYTES = 128;

/** What `head.json` or the owner says the log holds: the hash of the record `seq`. */
export const Anchor = z.strictObject({ seq: u64, hash: Hash32 });
export type Anchor = z.infer<typeof Anchor>;

/** The 128 bytes of `head.json`: one line of JSON, padded with spaces before its newline. */
export function encodeHead(head: Anchor): Uint8Array<ArrayBuffer> {
  return utf8(formatExact(Anchor, head).padEnd(HEAD_BYTES - 1) + "\n");
}

/** The content of `head.json`, or null where it is not exactly what `encodeHead` writes. */
export function parseHead(bytes: Uint8Array): Anchor | null {
  const content = bytes.length === HEAD_BYTES ? fromUtf8(bytes) : null;
  if (content === null || !content.endsWith("\n")) return null;
  return parseExact(Anchor, content.slice(0, -1).replace(/ +$/, ""));
}
