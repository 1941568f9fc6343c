/** The start of loopd: what it refuses, and that a refused start leaves the others alone. */
import assert from "node:assert/strict";
import { readLoopConfig } from "../../loop/config.ts";
import { makeNotices } from "../../loop/notices.ts";
import { start } from "../../loop/serve.ts";
import { namesOf } from "../support/broker.ts";
import { FakeLlama, saying } from "../support/llama.ts";
import { Loop, LoopHome } from "../support/loop.ts";

/** A start that is to be refused. */
async function refused(home: LoopHome) {
  const said: string[] = [];
  const notices = makeNotices((...lines) => said.push(...lines));
  const started = await start(readLoopConfig(home.configFile, undefined), notices);
  if (started.status === "running") await started.stop();
  return { ...started, said };
}

const runDirectory = ({ home }: LoopHome) => `${home}/run/owner-loop`;

Deno.test("a loopd of the same home, or on the same socket, is not started twice", async () => {
  await using llama = new FakeLlama(saying("a"), saying("b"));
  using home = new LoopHome(llama.url);
  using other = new LoopHome(llama.url);
  const onSocket = (path: string, at = other.home) =>
    Deno.writeTextFileSync(
      other.configFile,
      `[paths]\nhome = "${at}"\n[sockets]\nloop = "${path}"\n[llama]\nurl = "${llama.url}"\n`,
    );
  await using loop = await Loop.start(home);
  assert.equal((await refused(home)).status, "already_running");
  onSocket(home.layout.loopSocket);
  assert.equal((await refused(other)).status, "already_running");
  onSocket(other.layout.loopSocket, home.home);
  assert.equal((await refused(other)).status, "already_running");
  assert.equal((await loop.chat("s1", "x")).at(-1)?.type, "done");
  onSocket(other.layout.loopSocket);
  await using second = await Loop.start(other);
  assert.equal((await second.chat("s1", "x")).at(-1)?.type, "done");
});

Deno.test("a socket that a crash left behind is replaced", async () => {
  await using llama = new FakeLlama(saying("a"));
  using home = new LoopHome(llama.url);
  Deno.mkdirSync(runDirectory(home), { recursive: true, mode: 0o700 });
  const path = home.layout.loopSocket;
  const crash = `Deno.listen({ transport: "unix", path: ${JSON.stringify(path)} });
    Deno.kill(Deno.pid, "SIGKILL");`;
  new Deno.Command(Deno.execPath(), { args: ["eval", crash] }).outputSync();
  assert(Deno.lstatSync(path).isSocket);
  await using loop = await Loop.start(home);
  assert.equal((await loop.chat("s1", "x")).at(-1)?.type, "done");
});

Deno.test("a wide directory, or anything but a socket in its place, stops the start, untouched", async () => {
  await using llama = new FakeLlama();
  const cases: Readonly<Record<string, readonly [(home: LoopHome) => void, RegExp]>> = {
    "a wide directory": [
      (home) => Deno.chmodSync(runDirectory(home), 0o750),
      /owner-loop has mode 0750, wider than 0700$/,
    ],
    "a file": [
      ({ layout }) => Deno.writeTextFileSync(layout.loopSocket, "x"),
      /loop\.sock exists and is not a socket$/,
    ],
    "a link": [
      ({ layout }) => Deno.symlinkSync("/nowhere", layout.loopSocket),
      /loop\.sock exists and is not a socket$/,
    ],
  };
  for (const [name, [spoil, words]] of Object.entries(cases)) {
    using home = new LoopHome(llama.url);
    Deno.mkdirSync(runDirectory(home), { recursive: true, mode: 0o700 });
    spoil(home);
    const before = namesOf(runDirectory(home));
    const problem = await refused(home);
    assert(problem.status === "socket_place", name);
    assert.match(problem.problem, words);
    assert.deepEqual(namesOf(runDirectory(home)), before);
  }
  assert.deepEqual(llama.asked, [], "the model server is not even asked");
});

Deno.test("a self-test that fails stops the start before the socket is there", async () => {
  await using llama = new FakeLlama();
  using home = new LoopHome(llama.url, { llama: "timeout_ms = 300\n" });
  const problem = async () => {
    const { status, said } = await refused(home);
    assert.throws(() => namesOf(runDirectory(home)), Deno.errors.NotFound);
    return [status, ...said];
  };
  llama.health = () => new Response(null, { status: 500 });
  assert.deepEqual(await problem(), ["selftest_failed"]);
  llama.health = () => new Response(null, { status: 503 });
  assert.deepEqual(await problem(), [
    "selftest_failed",
    "the model server is still loading its model; waiting for at most 1 s",
    "see docs/runbook.md#loopd-selftest-failed",
  ]);
  llama.health = () => Response.json({ status: "ok" });
  llama.tools = () => Response.json([{ tool: "read_file" }]);
  assert.deepEqual(await problem(), ["runs_tools"]);
  llama.tools = () => Response.json([]);
  await using _loop = await Loop.start(home);
});
