/** Each session's state on disk (specification 4; contracts 3 and 8). Real files. */
import assert from "node:assert/strict";
import type { SessionState } from "../../broker/policy.ts";
import { SessionStates, StateUnreadable } from "../../broker/state.ts";
import { DATA_CLASSES } from "../../proto/tools.ts";
import { namesOf } from "../support/broker.ts";
import { diskFull, ioError, WatchedFiles } from "../support/watched_files.ts";

const FRESH: SessionState = { taint: "private", untrusted: false };
const SECRET: SessionState = { taint: "secret", untrusted: true };

class Sessions implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-state-" });
  readonly directory = `${this.root}/sessions`;
  readonly files = new WatchedFiles();
  readonly states = new SessionStates(this.files, this.directory);

  constructor() {
    Deno.mkdirSync(this.directory);
  }

  path(name: string): string {
    return `${this.directory}/${name}`;
  }

  write(content: string | Uint8Array): void {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    Deno.writeFileSync(this.path("s1.json"), bytes);
  }

  text(name = "s1.json"): string {
    return Deno.readTextFileSync(this.path(name));
  }

  /** Asserts that the state of `session` cannot be read. */
  unreadable(what: string, session = "s1"): void {
    assert.throws(() => this.states.read(session), StateUnreadable, what);
    assert.throws(() => this.states.raise(session, FRESH), StateUnreadable, what);
    assert.equal(this.files.open, 0, what);
  }

  [Symbol.dispose](): void {
    this.files[Symbol.dispose]();
    Deno.removeSync(this.root, { recursive: true });
  }
}

function mkfifo(path: string): void {
  assert.ok(new Deno.Command("mkfifo", { args: [path] }).outputSync().success);
}

Deno.test("a session with no file is private and trusted, and asking makes no file", () => {
  using sessions = new Sessions();
  assert.deepEqual(sessions.states.read("s1"), FRESH);
  assert.deepEqual(namesOf(sessions.directory), []);
});

Deno.test("the file is made at the first result, in the one form, for its owner alone", () => {
  const umask = Deno.umask(0);
  try {
    using sessions = new Sessions();
    assert.deepEqual(sessions.states.raise("s1", { taint: "public", untrusted: false }), FRESH);
    assert.equal(sessions.text(), '{"taint":"private","untrusted":false}');
    assert.equal((Deno.statSync(sessions.path("s1.json")).mode ?? 0) & 0o777, 0o600);
    assert.deepEqual(sessions.states.raise("s1", SECRET), SECRET);
    assert.equal(sessions.text(), '{"taint":"secret","untrusted":true}');
    assert.equal((Deno.statSync(sessions.path("s1.json")).mode ?? 0) & 0o777, 0o600);
    assert.deepEqual(namesOf(sessions.directory), ["s1.json"]);
  } finally {
    Deno.umask(umask);
  }
});

Deno.test("neither taint nor flag ever goes down, from any state by any result", () => {
  using sessions = new Sessions();
  const all = DATA_CLASSES.flatMap((taint) =>
    [false, true].map((untrusted) => ({ taint, untrusted }))
  );
  const rank = { public: 0, private: 1, secret: 2 };
  for (const before of all) {
    for (const seen of all) {
      sessions.write(JSON.stringify(before));
      const higher = rank[before.taint] > rank[seen.taint] ? before.taint : seen.taint;
      const after = { taint: higher, untrusted: before.untrusted || seen.untrusted };
      assert.deepEqual(sessions.states.raise("s1", seen), after);
      assert.deepEqual(JSON.parse(sessions.text()), after);
      assert.deepEqual(sessions.states.read("s1"), after);
    }
  }
});

Deno.test("sessions know nothing of each other", () => {
  using sessions = new Sessions();
  sessions.states.raise("s1", SECRET);
  assert.deepEqual(sessions.states.read("s2"), FRESH);
  assert.deepEqual(sessions.states.read("s"), FRESH);
  sessions.states.raise("s2", { taint: "private", untrusted: true });
  assert.deepEqual(sessions.states.read("s1"), SECRET);
  assert.deepEqual(namesOf(sessions.directory), ["s1.json", "s2.json"]);
});

/** Files that do not parse as a state. */
const DAMAGED: Readonly<Record<string, string | Uint8Array>> = {
  "empty": "",
  "cut short": '{"taint":"secret","untrus',
  "not JSON": "secret",
  "null": "null",
  "a list": '[{"taint":"private","untrusted":false}]',
  "an empty object": "{}",
  "no taint": '{"untrusted":false}',
  "no flag": '{"taint":"private"}',
  "an unknown key": '{"taint":"private","untrusted":false,"note":""}',
  "an unknown key named __proto__": '{"taint":"private","untrusted":false,"__proto__":{}}',
  "a key twice": '{"taint":"secret","untrusted":false,"taint":"public"}',
  "a key twice, once escaped": '{"taint":"secret","untrusted":false,"t\\u0061int":"public"}',
  "an unknown class": '{"taint":"top","untrusted":false}',
  "a class in capitals": '{"taint":"Private","untrusted":false}',
  "a number for the flag": '{"taint":"private","untrusted":0}',
  "text for the flag": '{"taint":"private","untrusted":"false"}',
  "null for the flag": '{"taint":"private","untrusted":null}',
  "text after it": '{"taint":"private","untrusted":false}{}',
  "a byte-order mark": '\ufeff{"taint":"private","untrusted":false}',
  "not UTF-8": new Uint8Array([0xff, 0xfe]),
  "zeros": new Uint8Array(37),
  "a huge file": `{"taint":"private","untrusted":false}${" ".repeat(10 * 1024 * 1024)}`,
};

Deno.test("a file in any other form cannot be read, and is left as it is", () => {
  using sessions = new Sessions();
  for (const [what, content] of Object.entries(DAMAGED)) {
    sessions.write(content);
    const before = Deno.readFileSync(sessions.path("s1.json"));
    sessions.unreadable(what);
    assert.deepEqual(Deno.readFileSync(sessions.path("s1.json")), before, what);
    sessions.write('{"taint":"private","untrusted":false}');
    assert.deepEqual(sessions.states.read("s1"), FRESH, what);
  }
});

/** What stands in the place of the file and is none. */
const NO_FILES: Readonly<Record<string, (path: string) => void>> = {
  "a directory": (path) => Deno.mkdirSync(path),
  "a FIFO, which nothing may wait for": mkfifo,
  "a link to nothing": (path) => Deno.symlinkSync("nothing", path),
  "a link to itself": (path) => Deno.symlinkSync("s1.json", path),
  "a link to a directory": (path) => Deno.symlinkSync("/", path),
  "a device": (path) => Deno.symlinkSync("/dev/zero", path),
};

Deno.test("what is no file in its place is no fresh session", () => {
  for (const [what, make] of Object.entries(NO_FILES)) {
    using sessions = new Sessions();
    make(sessions.path("s1.json"));
    sessions.unreadable(what);
    assert.deepEqual(sessions.states.read("s2"), FRESH, `${what}: another session`);
    Deno.removeSync(sessions.path("s1.json"));
    assert.deepEqual(sessions.states.read("s1"), FRESH, what);
  }
});

/** What stands in the place of `sessions/` and is no directory. */
const NO_DIRECTORIES: Readonly<Record<string, (path: string) => void>> = {
  "nothing": () => {},
  "a file": (path) => Deno.writeTextFileSync(path, ""),
  "a FIFO": mkfifo,
  "a link to nothing": (path) => Deno.symlinkSync("nothing", path),
  "a link to a file": (path) => {
    Deno.writeTextFileSync(`${path}.file`, "");
    Deno.symlinkSync("sessions.file", path);
  },
};

Deno.test("no session can be read where sessions/ is no directory, not even a fresh one", () => {
  for (const [what, make] of Object.entries(NO_DIRECTORIES)) {
    using sessions = new Sessions();
    Deno.renameSync(sessions.directory, `${sessions.root}/away`);
    make(sessions.directory);
    for (const session of ["s1", "fresh"]) sessions.unreadable(what, session);
    const message = `${sessions.directory} is not a directory`;
    assert.throws(() => sessions.states.read("s1"), new StateUnreadable(message), what);
    if (what !== "nothing") Deno.removeSync(sessions.directory);
    Deno.renameSync(`${sessions.root}/away`, sessions.directory);
    assert.deepEqual(sessions.states.read("s1"), FRESH, what);
  }
});

Deno.test("a read that fails is told with its cause", () => {
  using sessions = new Sessions();
  sessions.states.raise("s1", SECRET);
  for (const step of ["lstat", "openRead", "read"]) {
    const cause = ioError();
    sessions.files.fault = ({ what, name }) =>
      what === step && name.startsWith("s1") ? cause : null;
    assert.throws(
      () => sessions.states.read("s1"),
      (error) => error instanceof StateUnreadable && error.cause === cause,
      step,
    );
    sessions.files.fault = () => null;
    assert.deepEqual(sessions.states.read("s1"), SECRET);
  }
});

Deno.test("a state has at most 4,096 bytes", () => {
  using sessions = new Sessions();
  const state = '{"taint":"secret","untrusted":true}';
  sessions.write(state.padEnd(4096));
  assert.deepEqual(sessions.states.read("s1"), SECRET);
  sessions.write(state.padEnd(4097));
  sessions.unreadable("4,097 bytes");
});

/** What `raise` does to the disk, in order. */
const STEPS = [
  "create s1.json.tmp",
  "write s1.json.tmp",
  "sync s1.json.tmp",
  "rename s1.json",
  "syncDirectory sessions",
];

Deno.test("a new state is written beside the old one, synced, and put in its place", () => {
  using sessions = new Sessions();
  const { states, files } = sessions;
  states.raise("s1", FRESH);
  assert.deepEqual(files.done.splice(0), STEPS);
  states.raise("s1", SECRET);
  assert.deepEqual(files.done.splice(0), STEPS);
  // What changes nothing is written too: an earlier write may not have reached the disk.
  states.raise("s1", FRESH);
  assert.deepEqual(files.done.splice(0), STEPS);
});

Deno.test("confirming a state writes it again, and makes no file where there is none", () => {
  using sessions = new Sessions();
  const { states, files } = sessions;
  assert.deepEqual(states.confirm("s1"), FRESH);
  assert.deepEqual([namesOf(sessions.directory), files.done], [[], []]);
  states.raise("s1", SECRET);
  files.done.length = 0;
  assert.deepEqual(states.confirm("s1"), SECRET);
  assert.deepEqual(files.done, STEPS);
  assert.equal(sessions.text(), '{"taint":"secret","untrusted":true}');
  assert.equal(files.open, 0);
});

Deno.test("a step that fails throws and leaves the old state or the new one, never another", () => {
  for (const [at, step] of STEPS.entries()) {
    using sessions = new Sessions();
    const { states, files } = sessions;
    states.raise("s1", { taint: "private", untrusted: true });
    const failure = step.startsWith("write") ? diskFull() : ioError();
    files.fault = ({ what, name }) => `${what} ${name}` === step ? failure : null;
    assert.throws(() => states.raise("s1", SECRET), failure, step);
    files.fault = () => null;
    const renamed = at > STEPS.indexOf("rename s1.json");
    const left = renamed ? SECRET : { taint: "private", untrusted: true };
    assert.deepEqual(states.read("s1"), left, step);
    files.done.length = 0;
    assert.deepEqual(states.raise("s1", SECRET), SECRET, `${step}: the next one`);
    assert.deepEqual(files.done.filter((one) => !one.startsWith("remove")), STEPS);
    assert.deepEqual(namesOf(sessions.directory), ["s1.json"]);
  }
});

Deno.test("a short write is a failure", () => {
  using sessions = new Sessions();
  sessions.files.fault = ({ what }) => what === "write" ? 10 : null;
  assert.throws(() => sessions.states.raise("s1", SECRET), /a short write/);
  sessions.files.fault = () => null;
  assert.deepEqual(sessions.states.read("s1"), FRESH);
});

/** What a crash or somebody else may have left in the place of the temporary file. */
const LEFT: Readonly<Record<string, (path: string) => void>> = {
  "half a state": (path) => Deno.writeTextFileSync(path, '{"taint":"sec'),
  "a FIFO": mkfifo,
  "a link to a file": (path) => {
    Deno.writeTextFileSync(`${path}.target`, "untouched");
    Deno.symlinkSync("s1.json.tmp.target", path);
  },
  "a link to nothing": (path) => Deno.symlinkSync("nothing", path),
  "an empty directory": (path) => Deno.mkdirSync(path),
};

Deno.test("what was left beside the state is replaced, and never written through", () => {
  for (const [what, make] of Object.entries(LEFT)) {
    using sessions = new Sessions();
    make(sessions.path("s1.json.tmp"));
    assert.deepEqual(sessions.states.read("s1"), FRESH, what);
    assert.deepEqual(sessions.states.raise("s1", SECRET), SECRET, what);
    assert.equal(sessions.files.done[0], "remove s1.json.tmp", what);
    const names = namesOf(sessions.directory);
    assert.ok(names.includes("s1.json") && !names.includes("s1.json.tmp"), `${what}: ${names}`);
    assert.ok(!names.includes("nothing"), what);
    if (what === "a link to a file") assert.equal(sessions.text("s1.json.tmp.target"), "untouched");
  }
});

Deno.test("a link to a state is followed, and replaced by a file at the next result", () => {
  using sessions = new Sessions();
  const target = `${sessions.root}/elsewhere`;
  Deno.writeTextFileSync(target, '{"taint":"private","untrusted":true}');
  Deno.symlinkSync(target, sessions.path("s1.json"));
  assert.deepEqual(sessions.states.read("s1"), { taint: "private", untrusted: true });
  assert.deepEqual(sessions.states.raise("s1", { taint: "secret", untrusted: false }), SECRET);
  assert.ok(Deno.lstatSync(sessions.path("s1.json")).isFile);
  assert.equal(Deno.readTextFileSync(target), '{"taint":"private","untrusted":true}');
});
