/**
 * Opening the audit log: verify, recover a torn tail, accept a break on the owner's word (specification
 * 5, "Startup"; contracts 5). Nothing is truncated, rewritten or deleted, ever.
 */
import { type Anchor, type AuditEvent, auditFileName, encodeRecord } from "../proto/audit.ts";
import type { ChainFailure, Location } from "../proto/chain.ts";
import { type Hash32, sha256, type Timestamp } from "../proto/ids.ts";
import { utf8 } from "../proto/text.ts";
import { inspect, type Inspection } from "./audit_files.ts";
import { type Files, NotOpened } from "./files.ts";

const NEWLINE = 0x0a;

/** Where the next record goes. */
export interface Position {
  readonly nextSeq: number;
  readonly prev: Hash32;
  /** The newest file of the log, empty or not: no record goes to an older one. */
  readonly newest: string | null;
}

export type Opened =
  | {
    readonly status: "open";
    readonly position: Position;
    /** The first line of the torn tail that was recovered. */
    readonly recovered: Location | null;
    /** The failure that was accepted. */
    readonly accepted: ChainFailure | null;
    /** What `head.json` needs: to follow what was written, and after its own failure to be synced. */
    readonly head: "nothing" | "rewrite" | "rewrite_and_sync";
  }
  | { readonly status: "broken"; readonly failure: ChainFailure }
  | { readonly status: "nothing_to_accept" };

type Open = Extract<Opened, { status: "open" }>;

/** A sync that failed: what is on disk is not known, and only a restart can tell (contracts 5.3). */
export class SyncFailed extends Error {}

/**
 * Opens the log for writing. `expected`: a record that the caller knows to be on disk. Without `acceptBreak` a broken log is left as it is. Throws `SyncFailed`,
 * and as the runtime does where the log cannot be read or written.
 */
export function openLog(
  files: Files,
  directory: string,
  now: Timestamp,
  { acceptBreak, expected }: { readonly acceptBreak: boolean; readonly expected: Anchor | null },
): Opened {
  const found = inspect(files, directory, { whole: acceptBreak, anchored: true, expected });
  const { failure } = found.report;
  if (!acceptBreak) {
    if (failure !== null) return { status: "broken", failure };
    syncTail(files, directory, found);
    return recover(files, directory, now, found);
  }
  if (failure === null) return { status: "nothing_to_accept" };
  if (failure.line === 0) return { status: "broken", failure };
  syncTail(files, directory, found);
  // Without head.json: a break of the chain itself is accepted as such, wherever head.json disagrees.
  const chain = inspect(files, directory, { whole: true, anchored: false, expected: null });
  return chain.report.failure === null
    ? acceptHead(files, directory, now, chain, failure)
    : acceptChain(files, directory, now, chain, chain.report.failure);
}

/** Ends a torn tail with a `Recovery`, or a whole last line with the newline that it lacks. */
function recover(files: Files, directory: string, now: Timestamp, found: Inspection): Open {
  const { report, end, newest } = found;
  const newline = end.unended ? "\n" : "";
  let position: Position = { nextSeq: report.next_seq, prev: end.lastGood, newest };
  if (end.torn !== null && end.last !== null) {
    const { bytes, sha256 } = end.torn;
    const event: AuditEvent = { type: "recovery", torn_bytes: bytes, torn_sha256: sha256 };
    position = write(files, directory, end.last.file, newline, position, now, event);
  } else if (end.unended && end.last !== null) {
    append(files, `${directory}/${end.last.file}`, utf8(newline));
  }
  const head = end.unended || end.torn !== null ? "rewrite" : "nothing";
  return { status: "open", position, recovered: report.torn_tail, accepted: null, head };
}

/** Accepts a failure of the chain (contracts 5.7); a torn line at the end is ended and counts as given. */
function acceptChain(
  files: Files,
  directory: string,
  now: Timestamp,
  { report, end, newest, head }: Inspection,
  failure: ChainFailure,
): Opened {
  if (end.last === null) throw new Error("a failure of a line in a log without lines");
  const { file, line } = failure;
  const event: AuditEvent = { type: "accepted_break", file, line, last_good: end.lastGood };
  const afterLines = report.next_seq + end.unverified;
  const afterHead = head === null ? 0 : head.seq + 1;
  // A head.json that somebody made up may hold the largest number there is.
  const nextSeq = Number.isSafeInteger(afterHead + 1)
    ? Math.max(afterLines, afterHead)
    : afterLines;
  const before: Position = { nextSeq, prev: end.lastLine, newest };
  const newline = end.unended ? "\n" : "";
  const position = write(files, directory, end.last.file, newline, before, now, event);
  return { status: "open", position, recovered: null, accepted: failure, head: "rewrite" };
}

/** Accepts a failure of head.json: the chain is whole, so the break follows in order (contracts 5.8). */
function acceptHead(
  files: Files,
  directory: string,
  now: Timestamp,
  found: Inspection,
  failure: ChainFailure,
): Opened {
  const recovered = recover(files, directory, now, found);
  const { position } = recovered;
  const file = found.end.last?.file ?? found.newest ?? auditFileName(now);
  const recoveryLines = recovered.recovered === null ? 0 : 1;
  const event: AuditEvent = {
    type: "accepted_break",
    file,
    line: (found.end.last?.line ?? 0) + recoveryLines + 1,
    last_good: position.prev,
  };
  const after = write(files, directory, file, "", position, now, event);
  return { ...recovered, position: after, accepted: failure, head: "rewrite_and_sync" };
}

/** Appends the record of `event` to the file `name`, in one write, and gives the position after it. */
function write(
  files: Files,
  directory: string,
  name: string,
  before: string,
  { nextSeq, prev, newest }: Position,
  time: Timestamp,
  event: AuditEvent,
): Position {
  const line = encodeRecord({ seq: nextSeq, time, prev, event });
  append(files, `${directory}/${name}`, new Uint8Array([...utf8(before), ...line, NEWLINE]));
  sync(() => files.syncDirectory(directory));
  return { nextSeq: nextSeq + 1, prev: sha256(line), newest: newest ?? name };
}

function append(files: Files, path: string, bytes: Uint8Array): void {
  const file = files.openAppend(path);
  try {
    if (file.write(bytes, null) !== bytes.length) throw new Error(`${path}: a short write`);
    sync(() => file.sync());
  } finally {
    file.close();
  }
}

/** The newest files and the directory reach the disk before anything chains from them (contracts 5.9). */
function syncTail(files: Files, directory: string, { end, newest }: Inspection): void {
  for (const name of new Set([end.last?.file ?? newest, newest])) {
    if (name === null) continue;
    const file = files.openRead(`${directory}/${name}`);
    try {
      sync(() => file.sync());
    } finally {
      file.close();
    }
  }
  sync(() => files.syncDirectory(directory));
}

/** Runs a sync; its failure is of another kind than any other, since nothing mends it here. */
export function sync(run: () => void): void {
  try {
    run();
  } catch (error) {
    if (error instanceof NotOpened) throw error; // as any failed open, tried again
    throw new SyncFailed("a sync failed", { cause: error });
  }
}
