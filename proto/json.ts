/**
 * Strict readings of JSON. `JSON.parse` alone keeps the last of two equal keys, lets lone surrogates
 * in and rounds integers; whatever crosses a boundary goes through one of the two readings here. Pure.
 */
import type * as z from "zod";

/**
 * Reads `text` as `schema`, accepting it only in the one form that `JSON.stringify` gives for the
 * schema's keys in order: no white space, no duplicate or unknown key, no other escape or number form
 * (contracts 2 and 5). Returns null for anything else.
 */
export function parseExact<T>(schema: z.ZodType<T>, text: string): T | null {
  try {
    const result = schema.safeParse(JSON.parse(text));
    return result.success && JSON.stringify(result.data) === text ? result.data : null;
  } catch {
    return null; // not JSON, or nested too deeply to be anything of ours
  }
}

/** The one byte form of `value`: its keys in the schema's order. Throws where it does not fit. */
export function formatExact<T>(schema: z.ZodType<T>, value: T): string {
  return JSON.stringify(schema.parse(value));
}

/**
 * Reads JSON written by somebody else: any white space and key order, but no duplicate key at any
 * depth and no string with a lone surrogate (contracts 3 and 8). Returns undefined for anything else. Give
 * it no more than some 1 MiB: a longer text keeps the process busy, see `TOKEN` too.
 */
export function parseStrict(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  return hasDuplicateKeyOrLoneSurrogate(text) ? undefined : value;
}

// A string with several million escapes is too much for the runtime's regular expressions: they throw.
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]/g;

/** `text` is valid JSON, so a string followed by `:` is a key and brackets match. */
function hasDuplicateKeyOrLoneSurrogate(text: string): boolean {
  /** The keys of each object; a list has none. */
  const open: (Set<string> | null)[] = [];
  let last: string | null = null;
  for (const token of text.match(TOKEN) ?? []) {
    if (token === "{" || token === "[") {
      open.push(token === "{" ? new Set() : null);
    } else if (token === "}" || token === "]") {
      open.pop();
    } else if (token === ":" && last !== null) {
      const keys = open.at(-1);
      if (keys?.has(last)) return true;
      keys?.add(last);
    }
    last = token.startsWith('"') ? (JSON.parse(token) as string) : null;
    if (last !== null && !last.isWellFormed()) return true;
  }
  return false;
}

/**
 * Whether `json` has more than `max` brackets and commas outside of its strings. Reading those costs a hundred
 * times what other characters do. What it says of what is not JSON means nothing.
 */
export function hasMoreMarks(json: string, max: number): boolean {
  let marks = 0;
  let inString = false;
  for (let at = 0; at < json.length; at += 1) {
    const character = json[at];
    if (character === '"') inString = !inString;
    else if (inString && character === "\\") at += 1;
    else if (!inString && (character === "," || character === "{" || character === "[")) marks += 1;
    if (marks > max) return true;
  }
  return false;
}
