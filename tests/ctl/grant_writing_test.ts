/** Writing a grant where the disk fails. */
import assert from "node:assert/strict";
import { writeGrant } from "../../ctl/grant_writing.ts";
import { Failed } from "../../ctl/notices.ts";
import { namesOf } from "../support/broker.ts";
import { TempDir } from "../support/scripts.ts";

/** Makes the sync that comes after `good` others fail, and every later one succeed. */
function failingSync(good: number): Disposable {
  const real = Deno.FsFile.prototype.syncSync;
  let done = 0;
  Deno.FsFile.prototype.syncSync = function () {
    done += 1;
    if (done === good + 1) throw new Error("Input/output error (os error 5)");
    real.call(this);
  };
  return { [Symbol.dispose]: () => void (Deno.FsFile.prototype.syncSync = real) };
}

Deno.test("a grant of which it is not known that it is on disk is none, and nothing is left", () => {
  // Of the file, and of the directory once the grant has its name.
  for (const good of [0, 1]) {
    using place = new TempDir();
    place.write("notes.toml", "");
    using _failing = failingSync(good);
    assert.throws(
      () => writeGrant(place.path, "remembered-1", "text", "notes"),
      (error) => error instanceof Failed && error.code === "grant_not_written",
    );
    assert.deepEqual(namesOf(place.path), ["notes.toml"], `${good}`);
  }
});
