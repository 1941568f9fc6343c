/**
 * The broker's file seam over a disk in memory that loses whatever was not synced, as a file system
 * without a journal does at its worst:
 *
 * - Of a file, each sector is as it was after any of the writes since the last sync of that file, whatever
 *   became of the other sectors. Its size is any of the sizes that it had, or one between. So written data
 *   may be missing from any byte on, be zeros in the middle, or be there while what was written earlier
 *   is not. One sector is never torn: no disk writes half of it, and where the system takes only part of
 *   a write over old data, the disk gets that no earlier than what the process does next.
 * - Of a directory, each name stands for what it stood for after any of the operations since the last
 *   sync of that directory, whatever became of the other names: a rename may come through under its
 *   old name, its new one, or both. A sync of a file says nothing of its name.
 * - A sync that succeeds makes durable all that came before it, also after one that failed.
 *
 * There are no links and no modes. Files are read and written from memory, and nothing here waits.
 */
import type { Entry, Files, FileStat, OpenFile } from "../../broker/files.ts";
import { directoryOf } from "../../proto/layout.ts";
import type { Fault } from "./watched_files.ts";

/** What a disk writes whole or not at all, in bytes. */
export const SECTOR_BYTES = 512;

/**
 * Chooses one of `count` ways in which something comes through a crash, from 0 to `count` - 1: 0 loses
 * nothing, and each following one more of what was done last.
 */
export type Pick = (count: number) => number;

/** A crash that loses nothing, and one that loses all that it may. */
export const keepAll: Pick = () => 0;
export const loseAll: Pick = (count) => count - 1;

/** Where there is one way only, nothing is chosen. */
const choice = (pick: Pick, count: number) => count === 1 ? 0 : pick(count);

/** Thrown by every operation of a process that has ended. */
export class Stopped extends Error {}

/** One change of a file: `bytes`, or zeros, from `from` to `to`, and the size after it. */
interface Change {
  readonly from: number;
  readonly to: number;
  readonly bytes: Uint8Array | null;
  readonly size: number;
  /** A write over what was there that was taken in part only. */
  readonly short: boolean;
}

/** Bytes of a file. What lies beyond its size is zeros. */
class Content {
  #bytes = new Uint8Array(SECTOR_BYTES);
  size = 0;

  /** What is there between two places; not a copy. */
  view(from = 0, to = this.size): Uint8Array {
    this.#room(to);
    return this.#bytes.subarray(from, to);
  }

  apply({ from, to, bytes, size }: Change): void {
    this.#room(Math.max(to, size));
    if (bytes === null) this.#bytes.fill(0, from, to);
    else this.#bytes.set(bytes, from);
    this.size = size;
  }

  #room(size: number): void {
    if (size <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(size, 2 * this.#bytes.length));
    larger.set(this.#bytes);
    this.#bytes = larger;
  }
}

let identities = 0;

class FileNode {
  readonly now = new Content();
  readonly synced = new Content();
  /** Since the last sync. */
  changes: Change[] = [];
  modified = 0;

  constructor(readonly identity = `file ${identities += 1}`) {}

  change(change: Change): void {
    this.now.apply(change);
    this.changes.push(change);
    this.modified += 1;
  }

  sync(): void {
    for (const change of this.changes.splice(0)) this.synced.apply(change);
  }

  /** What a crash leaves of it. */
  survivor(pick: Pick): FileNode {
    const left = new FileNode(this.identity);
    const sizes = [this.synced.size, ...this.changes.map(({ size }) => size)];
    const largest = Math.max(...sizes);
    const bytes = new Uint8Array(Math.ceil(largest / SECTOR_BYTES) * SECTOR_BYTES);
    bytes.set(this.synced.view());
    const size = largest - choice(pick, largest - Math.min(...sizes) + 1);
    for (let start = 0; start < bytes.length; start += SECTOR_BYTES) {
      const end = start + SECTOR_BYTES;
      const touching = this.changes.filter(({ from, to }) => from < end && to > start);
      const sector = bytes.subarray(start, end);
      let done = touching.length - choice(pick, touching.length + 1);
      while (touching[done - 1]?.short) done -= 1;
      for (const { from, to, bytes: written } of touching.slice(0, done)) {
        const [first, last] = [Math.max(from, start), Math.min(to, end)];
        if (written === null) sector.fill(0, first - start, last - start);
        else sector.set(written.subarray(first - from, last - from), first - start);
      }
    }
    left.change({ from: 0, to: size, bytes: bytes.subarray(0, size), size, short: false });
    left.sync();
    return left;
  }
}

type Node = FileNode | DirectoryNode;

class DirectoryNode {
  readonly now = new Map<string, Node>();
  readonly synced = new Map<string, Node>();
  /** What each name stood for after each change since the last sync. */
  changes: { readonly name: string; readonly node: Node | null }[] = [];
  modified = 0;

  constructor(readonly identity = `directory ${identities += 1}`) {}

  change(name: string, node: Node | null): void {
    enter(this.now, name, node);
    this.changes.push({ name, node });
    this.modified += 1;
  }

  sync(): void {
    for (const { name, node } of this.changes.splice(0)) enter(this.synced, name, node);
  }

  /** All that a name has stood for since the last sync, in order. */
  stood(name: string): (Node | null)[] {
    const changes = this.changes.filter((change) => change.name === name);
    return [this.synced.get(name) ?? null, ...changes.map(({ node }) => node)];
  }

  /** What a crash leaves of it and of all below. `known`: nodes that were reached by another name. */
  survivor(pick: Pick, known = new Map<Node, Node>()): DirectoryNode {
    const left = new DirectoryNode(this.identity);
    const names = new Set([...this.synced.keys(), ...this.changes.map(({ name }) => name)]);
    for (const name of [...names].sort()) {
      const stood = this.stood(name);
      const node = stood[stood.length - 1 - choice(pick, stood.length)] ?? null;
      if (node === null) continue;
      const survivor = known.get(node) ??
        (node instanceof FileNode ? node.survivor(pick) : node.survivor(pick, known));
      known.set(node, survivor);
      left.change(name, survivor);
    }
    left.sync();
    return left;
  }
}

function enter(names: Map<string, Node>, name: string, node: Node | null): void {
  if (node === null) names.delete(name);
  else names.set(name, node);
}

const failure = (code: string, path: string) =>
  Object.assign(new Error(`${code}: ${path}`), { code });
const nameOf = (path: string) => path.slice(path.lastIndexOf("/") + 1);
/** The names of each path, split once. */
const known = new Map<string, readonly string[]>();
function parts(path: string): readonly string[] {
  const names = known.get(path) ?? path.split("/").filter((name) => name !== "");
  known.set(path, names);
  return names;
}

/** The files as one process sees them. The disk outlives it: `killed` and `crashed` give the next one. */
export class LosingFiles implements Files {
  /** Asked before each operation; `name` is the whole path. A number: a write of only so many bytes. */
  fault: Fault = () => null;

  readonly #root: DirectoryNode;
  readonly #locks = new Set<Node>();
  #stopped = false;

  constructor(root = new DirectoryNode()) {
    this.#root = root;
  }

  /** The process has ended: nothing more reaches the disk. */
  get stopped(): boolean {
    return this.#stopped;
  }

  /** Ends the process where it stands. */
  stop(): void {
    this.#stopped = true;
  }

  /** The files for the next process after this one was killed: nothing is lost, nothing is synced. */
  killed(): LosingFiles {
    this.stop();
    return new LosingFiles(this.#root);
  }

  /** The files for the first process after the whole machine stopped. */
  crashed(pick: Pick): LosingFiles {
    this.stop();
    return new LosingFiles(this.#root.survivor(pick));
  }

  /** The names in a directory, in byte order; for the test, also once the process has ended. */
  names(directory: string): string[] {
    return [...this.#directory(directory).now.keys()].sort();
  }

  /** What is in a file now, or null; for the test, also once the process has ended. */
  content(path: string): Uint8Array | null {
    const node = this.#find(path);
    return node instanceof FileNode ? node.now.view() : null;
  }

  /**
   * What may be found under a name after a crash: each of the files that it may stand for, as that was last
   * synced, and null where it may be none. Of a file that is only appended to, no crash leaves less.
   */
  survivors(path: string): (Uint8Array | null)[] {
    const parent = this.#find(directoryOf(path));
    if (!(parent instanceof DirectoryNode)) return [null];
    return [...new Set(parent.stood(nameOf(path)))].map((node) =>
      node instanceof FileNode ? node.synced.view() : null
    );
  }

  /** Puts a file there, or with null takes it away, as somebody else does who syncs what he does. */
  put(path: string, bytes: Uint8Array | null): void {
    const parent = this.#directory(directoryOf(path));
    const node = bytes === null ? null : new FileNode();
    if (node !== null && bytes !== null) {
      node.change({ from: 0, to: bytes.length, bytes, size: bytes.length, short: false });
      node.sync();
    }
    const name = nameOf(path);
    // Only this name: what the broker did to others is as lost or as safe as before.
    parent.changes = parent.changes.filter((change) => change.name !== name);
    enter(parent.now, name, node);
    enter(parent.synced, name, node);
    parent.modified += 1;
  }

  list(directory: string): Entry[] {
    this.#before("list", directory);
    const { now } = this.#directory(directory);
    return this.names(directory).map((name) => ({
      name,
      isFile: now.get(name) instanceof FileNode,
    }));
  }

  stat(path: string): FileStat | null {
    this.#before("stat", path);
    return this.#stat(path);
  }

  lstat(path: string): FileStat | null {
    this.#before("lstat", path);
    return this.#stat(path);
  }

  makeDirectory(path: string): void {
    this.#before("makeDirectory", path);
    let parent = this.#root;
    for (const name of parts(path)) {
      const node = parent.now.get(name) ?? new DirectoryNode();
      if (!(node instanceof DirectoryNode)) throw failure("ENOTDIR", path);
      if (!parent.now.has(name)) parent.change(name, node);
      parent = node;
    }
  }

  openRead(path: string): OpenFile {
    this.#before("openRead", path);
    return this.#open(path, this.#file(path), "read");
  }

  openAppend(path: string): OpenFile {
    this.#before("openAppend", path);
    return this.#open(path, this.#fileOrNew(path), "append");
  }

  openUpdate(path: string): OpenFile {
    this.#before("openUpdate", path);
    return this.#open(path, this.#fileOrNew(path), "update");
  }

  create(path: string): OpenFile {
    this.#before("create", path);
    if (this.#find(path) !== null) throw failure("EEXIST", path);
    return this.#open(path, this.#fileOrNew(path), "update");
  }

  syncDirectory(path: string): void {
    this.#before("syncDirectory", path);
    this.#directory(path).sync();
  }

  rename(from: string, to: string): void {
    this.#before("rename", to);
    const node = this.#find(from);
    if (node === null) throw failure("ENOENT", from);
    this.#directory(directoryOf(to)).change(nameOf(to), node);
    this.#directory(directoryOf(from)).change(nameOf(from), null);
  }

  remove(path: string): void {
    this.#before("remove", path);
    this.#file(path);
    this.#directory(directoryOf(path)).change(nameOf(path), null);
  }

  lock(path: string): boolean {
    this.#before("lock", path);
    const node = this.#fileOrNew(path);
    if (this.#locks.has(node)) return false;
    this.#locks.add(node);
    return true;
  }

  /** What the test wants of an operation: the most bytes that a write takes, or null for all. */
  #before(what: string, path: string): number | null {
    const fault = this.#stopped ? null : this.fault({ what, name: path });
    // The test may have ended the process just now.
    if (this.#stopped) throw new Stopped(`${what} ${path}: the process has ended`);
    if (fault instanceof Error) throw fault;
    return fault;
  }

  #find(path: string): Node | null {
    let node: Node | null = this.#root;
    for (const name of parts(path)) {
      node = node instanceof DirectoryNode ? node.now.get(name) ?? null : null;
    }
    return node;
  }

  #directory(path: string): DirectoryNode {
    const node = this.#find(path);
    if (node instanceof DirectoryNode) return node;
    throw failure(node === null ? "ENOENT" : "ENOTDIR", path);
  }

  #file(path: string): FileNode {
    const node = this.#find(path);
    if (node instanceof FileNode) return node;
    throw failure(node === null ? "ENOENT" : "EISDIR", path);
  }

  #fileOrNew(path: string): FileNode {
    if (this.#find(path) !== null) return this.#file(path);
    const file = new FileNode();
    this.#directory(directoryOf(path)).change(nameOf(path), file);
    return file;
  }

  #stat(path: string): FileStat | null {
    const node = this.#find(path);
    return node === null ? null : statOf(node);
  }

  #open(path: string, node: FileNode, how: "read" | "append" | "update"): OpenFile {
    /** Where a write without a position goes. */
    let at = 0;
    let closed = false;
    const before = (what: string) => {
      if (closed) throw failure("EBADF", path);
      return this.#before(what, path);
    };
    const forWriting = (what: string) => {
      const most = before(what);
      if (how === "read") throw failure("EBADF", path);
      return most;
    };
    return {
      stat: () => statOf(node),
      read(buffer, position) {
        before("read");
        const found = node.now.view().subarray(position, position + buffer.length);
        buffer.set(found);
        return found.length;
      },
      write(bytes, position) {
        const most = forWriting("write");
        const written = bytes.slice(0, most ?? bytes.length);
        const from = how === "append" ? node.now.size : position ?? at;
        const to = from + written.length;
        if (position === null) at = to;
        const short = written.length < bytes.length && from < node.now.size;
        node.change({ from, to, bytes: written, size: Math.max(node.now.size, to), short });
        return written.length;
      },
      truncate(size) {
        forWriting("truncate");
        const [from, to] = [size, node.now.size].sort((a, b) => a - b);
        node.change({ from: from ?? size, to: to ?? size, bytes: null, size, short: false });
      },
      sync() {
        before("sync");
        node.sync();
      },
      close: () => void (closed = true),
    };
  }
}

function statOf(node: Node): FileStat {
  const isFile = node instanceof FileNode;
  const size = isFile ? node.now.size : 0;
  return { isFile, isDirectory: !isFile, size, identity: node.identity, modified: node.modified };
}
