/** Identifiers, hashes and times (contracts, preamble). Pure. */
import * as z from "zod";
import { createHash } from "node:crypto";

/** A session: 1 to 64 of `[a-z0-9-]`, so that it is safe as a file name. */
export const SessionId = z.string().regex(/^[a-z0-9-]{1,64}$/);
export type SessionId = z.infer<typeof SessionId>;

/** A tool call within a session: 1 to 64 of `[A-Za-z0-9_-]`. */
export const CallId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/);
export type CallId = z.infer<typeof CallId>;

/** A grant's id, the stem of its file: 1 to 64 of `[a-z0-9-]` (specification 3, "Files"). */
export const GrantId = z.string().regex(/^[a-z0-9-]{1,64}$/);
export type GrantId = z.infer<typeof GrantId>;

/** A SHA-256 as 64 lowercase hex digits. */
export const Hash32 = z.string().regex(/^[0-9a-f]{64}$/);
export type Hash32 = z.infer<typeof Hash32>;

/** `prev` of the first record ever written (specification 5, "The chain"). */
export const ZERO_HASH: Hash32 = "0".repeat(64);

/** Copied for each hash: to make one by its name takes longer than to hash a line of the log. */
const EMPTY = createHash("sha256");

/** SHA-256 of `bytes`. */
export function sha256(bytes: Uint8Array): Hash32 {
  return EMPTY.copy().update(bytes).digest("hex");
}

const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

/** Whether `value` is exactly `YYYY-MM-DDTHH:MM:SS.mmmZ` and a real time (no `24:00:00`, no `:60`). */
export function isTimestamp(value: string): boolean {
  if (!TIMESTAMP.test(value)) return false;
  const ms = Date.parse(value);
  // Date takes 24:00:00 and 30 February and rolls them over, so only the round trip proves the date.
  return !Number.isNaN(ms) && new Date(ms).toISOString() === value;
}

/** A time in UTC with milliseconds. Compares as text in order of time. */
export const Timestamp = z.string().refine(isTimestamp, "not a time as YYYY-MM-DDTHH:MM:SS.mmmZ");
export type Timestamp = z.infer<typeof Timestamp>;

/** The timestamp of `ms` milliseconds since 1970. */
export function timestamp(ms: number): Timestamp {
  return new Date(ms).toISOString();
}
