/**
 * The writer of the audit log (specification 5; contracts 5). The only writer: one record, one sync, and
 * nothing that a record speaks of happens before its sync.
 */
import {
  type AuditEvent,
  auditFileName,
  encodeHead,
  encodeRecord,
  HEAD_BYTES,
} from "../proto/audit.ts";
import type { ChainFailure } from "../proto/chain.ts";
import { sha256, timestamp } from "../proto/ids.ts";
import type { AuditState } from "../proto/status.ts";
import { readHead } from "./audit_files.ts";
import { type Opened, openLog, type Position, sync, SyncFailed } from "./audit_startup.ts";
import type { Files, OpenFile } from "./files.ts";
import type { Notices } from "./notices.ts";

export type Started =
  | { readonly status: "open" }
  | { readonly status: "already_running" }
  | { readonly status: "nothing_to_accept" }
  | { readonly status: "broken"; readonly failure: ChainFailure };

/** The file that records go to, as this writer left it. */
interface Current {
  readonly name: string;
  readonly file: OpenFile;
  readonly identity: string;
  size: number;
}

/**
 * `open`: records are written. `latched`: a write failed; each call tries to recover as at a start.
 * `lost`: a sync failed, and what is on disk is not known until a restart.
 */
type Mode = "open" | "latched" | "lost";

export class AuditLog {
  readonly #files: Files;
  readonly #directory: string;
  readonly #now: () => number;
  readonly #notices: Notices;

  #mode: Mode = "latched";
  #position: Position = { nextSeq: 0, prev: "", newest: null };
  #current: Current | null = null;
  /** `head.json` as this writer has it open. */
  #head: { readonly file: OpenFile; readonly identity: string } | null = null;
  #headFailed = false;

  /** `directory`: `<home>/audit`, which exists. `now`: milliseconds since 1970. */
  constructor(files: Files, directory: string, now: () => number, notices: Notices) {
    this.#files = files;
    this.#directory = directory;
    this.#now = now;
    this.#notices = notices;
  }

  /**
   * Takes the lock and opens the log (specification 5, "Startup"). Unless the answer is `open`, nothing
   * was changed. Throws as the runtime does, and `SyncFailed`.
   */
  start(acceptBreak: boolean): Started {
    if (!this.#files.lock(`${this.#directory}/.lock`)) return { status: "already_running" };
    const anchored = readHead(this.#files, this.#directory) !== null;
    const opened = this.#open(acceptBreak);
    if (opened.status !== "open") return opened;
    if (!anchored && opened.position.nextSeq > 0) this.#notices.notAnchored();
    this.#opened(opened);
    return { status: "open" };
  }

  /** Whether the log is open. A latched one is tried again (contracts 5.3). */
  ready(): boolean {
    if (this.#mode === "latched") this.#reopen();
    return this.#mode === "open";
  }

  /** How the log stands and where the next record goes. Looks, and tries nothing. */
  status(): { state: AuditState; next_seq: number; file: string | null } {
    const disturbed = this.#mode === "open" && !this.#isUndisturbed();
    const { nextSeq, newest } = this.#position;
    return { state: disturbed ? "disturbed" : this.#mode, next_seq: nextSeq, file: newest };
  }

  /**
   * Writes the record of `event` and syncs it. Gives its `seq`, or null where it is not known to be on
   * disk: then what it speaks of must not happen.
   */
  append(event: AuditEvent): number | null {
    if (this.#mode === "open" && !this.#isUndisturbed()) {
      this.#latch("the newest file is not as it was left", null);
    }
    if (!this.ready()) return null;
    const { nextSeq: seq, prev, newest } = this.#position;
    const time = timestamp(this.#now());
    const line = encodeRecord({ seq, time, prev, event });
    // The clock may go back over midnight: a record never goes to a file older than the newest one.
    const today = auditFileName(time);
    const name = newest !== null && newest > today ? newest : today;
    try {
      const current = this.#fileFor(name);
      const bytes = new Uint8Array(line.length + 1);
      bytes.set(line);
      bytes[line.length] = 0x0a;
      const written = current.file.write(bytes, null);
      if (written !== bytes.length) throw new Error(`a short write of ${written} bytes`);
      sync(() => current.file.sync());
      current.size += bytes.length;
    } catch (error) {
      if (error instanceof SyncFailed) this.#lose(error);
      else this.#latch("a record could not be written", error);
      return null;
    }
    this.#position = { nextSeq: seq + 1, prev: sha256(line), newest: name };
    this.#notices.auditWritten();
    this.#writeHead(false);
    return seq;
  }

  /** The open file `name`; a new one is made, and the directory synced, before its first record. */
  #fileFor(name: string): Current {
    if (this.#current?.name === name) return this.#current;
    this.#closeCurrent();
    const file = this.#files.openAppend(`${this.#directory}/${name}`);
    const { size, identity, isFile } = file.stat();
    const fresh = name !== this.#position.newest;
    if (!isFile || (fresh && size > 0)) {
      file.close();
      throw new Error(`${name} is not a file that this broker made`);
    }
    this.#current = { name, file, identity, size };
    // Where it fails the writer is latched, and opening the log again syncs the directory first.
    if (fresh) sync(() => this.#files.syncDirectory(this.#directory));
    return this.#current;
  }

  /** Whether the newest file is still the one, with the size, that the last record left. */
  #isUndisturbed(): boolean {
    const current = this.#current;
    if (current === null) return true;
    try {
      const found = this.#files.stat(`${this.#directory}/${current.name}`);
      return found?.identity === current.identity && found.size === current.size;
    } catch {
      return false;
    }
  }

  #reopen(): void {
    this.#closeCurrent();
    try {
      const opened = this.#open(false);
      if (opened.status === "open") this.#opened(opened);
      else if (opened.status === "broken") this.#notices.chainBroken(opened.failure);
    } catch (error) {
      if (error instanceof SyncFailed) this.#lose(error);
      else this.#notices.auditUnavailable("the log cannot be opened", error);
    }
  }

  /** What this writer has synced must still be there, whatever happened to the directory meanwhile. */
  #open(acceptBreak: boolean): Opened {
    const { nextSeq, prev } = this.#position;
    const expected = nextSeq === 0 ? null : { seq: nextSeq - 1, hash: prev };
    const now = timestamp(this.#now());
    return openLog(this.#files, this.#directory, now, { acceptBreak, expected });
  }

  #opened({ position, recovered, accepted, head }: Extract<Opened, { status: "open" }>): void {
    this.#position = position;
    if (position.newest !== null) this.#fileFor(position.newest);
    this.#mode = "open";
    if (recovered !== null) this.#notices.recovered(recovered);
    if (accepted !== null) this.#notices.breakAccepted(accepted);
    if (head !== "nothing") this.#writeHead(head === "rewrite_and_sync");
  }

  #latch(what: string, error: unknown): void {
    this.#mode = "latched";
    this.#notices.auditUnavailable(what, error);
  }

  #lose(error: unknown): void {
    this.#mode = "lost";
    this.#notices.auditLost(error);
  }

  #closeCurrent(): void {
    try {
      this.#current?.file.close();
    } catch {
      // What it held is synced, or known not to be.
    }
    this.#current = null;
  }

  /** Rewrites `head.json` in place. It may lag behind the log, never lead it (contracts 5.8). */
  #writeHead(synced: boolean): void {
    const { nextSeq, prev } = this.#position;
    try {
      const file = this.#openHead();
      const bytes = encodeHead({ seq: nextSeq - 1, hash: prev });
      if (file.write(bytes, 0) !== bytes.length) {
        // A new head's beginning with an old one's end could be read, and would lie.
        file.truncate(0);
        throw new Error("a short write");
      }
      if (synced) file.sync();
      this.#headFailed = false;
    } catch (error) {
      this.#closeHead();
      if (!this.#headFailed) this.#notices.headUnwritable(error);
      this.#headFailed = true;
    }
  }

  /** The file that is `head.json` now: the owner may have moved it away or put another one there. */
  #openHead(): OpenFile {
    const path = `${this.#directory}/head.json`;
    const held = this.#head;
    const found = held === null ? null : this.#files.lstat(path);
    // While it is open, no other file can have its identity.
    if (held !== null && found?.identity === held.identity && found.size <= HEAD_BYTES) {
      return held.file;
    }
    this.#closeHead();
    const file = this.#files.openUpdate(path);
    const { isFile, size, identity } = file.stat();
    if (!isFile) {
      file.close();
      throw new Error("head.json is not a regular file");
    }
    this.#head = { file, identity };
    if (size > HEAD_BYTES) file.truncate(HEAD_BYTES);
    return file;
  }

  #closeHead(): void {
    try {
      this.#head?.file.close();
    } catch {
      // It is written in place and not relied on.
    }
    this.#head = null;
  }
}
