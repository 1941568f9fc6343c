/** The client of the model server, and what a hostile server can do to it: nothing but fail one answer. */
import assert from "node:assert/strict";
import { ModelServer } from "../../loop/llama.ts";
import { MAX_LINE_BYTES, ModelError, type Piece } from "../../loop/stream.ts";
import { utf8 } from "../../proto/text.ts";
import { until, within } from "../support/broker.ts";
import {
  asking,
  chunk,
  DONE,
  ending,
  event,
  FakeLlama,
  Held,
  RawLlama,
  saying,
  START,
  streaming,
} from "../support/llama.ts";

const MESSAGES = [{ role: "user", content: "Milk?" }] as const;
const never = new AbortController().signal;

class Client {
  readonly server: ModelServer;
  readonly pieces: Piece[] = [];

  constructor(
    { url }: { readonly url: string },
    { model = null as string | null, timeoutMs = 20_000 } = {},
  ) {
    this.server = new ModelServer({ url, model, timeoutMs, maxToolCalls: 1 });
  }

  async answer(signal = never, take?: (pieces: Piece[]) => Promise<void>) {
    const taken = take ?? ((pieces: Piece[]) => {
      this.pieces.push(...pieces);
      return Promise.resolve();
    });
    return await within("answer of the model", this.server.answer(MESSAGES, signal, taken));
  }

  get text(): string {
    return this.pieces.map(({ text }) => text).join("");
  }
}

/** Asserts that `answer` fails with a ModelError of these words. */
async function fails(answer: Promise<unknown>, words: RegExp | string): Promise<void> {
  await assert.rejects(answer, (error) => {
    assert(error instanceof ModelError, String(error));
    if (typeof words === "string") assert.equal(error.message, words);
    else assert.match(error.message, words);
    return true;
  });
}

Deno.test("the request has the conversation, the tools, the stream and the configured model", async () => {
  await using llama = new FakeLlama(saying("a"), saying("b"));
  const plain = new Client(llama);
  await plain.answer();
  const named = new Client(llama, { model: "ornith" });
  await named.answer();
  const [first, second] = llama.requests;
  assert(first && second);
  assert.equal(first.stream, true);
  assert.deepEqual(first.messages, MESSAGES);
  const tools = first.tools.map(({ function: { name } }) => name);
  assert.deepEqual(tools, ["clock", "find_tool", "call_tool"]);
  assert(!("model" in first));
  assert.equal(second.model, "ornith");
});

Deno.test("text comes as it is sent, and tool calls at the end", async () => {
  const held = new Held();
  await using llama = new FakeLlama(() => held.response);
  const client = new Client(llama);
  const first = Promise.withResolvers<void>();
  const pieces: Piece[] = [];
  const answer = client.answer(never, (arrived) => {
    pieces.push(...arrived);
    first.resolve();
    return Promise.resolve();
  });
  await held.send(START + chunk({ reasoning: "hm" }));
  await within("first piece", first.promise);
  assert.deepEqual(pieces, [{ type: "reasoning", text: "hm" }]);
  await held.send(asking(["clock", {}]));
  await held.end();
  assert.deepEqual(await answer, { calls: [{ name: "clock", arguments: "{}" }], cut: false });
});

Deno.test("while a piece is being taken the rest goes on arriving, and goes together", async () => {
  const held = new Held();
  await using llama = new FakeLlama(() => held.response);
  const client = new Client(llama);
  const gate = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const batches: string[] = [];
  const answer = client.answer(never, async (pieces) => {
    batches.push(pieces.map(({ text }) => text).join("|"));
    begun.resolve();
    await gate.promise;
  });
  await held.send(chunk({ content: "a" }));
  await within("first piece", begun.promise);
  for (const content of ["b", "c", "d"]) await held.send(chunk({ content }));
  await held.send(ending("stop"));
  await held.end();
  // The client has read to the end once it closes the connection.
  await llama[Symbol.asyncDispose]();
  gate.resolve();
  await answer;
  assert.deepEqual(batches, ["a", "bcd"]);
});

Deno.test("what the taker throws ends the answer, and the request with it", async () => {
  const held = new Held();
  await using llama = new FakeLlama(() => held.response);
  const client = new Client(llama);
  const full = new Error("the disk is full");
  const answer = client.answer(never, () => Promise.reject(full));
  await held.send(chunk({ content: "a" }));
  await assert.rejects(answer, full);
  await within("end of the request", held.cancelled);
});

Deno.test("a redirect is not followed", async () => {
  let reached = false;
  await using elsewhere = new FakeLlama(() => {
    reached = true;
    return streaming(saying("x"));
  });
  for (const status of [301, 302, 303, 307, 308]) {
    const location = `${elsewhere.url}/v1/chat/completions`;
    await using llama = new FakeLlama(() => new Response(null, { status, headers: { location } }));
    const client = new Client(llama);
    await fails(
      client.answer(),
      `the model server answered ${status}; redirects are not followed`,
    );
  }
  assert.equal(reached, false);
});

Deno.test("a refusal is told with the server's words, where it gives any", async () => {
  const answers: readonly [Response, string][] = [
    [
      Response.json({ error: { code: 503, message: "Loading model" } }, { status: 503 }),
      "the model server answered 503: Loading model",
    ],
    [
      Response.json({ error: "as text" }, { status: 400 }),
      'the model server answered 400: "as text"',
    ],
    [new Response("<html>", { status: 502 }), "the model server answered 502"],
    [Response.json(null, { status: 500 }), "the model server answered 500"],
    [Response.json({}, { status: 404 }), "the model server answered 404"],
    [new Response("x".repeat(2 ** 21), { status: 500 }), "the model server answered 500"],
    [new Response(null, { status: 204 }), "the model server answered 204"],
  ];
  await using llama = new FakeLlama(...answers.map(([response]) => () => response));
  const client = new Client(llama);
  for (const [, words] of answers) await fails(client.answer(), words);
});

Deno.test("nobody there is told as such", async () => {
  const llama = new FakeLlama();
  await llama[Symbol.asyncDispose]();
  const client = new Client(llama);
  await fails(client.answer(), "the connection to the model server failed");
});

Deno.test("the request is in the form that a server gets, not a proxy, on a connection of its own", async () => {
  const answer = saying("a");
  const head = `HTTP/1.1 200 OK\r\nContent-Length: ${answer.length}\r\n\r\n`;
  await using llama = new RawLlama([head, answer], [head, answer]);
  const client = new Client(llama);
  await client.answer();
  await client.answer();
  assert.equal(client.text, "aa");
  for (const request of llama.requests) {
    const lines = request.split("\r\n");
    assert.equal(lines[0], "POST /v1/chat/completions HTTP/1.1");
    assert(lines.includes(`Host: ${new URL(llama.url).host}`), request);
    assert(lines.includes("content-type: application/json"), request);
  }
});

Deno.test("what is no HTTP, or another protocol, fails one answer", async () => {
  await using llama = new RawLlama(
    [],
    ["garbage\r\n\r\n", "hold"],
    ["HTTP/1.1 200 OK\r\nX: " + "x".repeat(1_000_000), "hold"],
    ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "hold"],
    ["HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "hold"],
    ["HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", START],
  );
  const client = new Client(llama);
  for (let count = 0; count < 6; count++) {
    await fails(client.answer(), "the connection to the model server failed");
  }
  assert.equal(llama.requests.length, 6);
});

Deno.test("what arrived right before the connection broke still counts", async () => {
  const text = chunk({ content: "a" }) + chunk({}, "stop");
  const size = (text.length + 100).toString(16);
  await using llama = new RawLlama(
    [`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${size}\r\n${text}`],
    [`HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n${text}`],
    [`HTTP/1.0 200 OK\r\n\r\n${text}`],
  );
  const client = new Client(llama);
  for (let count = 0; count < 3; count++) await client.answer();
  assert.equal(client.text, "aaa");
});

Deno.test("a server that is silent for longer than timeout_ms is given up, at any time", async () => {
  const headers = Promise.withResolvers<Response>();
  await using llama = new FakeLlama(
    () => headers.promise,
    () => streaming(null),
    () => streaming(START, chunk({ content: "a" }), null),
    () => new Response(new ReadableStream(), { status: 500 }),
  );
  const client = new Client(llama, { timeoutMs: 150 });
  for (let count = 0; count < 4; count++) {
    await fails(client.answer(), "the model server was silent for 150 ms");
  }
  assert.equal(client.text, "a", "what came before is shown");
  headers.resolve(new Response());
});

Deno.test("comment pings and chunks without text break the silence", async () => {
  const timeoutMs = 600;
  const held = new Held();
  await using llama = new FakeLlama(() => held.response);
  const client = new Client(llama, { timeoutMs });
  const answer = client.answer();
  const end = performance.now() + 2 * timeoutMs;
  while (performance.now() < end) {
    await held.send(":\n\n");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await held.send(saying("patience"));
  await answer;
  assert.equal(client.text, "patience");
});

Deno.test("after a finish_reason silence and a broken connection are an end like another", async () => {
  const broken = new Held();
  await using llama = new FakeLlama(
    () => streaming(chunk({ content: "a" }), chunk({}, "stop"), null),
    () => broken.response,
  );
  const client = new Client(llama, { timeoutMs: 300 });
  await client.answer();
  assert.equal(client.text, "a");
  const answer = client.answer();
  await broken.send(chunk({ content: "b" }) + chunk({}, "stop"));
  await until("the text", () => client.text === "ab");
  await broken.breakOff();
  await answer;
  assert.equal(client.text, "ab");
});

Deno.test("before one, a stream that breaks or ends fails, and what came before is shown", async () => {
  const broken = new Held();
  await using llama = new FakeLlama(
    () => broken.response,
    () => streaming(chunk({ content: "b" })),
    () => streaming(),
  );
  const client = new Client(llama);
  const answer = client.answer();
  await broken.send(chunk({ content: "a" }));
  await until("the text", () => client.text === "a");
  await broken.breakOff();
  await fails(answer, "the connection to the model server failed");
  await fails(client.answer(), "the model server's stream ended before the answer");
  await fails(client.answer(), "the model server's stream ended before the answer");
  assert.equal(client.text, "ab");
});

Deno.test("a line without an end, a wrong index and bytes that are nothing fail one answer", async () => {
  const endless = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new Uint8Array(MAX_LINE_BYTES / 4).fill(0x78)),
  });
  const wrongIndex = chunk({ tool_calls: [{ index: 1e9, function: { name: "clock" } }] });
  await using llama = new FakeLlama(
    () => new Response(endless),
    () => streaming(START, wrongIndex, null),
    () => streaming(event("not JSON"), null),
    () => streaming(event({ error: { message: "out of memory" } }), null),
    () => streaming(new Uint8Array([0xff, 0xfe, 0x00, 0x0a, 0x0a])),
    () => streaming(utf8("data: "), new Uint8Array([0xff]), utf8("\n\n")),
    saying("still here"),
  );
  const client = new Client(llama);
  await fails(client.answer(), "the model server sent a line that is too long");
  await fails(client.answer(), /index is not 0 to 63/);
  await fails(client.answer(), "the model server sent something that is not JSON");
  await fails(client.answer(), "the model server reports an error: out of memory");
  await fails(client.answer(), /stream ended/);
  await fails(client.answer(), /not JSON/);
  await client.answer();
  assert.equal(client.text, "still here");
});

Deno.test("a stream that goes on after [DONE] is left, and the request ends", async () => {
  const held = new Held();
  await using llama = new FakeLlama(() => held.response);
  const client = new Client(llama);
  const answer = client.answer();
  await held.send(chunk({ content: "a" }) + DONE + chunk({ content: "b" }));
  await answer;
  assert.equal(client.text, "a");
  await within("end of the request", held.cancelled);
});

Deno.test("the signal ends the request before its answer, within it and while text is taken", async () => {
  const reason = new Error("the client is gone");
  const headers = Promise.withResolvers<Response>();
  const asked = Promise.withResolvers<void>();
  const held = [new Held(), new Held()];
  await using llama = new FakeLlama(
    () => {
      asked.resolve();
      return headers.promise;
    },
    ...held.map(({ response }) => () => response),
  );
  const client = new Client(llama);

  const early = new AbortController();
  const first = client.answer(early.signal);
  await within("request", asked.promise);
  early.abort(reason);
  await assert.rejects(first, reason);
  headers.resolve(new Response());

  const waiting = new AbortController();
  const second = client.answer(waiting.signal, () => {
    waiting.abort(reason);
    return Promise.resolve();
  });
  await held[0]?.send(chunk({ content: "a" }));
  await assert.rejects(second, reason);
  await within("end of the request", held[0]?.cancelled ?? Promise.reject());

  const finished = new AbortController();
  const third = client.answer(finished.signal, () => {
    finished.abort(reason);
    return Promise.reject(reason);
  });
  await held[1]?.send(saying("a"));
  await assert.rejects(third, reason);
});
