/** A grant file's fields (specification 3, "Files"; contracts 3). Pure. */
import * as z from "zod";
import { Timestamp } from "./ids.ts";
import { DataClass } from "./tools.ts";
import { text, u64 } from "./text.ts";

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
  constraints: Constraints.default({ paths: [], hosts: [], patterns: [] }),
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
