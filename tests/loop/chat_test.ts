/** Sessions in a loopd of this process: their logs, their turns at once, and clients that go away. */
import assert from "node:assert/strict";
import { MAX_LOG_BYTES } from "../../loop/session_log.ts";
import type { TurnEvent } from "../../proto/messages.ts";
import { frame, namesOf, RawClient, until, within } from "../support/broker.ts";
import { Gate } from "../support/daemons.ts";
import { calling, chunk, ending, FakeLlama, Held, saying, START } from "../support/llama.ts";
import {
  asksOwner,
  logged,
  Loop,
  LoopHome,
  ofType,
  ToolBroker,
  toolResult,
} from "../support/loop.ts";

const READ = calling("read_file", { path: "/n/a" });
const FINISHED: TurnEvent = { type: "done" };

/** How the last of `events` failed. */
function failure(events: readonly TurnEvent[]): string {
  const last = events.at(-1);
  assert(last?.type === "failed", JSON.stringify(last));
  return last.message;
}

/** The conversation that the model was last sent, as `role: content`. */
const sent = (llama: FakeLlama) =>
  llama.messages().slice(1).map(({ role, content }) => `${role}: ${content}`);

Deno.test("a session without an id gets one, and goes on under it; an unknown id starts that session", async () => {
  await using llama = new FakeLlama(saying("a"), saying("b"), saying("c"), saying("d"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  const [first] = ofType(await loop.chat(null, "one"), "session");
  assert.match(first?.session ?? "", /^chat-\d{13}-[0-9a-f]{8}$/);
  await loop.chat(first?.session ?? "", "two");
  assert.deepEqual(sent(llama), ["user: one", "assistant: a", "user: two"]);
  const [own] = ofType(await loop.chat("my-own", "three"), "session");
  assert.equal(own?.session, "my-own");
  assert.deepEqual(sent(llama), ["user: three"]);
  const [other] = ofType(await loop.chat(null, "four"), "session");
  assert.notEqual(other?.session, first?.session);
  assert.equal(namesOf(home.layout.loopSessions).length, 3);
});

Deno.test("the log has everything, in order, in files that only the owner can read", async () => {
  const answer = START + chunk({ reasoning: "Hm." }) + chunk({ content: "Milk." }) + ending("stop");
  await using llama = new FakeLlama(READ, answer);
  using home = new LoopHome(llama.url);
  using _broker = new ToolBroker(home, toolResult("milk"));
  await using loop = await Loop.start(home);
  await loop.chat("s1", "Notes?");
  const entries = home.entries("s1");
  assert.deepEqual(entries.map(({ type }) => type), [
    ...["start", "user", "calls", "result", "reasoning", "text", "end"],
  ]);
  assert.deepEqual(entries[2]?.calls, [{
    call: "call00001",
    name: "call_tool",
    arguments: '{"tool":"read_file","arguments":{"path":"/n/a"}}',
  }]);
  assert.deepEqual(entries[3], {
    type: "result",
    call: "call00001",
    status: "result",
    content: "milk",
    class: "private",
    untrusted: false,
  });
  const open = namesOf("/proc/self/fd").map((fd) => {
    try {
      return Deno.readLinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return ""; // closed since it was listed
    }
  });
  assert.deepEqual(open.filter((path) => path.endsWith(".jsonl")), [], "closed after the turn");
  const mode = (path: string) => (Deno.statSync(path).mode ?? 0) & 0o777;
  assert.equal(mode(home.log("s1")), 0o600);
  assert.equal(mode(home.layout.loop), 0o700);
  assert.equal(mode(home.layout.loopSessions), 0o700);
});

Deno.test("whatever is shown is in the log already", async () => {
  const held = new Held();
  await using llama = new FakeLlama(READ, () => held.response);
  using home = new LoopHome(llama.url);
  using _broker = new ToolBroker(home, toolResult("milk"));
  await using loop = await Loop.start(home);
  using turn = await loop.open("s1", "Notes?");
  const inLog = (text: string) =>
    assert(Deno.readTextFileSync(home.log("s1")).includes(JSON.stringify(text)), text);
  await turn.until("tool_call");
  inLog("Notes?");
  inLog("call00001");
  await turn.until("tool_result");
  inLog("milk");
  for (const piece of ["one", "two", "three"]) {
    await held.send(chunk({ content: piece }));
    assert.equal((await turn.until("text")).text, piece);
    inLog(piece);
  }
  await held.send(ending("stop"));
  await held.end();
  await turn.until("done");
  inLog("done");
});

Deno.test("a second turn in a busy session fails at once, and the first goes on", async () => {
  const held = new Held();
  await using llama = new FakeLlama(() => held.response, saying("next"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  using turn = await loop.open("s1", "one");
  await held.send(chunk({ content: "a" }));
  await turn.until("text");
  const second = await loop.chat("s1", "two");
  assert.deepEqual(second[0], { type: "session", session: "s1" });
  assert.equal(failure(second), "the session is busy with another turn");
  await held.send(saying("b"));
  await held.end();
  assert.deepEqual((await turn.rest()).at(-1), FINISHED);
  // `done` has been seen, so the session is free.
  await loop.chat("s1", "three");
  assert.deepEqual(sent(llama), ["user: one", "assistant: ab", "user: three"]);
});

Deno.test("two sessions talk at once, their words interleaved and never mixed", async () => {
  const held = [new Held(), new Held()] as const;
  await using llama = new FakeLlama();
  llama.replies.push(...held.map(({ response }) => () => response));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  using first = await loop.open("s1", "one");
  await until("the first request", () => llama.requests.length === 1);
  using second = await loop.open("s2", "two");
  await until("the second request", () => llama.requests.length === 2);
  for (const piece of ["a", "b", "c"]) {
    for (const [index, turn] of [first, second].entries()) {
      const content = `${piece}${index}`;
      await held[index as 0 | 1].send(chunk({ content }));
      assert.equal((await turn.until("text")).text, content);
    }
  }
  for (
    const { send, end } of held.map((one) => ({
      send: () => one.send(ending("stop")),
      end: () => one.end(),
    }))
  ) {
    await send();
    await end();
  }
  for (const turn of [first, second]) assert.deepEqual((await turn.rest()).at(-1), FINISHED);
  const texts = (session: string) =>
    home.entries(session).filter(({ type }) => type === "text").map(({ text }) => text).join("");
  assert.equal(texts("s1"), "a0b0c0");
  assert.equal(texts("s2"), "a1b1c1");
});

Deno.test("a client that goes away while the model speaks ends the request, and frees its session", async () => {
  const held = new Held();
  await using llama = new FakeLlama(() => held.response, saying("again"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  {
    using turn = await loop.open("s1", "one");
    await held.send(chunk({ content: "half" }));
    await turn.until("text");
  }
  await within("end of the request", held.cancelled);
  await logged(home, "s1", "end");
  assert.equal(home.entries("s1").at(-1)?.outcome, "interrupted");
  await until("a free session", async () => (await loop.chat("s1", "two")).at(-1)?.type === "done");
  assert.deepEqual(sent(llama), ["user: one", "assistant: half", "user: two"]);
  assert.equal(loop.said.join("\n"), "", "that is nothing to tell");
});

Deno.test("a client that goes away before the model answers ends the request too", async () => {
  const held = new Held();
  const asked = new Gate();
  await using llama = new FakeLlama(() => {
    asked.open();
    return held.response;
  });
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  {
    using _turn = await loop.open("s1", "one");
    await within("request", asked.opened);
  }
  await within("end of the request", held.cancelled);
});

Deno.test("a client that goes away while a call waits takes the call back; its result is unknown", async () => {
  const dropped = new Gate();
  await using llama = new FakeLlama(READ, saying("again"));
  using home = new LoopHome(llama.url);
  using _broker = new ToolBroker(home, asksOwner(dropped));
  await using loop = await Loop.start(home);
  {
    using turn = await loop.open("s1", "one");
    await turn.until("approval_pending");
  }
  await within("end of the call", dropped.opened);
  await logged(home, "s1", "end");
  await until("a free session", async () => (await loop.chat("s1", "two")).at(-1)?.type === "done");
  const conversation = sent(llama);
  assert.equal(conversation.length, 5);
  assert.match(conversation[2] ?? "", /^tool: Unknown: the turn was interrupted/);
  assert.match(conversation[3] ?? "", /^assistant: \(The turn ended/);
  assert.equal(conversation[4], "user: two");
});

Deno.test("a loopd that is stopped ends its turns and takes its socket away; the next goes on", async () => {
  const held = new Held();
  await using llama = new FakeLlama(saying("a"), () => held.response, saying("c"));
  using home = new LoopHome(llama.url);
  {
    await using loop = await Loop.start(home);
    await loop.chat("s1", "one");
    using turn = await loop.open("s1", "two");
    await held.send(chunk({ content: "b" }));
    await turn.until("text");
    await loop.stop();
    assert.equal(home.entries("s1").at(-1)?.outcome, "interrupted");
    assert.deepEqual(await turn.rest(), []);
    assert.deepEqual(namesOf(`${home.home}/run/owner-loop`), []);
  }
  await within("end of the request", held.cancelled);
  await using loop = await Loop.start(home);
  await loop.chat("s1", "three");
  assert.deepEqual(sent(llama), [
    "user: one",
    "assistant: a",
    "user: two",
    "assistant: b",
    "user: three",
  ]);
  assert.equal(loop.said.join("\n"), "");
});

Deno.test("call ids go on over turns and restarts, whatever the model names its calls", async () => {
  await using llama = new FakeLlama(READ, saying("a"), READ, READ, saying("b"));
  using home = new LoopHome(llama.url);
  using broker = new ToolBroker(home);
  for (const text of ["one", "two"]) {
    await using loop = await Loop.start(home);
    await loop.chat("s1", text);
  }
  assert.deepEqual(broker.requests.map(({ call }) => call), [
    "call00001",
    "call00002",
    "call00003",
  ]);
});

Deno.test("a torn last line is left out with a notice, and the session goes on", async () => {
  await using llama = new FakeLlama(saying("a"), saying("b"), saying("c"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  await loop.chat("s1", "one");
  const path = home.log("s1");
  Deno.writeTextFileSync(path, '{"type":"user","time":"2026-12-', { append: true });
  assert.deepEqual((await loop.chat("s1", "two")).at(-1), FINISHED);
  assert.deepEqual(sent(llama), ["user: one", "assistant: a", "user: two"]);
  assert.deepEqual(loop.said, [
    "session s1: its log ends in 31 bytes that a crash cut off; they are left out",
    "see docs/runbook.md#session-log-torn",
  ]);
  assert.deepEqual((await loop.chat("s1", "three")).at(-1), FINISHED);
  assert.equal(loop.said.length, 2, "told once");
});

Deno.test("damage fails the turns of its session only, says where, and is gone once mended", async () => {
  await using llama = new FakeLlama(saying("a"), saying("b"), saying("c"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  await loop.chat("s1", "one");
  const path = home.log("s1");
  const whole = Deno.readTextFileSync(path);
  const damaged = whole.replace("one", "eno").replace('"type":"user"', '"type":"owner"');
  Deno.writeTextFileSync(path, damaged);
  for (let count = 0; count < 2; count++) {
    const events = await loop.chat("s1", "two");
    assert.equal(
      failure(events),
      "this session's log is damaged; the operator of loopd has been told",
    );
    assert.equal(events.length, 2);
  }
  assert.equal(Deno.readTextFileSync(path), damaged, "untouched");
  assert.deepEqual(loop.said, [
    `every turn of session s1 fails: its log is damaged: ${path}:2: not an entry`,
    "see docs/runbook.md#session-log-damaged",
  ]);
  assert.deepEqual((await loop.chat("s2", "x")).at(-1), FINISHED);
  Deno.writeTextFileSync(path, whole);
  assert.deepEqual((await loop.chat("s1", "three")).at(-1), FINISHED);
  assert.equal(loop.said.at(-1), "session s1: its log is read again");
});

Deno.test("a FIFO or a directory in a log's place is damage, and nobody waits for it", async () => {
  await using llama = new FakeLlama(saying("a"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  assert(new Deno.Command("mkfifo", { args: [home.log("s1")] }).outputSync().success);
  Deno.mkdirSync(home.log("s2"));
  for (const session of ["s1", "s2"]) {
    assert.match(failure(await loop.chat(session, "x")), /log is damaged/);
    const words = `${home.log(session)} is not a regular file`;
    assert(loop.said.some((line) => line.endsWith(words)));
  }
  assert.deepEqual((await loop.chat("s3", "x")).at(-1), FINISHED);
});

Deno.test("a log that cannot be used fails the turn and tells why", async () => {
  await using llama = new FakeLlama(saying("a"), saying("b"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  Deno.renameSync(home.layout.loopSessions, `${home.layout.loop}/away`);
  const words = "this session's log cannot be used; the operator of loopd has been told";
  assert.equal(failure(await loop.chat("s1", "x")), words);
  assert.match(loop.said[0] ?? "", /^a turn of session s1 failed: .*no such file/);
  assert.equal(loop.said[1], "see docs/runbook.md#session-log-unavailable");
  assert.equal(llama.requests.length, 0);
  Deno.renameSync(`${home.layout.loop}/away`, home.layout.loopSessions);
  assert.deepEqual((await loop.chat("s1", "x")).at(-1), FINISHED);
});

Deno.test("a session that has become too long takes no more turns, and others do", async () => {
  await using llama = new FakeLlama(saying("a"), saying("b"));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  await loop.chat("s1", "x");
  Deno.truncateSync(home.log("s1"), MAX_LOG_BYTES + 1);
  const words = "this session has become too long; start a new one";
  assert.equal(failure(await loop.chat("s1", "y")), words);
  assert.equal(loop.said.at(-1), "see docs/runbook.md#session-log-unavailable");
  assert.deepEqual((await loop.chat("s2", "x")).at(-1), FINISHED);
});

Deno.test("core.md is part of a new session's prompt, and a session keeps the one it began with", async () => {
  await using llama = new FakeLlama(...Array(4).fill(saying("a")));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  const system = () => llama.messages()[0]?.content ?? "";
  await loop.chat("before", "x");
  assert(!system().includes("Your owner wants you to know"));
  home.remember("Kyle likes milk. 🥛");
  await loop.chat("with", "x");
  assert(system().endsWith("\n\nYour owner wants you to know:\n\nKyle likes milk. 🥛"));
  home.remember("Kyle likes tea.");
  await loop.chat("with", "y");
  assert(system().endsWith("Kyle likes milk. 🥛"));
  await loop.chat("before", "y");
  assert(!system().includes("Kyle"));
});

Deno.test("an unreadable core.md stops new sessions and no others, until it is mended", async () => {
  await using llama = new FakeLlama(...Array(3).fill(saying("a")));
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  await loop.chat("old", "x");
  home.remember(new Uint8Array([0xff]));
  const words = "memory/core.md cannot be read; the operator of loopd has been told";
  for (const session of [null, "new"]) {
    assert.equal(failure(await loop.chat(session, "x")), words);
  }
  assert.deepEqual(loop.said, [
    `no new session starts: ${home.layout.core} is not UTF-8`,
    "see docs/runbook.md#core-memory-unreadable",
  ]);
  assert.deepEqual((await loop.chat("old", "y")).at(-1), FINISHED);
  assert.deepEqual(namesOf(home.layout.loopSessions), ["old.jsonl"], "nothing was begun");
  home.remember("fine");
  assert.deepEqual((await loop.chat("new", "x")).at(-1), FINISHED);
  assert.equal(loop.said.at(-1), "memory/core.md is read again");
});

Deno.test("loop.sock takes nothing but chat, stop and status, and says so to its operator", async () => {
  await using llama = new FakeLlama();
  using home = new LoopHome(llama.url);
  await using loop = await Loop.start(home);
  const { loopSocket } = home.layout;
  const answerTo = async (text: string) => {
    using client = await RawClient.connect(loopSocket);
    await client.send(text);
    const answer = await client.next();
    assert(answer?.kind === "error", JSON.stringify(answer));
    assert.equal(await client.next(), null);
    return answer.body.code;
  };
  assert.equal(await answerTo(frame("approve", { approval: 1 })), "forbidden");
  assert.deepEqual(loop.said, [
    "a request of kind approve came in on loop.sock and was refused",
    "see docs/runbook.md#socket-forbidden",
  ]);
  for (const session of ["UPPER", "", "../s1", "a/b", "x".repeat(65), 7]) {
    assert.equal(await answerTo(frame("chat", { session, text: "x" })), "bad_frame");
  }
  assert.equal(await answerTo(frame("chat", { session: null })), "bad_frame");
  assert.equal(await answerTo(frame("chat", { session: null, text: "\ud800" })), "bad_frame");
  assert.equal(llama.requests.length, 0);
  const { mode } = Deno.lstatSync(loopSocket);
  assert.equal((mode ?? 0) & 0o777, 0o600);
});
