/** Stopping a turn: what ends, what goes on, what the log has, and what the next turn tells the model. */
import assert from "node:assert/strict";
import type { Message } from "../../proto/messages.ts";
import { frame, RawClient, within } from "../support/broker.ts";
import { Gate } from "../support/daemons.ts";
import { asking, calling, chunk, FakeLlama, Held, saying, START } from "../support/llama.ts";
import { asksOwner, logged, Loop, LoopHome, ToolBroker, toolResult } from "../support/loop.ts";

const READ = calling("read_file", { path: "/n/a" });
const STOPPED = { type: "failed", message: "stopped by the owner" } as const;

/** Sends `stop` for `session`, and gives the answer. */
async function stop({ layout }: LoopHome, session: string): Promise<Message> {
  using client = await RawClient.connect(layout.loopSocket);
  await client.send(frame("stop", { session }));
  const answer = await within("answer to stop", client.next());
  assert(answer !== null);
  assert.equal(await client.next(), null, "then loopd closes");
  return answer;
}

const OK: Message = { kind: "ok", final: true, body: {} };

/** What the model was last sent, without the system prompt. */
function sent(llama: FakeLlama): string[] {
  return llama.messages().slice(1).map(({ role, content }) => `${role}: ${content}`);
}

Deno.test("a stop while the model speaks ends the request, keeps what was said, and the session goes on", async () => {
  const held = new Held();
  await using llama = new FakeLlama(() => held.response, saying("again"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  using turn = await loop.open("s1", "one");
  await held.send(START + chunk({ reasoning_content: "Hm." }) + chunk({ content: "half" }));
  await turn.until("text");
  assert.deepEqual(await stop(home, "s1"), OK);
  await within("end of the request", held.cancelled);
  assert.deepEqual(await turn.rest(), [STOPPED]);
  const { outcome, message } = home.entries("s1").at(-1) ?? {};
  assert.deepEqual({ outcome, message }, { outcome: "interrupted", message: STOPPED.message });
  // At once: whoever has the answer to a stop finds the session free.
  assert.equal((await loop.chat("s1", "two")).at(-1)?.type, "done");
  assert.deepEqual(sent(llama), ["user: one", "assistant: half", "user: two"]);
  assert.equal(loop.said.join("\n"), "", "that is nothing to tell the operator");
});

Deno.test("a stop before the model's first word ends the request too", async () => {
  const held = new Held();
  const asked = new Gate();
  const holding = () => {
    asked.open();
    return held.response;
  };
  await using llama = new FakeLlama(holding, saying("again"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  using turn = await loop.open("s1", "one");
  await within("request", asked.opened);
  assert.deepEqual(await stop(home, "s1"), OK);
  await within("end of the request", held.cancelled);
  assert.deepEqual(await turn.rest(), [{ type: "session", session: "s1" }, STOPPED]);
  assert.equal((await loop.chat("s1", "two")).at(-1)?.type, "done");
  assert.match(sent(llama)[1] ?? "", /^assistant: \(The turn ended/);
});

Deno.test("a stop while a call is with brokerd hangs up; the call's result is unknown, and later calls were not made", async () => {
  const dropped = new Gate();
  const answered = new Gate();
  await using llama = new FakeLlama(
    asking(
      ["clock", {}],
      ["call_tool", { tool: "read_file", arguments: { path: "/n/a" } }],
      ["call_tool", { tool: "shell", arguments: { command: "ls" } }],
    ),
    saying("again"),
    saying("and again"),
  );
  using home = new LoopHome(llama.url);
  using broker = new ToolBroker(home, async (_, { whenGone }) => {
    answered.open();
    await whenGone();
    dropped.open();
    return toolResult("too late");
  });
  await using loop = await Loop.start(home);
  using turn = await loop.open("s1", "one");
  await within("call", answered.opened);
  assert.deepEqual(await stop(home, "s1"), OK);
  await within("hang-up", dropped.opened);
  const events = await turn.rest();
  assert.deepEqual(events.at(-1), STOPPED);
  assert.deepEqual(
    events.flatMap((event) => event.type === "tool_call" ? [event.tool] : []),
    ["clock", "read_file"],
  );
  assert.equal((await loop.chat("s1", "two")).at(-1)?.type, "done");
  const [, , ...rest] = sent(llama);
  assert.match(rest[0] ?? "", /^tool: \d{4}-/);
  assert.match(rest[1] ?? "", /^tool: Unknown: the turn was interrupted before the result/);
  assert.equal(rest[2], "tool: not called: the owner stopped the turn");
  assert.deepEqual(rest.slice(-2), [
    "assistant: (The turn ended before I gave an answer.)",
    "user: two",
  ]);
  assert.equal(broker.requests.length, 1);
  // Every call has one result for the model, in a log that can be read again.
  assert.equal((await loop.chat("s1", "three")).at(-1)?.type, "done");
  assert.equal(loop.said.join("\n"), "");
});

Deno.test("a stop while a call waits for the owner takes the call back", async () => {
  const dropped = new Gate();
  await using llama = new FakeLlama(READ, saying("again"));
  using home = new LoopHome(llama.url);
  using _broker = new ToolBroker(home, asksOwner(dropped));
  await using loop = await Loop.start(home);
  using turn = await loop.open("s1", "one");
  await turn.until("approval_pending");
  assert.deepEqual(await stop(home, "s1"), OK);
  await within("end of the call", dropped.opened);
  assert.deepEqual(await turn.rest(), [STOPPED]);
  assert.equal((await loop.chat("s1", "two")).at(-1)?.type, "done");
  assert.match(sent(llama)[2] ?? "", /^tool: Unknown: the turn was interrupted/);
});

Deno.test("a stop stops its own session only, and one for a session without a turn does nothing", async () => {
  const held = new Held();
  await using llama = new FakeLlama(() => held.response, saying("later"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  using turn = await loop.open("s1", "one");
  await held.send(START + chunk({ content: "a" }));
  await turn.until("text");
  assert.deepEqual(await stop(home, "s2"), OK);
  assert.deepEqual(await stop(home, "never-there"), OK);
  await held.send(chunk({ content: "b" }) + chunk({}, "stop"));
  await held.end();
  assert.deepEqual(await turn.rest(), [{ type: "text", text: "b" }, { type: "done" }]);
  assert.deepEqual(await stop(home, "s1"), OK, "after its end");
  assert.equal((await loop.chat("s1", "two")).at(-1)?.type, "done");
});

Deno.test("a second stop, and a client that hangs up after its stop, change nothing", async () => {
  const held = new Held();
  await using llama = new FakeLlama(() => held.response, saying("again"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  {
    using turn = await loop.open("s1", "one");
    await held.send(START + chunk({ content: "half" }));
    await turn.until("text");
    assert.deepEqual(await Promise.all([stop(home, "s1"), stop(home, "s1")]), [OK, OK]);
  }
  await logged(home, "s1", "end");
  assert.equal(home.entries("s1").filter(({ type }) => type === "end").length, 1);
  assert.equal((await loop.chat("s1", "two")).at(-1)?.type, "done");
});
