/** The stand-in: its sentences, its streams as loopd reads them, and its server. */
import assert from "node:assert/strict";
import { AnswerReader, joined, type Piece } from "../../loop/stream.ts";
import { MODEL_TOOLS, readCall } from "../../loop/tools.ts";
import { PING, streamOf } from "../../scripts/standin/chunks.ts";
import { HELP_TEXT, type Message, replyTo } from "../../scripts/standin/sentences.ts";
import { answer } from "../../scripts/standin/server.ts";
import { Followed, ROOT, runScript } from "../support/scripts.ts";

const PURE = { permissions: "none" } as const;

const user = (content: string): Message => ({ role: "user", content, calls: [] });
const asked = (...calls: string[]): Message => ({ role: "assistant", content: "", calls });
const told = (content: string): Message => ({ role: "tool", content, calls: [] });

/** A conversation in which the tools have been looked up. */
const looked = (sentence: string): Message[] => [
  user(sentence),
  asked("find_tool"),
  told("[…]"),
];

const SENTENCES: Readonly<Record<string, object>> = {
  "read /n/a.md": { tool: "read_file", arguments: { path: "/n/a.md" } },
  'Read  "/my notes/a.md" ': { tool: "read_file", arguments: { path: "/my notes/a.md" } },
  "read /my notes/a.md": { tool: "read_file", arguments: { path: "/my notes/a.md" } },
  "write /n/b.md a b  c": {
    tool: "write_file",
    arguments: { path: "/n/b.md", content: "a b  c" },
  },
  'write "/my notes/b.md" two\nlines': {
    tool: "write_file",
    arguments: { path: "/my notes/b.md", content: "two\nlines" },
  },
  "run ls -l /tmp": { tool: "shell", arguments: { command: "ls -l /tmp" } },
  "fetch https://example.com/a?b=c": {
    tool: "http_fetch",
    arguments: { url: "https://example.com/a?b=c" },
  },
};

Deno.test(
  "each sentence becomes the call that a model would make, once it knows the tools",
  PURE,
  () => {
    for (const [sentence, call] of Object.entries(SENTENCES)) {
      const first = replyTo([user(sentence)]);
      assert.equal(first.call?.name, "find_tool", sentence);
      assert.deepEqual(Object.keys(first.call.arguments), ["query"]);
      const { call: second } = replyTo(looked(sentence));
      assert.deepEqual(second, { name: "call_tool", arguments: call }, sentence);
      // In a later turn it need not look again.
      const later = [...looked("read /other"), asked("call_tool"), told("x"), user(sentence)];
      assert.deepEqual(replyTo(later).call, second);
    }
    assert.deepEqual(replyTo([user("time")]).call, { name: "clock", arguments: {} });
  },
);

Deno.test("everything else gets the one text that names the five sentences", PURE, () => {
  const others = ["hello", "read", "write /a", "timely", "fetch a b", "please read /a", "", "run "];
  for (const sentence of others) {
    const { text, call } = replyTo([user(sentence)]);
    assert.deepEqual([text, call], [HELP_TEXT, null], sentence);
  }
  for (const word of ["read PATH", "write PATH TEXT", "run COMMAND", "fetch URL", "time"]) {
    assert(HELP_TEXT.includes(`\n  ${word} `), word);
  }
  assert(HELP_TEXT.includes("no model"));
});

Deno.test("a result is told in words that quote it, and nothing more is asked for", PURE, () => {
  for (const result of ["Denied: no grant allows this call.", "# Notes\n\n- milk", ""]) {
    const { text, call } = replyTo([...looked("read /a"), asked("call_tool"), told(result)]);
    assert.equal(call, null);
    assert.equal(text, `The tool said: ${result}`);
  }
  const { text } = replyTo([user("time"), asked("clock"), told("2026-12-01T10:00:00.000Z")]);
  assert.equal(text, "The clock said: 2026-12-01T10:00:00.000Z");
});

/** What loopd makes of the stream `parts`. */
function read(parts: readonly string[]) {
  const reader = new AnswerReader();
  const pieces: Piece[] = [];
  const encoder = new TextEncoder();
  for (const part of parts) pieces.push(...reader.push(encoder.encode(part)));
  pieces.push(...reader.end());
  const said = Object.fromEntries(joined(pieces).map(({ type, text }) => [type, text]));
  return { ...said, answer: reader.answer, done: reader.done };
}

Deno.test("loopd reads every reply back from its stream, and makes the call of it", PURE, () => {
  const odd = 'write /n/ü.md 🥛 "quoted" \\ and \u2028';
  for (const sentence of [...Object.keys(SENTENCES), odd, "hello"]) {
    const reply = replyTo(looked(sentence));
    const { answer: { calls, cut }, done, ...said } = read(streamOf(reply, 1764583200));
    assert.deepEqual([cut, done], [false, true]);
    if (reply.call === null) {
      assert.deepEqual(said, { reasoning: reply.reasoning, text: reply.text });
      assert.deepEqual(calls, []);
      continue;
    }
    assert.deepEqual(said, { reasoning: reply.reasoning });
    const [call, ...more] = calls;
    assert.deepEqual(more, []);
    assert(call !== undefined);
    assert.deepEqual(JSON.parse(call.arguments), reply.call.arguments);
    const use = readCall(call.name, call.arguments, "2026-12-01T10:00:00.000Z");
    assert.equal(use.kind, "broker", sentence);
    assert.deepEqual(
      { tool: use.tool, arguments: JSON.parse(use.arguments) },
      reply.call.arguments,
    );
  }
});

Deno.test("no piece ends within a character", PURE, () => {
  for (let before = 0; before < 12; before++) {
    const told = `${"x".repeat(before)}${"🥛".repeat(20)}`;
    const parts = streamOf({ reasoning: told, text: told, call: null }, 7).join("");
    assert.equal(parts.split("🥛").length, 41);
    assert.equal(parts.includes("\\ud83e"), false);
  }
});

Deno.test("it asks for no tool that loopd does not offer", PURE, () => {
  const offered = MODEL_TOOLS.map((tool) => tool.function.name);
  for (const messages of [[user("time")], [user("read /a")], looked("read /a")]) {
    assert(offered.includes(replyTo(messages).call?.name ?? ""));
  }
  const find = replyTo([user("read /a")]).call;
  assert(find !== null);
  const found = readCall(find.name, JSON.stringify(find.arguments), "2026-12-01T10:00:00.000Z");
  assert(found.kind === "answered" && found.content.includes('"read_file"'));
});

Deno.test(
  "the stream has llama.cpp's form: reasoning, pieces by index, a ping, an end",
  PURE,
  () => {
    const parts = streamOf(replyTo(looked("read /n/a/rather/long/path.md")), 7);
    assert(parts.includes(PING));
    assert.equal(parts.at(-1), "data: [DONE]\n\n");
    const chunks = parts.filter((part) => part.startsWith("data: {"))
      .map((part) => JSON.parse(part.slice(6)));
    for (const { object, created } of chunks) {
      assert.deepEqual([object, created], ["chat.completion.chunk", 7]);
    }
    assert.deepEqual(chunks[0].choices[0].delta, { role: "assistant", content: null });
    const calls = chunks.flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []);
    assert(calls.length > 3, "the arguments come in several pieces");
    assert(calls.every((call: { index: number }) => call.index === 0));
    assert.deepEqual(calls.map((call: { id?: string }) => call.id !== undefined).slice(0, 2), [
      true,
      false,
    ]);
    assert.equal(chunks.at(-2).choices[0].finish_reason, "tool_calls");
    assert.deepEqual(chunks.at(-1).choices, []);
    const words = streamOf(replyTo([user("hello")]), 7).map((part) => part.slice(6));
    assert.equal(JSON.parse(words.at(-3) ?? "").choices[0].finish_reason, "stop");
  },
);

Deno.test("the server has its two answers, and 404 or 400 for everything else", async () => {
  const at = (path: string, init?: RequestInit) =>
    answer(new Request(`http://127.0.0.1${path}`, init));
  const health = await at("/health");
  assert.deepEqual([health.status, await health.json()], [200, { status: "ok" }]);
  const post = (body: string) => at("/v1/chat/completions", { method: "POST", body });
  const request = { stream: true, messages: [{ role: "user", content: "time" }], tools: [] };
  const chat = await post(JSON.stringify(request));
  assert.equal(chat.status, 200);
  assert.equal(chat.headers.get("content-type"), "text/event-stream");
  const { answer: { calls } } = read([await chat.text()]);
  assert.deepEqual(calls, [{ name: "clock", arguments: "{}" }]);
  for (const body of ["", "{", "[]", '{"stream":false,"messages":[]}', '{"stream":true}']) {
    assert.equal((await post(body)).status, 400, body);
  }
  const elsewhere = [
    at("/tools"),
    at("/"),
    at("/health", { method: "POST" }),
    at("/v1/chat/completions"),
    at("/v1/models"),
  ];
  for (const response of await Promise.all(elsewhere)) assert.equal(response.status, 404);
});

const MAIN = `${ROOT}/scripts/standin/main.ts`;

Deno.test("as a program it serves on the loopback with that one permission, and stops on a signal", async () => {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    const flags = [
      "--quiet",
      "--no-prompt",
      "--cached-only",
      "--frozen",
      "--allow-net=127.0.0.1:0",
    ];
    await using standin = Followed.start([Deno.execPath(), "run", ...flags, MAIN]);
    await standin.shows("standin: ready, serving http://127.0.0.1:");
    const [, url = ""] = /serving (\S+)\n/.exec(standin.output) ?? [];
    assert.equal(await (await fetch(`${url}/health`)).text(), '{"status":"ok"}');
    standin.signal(signal);
    assert.equal(await standin.ends(), 0);
    assert(standin.output.endsWith("standin: stopped\n"));
  }
});

Deno.test("a port in use ends it with 1, wrong usage with 2", async () => {
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = taken.addr;
  const used = await runScript("standin/main.ts", ["--port", String(port)]);
  assert.equal(used.code, 1);
  assert.equal(used.stderr, `standin: 127.0.0.1:${port} is in use\n`);
  for (const args of [["--port", "x"], ["--port", "65536"], ["more"], ["--port"]]) {
    assert.equal((await runScript("standin/main.ts", args)).code, 2, args.join(" "));
  }
  assert((await runScript("standin/main.ts", ["--help"])).stdout.startsWith("standin is"));
});
