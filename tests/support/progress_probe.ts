/**
 * A program that verifies a log as `bxctl audit verify` does, with the streams of this process, and speaks of
 * it from the beginning: on a log that is small enough for a test nothing takes half a second.
 */
import { verifyLog } from "../../ctl/audit_files.ts";
import { reportLines } from "../../ctl/audit_verify.ts";
import { answerLines, PLAIN, realIo } from "../../ctl/io.ts";
import { watched } from "../../ctl/log_progress.ts";

if (import.meta.main) {
  const [directory = "", ...looks] = Deno.args;
  const io = realIo({ ...PLAIN, dumb: looks.includes("dumb") });
  const options = { delayMs: 0 };
  const report = watched(io, directory, "verifying the log", (lineRead) => {
    return verifyLog(directory, null, lineRead);
  }, options);
  answerLines(io, reportLines(report));
}
