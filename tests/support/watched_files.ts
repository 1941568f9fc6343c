/** The broker's file seam over the real files: notes what is done, and fails where a test wants it to. */
import {
  type Entry,
  type Files,
  type FileStat,
  type OpenFile,
  realFiles,
} from "../../broker/files.ts";

/** One operation: `write`, `sync`, `openAppend`, …, and the bare name that it was done to. */
export interface Operation {
  readonly what: string;
  readonly name: string;
}

/** What a test may do to an operation: nothing, throw, or for a write let only so many bytes through. */
export type Fault = (operation: Operation) => Error | number | null;

/** As the runtime throws when the disk is full. */
export const diskFull = (): Error => Object.assign(new Error("no space left"), { code: "ENOSPC" });
/** As the runtime throws when the disk does not take what it was given. */
export const ioError = (): Error => Object.assign(new Error("i/o error"), { code: "EIO" });

/** Dispose of it: then its files are closed and its locks are free, as when a process ends. */
export class WatchedFiles implements Files, Disposable {
  /** Every operation that changes something or makes it durable, as `what name`. */
  readonly done: string[] = [];
  /** Set by the test. */
  fault: Fault = () => null;

  readonly #base: Files;
  readonly #open = new Set<OpenFile>();
  readonly #locks: Deno.FsFile[] = [];

  /** `base`: what it watches, the real files unless given. */
  constructor(base: Files = realFiles) {
    this.#base = base;
  }

  /** How many files are open. */
  get open(): number {
    return this.#open.size;
  }

  list(directory: string): Entry[] {
    this.#check("list", directory);
    return this.#base.list(directory);
  }

  stat(path: string): FileStat | null {
    this.#check("stat", path);
    return this.#base.stat(path);
  }

  lstat(path: string): FileStat | null {
    this.#check("lstat", path);
    return this.#base.lstat(path);
  }

  makeDirectory(path: string): void {
    this.#note("makeDirectory", path);
    this.#base.makeDirectory(path);
  }

  openRead(path: string): OpenFile {
    this.#check("openRead", path);
    return this.#watch(path, this.#base.openRead(path));
  }

  openAppend(path: string): OpenFile {
    this.#note("openAppend", path);
    return this.#watch(path, this.#base.openAppend(path));
  }

  openUpdate(path: string): OpenFile {
    this.#note("openUpdate", path);
    return this.#watch(path, this.#base.openUpdate(path));
  }

  create(path: string): OpenFile {
    this.#note("create", path);
    return this.#watch(path, this.#base.create(path));
  }

  syncDirectory(path: string): void {
    this.#note("syncDirectory", path);
    this.#base.syncDirectory(path);
  }

  rename(from: string, to: string): void {
    this.#note("rename", to);
    this.#base.rename(from, to);
  }

  remove(path: string): void {
    this.#note("remove", path);
    this.#base.remove(path);
  }

  /** As the real one, but freed when this is disposed of. */
  lock(path: string): boolean {
    const file = Deno.openSync(path, { read: true, write: true, create: true, mode: 0o600 });
    if (!file.tryLockSync(true)) {
      file.close();
      return false;
    }
    this.#locks.push(file);
    return true;
  }

  [Symbol.dispose](): void {
    for (const file of this.#open) file.close();
    for (const lock of this.#locks.splice(0)) lock.close();
  }

  #check(what: string, path: string): number | null {
    const fault = this.fault({ what, name: nameOf(path) });
    if (fault instanceof Error) throw fault;
    return fault;
  }

  #note(what: string, path: string): number | null {
    this.done.push(`${what} ${nameOf(path)}`);
    return this.#check(what, path);
  }

  #watch(path: string, file: OpenFile): OpenFile {
    const watched: OpenFile = {
      stat: () => file.stat(),
      read: (buffer, position) => {
        this.#check("read", path);
        return file.read(buffer, position);
      },
      write: (bytes, position) => {
        const most = this.#note("write", path);
        return file.write(most === null ? bytes : bytes.subarray(0, most), position);
      },
      truncate: (size) => {
        this.#note("truncate", path);
        file.truncate(size);
      },
      sync: () => {
        this.#note("sync", path);
        file.sync();
      },
      close: () => {
        this.#open.delete(watched);
        file.close();
      },
    };
    this.#open.add(watched);
    return watched;
  }
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
