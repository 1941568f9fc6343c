/** The home that the scripts make, and the daemons that they start in it. */
import assert from "node:assert/strict";
import { readBrokerConfig } from "../../broker/config.ts";
import { readLoopConfig } from "../../loop/config.ts";
import { runCtl } from "../../scripts/support/ctl.ts";
import { Daemon, NotReady } from "../../scripts/support/daemon.ts";
import {
  checkSameHome,
  homeAt,
  loopConfigForRun,
  prepareHome,
} from "../../scripts/support/home.ts";
import { linesOf } from "../../scripts/support/lines.ts";
import { Stack } from "../../scripts/support/stack.ts";
import { snapshot } from "../support/broker.ts";
import { noneLeftWith, TempDir } from "../support/scripts.ts";

/** Every character that a path may have and TOML or a shell could take for something else. */
const ODD = 'my "home" it\'s \\ü #[x]=';

Deno.test("a new home has what both daemons read, three grants and a note; only its owner may enter", () => {
  using place = new TempDir();
  const path = `${place.path}/${ODD}`;
  const home = prepareHome(path);
  assert.equal(readBrokerConfig(home.brokerConfig, undefined).layout.home, path);
  const loop = readLoopConfig(home.loopConfig, undefined);
  assert.equal(loop.layout.home, path);
  assert.equal(loop.brokerSocket, readBrokerConfig(home.brokerConfig, undefined).brokerSocket);
  checkSameHome(home);
  const files = Object.keys(snapshot(path)).filter((file) => file.includes("."));
  assert.deepEqual(files.sort(), [
    "/brokerd.toml",
    "/bxctl.toml",
    "/grants/commands-run.toml",
    "/grants/drafts-write.toml",
    "/grants/notes-read.toml",
    "/loopd.toml",
    "/notes/a.md",
  ]);
  assert.equal((Deno.statSync(path).mode ?? 0) & 0o777, 0o700);
});

Deno.test("a home is named plainly, however it was typed", () => {
  using place = new TempDir();
  const home = prepareHome(`${place.path}//home/`);
  assert.deepEqual(home, homeAt(`${place.path}/home`));
  checkSameHome(home);
});

Deno.test("what is there stays, and a grant that was taken away does not come back", () => {
  using place = new TempDir();
  const home = prepareHome(place.path, ["notes-read"]);
  Deno.writeTextFileSync(home.brokerConfig, "# mine\n");
  Deno.writeTextFileSync(`${home.notes}/a.md`, "mine\n");
  Deno.removeSync(`${home.layout.grants}/notes-read.toml`);
  Deno.removeSync(home.drafts);
  const before = snapshot(place.path);
  prepareHome(place.path);
  assert.deepEqual(snapshot(place.path), before);
});

Deno.test("loopd's configuration for a run is the owner's with another address", () => {
  using place = new TempDir();
  const home = prepareHome(place.path);
  const own = Deno.readTextFileSync(home.loopConfig);
  Deno.writeTextFileSync(home.loopConfig, `${own}model = "m"\ntimeout_ms = 7\n`);
  const before = readLoopConfig(home.loopConfig, undefined);
  for (const url of ["http://127.0.0.1:81", "https://model.example.com:444"]) {
    const config = readLoopConfig(loopConfigForRun(home, url), undefined);
    const { configFile } = config;
    assert.deepEqual(config, { ...before, configFile, llama: { ...before.llama, url } });
  }
  assert.deepEqual(readLoopConfig(home.loopConfig, undefined), before);
  assert.throws(() => loopConfigForRun(home, "nonsense"), /nonsense is not http/);
  Deno.writeTextFileSync(home.loopConfig, "[llama]\nurl = \n");
  assert.throws(() => loopConfigForRun(home, "http://m:1"), /loopd\.toml:2: not valid TOML/);
});

Deno.test("the stack runs with the example grants, and brokerd finds nothing wrong with them", async () => {
  using place = new TempDir();
  const path = `${place.path}/${ODD}`;
  {
    await using stack = new Stack({ home: prepareHome(path), llama: null });
    await stack.start();
    assert.deepEqual(stack.daemons.map(({ name }) => name), ["brokerd", "standin", "loopd"]);
    const { code, stdout } = await runCtl(stack.places, "grants", "check");
    assert.deepEqual([code, stdout], [0, "grants: ok\n"]);
    Deno.writeTextFileSync(`${homeAt(path).layout.grants}/bad.toml`, "tool = 1\n");
    assert.equal((await runCtl(stack.places, "grants", "check")).code, 1);
    const log = Deno.readTextFileSync(`${homeAt(path).logs}/brokerd.log`);
    assert.match(log, /^brokerd: ready, serving /m);
  }
  await noneLeftWith(place.path);
});

/** A program that does what `source` says. */
function program(place: TempDir, source: string, more: { detached?: boolean } = {}): Daemon {
  const file = place.write("program.ts", source);
  return new Daemon({ name: "program", args: ["--allow-all", file], ...more });
}

Deno.test("a program that ends before it is ready is told of with its last words", async () => {
  using place = new TempDir();
  const ends =
    'console.error("program: a\\nprogram: no newline after this".trimEnd()); Deno.exit(3)';
  await using daemon = program(place, ends);
  await assert.rejects(daemon.ready(20_000), (error) => {
    assert(error instanceof NotReady);
    assert.deepEqual(error.lines, [
      "program has ended, with status 3; its last words:",
      "program: a",
      "program: no newline after this",
    ]);
    return true;
  });
});

Deno.test("one that never gets ready is told of once its time is up", async () => {
  using place = new TempDir();
  await using daemon = program(
    place,
    'console.error("program: not yet"); setInterval(() => {}, 9);',
  );
  await assert.rejects(daemon.ready(1000), /^Error: program was not ready within 1 s/);
});

Deno.test("stopping waits for a program that stops in its own time", async () => {
  using place = new TempDir();
  const stops = 'Deno.addSignalListener("SIGTERM", () => { console.error("program: bye"); ' +
    'Deno.exit(4); }); console.error("program: ready"); setInterval(() => {}, 9);';
  for (const detached of [false, true]) {
    await using daemon = program(place, stops, { detached });
    assert.equal(await daemon.ready(20_000), "program: ready");
    await daemon.stop();
    assert.equal((await daemon.ended).code, 4);
    assert.deepEqual(daemon.lines, ["program: ready", "program: bye"]);
  }
});

Deno.test("one that does not stop is killed", async () => {
  using place = new TempDir();
  const stays = 'Deno.addSignalListener("SIGTERM", () => {}); console.error("program: ready"); ' +
    "setInterval(() => {}, 9);";
  await using daemon = program(place, stays);
  await daemon.ready(20_000);
  await daemon.stop(200);
  assert.equal((await daemon.ended).signal, "SIGKILL");
});

Deno.test("lines come whole, whatever pieces they arrive in", async () => {
  const bytes = new TextEncoder().encode("ä\n\nb🥛\nlast");
  for (const size of [1, 2, 3, 100]) {
    const stream = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) {
          controller.enqueue(bytes.slice(at, at + size));
        }
        controller.close();
      },
    });
    assert.deepEqual(await Array.fromAsync(linesOf(stream)), ["ä", "", "b🥛", "last"]);
  }
});
