/** Each role holds itself against its row before it does anything (contracts 1, "Every role is started locked"). */
import assert from "node:assert/strict";
import { type Role, ROLES } from "../../proto/locks.ts";
import { forEach, PROJECT, snapshot } from "../support/broker.ts";
import { RolesHome } from "../support/roles.ts";

/** `flags` with the permission `name` for `more` as well. */
function widen(flags: readonly string[], name: string, more: string): string[] {
  const begins = `--allow-${name}=`;
  assert(flags.some((flag) => flag.startsWith(begins)));
  return flags.map((flag) => flag.startsWith(begins) ? `${flag},${more}` : flag);
}

/** `flags` without `name`, whatever its value. */
const without = (flags: readonly string[], name: string) =>
  flags.filter((flag) => flag !== name && !flag.startsWith(`${name}=`));

/** Flags with one permission too much, and what is said of it. */
type TooWide = Readonly<Record<string, readonly [flags: string[], words: string]>>;

function forAll(flags: readonly string[], { home }: RolesHome): TooWide {
  const unscoped = (name: string) => [...without(flags, name), name];
  const importing = without(flags, "--deny-import");
  return {
    "everything": [["-A"], "run programs"],
    "running programs": [[...flags, "--allow-run"], "run programs"],
    "native code": [[...flags, "--allow-ffi"], "load native code"],
    "system information": [[...flags, "--allow-sys"], "read system information"],
    "remote code": [importing, "import remote code"],
    "remote code of a host": [[...importing, "--allow-import=a.example"], "import remote code"],
    "the environment": [unscoped("--allow-env"), "read every environment variable"],
    "the network": [unscoped("--allow-net"), "connect to anywhere"],
    "reading anything": [unscoped("--allow-read"), "read anywhere"],
    "writing anything": [unscoped("--allow-write"), "write anywhere"],
    "reading the home": [widen(flags, "read", home), `read ${home}`],
    "writing the home": [widen(flags, "write", home), `write ${home}`],
  };
}

/** The places of the others. */
function ofRole(role: Role, flags: readonly string[], { layout, root }: RolesHome): TooWide {
  const read = (...paths: string[]): TooWide =>
    Object.fromEntries(paths.map((path) => [`reading ${path}`, [
      widen(flags, "read", path),
      `read ${path}`,
    ]]));
  const write = (...paths: string[]): TooWide =>
    Object.fromEntries(paths.map((path) => [`writing ${path}`, [
      widen(flags, "write", path),
      `write ${path}`,
    ]]));
  const connect = (...paths: string[]): TooWide =>
    Object.fromEntries(paths.map((path) => [`connecting to ${path}`, [
      widen(flags, "net", `unix:${path}`),
      `connect to unix:${path}`,
    ]]));
  switch (role) {
    case "brokerd":
      return {
        ...read(layout.loop, layout.memory),
        ...write(layout.grants, root),
        ...connect(layout.loopSocket),
      };
    case "loopd":
      return {
        ...read(layout.broker, layout.audit, layout.grants),
        ...write(layout.audit, layout.memory),
        ...connect(layout.adminSocket),
      };
    case "bxctl":
      return {
        ...read(layout.broker, layout.loop, layout.grants),
        ...write(layout.audit),
        ...connect(layout.brokerSocket),
      };
  }
}

const COMMANDS = {
  brokerd: ["serve"],
  loopd: ["serve"],
  bxctl: ["audit", "verify"],
} as const satisfies Record<Role, readonly string[]>;

for (const role of ROLES) {
  Deno.test(`${role} does not start with one permission too much, and says which`, async () => {
    using home = new RolesHome();
    const flags = home.flags(role);
    const before = snapshot(home.root);
    await forEach(
      { ...forAll(flags, home), ...ofRole(role, flags, home) },
      async ([widened, words]) => {
        const { code, stdout, stderr } = await home.run(role, COMMANDS[role], widened);
        assert.equal(code, 1, stderr);
        assert.equal(stdout, "");
        assert(stderr.includes(`${role}: this process may ${words}, which it must not\n`), stderr);
        assert(stderr.endsWith(`${role}: see docs/runbook.md#permissions-too-wide\n`), stderr);
        assert.deepEqual(snapshot(home.root), before);
      },
    );
  });
}

Deno.test("with exactly its row each gets past its lock", async () => {
  // brokerd's start stands in process_test.ts. Nobody listens where loopd looks for its model.
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  listener.close();
  using home = new RolesHome(`127.0.0.1:${listener.addr.port}`);
  const loopd = await home.run("loopd", COMMANDS.loopd);
  assert(loopd.stderr.endsWith("see docs/runbook.md#loopd-selftest-failed\n"), loopd.stderr);
  Deno.mkdirSync(home.layout.audit, { recursive: true });
  const { code, stdout } = await home.run("bxctl", COMMANDS.bxctl);
  assert.equal(code, 0);
  assert(stdout.startsWith("audit: ok, 0 records, head -\n"), stdout);
});

Deno.test("a permission for one program, library or fact does not show, and is given up instead", () => {
  using home = new RolesHome();
  const script = `${home.root}/script.ts`;
  Deno.writeTextFileSync(
    script,
    `import { giveUpUnseen } from "${new URL("proto/io/start.ts", PROJECT)}";
    const held = () => [
      Deno.permissions.querySync({ name: "run", command: "true" }),
      Deno.permissions.querySync({ name: "ffi", path: "/lib/a.so" }),
      Deno.permissions.querySync({ name: "sys", kind: "hostname" }),
    ].map(({ state }) => state);
    const before = held();
    const unseen = Deno.permissions.querySync({ name: "run" }).state;
    giveUpUnseen(JSON.parse(Deno.args[0]));
    console.log(JSON.stringify({ before, unseen, after: held() }));`,
  );
  const heldBy = (run: readonly string[], sys?: readonly string[]) => {
    const { stdout } = new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--no-prompt", "--cached-only"],
        ...["--allow-run=true", "--allow-ffi=/lib/a.so", "--allow-sys=hostname"],
        ...[script, JSON.stringify({ run, sys })],
      ],
      cwd: PROJECT,
    }).outputSync();
    return JSON.parse(new TextDecoder().decode(stdout));
  };
  const before = ["granted", "granted", "granted"];
  assert.deepEqual(heldBy([]), {
    before,
    unseen: "prompt",
    after: ["prompt", "prompt", "prompt"],
  });
  // brokerd goes on running what its row names.
  assert.deepEqual(heldBy(["true"]), {
    before,
    unseen: "prompt",
    after: ["granted", "prompt", "prompt"],
  });
  // And bxctl doctor goes on asking for its facts.
  assert.deepEqual(heldBy([], ["uid"]), {
    before,
    unseen: "prompt",
    after: ["prompt", "prompt", "granted"],
  });
});
