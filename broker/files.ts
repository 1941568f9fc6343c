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

/** Every method throws as the runtime does. */
export interface Files {
  /** The names in a directory, in byte order. */
  list(directory: string): string[];
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
  syncDirectory(path: string): void;
  rename(from: string, to: string): void;
  remove(path: string): void;
  /** Takes the exclusive lock on `path` for this process's life; false where somebody holds it. */
  lock(path: string): boolean;
}

const { O_RDONLY, O_RDWR, O_APPEND, O_CREAT, O_EXCL, O_NONBLOCK, O_NOFOLLOW } = fs.constants;

function isNotFound(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

function statOf(stats: fs.Stats): FileStat {
  return {
    isFile: stats.isFile(),
    isDirectory: stats.isDirectory(),
    size: stats.size,
    identity: `${stats.dev}:${stats.ino}`,
  };
}

function open(path: string, flags: number): OpenFile {
  const fd = fs.openSync(path, flags | O_NONBLOCK, 0o600);
  return {
    stat: () => statOf(fs.fstatSync(fd)),
    read: (buffer, position) => fs.readSync(fd, buffer, 0, buffer.length, position),
    write: (bytes, position) => fs.writeSync(fd, bytes, 0, bytes.length, position),
    truncate: (size) => fs.ftruncateSync(fd, size),
    sync: () => fs.fsyncSync(fd),
    close: () => fs.closeSync(fd),
  };
}

function statOrNull(read: () => fs.Stats): FileStat | null {
  try {
    return statOf(read());
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
}

export const realFiles: Files = {
  list: (directory) => [...Deno.readDirSync(directory)].map(({ name }) => name).sort(),
  stat: (path) => statOrNull(() => fs.statSync(path)),
  lstat: (path) => statOrNull(() => fs.lstatSync(path)),
  makeDirectory: (path) => Deno.mkdirSync(path, { recursive: true, mode: 0o700 }),
  openRead: (path) => open(path, O_RDONLY),
  openAppend: (path) => open(path, O_RDWR | O_APPEND | O_CREAT),
  openUpdate: (path) => open(path, O_RDWR | O_CREAT | O_NOFOLLOW),
  create: (path) => open(path, O_RDWR | O_CREAT | O_EXCL),
  syncDirectory(path) {
    const directory = open(path, O_RDONLY);
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

/**
 * The content of a regular file, of one larger than `maxBytes` the first `maxBytes` and one more. Null
 * where something else stands there. Throws as the runtime does, and where the file grows meanwhile.
 */
export function readBounded(files: Files, path: string, maxBytes: number): Uint8Array | null {
  const file = files.openRead(path);
  try {
    const stat = file.stat();
    if (!stat.isFile) return null;
    const buffer = new Uint8Array(Math.min(stat.size, maxBytes) + 1);
    let size = 0;
    for (let read = -1; read !== 0 && size < buffer.length; size += read) {
      read = file.read(buffer.subarray(size), size);
    }
    if (size > stat.size) throw new Error("grew while it was read");
    return buffer.subarray(0, size);
  } finally {
    file.close();
  }
}
