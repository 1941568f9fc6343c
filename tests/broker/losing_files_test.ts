/** The disk that loses what was not synced (`tests/support/losing_files.ts`): it loses that, and only that. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { utf8 } from "../../proto/text.ts";
import {
  keepAll,
  loseAll,
  LosingFiles,
  type Pick,
  SECTOR_BYTES,
  Stopped,
} from "../support/losing_files.ts";
import { diskFull } from "../support/watched_files.ts";

const OPTIONS = { permissions: "none" } as const;

/** A disk with the directory `/d`, which is there whatever happens. */
function disk(): LosingFiles {
  const files = new LosingFiles();
  files.makeDirectory("/d");
  files.syncDirectory("/");
  return files;
}

function append(files: LosingFiles, path: string, text: string, sync: boolean): void {
  const file = files.openAppend(path);
  assert.equal(file.write(utf8(text), null), utf8(text).length);
  if (sync) file.sync();
  file.close();
}

function textOf(files: LosingFiles, path: string): string | null {
  const bytes = files.content(path);
  return bytes === null ? null : new TextDecoder().decode(bytes);
}

const picks: fc.Arbitrary<Pick> = fc.array(fc.nat(0xffff), { minLength: 1, maxLength: 10 })
  .map((numbers) => {
    let at = 0;
    return (count) => (numbers[at++ % numbers.length] ?? 0) % count;
  });

/** All that a crash was seen to leave of the files, over many crashes of the disk that `make` gives. */
function outcomes(make: () => LosingFiles, ...paths: string[]): Set<string | null> {
  const seen = new Set<string | null>();
  const crash = (pick: Pick) => {
    const files = make().crashed(pick);
    const [first = null, ...more] = paths.map((path) => textOf(files, path));
    seen.add(more.length === 0 ? first : [first, ...more].join(" "));
  };
  fc.assert(fc.property(picks, crash), { numRuns: 300, seed: 1 });
  return seen;
}

Deno.test("what was synced, with its name, survives every crash", OPTIONS, () => {
  const make = () => {
    const files = disk();
    append(files, "/d/log", "one\n", true);
    files.syncDirectory("/d");
    append(files, "/d/log", "two\n", true);
    return files;
  };
  assert.deepEqual(outcomes(make, "/d/log"), new Set(["one\ntwo\n"]));
  assert.deepEqual(make().survivors("/d/log"), [utf8("one\ntwo\n")]);
});

Deno.test(
  "of what was appended and not synced, any end may be missing, or be zeros",
  OPTIONS,
  () => {
    const make = () => {
      const files = disk();
      append(files, "/d/log", "one\n", true);
      files.syncDirectory("/d");
      append(files, "/d/log", "two\n", false);
      return files;
    };
    const seen = outcomes(make, "/d/log");
    for (const left of ["one\n", "one\nt", "one\ntw", "one\ntwo", "one\ntwo\n", "one\n\0\0\0\0"]) {
      assert.ok(seen.has(left), JSON.stringify(left));
    }
    for (const left of seen) assert.ok(left?.startsWith("one\n"), "nothing synced is lost");
  },
);

Deno.test("a later sector may come through without an earlier one", OPTIONS, () => {
  const sector = (letter: string) => letter.repeat(SECTOR_BYTES);
  const make = () => {
    const files = disk();
    append(files, "/d/log", "", true);
    files.syncDirectory("/d");
    append(files, "/d/log", sector("a") + sector("b"), false);
    return files;
  };
  // The name and the size as they are last, then the first sector as it was first.
  const picks = [0, 1, 0];
  const left = make().crashed((count) => Math.min(picks.shift() ?? 0, count - 1));
  assert.equal(textOf(left, "/d/log"), sector("\0") + sector("b"));
});

Deno.test("a write in place is lost or not, and never half of it within a sector", OPTIONS, () => {
  const make = () => {
    const files = disk();
    append(files, "/d/head", "0000", true);
    files.syncDirectory("/d");
    for (const text of ["1111", "2222"]) {
      const file = files.openUpdate("/d/head");
      file.write(utf8(text), 0);
      file.close();
    }
    return files;
  };
  assert.deepEqual(outcomes(make, "/d/head"), new Set(["0000", "1111", "2222"]));
});

Deno.test("a synced file may lose its name until its directory is synced", OPTIONS, () => {
  const make = () => {
    const files = disk();
    append(files, "/d/log", "one\n", true);
    return files;
  };
  assert.deepEqual(outcomes(make, "/d/log"), new Set([null, "one\n"]));
  assert.deepEqual(make().survivors("/d/log"), [null, utf8("one\n")]);
});

Deno.test("a name may survive without the data", OPTIONS, () => {
  const make = () => {
    const files = disk();
    append(files, "/d/log", "one\n", false);
    files.syncDirectory("/d");
    return files;
  };
  const seen = outcomes(make, "/d/log");
  for (const left of ["", "\0\0\0\0", "one\n"]) assert.ok(seen.has(left), JSON.stringify(left));
  assert.ok(!seen.has(null));
});

Deno.test("a rename may be lost, in half too, until its directory is synced", OPTIONS, () => {
  const renamed = (synced: boolean) => () => {
    const files = disk();
    append(files, "/d/state", "old", true);
    append(files, "/d/state.tmp", "new", true);
    files.syncDirectory("/d");
    files.rename("/d/state.tmp", "/d/state");
    if (synced) files.syncDirectory("/d");
    return files;
  };
  assert.deepEqual(outcomes(renamed(false), "/d/state"), new Set(["old", "new"]));
  assert.deepEqual(outcomes(renamed(false), "/d/state.tmp"), new Set([null, "new"]));
  assert.deepEqual(outcomes(renamed(true), "/d/state"), new Set(["new"]));
  assert.deepEqual(outcomes(renamed(true), "/d/state.tmp"), new Set([null]));
  const both = outcomes(renamed(false), "/d/state", "/d/state.tmp");
  assert.deepEqual(both, new Set(["old new", "old ", "new new", "new "]));
});

Deno.test("a removal may be lost, and so may a directory with all that is in it", OPTIONS, () => {
  const removed = () => {
    const files = disk();
    append(files, "/d/a", "a", true);
    files.syncDirectory("/d");
    files.remove("/d/a");
    return files;
  };
  assert.deepEqual(outcomes(removed, "/d/a"), new Set(["a", null]));
  const made = () => {
    const files = disk();
    files.makeDirectory("/d/e");
    append(files, "/d/e/a", "a", true);
    files.syncDirectory("/d/e");
    return files;
  };
  assert.deepEqual(outcomes(made, "/d/e/a"), new Set(["a", null]));
});

Deno.test("the crash that keeps all and the one that loses all", OPTIONS, () => {
  const make = () => {
    const files = disk();
    append(files, "/d/log", "one\n", true);
    files.syncDirectory("/d");
    append(files, "/d/log", "two\n", false);
    append(files, "/d/new", "new", false);
    return files;
  };
  const read = (files: LosingFiles) => [textOf(files, "/d/log"), textOf(files, "/d/new")];
  assert.deepEqual(read(make().crashed(keepAll)), ["one\ntwo\n", "new"]);
  assert.deepEqual(read(make().crashed(loseAll)), ["one\n", null]);
  assert.deepEqual(read(make().killed()), ["one\ntwo\n", "new"]);
});

Deno.test("after its end a process reaches nothing, and its lock is free", OPTIONS, () => {
  const files = disk();
  assert.ok(files.lock("/d/.lock"));
  assert.ok(!files.lock("/d/.lock"));
  const file = files.openAppend("/d/log");
  file.write(utf8("one"), null);
  const next = files.killed();
  for (
    const act of [() => file.write(utf8("two"), null), () => file.sync(), () => files.list("/d")]
  ) {
    assert.throws(act, Stopped);
  }
  assert.equal(textOf(next, "/d/log"), "one");
  assert.ok(next.lock("/d/.lock"));
});

Deno.test("a fault throws, or cuts a write short, and what it left is not synced", OPTIONS, () => {
  const files = disk();
  append(files, "/d/log", "one\n", true);
  files.syncDirectory("/d");
  files.fault = ({ what }) => what === "write" ? 2 : what === "sync" ? diskFull() : null;
  const file = files.openAppend("/d/log");
  assert.equal(file.write(utf8("two\n"), null), 2);
  assert.throws(() => file.sync(), { code: "ENOSPC" });
  assert.equal(textOf(files, "/d/log"), "one\ntw");
  assert.equal(textOf(files.crashed(loseAll), "/d/log"), "one\n");
});

Deno.test("files behave as the real ones do where they are no worse", OPTIONS, () => {
  const files = disk();
  assert.throws(() => files.openRead("/d/none"), { code: "ENOENT" });
  assert.equal(files.stat("/d/none"), null);
  const file = files.create("/d/a");
  assert.throws(() => files.create("/d/a"), { code: "EEXIST" });
  file.write(utf8("ab"), null);
  file.write(utf8("cd"), null);
  file.write(utf8("X"), 1);
  const buffer = new Uint8Array(8);
  assert.equal(file.read(buffer, 1), 3);
  assert.equal(file.read(buffer, 4), 0);
  file.truncate(3);
  assert.equal(textOf(files, "/d/a"), "aXc");
  assert.throws(() => files.openRead("/d/a").write(utf8("x"), null), { code: "EBADF" });
  const { identity } = file.stat();
  append(files, "/d/b", "b", false);
  files.makeDirectory("/d/c");
  assert.deepEqual(files.list("/d"), [
    { name: "a", isFile: true },
    { name: "b", isFile: true },
    { name: "c", isFile: false },
  ]);
  files.rename("/d/a", "/d/b");
  assert.equal(files.stat("/d/b")?.identity, identity);
  // Whoever has it open keeps it.
  files.remove("/d/b");
  file.write(utf8("!"), 3);
  assert.equal(file.stat().size, 4);
  assert.deepEqual(files.list("/d").map(({ name }) => name), ["c"]);
});
