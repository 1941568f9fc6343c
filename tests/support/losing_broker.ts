/** The real decision path of one broker process, over files that may lose things. */
import { AuditLog, type Started } from "../../broker/audit_log.ts";
import { grantReader } from "../../broker/grants.ts";
import { makeNotices } from "../../broker/notices.ts";
import { Pipeline } from "../../broker/pipeline.ts";
import { SessionStates } from "../../broker/state.ts";
import { HeldRuntime, type Run } from "./decision_path.ts";
import { LosingFiles } from "./losing_files.ts";

export const AUDIT = "/home/audit";
export const STATES = "/home/broker/sessions";
export const GRANTS = "/home/grants";
/** How long an approval waits, in milliseconds. */
export const TTL_MS = 60_000;

/** A disk with the broker's directories, which are there whatever happens. */
export function newDisk(): LosingFiles {
  const files = new LosingFiles();
  for (const path of [AUDIT, STATES, GRANTS]) files.makeDirectory(path);
  for (const path of ["/", "/home", "/home/broker"]) files.syncDirectory(path);
  return files;
}

/**
 * Starts a broker. `begun` is told of each run as it begins; no run ends by itself. Throws as the log
 * does where it cannot be opened.
 */
export function startOn(
  files: LosingFiles,
  now: () => number,
  begun: (run: Run) => void,
): { readonly started: Started; readonly pipeline: Pipeline } {
  const held = new HeldRuntime();
  held.outcome = null;
  const notices = makeNotices(() => {});
  const audit = new AuditLog(files, AUDIT, now, notices);
  const pipeline = new Pipeline({
    audit,
    states: new SessionStates(files, STATES),
    grants: grantReader(files, GRANTS),
    runtime: {
      run(spec) {
        const outcome = held.run(spec);
        for (const run of held.runs.splice(0)) begun(run);
        return outcome;
      },
    },
    ...{ notices, now, ttlMs: TTL_MS },
  });
  return { started: audit.start(false), pipeline };
}
