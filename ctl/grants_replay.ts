/** `bxctl grants replay`: every call of the log against other grants, with what was known then. */
import { eachRecord, mayBeDecision } from "./audit_records.ts";
import { placed } from "./explained.ts";
import { readGrantFiles } from "./grants_files.ts";
import { answerJson, answerLines, type Io, type Status } from "./io.ts";
import { watched } from "./log_progress.ts";
import { notices } from "./notices.ts";
import type { Timestamp } from "../proto/ids.ts";
import { isDecided, Replay, replayLines } from "./replayed.ts";
import type { WhyPlaces } from "./why.ts";

/**
 * Decides every call of the log since `since` again by the grants of a directory, with the taint and the
 * time recorded, and prints which come out differently. Approvals are not replayed: an `ask` stays one.
 */
export function replayGrants(
  { audit, grants }: WhyPlaces,
  since: Timestamp | null,
  io: Io,
  json: boolean,
): Status {
  const { set } = readGrantFiles(grants);
  if (!set.ok) {
    const { problems } = set;
    if (json) answerJson(io, { problems });
    else answerLines(io, problems.map(({ file, line, problem }) => placed(file, line, problem)));
    io.tell(...notices.grantProblemsThere());
    return 1;
  }
  const replay = new Replay(set);
  const unreadable = watched(
    io,
    audit,
    "replaying the log",
    (lineRead) =>
      eachRecord(audit, (record) => {
        if (isDecided(record)) replay.add(record);
      }, { since, wanted: mayBeDecision, lineRead }),
    { since },
  );
  const report = replay.report();
  if (json) answerJson(io, { ...report, problems: [] });
  else answerLines(io, replayLines(report));
  if (unreadable > 0) io.tell(...notices.noRecords(unreadable));
  return 0;
}
