/**
 * The grant files as bxctl reads them for the commands that explain (architecture, "What each process may
 * touch"): with brokerd's rules, once, and for the owner to look at. What decides is what brokerd reads.
 */
import {
  type GrantSet,
  grantSetOf,
  type LoadedGrant,
  MAX_GRANT_BYTES,
  readGrant,
} from "../broker/grant_rules.ts";
import type { LineOf } from "../broker/explain.ts";
import { isInside } from "../broker/paths.ts";
import { readRegularFile } from "../proto/io/regular_file.ts";
import type { GrantProblem } from "../proto/messages.ts";
import { unlockablePath } from "../proto/locks.ts";
import { fromUtf8 } from "../proto/text.ts";
import { lineOfKey } from "../proto/toml.ts";
import { placed } from "./explained.ts";
import { Failed, grantsUnusable, messageOf, notAllowedGrants } from "./notices.ts";

/** All grants of a directory, with the lines of their files. */
export interface GrantFiles {
  readonly set: GrantSet;
  /** The valid ones, whatever is wrong with others. They decide nothing while one is not. */
  readonly valid: readonly LoadedGrant[];
  readonly lineOf: LineOf;
}

/**
 * Reads the grants in `directory`, each file once. What cannot be read is a problem of the set. Throws
 * `Failed` where this process lacks the permission to read it.
 */
export function readGrantFiles(directory: string): GrantFiles {
  const texts = new Map<string, string>();
  const valid: LoadedGrant[] = [];
  const load = (file: string): LoadedGrant | GrantProblem[] => {
    const invalid = (problem: string) => [{ file, line: null, problem }];
    try {
      const bytes = readRegularFile(`${directory}/${file}`, MAX_GRANT_BYTES);
      if (bytes === null) return invalid("is not a regular file");
      const loaded = readGrant(file, bytes);
      if (!Array.isArray(loaded)) {
        texts.set(loaded.id, fromUtf8(bytes) ?? "");
        valid.push(loaded);
      }
      return loaded;
    } catch (error) {
      if (error instanceof Deno.errors.NotCapable) throw notAllowedGrants(directory);
      return invalid(`cannot be read: ${messageOf(error)}`);
    }
  };
  const lineOf: LineOf = ({ id }, key) => lineOfKey(texts.get(id) ?? "", key);
  let names: string[];
  try {
    names = [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw notAllowedGrants(directory);
    const problem = `the grants directory cannot be read: ${messageOf(error)}`;
    const set = { ok: false, problems: [{ file: directory, line: null, problem }] } as const;
    return { set, valid, lineOf };
  }
  return { set: grantSetOf(names, load), valid, lineOf };
}

/** Valid grants; or why there are none to be used, in words for their owner. */
export type UsableGrants =
  | { readonly grants: readonly LoadedGrant[]; readonly lineOf: LineOf }
  | { readonly problem: string };

/** The grants in `directory`, for a command that goes on without them where they cannot be read or used. */
export function usableGrants(directory: string): UsableGrants {
  try {
    const { set, lineOf } = readGrantFiles(directory);
    if (set.ok) return { grants: set.grants, lineOf };
    const [first] = set.problems.map(({ file, line, problem }) => placed(file, line, problem));
    return { problem: grantsUnusable(directory, first ?? "") };
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    return { problem: grantsUnusable(directory, error.lines.join("; ")) };
  }
}

/** Whether nothing is at `path`, as far as this process may know: what cannot be looked at may be there. */
export function isMissing(path: string): boolean {
  try {
    Deno.statSync(path);
    return false;
  } catch (error) {
    return error instanceof Deno.errors.NotFound;
  }
}

/**
 * The paths outside of `home` that the grants in `directory` name and that are missing. For the launcher:
 * leave to read these gives `grants check` nothing to read, and lets it see that they are missing.
 */
export function missingPaths(directory: string, home: string): string[] {
  const found = usableGrants(directory);
  if ("problem" in found) return [];
  const paths = new Set(found.grants.flatMap(({ constraints }) => constraints.paths));
  return [...paths].filter((path) =>
    unlockablePath(path) === null && !isInside(home, path) && isMissing(path)
  );
}
