/** A grant file's fields (specification 3, "Files"; contracts 3). Pure. */
import * as z from "zod";
import { Hash32, Timestamp } from "./ids.ts";
import { DataClass } from "./tools.ts";
import { text, u64, utf8Length } from "./text.ts";

/** From the most to the least restrictive. */
export const GRANT_MODES = ["deny", "ask", "auto"] as const;
export const GrantMode = z.enum(GRANT_MODES);
export type GrantMode = z.infer<typeof GrantMode>;

export const Constraints = z.strictObject({
  paths: z.array(text).default([]),
  hosts: z.array(text).default([]),
  /** Foreseen, not supported: a grant that has any is invalid. */
  patterns: z.array(text).default([]),
});

/** The longest hint, in bytes of UTF-8. */
export const MAX_HINT_BYTES = 1024;

/** The owner's words for the model where a grant keeps a call from running (decision 113). */
export const Hint = text
  .refine((value) => value.trim() !== "", "is empty")
  .refine((value) => utf8Length(value) <= MAX_HINT_BYTES, "is over 1 KiB")
  // Lines may end in a newline; nothing else of the category moves a cursor or ends a text.
  .refine((value) => !/(?!\n)\p{Cc}/u.test(value), "has a control character in it");

/**
 * What makes a grant one that stands in for the owner's answer to one `ask` grant (decision 110): the id
 * of that grant, the hash of its file, and of a tool that takes a path the one path or cwd that it covers.
 */
export const Remembered = z.strictObject({
  grant: text,
  sha256: Hash32,
  path: text.optional(),
});
export type Remembered = z.infer<typeof Remembered>;

/**
 * One grant as its file gives it. `tool`, paths and hosts are free text here; the loading rules of
 * the broker check them, so that each problem has its own words.
 */
export const Grant = z.strictObject({
  tool: text,
  mode: GrantMode,
  max_taint: DataClass,
  result_class: DataClass,
  untrusted: z.boolean().default(false),
  expires: Timestamp.nullable().default(null),
  /** Foreseen, not supported: any value makes the grant invalid. */
  secret: z.unknown().optional(),
  hint: Hint.nullable().default(null),
  constraints: Constraints.default({ paths: [], hosts: [], patterns: [] }),
  remembered: Remembered.nullable().default(null),
});
export type Grant = z.infer<typeof Grant>;

/** What is wrong with the grants, as brokerd reads them. */
export const GrantProblem = z.strictObject({
  /** The bare file name, or the grants directory where that is the problem. */
  file: text,
  line: u64.nullable(),
  problem: text,
});
export type GrantProblem = z.infer<typeof GrantProblem>;
