import assert from "node:assert/strict";
import { encodeFrame, MAX_ANSWER_BYTES, MAX_REQUEST_BYTES } from "../../proto/frames.ts";
import { Call, ClientError, type ClientFailure } from "../../proto/io/client.ts";
import { listen } from "../../proto/io/socket.ts";
import type { Message } from "../../proto/messages.ts";
import { utf8 } from "../../proto/text.ts";
import { DEADLINE_MS, frame, within } from "../support/broker.ts";
import { leaveSocket } from "../support/sockets.ts";

const REQUEST: Message<"approve"> = { kind: "approve", final: true, body: { approval: 41 } };
const RESULT: Message<"approve_result"> = {
  kind: "approve_result",
  final: true,
  body: { outcome: { outcome: "ask" } },
};
const KINDS = ["approve_result", "error"] as const;

/** A listener whose side of each connection is `talk`. */
class Peer implements AsyncDisposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-io-" });
  readonly path = `${this.root}/s/admin.sock`;
  readonly #listener = listen(this.path);
  readonly #done: Promise<void>;

  constructor(talk: (conn: Deno.UnixConn) => Promise<void>) {
    this.#done = (async () => {
      for await (const conn of this.#listener) {
        await talk(conn).catch(() => {});
        conn.close();
      }
    })();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await within("end of the peer", this.#done);
    Deno.removeSync(this.root, { recursive: true });
  }
}

async function write(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

/** Reads a request to its newline. */
async function read(conn: Deno.Conn): Promise<string> {
  let text = "";
  const chunk = new Uint8Array(64 * 1024);
  while (!text.endsWith("\n")) {
    const count = await conn.read(chunk);
    if (count === null) return text;
    text += new TextDecoder().decode(chunk.subarray(0, count));
  }
  return text;
}

/** The first answer of a peer that sends `bytes`. */
async function firstAnswer(bytes: Uint8Array): Promise<Message> {
  await using peer = new Peer(async (conn) => {
    await read(conn);
    await write(conn, bytes);
  });
  const call = await Call.open(peer.path, REQUEST, KINDS);
  try {
    return await call.next(DEADLINE_MS);
  } finally {
    call.close();
  }
}

async function failsAs(
  failure: ClientFailure,
  promise: Promise<unknown>,
  what = "",
): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof ClientError, `${what}: ${error}`);
    assert.equal(error.failure, failure, what);
    return true;
  });
}

Deno.test("a client sends the request's one form and reads the answers in turn", async () => {
  const requests: string[] = [];
  await using peer = new Peer(async (conn) => {
    requests.push(await read(conn));
    await write(conn, new Uint8Array([...encodeFrame(RESULT), ...encodeFrame(RESULT)]));
  });
  const call = await Call.open(peer.path, REQUEST, KINDS);
  assert.deepEqual(await call.next(DEADLINE_MS), RESULT);
  assert.deepEqual(await call.next(DEADLINE_MS), RESULT);
  await failsAs("closed", call.next(DEADLINE_MS));
  call.close();
  call.close();
  assert.deepEqual(requests, [frame("approve", { approval: 41 })]);
});

Deno.test("where nobody listens is unreachable", async () => {
  const root = Deno.makeTempDirSync({ prefix: "boxmaker-io-" });
  try {
    await failsAs("unreachable", Call.open(`${root}/none.sock`, REQUEST, KINDS), "no file");
    Deno.writeTextFileSync(`${root}/file`, "");
    await failsAs("unreachable", Call.open(`${root}/file`, REQUEST, KINDS), "a file");
    leaveSocket(`${root}/stale.sock`);
    await failsAs("unreachable", Call.open(`${root}/stale.sock`, REQUEST, KINDS), "a stale socket");
  } finally {
    Deno.removeSync(root, { recursive: true });
  }
});

Deno.test("a process that may not connect is told so", { permissions: "none" }, async () => {
  await failsAs("no_permission", Call.open("/nowhere/admin.sock", REQUEST, KINDS));
});

Deno.test("a request larger than 1 MiB is not sent, and one of 1 MiB is", async () => {
  await using peer = new Peer(async (conn) => {
    const text = await read(conn);
    await write(conn, encodeFrame(text.length === MAX_REQUEST_BYTES ? RESULT : REQUEST));
  });
  const empty: Message<"chat"> = { kind: "chat", final: true, body: { session: null, text: "" } };
  const sized = (bytes: number): Message<"chat"> => ({
    ...empty,
    body: { session: null, text: "a".repeat(bytes - encodeFrame(empty).length) },
  });
  await failsAs("request_too_large", Call.open(peer.path, sized(MAX_REQUEST_BYTES + 1), KINDS));
  const call = await Call.open(peer.path, sized(MAX_REQUEST_BYTES), KINDS);
  assert.deepEqual(await call.next(DEADLINE_MS), RESULT);
  call.close();
});

Deno.test("an answer counts though the server closes before it has read the request", async () => {
  const timeout: Message<"error"> = {
    kind: "error",
    final: true,
    body: { code: "timeout", message: "in words" },
  };
  await using peer = new Peer((conn) => write(conn, encodeFrame(timeout)));
  const request: Message<"chat"> = {
    kind: "chat",
    final: true,
    body: { session: null, text: "a".repeat(1_000_000) },
  };
  const call = await Call.open(peer.path, request, KINDS);
  assert.deepEqual(await call.next(DEADLINE_MS), timeout);
  call.close();
});

Deno.test("a connection that ends without an answer is closed, in the middle of one too", async () => {
  const bytes = encodeFrame(RESULT);
  await failsAs("closed", firstAnswer(new Uint8Array()));
  await failsAs("closed", firstAnswer(bytes.slice(0, -1)));
  assert.deepEqual(await firstAnswer(bytes), RESULT);
});

Deno.test("an answer that does not come in time is a timeout", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  await using peer = new Peer(async (conn) => {
    await write(conn, utf8("{"));
    await promise;
  });
  const call = await Call.open(peer.path, REQUEST, KINDS);
  await failsAs("timeout", call.next(50));
  call.close();
  resolve();
});

Deno.test("what is no answer of the kinds expected is a bad answer", async () => {
  const good = new TextDecoder().decode(encodeFrame(RESULT));
  const bad = {
    "junk": "junk\n",
    "an empty line": "\n",
    "another form": good.replace(",", ", "),
    "another version": good.replace('"v":1', '"v":2'),
    "another kind": frame("ok", {}),
    "a request": frame("approve", { approval: 41 }),
    "a wrong body": frame("approve_result", {}),
  };
  for (const [what, text] of Object.entries(bad)) {
    await failsAs("bad_answer", firstAnswer(utf8(text)), what);
  }
  await failsAs("bad_answer", firstAnswer(new Uint8Array([0xff, 0x0a])), "not UTF-8");
});

Deno.test("an answer of exactly 2 MiB is read, and one byte more is a bad answer", async () => {
  const error = (size: number): Message<"error"> => ({
    kind: "error",
    final: true,
    body: { code: "internal", message: "a".repeat(size) },
  });
  const most = MAX_ANSWER_BYTES - encodeFrame(error(0)).length;
  assert.deepEqual(await firstAnswer(encodeFrame(error(most))), error(most));
  await failsAs("bad_answer", firstAnswer(encodeFrame(error(most + 1))));
  await failsAs("bad_answer", firstAnswer(utf8("a".repeat(MAX_ANSWER_BYTES))), "no newline");
});
