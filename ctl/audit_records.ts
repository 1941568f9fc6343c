/**
 * The records of an audit log for commands that look calls up and cannot do without one: a log that cannot be
 * read is an error. Whether it is whole is for `bxctl audit verify` to say.
 */
import type { AuditRecord } from "../proto/audit.ts";
import { utf8 } from "../proto/text.ts";
import { LogReader, type ReaderOptions } from "./audit_reader.ts";
import { Failed, notices } from "./notices.ts";

const COMMA = 0x2c;
/** In a record's one form, from the comma after `seq` to the name of its type, in bytes. */
const TO_TYPE = `,"time":"","prev":"","event":{"type":"`.length + 24 + 64;
const NO_DECISIONS = [utf8('approval"'), utf8('result"')];

/**
 * Whether a line has to be parsed to find the decisions: all but what begins as an approval or a result,
 * which are the half of a usual log.
 */
export function mayBeDecision(line: Uint8Array): boolean {
  const at = line.indexOf(COMMA) + TO_TYPE;
  return !NO_DECISIONS.some((type) => type.every((byte, index) => line[at + index] === byte));
}

/**
 * Hands each record of the log in `directory` to `take`, in order, until that gives true. Returns how many
 * lines were no records. Throws `Failed` where the log cannot be read.
 */
export function eachRecord(
  directory: string,
  take: (record: AuditRecord) => boolean | void,
  options: ReaderOptions = {},
): number {
  using reader = new LogReader(directory, options);
  for (const record of reader.more()) {
    if (take(record) === true) break;
  }
  const { problem, unparsed } = reader;
  if (problem === null) return unparsed;
  throw new Failed("log_unreadable", notices.logUnreadable(problem.path, problem.why));
}
