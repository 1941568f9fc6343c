/** How one call's egress proxy starts and ends (specification 13). */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { startEgress } from "../../broker/egress/child.ts";
import { egressFlags } from "../../broker/egress/settings.ts";
import { fromUtf8, utf8 } from "../../proto/text.ts";
import { until, within } from "../support/broker.ts";
import { EgressWorld, GREETING, inWorld, request, take, takeAll } from "../support/egress.ts";
import { ECHO } from "../support/egress_world.ts";

const inEchoWorld = (...[name, fn]: Parameters<typeof inWorld>) =>
  inWorld(name, fn, { "page.example": ECHO });

const file = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** A process with piped input whose first line of output is `first`. */
async function started(
  deno: string,
  args: readonly string[],
  first: string,
): Promise<Deno.ChildProcess> {
  const child = new Deno.Command(deno, {
    args: ["run", "--quiet", "--no-check", ...args],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = child.stdout.getReader();
  const { value } = await within("first line", reader.read());
  assert.equal(fromUtf8(value ?? new Uint8Array()), `${first}\n`);
  reader.releaseLock();
  return child;
}

/** The proxy's own process, with its input in the test's hands. */
async function bareProxy(world: EgressWorld, socket: string): Promise<Deno.ChildProcess> {
  const settings = world.settings({ socket });
  const main = file("../../broker/egress/main.ts");
  const args = [...egressFlags(settings), main, JSON.stringify(settings)];
  return await started(world.deno, args, '{"event":"ready"}');
}

async function rest(child: Deno.ChildProcess): Promise<string> {
  let text = "";
  for await (const bytes of child.stdout) text += fromUtf8(bytes);
  return text;
}

inEchoWorld("its socket is for the container's user too", async (world) => {
  const proxy = await world.proxy();
  assert.equal((Deno.lstatSync(proxy.socket).mode ?? 0) & 0o777, 0o666);
});

inEchoWorld("it ends when its input does, with a connection open", async (world) => {
  const socket = `${world.directory}/a.sock`;
  const child = await bareProxy(world, socket);
  using conn = await Deno.connect({ transport: "unix", path: socket });
  const writer = child.stdin.getWriter();
  await writer.write(utf8("anything said to it does not matter"));
  await conn.write(GREETING);
  assert.equal((await take(conn, 2)).length, 2);
  await writer.close();
  assert.equal((await within("end", child.status)).code, 0);
  assert.equal(await rest(child), "");
});

inEchoWorld("it ends on SIGTERM", async (world) => {
  const child = await bareProxy(world, `${world.directory}/b.sock`);
  child.kill("SIGTERM");
  assert.equal((await within("end", child.status)).signal, "SIGTERM");
  assert.equal(await rest(child), "");
  await child.stdin.close().catch(() => {});
});

/** A process that may only run Deno, and runs a proxy. */
async function owner(world: EgressWorld, socket: string): Promise<Deno.ChildProcess> {
  const settings = JSON.stringify(world.settings({ socket }));
  const deno = Deno.execPath();
  const args = ["--no-prompt", `--allow-run=${deno}`, file("../support/egress_owner.ts")];
  return await started(deno, [...args, deno, settings], "ready");
}

inEchoWorld("it dies with its brokerd, however that dies", async (world) => {
  const socket = `${world.directory}/c.sock`;
  const brokerd = await owner(world, socket);
  using conn = await Deno.connect({ transport: "unix", path: socket });
  await conn.write(GREETING);
  assert.equal((await take(conn, 2)).length, 2);
  brokerd.kill("SIGKILL");
  await brokerd.status;
  assert.equal(await takeAll(conn), "");
  await until(
    "end of listening",
    () =>
      Deno.connect({ transport: "unix", path: socket }).then((each) => each.close(), () => true)
        .then((gone) => gone === true),
  );
  assert.equal(await rest(brokerd), "");
  await brokerd.stdin.close().catch(() => {});
});

inEchoWorld(
  "a process that may run Deno and nothing else can start it and stop it",
  async (world) => {
    const socket = `${world.directory}/d.sock`;
    const brokerd = await owner(world, socket);
    using conn = await Deno.connect({ transport: "unix", path: socket });
    await conn.write(new Uint8Array([...GREETING, ...request("evil.example")]));
    assert.equal((await take(conn, 12))[3], 2);
    await brokerd.stdin.close();
    const reasons = ["evil.example is not a host of the grant"];
    assert.deepEqual(JSON.parse(await rest(brokerd)), { count: 1, reasons });
    assert.equal((await brokerd.status).code, 0);
    await assert.rejects(Deno.connect({ transport: "unix", path: socket }));
  },
);

inEchoWorld(
  "stopping it ends every connection, and stopping it again does nothing",
  async (world) => {
    const proxy = await world.proxy();
    using conn = await proxy.open("page.example");
    await proxy.child.stop();
    assert.equal(await takeAll(conn), "");
    await proxy.child.stop();
    await assert.rejects(proxy.connect());
  },
);

inEchoWorld("a proxy that cannot start says why", async (world) => {
  const settings = world.settings();
  Deno.writeTextFileSync(settings.socket, "");
  const taken = startEgress(world.deno, settings);
  await assert.rejects(
    within("end", taken.ready),
    /^Error: the egress proxy ended before it was ready: egress: the socket .* cannot be made: Address/,
  );
  await taken.stop();
  const lost = startEgress(
    world.deno,
    world.settings({ socket: `${world.directory}/none/e.sock` }),
  );
  await assert.rejects(within("end", lost.ready), /cannot be made: No such file/);
  await lost.stop();
  const stopped = startEgress(world.deno, world.settings());
  await stopped.stop();
  await assert.rejects(stopped.ready, /ended before it was ready/);
  assert.throws(() => startEgress("/nowhere/deno", world.settings()), /entity not found|No such/);
  assert.throws(() => startEgress(world.deno, world.settings({ hosts: [] })), /no host/);
});

/** A program at the place of the runtime, as a script. */
function script(world: EgressWorld, lines: string): string {
  const path = `${world.directory}/script`;
  Deno.writeTextFileSync(path, `#!/bin/sh\n${lines}\n`, { mode: 0o700 });
  return path;
}

inEchoWorld("it inherits nothing", async (world) => {
  const child = startEgress(script(world, "/bin/cat /proc/$$/environ >&2"), world.settings());
  const words = "before it was ready: DENO_NO_UPDATE_CHECK=1\\u0000NO_COLOR=1\\u0000";
  await assert.rejects(child.ready, (error: Error) => error.message.endsWith(words));
  await child.stop();
});

inEchoWorld("what is no event is no event, and a line without end is the end", async (world) => {
  const lines = ["no event", '{"event":"ready"}', "[]", '{"event":"refused","why":"x"}'];
  const printing = `printf '${lines.join("\\n")}\\n'`;
  const talker = startEgress(script(world, printing), world.settings());
  await within("ready", talker.ready);
  await talker.stop();
  assert.deepEqual(talker.refused(), { count: 1, reasons: ["x"] });
  const endless = "/usr/bin/head -c 100000 /dev/zero; exec /bin/sleep 1000";
  const fake = startEgress(script(world, endless), world.settings());
  await assert.rejects(within("end", fake.ready), /ended before it was ready/);
  await fake.stop();
});
