/** TOML files of the owner: configuration and grants. Errors name the line. Pure. */
import { parse, TomlError } from "smol-toml";
import * as z from "zod";

export interface TomlProblem {
  /** 1-based; null where the problem has no line of its own, as a missing key. */
  readonly line: number | null;
  readonly problem: string;
}

export type TomlResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problems: readonly TomlProblem[] };

/** Reads `content` as `schema`. Unknown keys, wrong types and a byte-order mark are problems. */
export function readToml<T>(schema: z.ZodType<T>, content: string): TomlResult<T> {
  const bad = (line: number | null, problem: string): TomlResult<T> => ({
    ok: false,
    problems: [{ line, problem }],
  });
  if (content.startsWith("\ufeff")) return bad(1, "starts with a byte-order mark");
  let table: unknown;
  try {
    table = parse(content);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const summary = error.message.split("\n")[0] ?? "";
    return bad(error.line, summary.replace(/^Invalid TOML document: /, "not valid TOML: "));
  }
  const result = schema.safeParse(table);
  if (result.success) return { ok: true, value: result.data };
  return {
    ok: false,
    problems: result.error.issues.flatMap((issue) => problemsOf(issue, content)),
  };
}

function problemsOf(issue: z.core.$ZodIssue, content: string): TomlProblem[] {
  const path = issue.path.map(String);
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({
      line: lineOfKey(content, [...path, key]),
      problem: `unknown key ${[...path, key].join(".")}`,
    }));
  }
  const line = lineOfKey(content, path);
  const missing = issue.code === "invalid_type" && line === null && path.length > 0;
  return [{
    line,
    problem: missing ? `${path.join(".")} is missing` : `${path.join(".")}: ${issue.message}`,
  }];
}

/**
 * The line where the key `path` of valid TOML stands, or null. The parser does not tell; this reading
 * of plain `key =`, `a.key =` and `[table]` lines is for messages only.
 */
export function lineOfKey(content: string, path: readonly string[]): number | null {
  const wanted = path.filter((part) => !/^\d+$/.test(part)).join(".");
  if (wanted === "") return null;
  let table = "";
  for (const [index, line] of content.split("\n").entries()) {
    const header = /^\s*\[\[?\s*([^\]]+?)\s*\]/.exec(line);
    const key = /^\s*([\w."'-]+(?:\s*\.\s*[\w"'-]+)*)\s*=/.exec(line);
    const name = (header ?? key)?.[1]?.replace(/["'\s]/g, "");
    if (name === undefined) continue;
    if (header) table = name;
    const full = header || table === "" ? name : `${table}.${name}`;
    if (full === wanted || wanted.startsWith(`${full}.`) && !header) return index + 1;
  }
  return null;
}
