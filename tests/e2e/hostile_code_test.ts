/**
 * Code of an attacker in one of the programs: every way out of the runtime's locks that its functions, its
 * node modules, its workers and its imports offer, tried under the very flags of each role. A door is closed
 * or is not there; and but for the few that nothing opens, it opens with the flag that guards it, so that
 * the attempt itself is known to work. What stays possible stands in `stays_possible_test.ts`.
 */
import assert from "node:assert/strict";
import { type Role, ROLES } from "../../proto/locks.ts";
import { directoryOf } from "../../proto/layout.ts";
import { forEach } from "../support/broker.ts";
import { DIRECTORY_ACTS, FILE_ACTS, TEXT_ACTS } from "../support/probe/files.ts";
import type { Door } from "../support/probe.ts";
import type { Outcome } from "../support/probe/outcome.ts";
import { OPERATION_NAMES } from "../support/probe/process.ts";
import { type Guard, type Tried, tried, widened, World } from "../support/probe/world.ts";

/** A directory that the role may write, and nothing else of which it needs to know. */
function ownOf(role: Role, { home: { layout }, notes }: World): string {
  return { brokerd: layout.broker, loopd: layout.loopSessions, bxctl: notes }[role];
}

/** Acts that the scoped flags do not open: they ask for more beside the path. */
const UNSCOPED: readonly Door["act"][] = [
  ...["changeDirectory", "nodeChangeDirectory", "nodeCopyOut", "nodePromisesCopyOut"] as const,
  ...["nodeStatfs", "nodePromisesStatfs"] as const,
];

/** Every act of `acts` on `target`. */
function each(acts: Partial<Record<Door["act"], unknown>>, target: string): Tried[] {
  return (Object.keys(acts) as Door["act"][]).flatMap((act) =>
    tried(UNSCOPED.includes(act) ? "everything" : "read and write", act, target)
  );
}

/** Other names of `path`, for a role that may write `own`, and none that the runtime takes for it. */
function otherNames(path: string, own: string): string[] {
  const up = own.split("/").slice(1).map(() => "..").join("/");
  return [`${own}/${up}${path}`, `${own}//${up}/.${path}`, `/${path}`, `/./${path}`];
}

/** The same by way of what the kernel shows of processes. */
const throughProcesses = (path: string, pid: number) => [
  ...[`/proc/self/root${path}`, `/proc/self/cwd${"/..".repeat(20)}${path}`],
  ...[`/proc/thread-self/root${path}`, `/proc/${pid}/root${path}`],
];

/** Of processes and devices, what only a process that may do everything reads. */
const kernelFiles = (pid: number) => [
  ...["/proc/self/maps", "/proc/self/mem", "/proc/self/auxv", "/proc/self/fd/1", "/dev/fd/1"],
  ...["/proc/self/status", "/proc/self/cmdline", `/proc/${pid}/environ`, `/proc/${pid}/maps`],
];

function files(own: string, world: World): Tried[] {
  const json = `${world.notes}/a.json`;
  const text = `${world.notes}/a.txt`;
  return [
    ...each(DIRECTORY_ACTS, world.notes),
    ...each(FILE_ACTS, json),
    ...each(TEXT_ACTS, text),
    ...tried("read", "read", ...otherNames(json, own)),
    ...tried("read", "nodeBlob", ...otherNames(json, own)),
    ...tried("everything", "open", ...throughProcesses(json, world.brokerPid)),
    ...tried("everything", "open", ...kernelFiles(world.brokerPid)),
    ...tried("everything", "append", "/proc/self/comm", "/proc/self/oom_score_adj", "/dev/fd/2"),
    ...tried("everything", "create", "/dev/shm"),
    ...tried("read", "workerImports", text),
    ...tried("read", "workerInWorker", json),
    ...tried("read", "nodeWorker", json),
    ...tried("read", "requireInNodeWorker", json),
  ];
}

function network({ other }: World): Tried[] {
  return [
    ...tried("network", "connectTls", other),
    ...tried("network", "nodeTls", other),
    ...tried("network", "nodeHttp2", other),
    ...tried("network", "eventSource", other),
    ...tried("network at large", "datagram", other),
    ...tried("network at large", "nodeListen", other),
    ...tried("network at large", "serve", other),
    ...tried("network at large", "proxyHttp", other),
    ...tried("network at large", "proxySocks", other),
    ...tried("network at large", "proxyTcp", other),
    ...tried("network at large", "nodeLookup", "localhost"),
    ...tried("everything", "abstract", "boxmaker-probe"),
    ...tried("everything", "nodeAbstract", "boxmaker-probe"),
    ...tried("everything", "nodeListenAbstract", "boxmaker-probe"),
  ];
}

function processes({ notes, brokerPid }: World): Tried[] {
  return [
    ...tried("run", "denoRun", "true"),
    ...tried("run", "denoSpawn", "true"),
    ...tried("run", "commandSpawn", "true"),
    ...tried("run and env", "nodeSpawn", "true"),
    ...tried("run and env", "nodeExec", "true"),
    ...tried("run and env", "nodeExecFile", "true"),
    ...tried("everything", "nodeFork", "true"),
    ...tried("everything", "nodeCluster", ""),
    ...tried("run", "signal", String(brokerPid), String(Deno.ppid)),
    ...tried("run", "signalGroup", "0"),
    ...tried("run", "nodeSignal", String(brokerPid), "0", "1"),
    ...tried("ffi", "pointer", ""),
    ...tried("ffi", "pointerView", ""),
    ...tried("ffi", "callback", ""),
    ...tried("everything", "requireNative", `${notes}/none.node`),
    // Some of the runtime's inner functions can be called: they ask like all others.
    ...tried("everything", "operation", ...OPERATION_NAMES.map((name) => `${name} ${notes}`)),
    ...tried("ffi", "innerNative", `${notes}/none.node`),
    ...tried("ffi", "databaseExtension", `${notes}/none.so`),
    ...tried("everything", "inspectorPort", ""),
    ...tried("sys", "inspectorSession", ""),
    ...tried("sys", "umask", ""),
    ...tried("sys", "nodeUmask", ""),
    ...tried("sys", "userId", ""),
    ...tried("sys", "nodeUserId", ""),
    ...tried("sys", "setUser", ""),
    ...tried("sys", "priority", ""),
    ...tried("everything", "userInfo", ""),
    ...tried("sys", "interfaces", ""),
    ...tried("sys", "homeDirectory", ""),
    ...tried("sys", "processors", ""),
    ...tried("run and env", "wholeEnvironment", ""),
    ...tried("run and env", "nodeWholeEnvironment", ""),
    ...tried("env", "setEnvironment", "BOXMAKER_PROBE"),
  ];
}

function code({ other }: World): Tried[] {
  const addresses = [`http://${other}/module.js`, "npm:boxmaker-is-no-package"];
  return [
    ...tried("import", "importByDataModule", ...addresses, "jsr:@boxmaker/none"),
    ...tried("import", "workerImportsCode", ...addresses, "jsr:@boxmaker/none"),
  ];
}

/** What loopd must not reach of the others, by other names and by what brings a file near. */
function theOthers(own: string, world: World): Tried[] {
  const { layout } = world.home;
  const { adminSocket } = layout;
  // A socket's address has room for a hundred bytes or so.
  const names = [
    `${directoryOf(layout.loopSocket)}/../owner-broker/admin.sock`,
    ...[`/${adminSocket}`, `/.${adminSocket}`, `/proc/self/root${adminSocket}`],
    `/proc/${world.brokerPid}/root${adminSocket}`,
  ];
  return [
    ...each(DIRECTORY_ACTS, layout.audit),
    ...each(DIRECTORY_ACTS, layout.grants),
    ...each(FILE_ACTS, `${layout.audit}/head.json`),
    ...tried("read", "read", ...otherNames(`${layout.audit}/head.json`, own)),
    ...tried("everything", "connect", ...names),
    ...tried("read and write", "linkOut", adminSocket),
  ];
}

/** A world, and every door in it for `role`. */
async function worldOf(role: Role) {
  const world = await World.start();
  for (const name of ["a.json", "a.txt"]) Deno.writeTextFileSync(`${world.notes}/${name}`, "{}");
  const own = ownOf(role, world);
  const doors = [
    ...files(own, world),
    ...network(world),
    ...processes(world),
    ...code(world),
    ...(role === "loopd" ? theOthers(own, world) : []),
  ];
  return { world, own, doors, flags: world.home.flags(role) };
}

const all = (outcomes: Record<string, Outcome>, wanted: Outcome) =>
  assert.deepEqual(Object.entries(outcomes).filter(([, outcome]) => outcome !== wanted), []);

for (const role of ROLES) {
  Deno.test(`code of an attacker in ${role} finds every way out closed`, async () => {
    const { world, own, doors, flags } = await worldOf(role);
    await using _ = world;
    const outcomes = await world.probe(flags, doors, own);
    all(outcomes, "closed");
    assert.equal(Object.keys(outcomes).length, doors.length);
    assert.deepEqual(world.asked, [], "nothing went over the network");
  });
}

Deno.test("each way out that is closed opens with the flag that guards it", async () => {
  const { world, own, doors, flags } = await worldOf("loopd");
  await using _ = world;
  const groups = Object.groupBy(doors, ({ guard }) => guard);
  await forEach(groups, async (group = [], guard) => {
    all(await world.probe(widened(flags, guard as Guard, group, own), group, own), "open");
  });
  assert(world.asked.includes("/npm/boxmaker-is-no-package"));
});

Deno.test("what no flag opens stays shut, and names are asked of nobody", async () => {
  const { world, own, flags } = await worldOf("loopd");
  await using _ = world;
  const names = [
    ...tried("network", "resolveName", world.other),
    ...tried("network", "nodeResolve", "name.invalid"),
  ];
  all(await world.probe(flags, names, own), "closed");
  const deadEnds = [
    ...tried("everything", "attachedDatabase", own),
    ...tried("everything", "vacuumInto", own),
    ...tried("everything", "readByQuery", ""),
  ];
  const outcomes = Object.values(await world.probe(flags, deadEnds, own));
  assert.equal(outcomes.length, deadEnds.length);
  for (const outcome of outcomes) assert.match(outcome, /too many attached|no such function/);
});
