import assert from "node:assert/strict";
import { encodeFrame, MAX_REQUEST_BYTES } from "../../proto/frames.ts";
import { type Exchange, serve, type Server, type ServerOptions } from "../../proto/io/server.ts";
import { listen } from "../../proto/io/socket.ts";
import type { Body, Message } from "../../proto/messages.ts";
import { utf8 } from "../../proto/text.ts";
import { ask, DEADLINE_MS, frame, RawClient, until, within } from "../support/broker.ts";

type Options = Partial<Omit<ServerOptions<"loop.sock">, "listener" | "socket">>;
type Handle = ServerOptions<"loop.sock">["handle"];

const MAX_WAITING = 128;

const DONE: Message<"turn_event"> = { kind: "turn_event", final: true, body: { type: "done" } };
const CHAT: Body<"chat"> = { session: null, text: "hello" };

/** A server of loop.sock in a temporary directory; it answers `done` unless told otherwise. */
class Bench implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-io-" });
  readonly path = `${this.root}/s/loop.sock`;
  readonly requests: Message[] = [];
  readonly forbidden: string[] = [];
  readonly failures: unknown[] = [];
  readonly server: Server;

  constructor(options: Options = {}) {
    const handle: Handle = options.handle ??
      (async (_, exchange) => void await exchange.send(DONE));
    this.server = serve({
      listener: listen(this.path),
      socket: "loop.sock",
      sendTimeoutMs: DEADLINE_MS,
      forbidden: (kind) => this.forbidden.push(kind),
      failed: (error) => this.failures.push(error),
      ...options,
      handle: (request, exchange) => {
        this.requests.push(request);
        return handle(request, exchange);
      },
    });
  }

  async connect(): Promise<RawClient> {
    return await RawClient.connect(this.path);
  }

  /** Sends `text` and gives the one answer. */
  async answerTo(text: string): Promise<Message | null> {
    using client = await this.connect();
    await client.send(text);
    const answer = await client.next();
    assert.equal(await client.line(), null, "then the server closes");
    return answer;
  }

  [Symbol.dispose](): void {
    this.server.stop();
    Deno.removeSync(this.root, { recursive: true });
  }
}

const codeOf = (message: Message | null) => message?.kind === "error" ? message.body.code : null;

Deno.test("one connection carries one request and its answers", async () => {
  const more: Message<"turn_event"> = {
    kind: "turn_event",
    final: false,
    body: { type: "text", text: "a" },
  };
  using bench = new Bench({
    handle: async (_, exchange) => {
      assert.ok(await exchange.send(more));
      assert.ok(await exchange.send(DONE));
    },
  });
  assert.deepEqual(await ask(bench.path, "chat", CHAT), [more, DONE]);
  assert.deepEqual(bench.requests, [{ kind: "chat", final: true, body: CHAT }]);
});

Deno.test("a request of exactly 1 MiB, its newline included, is taken, and one byte more is not", async () => {
  using bench = new Bench();
  const empty = utf8(frame("chat", { session: null, text: "" })).length;
  const sized = (bytes: number) =>
    frame("chat", { session: null, text: "a".repeat(bytes - empty) });
  assert.deepEqual(await bench.answerTo(sized(MAX_REQUEST_BYTES)), DONE);
  assert.equal(bench.requests.length, 1);

  using client = await bench.connect();
  // The server may close before it has taken all of it.
  await client.send(sized(MAX_REQUEST_BYTES + 1)).catch(() => {});
  assert.equal(codeOf(await client.next()), "too_large");
  assert.equal(await client.line(), null);
  assert.equal(bench.requests.length, 1);
});

Deno.test("a limit counts bytes, not characters", async () => {
  using bench = new Bench();
  const text = "é".repeat(MAX_REQUEST_BYTES / 2);
  using client = await bench.connect();
  await client.send(frame("chat", { session: null, text })).catch(() => {});
  assert.equal(codeOf(await client.next()), "too_large");
});

Deno.test("1 MiB without a newline is too large", async () => {
  using bench = new Bench();
  using client = await bench.connect();
  await client.send("a".repeat(MAX_REQUEST_BYTES)).catch(() => {});
  assert.equal(codeOf(await client.next()), "too_large");
});

Deno.test("1 MiB less one byte without a newline may still become a request", async () => {
  using bench = new Bench();
  const whole = frame("chat", {
    session: null,
    text: "a".repeat(MAX_REQUEST_BYTES - frame("chat", { session: null, text: "" }).length),
  });
  using client = await bench.connect();
  await client.send(whole.slice(0, -1));
  await client.send("\n");
  assert.deepEqual(await client.next(), DONE);
});

Deno.test("a request may come byte by byte", async () => {
  using bench = new Bench();
  using client = await bench.connect();
  for (const character of frame("chat", CHAT)) await client.send(character);
  assert.deepEqual(await client.next(), DONE);
  assert.deepEqual(bench.requests.map(({ body }) => body), [CHAT]);
});

Deno.test("what follows the first frame is ignored", async () => {
  using bench = new Bench();
  for (const more of [frame("chat", CHAT), "junk", "junk\n\n", "\0".repeat(100_000)]) {
    bench.requests.length = 0;
    using client = await bench.connect();
    await client.send(frame("chat", CHAT) + more).catch(() => {});
    assert.deepEqual(await client.next(), DONE);
    assert.equal(await client.line(), null);
    assert.equal(bench.requests.length, 1);
  }
});

Deno.test("a connection that ends in the middle of a line gets no answer", async () => {
  using bench = new Bench();
  for (const part of ["", "{", frame("chat", CHAT).slice(0, -1), "junk"]) {
    using conn = await Deno.connect({ transport: "unix", path: bench.path });
    await conn.write(utf8(part));
    await conn.closeWrite();
    const read = conn.read(new Uint8Array(100)).catch(() => null);
    assert.equal(await within("end of the connection", read), null);
  }
  assert.deepEqual(bench.requests, []);
  assert.deepEqual(bench.failures, []);
  assert.deepEqual(await bench.answerTo(frame("chat", CHAT)), DONE, "with its newline it has one");
});

Deno.test("what is not a request is answered with its error", async () => {
  using bench = new Bench();
  const good = frame("chat", CHAT);
  const bad = {
    "\n": "bad_frame",
    " \n": "bad_frame",
    [good.replace(",", ", ")]: "bad_frame",
    [good.replace("true", "false")]: "bad_frame",
    [good.replace('"v":1,', "")]: "bad_frame",
    [good.replace("\n", "\r\n")]: "bad_frame",
    [good.replace("chat", "chats")]: "bad_frame",
    [good.replace('"v":1', '"v":2')]: "unsupported_version",
  };
  for (const [text, code] of Object.entries(bad)) {
    assert.equal(codeOf(await bench.answerTo(text)), code, text);
  }
  assert.deepEqual(bench.forbidden, []);
  assert.deepEqual(bench.requests, []);
  assert.deepEqual(await bench.answerTo(good), DONE);
});

Deno.test("a known kind on the wrong socket is forbidden, and the daemon is told", async () => {
  using bench = new Bench();
  assert.equal(codeOf(await bench.answerTo(frame("approve", { approval: 41 }))), "forbidden");
  assert.equal(codeOf(await bench.answerTo(frame("tool_request", null))), "forbidden");
  assert.deepEqual(bench.forbidden, ["approve", "tool_request"]);
  assert.deepEqual(bench.requests, []);
});

Deno.test("a request that is not complete in time is answered with timeout", async () => {
  using bench = new Bench({ requestTimeoutMs: 50 });
  for (const part of ["", frame("chat", CHAT).slice(0, -1)]) {
    assert.equal(codeOf(await bench.answerTo(part)), "timeout");
  }
  assert.deepEqual(bench.requests, []);
  assert.deepEqual(bench.failures, []);
});

Deno.test("a request that drips in does not get more time", async () => {
  using bench = new Bench({ requestTimeoutMs: 100 });
  using client = await bench.connect();
  const answer = client.next();
  let answered = false;
  void answer.then(() => answered = true);
  const dripping = until("timeout", async () => {
    await client.send("a").catch(() => {});
    return answered;
  });
  assert.equal(codeOf(await answer), "timeout");
  await dripping;
});

Deno.test("the time of a request does not run while it is handled", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  using bench = new Bench({
    requestTimeoutMs: 50,
    handle: async (_, exchange) => {
      await promise;
      await exchange.send(DONE);
    },
  });
  using waiting = await bench.connect();
  await waiting.send(frame("chat", CHAT));
  await until("request", () => bench.requests.length === 1);
  assert.equal(codeOf(await bench.answerTo("")), "timeout", "that long another one waited");
  resolve();
  assert.deepEqual(await waiting.next(), DONE);
});

Deno.test("128 connections may wait; one more closes the oldest of them", async () => {
  using bench = new Bench();
  const clients: RawClient[] = [];
  try {
    for (let n = 0; n < MAX_WAITING; n += 1) clients.push(await bench.connect());
    const [first, second] = clients;
    assert.ok(first && second);
    await first.send("{"); // an unfinished request waits as well as one that did not begin
    clients.push(await bench.connect());
    assert.equal(codeOf(await first.next()), "timeout");
    assert.equal(await first.line(), null);
    clients.push(await bench.connect());
    assert.equal(codeOf(await second.next()), "timeout", "the next one closes the next oldest");
    for (const client of clients.slice(2)) await client.send(frame("chat", CHAT));
    for (const client of clients.slice(2)) assert.deepEqual(await client.next(), DONE);
    assert.equal(bench.requests.length, MAX_WAITING);
  } finally {
    for (const client of clients) client[Symbol.dispose]();
  }
});

Deno.test("128 connections may wait, and every one of them is answered", async () => {
  using bench = new Bench();
  const clients: RawClient[] = [];
  try {
    for (let n = 0; n < MAX_WAITING; n += 1) clients.push(await bench.connect());
    for (const client of clients) await client.send(frame("chat", CHAT));
    for (const client of clients) assert.deepEqual(await client.next(), DONE);
  } finally {
    for (const client of clients) client[Symbol.dispose]();
  }
});

Deno.test("calls that run do not count among those that wait", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  using bench = new Bench({
    handle: async (_, exchange) => {
      await promise;
      await exchange.send(DONE);
    },
  });
  const clients: RawClient[] = [];
  try {
    for (let n = 0; n < MAX_WAITING + 10; n += 1) {
      const client = await bench.connect();
      clients.push(client);
      await client.send(frame("chat", CHAT));
      await until("request", () => bench.requests.length === n + 1);
    }
    resolve();
    for (const client of clients) assert.deepEqual(await client.next(), DONE);
  } finally {
    for (const client of clients) client[Symbol.dispose]();
  }
});

const LARGE: Message<"turn_event"> = {
  kind: "turn_event",
  final: true,
  body: { type: "failed", message: "a".repeat(2_000_000) },
};

Deno.test("a client that does not read holds nobody up, and is given up in time", async () => {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  using bench = new Bench({
    sendTimeoutMs: 200,
    handle: async (request, exchange) => {
      if (request.body.session !== null) return void await exchange.send(DONE);
      resolve(await exchange.send(LARGE));
    },
  });
  using slow = await bench.connect();
  await slow.send(frame("chat", CHAT));
  await until("request", () => bench.requests.length === 1);
  const other = frame("chat", { session: "s1", text: "" });
  assert.deepEqual(await bench.answerTo(other), DONE);
  assert.equal(await within("end of the sending", promise), false);
  assert.deepEqual(await bench.answerTo(other), DONE);
  assert.deepEqual(bench.failures, []);
});

Deno.test("of answers that nobody reads 256 MiB are kept: then the one that waits longest is given up", async () => {
  const given: string[] = [];
  using bench = new Bench({
    // Longer than the test waits: not the time gives them up.
    sendTimeoutMs: 10 * DEADLINE_MS,
    handle: async (request, exchange) => {
      const { body } = request;
      if (body.session !== null) return void await exchange.send(DONE);
      if (!await exchange.send(LARGE)) given.push("text" in body ? body.text : "");
    },
  });
  const clients: RawClient[] = [];
  try {
    const fitting = Math.floor(256 * MAX_REQUEST_BYTES / encodeFrame(LARGE).length);
    for (let n = 0; n < fitting + 2; n += 1) {
      const client = await bench.connect();
      clients.push(client);
      await client.send(frame("chat", { session: null, text: `${n}` }));
      await until("request", () => bench.requests.length === n + 1);
    }
    await until("end of the first ones", () => given.length === 2);
    assert.deepEqual(given, ["0", "1"]);
    assert.deepEqual(await clients.at(-1)?.next(), LARGE, "the others are still sent");
    const other = frame("chat", { session: "s1", text: "" });
    assert.deepEqual(await bench.answerTo(other), DONE);
    assert.deepEqual(bench.failures, []);
  } finally {
    for (const client of clients) client[Symbol.dispose]();
  }
});

Deno.test("bad frames are refused one by one, and a good one does not wait for them", async () => {
  using bench = new Bench();
  const refused: number[] = [];
  const bad = Array.from({ length: 100 }, async (_, n) => {
    assert.equal(codeOf(await bench.answerTo(`${"x".repeat(20_000)}\n`)), "bad_frame");
    refused.push(n);
  });
  await until("a refusal", () => refused.length > 0);
  assert.deepEqual(await bench.answerTo(frame("chat", CHAT)), DONE);
  assert(refused.length < bad.length, "most are still to be refused");
  await Promise.all(bad);
});

Deno.test("a client that reads gets an answer of any size", async () => {
  using bench = new Bench({ handle: async (_, exchange) => void await exchange.send(LARGE) });
  assert.deepEqual(await bench.answerTo(frame("chat", CHAT)), LARGE);
});

Deno.test("a handler that throws is answered with internal, and the daemon is told", async () => {
  const bug = new Error("a bug, with /a/path in it");
  using bench = new Bench({
    handle: (request, exchange) =>
      request.body.session === null ? Promise.reject(bug) : exchange.send(DONE).then(() => {}),
  });
  const answer = await bench.answerTo(frame("chat", CHAT));
  assert.equal(codeOf(answer), "internal");
  assert.ok(!JSON.stringify(answer).includes("/a/path"), "the client learns nothing of it");
  assert.deepEqual(bench.failures, [bug]);
  assert.deepEqual(await bench.answerTo(frame("chat", { session: "s1", text: "" })), DONE);
});

Deno.test("an answer that does not fit its kind is a bug, not an answer", async () => {
  const wrong: Message<"tool_response"> = {
    kind: "tool_response",
    final: true,
    body: { status: "failed", message: "\ud800" },
  };
  using bench = new Bench({ handle: async (_, exchange) => void await exchange.send(wrong) });
  assert.equal(codeOf(await bench.answerTo(frame("chat", CHAT))), "internal");
  assert.equal(bench.failures.length, 1);
});

Deno.test("a handler learns that its client has gone", async () => {
  const { promise, resolve } = Promise.withResolvers<Exchange>();
  using bench = new Bench({
    handle: async (_, exchange) => {
      await exchange.whenGone();
      resolve(exchange);
    },
  });
  {
    using client = await bench.connect();
    await client.send(frame("chat", CHAT));
    await until("request", () => bench.requests.length === 1);
    await client.send("more, which is ignored");
  }
  const exchange = await within("end of the client", promise);
  assert.equal(await exchange.send(DONE), false);
});

Deno.test("stop closes every connection and the listener", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  using bench = new Bench({
    handle: async (_, exchange) => {
      await exchange.whenGone();
      resolve();
    },
  });
  using waiting = await bench.connect();
  using running = await bench.connect();
  await waiting.send("{");
  await running.send(frame("chat", CHAT));
  await until("request", () => bench.requests.length === 1);
  bench.server.stop();
  bench.server.stop(); // as by a second signal
  assert.equal(await waiting.line(), null);
  assert.equal(await running.line(), null);
  await within("end of the handler", promise);
  await assert.rejects(Deno.connect({ transport: "unix", path: bench.path }));
  assert.deepEqual(bench.failures, []);
});

Deno.test("every frame that is sent is one line in its one form", async () => {
  using bench = new Bench();
  using client = await bench.connect();
  await client.send(frame("chat", CHAT));
  const line = await client.line() ?? assert.fail();
  assert.deepEqual(new Uint8Array([...line, 0x0a]), encodeFrame(DONE));
});
