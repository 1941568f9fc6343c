/** The turn loop in a loopd of this process: real sockets, a scripted model, a scripted brokerd. */
import assert from "node:assert/strict";
import { ModelServer } from "../../loop/llama.ts";
import { SessionLog } from "../../loop/session_log.ts";
import { Turn } from "../../loop/turn.ts";
import { DENIALS } from "../../loop/denials.ts";
import { DENY_REASONS } from "../../proto/decisions.ts";
import { MAX_ANSWER_BYTES } from "../../proto/frames.ts";
import type { TurnEvent } from "../../proto/messages.ts";
import { within } from "../support/broker.ts";
import { Gate } from "../support/daemons.ts";
import {
  asking,
  calling,
  chunk,
  ending,
  FakeLlama,
  saying,
  START,
  streaming,
} from "../support/llama.ts";
import { Loop, LoopHome, ofType, textOf, ToolBroker, toolResult } from "../support/loop.ts";

const READ = calling("read_file", { path: "/n/a" });
const FINISHED: TurnEvent = { type: "done" };

/** The content of the last tool message that the model was sent. */
function toldModel(llama: FakeLlama): string {
  const last = llama.messages().at(-1);
  assert(last?.role === "tool", JSON.stringify(last));
  return last.content;
}

Deno.test("an answer streams as reasoning and text between session and done", async () => {
  const answer = START + chunk({ reasoning_content: "Hm." }) + chunk({ content: "Yes. 🥛" }) +
    ending("stop");
  await using llama = new FakeLlama(answer);
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  const events = await loop.chat("s1", "Milk?");
  assert.deepEqual(events, [
    { type: "session", session: "s1" },
    { type: "reasoning", text: "Hm." },
    { type: "text", text: "Yes. 🥛" },
    { type: "done" },
  ]);
  const [system, user, ...more] = llama.messages();
  assert.equal(system?.role, "system");
  assert.deepEqual(user, { role: "user", content: "Milk?" });
  assert.deepEqual(more, []);
});

Deno.test("core tools are answered by loopd, and the turn goes on to the answer", async () => {
  await using llama = new FakeLlama(
    asking(["clock", {}], ["find_tool", { query: "https" }], ["python", { code: "1" }]),
    saying("It is late."),
  );
  using home = new LoopHome(llama.url);
  using broker = new ToolBroker(home);
  await using loop = await Loop.start(home);
  const before = Date.now();
  const events = await loop.chat("s1", "Time?");
  assert.deepEqual(events.map(({ type }) => type), [
    "session",
    ...["tool_call", "tool_result", "tool_call", "tool_result", "tool_call", "tool_result"],
    "text",
    "done",
  ]);
  const [clock, find, python] = ofType(events, "tool_result");
  assert(clock && find && python);
  assert(Date.parse(clock.content) >= before && Date.parse(clock.content) <= Date.now());
  assert.equal(clock.call, "call00001");
  assert(find.content.includes('"name":"http_fetch"'));
  assert.equal(python.status, "failed");
  assert.deepEqual(ofType(events, "tool_call").at(-1), {
    type: "tool_call",
    call: "call00003",
    tool: "python",
    arguments: '{"code":"1"}',
  });
  const [, , assistant, ...results] = llama.messages();
  assert(assistant?.role === "assistant");
  assert.deepEqual(assistant.tool_calls?.map(({ id }) => id), [
    "call00001",
    "call00002",
    "call00003",
  ]);
  assert.deepEqual(results.map(({ content }) => content), [
    clock.content,
    find.content,
    python.content,
  ]);
  assert.deepEqual(broker.requests, []);
});

Deno.test("call_tool goes to the broker with our id, and its result to the model and the owner", async () => {
  await using llama = new FakeLlama(READ, READ, saying("Milk."));
  using home = new LoopHome(llama.url);
  using broker = new ToolBroker(home, toolResult("milk"), toolResult("bread"));
  await using loop = await Loop.start(home);
  const events = await loop.chat("s1", "Notes?");
  const args = '{"path":"/n/a"}';
  assert.deepEqual(broker.requests, [
    { session: "s1", call: "call00001", tool: "read_file", arguments: args },
    { session: "s1", call: "call00002", tool: "read_file", arguments: args },
  ]);
  assert.deepEqual(events.slice(1, 3), [
    { type: "tool_call", call: "call00001", tool: "read_file", arguments: args },
    {
      type: "tool_result",
      call: "call00001",
      tool: "read_file",
      status: "result",
      content: "milk",
    },
  ]);
  assert.equal(toldModel(llama), "bread");
  assert.deepEqual(events.at(-1), FINISHED);
});

Deno.test("every denial is told to the model in its words and the turn goes on; an allowed call is not", async () => {
  await using llama = new FakeLlama();
  using home = new LoopHome(llama.url);
  using broker = new ToolBroker(home);
  await using loop = await Loop.start(home);
  for (const reason of DENY_REASONS) {
    llama.replies.push(READ, saying("I may not."));
    broker.scripts.push({ status: "denied", reason });
    const events = await loop.chat(null, "Read it.");
    const [result] = ofType(events, "tool_result");
    assert.equal(result?.status, "denied");
    assert.equal(result?.content, DENIALS[reason]);
    assert.equal(toldModel(llama), DENIALS[reason]);
    assert.equal(textOf(events), "I may not.");
    assert.deepEqual(events.at(-1), FINISHED);
  }
  llama.replies.push(READ, saying("Milk."));
  broker.scripts.push(toolResult("milk"));
  const [result] = ofType(await loop.chat(null, "Read it."), "tool_result");
  assert.equal(result?.status, "result");
  assert.equal(toldModel(llama), "milk");
});

Deno.test("a call that waits for the owner is told of while it waits", async () => {
  await using llama = new FakeLlama(READ, saying("Milk."));
  using home = new LoopHome(llama.url);
  const approved = new Gate();
  const expires = new Date(Date.now() + 900_000).toISOString();
  using broker = new ToolBroker(home, async (_, { send }) => {
    const body = { status: "pending_approval", approval: 41, expires } as const;
    await send({ kind: "tool_response", final: false, body });
    await approved.opened;
    return toolResult("milk");
  });
  await using loop = await Loop.start(home);
  using turn = await loop.open("s1", "Read it.");
  await turn.until("tool_call");
  assert.deepEqual(await turn.next(), {
    type: "approval_pending",
    approval: 41,
    tool: "read_file",
    expires,
  });
  approved.open();
  assert.equal((await turn.until("tool_result")).content, "milk");
  assert.deepEqual((await turn.rest()).at(-1), FINISHED);
  assert.equal(broker.requests.length, 1);
});

Deno.test("what the broker failed at is told to the model, and so is a broker that is not there", async () => {
  await using llama = new FakeLlama(READ, saying("a"), READ, saying("b"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  {
    using broker = new ToolBroker(home, { status: "failed", message: "the runner is away" });
    const [result] = ofType(await loop.chat("s1", "x"), "tool_result");
    assert.deepEqual([result?.status, result?.content], ["failed", "the runner is away"]);
    assert.equal(toldModel(llama), "the runner is away");
    assert.equal(broker.requests.length, 1);
  }
  assert.equal(loop.said.join("\n"), "");
  const events = await loop.chat("s1", "x");
  const [result] = ofType(events, "tool_result");
  assert.deepEqual([result?.status, result?.content], [
    "failed",
    "the tool broker is unavailable",
  ]);
  assert.equal(toldModel(llama), "the tool broker is unavailable");
  assert.equal(textOf(events), "b");
  assert(loop.said.includes("see docs/runbook.md#broker-unavailable"), loop.said.join("\n"));
});

Deno.test("without a configured broker only the core tools work", async () => {
  await using llama = new FakeLlama(
    asking(["call_tool", { tool: "shell", arguments: { command: "ls" } }], ["clock", {}]),
    saying("No."),
  );
  using home = new LoopHome(llama.url, { broker: false });
  // Somebody listens where a broker would; it is not asked.
  using broker = new ToolBroker(home, toolResult("x"));
  await using loop = await Loop.start(home);
  const [shell, clock] = ofType(await loop.chat("s1", "x"), "tool_result");
  assert.deepEqual([shell?.status, shell?.content], ["failed", "no tool broker is configured"]);
  assert.equal(clock?.status, "result");
  assert.deepEqual(broker.requests, []);
});

Deno.test("a malformed call is told to the model and not to the broker, and the turn goes on", async () => {
  const bad: readonly (readonly [name: string, given: string])[] = [
    ["call_tool", "{"],
    ["call_tool", '{"tool":"shell","tool":"read_file","arguments":{}}'],
    ["call_tool", '{"tool":"rm","arguments":{}}'],
    ["call_tool", '{"tool":"shell"}'],
    ["", ""],
  ];
  await using llama = new FakeLlama(asking(...bad), saying("Sorry."));
  using home = new LoopHome(llama.url);
  using broker = new ToolBroker(home);
  await using loop = await Loop.start(home);
  const events = await loop.chat("s1", "x");
  const results = ofType(events, "tool_result");
  assert.deepEqual(results.map(({ status }) => status), bad.map(() => "failed"));
  assert.deepEqual(
    ofType(events, "tool_call").map(({ tool, arguments: given }) => [tool, given]),
    bad,
    "the owner sees it as the model wrote it",
  );
  assert.deepEqual(events.at(-1), FINISHED);
  assert.deepEqual(broker.requests, []);
  // A server like llama.cpp refuses a conversation with arguments that are no JSON.
  const [, , assistant] = llama.messages();
  assert(assistant?.role === "assistant");
  for (const { function: { arguments: given } } of assistant.tool_calls ?? []) {
    assert.equal(typeof JSON.parse(given), "object");
  }
});

Deno.test("a call that no frame can hold fails without the broker, which still takes others", async () => {
  const content = "x".repeat(1_048_576 - 20);
  const large = asking([
    "call_tool",
    '{"tool":"write_file","arguments":{"path":"/n/a","content":"',
  ]);
  const pieces = ["a", "b", "c"].map((letter) => letter.repeat(content.length / 2));
  const whole = large.replace(ending("tool_calls"), "") +
    [...pieces, '"}}'].map((text) => {
      return chunk({ tool_calls: [{ index: 0, function: { arguments: text } }] });
    }).join("") + ending("tool_calls");
  await using llama = new FakeLlama(whole, READ, saying("Sorry."));
  using home = new LoopHome(llama.url);
  using broker = new ToolBroker(home, toolResult("milk"));
  await using loop = await Loop.start(home);
  const events = await loop.chat("s1", "x");
  const [result] = ofType(events, "tool_result");
  assert.equal(result?.status, "failed");
  assert.match(result?.content ?? "", /^the call is too large/);
  assert.deepEqual(broker.requests.map(({ tool }) => tool), ["read_file"]);
  assert.deepEqual(events.at(-1), FINISHED);
});

Deno.test("the largest result reaches the model whole, and the owner cut, saying so", async () => {
  // The largest that fits brokerd's answer: the event has more around it.
  const around = JSON.stringify({
    v: 1,
    kind: "tool_response",
    final: true,
    body: toolResult(""),
  }).length + 1;
  const content = "x".repeat(MAX_ANSWER_BYTES - around);
  const cut: ReturnType<typeof toolResult> = {
    status: "result",
    content: "half",
    class: "secret",
    untrusted: true,
    truncated: true,
  };
  await using llama = new FakeLlama(READ, READ, saying("Long."));
  using home = new LoopHome(llama.url);
  using _broker = new ToolBroker(home, toolResult(content), cut);
  await using loop = await Loop.start(home);
  const [large, half] = ofType(await loop.chat("s1", "x"), "tool_result");
  assert.equal(llama.messages(1).at(-1)?.content, content);
  assert.match(large?.content ?? "", /^x+… \d+ more characters$/);
  assert.equal(half?.content, "half\n[The result is longer; the rest was cut off.]");
  assert.equal(toldModel(llama), half?.content);
  const results = home.entries("s1").filter(({ type }) => type === "result");
  assert.deepEqual(
    results.map((entry) => [entry.class, entry.untrusted]),
    [["private", false], ["secret", true]],
  );
});

Deno.test("a long text goes out in several events, and none is larger than a frame", async () => {
  const piece = "\u0001".repeat(100_000);
  const chunks = Array.from({ length: 8 }, () => chunk({ content: piece }));
  await using llama = new FakeLlama(START + chunks.join("") + ending("stop"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  const events = await loop.chat("s1", "x");
  assert.equal(textOf(events), piece.repeat(8));
  assert.deepEqual(events.at(-1), FINISHED);
});

Deno.test("as many tool calls as the limit are made; one more ends the turn, and the next turn has its own", async () => {
  const clock = (count: number) => asking(...Array(count).fill(["clock", {}] as const));
  await using llama = new FakeLlama(clock(1), clock(2), saying("Three."), clock(2), clock(2));
  using home = new LoopHome(llama.url, { llama: "max_tool_calls = 3\n" });
  await using loop = await Loop.start(home);
  const fine = await loop.chat("s1", "x");
  assert.equal(textOf(fine), "Three.");
  assert.deepEqual(fine.at(-1), FINISHED);

  const over = await loop.chat("s1", "y");
  assert.deepEqual(ofType(over, "tool_result").map(({ status }) => status), [
    "result",
    "result",
    "result",
    "failed",
  ]);
  assert.equal(
    ofType(over, "tool_result").at(-1)?.content,
    "not called: the limit of tool calls in a turn is used up",
  );
  assert.deepEqual(over.at(-1), {
    type: "failed",
    message: "the limit of 3 tool calls in a turn is used up",
  });
  assert.equal(llama.requests.length, 5, "the model is not asked again");

  llama.replies.push(saying("Sorry."));
  assert.deepEqual((await loop.chat("s1", "z")).at(-1), FINISHED);
  const roles = llama.messages().slice(-3).map(({ role }) => role);
  assert.deepEqual(roles, ["tool", "assistant", "user"]);
});

Deno.test("a turn that the model server fails says why, and the session goes on", async () => {
  await using llama = new FakeLlama(
    () => streaming(START, chunk({ content: "Half an " })),
    () => Response.json({ error: { message: "context is full" } }, { status: 400 }),
    START + chunk({ content: "cut" }) + ending("length"),
    saying("Whole."),
  );
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  const failure = async () => {
    const last = (await loop.chat("s1", "x")).at(-1);
    return last?.type === "failed" ? last.message : JSON.stringify(last);
  };
  assert.equal(await failure(), "the model server's stream ended before the answer");
  assert.equal(await failure(), "the model server answered 400: context is full");
  assert.equal(await failure(), "the model's answer was cut off at its length limit");
  const events = await loop.chat("s1", "y");
  assert.deepEqual(events.at(-1), FINISHED);
  const said = llama.messages().filter(({ role }) => role === "assistant").map(({ content }) =>
    content
  );
  assert.deepEqual(said, ["Half an ", "(The turn ended before I gave an answer.)", "cut"]);
});

Deno.test("each event leaves only when what it shows is in the log", async () => {
  await using llama = new FakeLlama(READ, asking(["clock", {}]), saying("Mil", "k."));
  using home = new LoopHome(llama.url);
  Deno.mkdirSync(home.layout.loopSessions, { recursive: true });
  const time = "2026-12-01T10:00:00.000Z";
  const now = () => Date.parse(time);
  const log = await SessionLog.open(
    home.layout.loopSessions,
    "s1",
    now,
    () => ({ type: "start", time, session: "s1", system: "" }),
  );
  const shown: string[] = [];
  const emit = (event: TurnEvent) => {
    const last = home.entries("s1").at(-1);
    shown.push(`${event.type} after ${last?.type}`);
    if (event.type === "text") assert.equal(last?.text, event.text);
    if (event.type === "tool_result") assert.equal(last?.content, event.content);
    return Promise.resolve();
  };
  const ports = {
    model: new ModelServer({ url: llama.url, model: null, timeoutMs: 20_000, maxToolCalls: 1 }),
    broker: { call: () => Promise.resolve(toolResult("milk")) },
    maxToolCalls: 9,
    now,
  };
  await new Turn(ports, "s1", log, emit, new AbortController().signal).run("Notes?");
  await log.close();
  const call = ["tool_call after calls", "tool_result after result"];
  assert.deepEqual(shown.slice(0, 4), [...call, ...call]);
  assert(shown.length > 4 && shown.slice(4).every((line) => line === "text after text"));
});

Deno.test("a broken turn of one session leaves the others alone", async () => {
  const slow = new Gate();
  await using llama = new FakeLlama(
    async () => {
      await slow.opened;
      return streaming(saying("slow"));
    },
    () => streaming("data: }\n\n", null),
    () => streaming(chunk({ tool_calls: [{ index: -1 }] }), null),
    saying("fast"),
  );
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  using turn = await loop.open("slow", "x");
  await turn.until("session");
  while (llama.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  for (const session of ["bad-1", "bad-2"]) {
    assert.equal((await loop.chat(session, "x")).at(-1)?.type, "failed");
  }
  assert.equal(textOf(await loop.chat("fast", "x")), "fast");
  slow.open();
  assert.equal(textOf(await within("the slow turn", turn.rest())), "slow");
});
