/** The four tools and their arguments (specification 3, "What each tool takes"). Pure. */
import * as z from "zod";
import { text } from "./text.ts";

export const TOOL_NAMES = ["read_file", "write_file", "shell", "http_fetch"] as const;
export const ToolName = z.enum(TOOL_NAMES);
export type ToolName = z.infer<typeof ToolName>;

/**
 * The shape of each tool's arguments. The form of paths and URLs is the broker's to check; the
 * descriptions are what the model reads.
 */
export const TOOL_ARGUMENTS = {
  read_file: z.strictObject({
    path: text.describe("Absolute path of the file"),
  }).describe("Read a text file"),
  write_file: z.strictObject({
    path: text.describe("Absolute path of the file"),
    content: text.describe("The whole new content of the file"),
  }).describe("Create a file or replace its content"),
  shell: z.strictObject({
    command: text.describe("The command line"),
    cwd: text.optional().describe("Absolute path of the directory to run in; leave out for none"),
  }).describe("Run a shell command"),
  http_fetch: z.strictObject({
    url: text.describe("An https:// URL with a host name"),
  }).describe("Fetch a page over https"),
} as const satisfies Record<ToolName, z.ZodType>;

/** A tool's arguments with their tool: what a call asks for, once its form is checked. */
export type ToolArgs = {
  [T in ToolName]: { readonly tool: T } & Readonly<z.infer<(typeof TOOL_ARGUMENTS)[T]>>;
}[ToolName];

/** How sensitive data is: `public` < `private` < `secret` (contracts, preamble). */
export const DATA_CLASSES = ["public", "private", "secret"] as const;
export const DataClass = z.enum(DATA_CLASSES);
export type DataClass = z.infer<typeof DataClass>;

/** The higher of two classes. */
export function higherClass(a: DataClass, b: DataClass): DataClass {
  return isAbove(a, b) ? a : b;
}

/** Whether `a` is more sensitive than `b`. */
export function isAbove(a: DataClass, b: DataClass): boolean {
  return DATA_CLASSES.indexOf(a) > DATA_CLASSES.indexOf(b);
}
