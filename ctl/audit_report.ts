/** `bxctl audit report --out FILE`: a page about what happened. Needs no daemon. */
import { display } from "../proto/escape.ts";
import { type Timestamp, timestamp } from "../proto/ids.ts";
import { utf8 } from "../proto/text.ts";
import { type Call, CallBook } from "./audit_calls.ts";
import { type GrantsFound, type PageContent, reportPage } from "./audit_page.ts";
import { LogReader } from "./audit_reader.ts";
import { AuditSummary } from "./audit_summary.ts";
import { counted } from "./explained.ts";
import { usableGrants } from "./grants_files.ts";
import { answerJson, type Io, type Status } from "./io.ts";
import { verifyWatched, watched } from "./log_progress.ts";
import { notices, pageNotWritten } from "./notices.ts";
import type { LineRead } from "./progress.ts";
import type { WhyPlaces } from "./why.ts";

/** Where the log and the grants are, and the one file that is written. */
export interface ReportPlaces extends WhyPlaces {
  readonly out: string;
}

/**
 * Writes the page about the calls of the log that were decided at `since` or later. The file must not be
 * there yet: nothing is ever overwritten. Throws `Failed` where it cannot be written.
 */
export function writeReport(
  { audit, grants, out }: ReportPlaces,
  since: Timestamp | null,
  io: Io,
  json: boolean,
): Status {
  // Before the long reading, so that a wrong place is told at once. The file does not stay meanwhile: a
  // Ctrl-C would leave it empty and in the way of the next report.
  new NewFile(out).remove();
  const { failure } = verifyWatched(io, audit, null);
  const summary = watched(
    io,
    audit,
    "reading the log",
    (lineRead) => summaryOf(audit, since, lineRead),
  );
  const made = timestamp(io.now());
  writePage(out, { summary, since, made, failure, grants: findGrants(grants) });
  if (failure !== null) io.tell(...notices.shownBroken(failure));
  const { calls, sessions: { size: sessions } } = summary;
  if (json) answerJson(io, { file: out, calls, sessions, failure });
  else {
    const what = `${counted(calls, "call")} in ${counted(sessions, "session")}`;
    io.answer(`wrote ${display(out)}: ${what}\n`);
  }
  return failure === null ? 0 : 1;
}

function writePage(out: string, content: PageContent): void {
  const file = new NewFile(out);
  try {
    for (const piece of reportPage(content)) file.write(piece);
    file.close();
  } catch (error) {
    file.remove();
    throw error;
  }
}

function summaryOf(
  directory: string,
  since: Timestamp | null,
  lineRead: LineRead,
): AuditSummary {
  const summary = new AuditSummary();
  const book = new CallBook();
  const add = (call: Call) => {
    if (since === null || call.time >= since) summary.add(call);
  };
  using reader = new LogReader(directory, { lineRead });
  for (const record of reader.more()) book.take(record).forEach(add);
  book.open().forEach(add);
  return summary;
}

/** The grants of `directory` by their names; where they cannot be used the page says so. */
function findGrants(directory: string): GrantsFound {
  const found = usableGrants(directory);
  if ("problem" in found) return found;
  return { ids: found.grants.map(({ id }) => display(id)).sort() };
}

/** What is written at once, in characters. */
const PIECE = 64 * 1024;

/** A file that was not there before, for its owner's eyes only. Its methods throw `Failed`. */
class NewFile {
  readonly #path: string;
  readonly #file: Deno.FsFile;
  #waiting = "";

  constructor(path: string) {
    this.#path = path;
    const options = { write: true, createNew: true, mode: 0o600 } as const;
    this.#file = this.#attempt(() => Deno.openSync(path, options));
  }

  write(text: string): void {
    this.#waiting += text;
    if (this.#waiting.length >= PIECE) this.#flush();
  }

  close(): void {
    this.#flush();
    this.#file.close();
  }

  /** Takes the file away again. */
  remove(): void {
    try {
      this.#file.close();
      Deno.removeSync(this.#path);
    } catch {
      // what is left of it is told by the error that came before
    }
  }

  #flush(): void {
    const bytes = utf8(this.#waiting);
    this.#waiting = "";
    this.#attempt(() => {
      for (let at = 0; at < bytes.length;) at += this.#file.writeSync(bytes.subarray(at));
    });
  }

  #attempt<T>(run: () => T): T {
    try {
      return run();
    } catch (error) {
      throw pageNotWritten(this.#path, error);
    }
  }
}
