/** The sample systemd units carry the locks of the permission table, and start what they say. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { lockOf as brokerLockOf, readBrokerConfig } from "../../broker/config.ts";
import { lockOf as loopLockOf, readLoopConfig } from "../../loop/config.ts";
import { denoFlags, type Lock } from "../../proto/locks.ts";
import { directoryOf } from "../../proto/layout.ts";
import { PROJECT, read } from "../support/docs.ts";
import { parseUnit, type Unit, untilReady, words } from "../support/units.ts";

/** Where a unit of each kind expects things. */
const KINDS = {
  system: { home: "/var/lib/boxmaker", etc: "/etc/boxmaker", app: "/opt/boxmaker" },
  user: { home: "%h/.local/state/boxmaker", etc: "%h/.config/boxmaker", app: "%h/boxmaker" },
} as const;
type UnitKind = keyof typeof KINDS;
const UNIT_KINDS: readonly UnitKind[] = ["system", "user"];
type Daemon = "brokerd" | "loopd";
const FOLDERS = { brokerd: "broker", loopd: "loop" } as const;

/** The home of the user whose unit it is, in place of `%h`. */
const OWNER = "/home/owner";

function unitOf(kind: UnitKind, name: string): Unit {
  const content = read(`docs/samples/systemd/${kind}/${name}.service`);
  return parseUnit(content.replaceAll("%h", OWNER));
}

/** The lock of a daemon whose configuration is the sample, installed where the unit expects it. */
function sampleLock(kind: UnitKind, role: Daemon): Lock {
  const places = KINDS[kind];
  const at = (path: string) => path.replace("%h", OWNER);
  const sample = read(`docs/samples/${role}.toml`)
    .replaceAll(KINDS.system.home, at(places.home)).replaceAll(KINDS.system.etc, at(places.etc));
  const file = Deno.makeTempFileSync({ suffix: ".toml" });
  try {
    Deno.writeTextFileSync(file, sample);
    const configFile = `${at(places.etc)}/${role}.toml`;
    return role === "brokerd"
      ? brokerLockOf({ ...readBrokerConfig(file, undefined), configFile })
      : loopLockOf({ ...readLoopConfig(file, undefined), configFile });
  } finally {
    Deno.removeSync(file);
  }
}

for (const kind of UNIT_KINDS) {
  for (const role of ["brokerd", "loopd"] as const) {
    const name = `${kind}/boxmaker-${role}.service`;
    const { etc, app } = KINDS[kind];
    const at = (path: string) => path.replace("%h", OWNER);
    const unit = unitOf(kind, `boxmaker-${role}`);

    Deno.test(`${name} starts its program with exactly the flags of the table`, () => {
      const [deno, ...rest] = words(unit, "ExecStart");
      assert.match(deno ?? "", /^\/.*\/deno$/);
      assert.deepEqual(rest, [
        "run",
        ...denoFlags(sampleLock(kind, role)),
        `${at(app)}/${FOLDERS[role]}/main.ts`,
        "serve",
        "--config",
        `${at(etc)}/${role}.toml`,
      ]);
      assert.equal(unit.get("ExecStart")?.length, 1);
    });

    Deno.test(`${name} opens for writing what the table lets it write, and no more`, () => {
      // Not the socket files: a mount of one would outlive it.
      const writable = sampleLock(kind, role).write.filter((path) => !path.endsWith(".sock"));
      assert.deepEqual(words(unit, "ReadWritePaths").sort(), [...writable].sort());
      assert.deepEqual(unit.get("ProtectSystem"), ["strict"]);
    });

    Deno.test(`${name} closes the places of the other daemon, and none of its own`, () => {
      const own = sampleLock(kind, role).read;
      const closed = words(unit, "InaccessiblePaths").map((path) => path.replace(/^-/, ""));
      const holds = (place: string, path: string) => path === place || path.startsWith(`${place}/`);
      for (const place of closed) {
        assert.ok(!own.some((path) => holds(place, path)), `${place} is its own`);
      }
      const others = sampleLock(kind, role === "brokerd" ? "loopd" : "brokerd").write;
      for (const place of others.map((path) => path.endsWith(".sock") ? directoryOf(path) : path)) {
        const shared = own.some((path) => holds(place, path));
        assert.ok(shared || closed.includes(place), `${place} of the other is open`);
      }
      assert.ok(closed.length > 0);
    });

    Deno.test(`${name} is hardened`, () => {
      assert.deepEqual(unit.get("NoNewPrivileges"), ["yes"]);
      assert.deepEqual(unit.get("UMask"), ["0077"]);
      assert.deepEqual(unit.get("Restart"), ["on-failure"]);
      assert.deepEqual(unit.get("PrivateTmp"), ["yes"]);
      assert.deepEqual(
        words(unit, "RestrictAddressFamilies"),
        role === "brokerd" ? ["AF_UNIX"] : ["AF_UNIX", "AF_INET"],
      );
      assert.ok(words(unit, "Environment").includes("DENO_NO_UPDATE_CHECK=1"));
      // What node:wasi leaves open, by whichever call a processor has.
      assert.ok(unit.get("SystemCallFilter")?.includes("~symlink symlinkat"));
      assert.equal(unit.has("MemoryDenyWriteExecute"), false, "the runtime needs it");
    });
  }

  Deno.test(`${kind}/podman.conf adds to the flags what a runner needs, and nothing else`, () => {
    const { app } = KINDS[kind];
    const deno = kind === "user" ? `${OWNER}/.local/bin/deno` : "/usr/local/bin/deno";
    const lock = { ...sampleLock(kind, "brokerd"), run: ["/usr/bin/podman", deno] };
    const unit = parseUnit(
      read(`docs/samples/systemd/${kind}/podman.conf`).replaceAll("%h", OWNER),
    );
    // The first, empty one takes back the unit's.
    const [none, start = "", ...more] = unit.get("ExecStart") ?? [];
    assert.deepEqual([none, more], ["", []]);
    const [program, ...rest] = start.split(/\s+/);
    const { etc } = KINDS[kind];
    assert.equal(program, deno);
    assert.deepEqual(rest, [
      ...["run", ...denoFlags(lock), `${app.replace("%h", OWNER)}/broker/main.ts`, "serve"],
      ...["--config", `${etc.replace("%h", OWNER)}/brokerd.toml`],
    ]);
    // What Podman cannot run under, of what the unit sets.
    const { size } = unit;
    assert.ok(size > 10);
    for (const setting of ["NoNewPrivileges", "RestrictNamespaces", "PrivateNetwork"]) {
      assert.deepEqual(unit.get(setting), ["no"], setting);
    }
    assert.deepEqual(unit.get("SystemCallFilter"), [""]);
  });

  Deno.test(`${kind}/boxmaker-brokerd.service, at home elsewhere, serves and stops`, async () => {
    const root = Deno.makeTempDirSync();
    try {
      const { home, etc, app } = KINDS[kind];
      const move = (value: string) =>
        value.replaceAll("%h", OWNER)
          .replaceAll(home.replace("%h", OWNER), `${root}/home`)
          .replaceAll(etc.replace("%h", OWNER), `${root}/etc`)
          .replaceAll(app.replace("%h", OWNER), fileURLToPath(PROJECT).replace(/\/$/, ""));
      const unit = parseUnit(move(read(`docs/samples/systemd/${kind}/boxmaker-brokerd.service`)));
      const sample = read("docs/samples/brokerd.toml")
        .replaceAll(KINDS.system.home, `${root}/home`).replaceAll(KINDS.system.etc, `${root}/etc`);
      Deno.mkdirSync(`${root}/etc/grants`, { recursive: true });
      Deno.writeTextFileSync(`${root}/etc/brokerd.toml`, sample);
      const [, ...args] = words(unit, "ExecStart");
      const child = new Deno.Command(Deno.execPath(), { args, cwd: root, stderr: "piped" }).spawn();
      const said = await untilReady(child.stderr);
      const isSocket = (path: string) => Deno.lstatSync(`${root}/home/run/${path}`).isSocket;
      assert.match(said, /^brokerd: ready, serving /m);
      assert.ok(isSocket("loop-broker/broker.sock") && isSocket("owner-broker/admin.sock"));
      child.kill("SIGTERM");
      assert.equal((await child.status).code, 0);
    } finally {
      Deno.removeSync(root, { recursive: true });
    }
  });
}

/** How the model server would run tools of its own, past the broker. */
const TOOL_FLAGS = [
  ...["--tools", "--tools-runtime", "-ag", "--agent"],
  ...["--mcp-servers-config", "--mcp-servers-json", "--ui-mcp-proxy", "--webui-mcp-proxy"],
];
const TOOL_VARIABLES = [
  ...["LLAMA_ARG_TOOLS", "LLAMA_ARG_TOOLS_RUNTIME", "LLAMA_ARG_AGENT"],
  ...["LLAMA_ARG_MCP_SERVERS_CONFIG", "LLAMA_ARG_MCP_SERVERS_JSON"],
];

function startsTools(unit: Unit): boolean {
  const flags = words(unit, "ExecStart").map((word) => word.split("=")[0] ?? "");
  const kept = TOOL_VARIABLES.filter((name) => !words(unit, "UnsetEnvironment").includes(name));
  return kept.length > 0 || TOOL_FLAGS.some((flag) => flags.includes(flag));
}

for (const kind of UNIT_KINDS) {
  Deno.test(`${kind}/llama-server.service starts the model server without tools of its own`, () => {
    const unit = unitOf(kind, "llama-server");
    assert.match(words(unit, "ExecStart")[0] ?? "", /\/llama-server$/);
    assert.equal(startsTools(unit), false);
    for (const flag of TOOL_FLAGS) {
      const start = unit.get("ExecStart")?.map((value) => `${value} ${flag} all`) ?? [];
      assert.equal(startsTools(new Map([...unit, ["ExecStart", start]])), true, flag);
    }
    assert.equal(startsTools(new Map([...unit, ["UnsetEnvironment", []]])), true);
  });
}
