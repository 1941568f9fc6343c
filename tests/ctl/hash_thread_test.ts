/**
 * The second thread of a verification: what it hashes is what the first one would, it needs no permission, and
 * without it or with one that has stopped every verdict is the same.
 */
import assert from "node:assert/strict";
import { verifyLog } from "../../ctl/audit_files.ts";
import {
  CHUNK_BYTES,
  CHUNKS,
  HashedChunks,
  knownHash,
  share,
  type Shared,
  startHashing,
} from "../../ctl/hash_thread.ts";
import { type ChainReport, ChainVerifier } from "../../proto/chain.ts";
import { sha256 } from "../../proto/ids.ts";
import { LineSplitter } from "../../proto/lines.ts";
import { fromUtf8, utf8 } from "../../proto/text.ts";
import { writeLog } from "../../scripts/bench/log.ts";
import { TempDir } from "../support/scripts.ts";

const PURE = { permissions: "none" } as const;

/** Puts the chunk that ends with the last line of `text`. */
function put(chunks: HashedChunks, text: string): void {
  const bytes = utf8(text);
  assert(chunks.put((into) => {
    into.set(bytes);
    return bytes.length;
  }));
}

/** Waits until the second thread has hashed chunk `number`. */
function hashed({ hashed }: Shared, number: number): void {
  const place = number % CHUNKS;
  const end = performance.now() + 60_000;
  while (Atomics.load(hashed, place) !== number + 1) {
    assert(performance.now() < end, `chunk ${number} is hashed`);
    Atomics.wait(hashed, place, Atomics.load(hashed, place), 100);
  }
}

Deno.test(
  "the second thread gives the hashes of a chunk's lines, without any permission",
  PURE,
  () => {
    const shared = share();
    const chunks = new HashedChunks(shared);
    using _thread = startHashing(shared);
    const texts = [
      "one\n\ntwo é\n",
      "\n",
      "a line\n".repeat(CHUNK_BYTES / 7),
      ...Array.from({ length: 3 * CHUNKS }, (_, n) => `line ${n}\nline ${n + 1}\n`),
    ];
    texts.forEach((text, number) => {
      put(chunks, text);
      chunks.wake();
      hashed(shared, number);
      const chunk = chunks.take();
      assert.deepEqual(chunk.bytes, utf8(text));
      const lines = text.split("\n").slice(0, -1);
      // Where there are very many, the rest is left to the first thread.
      const known = lines.map((_, n) => knownHash(chunk, n)).filter((hash) => hash !== null);
      assert.deepEqual(known, lines.slice(0, known.length).map((line) => sha256(utf8(line))));
      assert.equal(known.length, Math.min(lines.length, 512));
      assert.equal(knownHash(chunk, lines.length), null);
    });
  },
);

Deno.test("a line that begins in one chunk and ends in another has no known hash", PURE, () => {
  const shared = share();
  const chunks = new HashedChunks(shared);
  using _thread = startHashing(shared);
  let number = 0;
  const taken = () => {
    chunks.wake();
    hashed(shared, number++);
    const chunk = chunks.take();
    return [fromUtf8(chunk.bytes), knownHash(chunk, 0), knownHash(chunk, 1)];
  };
  const of = (line: string) => sha256(utf8(line));
  put(chunks, "one\ntw");
  assert.deepEqual(taken(), ["one\n", of("one"), null]);
  put(chunks, "o\nthree");
  assert.deepEqual(taken(), ["two\n", of("two"), null]);
  // As much as fits beside what is left, and no end of a line.
  put(chunks, "x".repeat(CHUNK_BYTES - "three".length));
  assert.deepEqual(taken(), [`three${"x".repeat(CHUNK_BYTES - 5)}`, null, null]);
  put(chunks, "xx\nfour\nfi");
  assert.deepEqual(taken(), ["xx\nfour\n", null, of("four")]);
  // The end of the file for now, then more of it.
  put(chunks, "");
  assert.deepEqual(taken(), ["fi", null, null]);
  assert.equal(chunks.put(() => 0), false);
  put(chunks, "ve\nsix\nse");
  assert.deepEqual(taken(), ["ve\nsix\n", null, of("six")]);
  chunks.begin();
  put(chunks, "first\n");
  assert.deepEqual(taken(), ["first\n", of("first"), null]);
});

Deno.test("without a second thread chunks come in order, and no hash is known", PURE, () => {
  const chunks = new HashedChunks(share());
  for (let n = 0; n < 3 * CHUNKS; n += 2) {
    put(chunks, `line ${n}\n`);
    put(chunks, `line ${n + 1}\n`);
    for (const number of [n, n + 1]) {
      const chunk = chunks.take();
      assert.deepEqual(chunk, { bytes: utf8(`line ${number}\n`), goesOn: false, hashes: "" });
      assert.equal(knownHash(chunk, 0), null);
    }
  }
  assert.equal(chunks.put(() => 0), false);
  assert.equal(chunks.waiting, 0);
});

Deno.test("what a second thread has begun and not finished is left to the first one", PURE, () => {
  const shared = share();
  const chunks = new HashedChunks(shared, 1);
  for (let n = 0; n < 3; n += 1) put(chunks, `line ${n}\n`);
  // As the thread does when it begins with a chunk.
  Atomics.store(shared.counts, 1, 2);
  for (let n = 0; n < 3; n += 1) {
    assert.deepEqual(chunks.take().hashes, "");
  }
});

Deno.test("a second thread that ends is waited for once", PURE, () => {
  const shared = share();
  const chunks = new HashedChunks(shared, 1000);
  put(chunks, "line\n");
  const thread = startHashing(shared);
  chunks.wake();
  hashed(shared, 0);
  assert.equal(knownHash(chunks.take(), 0), sha256(utf8("line")));
  Atomics.store(shared.counts, 2, 1);
  for (let n = 0; n < 200; n += 1) {
    put(chunks, `line ${n}\n`);
    assert.deepEqual(chunks.take().bytes, utf8(`line ${n}\n`));
    assert.equal(Atomics.load(shared.counts, 1), n + 2, "no chunk is left to it any more");
  }
  thread[Symbol.dispose]();
});

/** The verdict about the files at `paths` by the verifier alone, given whole files and nothing known. */
function verdict(paths: readonly string[]): ChainReport {
  const verifier = new ChainVerifier();
  for (const path of paths) {
    verifier.file(path.split("/").at(-1) ?? "");
    const splitter = new LineSplitter();
    for (const { bytes, ended } of splitter.push(Deno.readFileSync(path))) {
      verifier.line(bytes, ended);
    }
    const rest = splitter.end();
    if (rest !== null) verifier.line(rest.bytes, rest.ended);
  }
  return verifier.finish();
}

Deno.test("a large log has the verdict of the verifier alone, whole and tampered with", () => {
  using place = new TempDir();
  const directory = `${place.path}/audit`;
  const [first = "", second = ""] = writeLog(directory, [24_000, 50]);
  const whole = Deno.readFileSync(first);
  assert(whole.length > 10 * 1024 * 1024, "so large that a second thread is started");
  const at = (share: number) => whole.indexOf(0x0a, Math.floor(share * whole.length)) + 1;
  const spliced = (from: number, to: number, put: Uint8Array) => {
    const changed = new Uint8Array(from + put.length + whole.length - to);
    changed.set(whole.subarray(0, from));
    changed.set(put, from);
    changed.set(whole.subarray(to), from + put.length);
    return changed;
  };
  const none = new Uint8Array(0);
  const next = (from: number) => whole.indexOf(0x0a, from) + 1;
  const cases: Record<string, Uint8Array> = {
    "an empty line": spliced(at(0.5), at(0.5), utf8("\n")),
    "many empty lines": spliced(at(0.3), at(0.3), utf8("\n".repeat(2 * CHUNK_BYTES))),
    "a line longer than a chunk": spliced(at(0.7), at(0.7), utf8(`${"x".repeat(100_000)}\n`)),
    "a line that is missing": spliced(at(0.4), next(at(0.4)), none),
    "a line that stands twice": spliced(at(0.6), at(0.6), whole.slice(at(0.6), next(at(0.6)))),
    "no first line": whole.slice(next(0)),
    "no last newline": whole.slice(0, -1),
    "half of it": whole.slice(0, Math.floor(whole.length / 2)),
  };
  for (const share of [0.01, 0.5, 0.99]) {
    for (const offset of [80, 300]) {
      const changed = whole.slice();
      const place = at(share) + offset;
      changed[place] = (changed[place] ?? 0) ^ 1;
      cases[`a bit changed at ${place}`] = changed;
    }
  }
  assert.deepEqual(verifyLog(directory, null), verdict([first, second]));
  assert.equal(verifyLog(directory, null).failure, null);
  for (const [what, bytes] of Object.entries(cases)) {
    Deno.writeFileSync(first, bytes);
    const report = verifyLog(directory, null);
    assert.notEqual(report.failure, null, what);
    assert.deepEqual(report, verdict([first, second]), what);
  }
});
