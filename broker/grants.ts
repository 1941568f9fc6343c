/**
 * Reads every grant file at the start of every decision (specification 3, "Loading"). There is no
 * cache: a change applies to the next call.
 */
import type { GrantProblem } from "../proto/messages.ts";
import { type Files, readBounded } from "./files.ts";
import { type GrantSet, type LoadedGrant, MAX_GRANT_BYTES, readGrant } from "./grant_rules.ts";

/** The grants in `directory`. Never throws: whatever cannot be read is a problem. */
export function loadGrants(files: Files, directory: string): GrantSet {
  let names: string[];
  try {
    names = files.list(directory).filter((name) => name.endsWith(".toml"));
  } catch (error) {
    const why = files.stat(directory) === null ? "no such directory" : reason(error);
    const problem = `the grants directory cannot be read: ${why}`;
    return { ok: false, problems: [{ file: directory, line: null, problem }] };
  }
  const grants: LoadedGrant[] = [];
  const problems: GrantProblem[] = [];
  for (const name of names) {
    const loaded = loadGrant(files, directory, name);
    if (Array.isArray(loaded)) problems.push(...loaded);
    else grants.push(loaded);
  }
  return problems.length === 0 ? { ok: true, grants } : { ok: false, problems };
}

function loadGrant(files: Files, directory: string, name: string): LoadedGrant | GrantProblem[] {
  const invalid = (problem: string): GrantProblem[] => [{ file: name, line: null, problem }];
  try {
    const bytes = readBounded(files, `${directory}/${name}`, MAX_GRANT_BYTES);
    return bytes === null ? invalid("is not a regular file") : readGrant(name, bytes);
  } catch (error) {
    return invalid(`cannot be read: ${reason(error)}`);
  }
}

/** Why an operation on a file failed, in the system's words without the path. */
export function reason(error: unknown): string {
  if (!(error instanceof Error)) return "unknown error";
  return "code" in error && typeof error.code === "string" ? error.code : error.name;
}
