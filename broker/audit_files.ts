/** Reading the audit directory (contracts 5, items 5, 8 and 9). Writes nothing. */
import {
  type Anchor,
  HEAD_BYTES,
  isAuditFileName,
  parseHead,
  parseRecord,
} from "../proto/audit.ts";
import {
  type ChainEnd,
  type ChainFailure,
  type ChainReport,
  ChainVerifier,
  type ResumePoint,
} from "../proto/chain.ts";
import { sha256 } from "../proto/ids.ts";
import { type ChunkLine, LineSplitter } from "../proto/lines.ts";
import { asciiText } from "../proto/text.ts";
import { type Files, type OpenFile, readBounded } from "./files.ts";
import { reason } from "./grants.ts";

const CHUNK_BYTES = 1024 * 1024;
const LEAST_CHUNK_BYTES = 16 * 1024;
const NEWLINE = 0x0a;

/** What a look at the log found. */
export interface Inspection {
  readonly report: ChainReport;
  readonly end: ChainEnd;
  /** The newest file of the log, empty or not; null when there is none. */
  readonly newest: string | null;
  readonly head: Anchor | null;
}

/** What `head.json` says, or null where it is missing or not exactly as brokerd writes it. */
export function readHead(files: Files, directory: string): Anchor | null {
  try {
    const bytes = readBounded(files, `${directory}/head.json`, HEAD_BYTES);
    return bytes === null ? null : parseHead(bytes);
  } catch {
    return null; // no check, and `not anchored` says so
  }
}

/**
 * Verifies the newest file of the log that is not empty, from the last line of the one before it, or
 * with `whole` every file; `anchored`: against `head.json` too; `expected`: against
 * a record that the caller knows. A file that cannot be read is a failure
 * of line 0. Throws as the runtime does where the directory cannot be read.
 */
export function inspect(
  files: Files,
  directory: string,
  { whole, anchored, expected }: {
    readonly whole: boolean;
    readonly anchored: boolean;
    readonly expected: Anchor | null;
  },
): Inspection {
  const head = readHead(files, directory);
  const names = files.list(directory).map(({ name }) => name).filter(isAuditFileName);
  const newest = names.at(-1) ?? null;
  const filled: string[] = [];
  for (const name of names) {
    const failure = unreadable(files, directory, name);
    if (failure !== null) return failed(failure, newest, head);
    if ((files.stat(`${directory}/${name}`)?.size ?? 0) > 0) filled.push(name);
  }
  const anchors = { head: anchored ? head : null, expected };
  const before = whole ? undefined : filled.at(-2);
  const resume = before === undefined ? null : resumePoint(files, directory, before);
  // What the caller wrote must be seen, further back too.
  if (resume !== null && expected !== null && !isSeenFrom(resume, expected)) {
    return inspect(files, directory, { whole: true, anchored, expected });
  }
  const verifier = new ChainVerifier(anchors, resume);
  for (const name of resume === null ? names : filled.slice(-1)) {
    verifier.file(name);
    eachLine(files, `${directory}/${name}`, ({ bytes, ended, text }) => {
      verifier.line(bytes, ended, text);
    });
  }
  const report = verifier.finish();
  return { report, end: verifier.end(), newest, head };
}

/** Whether a verification that resumes there holds the log against `expected`. */
function isSeenFrom({ nextSeq, prev }: ResumePoint, expected: Anchor): boolean {
  return expected.seq >= nextSeq || expected.seq === nextSeq - 1 && expected.hash === prev;
}

/** Why a file of the log cannot be read at all, as a failure that concerns no line, or null. */
function unreadable(files: Files, directory: string, name: string): ChainFailure | null {
  const path = `${directory}/${name}`;
  try {
    if (!files.stat(path)?.isFile) return { file: name, line: 0, what: "is not a regular file" };
    files.openRead(path).close();
    return null;
  } catch (error) {
    return { file: name, line: 0, what: `cannot be read: ${reason(error)}` };
  }
}

function failed(failure: ChainFailure, newest: string | null, head: Anchor | null): Inspection {
  const verifier = new ChainVerifier({ head, expected: null }, { nextSeq: 0, prev: "", failure });
  return { report: verifier.finish(), end: verifier.end(), newest, head };
}

function eachLine(
  files: Files,
  path: string,
  take: (line: ChunkLine) => void,
): void {
  const file = files.openRead(path);
  try {
    const splitter = new LineSplitter();
    // A file is mostly smaller than a chunk, which takes longer to make than such a file to read.
    const chunk = new Uint8Array(Math.min(CHUNK_BYTES, file.stat().size + LEAST_CHUNK_BYTES));
    let at = 0;
    for (let read = file.read(chunk, at); read > 0; read = file.read(chunk, at)) {
      at += read;
      const bytes = chunk.subarray(0, read);
      for (const line of splitter.push(bytes, asciiText(bytes))) take(line);
    }
    const rest = splitter.end();
    if (rest !== null) take({ ...rest, text: null });
  } finally {
    file.close();
  }
}

/** Where a verification of the file after `name` starts. A bad last line is a failure there. */
function resumePoint(files: Files, directory: string, name: string): ResumePoint {
  const path = `${directory}/${name}`;
  const file = files.openRead(path);
  let last: { bytes: Uint8Array; ended: boolean };
  try {
    last = lastLine(file);
  } finally {
    file.close();
  }
  const prev = sha256(last.bytes);
  const record = parseRecord(last.bytes);
  if (record !== null && last.ended) return { nextSeq: record.seq + 1, prev, failure: null };
  let line = 0;
  eachLine(files, path, () => line += 1);
  const what = last.ended
    ? "does not parse as an audit record"
    : "the last line of an older file has no newline";
  return {
    nextSeq: record === null ? 0 : record.seq + 1,
    prev,
    failure: { file: name, line, what },
  };
}

/** The last line of a file that is not empty, read from its end. */
function lastLine(file: OpenFile): { bytes: Uint8Array; ended: boolean } {
  let from = file.stat().size;
  let tail = new Uint8Array(0);
  while (from > 0) {
    const size = Math.min(CHUNK_BYTES, from);
    from -= size;
    const longer = new Uint8Array(size + tail.length);
    for (let read = 0; read < size;) {
      const count = file.read(longer.subarray(read, size), from + read);
      if (count === 0) throw new Error("shrank while it was read");
      read += count;
    }
    longer.set(tail, size);
    tail = longer;
    const ended = tail.at(-1) === NEWLINE;
    const line = ended ? tail.subarray(0, -1) : tail;
    const start = line.lastIndexOf(NEWLINE);
    if (start >= 0 || from === 0) return { bytes: line.subarray(start + 1), ended };
  }
  throw new Error("the file is empty");
}
