/**
 * The lock of each role, tried from the inside (contracts 1, "Every role is started locked"): a program under
 * the very flags of the one table finds every door outside the role's row closed, what its row gives open,
 * and each closed door open once the flag that guards it is widened.
 */
import assert from "node:assert/strict";
import { type Role, ROLES } from "../../proto/locks.ts";
import { directoryOf } from "../../proto/layout.ts";
import {
  ask,
  type Broker,
  DEADLINE_MS,
  forEach,
  PROJECT,
  readFile,
  startBroker,
} from "../support/broker.ts";
import { RolesHome } from "../support/roles.ts";
import type { Door, Outcome } from "../support/probe.ts";

/** What opens a door: the flag that is widened by its target, or the flags that are added. */
type Guard =
  | "read"
  | "write"
  | "read and write"
  | "reading and writing anywhere"
  | "socket"
  | "network"
  | "run"
  | "run and env"
  | "ffi"
  | "sys"
  | "env"
  | "import"
  | "everything";

type Tried = Omit<Door, "own" | "name"> & { readonly guard: Guard };

const tried = (guard: Guard, act: Door["act"], ...targets: string[]): Tried[] =>
  targets.map((target) => ({ guard, act, target }));

const serve = (handler: Deno.ServeHandler) =>
  Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, handler);

const addressOf = ({ addr }: Deno.HttpServer<Deno.NetAddr>) => `${addr.hostname}:${addr.port}`;

/** A home with all that the roles keep apart, a brokerd that serves it, and servers to be reached. */
class World implements AsyncDisposable {
  readonly #model = serve(() => new Response("the model"));
  readonly #other = serve((request) => {
    const { pathname } = new URL(request.url);
    this.asked.push(pathname);
    if (!pathname.endsWith(".js")) return new Response("", { status: 404 });
    const headers = { "content-type": "text/javascript" };
    return new Response('globalThis.postMessage?.("open");', { headers });
  });
  /** Paths that the other server was asked for: it has modules, and knows no package. */
  readonly asked: string[] = [];
  readonly model = addressOf(this.#model);
  readonly other = addressOf(this.#other);
  readonly home = new RolesHome(this.model);
  readonly cache = Deno.makeTempDirSync({ prefix: "boxmaker-cache-" });
  readonly notes = `${this.home.root}/notes`;
  readonly grant = `${this.home.layout.grants}/notes.toml`;
  readonly state = `${this.home.layout.brokerSessions}/s1.json`;
  readonly sessionLog = `${this.home.layout.loopSessions}/s1.jsonl`;
  readonly #loop: Deno.HttpServer<Deno.UnixAddr>;
  #broker: Broker | null = null;

  constructor() {
    const { layout } = this.home;
    for (const path of [layout.brokerSessions, layout.loopSessions, layout.memory, this.notes]) {
      Deno.mkdirSync(path, { recursive: true });
    }
    this.home.grant("notes", `tool = "read_file"\nmode = "ask"\n[constraints]\npaths = ["/n"]\n`);
    Deno.writeTextFileSync(this.state, '{"taint":"private","untrusted":false}');
    for (const path of [this.sessionLog, layout.core, `${this.notes}/a.ts`]) {
      Deno.writeTextFileSync(path, "");
    }
    Deno.mkdirSync(directoryOf(layout.loopSocket), { recursive: true, mode: 0o700 });
    this.#loop = Deno.serve({ path: layout.loopSocket, onListen: () => {} }, () => new Response());
  }

  static async start(): Promise<World> {
    const world = new World();
    world.#broker = await startBroker(world.home);
    // Then there is a log.
    await ask(world.home.layout.brokerSocket, "tool_request", readFile("s1", "c1", "/x"));
    return world;
  }

  get log(): string {
    return `${this.home.layout.audit}/${this.home.auditFiles()[0]}`;
  }

  /** Tries `doors` in a process with `flags`. */
  async probe(
    flags: readonly string[],
    doors: readonly Tried[],
    own: string,
  ): Promise<Record<string, Outcome>> {
    const named = doors.map(({ act, target }) => ({ name: `${act} ${target}`, act, target, own }));
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", ...flags, new URL("tests/support/probe.ts", PROJECT).pathname],
        JSON.stringify(named satisfies Door[]),
      ],
      cwd: PROJECT,
      signal: AbortSignal.timeout(DEADLINE_MS),
      env: {
        DENO_DIR: this.cache,
        NO_COLOR: "1",
        // Whatever would be fetched is asked for here.
        NPM_CONFIG_REGISTRY: `http://${this.other}/npm/`,
        JSR_URL: `http://${this.other}/jsr/`,
      },
    }).output();
    const text = new TextDecoder();
    assert(success, text.decode(stderr));
    return JSON.parse(text.decode(stdout));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#broker?.[Symbol.asyncDispose]();
    await Promise.all([this.#model, this.#other, this.#loop].map((server) => server.shutdown()));
    Deno.removeSync(this.cache, { recursive: true });
    this.home[Symbol.dispose]();
  }
}

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

/** `flags` with the guard of `doors` widened to let them through. */
function widened(
  flags: readonly string[],
  guard: Guard,
  doors: readonly Tried[],
  row: Row,
): string[] {
  const targets = doors.map(({ target }) => target);
  const more = (list: readonly string[], name: string, values: readonly string[]) =>
    list.map((flag) =>
      flag.startsWith(`--allow-${name}=`) ? [flag, ...values].join(",").replace("=,", "=") : flag
    );
  const all = (list: readonly string[], ...names: string[]) =>
    list.map((flag) => names.find((name) => flag.startsWith(`${name}=`)) ?? flag);
  switch (guard) {
    case "read":
    case "env":
    case "write":
      return more(flags, guard, targets);
    case "read and write":
      return more(more(flags, "read", [...targets, row.own]), "write", [...targets, row.own]);
    case "reading and writing anywhere":
      return all(flags, "--allow-read", "--allow-write");
    case "socket": {
      const paths = targets.map((target) => target.split(" ")[0] ?? target);
      const hosts = targets.flatMap((target) => target.split(" http://")[1]?.slice(0, -1) ?? []);
      const both = more(more(flags, "read", paths), "write", paths);
      return more(both, "net", [...paths.map((path) => `unix:${path}`), ...hosts]);
    }
    case "network":
      return more(flags, "net", targets);
    case "run":
      return [...flags, "--allow-run"];
    case "run and env":
      return [...all(flags, "--allow-env"), "--allow-run"];
    case "ffi":
      return [...flags, "--allow-ffi"];
    case "sys":
      return [...flags, "--allow-sys"];
    case "everything":
      return ["-A"];
    case "import": {
      const closing = ["--cached-only", "--deny-import", "--frozen"];
      return [...flags.filter((flag) => !closing.includes(flag)), "--no-lock", "--allow-import"];
    }
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
        const wide = widened(flags, guard as Guard, group, row);
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
