/**
 * Reads every grant file at the start of every decision (specification 3, "Loading"). There is no
 * cache: a change applies to the next call.
 */
import { Buffer } from "node:buffer";
import type { GrantProblem } from "../proto/messages.ts";
import { type Files, readBounded } from "./files.ts";
import {
  type GrantSet,
  grantSetOf,
  type LoadedGrant,
  MAX_GRANT_BYTES,
  readGrant,
} from "./grant_rules.ts";

/** What a file's bytes came to. */
interface Read {
  readonly bytes: Uint8Array;
  readonly loaded: LoadedGrant | GrantProblem[];
}

/** How often a directory is read whose names change meanwhile, before that counts as a problem. */
const MAX_READINGS = 3;

/**
 * A reader of the grants in `directory`. Each call reads every file; what the same bytes under the same
 * name came to last time is not worked out again. Never throws: whatever cannot be read is a problem.
 */
export function grantReader(files: Files, directory: string): () => GrantSet {
  let last = new Map<string, Read>();

  function load(
    name: string,
    isFile: boolean,
    read: Map<string, Read>,
  ): LoadedGrant | GrantProblem[] {
    const invalid = (problem: string): GrantProblem[] => [{ file: name, line: null, problem }];
    try {
      const bytes = readBounded(files, `${directory}/${name}`, MAX_GRANT_BYTES, isFile);
      if (bytes === null) return invalid("is not a regular file");
      const before = last.get(name);
      const same = before !== undefined && Buffer.compare(before.bytes, bytes) === 0;
      const now = same ? before : { bytes: bytes.slice(), loaded: readGrant(name, bytes) };
      read.set(name, now);
      return now.loaded;
    } catch (error) {
      return invalid(`cannot be read: ${reason(error)}`);
    }
  }

  function readAll(): GrantSet {
    const read = new Map<string, Read>();
    // What stands under each name is known from the listing; only where a link leads is looked at.
    const isFile = new Map(files.list(directory).map(({ name, isFile }) => [name, isFile]));
    const set = grantSetOf(
      [...isFile.keys()],
      (name) => load(name, isFile.get(name) ?? false, read),
    );
    last = read;
    return set;
  }

  /** Which directory stands there, as it is now. */
  function state(): string {
    const found = files.stat(directory);
    return `${found?.identity} ${found?.modified}`;
  }

  const unusable = (why: string): GrantSet => {
    const problem = `the grants directory ${why}`;
    return { ok: false, problems: [{ file: directory, line: null, problem }] };
  };

  return () => {
    try {
      for (let reading = 0; reading < MAX_READINGS; reading += 1) {
        const before = state();
        const set = readAll();
        // A grant that was given another name meanwhile may have been read under neither.
        if (!set.ok || state() === before) return set;
      }
      return unusable("changes while it is read");
    } catch (error) {
      return unusable(`cannot be read: ${reason(error)}`);
    }
  };
}

/** Why an operation on a file failed, in a few words without the path. */
export function reason(error: unknown): string {
  if (!(error instanceof Error)) return "unknown error";
  if (!("code" in error) || typeof error.code !== "string") return error.message;
  const words: Readonly<Record<string, string>> = {
    ENOENT: "no such file or directory",
    EACCES: "permission denied",
    ENOTDIR: "not a directory",
    ELOOP: "too many symbolic links",
    EMFILE: "too many open files",
    EIO: "input/output error",
  };
  return words[error.code] ?? error.code;
}
