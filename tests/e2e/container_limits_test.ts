/**
 * The limits of a call hold: memory, processes, time, output and files. After each of them nothing of the call
 * is left, and the next call works.
 */
import assert from "node:assert/strict";
import { type Broker, startBroker, TempHome, until } from "../support/broker.ts";
import {
  callTool,
  noContainerOf,
  runCommand,
  toolHome,
  type ToolOptions,
  toolTest,
} from "../support/containers.ts";
import { tomlText } from "../support/grants.ts";
import { processesWith } from "../support/hostile_container.ts";
import { GrantPlace } from "../support/image.ts";

/** A call's time here, in milliseconds: enough to start, and for what must happen before it is up. */
const TIMEOUT_MS = 5000;

class LimitWorld implements AsyncDisposable {
  readonly #place = new GrantPlace();
  readonly directory = this.#place.directory("granted");
  /** What the command lines of a call's processes hold. */
  readonly mark = `boxmaker-limit-${crypto.randomUUID()}`;
  readonly home: TempHome;
  #broker: Broker | undefined;

  private constructor(home: TempHome) {
    this.home = home;
    const paths = `mode = "auto"\n[constraints]\npaths = [${tomlText(this.directory)}]\n`;
    for (const tool of ["shell", "read_file", "write_file"]) {
      home.grant(tool.replace("_", "-"), `tool = "${tool}"\n${paths}`);
    }
  }

  static async start(runner: ToolOptions["runner"] = {}): Promise<LimitWorld> {
    const world = new LimitWorld(await toolHome({ runner: { timeout_ms: TIMEOUT_MS, ...runner } }));
    world.#broker = await startBroker(world.home);
    return world;
  }

  /** Calls `shell`; `command` holds the mark as a comment. */
  call(command: string) {
    const args = { command: `# ${this.mark}\n${command}`, cwd: this.directory };
    return callTool(this.home, "shell", args);
  }

  /** Nothing of the last call is left, and another works. */
  async isWell(): Promise<void> {
    await noContainerOf(this.home);
    await until("end of the processes", () => processesWith(this.mark).length === 0);
    const ran = await runCommand(this.home, "echo well", this.directory);
    assert.deepEqual(ran, { exit: 0, stdout: "well\n", stderr: "" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#broker?.[Symbol.asyncDispose]();
    this.home[Symbol.dispose]();
    this.#place[Symbol.dispose]();
  }
}

const LATE = `it was stopped after ${TIMEOUT_MS} ms; until then: `;

/** What the runner says of a command whose time is up. */
const late = (stdout: string, stderr = "") => ({
  status: "failed",
  message: LATE + JSON.stringify({ exit: null, stdout, stderr }),
});

toolTest("limits: time, for what sleeps, spins, waits or ignores signals", async () => {
  await using world = await LimitWorld.start();
  const endless = {
    "it sleeps": "sleep 86400",
    "it spins": "while :; do :; done",
    "it spins on every core": "for i in 1 2 3 4; do while :; do :; done & done; wait",
    "no ears": "trap '' TERM INT HUP QUIT; while :; do sleep 86400; done",
    "it waits for a pipe": "mkfifo pipe; cat pipe",
    "its child has a session of its own": "setsid sleep 86400",
  };
  for (const [name, command] of Object.entries(endless)) {
    assert.deepEqual(await world.call(`echo begun; ${command}`), late("begun\n"), name);
    await world.isWell();
  }
  // A command that ends in time is not stopped.
  assert.equal((await world.call("sleep 0.1")).status, "result");
});

toolTest("limits: memory", async () => {
  await using world = await LimitWorld.start({ memory_mb: 128 });
  const take = (mb: number) =>
    `perl -e '$x = "x" x (${mb} << 20); print length $x' 2>&1; echo " status $?"`;
  const said = async (command: string) => {
    const answer = await world.call(command);
    assert(answer.status === "result", JSON.stringify(answer));
    return JSON.parse(answer.content).stdout;
  };
  assert.equal(await said(take(16)), `${16 << 20} status 0\n`);
  // Of one process, by its own limit.
  assert.match(await said(take(256)), /^Out of memory.* status [1-9]/s);
  await world.isWell();
  // Of many together, by that of the container: the kernel ends some of them, or all.
  const many = await world.call(
    `for i in $(seq 8); do perl -e '$x = "x" x (48 << 20); sleep 1; print "whole\\n"' & done; wait`,
  );
  const whole = many.status === "result" ? JSON.parse(many.content).stdout.split("whole") : [""];
  assert(whole.length - 1 < 3, JSON.stringify(many));
  await world.isWell();
  // Files in /tmp and /dev/shm are memory too.
  const files = await world.call(
    `head -c 60M /dev/zero >/tmp/x && head -c 60M /dev/zero >/dev/shm/x && ${take(32)}`,
  );
  assert.equal(JSON.stringify(files).includes("status 0"), false, JSON.stringify(files));
  await world.isWell();
});

toolTest("limits: the least memory that may be configured is enough to start", async () => {
  await using world = await LimitWorld.start({ memory_mb: 16 });
  await world.isWell();
});

toolTest("limits: a fork bomb", async () => {
  await using world = await LimitWorld.start({ processes: 32 });
  const bombs = {
    "the short one": ":(){ :|:& };:; sleep 86400",
    "one that counts on": "while :; do sleep 86400 & done",
    "by sessions":
      'bomb() { setsid bash -c "$(declare -f bomb); bomb" & bomb & }; bomb; sleep 86400',
  };
  for (const [name, command] of Object.entries(bombs)) {
    let most = 0;
    let going = true;
    const counting = (async () => {
      while (going) {
        most = Math.max(most, processesWith(world.mark).length);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    })();
    const answer = await world.call(command);
    going = false;
    await counting;
    assert(answer.status === "failed", JSON.stringify(answer));
    assert(answer.message.startsWith(LATE), answer.message);
    // The container's, and podman's own for it.
    assert(most > 0 && most <= 32 + 6, `${name}: ${most} processes`);
    await world.isWell();
  }
});

toolTest("limits: output", async () => {
  await using world = await LimitWorld.start({ output_bytes: 1000, timeout_ms: 20_000 });
  const cut = {
    "stdout": ["yes", "y\n".repeat(500), ""],
    "both": ["yes & yes no >&2", null, null],
    "NULs": ["head -c 10G /dev/zero", "\0".repeat(1000), ""],
    "one long line": ["tr '\\0' x </dev/zero", "x".repeat(1000), ""],
    "stderr": ["yes >&2", "", "y\n".repeat(500)],
  } as const;
  for (const [name, [command, stdout, stderr]] of Object.entries(cut)) {
    const answer = await world.call(command);
    assert(answer.status === "result" && answer.truncated, JSON.stringify(answer));
    const content = JSON.parse(answer.content);
    if (stdout !== null) assert.deepEqual(content, { exit: null, stdout, stderr }, name);
    assert.equal(content.stdout.length + content.stderr.length, 1000, name);
    await world.isWell();
  }
  // Just as much as is kept is not cut.
  const whole = await world.call("yes | head -c 1000");
  assert(whole.status === "result" && !whole.truncated);
  assert.deepEqual(JSON.parse(whole.content), { exit: 0, stdout: "y\n".repeat(500), stderr: "" });
});

toolTest("limits: a writer of 10 GiB, and a thousand open files", async () => {
  await using world = await LimitWorld.start({ timeout_ms: 20_000 });
  const content = async (command: string) => {
    const answer = await world.call(command);
    assert(answer.status === "result", JSON.stringify(answer));
    return JSON.parse(answer.content);
  };
  const tmp = await content("head -c 10G /dev/zero >/tmp/x; stat --format=%s /tmp/x");
  assert.equal(tmp.stdout, `${64 << 20}\n`);
  assert.match(tmp.stderr, /No space left on device/);
  await world.isWell();
  // Without blocks, to spare the disk: seek to a byte before the limit, and write on from there.
  const limit = 256 << 20;
  const granted = await content(
    `dd if=/dev/zero of=big bs=1000 oflag=seek_bytes seek=${
      limit - 1500
    } count=10G; stat --format=%s big`,
  );
  assert.equal(granted.stdout, `${limit}\n`);
  await world.isWell();
  const open = await content(
    `perl -e 'my @all; while (open(my $file, "<", "/dev/null")) { push @all, $file } print "$#all $!"'`,
  );
  assert.equal(open.stdout, "1020 Too many open files");
  await world.isWell();
});
