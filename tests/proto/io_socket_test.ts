import assert from "node:assert/strict";
import {
  checkSocketPlace,
  isListening,
  listen,
  ownerOfNewFile,
  SocketPlaceError,
} from "../../proto/io/socket.ts";
import { snapshot } from "../support/broker.ts";
import { leaveSocket } from "../support/sockets.ts";

/** A place for a socket in a temporary directory; its own directory is not made yet. */
class Place implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-io-" });
  readonly directory = `${this.root}/owner-broker`;
  readonly path = `${this.directory}/admin.sock`;
  readonly owner = ownerOfNewFile(this.root);

  makeDirectory(mode: number): void {
    Deno.mkdirSync(this.directory);
    Deno.chmodSync(this.directory, mode);
  }

  mode(path: string): number {
    return (Deno.lstatSync(path).mode ?? 0) & 0o7777;
  }

  /** The place is refused as `problem`, and nothing in it is changed. */
  refused(problem: RegExp): void {
    const before = snapshot(this.root);
    assert.throws(() => checkSocketPlace(this.path, this.owner), (error) => {
      assert.ok(error instanceof SocketPlaceError);
      assert.match(error.message, problem);
      return true;
    });
    assert.deepEqual(snapshot(this.root), before);
  }

  /** The place is good, and a socket can be made there. */
  taken(): void {
    checkSocketPlace(this.path, this.owner);
    using _ = listen(this.path);
    assert.equal(this.mode(this.path), 0o600);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

for (const umask of [0, 0o022, 0o077]) {
  Deno.test(`with a umask of ${umask.toString(8)} the directory gets 0700 and the socket 0600`, () => {
    using place = new Place();
    const before = Deno.umask(umask);
    try {
      place.taken();
    } finally {
      Deno.umask(before);
    }
    assert.equal(place.mode(place.directory), 0o700);
  });
}

Deno.test("a directory that is there keeps its mode", () => {
  for (const mode of [0o700, 0o300]) {
    using place = new Place();
    place.makeDirectory(mode);
    place.taken();
    assert.equal(place.mode(place.directory), mode);
  }
});

Deno.test("a directory wider than 0700 is refused, untouched", () => {
  for (const mode of [0o755, 0o750, 0o770, 0o777, 0o701, 0o702, 0o704, 0o710, 0o720, 0o1777]) {
    using place = new Place();
    place.makeDirectory(mode);
    place.refused(
      new RegExp(`owner-broker has mode 0${(mode & 0o777).toString(8)}, wider than 0700`),
    );
    Deno.chmodSync(place.directory, 0o700);
    place.taken();
  }
});

Deno.test("a directory of another owner is refused, untouched", () => {
  using place = new Place();
  place.makeDirectory(0o700);
  const { owner, path } = place;
  const before = snapshot(place.root);
  for (const other of [(owner ?? 0) + 1, null]) {
    assert.throws(() => checkSocketPlace(path, other), /belongs to another user/);
  }
  assert.deepEqual(snapshot(place.root), before);
  place.taken();
});

Deno.test("what is not a directory in the directory's place is refused, untouched", () => {
  using place = new Place();
  Deno.writeTextFileSync(place.directory, "");
  place.refused(/is not a directory/);
  Deno.removeSync(place.directory);
  Deno.mkdirSync(`${place.root}/elsewhere`, { mode: 0o700 });
  Deno.symlinkSync(`${place.root}/elsewhere`, place.directory);
  place.refused(/is not a directory/);
});

const IN_THE_WAY: Readonly<Record<string, (path: string) => void>> = {
  "a file": (path) => Deno.writeTextFileSync(path, "the owner's"),
  "an empty file": (path) => Deno.writeTextFileSync(path, ""),
  "a directory": (path) => Deno.mkdirSync(path),
  "a symlink to a file": (path) => {
    Deno.writeTextFileSync(`${path}.target`, "the owner's");
    Deno.symlinkSync(`${path}.target`, path);
  },
  "a symlink to a socket": (path) => {
    leaveSocket(`${path}.target`);
    Deno.symlinkSync(`${path}.target`, path);
  },
  "a symlink to nothing": (path) => Deno.symlinkSync(`${path}.target`, path),
};

for (const [what, make] of Object.entries(IN_THE_WAY)) {
  Deno.test(`${what} in the socket's place is refused, untouched`, () => {
    using place = new Place();
    place.makeDirectory(0o700);
    make(place.path);
    place.refused(/admin\.sock exists and is not a socket/);
    Deno.removeSync(place.path, { recursive: true });
    place.taken();
  });
}

Deno.test("a path of 107 bytes is taken, and a longer one is refused before anything is made", () => {
  for (const letter of ["a", "é"]) {
    using place = new Place();
    const room = 107 - new TextEncoder().encode(`${place.root}/`).length - "/s".length;
    const name = letter.repeat(Math.floor(room / 2) * (letter === "a" ? 2 : 1));
    const path = `${place.root}/${name}/s`.padEnd(letter === "a" ? 107 : 0, "s");
    assert.throws(() => checkSocketPlace(`${path}ss`, place.owner), (error) => {
      assert.ok(error instanceof SocketPlaceError);
      assert.match(error.message, /s is longer than the 107 bytes that a socket's path may have$/);
      return true;
    });
    assert.deepEqual([...Deno.readDirSync(place.root)], []);
    checkSocketPlace(path, place.owner);
    listen(path).close();
  }
});

Deno.test("a stale socket is replaced", async () => {
  using place = new Place();
  place.makeDirectory(0o700);
  leaveSocket(place.path);
  Deno.chmodSync(place.path, 0o666);
  assert.equal(await isListening(place.path), false);
  checkSocketPlace(place.path, place.owner);
  using listener = listen(place.path);
  assert.equal(await isListening(place.path), true);
  assert.equal(place.mode(place.path), 0o600);
  assert.equal(listener.addr.path, place.path);
});

Deno.test("nobody listens where nothing is", async () => {
  using place = new Place();
  assert.equal(await isListening(place.path), false);
});

Deno.test("a place's text is shown as data", () => {
  using place = new Place();
  const directory = `${place.root}/\x1b[31m\u202e`;
  Deno.writeTextFileSync(directory, "");
  assert.throws(() => checkSocketPlace(`${directory}/a.sock`, place.owner), (error) => {
    assert.ok(error instanceof SocketPlaceError);
    assert.ok(error.message.endsWith("/\\u001b[31m\\u202e is not a directory"), error.message);
    return true;
  });
});

Deno.test("the owner of new files is seen on one that is removed again", () => {
  using place = new Place();
  assert.equal(ownerOfNewFile(place.root), Deno.uid());
  assert.deepEqual([...Deno.readDirSync(place.root)], []);
});
