/**
 * The file system as the broker uses it: a narrow seam, so that tests can make any call fail, or lose
 * what was not synced. `realFiles` is the only one outside tests. Everything is synchronous: what the
 * broker does between two awaits nothing else can come between.
 */
import fs from "node:fs";

/** What `stat` tells. */
export interface FileStat {
  readonly isFile: boolean;
  readonly isDirectory: boolean;
  readonly size: number;
  /** Device and inode: whether two names are the same file. */
  readonly identity: string;
  /** When its content, or a directory's names, last changed: milliseconds since 1970, or null. */
  readonly modified: number | null;
}

/** A name in a directory. */
export interface Entry {
  readonly name: string;
  /** A regular file; not for a link, wherever that leads. */
  readonly isFile: boolean;
}

/** An open file. */
export interface OpenFile {
  stat(): FileStat;
  /** Reads at `position`; 0 at the end. */
  read(buffer: Uint8Array, position: number): number;
  /** One write at the end, or at `position`. Gives the bytes written, which may be fewer. */
  write(bytes: Uint8Array, position: number | null): number;
  truncate(size: number): void;
  sync(): void;
  close(): void;
}

/** A directory could not be opened to be synced: nothing was synced, and no sync has failed. */
export class NotOpened extends Error {}

/** Every method throws as the runtime does. */
export interface Files {
  /** What is in a directory, in byte order of the names. */
  list(directory: string): Entry[];
  /** Follows links; null where nothing is there. */
  stat(path: string): FileStat | null;
  /** Does not follow a link; null where nothing is there. */
  lstat(path: string): FileStat | null;
  makeDirectory(path: string): void;
  /** Opens for reading, never waiting for the other end of a FIFO. */
  openRead(path: string): OpenFile;
  /** Opens for appending and reading; makes the file with mode 0600 where it is missing. */
  openAppend(path: string): OpenFile;
  /** Opens for reading and writing in place, never through a link; makes the file with mode 0600. */
  openUpdate(path: string): OpenFile;
  /** Makes a file that does not exist, with mode 0600. */
  create(path: string): OpenFile;
  /** Throws `NotOpened` where it cannot even be opened. */
  syncDirectory(path: string): void;
  rename(from: string, to: string): void;
  remove(path: string): void;
  /** Takes the exclusive lock on `path` for this process's life; false where somebody holds it. */
  lock(path: string): boolean;
}

const { O_RDONLY, O_RDWR, O_APPEND, O_CREAT, O_EXCL, O_NONBLOCK, O_NOFOLLOW } = fs.constants;

function statOf(isFile: boolean, isDirectory: boolean, info: fs.Stats | Deno.FileInfo): FileStat {
  const { size, dev, ino, mtime } = info;
  return {
    isFile,
    isDirectory,
    size,
    identity: `${dev}:${ino}`,
    modified: mtime?.getTime() ?? null,
  };
}

function open(path: string, flags: number): OpenFile {
  const fd = fs.openSync(path, flags | O_NONBLOCK, 0o600);
  return {
    stat() {
      const stats = fs.fstatSync(fd);
      return statOf(stats.isFile(), stats.isDirectory(), stats);
    },
    read: (buffer, position) => fs.readSync(fd, buffer, 0, buffer.length, position),
    write: (bytes, position) => fs.writeSync(fd, bytes, 0, bytes.length, position),
    truncate: (size) => fs.ftruncateSync(fd, size),
    sync: () => fs.fsyncSync(fd),
    close: () => fs.closeSync(fd),
  };
}

/**
 * Opens what stands at `path` itself. Under its locks the runtime looks up where a link leads before it
 * opens, so that neither O_NOFOLLOW nor O_EXCL ever sees the link.
 */
function openItself(path: string, flags: number): OpenFile {
  const file = open(path, flags);
  if (realFiles.lstat(path)?.identity === file.stat().identity) return file;
  file.close();
  throw new Error(`${path} is a link, or became another file while it was opened`);
}

/** No two names in a directory are the same. */
function byName(a: Entry, b: Entry): number {
  return a.name < b.name ? -1 : 1;
}

function openToSync(directory: string): OpenFile {
  try {
    return open(directory, O_RDONLY);
  } catch (error) {
    throw new NotOpened(`${directory} cannot be opened to be synced`, { cause: error });
  }
}

function statOrNull(path: string, stat: (path: string) => Deno.FileInfo): FileStat | null {
  try {
    const info = stat(path);
    return statOf(info.isFile, info.isDirectory, info);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

export const realFiles: Files = {
  list: (directory) => [...Deno.readDirSync(directory)].sort(byName),
  stat: (path) => statOrNull(path, Deno.statSync),
  lstat: (path) => statOrNull(path, Deno.lstatSync),
  makeDirectory: (path) => Deno.mkdirSync(path, { recursive: true, mode: 0o700 }),
  openRead: (path) => open(path, O_RDONLY),
  openAppend: (path) => open(path, O_RDWR | O_APPEND | O_CREAT),
  openUpdate: (path) => openItself(path, O_RDWR | O_CREAT | O_NOFOLLOW),
  create: (path) => openItself(path, O_RDWR | O_CREAT | O_EXCL),
  syncDirectory(path) {
    const directory = openToSync(path);
    try {
      directory.sync();
    } finally {
      directory.close();
    }
  },
  rename: (from, to) => Deno.renameSync(from, to),
  remove: (path) => Deno.removeSync(path),
  lock(path) {
    // Read and write: opening a FIFO that way does not wait.
    const file = Deno.openSync(path, { read: true, write: true, create: true, mode: 0o600 });
    if (file.tryLockSync(true)) {
      held.push(file);
      return true;
    }
    file.close();
    return false;
  },
};

/** Locks live as long as their file is open. */
const held: Deno.FsFile[] = [];

/** Room for the largest file that `readBounded` is asked for, and one byte. */
const scratch = new Uint8Array(64 * 1024 + 1);

/**
 * The content of a regular file, of one larger than `maxBytes` (64 KiB at most) the first `maxBytes` and
 * one more. Null where something else stands there. `isFile`: somebody has just seen a regular file there,
 * and it is not looked at again before it is opened. Valid until the next call. Throws as the runtime does.
 */
export function readBounded(
  files: Files,
  path: string,
  maxBytes: number,
  isFile = false,
): Uint8Array | null {
  if (!isFile) {
    const stat = files.stat(path);
    if (stat === null) throw new Error("no such file or directory");
    if (!stat.isFile) return null;
  }
  // What stands there now may be another file: it can neither block nor fill more than the scratch.
  const file = files.openRead(path);
  try {
    const buffer = scratch.subarray(0, maxBytes + 1);
    let size = 0;
    let read = -1;
    while (read !== 0 && size < buffer.length) {
      read = file.read(buffer.subarray(size), size);
      size += read;
    }
    return buffer.subarray(0, size);
  } finally {
    file.close();
  }
}
