/** The session log on disk. */
import assert from "node:assert/strict";
import type { EntryOf, LogEntry } from "../../loop/entries.ts";
import {
  MAX_LOG_BYTES,
  SessionLog,
  SessionLogDamaged,
  SessionLogTooLong,
  SessionLogUnavailable,
} from "../../loop/session_log.ts";
import { utf8Length } from "../../proto/text.ts";
import { namesOf, PROJECT, snapshot, within } from "../support/broker.ts";

const NOW = Date.parse("2026-12-01T10:00:00.000Z");
const TIME = "2026-12-01T10:00:00.000Z";
const START: EntryOf<"start"> = { type: "start", time: TIME, session: "s1", system: "Be kind." };
const USER: LogEntry = { type: "user", time: TIME, text: "Milk?" };
const TEXT: LogEntry = { type: "text", text: "Yes. 🥛" };

class TempDirectory implements Disposable {
  readonly path = Deno.makeTempDirSync({ prefix: "boxmaker-" });
  readonly log = `${this.path}/s1.jsonl`;

  async open(start: () => EntryOf<"start"> = () => START): Promise<SessionLog> {
    const opening = SessionLog.open(this.path, "s1", () => NOW, start);
    return await within("opening of the log", opening);
  }

  /** Opens, appends and closes. */
  async write(...entries: LogEntry[]): Promise<void> {
    const log = await this.open();
    for (const entry of entries) await log.append(entry);
    await log.close();
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

Deno.test("a new session's log begins with its start, has mode 0600, and is read again", async () => {
  using directory = new TempDirectory();
  const log = await directory.open();
  assert.deepEqual(log.entries, [START]);
  assert.equal(log.recovered, null);
  await log.append(USER, TEXT);
  assert.deepEqual(log.entries, [START, USER, TEXT]);
  await log.close();
  assert.equal((Deno.statSync(directory.log).mode ?? 0) & 0o777, 0o600);
  assert.equal(
    Deno.readTextFileSync(directory.log),
    [START, USER, TEXT].map((entry) => JSON.stringify(entry) + "\n").join(""),
  );
  const again = await directory.open(() => assert.fail("it has started"));
  assert.deepEqual(again.entries, [START, USER, TEXT]);
  await again.close();
});

Deno.test("an entry is in the file when append returns", async () => {
  using directory = new TempDirectory();
  const log = await directory.open();
  for (const entry of [USER, TEXT, TEXT]) {
    await log.append(entry);
    assert(Deno.readTextFileSync(directory.log).endsWith(JSON.stringify(entry) + "\n"));
  }
  await log.close();
});

Deno.test("where the first entry cannot be had, nothing is made", async () => {
  using directory = new TempDirectory();
  const problem = new Error("no system prompt");
  const start = () => {
    throw problem;
  };
  await assert.rejects(directory.open(start), problem);
  assert.deepEqual(namesOf(directory.path), []);
});

Deno.test("a torn last line stays in the file, ended and described, and the log goes on", async () => {
  using directory = new TempDirectory();
  await directory.write(USER, TEXT);
  const whole = Deno.readFileSync(directory.log);
  const cut = whole.subarray(0, whole.length - 3);
  Deno.writeFileSync(directory.log, cut);
  const log = await directory.open();
  assert.deepEqual(log.entries, [START, USER]);
  assert.equal(log.recovered?.bytes, utf8Length(JSON.stringify(TEXT) + "\n") - 3);
  await log.append(TEXT);
  await log.close();
  const after = Deno.readFileSync(directory.log);
  assert.deepEqual(after.subarray(0, cut.length), cut, "nothing is deleted");
  const again = await directory.open();
  assert.equal(again.recovered, null, "told once");
  assert.deepEqual(again.entries.map(({ type }) => type), ["start", "user", "recovery", "text"]);
  await again.close();
});

Deno.test("a log that a crash left empty, or torn in its first line, starts anew", async () => {
  for (const content of ["", '{"type":"sta']) {
    using directory = new TempDirectory();
    Deno.writeTextFileSync(directory.log, content);
    await directory.write(USER);
    const log = await directory.open(() => assert.fail("it has started"));
    const types = log.entries.map(({ type }) => type).filter((type) => type !== "recovery");
    assert.deepEqual(types, ["start", "user"]);
    await log.close();
  }
});

Deno.test("damage is named with file and line, and left as it is", async () => {
  using directory = new TempDirectory();
  await directory.write(USER, TEXT);
  const lines = Deno.readTextFileSync(directory.log).split("\n");
  lines[1] = "{}";
  Deno.writeTextFileSync(directory.log, lines.join("\n"));
  const before = snapshot(directory.path);
  await assert.rejects(directory.open(), (error) => {
    assert(error instanceof SessionLogDamaged);
    assert.equal(error.message, `${directory.log}:2: not an entry`);
    return true;
  });
  assert.deepEqual(snapshot(directory.path), before);
});

Deno.test("what is no regular file is damage: it neither blocks nor leads elsewhere", async () => {
  const put = {
    "a directory": (path: string) => Deno.mkdirSync(path),
    "a FIFO": (path: string) => {
      const { success } = new Deno.Command("mkfifo", { args: [path] }).outputSync();
      assert(success);
    },
    "a link to a log": (path: string) => {
      Deno.writeTextFileSync(`${path}.other`, JSON.stringify(START) + "\n");
      Deno.symlinkSync(`${path}.other`, path);
    },
    "a link to nothing": (path: string) => Deno.symlinkSync(`${path}.none`, path),
  };
  for (const [name, act] of Object.entries(put)) {
    using directory = new TempDirectory();
    act(directory.log);
    const before = namesOf(directory.path);
    await assert.rejects(directory.open(), (error) => {
      assert(error instanceof SessionLogDamaged, name);
      assert.equal(error.message, `${directory.log} is not a regular file`);
      return true;
    });
    assert.deepEqual(namesOf(directory.path), before, name);
  }
});

Deno.test("a log that is too long is not read", async () => {
  using directory = new TempDirectory();
  await directory.write(USER);
  Deno.truncateSync(directory.log, MAX_LOG_BYTES + 1);
  await assert.rejects(directory.open(), SessionLogTooLong);
});

Deno.test("a log takes entries up to its limit; one more is not written, and a smaller one is", async () => {
  using directory = new TempDirectory();
  await directory.write(USER);
  const { size } = Deno.statSync(directory.log);
  const around = utf8Length(JSON.stringify({ type: "text", text: "" }) + "\n");
  const filling = (left: number): LogEntry => ({
    type: "text",
    text: "x".repeat(MAX_LOG_BYTES - size - around - left),
  });
  const log = await directory.open();
  await assert.rejects(log.append(filling(-1)), SessionLogTooLong);
  assert.equal(Deno.statSync(directory.log).size, size);
  await log.append(filling(0));
  assert.equal(Deno.statSync(directory.log).size, MAX_LOG_BYTES);
  await assert.rejects(log.append(TEXT), SessionLogTooLong);
  assert.equal(log.entries.length, 3);
  await log.close();
  const again = await directory.open();
  assert.equal(again.entries.length, 3);
  await assert.rejects(again.append(TEXT), SessionLogTooLong);
  await again.close();
});

Deno.test("after a write that failed nothing more is written, and the log is torn at its end", async () => {
  using directory = new TempDirectory();
  const script = new URL("tests/support/full_disk.ts", PROJECT).pathname;
  const { stdout } = new Deno.Command("sh", {
    args: [
      ...["-c", `trap '' XFSZ; ulimit -f 64; exec "$@"`, "sh", Deno.execPath()],
      ...["run", "-A", script, directory.path],
    ],
    env: { NO_COLOR: "1" },
    stderr: "inherit",
  }).outputSync();
  const [first, second, third] = new TextDecoder().decode(stdout).split("\n");
  assert.equal(first, "written");
  assert.match(second ?? "", /^Error: (File too large|a short write)/);
  assert.equal(third, "Error: an earlier write failed");
  const log = await directory.open();
  assert.notEqual(log.recovered, null);
  assert.deepEqual(log.entries.at(-1), { type: "text", text: "x".repeat(10) });
  await log.close();
});

Deno.test("where it cannot be opened or written, that is an error with its cause", async () => {
  using directory = new TempDirectory();
  const missing = SessionLog.open(`${directory.path}/none`, "s1", () => NOW, () => START);
  await assert.rejects(missing, SessionLogUnavailable);

  const log = await directory.open();
  await log.close();
  // A closed file stands for one that the disk no longer takes.
  for (const attempt of ["first", "second"]) {
    await assert.rejects(log.append(USER), (error) => {
      assert(error instanceof SessionLogUnavailable, attempt);
      assert(error.cause instanceof Error);
      return true;
    });
  }
  assert.deepEqual(log.entries, [START]);
});
