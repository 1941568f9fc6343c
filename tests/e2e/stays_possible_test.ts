/**
 * What code of an attacker in a locked program can do all the same, exactly: one test for each row of "What
 * stays possible" in docs/architecture.md, which says why it is harmless or what the owner can do.
 */
import assert from "node:assert/strict";
import { directoryOf } from "../../proto/layout.ts";
import { DENO_VERSION } from "../../proto/io/start.ts";
import { ROLES } from "../../proto/locks.ts";
import {
  ask,
  type Broker,
  forEach,
  namesOf,
  PROJECT,
  refusedStart,
  startBroker,
} from "../support/broker.ts";
import type { Door } from "../support/probe.ts";
import { World } from "../support/probe/world.ts";

/** Does `acts` one after the other in `role`, in one process; each must be open. */
async function does(
  world: World,
  role: (typeof ROLES)[number],
  ...acts: readonly (readonly [act: Door["act"], target?: string])[]
): Promise<void> {
  const doors = acts.map(([act, target = ""]) => ({ act, target }));
  const outcomes = await world.probe(world.home.flags(role), doors, ownOf(world));
  assert.deepEqual(Object.entries(outcomes).filter(([, outcome]) => outcome !== "open"), []);
  assert.equal(Object.keys(outcomes).length, acts.length);
}

const ownOf = ({ home: { layout } }: World) => layout.loopSessions;

Deno.test("stays possible: a link made by node:wasi leads out of a directory that the role may write", async () => {
  // The only way out that was found. When this fails, the runtime has closed it, and the page is to say so.
  assert.equal(DENO_VERSION, "2.9.6");
  await using world = await World.start();
  const { layout } = world.home;
  const own = ownOf(world);
  await does(
    world,
    "loopd",
    ["linkByWasi", `${layout.audit} ${own}/audit`],
    ["read", `${own}/audit/head.json`],
    ["linkByWasi", `${layout.grants} ${own}/grants`],
    ["append", `${own}/grants/mine.toml`],
    ["removePath", layout.loopSocket],
    ["linkByWasi", `${layout.adminSocket} ${layout.loopSocket}`],
    ["connect", layout.loopSocket],
  );
  assert.equal(Deno.statSync(`${layout.grants}/mine.toml`).size, 0);
  // What the kernel holds against it stands in the units, see tests/docs/units_test.ts. The memory and
  // the environment of other processes stay closed even so.
  const kernel = { act: "linkByWasi", target: `/ ${own}/root` } as const;
  const memory = [`/proc/${world.brokerPid}/mem`, `/proc/${world.brokerPid}/environ`].map((
    path,
  ) => ({
    act: "read" as const,
    target: `${own}/root${path}`,
  }));
  const outcomes = await world.probe(world.home.flags("loopd"), [kernel, ...memory], own);
  assert.deepEqual(Object.values(outcomes), ["open", "closed", "closed"]);
});

Deno.test("stays possible: bxctl makes itself such a directory where its sockets stood", async () => {
  await using world = await World.start();
  const { layout } = world.home;
  await does(
    world,
    "bxctl",
    ["removePath", layout.adminSocket],
    ["makeDirectoryAt", layout.adminSocket],
    ["linkByWasi", `${layout.grants} ${layout.adminSocket}/grants`],
    ["append", `${layout.adminSocket}/grants/mine.toml`],
  );
  assert.equal(Deno.statSync(`${layout.grants}/mine.toml`).size, 0);
});

Deno.test("stays possible: nameless files of a database fill the disk in any directory", async () => {
  await using world = await World.start();
  const { layout } = world.home;
  await using watcher = watch(layout.audit);
  const before = namesOf(layout.audit);
  await does(world, "loopd", ["spill", layout.audit]);
  const seen = await watcher.end(`${layout.audit}/end`);
  assert(seen.some((name) => name.startsWith("etilqs_")), String(seen));
  assert.deepEqual(seen.filter((name) => !/^(etilqs_[0-9a-f]+|end)$/.test(name)), []);
  assert.deepEqual(namesOf(layout.audit), before, "nothing stays");
});

/** The names that come and go in `directory`. */
function watch(directory: string) {
  const watcher = Deno.watchFs(directory);
  const seen = new Set<string>();
  const reading = (async () => {
    for await (const { paths } of watcher) {
      for (const path of paths) {
        if (path !== directory) seen.add(path.slice(directory.length + 1));
        if (path.endsWith("/end")) return;
      }
    }
  })();
  return {
    async end(last: string): Promise<string[]> {
      Deno.writeTextFileSync(last, "");
      await reading;
      Deno.removeSync(last);
      return [...seen];
    },
    async [Symbol.asyncDispose]() {
      try {
        watcher.close();
      } catch {
        // it ended by itself
      }
      await reading;
    },
  };
}

Deno.test("stays possible: a database in a socket's place leaves files beside it", async () => {
  await using world = await World.start();
  const { layout } = world.home;
  const directory = directoryOf(layout.brokerSocket);
  await does(
    world,
    "loopd",
    ["removePath", layout.brokerSocket],
    ["journal", layout.brokerSocket],
  );
  const names = namesOf(directory);
  assert(names.length > 1);
  assert.deepEqual(names.filter((name) => !name.startsWith("broker.sock")), []);
});

/** How `broker` refuses to start again, or null where it serves. */
async function restarted(world: World): Promise<string | null> {
  await world.broker.stop();
  const { layout } = world.home;
  const left = await Deno.lstat(layout.brokerSocket).catch(() => null);
  if (left !== null) return (await refusedStart(world.home)).stderr;
  await using _: Broker = await startBroker(world.home);
  await ask(layout.adminSocket, "approvals", {});
  return null;
}

const IN_ITS_PLACE = {
  "nothing": [],
  "a file": [["append"]],
  "a directory with something in it": [["makeDirectoryAt"]],
  "a socket of its own": [["listenOnSocket"]],
} as const satisfies Record<string, readonly (readonly [Door["act"]])[]>;

Deno.test("stays possible: loopd removes broker.sock and puts something else in its place", async () => {
  await forEach(IN_ITS_PLACE, async (acts, name) => {
    await using world = await World.start();
    const { layout } = world.home;
    const socket = layout.brokerSocket;
    await does(
      world,
      "loopd",
      ["removePath", socket],
      ...acts.map(([act]) => [act, socket] as const),
    );
    // Nobody gets a call through, and the owner's side goes on.
    await assert.rejects(async () =>
      (await Deno.connect({ transport: "unix", path: socket })).close()
    );
    const [answer] = await ask(layout.adminSocket, "approvals", {});
    assert.equal(answer?.kind, "approval_list");
    // A socket is replaced at the next start. Anything else stops it, untouched, and is named.
    const refused = await restarted(world);
    if (name === "nothing" || name === "a socket of its own") return assert.equal(refused, null);
    assert.match(refused ?? "", /broker\.sock exists and is not a socket\n/);
    assert.match(refused ?? "", /see docs\/runbook\.md#socket-directory\n$/);
    Deno.removeSync(socket, { recursive: true });
    await using broker = await startBroker(world.home);
    assert.equal(broker.stderr.includes("ready"), true);
  });
});

Deno.test("stays possible: bxctl takes the place of admin.sock until brokerd starts again", async () => {
  await using world = await World.start();
  const { layout } = world.home;
  const { adminSocket } = layout;
  await does(world, "bxctl", ["removePath", adminSocket], ["listenOnSocket", adminSocket]);
  const { code, stderr } = await world.home.run("bxctl", ["approvals"]);
  assert.equal(code, 1);
  assert.match(stderr, /bxctl: /);
  assert.equal(await restarted(world), null);
});

Deno.test("stays possible: a role opens its socket to all, whom the directory keeps out", async () => {
  await using world = await World.start();
  const { layout } = world.home;
  await does(world, "bxctl", ["openToAll", layout.adminSocket]);
  assert.equal(Deno.statSync(layout.adminSocket).mode! & 0o777, 0o777);
  assert.equal(Deno.statSync(directoryOf(layout.adminSocket)).mode! & 0o777, 0o700);
  const closed = { act: "openToAll", target: directoryOf(layout.adminSocket) } as const;
  const outcomes = await world.probe(world.home.flags("bxctl"), [closed], ownOf(world));
  assert.deepEqual(Object.values(outcomes), ["closed"]);
});

Deno.test("stays possible: a role fills its own directories", async () => {
  await using world = await World.start();
  const { layout } = world.home;
  const before = namesOf(layout.loopSessions).length;
  await does(world, "loopd", ["fill"]);
  assert.equal(namesOf(layout.loopSessions).length, before + 1);
});

Deno.test("stays possible: localStorage and caches keep data, for all three programs together", async () => {
  await using world = await World.start();
  const project = `${world.home.root}/project`;
  Deno.mkdirSync(project);
  Deno.writeTextFileSync(`${project}/deno.json`, "{}");
  const code = `const kept = localStorage.getItem("k");
    localStorage.setItem("k", "kept");
    const cache = await caches.open("c");
    const before = await cache.match("http://a.invalid/");
    await cache.put("http://a.invalid/", new Response("kept"));
    console.log(JSON.stringify([kept, before === undefined ? null : await before.text()]));`;
  for (const name of ["loop", "ctl"]) Deno.writeTextFileSync(`${project}/${name}.ts`, code);
  const kept = async (name: string, cache = world.cache) => {
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--no-lock", ...world.home.flags("loopd"), `${project}/${name}.ts`],
      cwd: project,
      env: { DENO_DIR: cache, NO_COLOR: "1" },
    }).output();
    const text = new TextDecoder();
    return text.decode(stdout).trim() || text.decode(stderr);
  };
  assert.equal(await kept("loop"), "[null,null]");
  assert.equal(await kept("loop"), '["kept","kept"]');
  // The runtime keeps it by the project's deno.json.
  assert.equal(await kept("ctl"), '["kept","kept"]');
  assert(namesOf(world.cache).includes("location_data"), "it lies with the runtime's own files");
  // Where those cannot be written, as under the sample units, neither can it.
  assert.match(await kept("loop", "/dev/null/none"), /Uncaught.* Not a directory/);
});

Deno.test("stays possible: a role uses the model server's port in every way while it is free", async () => {
  await using world = await World.start();
  // The server has the port for TCP, and so nobody has it for datagrams.
  await does(world, "loopd", ["bindDatagram", world.model]);
  const [, port] = world.model.split(":");
  await does(world, "loopd", ["fetch", `127.1:${port}`], ["fetch", `[::ffff:127.0.0.1]:${port}`]);
  const elsewhere = ["localhost", "[::1]", "0.0.0.0", "127.0.0.2"].map((host) => ({
    act: "fetch" as const,
    target: `${host}:${port}`,
  }));
  const outcomes = await world.probe(world.home.flags("loopd"), elsewhere, ownOf(world));
  assert.deepEqual([...new Set(Object.values(outcomes))], ["closed"]);
});

Deno.test("stays possible: a role runs code it makes itself, with no more rights", async () => {
  await using world = await World.start();
  await does(world, "loopd", ["evaluate"], ["webAssembly"], ["importOwnSource"]);
});

Deno.test("stays possible: a role ends, signals and names itself", async () => {
  await using world = await World.start();
  await does(world, "loopd", ["signalSelf"], ["setTitle"], ["handleSignals"]);
});

Deno.test("stays possible: a role speaks to whoever started it, and knows where it runs", async () => {
  await using world = await World.start();
  await does(world, "loopd", ["speak"], ["whoAmI"]);
});

/** Names that would be ways out, or around, and are not there without a flag. */
const MISSING = [
  ...["Deno.openKv", "Deno.cron", "Deno.bundle", "Deno.listenDatagram", "Deno.connectQuic"],
  ...["Deno.QuicEndpoint", "Deno.core", "WebTransport", "WebSocketStream", "indexedDB"],
  ...["__bootstrap", "process.execve", "process.setgroups"],
];

Deno.test("what needs a flag of an unstable kind is not there", async () => {
  await using world = await World.start();
  const doors = [
    ...MISSING.map((target) => ({ act: "find" as const, target })),
    ...["primordials", "ops"].map((target) => ({ act: "findInner" as const, target })),
    ...["node:sea", "node:quic"].map((target) => ({ act: "findModule" as const, target })),
  ];
  await forEach(Object.fromEntries(ROLES.map((role) => [role, role])), async (role) => {
    const outcomes = await world.probe(world.home.flags(role), doors, ownOf(world));
    assert.deepEqual(Object.entries(outcomes).filter(([, outcome]) => outcome !== "absent"), []);
  });
  const flags = ["--unstable-kv", "--unstable-cron", "--unstable-net"];
  const there = ["Deno.openKv", "Deno.cron", "Deno.listenDatagram", "WebTransport"].map((
    target,
  ) => ({
    act: "find" as const,
    target,
  }));
  const outcomes = await world.probe(
    [...world.home.flags("loopd"), ...flags],
    there,
    ownOf(world),
  );
  assert.deepEqual([...new Set(Object.values(outcomes))], ["open"]);
});

Deno.test("calling what needs such a flag ends the program", async () => {
  await using world = await World.start();
  const worker = `new Worker("data:,", { type: "module", deno: { permissions: { read: true } } })`;
  const calls = {
    "a worker with rights of its own": worker,
    "a socket of the machine's host": 'await Deno.connect({ transport: "vsock", cid: 2, port: 1 })',
    "a shared port": 'Deno.listen({ hostname: "127.0.0.1", port: 1, reusePort: true })',
  };
  await forEach(calls, async (code) => {
    const path = `${world.home.root}/${crypto.randomUUID()}.ts`;
    Deno.writeTextFileSync(
      path,
      `try { ${code}; } catch { /* goes on */ } console.log("went on");`,
    );
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--no-check", ...world.home.flags("loopd"), path],
      cwd: PROJECT,
    }).output();
    assert.equal(new TextDecoder().decode(stdout), "");
    assert.match(new TextDecoder().decode(stderr), /^Unstable API/m);
  });
});
