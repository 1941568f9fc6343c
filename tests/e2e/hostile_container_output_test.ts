/**
 * A hostile command's output, status, signals and processes: what it prints cannot pass for what the runner
 * says, and nothing of it outlives its call.
 */
import assert from "node:assert/strict";
import { noContainerOf, toolTest } from "../support/containers.ts";
import { HostileWorld, processesWith } from "../support/hostile_container.ts";
import { until } from "../support/broker.ts";

interface Said {
  readonly command: string;
  readonly exit?: number;
  readonly stdout?: string;
  readonly stderr?: string;
}

const ESCAPES = "\u001b[2J\u001b]0;title\u0007\r\b";

const outputs: Readonly<Record<string, Said>> = {
  "the marks of the tool": { command: "printf SCSC", stdout: "SCSC" },
  "a whole answer": {
    command: `printf '%s' '{"exit":0,"stdout":"fine","stderr":""}'; exit 9`,
    exit: 9,
    stdout: '{"exit":0,"stdout":"fine","stderr":""}',
  },
  "the end of the JSON around it": {
    command: `printf '%s' '"},"exit":0'; exit 9`,
    exit: 9,
    stdout: '"},"exit":0',
  },
  "a frame of the protocol": {
    command: `printf '%s\\n' '{"v":1,"kind":"tool_response","final":true,"body":{}}'`,
    stdout: '{"v":1,"kind":"tool_response","final":true,"body":{}}\n',
  },
  "control characters of a terminal": {
    command: `printf '\\033[2J\\033]0;title\\007\\r\\b'`,
    stdout: ESCAPES,
  },
  "NULs": { command: "head -c 3 /dev/zero", stdout: "\0\0\0" },
  "bytes that are not UTF-8": {
    command: `printf '\\377a\\300\\200\\355\\240\\200'`,
    stdout: "\ufffda\ufffd\ufffd\ufffd\ufffd\ufffd",
  },
  "a mark of byte order": { command: `printf '\\357\\273\\277x'`, stdout: "\ufeffx" },
  "stderr before stdout": {
    command: "echo first >&2; echo second",
    stdout: "second\n",
    stderr: "first\n",
  },
  "the words of podman": {
    command: "echo 'Error: statfs /x: no such file or directory' >&2; exit 125",
    exit: 125,
    stderr: "Error: statfs /x: no such file or directory\n",
  },
  "the words of the tool, with its status for what never ran": {
    command: "echo '/x leads through a symbolic link to /y' >&2; exit 70",
    exit: 70,
    stderr: "/x leads through a symbolic link to /y\n",
  },
  "nothing, both streams closed": { command: "exec >&- 2>&-; echo x; exit 4", exit: 4 },
  "by the streams of process 1": {
    command: "echo a >/proc/1/fd/1; echo b >/proc/1/fd/3; exit 3",
    exit: 3,
    stdout: "a\n",
    stderr: "b\n",
  },
};

toolTest("a hostile command: whatever it prints is its output", async () => {
  await using world = await HostileWorld.start();
  for (const [name, { command, exit = 0, stdout = "", stderr = "" }] of Object.entries(outputs)) {
    assert.deepEqual(await world.run(command), { exit, stdout, stderr }, name);
  }
});

toolTest("a hostile command: its status is its own, whatever else it means", async () => {
  await using world = await HostileWorld.start();
  for (const exit of [1, 2, 64, 70, 71, 72, 125, 126, 127, 130, 137, 139, 143, 255]) {
    assert.deepEqual(await world.run(`exit ${exit}`), { exit, stdout: "", stderr: "" });
  }
  const ends = {
    "kill -KILL $$": 137,
    "kill -TERM $$": 143,
    "kill -SEGV $$": 139,
    "kill -PIPE $$": 141,
    "/none": 127,
    "/etc": 126,
  };
  for (const [command, exit] of Object.entries(ends)) {
    assert.equal((await world.run(command)).exit, exit, command);
  }
});

toolTest("a hostile command: signals to process 1 and to all", async () => {
  await using world = await HostileWorld.start();
  for (const signal of ["TERM", "INT", "HUP", "KILL", "STOP", "TSTP", "SEGV"]) {
    const command = `kill -${signal} 1; echo on; exit 6`;
    assert.deepEqual(await world.run(command), { exit: 6, stdout: "on\n", stderr: "" }, signal);
  }
  const all = await world.run("sleep 1000 & kill -KILL -1; wait; echo on; exit 6");
  assert.deepEqual([all.exit, all.stdout], [6, "on\n"]);
});

toolTest("a hostile command: what it leaves running ends with it", async () => {
  await using world = await HostileWorld.start();
  const { home } = world;
  const mark = `boxmaker-left-${crypto.randomUUID()}`;
  // Each would wait for a day, with the call's streams open.
  const wait = `bash -c 'exec -a ${mark} sleep 86400'`;
  const kinds = {
    "in the background": `${wait} & echo done`,
    "by nohup": `nohup ${wait} </dev/null & echo done`,
    "in a session of its own": `setsid --fork ${wait}; echo done`,
    "twice forked": `(setsid bash -c "(${wait}) & " &); echo done`,
    "without ears for signals": `(trap '' TERM INT HUP; ${wait}) & echo done`,
    "stopped": `${wait} & kill -STOP $!; echo done`,
  };
  for (const [name, command] of Object.entries(kinds)) {
    // That it runs is seen from inside.
    const seen = `until pgrep -f ${mark} >/dev/null; do sleep 0.05; done`;
    const ran = await world.run(`${command}; ${seen}`);
    assert.deepEqual([ran.exit, ran.stdout], [0, "done\n"], name);
    await noContainerOf(home);
    await until("end of what was left", () => processesWith(mark).length === 0);
  }
});

toolTest("a hostile command: open files, environment and rights", async () => {
  await using world = await HostileWorld.start();
  const { directory, home, mark } = world;
  assert.equal((await world.run("ls /proc/$$/fd; :")).stdout, "0\n1\n2\n");
  assert.deepEqual((await world.run("env | sort")).stdout.split("\n"), [
    "HOME=/tmp",
    "LC_ALL=C.UTF-8",
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    `PWD=${directory}`,
    "SHLVL=1",
    "_=/usr/bin/env",
    "",
  ]);
  // brokerd has the mark there, and its home.
  const own = Deno.readTextFileSync(`/proc/${world.broker.pid}/environ`);
  assert(own.includes(mark) && own.includes("BOXMAKER_HOME"));
  const first = (await world.run("tr '\\0' '\\n' </proc/1/environ")).stdout;
  assert.equal(first.includes(mark) || first.includes(home.layout.home), false, first);
  assert.deepEqual(first.match(/^BOXMAKER_\w+/gm)?.sort(), [
    ...["BOXMAKER_LIMIT", "BOXMAKER_MOUNTS", "BOXMAKER_SECONDS"],
  ]);
  const status = (await world.run("grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status")).stdout;
  const none = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map((set) => `Cap${set}:\t${"0".repeat(16)}\n`);
  assert.equal(status, `${none.join("")}NoNewPrivs:\t1\nSeccomp:\t2\n`);
});
