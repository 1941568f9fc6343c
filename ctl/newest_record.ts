/** The newest record of the audit log, read from the end of its newest file. Nothing is verified. */
import fs from "node:fs";
import { parseRecord } from "../proto/audit.ts";
import type { Timestamp } from "../proto/ids.ts";
import { attempt, namesIn } from "./audit_files.ts";

/** What is read of a file's end at most, in bytes: a record with the longest arguments is shorter. */
const TAIL_BYTES = 8 * 1024 * 1024;
const NEWLINE = 0x0a;

export interface NewestRecord {
  readonly seq: number;
  readonly time: Timestamp;
  /** The bare name of its file. */
  readonly file: string;
}

/** Null for a log without records; or why it cannot be said. */
export type Newest =
  | { readonly ok: true; readonly record: NewestRecord | null }
  | { readonly ok: false; readonly problem: string };

/**
 * The last whole line of the log in `directory`. A line that a crash cut off is passed over. Throws `Failed`
 * where this process lacks the permission to read it.
 */
export function newestRecord(directory: string): Newest {
  const names = attempt(directory, () => namesIn(directory));
  if (!names.ok) return { ok: false, problem: `${directory} ${names.why}` };
  for (const file of names.value.toReversed()) {
    const path = `${directory}/${file}`;
    const read = attempt(path, () => lastLine(path));
    if (!read.ok) return { ok: false, problem: `${path} ${read.why}` };
    if (read.value === null) continue;
    const record = parseRecord(read.value);
    if (record === null) return { ok: false, problem: `${path}: its last line is no record` };
    return { ok: true, record: { seq: record.seq, time: record.time, file } };
  }
  return { ok: true, record: null };
}

/** The last line of a regular file that ends in a newline, without it; null for none. */
function lastLine(path: string): Uint8Array | null {
  const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  try {
    const info = fs.fstatSync(fd);
    if (!info.isFile()) throw new Error("not a regular file");
    const from = Math.max(0, info.size - TAIL_BYTES);
    const tail = new Uint8Array(info.size - from);
    let size = 0;
    for (let read = -1; read !== 0 && size < tail.length; size += read) {
      read = fs.readSync(fd, tail, size, tail.length - size, from + size);
    }
    const end = tail.subarray(0, size).lastIndexOf(NEWLINE);
    if (end < 0) return null;
    return tail.subarray(end === 0 ? 0 : tail.lastIndexOf(NEWLINE, end - 1) + 1, end);
  } finally {
    fs.closeSync(fd);
  }
}
