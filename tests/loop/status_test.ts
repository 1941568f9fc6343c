/** What loopd says of itself: the model server as it is now, asked once for all, and what is running. */
import assert from "node:assert/strict";
import { ModelServer } from "../../loop/llama.ts";
import { makeNotices } from "../../loop/notices.ts";
import { LoopStatuses } from "../../loop/status.ts";
import type { Body } from "../../proto/messages.ts";
import { ask, until } from "../support/broker.ts";
import { FakeLlama, Held } from "../support/llama.ts";
import { Loop, LoopHome, ToolBroker } from "../support/loop.ts";

async function statusOf(home: LoopHome): Promise<Body<"loop_status">> {
  const [answer, ...more] = await ask(home.layout.loopSocket, "status", {});
  assert(answer?.kind === "loop_status" && answer.final);
  assert.deepEqual(more, []);
  return answer.body;
}

Deno.test("the turns that run are counted, and the broker is looked for", async () => {
  const held = new Held();
  await using llama = new FakeLlama(() => held.response);
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  const before = await statusOf(home);
  assert.deepEqual([before.turns, before.broker], [0, "unreachable"]);
  assert.deepEqual(before.model, { url: llama.url, state: "ok", problem: null });
  using _broker = new ToolBroker(home);
  using turn = await loop.open("s1", "hello");
  await until("the request", () => llama.requests.length === 1);
  const during = await statusOf(home);
  assert.deepEqual([during.turns, during.broker], [1, "listening"]);
  await held.end();
  await turn.rest();
  await until("the end of the turn", async () => (await statusOf(home)).turns === 0);
});

Deno.test("without a broker in its configuration loopd says so", async () => {
  await using llama = new FakeLlama();
  using home = new LoopHome(llama.url, { broker: false });
  await using _loop = await Loop.start(home);
  assert.equal((await statusOf(home)).broker, "none");
});

Deno.test("all who ask at the same time wait for one question to the model server", async () => {
  await using llama = new FakeLlama();
  const statuses = new LoopStatuses({
    model: new ModelServer({ url: llama.url, model: null, timeoutMs: 20_000, maxToolCalls: 1 }),
    ...{ url: llama.url, brokerSocket: null, turns: () => 3, notices: makeNotices(() => {}) },
    lock: () => ({ too_wide: [], missing: [] }),
    since: "2026-12-01T10:00:00.000Z",
  });
  const all = await Promise.all(Array.from({ length: 5 }, () => statuses.now()));
  assert.deepEqual(llama.asked, ["GET /health", "GET /tools"]);
  for (const status of all) assert.deepEqual(status, all[0]);
  // The next one asks anew.
  llama.health = () => new Response("", { status: 503 });
  assert.equal((await statuses.now()).model.state, "loading");
  assert.deepEqual(llama.asked.length, 3);
});

Deno.test("words of the model server are cut in a status", async () => {
  await using llama = new FakeLlama();
  using home = new LoopHome(llama.url);
  await using _loop = await Loop.start(home);
  llama.tools = () => Response.json(Array.from({ length: 500 }, () => ({ name: "\x1b[2J tool" })));
  const { model } = await statusOf(home);
  assert.equal(model.state, "runs_tools");
  assert.ok((model.problem?.length ?? 0) <= 1001);
  assert.equal((await statusOf(home)).troubles.length, 0);
});
