/** `broker/sessions/` with anything but states in it, in front of the real brokerd. */
import assert from "node:assert/strict";
import { refusedStart, snapshot, TempHome } from "../support/broker.ts";
import { allowing, RAN, reading } from "../support/decision_path.ts";
import {
  AUTO,
  canBeReadOnly,
  mkfifo,
  outcomeOf,
  ReadOnlyDirectory,
  run,
  sparse,
  WatchedBroker,
  whole,
} from "../support/hostile.ts";
import { recordsIn } from "../support/log.ts";
import { leaveSocket } from "../support/sockets.ts";

type Put = (path: string) => void;

const STATE = '{"taint":"private","untrusted":false}';
/** A state that keeps its session from the grant of these tests. */
const SECRET = '{"taint":"secret","untrusted":true}';
/** A grant that secret sessions may not use. */
const PRIVATE = whole(AUTO).replace('max_taint = "secret"', 'max_taint = "private"');

const link = (target: string): Put => (path) => Deno.symlinkSync(target, path);
const write = (content: string | Uint8Array): Put => (path) =>
  typeof content === "string"
    ? Deno.writeTextFileSync(path, content)
    : Deno.writeFileSync(path, content);
const utf16 = new Uint8Array([0xff, 0xfe, ...[...STATE].flatMap((c) => [c.charCodeAt(0), 0])]);

/** What stands in the place of a session's state and is none. */
const UNREADABLE: Readonly<Record<string, Put>> = {
  "a link to nothing": link("nothing"),
  "a link to itself": (path) => link(path)(path),
  "a link to /dev/zero": link("/dev/zero"),
  "a link to /dev/null": link("/dev/null"),
  "a link to the memory of brokerd": link("/proc/self/mem"),
  "a link to a directory": link("."),
  "a FIFO": mkfifo,
  "a socket": leaveSocket,
  "a directory": (path) => Deno.mkdirSync(path),
  "10 GiB of nothing": (path) => sparse(path, 10 * 1024 ** 3),
  "4 KiB and a byte": write(STATE.padEnd(4097)),
  "an empty file": write(""),
  "one NUL": write("\0"),
  "a NUL after a state": write(`${STATE}\0`),
  "half a state": write(STATE.slice(0, -4)),
  "two states": write(STATE + STATE),
  "a byte-order mark": write(`\ufeff${STATE}`),
  "UTF-16": write(utf16),
  "bytes that are no UTF-8": write(new Uint8Array([...new TextEncoder().encode(STATE), 0xff])),
  "a class in capitals": write(STATE.replace("private", "PRIVATE")),
  "a class that is none": write(STATE.replace("private", "none")),
  "no class": write('{"untrusted":false}'),
  "no flag": write('{"taint":"private"}'),
  "a flag as text": write(STATE.replace("false", '"false"')),
  "a flag as a number": write(STATE.replace("false", "0")),
  "null": write("null"),
  "an array": write(`[${STATE}]`),
  "brackets without end": write("[".repeat(4096)),
  "one key twice": write('{"taint":"secret","untrusted":false,"taint":"private"}'),
  "one key twice, once in escapes": write(
    '{"taint":"secret","untrusted":false,"t\\u0061int":"private"}',
  ),
  "a key too many": write('{"taint":"private","untrusted":false,"x":1}'),
  "a prototype": write('{"taint":"private","untrusted":false,"__proto__":{}}'),
  "a comment": write(`${STATE}//`),
};

/** What a session's state may look like too. The owner may lower one by hand: it is taken as it is. */
const READABLE: Readonly<Record<string, Put>> = {
  "a link to a state": (path) => {
    write(STATE)(`${path}.target`);
    link(`${path}.target`)(path);
  },
  "white space and another order": write('\n{ "untrusted" : false,\t"taint":"public" }\r\n'),
  "4 KiB": write(STATE.padEnd(4096)),
  "mode 0666": (path) => {
    write(STATE)(path);
    Deno.chmodSync(path, 0o666);
  },
};

/** The last decision on record. */
function lastDecision({ home }: WatchedBroker) {
  const events = recordsIn(home.layout.audit).map(({ event }) => event);
  const last = events.findLast(({ type }) => type === "decision");
  assert(last?.type === "decision");
  return last;
}

Deno.test("whatever stands in the place of a session's state, that session is denied, no other is, and it goes on once that is gone", async () => {
  await using watched = await WatchedBroker.start();
  const { brokerSessions } = watched.home.layout;
  let n = 0;
  for (const [name, put] of Object.entries(UNREADABLE)) {
    const session = `s-${++n}`;
    const path = `${brokerSessions}/${session}.json`;
    assert.equal(await watched.call(session), "allowed", name);
    for (const told of [1, 2]) {
      put(path);
      const before = Deno.lstatSync(path);
      assert.equal(await watched.call(session), "state_unreadable", name);
      const { outcome, taint, untrusted } = lastDecision(watched);
      assert.deepEqual({ outcome, taint, untrusted }, {
        outcome: { outcome: "denied", reason: "state_unreadable" },
        taint: "secret",
        untrusted: true,
      }, name);
      assert.equal(await watched.call(session), "state_unreadable", name);
      assert.equal(await watched.call("other"), "allowed", `beside ${name}`);
      assert.deepEqual(Deno.lstatSync(path).ino, before.ino, `${name} is left as it is`);
      Deno.removeSync(path, { recursive: true });
      assert.equal(await watched.call(session), "allowed", `without ${name}`);
      // Once each time that it begins, and once when it is over.
      await watched.said(`the state of session ${session} can be read again`, told);
      await watched.said(`every call of session ${session} is denied`, told);
    }
  }
  await watched.said("see docs/runbook.md#broker-state-damaged\n", 2 * n);
  await watched.unharmed();
});

Deno.test("a state in another form of the same JSON counts, and so does what an editor has put there", async () => {
  await using watched = await WatchedBroker.start();
  Deno.writeTextFileSync(watched.grantPath("good.toml"), PRIVATE);
  const path = `${watched.home.layout.brokerSessions}/s1.json`;
  for (const [name, put] of Object.entries(READABLE)) {
    write(SECRET)(path);
    assert.equal(await watched.call("s1"), "taint_too_high", name);
    Deno.removeSync(path);
    put(path);
    assert.equal(await watched.call("s1"), "allowed", name);
    Deno.removeSync(path);
  }
  // Names beside the states are nobody's state.
  for (const name of ["s1.json.tmp", "s1.json~", "S1.json", "s1", ".json"]) {
    write(SECRET)(`${watched.home.layout.brokerSessions}/${name}`);
  }
  assert.equal(await watched.call("s1"), "allowed");
  await watched.unharmed();
});

/** What becomes of sessions/ while brokerd runs; `beside` is where it may be moved. */
const DIRECTORY: Readonly<Record<string, (path: string, beside: string) => void>> = {
  "moved away": () => {},
  "a link to where it is": (path, beside) => Deno.symlinkSync(beside, path),
  "a link to another directory": (path) => link("/tmp")(path),
  "a link to nothing": (path) => link("nothing")(path),
  "a link to itself": (path) => link(path)(path),
  "a file": write(STATE),
  "a FIFO": mkfifo,
};

Deno.test("where sessions/ is no directory every session is denied, one that has no state too, until it is back", async () => {
  await using watched = await WatchedBroker.start();
  const { brokerSessions, broker } = watched.home.layout;
  for (const [name, put] of Object.entries(DIRECTORY)) {
    Deno.renameSync(brokerSessions, `${broker}/beside`);
    put(brokerSessions, `${broker}/beside`);
    assert.equal(await watched.call("s1"), "state_unreadable", name);
    assert.equal(await watched.call("never-seen"), "state_unreadable", name);
    run("rm", "-f", brokerSessions);
    Deno.renameSync(`${broker}/beside`, brokerSessions);
    assert.equal(await watched.call("s1"), "allowed", `without ${name}`);
  }
  await watched.unharmed();
});

Deno.test("brokerd does not start where sessions/ is no directory, as no call would be let through", async () => {
  for (const [name, put] of Object.entries(DIRECTORY)) {
    if (name === "moved away") continue;
    using home = new TempHome();
    Deno.mkdirSync(home.layout.broker);
    Deno.mkdirSync(`${home.layout.broker}/beside`);
    put(home.layout.brokerSessions, `${home.layout.broker}/beside`);
    const before = snapshot(home.home);
    const { code, stderr } = await refusedStart(home);
    assert.equal(code, 1, name);
    assert.equal(
      stderr,
      `brokerd: cannot start: ${home.layout.brokerSessions} is not a directory\n` +
        "brokerd: see docs/runbook.md#brokerd-cannot-start\n",
      name,
    );
    assert.deepEqual(snapshot(home.home), before, name);
  }
  await using watched = await WatchedBroker.start();
  await watched.unharmed();
});

Deno.test("where a raised state cannot be written the content stays here, and the next call goes on once it can", async () => {
  using path = allowing();
  const state = `${path.sessions}/s1.json`;
  const full = `${state}.tmp`;
  assert.deepEqual(await path.call(reading("s1", "c0")), RAN);
  Deno.mkdirSync(full);
  Deno.writeTextFileSync(`${full}/the owner's`, "untouched");
  const answer = await path.call(reading("s1", "c1"));
  assert(answer !== null);
  assert.equal(outcomeOf(answer), "the result could not be recorded");
  assert.equal(Deno.readTextFileSync(`${full}/the owner's`), "untouched");
  assert(path.said.includes("see docs/runbook.md#result-not-recorded"), path.said.join("\n"));
  Deno.removeSync(full, { recursive: true });
  assert.deepEqual(await path.call(reading("s1", "c2")), RAN);
  assert.equal(path.report().failure, null);
  // The run has its decision; that nothing came of it shows.
  assert.equal(path.report().unfinished.length, 1);
});

Deno.test({
  name: "on a disk that is read-only a state is read, and no content leaves",
  // The superuser is kept from writing only by a mount, which he may not make here.
  ignore: !canBeReadOnly(),
  async fn() {
    using path = allowing();
    {
      using sessions = new ReadOnlyDirectory(path.sessions);
      assert.deepEqual(await path.call(reading("s1", "c0")), RAN);
      sessions.set(true);
      const answer = await path.call(reading("s1", "c1"));
      assert(answer !== null);
      assert.equal(outcomeOf(answer), "the result could not be recorded");
      assert.deepEqual(path.stateOf("s1"), { taint: "private", untrusted: false });
      sessions.set(false);
      assert.deepEqual(await path.call(reading("s1", "c2")), RAN);
    }
    assert.equal(path.report().failure, null);
  },
});
