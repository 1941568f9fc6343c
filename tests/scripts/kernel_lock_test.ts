/** The kernel's part of the locks: what the launchers start can make no symbolic link. */
import assert from "node:assert/strict";
import { ROOT, TempDir } from "../support/scripts.ts";
import { startBroker, TempHome, until } from "../support/broker.ts";
import { World } from "../support/probe/world.ts";

const KERNEL_LOCK = `${ROOT}/scripts/support/kernel_lock.ts`;

/** Runs the program `args`, started by another that was put under the filter first where `filtered`. */
async function run(
  filtered: boolean,
  ...args: string[]
): Promise<{ code: number; output: string }> {
  const source = `import { forbidLinks } from ${JSON.stringify(KERNEL_LOCK)};
    if (${filtered}) forbidLinks("test");
    const [program = "", ...args] = Deno.args;
    const { code } = await new Deno.Command(program, { args }).spawn().status;
    Deno.exit(code);`;
  using place = new TempDir();
  const main = place.write("main.ts", source);
  const config = ["--config", `${ROOT}/deno.json`, "--no-lock", "--cached-only"];
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--no-check", "-A", ...config, main, ...args],
    cwd: ROOT,
  }).output();
  const decoder = new TextDecoder();
  return { code, output: decoder.decode(stdout) + decoder.decode(stderr) };
}

Deno.test("under the filter a program makes no symbolic link, and everything else", async () => {
  using place = new TempDir();
  const file = place.write("file", "");
  const link = ["ln", "-s", file, `${place.path}/link`];
  const refused = await run(true, ...link);
  assert.equal(refused.code, 1);
  assert.match(refused.output, /Operation not permitted/);
  assert.deepEqual(await run(true, "ln", file, `${place.path}/hard`), { code: 0, output: "" });
  assert.deepEqual(await run(false, ...link), { code: 0, output: "" });
});

Deno.test("under the filter node:wasi leads nobody out of a directory of its own", async () => {
  await using world = await World.start();
  const { layout } = world.home;
  const own = layout.loopSessions;
  const doors = JSON.stringify([
    { name: "link", act: "linkByWasi", target: `${layout.audit} ${own}/audit`, own },
    { name: "write", act: "fill", target: "", own },
  ]);
  const probe = [Deno.execPath(), "run", "--quiet", "--no-check", ...world.home.flags("loopd")];
  const main = [`${ROOT}/tests/support/probe.ts`, doors];
  const closed = JSON.parse((await run(true, ...probe, ...main)).output);
  assert.equal(closed.write, "open");
  assert.match(closed.link, /^failed: .*path_symlink gave/);
  const open = JSON.parse((await run(false, ...probe, ...main)).output);
  assert.deepEqual(open, { link: "open", write: "open" });
});

/** How many filters of the kernel `pid` is under; this test may be under some itself. */
function filtersOf(pid: number): number {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  return Number(/^Seccomp_filters:\s*(\d+)$/m.exec(status)?.[1]);
}

/** The child of `pid`. */
function childOf(pid: number): number | null {
  const children = Deno.readTextFileSync(`/proc/${pid}/task/${pid}/children`).trim();
  return children === "" ? null : Number(children.split(" ")[0]);
}

Deno.test("deno task broker puts brokerd under the filter", async () => {
  using home = new TempHome();
  const launcher = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--quiet", "-A", `${ROOT}/scripts/launch.ts`, "broker", "serve"],
      ...["--config", home.configFile],
    ],
    cwd: ROOT,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    const socket = home.layout.adminSocket;
    await until("brokerd", () => Deno.lstat(socket).then(() => true, () => false));
    const broker = childOf(launcher.pid);
    assert(broker !== null);
    assert.equal(filtersOf(broker), filtersOf(Deno.pid) + 1);
  } finally {
    launcher.kill("SIGTERM");
    await launcher.status;
  }
  // Started by hand it has only the runtime's locks.
  await using broker = await startBroker(home);
  assert.equal(filtersOf(broker.pid), filtersOf(Deno.pid));
});
