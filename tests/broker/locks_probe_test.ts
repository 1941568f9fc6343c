/**
 * The lock of each role, tried from the inside (contracts 1, "Every role is started locked"): a program under
 * the very flags of the one table finds every door outside the role's row closed, what its row gives open,
 * and each closed door open once the flag that guards it is widened.
 */
import assert from "node:assert/strict";
import { type Role, ROLES } from "../../proto/locks.ts";
import { directoryOf } from "../../proto/layout.ts";
import { forEach } from "../support/broker.ts";
import type { Outcome } from "../support/probe/outcome.ts";
import { type Guard, type Tried, tried, widened, World } from "../support/probe/world.ts";

/** Doors that are closed to every role. */
function closedToAll({ notes, other }: World): Tried[] {
  return [
    ...tried("read", "read", "/etc/passwd", `${notes}/a.ts`),
    // Of what /proc holds some is only for those who may do everything.
    ...tried("everything", "read", "/proc/self/environ"),
    ...tried("read", "readByNode", "/etc/passwd"),
    ...tried("read", "readByData", "/etc/passwd"),
    ...tried("read", "readByWorker", "/etc/passwd"),
    ...tried("read", "readByBlobWorker", "/etc/passwd"),
    ...tried("read", "list", notes, "/"),
    ...tried("read", "stat", `${notes}/a.ts`),
    ...tried("read", "importFile", `${notes}/a.ts`),
    ...tried("write", "append", `${notes}/a.ts`, "/dev/null"),
    ...tried("write", "create", notes),
    ...tried("network", "connectTcp", other),
    ...tried("network", "connectTcpByNode", other),
    ...tried("network", "fetch", other),
    ...tried("network", "webSocket", other),
    ...tried("network", "listenTcp", "127.0.0.1:0"),
    ...tried("run", "run", "true"),
    ...tried("run and env", "runByNode", "true"),
    ...tried("run", "signal", String(Deno.pid)),
    ...tried("run", "requestRun", ""),
    ...tried("ffi", "nativeCode", "libc.so.6"),
    ...tried("ffi", "nativeModule", `${notes}/none.node`),
    ...tried("sys", "systemInformation", ""),
    ...tried("sys", "systemInformationByNode", ""),
    ...tried("env", "environment", "PATH"),
    ...tried("env", "environmentByNode", "PATH"),
    ...tried("import", "importRemote", `http://${other}/module.js`),
    ...tried("import", "importPackage", "npm:boxmaker-is-no-package", "jsr:@boxmaker/none"),
    ...tried("import", "workerRemote", `http://${other}/worker.js`),
  ];
}

/** Every way to reach a socket. One goes by an address that loopd may fetch from. */
const toConnect = ({ model }: World, target: string): Tried[] => [
  ...tried("socket", "connect", target),
  ...tried("socket", "connectByNode", target),
  ...tried("socket", "fetchOverSocket", `${target} http://${model}/`),
  ...tried("socket", "requestOverSocket", target),
];

interface Row {
  /** A directory that the role may write; the notes, where there is none. */
  readonly own: string;
  readonly closed: readonly Tried[];
  readonly open: readonly Omit<Tried, "guard">[];
}

function rowOf(role: Role, world: World): Row {
  const { home: { configFile, layout }, grant, state, sessionLog, notes, log } = world;
  const out = (...paths: string[]) => [
    ...tried("read and write", "copyOut", ...paths),
    ...tried("read and write", "linkOut", ...paths),
  ];
  switch (role) {
    case "brokerd":
      return {
        own: layout.broker,
        closed: [
          ...tried("read", "read", sessionLog, layout.core),
          ...tried("read", "list", layout.home, layout.loop, layout.memory),
          ...tried("write", "append", grant, configFile, sessionLog, layout.core),
          ...tried("write", "create", layout.home, layout.grants),
          ...tried("reading and writing anywhere", "symlink", `${notes}/a.ts`),
          ...tried("reading and writing anywhere", "symlinkByNode", `${notes}/a.ts`),
          ...out(sessionLog),
          ...toConnect(world, layout.loopSocket),
          ...tried("socket", "listenOnSocket", `${notes}/another.sock`),
        ],
        open: [
          ...tried("read", "read", configFile, grant, state, log),
          ...tried("write", "append", state, log),
          ...tried("socket", "connect", layout.brokerSocket, layout.adminSocket),
        ],
      };
    case "loopd":
      return {
        own: layout.loopSessions,
        closed: [
          ...tried("read", "read", log, state, grant, configFile),
          ...tried("read", "readByNode", log, state, grant),
          ...tried("read", "readByWorker", log),
          ...tried("read", "list", layout.home, layout.audit, layout.broker, layout.grants),
          ...tried("read", "stat", log, layout.adminSocket),
          ...tried("write", "append", log, state, grant, layout.core, world.home.configs.loopd),
          ...tried("write", "appendByNode", log),
          ...tried("write", "create", layout.home, layout.audit, layout.broker, layout.grants),
          ...tried("write", "create", layout.memory, directoryOf(layout.brokerSocket)),
          ...tried("write", "makeDirectory", layout.audit),
          ...tried("write", "chmod", layout.adminSocket),
          ...tried("reading and writing anywhere", "symlink", log),
          ...tried("reading and writing anywhere", "symlinkByNode", log),
          ...out(log, state, grant),
          ...toConnect(world, layout.adminSocket),
          ...tried("socket", "listenOnSocket", `${directoryOf(layout.adminSocket)}/a.sock`),
        ],
        open: [
          ...tried("read", "read", world.home.configs.loopd, sessionLog, layout.core),
          ...tried("write", "append", sessionLog),
          ...toConnect(world, layout.brokerSocket),
          ...tried("network", "fetch", world.model),
        ],
      };
    case "bxctl":
      return {
        own: notes,
        closed: [
          ...tried("read", "read", grant, state, sessionLog, layout.core, configFile),
          ...tried("read", "list", layout.home, layout.grants, layout.broker, layout.loop),
          ...tried("write", "append", log, `${layout.audit}/head.json`, grant, state, sessionLog),
          ...tried("write", "create", layout.audit, layout.grants, layout.broker, layout.loop),
          ...toConnect(world, layout.brokerSocket),
        ],
        open: [
          ...tried("read", "read", world.home.configs.bxctl, log),
          ...tried("read", "list", layout.audit),
          ...tried("socket", "connect", layout.adminSocket, layout.loopSocket),
          ...tried("socket", "connectByNode", layout.adminSocket),
          ...tried("env", "environment", "TERM"),
        ],
      };
  }
}

const isOpen = (outcome: Outcome) => outcome === "open";

for (const role of ROLES) {
  Deno.test(`${role} finds every door outside its row closed, and each opens with its flag`, async (t) => {
    await using world = await World.start();
    const row = rowOf(role, world);
    const doors = [...closedToAll(world), ...row.closed];
    const flags = world.home.flags(role);

    await t.step("closed under its own flags", async () => {
      const outcomes = await world.probe(flags, doors, row.own);
      assert.deepEqual(Object.entries(outcomes).filter(([, outcome]) => outcome !== "closed"), []);
      assert.equal(Object.keys(outcomes).length, doors.length);
      assert.deepEqual(world.asked, [], "nothing went over the network");
    });

    await t.step("what its row gives is open", async () => {
      const open = row.open.map((door) => ({ ...door, guard: "read" as const }));
      const outcomes = await world.probe(flags, open, row.own);
      assert.deepEqual(Object.entries(outcomes).filter(([, outcome]) => !isOpen(outcome)), []);
      assert.equal(Object.keys(outcomes).length, open.length);
    });

    await t.step("each opens with its flag", async () => {
      const groups = Object.groupBy(doors, ({ guard }) => guard);
      await forEach(groups, async (group = [], guard) => {
        const wide = widened(flags, guard as Guard, group, row.own);
        const outcomes = await world.probe(wide, group, row.own);
        const still = Object.entries(outcomes).filter(([, outcome]) => !isOpen(outcome));
        assert.deepEqual(still, []);
      });
      const fetched = ["/jsr/@boxmaker/none/meta.json", "/module.js", "/worker.js"];
      assert.deepEqual(
        world.asked.filter((path) => path !== "/").sort(),
        [...fetched, "/npm/boxmaker-is-no-package"].sort(),
      );
    });
  });
}
