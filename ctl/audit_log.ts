/** `bxctl audit log`: the calls of the log, a line each. Needs no daemon. */
import { pause } from "../proto/io/pace.ts";
import {
  type Call,
  CallBook,
  type CallFilter,
  callJson,
  callLine,
  matches,
} from "./audit_calls.ts";
import { LogReader } from "./audit_reader.ts";
import { cut } from "./fit.ts";
import { answerJson, type Io, type Status } from "./io.ts";
import { verifyWatched } from "./log_progress.ts";
import { notices } from "./notices.ts";

/** How often a log that is followed is looked at, in milliseconds. */
const LOOK_MS = 250;
/** After so many records a stop is listened for. */
const RECORDS_AT_ONCE = 1000;

/**
 * Prints the calls of the log in `directory` that `filter` means, in the order in which they ended; those
 * that have not ended come last. With `stop` it goes on with what is written until that comes, and tells of
 * the first place that it cannot read: its owner would wait for calls that are never shown.
 */
export async function listCalls(
  directory: string,
  filter: CallFilter,
  io: Io,
  json: boolean,
  stop: AbortSignal | null,
): Promise<Status> {
  const { failure } = verifyWatched(io, directory, null);
  if (failure !== null) io.tell(...notices.shownBroken(failure));
  using reader = new LogReader(directory);
  const book = new CallBook();
  const print = (call: Call) => {
    if (!matches(call, filter)) return;
    if (json) answerJson(io, callJson(call));
    else io.answer(`${cut(callLine(call), io.width)}\n`);
  };
  let records = 0;
  // What was wrong before has been told, in the words of the verification.
  let told = failure !== null;
  while (true) {
    for (const record of reader.more()) {
      book.take(record).forEach(print);
      records += 1;
      if (stop === null || records % RECORDS_AT_ONCE !== 0) continue;
      await pause(0);
      if (stop.aborted) break;
    }
    const { problem } = reader;
    if (!told && problem !== null) {
      told = true;
      io.tell(...notices.logUnreadable(problem.path, problem.why));
    }
    if (stop === null || stop.aborted) break;
    await pause(LOOK_MS);
  }
  book.open().forEach(print);
  return told ? 1 : 0;
}
