/**
 * A hostile command and a hostile directory: links, pipes, sockets, devices and odd names in what is granted,
 * and the image and the disk around it.
 */
import assert from "node:assert/strict";
import { callTool, contentOf, runCommand, toolTest } from "../support/containers.ts";
import { IS_ROOT } from "../support/hostile.ts";
import {
  assertRefused,
  assertWorked,
  type Attempts,
  HostileWorld,
  runUnlocked,
  triableUnlocked,
} from "../support/hostile_container.ts";

const NOT_THERE = /No such file or directory$/;
const READ_ONLY = /(Read-only file system|Permission denied)$/;
const REFUSED = /(Operation not permitted|Permission denied)$/;
const SILENT = /^$/;

toolTest("a hostile directory: links lead to nothing of the host", async () => {
  await using world = await HostileWorld.start();
  const { directory, outside, secret, secretFile, home } = world;
  const links = {
    secret: secretFile,
    up: "../outside/secret",
    home: outside,
    audit: home.layout.audit,
    chain: `${directory}/secret`,
  };
  for (const [name, target] of Object.entries(links)) {
    Deno.symlinkSync(target, `${directory}/${name}`);
  }
  Deno.symlinkSync("/etc", `${directory}/etc`);
  Deno.symlinkSync("/tmp", `${directory}/tmp`);
  // From outside each of them leads to what it names.
  for (const link of ["secret", "up", "home/secret", "chain"]) {
    assert.equal(Deno.readTextFileSync(`${directory}/${link}`), secret);
  }
  assert([...Deno.readDirSync(`${directory}/audit`)].length > 0);

  const attempts: Attempts = {
    "a link to a file": { command: "cat secret", refused: NOT_THERE },
    "a link by ..": { command: "cat up", refused: NOT_THERE },
    "a link to a directory": { command: "cat home/secret", refused: NOT_THERE },
    "a link to a link": { command: "cat chain", refused: NOT_THERE },
    "a link to the audit log": { command: "ls audit/", refused: NOT_THERE },
    "the path itself": { command: `cat ${secretFile}`, refused: NOT_THERE },
    "writing through a link": { command: "echo changed >secret", refused: NOT_THERE },
    "writing through a link to a directory": {
      command: "echo new >home/new",
      refused: NOT_THERE,
    },
    "a hard link to a file of the image": {
      command: "ln /etc/passwd passwd",
      refused: /(Invalid cross-device link|Operation not permitted)$/,
    },
    "the directory beside, by ..": { command: "cat ../outside/secret", refused: NOT_THERE },
    "a link through the links of proc": {
      command: `ln -s /proc/1/root/proc/1/cwd${secretFile} magic; cat magic`,
      refused: NOT_THERE,
    },
  };
  assertRefused(await world.tries(attempts), attempts);

  const nothing = (path: string) => `${path} is a symbolic link to something that is not there`;
  const out = (path: string, to: string) => `${path} leads out of what is granted, to ${to}`;
  const at = (name: string) => `${directory}/${name}`;
  for (const name of ["secret", "up", "chain"]) {
    assert.equal(await world.failure("read_file", at(name)), nothing(at(name)));
    assert.equal(await world.failure("write_file", at(name)), `${at(name)} is a symbolic link`);
  }
  assert.equal(
    await world.failure("read_file", at("etc/passwd")),
    out(at("etc/passwd"), "/etc/passwd"),
  );
  assert.equal(await world.failure("write_file", at("tmp/x")), out(at("tmp"), "/tmp"));
  assert.equal(
    await world.failure("write_file", at("home/secret")),
    `the directory ${at("home")} does not exist`,
  );
  // The broker has the last word on paths: what leads up is not under the grant.
  const up = await callTool(home, "read_file", { path: `${directory}/../outside/secret` });
  assert.equal(up.status, "denied");
  assert.equal(Deno.readTextFileSync(secretFile), secret);
  assert.deepEqual([...Deno.readDirSync(outside)].map(({ name }) => name), ["secret"]);
});

toolTest("a hostile directory: a pipe or a socket in a file's place is named at once", async () => {
  await using world = await HostileWorld.start();
  const { directory } = world;
  const made = await world.run(
    `mkfifo pipe; mkdir dir; perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0);
       bind(S, pack_sockaddr_un("socket")) or die $!'; ls`,
  );
  assert.deepEqual(made, { exit: 0, stdout: "dir\npipe\nsocket\n", stderr: "" });
  for (const [name, kind] of [["pipe", "fifo"], ["socket", "socket"], ["dir", "directory"]]) {
    const path = `${directory}/${name}`;
    for (const tool of ["read_file", "write_file"] as const) {
      assert.equal(await world.failure(tool, path), `${path} is a ${kind}`);
    }
  }
  // A file in the same place is read and written.
  const path = `${directory}/file`;
  await contentOf(world.home, "write_file", { path, content: "x" });
  assert.equal(await contentOf(world.home, "read_file", { path }), "x");
});

toolTest("a hostile directory: odd names of files are just names", async () => {
  await using world = await HostileWorld.start();
  const names = [
    ...["-rf", "--help", "a b", " ", "*", "?", "[a]", "~", "$(id)", "`id`", "'", '"', ";echo x"],
    ...[
      "back\\slash",
      "ünïcode",
      "\u202eabc",
      "%s%n",
      "a,b:c=d",
      "S",
      "#x",
      "!x",
      "&",
      "|",
      "<x",
    ],
  ];
  const script = names.map((_, index) => `cat < "$(sed -n ${index + 1}p .list)"`).join("\n");
  for (const name of names) {
    const path = `${world.directory}/${name}`;
    await contentOf(world.home, "write_file", { path, content: `of ${name}\n` });
    assert.equal(Deno.readTextFileSync(path), `of ${name}\n`);
  }
  for (const name of names.slice(0, 6)) {
    const path = `${world.directory}/${name}`;
    assert.equal(await contentOf(world.home, "read_file", { path }), `of ${name}\n`);
  }
  Deno.writeTextFileSync(`${world.directory}/.list`, names.join("\n") + "\n");
  const all = await world.run(script);
  assert.deepEqual(all, {
    exit: 0,
    stdout: names.map((name) => `of ${name}\n`).join(""),
    stderr: "",
  });
});

toolTest("a hostile directory: it becomes a link again and again", async () => {
  await using world = await HostileWorld.start();
  const { directory, outside, secret } = world;
  Deno.writeTextFileSync(`${directory}/secret`, "its own");
  const parked = `${directory}-parked`;
  let swaps = 0;
  let going = true;
  const swapping = (async () => {
    while (going) {
      Deno.renameSync(directory, parked);
      Deno.symlinkSync(outside, directory);
      await new Promise((resolve) => setTimeout(resolve, 3));
      Deno.removeSync(directory);
      Deno.renameSync(parked, directory);
      swaps += 1;
      await new Promise((resolve) => setTimeout(resolve, 3));
    }
  })();
  const path = `${directory}/secret`;
  try {
    for (let count = 0; count < 12; count += 1) {
      const answer = await callTool(world.home, "read_file", { path });
      assert.equal(JSON.stringify(answer).includes(secret), false, JSON.stringify(answer));
      if (answer.status === "result") assert.equal(answer.content, "its own");
      else assert.equal(answer.status, "failed");
    }
  } finally {
    going = false;
    await swapping;
  }
  assert(swaps > 0);
  assert.equal(await contentOf(world.home, "read_file", { path }), "its own");
});

const aroundIt: Attempts = {
  "the image: a program": { command: ": >>/usr/bin/env", refused: READ_ONLY },
  "the image: a tool": { command: ": >>/usr/lib/boxmaker/tool", refused: READ_ONLY },
  "the image: the users": { command: ": >>/etc/passwd", refused: READ_ONLY },
  "the image: a new file": { command: "touch /etc/new", refused: READ_ONLY },
  "the image: a new file beside the proxy": {
    command: "touch /run/boxmaker/x",
    refused: READ_ONLY,
  },
  "the image: a new directory": { command: "mkdir /new", refused: READ_ONLY },
  "the image: what root alone reads": { command: "ls /root", refused: READ_ONLY },
  "dev: a new file": { command: "touch /dev/new", refused: READ_ONLY },
  "sys: a new file in the tree of cgroups": {
    command: "mkdir /sys/fs/cgroup/new",
    refused: READ_ONLY,
    // The second version has groups there.
    unlocked: null,
  },
  // In the machine's own processes it is the host's.
  "CVE-2019-5736: the program that started the container": {
    command: ": >>/proc/1/exe",
    refused: /(Read-only file system|Permission denied|Text file busy)$/,
    unlocked: null,
  },
  "CVE-2024-21626: a directory that was left open": {
    command: 'for open in /proc/[0-9]*/fd/*; do [ -d "$open/" ] && exit 0; done; exit 1',
    refused: SILENT,
    unlocked: null,
  },
  "a program that gives rights": {
    command: "find / -xdev -type f -perm /6000 2>/dev/null | grep .",
    refused: SILENT,
    unlocked: null,
  },
  "a socket": {
    command: "find / -xdev -type s 2>/dev/null | grep .",
    refused: SILENT,
    unlocked: null,
  },
  "the programs that run containers": {
    command: "type podman || type conmon || type runc || type crun || type docker || type buildah",
    refused: /not found$/,
    unlocked: null,
  },
  // What follows fills the machine where nothing limits it.
  "disk: all of /tmp": {
    command: "head -c 100M /dev/zero >/tmp/x",
    refused: /No space left on device$/,
    unlocked: null,
  },
  "disk: all of /dev/shm": {
    command: "rm /tmp/x; head -c 100M /dev/zero >/dev/shm/x",
    refused: /No space left on device$/,
    unlocked: null,
  },
  "disk: a file of 10 GiB in the granted directory": {
    command: "rm /dev/shm/x; trap '' XFSZ; truncate -s 10G big",
    refused: /File too large$/,
  },
};

toolTest("a hostile container: the image, what is left open, and the disk", async () => {
  await using world = await HostileWorld.start();
  assertRefused(await world.tries(aroundIt), aroundIt);
  // What a call may do: /tmp, and the granted directory up to a file's limit.
  const may = await world.run("echo x >/tmp/x && truncate -s 256M big && rm big");
  assert.deepEqual(may, { exit: 0, stdout: "", stderr: "" });
});

Deno.test({
  name: "what a hostile container tries with files works without the locks",
  // Only root may start a container without locks.
  ignore: !IS_ROOT,
  async fn() {
    await using world = await HostileWorld.start();
    const triable = triableUnlocked(aroundIt);
    assertWorked(await world.triesUnlocked(triable), triable, Object.keys(triable).length);
  },
});

Deno.test({
  name: "a hostile directory: programs of root's and devices in it give no rights",
  // Only root makes such files.
  ignore: !IS_ROOT,
  async fn() {
    await using world = await HostileWorld.start();
    const { directory } = world;
    await world.run("cp /usr/bin/id me; cp /usr/bin/id group");
    for (const [name, mode] of [["me", 0o4755], ["group", 0o2755]] as const) {
      Deno.chownSync(`${directory}/${name}`, 0, 0);
      Deno.chmodSync(`${directory}/${name}`, mode);
    }
    const ids = (as: string) => `${as}./me -u; ${as}./group -g`;
    assert.equal((await world.run(ids(""))).stdout, "65534\n65534\n");
    const other = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
    assert.equal(await runUnlocked(ids(other), directory), "0\n0\n");

    await runUnlocked("mknod -m 666 log c 1 11; mknod -m 666 null c 1 3", directory);
    const attempts: Attempts = {
      "the log of the kernel": { command: ": <log", refused: REFUSED },
      "writing to it": { command: ": >>log", refused: REFUSED },
    };
    assertRefused(await world.tries(attempts), attempts);
    const open = await world.triesUnlocked(attempts);
    assertWorked(open, attempts, 2);
    const path = `${directory}/log`;
    for (const tool of ["read_file", "write_file"] as const) {
      assert.equal(await world.failure(tool, path), `${path} is a character special file`);
    }
  },
});

toolTest("stays possible: a hard link of the owner's is granted", async () => {
  await using world = await HostileWorld.start();
  const { directory, outside } = world;
  const file = `${outside}/shared`;
  Deno.writeTextFileSync(file, "shared");
  Deno.chmodSync(file, 0o666);
  Deno.linkSync(file, `${directory}/shared`);
  assert.equal((await world.run("cat shared")).stdout, "shared");
  // `write_file` makes a new file; a command may write into the old one, if its rights allow it.
  const path = `${directory}/shared`;
  await contentOf(world.home, "write_file", { path, content: "new" });
  assert.equal(Deno.readTextFileSync(file), "shared");
  Deno.removeSync(path);
  Deno.linkSync(file, path);
  await world.run("echo changed >shared");
  assert.equal(Deno.readTextFileSync(file), "changed\n");
});

toolTest("stays possible: many files fill the disk of a granted directory", async () => {
  await using world = await HostileWorld.start();
  // Three files without blocks stand for many with them.
  await world.run("for i in 1 2 3; do truncate -s 256M $i; done");
  const sizes = [1, 2, 3].map((name) => Deno.statSync(`${world.directory}/${name}`).size);
  assert.deepEqual(sizes, [2 ** 28, 2 ** 28, 2 ** 28]);
});

toolTest("a command of the largest size runs, one of a byte more does not", async () => {
  await using world = await HostileWorld.start();
  const command = "exit 7 #".padEnd(131_071, "x");
  assert.equal((await runCommand(world.home, command, world.directory)).exit, 7);
  const answer = await callTool(world.home, "shell", {
    command: `${command}x`,
    cwd: world.directory,
  });
  assert.deepEqual(answer, { status: "failed", message: "a command holds at most 131071 bytes" });
});
