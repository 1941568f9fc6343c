/** What bxctl makes of a socket that gives no answer, or none that it understands. */
import assert from "node:assert/strict";
import { Admin } from "../../ctl/admin.ts";
import { Failed, noAnswer } from "../../ctl/notices.ts";
import { Turn } from "../../ctl/turn.ts";
import { ClientError, type ClientFailure } from "../../proto/io/client.ts";
import { CtlHome } from "../support/ctl.ts";
import { forEach, until, within } from "../support/broker.ts";

const EXPIRES = "2026-12-01T10:13:00.000Z";

/** A socket at `path` that reads a line of each client, writes `bytes` and after `release` closes. */
function answering(path: string, bytes: string, release = Promise.resolve()): Disposable {
  const listener = Deno.listen({ transport: "unix", path });
  (async () => {
    for await (const conn of listener) {
      await conn.read(new Uint8Array(4096)).catch(() => null);
      await conn.write(new TextEncoder().encode(bytes)).catch(() => 0);
      await release;
      conn.close();
    }
  })();
  return { [Symbol.dispose]: () => listener.close() };
}

const frame = (kind: string, body: unknown, final = true) =>
  JSON.stringify({ v: 1, kind, final, body }) + "\n";

async function codeOf(work: Promise<unknown>): Promise<string> {
  try {
    await within("failure", work);
  } catch (error) {
    if (error instanceof Failed) return error.code;
    throw error;
  }
  return "none";
}

Deno.test("an answer that breaks off or is no answer is told apart from one", async () => {
  const cases: Record<string, { bytes: string; code: string }> = {
    "an answer": { bytes: frame("approval_list", { items: [] }), code: "none" },
    "nothing": { bytes: "", code: "closed" },
    "half a frame": { bytes: frame("approval_list", { items: [] }).slice(0, -1), code: "closed" },
    "no last frame": { bytes: frame("approval_list", { items: [] }, false), code: "closed" },
    "another kind": { bytes: frame("ok", {}), code: "bad_answer" },
    "another body": { bytes: frame("approval_list", { items: [1] }), code: "bad_answer" },
    "no frame": { bytes: "HTTP/1.1 400 Bad Request\r\n", code: "bad_answer" },
    "another version": {
      bytes: frame("approval_list", { items: [] }).replace('"v":1', '"v":2'),
      code: "bad_answer",
    },
  };
  await forEach(cases, async ({ bytes, code }) => {
    using home = new CtlHome();
    using _socket = answering(home.layout.adminSocket, bytes);
    assert.equal(await codeOf(new Admin(home.layout.adminSocket).approvals()), code);
  });
});

Deno.test("a turn ends with done or failed and with nothing else", async () => {
  const session = frame("turn_event", { type: "session", session: "s1" }, false);
  const cases: Record<string, { bytes: string; code: string }> = {
    "done": { bytes: session + frame("turn_event", { type: "done" }), code: "none" },
    "failed": {
      bytes: session + frame("turn_event", { type: "failed", message: "no model" }),
      code: "none",
    },
    "a text that is final": {
      bytes: session + frame("turn_event", { type: "text", text: "bye" }),
      code: "bad_answer",
    },
    "done that is not final": {
      bytes: session + frame("turn_event", { type: "done" }, false),
      code: "bad_answer",
    },
    "no end": { bytes: session, code: "closed" },
    "an error": { bytes: frame("error", { code: "internal", message: "x" }), code: "internal" },
  };
  await forEach(cases, async ({ bytes, code }) => {
    using home = new CtlHome();
    using _socket = answering(home.layout.loopSocket, bytes);
    const turn = await Turn.start(home.layout.loopSocket, null, "hello");
    const all = async () => {
      while (await turn.next() !== null);
    };
    assert.equal(await codeOf(all()), code);
    turn.close();
  });
});

Deno.test("the end of a call is seen before its result is shown, whenever it came", async () => {
  const pending = { type: "approval_pending", approval: 1, tool: "t", expires: EXPIRES };
  const result = { type: "tool_result", call: "c1", tool: "t", status: "denied", content: "" };
  const events = [{ type: "session", session: "s1" }, pending, result];
  using home = new CtlHome();
  const release = Promise.withResolvers<void>();
  using _socket = answering(
    home.layout.loopSocket,
    events.map((event) => frame("turn_event", event, false)).join(""),
    release.promise,
  );
  const turn = await Turn.start(home.layout.loopSocket, null, "hello");
  assert.equal((await turn.next())?.type, "session");
  assert.equal((await turn.next())?.type, "approval_pending");
  // Watched before or after it came, and shown only then.
  await until("the end of c1", () => turn.endOf("c1").aborted);
  assert.equal(turn.endOf("c2").aborted, false);
  const turnEnds = turn.endOf("c2");
  assert.equal((await turn.next())?.type, "tool_result");
  assert.equal(turnEnds.aborted, false);
  release.resolve();
  assert.equal(await codeOf(turn.next()), "closed");
  assert.equal(turnEnds.aborted, true);
  turn.close();
});

Deno.test("nobody there, no socket there and no way in are told apart", async () => {
  using home = new CtlHome();
  const path = home.layout.adminSocket;
  const linesOf = async (admin: Admin) => {
    try {
      await admin.approvals();
    } catch (error) {
      if (error instanceof Failed) return error.lines;
    }
    throw new Error("it was answered");
  };
  const lines = () => linesOf(new Admin(path));
  const notRunning = [
    `brokerd is not running: nobody listens on ${path}`,
    "start it with `brokerd serve`, or from the sources with `deno task broker`; " +
    "see docs/runbook.md#broker-unavailable",
  ];
  assert.deepEqual(await lines(), notRunning);
  // A socket that its daemon left behind: what listened was there under another name.
  const other = `${home.root}/other.sock`;
  const listener = Deno.listen({ transport: "unix", path: other });
  Deno.renameSync(other, path);
  listener.close();
  assert.equal(Deno.lstatSync(path).isSocket, true);
  assert.deepEqual(await lines(), notRunning);
  Deno.removeSync(path);
  Deno.writeTextFileSync(path, "no socket");
  assert.deepEqual(await lines(), notRunning);
  Deno.removeSync(path);
  const [first] = await linesOf(new Admin(`${home.root}/${"long".repeat(40)}`));
  assert.match(first ?? "", /^cannot connect to brokerd at .*: /);
});

Deno.test("every way of getting no answer has words, and its daemon's runbook entry", () => {
  const failures: Record<ClientFailure, RegExp> = {
    unreachable: /^cannot connect to loopd at \/run\/l\\u001b\.sock: odd\\u001b\n/,
    no_permission: /^this user may not use \/run\/l\\u001b\.sock\nrun bxctl as the user that loopd/,
    request_too_large: /^the message is larger than 1 MiB and was not sent\nsend it in parts$/,
    closed: /^loopd ended the connection before its answer was whole\n/,
    timeout: /^loopd did not answer in time\n/,
    bad_answer: /^loopd gave an answer that bxctl does not understand\nare loopd and bxctl of the/,
  };
  for (const [failure, words] of Object.entries(failures)) {
    const error = new ClientError(failure as ClientFailure, new Error("odd\x1b"));
    const { lines, code } = noAnswer("loopd", "/run/l\x1b.sock", error);
    assert.match(lines.join("\n"), words);
    assert.equal(code, failure);
    if (failure !== "request_too_large") {
      assert.match(lines.join("\n"), /see docs\/runbook\.md#loopd-unavailable$/);
    }
  }
  const locked = new ClientError("no_permission", new Deno.errors.NotCapable("net"));
  assert.deepEqual(noAnswer("brokerd", "/a.sock", locked).lines, [
    "started without leave to use /a.sock",
    "start bxctl with the flags that `deno task permissions bxctl` prints; " +
    "see docs/runbook.md#broker-unavailable",
  ]);
});
