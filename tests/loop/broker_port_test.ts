/** Tool calls over a real broker.sock, with a brokerd that does as it is told. */
import assert from "node:assert/strict";
import { BrokerPort, noBroker, type Patience } from "../../loop/broker_port.ts";
import { makeNotices } from "../../loop/notices.ts";
import { encodeFrame, MAX_REQUEST_BYTES } from "../../proto/frames.ts";
import { listen } from "../../proto/io/socket.ts";
import type {
  FinalToolResponse,
  Message,
  PendingResponse,
  ToolRequest,
} from "../../proto/messages.ts";
import { within } from "../support/broker.ts";
import { Gate } from "../support/daemons.ts";

const NOW = Date.parse("2026-12-01T10:00:00.000Z");
const REQUEST: ToolRequest = {
  session: "s1",
  call: "call00001",
  tool: "read_file",
  arguments: '{"path":"/n/a"}',
};
const RESULT: FinalToolResponse = {
  status: "result",
  content: "milk",
  class: "private",
  untrusted: false,
  truncated: false,
};
const PENDING: PendingResponse = {
  status: "pending_approval",
  approval: 41,
  expires: "2026-12-01T10:15:00.000Z",
};
const UNAVAILABLE: FinalToolResponse = {
  status: "failed",
  message: "the tool broker is unavailable",
};
const never = new AbortController().signal;

const response = (body: FinalToolResponse | PendingResponse, final = true) =>
  encodeFrame({ kind: "tool_response", final, body });
const raw = (text: string) => new TextEncoder().encode(text);

/** What the fake does once it has the whole request; then it closes. */
type Script = (write: (bytes: Uint8Array) => Promise<void>, gone: Promise<void>) => Promise<void>;

/** A brokerd of plain bytes, and a port to it. */
class Fixture implements AsyncDisposable {
  readonly directory = Deno.makeTempDirSync({ prefix: "boxmaker-" });
  readonly path = `${this.directory}/run/broker.sock`;
  readonly requests: string[] = [];
  readonly said: string[] = [];
  readonly port: BrokerPort;
  readonly #listener: Deno.UnixListener | null;
  readonly #serving: Promise<void>;

  /** `script` null: nobody listens. */
  constructor(script: Script | null, patience?: Patience, now = NOW) {
    const notices = makeNotices((...lines) => this.said.push(...lines));
    this.port = new BrokerPort(this.path, notices, () => now, patience);
    this.#listener = script === null ? null : listen(this.path);
    this.#serving = script === null ? Promise.resolve() : this.#serve(script);
  }

  async #serve(script: Script): Promise<void> {
    for await (const conn of this.#listener ?? []) {
      try {
        this.requests.push(await readLine(conn));
        const write = async (bytes: Uint8Array) => {
          for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
        };
        const gone = conn.read(new Uint8Array(1)).then(() => {}, () => {});
        await script(write, gone);
      } finally {
        conn.close();
      }
    }
  }

  async call(
    onPending: (pending: PendingResponse) => Promise<void> = () => Promise.resolve(),
    signal = never,
    request = REQUEST,
  ): Promise<FinalToolResponse> {
    return await within("answer of the port", this.port.call(request, onPending, signal));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener?.close();
    await this.#serving;
    Deno.removeSync(this.directory, { recursive: true });
  }
}

async function readLine(conn: Deno.Conn): Promise<string> {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(64 * 1024);
  let line = "";
  while (!line.endsWith("\n")) {
    const count = await conn.read(buffer);
    if (count === null) break;
    line += decoder.decode(buffer.subarray(0, count), { stream: true });
  }
  return line;
}

Deno.test("a request goes out in its one form, and each final answer comes back", async () => {
  const answers: FinalToolResponse[] = [
    RESULT,
    { status: "failed", message: "the runner arrives in M3b" },
    { status: "denied", reason: "no_grant" },
  ];
  let next = 0;
  await using fixture = new Fixture((write) => write(response(answers[next++] ?? RESULT)));
  for (const answer of answers) assert.deepEqual(await fixture.call(), answer);
  assert.equal(
    fixture.requests[0],
    '{"v":1,"kind":"tool_request","final":true,"body":{"session":"s1","call":"call00001",' +
      '"tool":"read_file","arguments":"{\\"path\\":\\"/n/a\\"}"}}\n',
  );
  assert.deepEqual(fixture.said, []);
});

Deno.test("a call that waits for its approval is told of, and then answered", async () => {
  const decided = new Gate();
  await using fixture = new Fixture(async (write) => {
    await write(response(PENDING, false));
    await decided.opened;
    await write(response(RESULT));
  });
  const seen: PendingResponse[] = [];
  const answer = await fixture.call((pending) => {
    seen.push(pending);
    decided.open();
    return Promise.resolve();
  });
  assert.deepEqual(seen, [PENDING]);
  assert.deepEqual(answer, RESULT);
});

Deno.test("a broker that is not there, or goes away, is unavailable, and is told of once", async () => {
  await using nobody = new Fixture(null);
  for (let count = 0; count < 3; count++) assert.deepEqual(await nobody.call(), UNAVAILABLE);
  assert.deepEqual(nobody.said, [
    `the tool broker at ${nobody.path} is unavailable: nobody listens there`,
    "see docs/runbook.md#broker-unavailable",
  ]);

  const scripts: Record<string, Script> = {
    "closes at once": () => Promise.resolve(),
    "closes in a frame": (write) => write(response(RESULT).subarray(0, 30)),
    "closes while the owner is asked": (write) => write(response(PENDING, false)),
  };
  for (const [name, script] of Object.entries(scripts)) {
    await using fixture = new Fixture(script);
    assert.deepEqual(await fixture.call(), UNAVAILABLE, name);
    assert.deepEqual(fixture.said, [
      `the tool broker at ${fixture.path} is unavailable: it ended the connection without an answer`,
      "see docs/runbook.md#broker-unavailable",
    ]);
  }
});

Deno.test("once the broker answers again, that is told too", async () => {
  let there = false;
  await using fixture = new Fixture((write) => there ? write(response(RESULT)) : Promise.resolve());
  await fixture.call();
  there = true;
  await fixture.call();
  await fixture.call();
  assert.equal(fixture.said.filter((line) => line === "the tool broker answers again").length, 1);
});

Deno.test("what is not an answer is none", async () => {
  const pending = response(PENDING, false);
  const scripts: Record<string, readonly Uint8Array[]> = {
    "garbage": [raw("garbage\n")],
    "another kind": [
      encodeFrame({ kind: "turn_event", final: true, body: { type: "done" } }),
    ],
    "a result that is not final": [response(RESULT, false)],
    "a pending that is final": [response(PENDING, true)],
    "two pendings": [pending, pending],
    "white space": [raw(new TextDecoder().decode(response(RESULT)).replace(":", ": "))],
    "a lone surrogate": [
      raw(new TextDecoder().decode(response(RESULT)).replace("milk", "\\ud800")),
    ],
    "a frame that is too large": [raw("x".repeat(2 * 1024 * 1024 + 1))],
  };
  for (const [name, frames] of Object.entries(scripts)) {
    await using fixture = new Fixture(async (write, gone) => {
      for (const bytes of frames) await write(bytes).catch(() => {});
      await gone;
    });
    assert.deepEqual(await fixture.call(), UNAVAILABLE, name);
    assert.match(fixture.said[0] ?? "", /it answered something that is not an answer$/, name);
  }
});

Deno.test("an error of the broker fails the call in our words, and is told with its code", async () => {
  const error: Message = {
    kind: "error",
    final: true,
    body: { code: "bad_frame", message: "words of the other side" },
  };
  await using fixture = new Fixture((write) => write(encodeFrame(error)));
  const message = "the tool broker refused the request";
  assert.deepEqual(await fixture.call(), { status: "failed", message });
  assert.deepEqual(fixture.said, [
    `the tool broker at ${fixture.path} refused a tool request: bad_frame`,
    "see docs/runbook.md#broker-unavailable",
  ]);
});

Deno.test("a request that no frame can hold is not sent; one that just fits is", async () => {
  await using fixture = new Fixture((write) => write(response(RESULT)));
  const empty = { ...REQUEST, arguments: "" };
  const rest = encodeFrame({ kind: "tool_request", final: true, body: empty }).length;
  const fits = "x".repeat(MAX_REQUEST_BYTES - rest);
  const asked = (text: string) => fixture.call(undefined, never, { ...REQUEST, arguments: text });
  assert.deepEqual(await asked(fits), RESULT);
  assert.deepEqual(await asked(fits + "x"), {
    status: "failed",
    message: "the call is too large: with its arguments it is at most 1 MiB",
  });
  assert.equal(fixture.requests.length, 1);
  assert.deepEqual(fixture.said, []);
});

Deno.test("the first frame, and the last after an approval has expired, are waited for so long", async () => {
  const patience = { firstMs: 150, afterExpiryMs: 150 };
  await using silent = new Fixture((_, gone) => gone, patience);
  assert.deepEqual(await silent.call(), UNAVAILABLE);
  assert.match(silent.said[0] ?? "", /it did not answer in time$/);

  const pendingOnly: Script = async (write, gone) => {
    await write(response(PENDING, false));
    await gone;
  };
  // It is as late as the approval expires; an hour later still only the time after it is waited.
  for (const late of [0, 3_600_000]) {
    await using expired = new Fixture(pendingOnly, patience, Date.parse(PENDING.expires) + late);
    assert.deepEqual(await expired.call(), UNAVAILABLE);
    assert.match(expired.said[0] ?? "", /it did not answer in time$/);
  }
});

Deno.test("an approval that expired long ago still leaves time for the answer", async () => {
  const now = Date.parse(PENDING.expires) + 3_600_000;
  await using fixture = new Fixture(
    async (write) => {
      await write(response(PENDING, false));
      await new Promise((resolve) => setTimeout(resolve, 50));
      await write(response({ status: "denied", reason: "approval_expired" }));
    },
    undefined,
    now,
  );
  assert.deepEqual(await fixture.call(), { status: "denied", reason: "approval_expired" });
});

Deno.test("while the approval has not expired the answer is waited for, however late", async () => {
  const patience = { firstMs: 100, afterExpiryMs: 1 };
  const far: PendingResponse = { ...PENDING, expires: "9999-01-01T00:00:00.000Z" };
  for (const pending of [PENDING, far]) {
    await using fixture = new Fixture(async (write) => {
      await write(response(pending, false));
      // Longer than the first frame may take.
      await new Promise((resolve) => setTimeout(resolve, 200));
      await write(response(RESULT));
    }, patience);
    assert.deepEqual(await fixture.call(), RESULT);
  }
});

Deno.test("a call is dropped when its client goes away: before the answer and while it waits", async () => {
  const reason = new Error("the client is gone");
  for (const waits of [false, true]) {
    const dropped = new Gate();
    const asked = new Gate();
    await using fixture = new Fixture(async (write, gone) => {
      if (waits) await write(response(PENDING, false));
      asked.open();
      await gone;
      dropped.open();
    });
    const client = new AbortController();
    const call = fixture.call(undefined, client.signal);
    await within("request", asked.opened);
    client.abort(reason);
    await assert.rejects(call, reason);
    await within("end of the connection", dropped.opened);
    assert.deepEqual(fixture.said, [], "that is no fault of the broker");
  }
  await using nobody = new Fixture(null);
  await assert.rejects(nobody.call(undefined, AbortSignal.abort(reason)), reason);
});

Deno.test("what the teller of approvals throws comes out, and the call is dropped", async () => {
  const dropped = new Gate();
  await using fixture = new Fixture(async (write, gone) => {
    await write(response(PENDING, false));
    await gone;
    dropped.open();
  });
  const broken = new Error("nobody to tell");
  await assert.rejects(fixture.call(() => Promise.reject(broken)), broken);
  await within("end of the connection", dropped.opened);
});

Deno.test({
  name: "without a broker every call fails, in words for the model",
  permissions: "none",
  async fn() {
    const answer = await noBroker.call(REQUEST, () => Promise.resolve(), never);
    assert.deepEqual(answer, { status: "failed", message: "no tool broker is configured" });
  },
});
