/** The grants directory as it is at each decision (specification 3, "Loading"; contracts 3 and 8). Real files. */
import assert from "node:assert/strict";
import { MAX_GRANT_BYTES } from "../../broker/grant_rules.ts";
import { grantReader } from "../../broker/grants.ts";
import { decide } from "../../broker/policy.ts";
import type { DecisionRecord } from "../../proto/decisions.ts";
import { type GrantFields, grantFile } from "../support/grants.ts";
import { WatchedFiles } from "../support/watched_files.ts";

const READ: GrantFields = { constraints: { paths: ["/n"] } };
const ALLOWED: DecisionRecord = { outcome: "allowed" };
const GRANTS_INVALID: DecisionRecord = { outcome: "denied", reason: "grants_invalid" };
const NO_GRANT: DecisionRecord = { outcome: "denied", reason: "no_grant" };

/** A directory of grants, and the broker's reader of it. */
class Grants implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-grants-" });
  readonly directory = `${this.root}/grants`;
  readonly files = new WatchedFiles();
  readonly read = grantReader(this.files, this.directory);

  /** With one valid grant, that lets `/n/a` be read. */
  constructor() {
    Deno.mkdirSync(this.directory);
    this.write("read.toml", grantFile(READ));
  }

  path(name: string): string {
    return `${this.directory}/${name}`;
  }

  write(name: string, content: string | Uint8Array): void {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    Deno.writeFileSync(this.path(name), bytes);
  }

  remove(name: string): void {
    Deno.removeSync(this.path(name), { recursive: true });
  }

  /** What is wrong with the grants as they are now, as `file:line: problem`. */
  problems(): string[] {
    const set = this.read();
    if (set.ok) return [];
    return set.problems.map(({ file, line, problem }) => `${file}:${line ?? "-"}: ${problem}`);
  }

  /** What becomes of a call to read `/n/a`. */
  outcome(): DecisionRecord {
    return decide({
      now: "2026-12-01T10:00:00.000Z",
      grants: this.read(),
      state: { taint: "private", untrusted: false },
      tool: "read_file",
      arguments: '{"path":"/n/a"}',
    }).toRecord();
  }

  [Symbol.dispose](): void {
    this.files[Symbol.dispose]();
    Deno.removeSync(this.root, { recursive: true });
  }
}

function mkfifo(path: string): void {
  assert.ok(new Deno.Command("mkfifo", { args: [path] }).outputSync().success);
}

/** Each way in which an entry of the directory is an invalid grant, beside a valid one. */
const INVALID: Readonly<Record<string, [make: (grants: Grants) => void, problem: string]>> = {
  "a file that is not TOML": [
    (grants) => grants.write("x.toml", "= 1"),
    "x.toml:1: not valid TOML",
  ],
  "a file that breaks a rule of loading": [
    (grants) => grants.write("x.toml", grantFile({ constraints: { paths: ["n"] } })),
    'x.toml:6: path "n" is not absolute',
  ],
  "a file of an unknown tool": [
    (grants) => grants.write("x.toml", grantFile({ tool: "clock" })),
    "x.toml:1: tool is not one of",
  ],
  "an empty file": [(grants) => grants.write("x.toml", ""), "x.toml:-: tool is missing"],
  "a valid grant with a bad stem": [
    (grants) => grants.write("X.toml", grantFile(READ)),
    "X.toml:-: the name before .toml must be",
  ],
  "a valid grant with no stem": [
    (grants) => grants.write(".toml", grantFile(READ)),
    ".toml:-: the name before .toml must be",
  ],
  "a hidden file that ends in .toml": [
    (grants) => grants.write(".read.toml", grantFile(READ)),
    ".read.toml:-: the name before .toml must be",
  ],
  "a file with a byte-order mark": [
    (grants) => grants.write("x.toml", `\ufeff${grantFile(READ)}`),
    "x.toml:1: starts with a byte-order mark",
  ],
  "a file in UTF-16": [
    (grants) => grants.write("x.toml", new Uint8Array([0xff, 0xfe, 0x61, 0x00])),
    "x.toml:-: is not UTF-8",
  ],
  "a file of one byte more than 64 KiB": [
    (grants) => grants.write("x.toml", padded(MAX_GRANT_BYTES + 1)),
    "x.toml:-: is larger than 64 KiB",
  ],
  "a file of 10 MiB": [
    (grants) => grants.write("x.toml", padded(10 * 1024 * 1024)),
    "x.toml:-: is larger than 64 KiB",
  ],
  "a directory": [
    (grants) => Deno.mkdirSync(grants.path("x.toml")),
    "x.toml:-: is not a regular file",
  ],
  "a FIFO, which nothing may wait for": [
    (grants) => mkfifo(grants.path("x.toml")),
    "x.toml:-: is not a regular file",
  ],
  "a device": [
    (grants) => Deno.symlinkSync("/dev/zero", grants.path("x.toml")),
    "x.toml:-: is not a regular file",
  ],
  "a link to a directory": [
    (grants) => Deno.symlinkSync("/", grants.path("x.toml")),
    "x.toml:-: is not a regular file",
  ],
  "a link to a FIFO": [
    (grants) => {
      mkfifo(`${grants.root}/fifo`);
      Deno.symlinkSync("../fifo", grants.path("x.toml"));
    },
    "x.toml:-: is not a regular file",
  ],
  "a link to nothing": [
    (grants) => Deno.symlinkSync("nothing", grants.path("x.toml")),
    "x.toml:-: cannot be read: no such file or directory",
  ],
  "a link to itself": [
    (grants) => Deno.symlinkSync("x.toml", grants.path("x.toml")),
    "x.toml:-: cannot be read: too many symbolic links",
  ],
  "a link to an invalid grant": [
    (grants) => {
      Deno.writeTextFileSync(`${grants.root}/elsewhere`, "= 1");
      Deno.symlinkSync("../elsewhere", grants.path("x.toml"));
    },
    "x.toml:1: not valid TOML",
  ],
};

function padded(size: number): string {
  return grantFile(READ).padEnd(size, "#");
}

for (const [what, [make, problem]] of Object.entries(INVALID)) {
  Deno.test(`${what} denies a call that a valid file beside it allows`, () => {
    using grants = new Grants();
    assert.deepEqual(grants.outcome(), ALLOWED);
    make(grants);
    const found = grants.problems();
    assert.ok(found[0]?.startsWith(problem), found.join("\n"));
    assert.deepEqual(grants.outcome(), GRANTS_INVALID);
    const added = problem.slice(0, problem.indexOf(":"));
    grants.remove(added);
    assert.deepEqual(grants.outcome(), ALLOWED);
  });
}

Deno.test("every problem of every file is named, in order of file names", () => {
  using grants = new Grants();
  grants.write("z.toml", grantFile({ tool: "clock" }));
  grants.write("a.toml", grantFile({ constraints: { paths: ["n", "/m/"] } }));
  Deno.mkdirSync(grants.path("m.toml"));
  assert.deepEqual(grants.problems(), [
    'a.toml:6: path "n" is not absolute',
    'a.toml:6: path "/m/" has an empty component (// or a trailing /)',
    "m.toml:-: is not a regular file",
    "z.toml:1: tool is not one of read_file, write_file, shell, http_fetch",
  ]);
});

/** What stands in a grants directory and is no grant. */
const IGNORED: Readonly<Record<string, (path: string) => void>> = {
  "README.md": (path) => Deno.writeTextFileSync(path, "= 1"),
  "toml": (path) => Deno.writeTextFileSync(path, "= 1"),
  "x.toml~": (path) => Deno.writeTextFileSync(path, "= 1"),
  "x.toml.bak": (path) => Deno.writeTextFileSync(path, "= 1"),
  ".x.toml.swp": (path) => Deno.writeTextFileSync(path, "= 1"),
  "X.TOML": (path) => Deno.writeTextFileSync(path, "= 1"),
  "old": (path) => Deno.mkdirSync(path),
  "fifo": mkfifo,
  "dangling": (path) => Deno.symlinkSync("nothing", path),
};

Deno.test("what does not end in .toml is ignored, whatever it is", () => {
  using grants = new Grants();
  for (const [name, make] of Object.entries(IGNORED)) make(grants.path(name));
  Deno.writeTextFileSync(grants.path("old/x.toml"), "= 1");
  assert.deepEqual(grants.outcome(), ALLOWED);
  grants.remove("read.toml");
  assert.deepEqual(grants.outcome(), NO_GRANT);
});

Deno.test("a link to a grant elsewhere is read, as its name here says", () => {
  using grants = new Grants();
  Deno.renameSync(grants.path("read.toml"), `${grants.root}/X`);
  assert.deepEqual(grants.outcome(), NO_GRANT);
  Deno.symlinkSync("../X", grants.path("linked.toml"));
  assert.deepEqual(grants.outcome(), ALLOWED);
  const set = grants.read();
  assert.deepEqual(set.ok && set.grants.map(({ id }) => id), ["linked"]);
});

Deno.test("a grant of exactly 64 KiB is read", () => {
  using grants = new Grants();
  grants.write("read.toml", padded(MAX_GRANT_BYTES));
  assert.equal(Deno.statSync(grants.path("read.toml")).size, 65_536);
  assert.deepEqual(grants.outcome(), ALLOWED);
});

Deno.test("a directory that is missing or cannot be read denies every call and is named", () => {
  using grants = new Grants();
  const named = (why: string) =>
    `${grants.directory}:-: the grants directory cannot be read: ${why}`;
  const mended = () => assert.deepEqual(grants.outcome(), ALLOWED);
  mended();

  grants.files.fault = ({ what }) =>
    what === "list" ? Object.assign(new Error("denied"), { code: "EACCES" }) : null;
  assert.deepEqual(grants.problems(), [named("permission denied")]);
  assert.deepEqual(grants.outcome(), GRANTS_INVALID);
  grants.files.fault = () => null;
  mended();

  Deno.renameSync(grants.directory, `${grants.root}/away`);
  assert.deepEqual(grants.problems(), [named("no such file or directory")]);
  assert.deepEqual(grants.outcome(), GRANTS_INVALID);

  Deno.writeTextFileSync(grants.directory, "");
  assert.deepEqual(grants.problems(), [named("not a directory")]);
  assert.deepEqual(grants.outcome(), GRANTS_INVALID);
  Deno.removeSync(grants.directory);

  Deno.symlinkSync("away", grants.directory);
  mended();
});

Deno.test("a file that cannot be read is named with why, at every step of reading it", () => {
  using grants = new Grants();
  Deno.renameSync(grants.path("read.toml"), `${grants.root}/read.toml`);
  Deno.symlinkSync("../read.toml", grants.path("linked.toml"));
  Deno.writeTextFileSync(grants.path("file.toml"), grantFile(READ));
  // Only where a link leads has to be looked up.
  const steps = [["stat", "linked"], ["openRead", "linked"], ["read", "linked"]] as const;
  for (const [step, stem] of [...steps, ["openRead", "file"], ["read", "file"]] as const) {
    grants.files.fault = ({ what, name }) =>
      what === step && name === `${stem}.toml`
        ? Object.assign(new Error("denied"), { code: "EIO" })
        : null;
    const problem = `${stem}.toml:-: cannot be read: input/output error`;
    assert.deepEqual(grants.problems(), [problem], step);
    assert.deepEqual(grants.outcome(), GRANTS_INVALID, step);
    grants.files.fault = () => null;
    assert.deepEqual(grants.outcome(), ALLOWED, step);
  }
});

Deno.test("a file that goes away between listing and reading is invalid, not passed over", () => {
  using grants = new Grants();
  grants.write("deny.toml", grantFile({ ...READ, mode: "deny" }));
  grants.files.fault = ({ what, name }) => {
    if (what === "openRead" && name === "deny.toml") Deno.removeSync(grants.path(name));
    return null;
  };
  assert.deepEqual(grants.outcome(), GRANTS_INVALID);
});

Deno.test("names that are exchanged while the grants are read hide no grant", () => {
  using grants = new Grants();
  grants.write("x.toml", grantFile({ ...READ, mode: "deny" }));
  /** `read.toml`, read already, and `x.toml`, which comes after it, trade their names. */
  const exchange = (time: number) => {
    Deno.renameSync(grants.path("read.toml"), grants.path("away"));
    Deno.renameSync(grants.path("x.toml"), grants.path("read.toml"));
    Deno.renameSync(grants.path("away"), grants.path("x.toml"));
    // Of another time each time, however fast this goes.
    Deno.utimeSync(grants.directory, time, time);
  };
  let exchanges = 0;
  grants.files.fault = ({ what, name }) => {
    if (what === "openRead" && name === "x.toml" && exchanges === 0) exchange(++exchanges);
    return null;
  };
  assert.deepEqual(grants.outcome(), { outcome: "denied", reason: "denied_by_grant" });
  assert.equal(exchanges, 1);
  // Nobody changes them for ever; but then nothing is let through either.
  grants.files.fault = ({ what, name }) => {
    if (what === "openRead" && name === "x.toml") exchange(++exchanges);
    return null;
  };
  assert.deepEqual(grants.problems(), [
    `${grants.directory}:-: the grants directory changes while it is read`,
  ]);
  assert.equal(exchanges, 4, "and it is not read again and again");
});

Deno.test("what is not a file any more when it is opened does not block and is no grant", () => {
  using grants = new Grants();
  grants.files.fault = ({ what, name }) => {
    if (what === "openRead" && name === "read.toml") {
      grants.remove(name);
      mkfifo(grants.path(name));
    }
    return null;
  };
  assert.deepEqual(grants.outcome(), GRANTS_INVALID);
});

Deno.test("a change applies to the next call: added, changed, removed and renamed files", () => {
  using grants = new Grants();
  const deny = grantFile({ ...READ, mode: "deny" });
  assert.deepEqual(grants.outcome(), ALLOWED);
  grants.write("deny.toml", deny);
  assert.deepEqual(grants.outcome(), { outcome: "denied", reason: "denied_by_grant" });
  grants.write("deny.toml", deny.replace("deny", "auto"));
  assert.deepEqual(grants.outcome(), ALLOWED);
  grants.write("deny.toml", deny.replace('"deny"', '"ask" '));
  assert.deepEqual(grants.outcome(), { outcome: "ask" });
  grants.remove("deny.toml");
  assert.deepEqual(grants.outcome(), ALLOWED);
  Deno.renameSync(grants.path("read.toml"), grants.path("Read.toml"));
  assert.deepEqual(grants.outcome(), GRANTS_INVALID);
  Deno.renameSync(grants.path("Read.toml"), grants.path("other.toml"));
  const set = grants.read();
  assert.deepEqual(set.ok && set.grants.map(({ id }) => id), ["other"]);
});

Deno.test("every file is read at every call, and a change that keeps size and time is seen", () => {
  using grants = new Grants();
  const path = grants.path("read.toml");
  const before = Deno.statSync(path);
  assert.deepEqual(grants.outcome(), ALLOWED);
  grants.write("read.toml", grantFile(READ).replace("auto", "deny"));
  assert.ok(before.atime !== null && before.mtime !== null);
  Deno.utimeSync(path, before.atime, before.mtime);
  assert.equal(Deno.statSync(path).size, before.size);
  assert.deepEqual(grants.outcome(), { outcome: "denied", reason: "denied_by_grant" });
});

Deno.test("an empty directory is a valid set with no grant", () => {
  using grants = new Grants();
  grants.remove("read.toml");
  assert.deepEqual(grants.read(), { ok: true, grants: [] });
});
