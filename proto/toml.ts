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
  const statements = statementsOf(content);
  return {
    ok: false,
    problems: result.error.issues.flatMap((issue) => problemsOf(issue, statements, table)),
  };
}

function problemsOf(
  issue: z.core.$ZodIssue,
  statements: readonly Statement[],
  table: unknown,
): TomlProblem[] {
  const name = issue.path.join(".");
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({
      line: lineIn(statements, [...issue.path, key]),
      problem: `unknown key ${[...issue.path, key].join(".")}`,
    }));
  }
  if (valueAt(table, issue.path) === undefined) {
    return [{ line: null, problem: `${name} is missing` }];
  }
  return [{ line: lineIn(statements, issue.path), problem: `${name}: ${inWords(issue.message)}` }];
}

function valueAt(table: unknown, path: readonly PropertyKey[]): unknown {
  let value = table;
  for (const part of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = Object.getOwnPropertyDescriptor(value, part)?.value;
  }
  return value;
}

/** A message of the schema in the words of TOML. */
function inWords(message: string): string {
  return message.replace(/^Invalid (?:input|option): /, "")
    .replace(/\bobject\b/, "table")
    .replace("TomlDate", "a date without quotes");
}

/** The line of the statement of valid TOML that gives the key `path` its value, or null. */
export function lineOfKey(content: string, path: readonly string[]): number | null {
  return lineIn(statementsOf(content), path);
}

/** A `[table]` header or a `key = value`, with its whole path. */
interface Statement {
  readonly keys: readonly string[];
  readonly header: boolean;
  readonly line: number;
}

/** Numbers in `path` count the elements of an array, and are passed over. */
function lineIn(statements: readonly Statement[], path: readonly PropertyKey[]): number | null {
  const wanted = path.filter((part) => typeof part === "string");
  // A header with fewer keys gives no value; a `key = value` may give a table that holds the rest.
  const found = statements.find(({ keys, header }) =>
    (keys.length >= wanted.length || !header) &&
    keys.every((key, index) => index >= wanted.length || key === wanted[index])
  );
  return wanted.length === 0 ? null : found?.line ?? null;
}

const TOKEN =
  /"""(?:[^\\]|\\[^])*?"{3,5}|'''[^]*?'{3,5}|"(?:[^"\\]|\\.)*"|'[^']*'|#[^\n]*|[\w-]+|\S|\n/g;

/** The statements of valid TOML, in order. The parser does not tell their lines. */
function statementsOf(content: string): Statement[] {
  const found: Statement[] = [];
  let table: string[] = [];
  let keys: string[] = [];
  let inValue = false;
  let open = 0;
  let line = 1;
  for (const [token] of content.matchAll(TOKEN)) {
    if (token === "[" || token === "{") open += 1;
    if (token === "]" || token === "}") open -= 1;
    if (inValue) {
      inValue = token !== "\n" || open > 0;
    } else if (token === "]" || token === "=") {
      const header = token === "]";
      const path: string[] = header ? keys : [...table, ...keys];
      if (header) table = path;
      found.push({ keys: path, header, line });
      keys = [];
      inValue = true;
    } else if (/^["'\w-]/.test(token)) {
      keys.push(nameOf(token));
    }
    line += token.split("\n").length - 1;
  }
  return found;
}

/** The key that `token` writes, bare or quoted. */
function nameOf(token: string): string {
  return /^["']/.test(token) ? Object.keys(parse(`${token} = 0`))[0] ?? "" : token;
}
