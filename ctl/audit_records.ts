/**
 * The records of an audit log, for commands that look calls up. Lines are taken as they stand: whether the
 * log is whole is for `bxctl audit verify` to say. Holds a chunk and one line at a time.
 */
import { type AuditRecord, parseRecord } from "../proto/audit.ts";
import type { Timestamp } from "../proto/ids.ts";
import { utf8 } from "../proto/text.ts";
import { attempt, eachLine, namesIn } from "./audit_files.ts";
import { Failed, notices } from "./notices.ts";
import { type LineRead, unwatched } from "./progress.ts";

export interface RecordsOptions {
  /** Leaves out the records before this time. */
  readonly since?: Timestamp | null;
  /** Which lines are parsed at all; the others are passed over. */
  readonly wanted?: (line: Uint8Array) => boolean;
  /** Told of each line that was read. */
  readonly lineRead?: LineRead;
}

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
  { since = null, wanted = () => true, lineRead = unwatched }: RecordsOptions = {},
): number {
  let unreadable = 0;
  const names = got(directory, attempt(directory, () => namesIn(directory)));
  // A file has no records of a later day than its name: those start a new file.
  const first = since === null ? "" : since.slice(0, 10);
  for (const name of names.filter((name) => name.slice(0, 10) >= first)) {
    const path = `${directory}/${name}`;
    let done = false;
    const read = attempt(path, () =>
      eachLine(path, ({ bytes, ended, text }) => {
        lineRead(bytes.length + 1);
        if (!wanted(bytes)) return false;
        const record = text === null ? parseRecord(bytes) : parseRecord(bytes, text);
        // The last line may be one that brokerd is writing.
        if (record === null) unreadable += ended ? 1 : 0;
        else if (since === null || record.time >= since) done = take(record) === true;
        return done;
      }));
    got(path, read);
    if (done) break;
  }
  return unreadable;
}

function got<T>(path: string, read: ReturnType<typeof attempt<T>>): T {
  if (!read.ok) throw new Failed("log_unreadable", notices.logUnreadable(path, read.why));
  return read.value;
}
