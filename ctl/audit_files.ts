/**
 * Reads an audit log from its directory (contracts 5, items 5 and 8). Opens for reading only and holds
 * no more than a chunk and one line at a time, so that it may run on a log of any size while brokerd writes it.
 */
import fs from "node:fs";
import { type Anchor, HEAD_BYTES, isAuditFileName, parseHead } from "../proto/audit.ts";
import { type ChainReport, ChainVerifier } from "../proto/chain.ts";
import { type ChunkLine, LineSplitter } from "../proto/lines.ts";
import { asciiText } from "../proto/text.ts";
import {
  CHUNK_BYTES,
  CHUNKS,
  type HashedChunk,
  HashedChunks,
  knownHash,
  share,
  startHashing,
} from "./hash_thread.ts";
import { messageOf, notAllowed } from "./notices.ts";
import { type LineRead, unwatched } from "./progress.ts";

/** From so many bytes on, a second thread saves more time than its start takes. */
const LARGE_BYTES = 8 * 1024 * 1024;
/** A head.json that differs at every look is brokerd's at work; nothing else is waited for. */
const MOST_LOOKS = 10;

/**
 * Verifies the log in `directory`, against its `head.json` and, where given, against `expected`. Throws
 * `Failed` where this process lacks the permission to read it.
 */
export function verifyLog(
  directory: string,
  expected: Anchor | null,
  lineRead: LineRead = unwatched,
): ChainReport {
  return settled(() => look(directory, expected, lineRead));
}

/**
 * What looking gives, at the first look unless a head does not match: head.json may have been read while
 * brokerd rewrote it, so that counts only once it was seen twice in a row (contracts 5.8).
 */
export function settled(look: () => ChainReport): ChainReport {
  let report = look();
  for (let looks = 1; isOfHead(report) && looks < MOST_LOOKS; looks += 1) {
    const before = report;
    report = look();
    if (sameFailure(before, report)) break;
  }
  return report;
}

/** The failure of a head begins with that word (contracts 5.8). */
function isOfHead({ failure }: ChainReport): boolean {
  return failure !== null && failure.what.startsWith("head");
}

function sameFailure(a: ChainReport, b: ChainReport): boolean {
  return a.failure?.file === b.failure?.file && a.failure?.line === b.failure?.line &&
    a.failure?.what === b.failure?.what;
}

function look(directory: string, expected: Anchor | null, lineRead: LineRead): ChainReport {
  // head.json first: it may lag behind the log, so what it names is there once the log is read.
  const verifier = new ChainVerifier({ head: readHead(directory), expected });
  const bareName = directory.slice(directory.lastIndexOf("/") + 1);
  const names = attempt(directory, () => namesIn(directory));
  if (!names.ok) {
    verifier.unreadable(bareName, names.why);
    return verifier.finish();
  }
  const shared = share();
  const ahead = new HashedChunks(shared);
  using _thread = isLarge(directory, names.value) ? startHashing(shared) : null;
  for (const name of names.value) {
    verifier.file(name);
    const path = `${directory}/${name}`;
    const read = attempt(path, () => feed(verifier, path, ahead, lineRead));
    if (!read.ok) {
      verifier.unreadable(name, read.why);
      break;
    }
  }
  return verifier.finish();
}

/** Whether a second thread is worth its start. */
function isLarge(directory: string, names: readonly string[]): boolean {
  let bytes = 0;
  for (const name of names) {
    const found = attempt(`${directory}/${name}`, () => Deno.statSync(`${directory}/${name}`).size);
    if (found.ok) bytes += found.value;
  }
  return bytes >= LARGE_BYTES;
}

/** Feeds the lines of the file at `path` to `verifier`. Throws as the runtime does. */
function feed(
  verifier: ChainVerifier,
  path: string,
  ahead: HashedChunks,
  lineRead: LineRead,
): void {
  const splitter = new LineSplitter();
  for (const chunk of hashedChunks(path, ahead)) {
    let index = 0;
    for (const { bytes, ended, text } of splitter.push(chunk.bytes, asciiText(chunk.bytes))) {
      verifier.line(bytes, ended, text, knownHash(chunk, index));
      lineRead(bytes.length + 1);
      index += 1;
    }
  }
  const rest = splitter.end();
  if (rest !== null) verifier.line(rest.bytes, rest.ended);
}

/** The chunks of the file at `path`, read ahead. What fails is thrown once all before it has been given. */
function* hashedChunks(path: string, ahead: HashedChunks): Generator<HashedChunk> {
  const file = openFile(path);
  ahead.begin();
  let more = true;
  let failure: { readonly error: unknown } | null = null;
  try {
    while (true) {
      // Many at a time: to wake the other thread takes as long as to hash a few lines.
      if (more && ahead.waiting <= CHUNKS / 2) {
        try {
          while (more && ahead.waiting < CHUNKS) {
            more = ahead.put((into) => fs.readSync(file, into, 0, into.length, null));
          }
        } catch (error) {
          more = false;
          failure = { error };
        }
        ahead.wake();
      }
      if (ahead.waiting === 0) break;
      yield ahead.take();
    }
    if (failure !== null) throw failure.error;
  } finally {
    fs.closeSync(file);
  }
}

/** The names of the log's files in `directory`, in order. Throws as the runtime does. */
export function namesIn(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name).filter(isAuditFileName).sort();
}

export type Attempt<T> = { readonly ok: true; readonly value: T } | {
  readonly ok: false;
  readonly why: string;
};

/** Does what may fail because of what stands at `path`. Throws `Failed` where a permission is missing. */
export function attempt<T>(path: string, run: () => T): Attempt<T> {
  try {
    return { ok: true, value: run() };
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw notAllowed(path);
    return { ok: false, why: `cannot be read: ${messageOf(error)}` };
  }
}

/** Opens a regular file, following links and never waiting for the other end of a FIFO. */
function openFile(path: string): number {
  const { O_RDONLY, O_NONBLOCK } = fs.constants;
  const file = fs.openSync(path, O_RDONLY | O_NONBLOCK);
  if (fs.fstatSync(file).isFile()) return file;
  fs.closeSync(file);
  throw new Error("not a regular file");
}

/** An open file of the log. It may grow while it is read. */
export class LineFile implements Disposable {
  readonly #file: number;
  readonly #chunk = new Uint8Array(CHUNK_BYTES);
  readonly #splitter = new LineSplitter();

  /** Opens the regular file at `path`. Throws as the runtime does, and where something else stands there. */
  constructor(path: string) {
    this.#file = openFile(path);
  }

  /** The lines that are whole by now and have not been given before, each valid until the next one. */
  *more(): Generator<ChunkLine> {
    while (true) {
      const count = fs.readSync(this.#file, this.#chunk, 0, this.#chunk.length, null);
      if (count === 0) return;
      const bytes = this.#chunk.subarray(0, count);
      yield* this.#splitter.push(bytes, asciiText(bytes));
    }
  }

  [Symbol.dispose](): void {
    fs.closeSync(this.#file);
  }
}

/** What `head.json` says; null for none, and for anything but exactly what brokerd writes. */
function readHead(directory: string): Anchor | null {
  const path = `${directory}/head.json`;
  const read = attempt(path, () => {
    const file = openFile(path);
    try {
      const bytes = new Uint8Array(HEAD_BYTES + 1);
      const count = fs.readSync(file, bytes, 0, bytes.length, null);
      return parseHead(bytes.subarray(0, count));
    } finally {
      fs.closeSync(file);
    }
  });
  return read.ok ? read.value : null;
}
