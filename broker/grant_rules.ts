/** What makes a grant file valid (specification 3, "Loading"; contracts 3 and 8). Pure. */
import { Grant } from "../proto/grants.ts";
import { GrantId, type Hash32, sha256 } from "../proto/ids.ts";
import type { GrantProblem } from "../proto/messages.ts";
import { fromUtf8 } from "../proto/text.ts";
import { TOOL_NAMES, ToolName } from "../proto/tools.ts";
import { lineOfKey, readToml } from "../proto/toml.ts";
import { hostPatternProblem, hostProblem } from "./hosts.ts";
import { pathProblem } from "./paths.ts";

/** The largest grant file, in bytes. */
export const MAX_GRANT_BYTES = 64 * 1024;

/** A valid grant with where it came from. */
export interface LoadedGrant extends Omit<Grant, "tool" | "secret"> {
  readonly id: GrantId;
  readonly tool: ToolName;
  /** Hash of the grant's file. */
  readonly sha256: Hash32;
}

/** All grants, or what is wrong: one invalid file makes the whole set invalid. */
export type GrantSet =
  | { readonly ok: true; readonly grants: readonly LoadedGrant[] }
  | { readonly ok: false; readonly problems: readonly GrantProblem[] };

const NEEDED = {
  read_file: { paths: "required", hosts: "none" },
  write_file: { paths: "required", hosts: "none" },
  shell: { paths: "optional", hosts: "none" },
  http_fetch: { paths: "none", hosts: "required" },
} as const satisfies Record<
  ToolName,
  Record<"paths" | "hosts", "required" | "optional" | "none">
>;

/** The grants of `names`, or every problem that `load` finds in them. Other files than `.toml` do not count. */
export function grantSetOf(
  names: readonly string[],
  load: (name: string) => LoadedGrant | GrantProblem[],
): GrantSet {
  const grants: LoadedGrant[] = [];
  const problems: GrantProblem[] = [];
  for (const name of names.filter((name) => name.endsWith(".toml"))) {
    const loaded = load(name);
    if (Array.isArray(loaded)) problems.push(...loaded);
    else grants.push(loaded);
  }
  return problems.length === 0 ? { ok: true, grants } : { ok: false, problems };
}

/** Reads the grant in `file` (its bare name, ending in `.toml`) from its bytes. */
export function readGrant(file: string, bytes: Uint8Array): LoadedGrant | GrantProblem[] {
  const problems: GrantProblem[] = [];
  const found = (line: number | null, problem: string) => problems.push({ file, line, problem });

  const id = GrantId.safeParse(file.slice(0, -".toml".length));
  if (!id.success) found(null, "the name before .toml must be 1 to 64 of a-z, 0-9 and -");
  if (bytes.length > MAX_GRANT_BYTES) {
    found(null, "is larger than 64 KiB");
    return problems;
  }
  const content = fromUtf8(bytes);
  if (content === null) {
    found(null, "is not UTF-8");
    return problems;
  }
  const parsed = readToml(Grant, content);
  if (!parsed.ok) {
    for (const { line, problem } of parsed.problems) found(line, problem);
    return problems;
  }
  const { secret, ...grant } = parsed.value;
  // Found once for each key: a file may hold thousands of bad paths.
  const lines = new Map<string, number | null>();
  const at = (...path: string[]) => {
    const key = path.join(".");
    const line = lines.get(key) ?? lineOfKey(content, path);
    lines.set(key, line);
    return line;
  };

  const tool = ToolName.safeParse(grant.tool);
  if (!tool.success) found(at("tool"), `tool is not one of ${TOOL_NAMES.join(", ")}`);
  if (secret !== undefined) found(at("secret"), "secrets are not supported until M4");
  const { paths, hosts, patterns } = grant.constraints;
  if (patterns.length > 0) found(at("constraints", "patterns"), "patterns are not supported");
  if (tool.success) {
    for (const [name, values] of [["paths", paths], ["hosts", hosts]] as const) {
      const need = NEEDED[tool.data][name];
      if (need === "required" && values.length === 0) {
        found(at("constraints", name), `${tool.data} needs ${name} in [constraints]`);
      }
      if (need === "none" && values.length > 0) {
        found(at("constraints", name), `${tool.data} takes no ${name}`);
      }
    }
  }
  for (const path of paths) {
    const problem = pathProblem(path);
    if (problem !== null) found(at("constraints", "paths"), `path ${quote(path)} ${problem}`);
  }
  for (const host of hosts) {
    const problem = hostPatternProblem(host);
    if (problem !== null) found(at("constraints", "hosts"), `host ${quote(host)} ${problem}`);
  }
  if (tool.success) {
    for (const [key, problem] of rememberedProblems(grant, tool.data)) {
      found(key === null ? at("remembered") : at(...key), problem);
    }
  }
  if (!id.success || !tool.success || problems.length > 0) return problems;
  for (const part of [paths, hosts, patterns, grant.constraints, grant.remembered]) {
    Object.freeze(part);
  }
  return Object.freeze({ ...grant, id: id.data, tool: tool.data, sha256: sha256(bytes) });
}

/**
 * What is wrong with the table `[remembered]` of a grant of `tool`, each with its key (decision 110): it
 * must end, and cover one place of one tool.
 */
function rememberedProblems(
  { mode, expires, remembered, constraints: { hosts } }: Omit<Grant, "tool" | "secret">,
  tool: ToolName,
): (readonly [key: readonly string[] | null, problem: string])[] {
  if (remembered === null) return [];
  const { grant, path } = remembered;
  const found: (readonly [key: readonly string[] | null, problem: string])[] = [];
  if (mode !== "auto") found.push([["mode"], "a grant with [remembered] has the mode auto"]);
  if (expires === null) found.push([null, "a grant with [remembered] needs expires"]);
  if (!GrantId.safeParse(grant).success) {
    found.push([["remembered", "grant"], `${quote(grant)} is not the name of a grant`]);
  }
  if (tool === "http_fetch") {
    if (path !== undefined) found.push([["remembered", "path"], "http_fetch takes no path"]);
    const [host = "", ...more] = hosts;
    if (more.length > 0 || hostProblem(host) !== null) {
      found.push([
        ["constraints", "hosts"],
        "a grant with [remembered] covers one host, without *",
      ]);
    }
  } else if (path === undefined) {
    found.push([null, `${tool} needs path in [remembered]`]);
  } else {
    const problem = pathProblem(path);
    if (problem !== null) found.push([["remembered", "path"], `path ${quote(path)} ${problem}`]);
  }
  return found;
}

/** A value of the owner's in a message, short enough to read: 200 characters at most. */
export function quote(value: string): string {
  const most = 200;
  const characters = [...value];
  const shown = JSON.stringify(characters.slice(0, most).join(""));
  return characters.length <= most ? shown : `${shown} (of ${characters.length} characters)`;
}
