/** A grants directory that somebody filled with what is no grant, in front of the real brokerd. */
import assert from "node:assert/strict";
import { MAX_GRANT_BYTES } from "../../broker/grant_rules.ts";
import { within } from "../support/broker.ts";
import { AUTO, IS_ROOT, mkfifo, run, sparse, WatchedBroker, whole } from "../support/hostile.ts";
import { leaveSocket } from "../support/sockets.ts";

/** Something put into the grants directory, and the problem that is named for it; null: it does no harm. */
interface Case {
  readonly put: (path: string, directory: string) => void;
  readonly problem: RegExp | null;
}

const NOT_REGULAR = /: is not a regular file$/;
const BAD_STEM = /: the name before \.toml must be /;
const FIRST = whole(AUTO);

const link = (target: string) => (path: string) => Deno.symlinkSync(target, path);
const write = (content: string) => (path: string) => Deno.writeTextFileSync(path, content);
/** Makes `name`, bytes written as octal escapes, with the content of a good grant. */
const writeBytes = (name: string) => (_: string, directory: string) =>
  run("sh", "-c", 'cp "$1" "$2/$(printf "$3")"', "sh", `${directory}/good.toml`, directory, name);

/** What stands at `x.toml`. */
const KINDS: Readonly<Record<string, Case>> = {
  "a link to a good grant elsewhere": {
    put(path, directory) {
      write(FIRST)(`${directory}/../elsewhere`);
      link("../elsewhere")(path);
    },
    problem: null,
  },
  "a link to nothing": {
    put: link("nothing"),
    problem: /x\.toml: cannot be read: no such file or directory$/,
  },
  "a link to itself": { put: link("x.toml"), problem: /x\.toml: cannot be read: / },
  "a link to a directory": { put: link("."), problem: NOT_REGULAR },
  "a link to a FIFO": {
    put(path, directory) {
      mkfifo(`${directory}/../fifo`);
      link("../fifo")(path);
    },
    problem: NOT_REGULAR,
  },
  "a link to /dev/zero": { put: link("/dev/zero"), problem: NOT_REGULAR },
  "a link to /dev/random": { put: link("/dev/random"), problem: NOT_REGULAR },
  "a link to /dev/stdin": { put: link("/dev/stdin"), problem: /^x\.toml: / },
  "a link to /dev/tty": { put: link("/dev/tty"), problem: NOT_REGULAR },
  "a link to the memory of brokerd": { put: link("/proc/self/mem"), problem: /^x\.toml: / },
  "a link to the kernel's log": { put: link("/proc/kmsg"), problem: /^x\.toml: / },
  "a link to what runs": { put: link("/proc/self/exe"), problem: /: is larger than 64 KiB$/ },
  "a FIFO": { put: mkfifo, problem: NOT_REGULAR },
  "a socket": { put: leaveSocket, problem: NOT_REGULAR },
  "a directory": { put: (path) => Deno.mkdirSync(path), problem: NOT_REGULAR },
  "a full directory": {
    put(path) {
      Deno.mkdirSync(path);
      write(FIRST)(`${path}/y.toml`);
    },
    problem: NOT_REGULAR,
  },
  "an empty file": { put: write(""), problem: /x\.toml: tool is missing$/ },
  "exactly 64 KiB": { put: write(FIRST.padEnd(MAX_GRANT_BYTES, "#")), problem: null },
  "64 KiB and a byte": {
    put: write(FIRST.padEnd(MAX_GRANT_BYTES + 1, "#")),
    problem: /: is larger than 64 KiB$/,
  },
  "10 GiB of nothing": {
    put: (path) => sparse(path, 10 * 1024 ** 3),
    problem: /: is larger than 64 KiB$/,
  },
  "64 KiB of nothing": {
    put: (path) => sparse(path, MAX_GRANT_BYTES),
    problem: /x\.toml: /,
  },
  "64 KiB of brackets": {
    put: write(`x = ${"[".repeat(MAX_GRANT_BYTES - 4)}`),
    problem: /x\.toml: not valid TOML/,
  },
  "a file that its owner may not read": {
    put(path) {
      write(FIRST)(path);
      Deno.chmodSync(path, 0);
    },
    // The superuser may read it all the same.
    problem: IS_ROOT ? null : /: cannot be read: permission denied$/,
  },
  "a hard link to a good grant": {
    put: (path, directory) => Deno.linkSync(`${directory}/good.toml`, path),
    problem: null,
  },
};

/** What a good grant is called. */
const NAMES: Readonly<Record<string, Case>> = {
  // The runtime gives such a name with U+FFFD in it, under which nothing can be opened.
  "bytes that are no UTF-8": {
    put: writeBytes("\\377.toml"),
    problem: /^\ufffd\.toml: cannot be read: no such file or directory$/,
  },
  "half a character": {
    put: writeBytes("deny\\342\\202.toml"),
    problem: /^deny\ufffd\.toml: cannot be read: no such file or directory$/,
  },
  "nothing before the dot": { put: writeBytes(".toml"), problem: /^\.toml: the name before/ },
  "leading dash": { put: (_, directory) => write(FIRST)(`${directory}/-rf.toml`), problem: null },
  ...Object.fromEntries(
    [
      ["a newline", "a\nb"],
      ["a newline and a line like brokerd's", "a\nbrokerd: grants: valid again\n"],
      ["colours and a title for the terminal", "\x1b[2J\x1b]0;x\x07"],
      ["one byte C1 controls", "a\x9b2J"],
      ["bidirectional marks", "a\u202edeny"],
      ["a zero-width space", "good\u200b"],
      ["a dot", "."],
      ["two dots", ".."],
      ["dots at its end", "a.."],
      ["another ending", "a.toml"],
      ["65 characters", "a".repeat(65)],
      ["255 bytes", "a".repeat(250)],
      ["255 bytes of two-byte letters", "é".repeat(125)],
      ["capitals", "A"],
      ["a space", "a b"],
      ["a space at its end", "a "],
      ["a slash that is none", "a\u2215b"],
      ["letters of another alphabet", "g\u043e\u043ed"],
      ["full-width letters", "\uff47ood"],
      ["a percent escape", "%2e%2e%2fgood"],
      ["a quote", "'\""],
      ["a glob", "*"],
      ["an underscore", "a_b"],
    ].map(([what = "", stem]): [string, Case] => [what, {
      put: (_, directory) => write(FIRST)(`${directory}/${stem}.toml`),
      problem: BAD_STEM,
    }]),
  ),
  "64 characters": {
    put: (_, directory) => write(FIRST)(`${directory}/${"a".repeat(64)}.toml`),
    problem: null,
  },
};

/** What is no grant by its name, of whatever kind. */
const IGNORED: Readonly<Record<string, (path: string) => void>> = {
  "fifo": mkfifo,
  "zero": link("/dev/zero"),
  "loop": link("loop"),
  "sparse": (path) => sparse(path, 10 * 1024 ** 3),
  "x.toml.": write("= 1"),
  "x.toml ": write("= 1"),
  "x.toml\n": write("= 1"),
  "x.toml\u200b": write("= 1"),
  "x\u2024toml": write("= 1"),
  "x.TOML": write("= 1"),
  "socket": leaveSocket,
  "toml": mkfifo,
};

/** Puts each of `cases` beside the good grant of one brokerd, looks, and takes it away again. */
async function meet(watched: WatchedBroker, cases: Readonly<Record<string, Case>>): Promise<void> {
  const directory = watched.home.layout.grants;
  const good = Deno.readTextFileSync(watched.grantPath("good.toml"));
  for (const [name, { put, problem }] of Object.entries(cases)) {
    put(watched.grantPath("x.toml"), directory);
    const problems = await watched.problems();
    if (problem === null) assert.deepEqual(problems, [], name);
    else assert(problem.test(problems[0] ?? ""), `${name}: ${problems.join("\n")}`);
    const denied = problem === null ? "allowed" : "grants_invalid";
    assert.equal(await watched.call(), denied, name);
    // One that is invalid is invalid for every session and every tool.
    assert.equal(await watched.call("other", "/m"), problem === null ? "no_grant" : denied, name);
    Deno.removeSync(directory, { recursive: true });
    Deno.mkdirSync(directory);
    Deno.writeTextFileSync(watched.grantPath("good.toml"), good);
    assert.equal(await watched.call(), "allowed", `without ${name}`);
  }
}

Deno.test("whatever kind of file stands among the grants, brokerd denies every call, names it, and goes on once it is gone", async () => {
  await using watched = await WatchedBroker.start();
  await meet(watched, KINDS);
  await watched.unharmed();
});

Deno.test("whatever a grant's file is called, it is a grant with a good name or denies every call", async () => {
  await using watched = await WatchedBroker.start();
  await meet(watched, NAMES);
  await watched.unharmed();
});

Deno.test("what does not end in .toml is nothing to brokerd, whatever it is", async () => {
  await using watched = await WatchedBroker.start();
  const directory = watched.home.layout.grants;
  for (const [name, put] of Object.entries(IGNORED)) put(`${directory}/${name}`);
  writeBytes("\\377\\376")("", directory);
  writeBytes("x.toml\\377")("", directory);
  assert.deepEqual(await watched.problems(), []);
  assert.equal(await watched.call(), "allowed");
  await watched.unharmed();
});

Deno.test({
  name: "a device among the grants is not opened, and denies every call until it is gone",
  // Making devices takes the superuser.
  ignore: !IS_ROOT,
  async fn() {
    await using watched = await WatchedBroker.start();
    const device = (...words: string[]) => (path: string) => run("mknod", path, ...words);
    await meet(watched, {
      "a character device": { put: device("c", "1", "5"), problem: NOT_REGULAR },
      "a terminal": { put: device("c", "5", "0"), problem: NOT_REGULAR },
      "a block device": { put: device("b", "7", "200"), problem: NOT_REGULAR },
    });
    await watched.unharmed();
  },
});

/** What becomes of the grants directory; each gets its path, and one beside it where it may be moved. */
const DIRECTORY: Readonly<Record<string, (path: string, beside: string) => void>> = {
  "removed": (path) => Deno.removeSync(path, { recursive: true }),
  "moved away": (path, beside) => Deno.renameSync(path, beside),
  "replaced by a file": (path, beside) => {
    Deno.renameSync(path, beside);
    write(FIRST)(path);
  },
  "replaced by a FIFO": (path, beside) => {
    Deno.renameSync(path, beside);
    mkfifo(path);
  },
  "replaced by a socket": (path, beside) => {
    Deno.renameSync(path, beside);
    leaveSocket(path);
  },
  "replaced by a link to itself": (path, beside) => {
    Deno.renameSync(path, beside);
    link("grants")(path);
  },
  "replaced by a link to /dev/zero": (path, beside) => {
    Deno.renameSync(path, beside);
    link("/dev/zero")(path);
  },
};

Deno.test("a grants directory that is not there, or is none, denies every call until it is back", async () => {
  await using watched = await WatchedBroker.start();
  const { grants, home } = watched.home.layout;
  for (const [name, spoil] of Object.entries(DIRECTORY)) {
    spoil(grants, `${home}/beside`);
    assert.match((await watched.problems())[0] ?? "none", /\/grants: the grants directory /, name);
    assert.equal(await watched.call(), "grants_invalid", name);
    run("rm", "-rf", grants);
    if (name === "removed") {
      Deno.mkdirSync(grants);
      write(FIRST)(watched.grantPath("good.toml"));
    } else {
      Deno.renameSync(`${home}/beside`, grants);
    }
    assert.equal(await watched.call(), "allowed", `without ${name}`);
  }
  await watched.said("see docs/runbook.md#grants-invalid", Object.keys(DIRECTORY).length);
  await watched.said("grants: valid again", Object.keys(DIRECTORY).length);
  await watched.unharmed();
});

Deno.test("the grants directory may be a link, and may have any mode and owner that let brokerd read it", async () => {
  await using watched = await WatchedBroker.start();
  const { grants, home } = watched.home.layout;
  Deno.renameSync(grants, `${home}/beside`);
  Deno.symlinkSync("beside", grants);
  assert.equal(await watched.call(), "allowed", "a link to a directory");
  Deno.removeSync(grants);
  Deno.renameSync(`${home}/beside`, grants);
  for (const mode of [0o777, 0o1777, 0o500, 0o755]) {
    Deno.chmodSync(grants, mode);
    assert.equal(await watched.call(), "allowed", mode.toString(8));
  }
  for (const mode of [0o000, 0o300]) {
    Deno.chmodSync(grants, mode);
    // The superuser may read it all the same.
    assert.equal(await watched.call(), IS_ROOT ? "allowed" : "grants_invalid", mode.toString(8));
  }
  Deno.chmodSync(grants, 0o700);
  if (IS_ROOT) {
    Deno.chownSync(grants, 1, 1);
    Deno.chownSync(watched.grantPath("good.toml"), 1, 1);
    assert.equal(await watched.call(), "allowed", "of another owner");
  }
  await watched.unharmed();
});

Deno.test("10,000 grants are decided on, and 10,000 that are invalid are told once and in one frame", async () => {
  await using watched = await WatchedBroker.start();
  const directory = watched.home.layout.grants;
  const names = Array.from({ length: 10_000 }, (_, n) => `g${String(n).padStart(5, "0")}.toml`);
  for (const name of names) write(whole(AUTO.replace("/n", `/m/${name}`)))(`${directory}/${name}`);
  assert.equal(await watched.call(), "allowed");
  assert.equal(await watched.call("s1", "/m/g04999.toml/x"), "allowed");
  const deny = `${directory}/g05000.toml`;
  write(whole(AUTO.replace('"auto"', '"deny"')))(deny);
  assert.equal(await watched.call(), "denied_by_grant", "one among them that denies");
  // Somebody else is served in the middle of it.
  const both = Promise.all([watched.call("a"), watched.call("b"), watched.problems()]);
  assert.deepEqual(await within("three answers", both), [
    ...["denied_by_grant", "denied_by_grant"],
    [],
  ]);

  const long = "\x01".repeat(100);
  for (const name of names) {
    write(`"${long}" = 1\n`.replaceAll("\x01", "ü"))(`${directory}/${name}`);
  }
  assert.equal(await watched.call(), "grants_invalid");
  assert.equal(await watched.call("other"), "grants_invalid");
  const problems = await watched.problems();
  assert(problems.length > 1000, `${problems.length}`);
  assert.match(problems.at(-1) ?? "", /: \d+ more problems are not shown$/);
  await watched.said("see docs/runbook.md#grants-invalid\n", 1);
  // All of them, once.
  await watched.said("grants: g07777.toml:1:", 1);
  for (const name of names) Deno.removeSync(`${directory}/${name}`);
  assert.equal(await watched.call(), "allowed");
  await watched.said("grants: valid again", 1);
  await watched.unharmed();
});
