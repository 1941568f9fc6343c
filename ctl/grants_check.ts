/** `bxctl grants check` (specification 9). */
import type { Admin } from "./admin.ts";
import { placed } from "./explained.ts";
import { type GrantWarning, grantWarnings } from "./grant_warnings.ts";
import { isMissing, usableGrants } from "./grants_files.ts";
import { answerJson, answerLines, type Io, type Status } from "./io.ts";
import { notices } from "./notices.ts";

/**
 * Prints what is wrong with the grant files, as brokerd reads them now, and what is valid in the files of
 * `directory` but may surprise. A warning changes no status: where the files cannot be read here, as for a
 * bxctl whose lock is without them, that is said, and `warnings` is null.
 */
export async function checkGrants(
  admin: Admin,
  directory: string,
  io: Io,
  json: boolean,
): Promise<Status> {
  const problems = await admin.checkGrants();
  const warnings = warningsIn(directory, io);
  if (json) answerJson(io, { problems, warnings });
  else {
    const lines = [
      ...problems.length === 0 ? ["grants: ok"] : [],
      ...problems.map(({ file, line, problem }) => placed(file, line, problem)),
      ...(warnings ?? []).map(({ file, line, warning }) =>
        placed(file, line, `warning: ${warning}`)
      ),
    ];
    answerLines(io, lines);
  }
  if (problems.length === 0) return 0;
  io.tell(...notices.grantProblems());
  return 1;
}

/** Null where the grants cannot be read here, or are invalid: brokerd's answer says how. */
function warningsIn(directory: string, io: Io): GrantWarning[] | null {
  const found = usableGrants(directory);
  if (!("problem" in found)) {
    return grantWarnings(found.grants, io.now(), found.lineOf, isSeenMissing);
  }
  io.tell(...notices.notWarned(found.problem));
  return null;
}

/** Whether this process was given leave to see that nothing is at `path`. */
function isSeenMissing(path: string): boolean {
  const { state } = Deno.permissions.querySync({ name: "read", path });
  return state === "granted" && isMissing(path);
}
