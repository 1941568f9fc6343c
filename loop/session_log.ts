/**
 * A session's log on disk, `<home>/loop/sessions/<session>.jsonl`: each entry is appended and synced
 * before anything is shown because of it (contracts 7 and 8).
 */
import fs from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { type SessionId, timestamp } from "../proto/ids.ts";
import {
  type EntryOf,
  formatEntry,
  type LogEntry,
  readLog,
  recoveryOf,
  type Torn,
} from "./entries.ts";

/** A log is not written beyond this, nor a longer one read: no model takes such a conversation. In bytes. */
export const MAX_LOG_BYTES = 16 * 1024 * 1024;

/** The log is there and is not the log of its session. Its message says what is wrong, and where. */
export class SessionLogDamaged extends Error {}
/** The log is over `MAX_LOG_BYTES`, or would be. */
export class SessionLogTooLong extends Error {}
/** Reading, writing or syncing failed. */
export class SessionLogUnavailable extends Error {}

const { O_RDWR, O_APPEND, O_CREAT, O_NONBLOCK, O_NOFOLLOW } = fs.constants;

export class SessionLog {
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #entries: LogEntry[];
  #size: number;
  /** After a write that failed nobody knows what is on disk: the next opening looks. */
  #failed = false;
  /** The torn end that was found and left out, or null. */
  readonly recovered: Torn | null;

  private constructor(
    path: string,
    file: FileHandle,
    size: number,
    entries: LogEntry[],
    recovered: Torn | null,
  ) {
    this.#path = path;
    this.#file = file;
    this.#size = size;
    this.#entries = entries;
    this.recovered = recovered;
  }

  /**
   * Opens the log of `session` in `directory`. `start` gives the first entry of a session that is new;
   * where it throws, nothing has been changed. Throws the three errors above and what `start` throws.
   */
  static async open(
    directory: string,
    session: SessionId,
    now: () => number,
    start: () => EntryOf<"start">,
  ): Promise<SessionLog> {
    const path = `${directory}/${session}.jsonl`;
    const first = await isThere(path) ? null : start();
    const file = await openFile(path);
    try {
      const bytes = await readWhole(path, file);
      const reading = readLog(bytes, session);
      if (!reading.ok) {
        throw new SessionLogDamaged(`${path}:${reading.line}: ${reading.problem}`);
      }
      const { entries, torn } = reading;
      // The log of a crash at the very beginning is empty, or torn in its first line.
      const missing = entries.some(({ type }) => type === "start") ? null : first ?? start();
      const log = new SessionLog(path, file, bytes.length, entries, torn);
      if (missing !== null) await log.#try("making", () => syncDirectory(directory));
      if (torn !== null) await log.#write(recoveryOf(torn, timestamp(now())));
      if (missing !== null) await log.append(missing);
      return log;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  get entries(): readonly LogEntry[] {
    return this.#entries;
  }

  /**
   * Appends `entries` in one write and syncs. Throws `SessionLogUnavailable`, and `SessionLogTooLong` where
   * they do not fit: nothing of them is written then, and the log can be gone on from.
   */
  async append(...entries: readonly LogEntry[]): Promise<void> {
    const lines = entries.map(formatEntry);
    const bytes = new Uint8Array(lines.reduce((size, line) => size + line.length, 0));
    let at = 0;
    for (const line of lines) {
      bytes.set(line, at);
      at += line.length;
    }
    if (this.#size + bytes.length > MAX_LOG_BYTES) {
      throw new SessionLogTooLong(`${this.#path} would be longer than ${MAX_LOG_BYTES} bytes`);
    }
    await this.#write(bytes);
    for (const entry of entries) this.#entries.push(entry);
  }

  async close(): Promise<void> {
    await this.#file.close();
  }

  async #write(bytes: Uint8Array): Promise<void> {
    await this.#try("writing", async () => {
      if (this.#failed) throw new Error("an earlier write failed");
      this.#failed = true;
      const { bytesWritten } = await this.#file.write(bytes);
      if (bytesWritten !== bytes.length) throw new Error("a short write");
      await this.#file.sync();
      this.#size += bytes.length;
      this.#failed = false;
    });
  }

  async #try(what: string, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (cause) {
      throw new SessionLogUnavailable(`${what} ${this.#path}`, { cause });
    }
  }
}

/** Whether something is at `path`. Throws `SessionLogDamaged` where that is no regular file. */
async function isThere(path: string): Promise<boolean> {
  try {
    if ((await Deno.lstat(path)).isFile) return true;
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) return false;
    throw new SessionLogUnavailable(`looking at ${path}`, { cause });
  }
  throw notAFile(path);
}

function notAFile(path: string): SessionLogDamaged {
  return new SessionLogDamaged(`${path} is not a regular file`);
}

async function openFile(path: string): Promise<FileHandle> {
  try {
    // What stands there now may be another thing than a moment ago: it is neither followed nor waited for.
    const flags = O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK | O_NOFOLLOW;
    return await fs.promises.open(path, flags, 0o600);
  } catch (cause) {
    throw new SessionLogUnavailable(`opening ${path}`, { cause });
  }
}

async function readWhole(path: string, file: FileHandle): Promise<Uint8Array> {
  let bytes: Uint8Array;
  try {
    const stats = await file.stat();
    // Under its locks the runtime looks up where a link leads before it opens: O_NOFOLLOW never sees it.
    const named = await Deno.lstat(path);
    if (!stats.isFile() || !named.isFile || named.ino !== stats.ino) throw notAFile(path);
    if (stats.size > MAX_LOG_BYTES) {
      throw new SessionLogTooLong(`${path} is longer than ${MAX_LOG_BYTES} bytes`);
    }
    bytes = new Uint8Array(stats.size);
    let size = 0;
    while (size < bytes.length) {
      const { bytesRead } = await file.read(bytes, size, bytes.length - size, size);
      if (bytesRead === 0) throw new Error("it became shorter while it was read");
      size += bytesRead;
    }
  } catch (cause) {
    if (cause instanceof SessionLogDamaged || cause instanceof SessionLogTooLong) throw cause;
    throw new SessionLogUnavailable(`reading ${path}`, { cause });
  }
  return bytes;
}

async function syncDirectory(path: string): Promise<void> {
  using directory = await Deno.open(path);
  await directory.sync();
}
