/** Long readings of the audit log, with a line on stderr that says how far they are. */
import type { Anchor } from "../proto/audit.ts";
import type { ChainReport } from "../proto/chain.ts";
import type { Timestamp } from "../proto/ids.ts";
import { attempt, namesIn, verifyLog } from "./audit_files.ts";
import type { Io } from "./io.ts";
import { type LineRead, Progress, unwatched } from "./progress.ts";

export interface WatchOptions {
  /** Files whose last day is before this time are not read. */
  readonly since?: Timestamp | null;
  /** See `Progress`. */
  readonly delayMs?: number;
}

/**
 * Gives what `read` gives, which reads the log in `directory` from its beginning and tells of each line. Where
 * stderr is a terminal and it takes long, that shows how far it is; `what` names it, as `verifying the log`.
 */
export function watched<T>(
  io: Io,
  directory: string,
  what: string,
  read: (lineRead: LineRead) => T,
  { since = null, delayMs }: WatchOptions = {},
): T {
  if (io.statusWidth === null) return read(unwatched);
  const progress = new Progress(io, { what, total: bytesIn(directory, since) }, delayMs);
  try {
    return read(progress.lineRead);
  } finally {
    progress.end();
  }
}

/** As `verifyLog`, watched. */
export function verifyWatched(io: Io, directory: string, expected: Anchor | null): ChainReport {
  const verify = (lineRead: LineRead) => verifyLog(directory, expected, lineRead);
  return watched(io, directory, "verifying the log", verify);
}

/** The bytes of the log from the day of `since` on; 0 where that cannot be found out. */
function bytesIn(directory: string, since: Timestamp | null): number {
  const first = since === null ? "" : since.slice(0, 10);
  const found = attempt(
    directory,
    () =>
      namesIn(directory).filter((name) => name.slice(0, 10) >= first)
        .reduce((bytes, name) => bytes + Deno.statSync(`${directory}/${name}`).size, 0),
  );
  return found.ok ? found.value : 0;
}
