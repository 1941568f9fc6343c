/**
 * Known faults of comparable tools that only the running programs can answer (docs/known-attacks.md): the real
 * brokerd and bxctl under their own flags. Each case is named after its entry.
 */
import assert from "node:assert/strict";
import type { Message } from "../../proto/messages.ts";
import {
  ask,
  frame,
  RawClient,
  readFile,
  snapshot,
  startBroker,
  TempHome,
} from "../support/broker.ts";
import { CtlHome, runCtl } from "../support/ctl.ts";
import { FakeLoop, playing } from "../support/daemons.ts";

/** What `bytes` on the socket at `path` are answered with; an error by its code. */
async function answerTo(path: string, bytes: string): Promise<Message["body"] | string | null> {
  using client = await RawClient.connect(path);
  // The server may close before it has taken all of it.
  await client.send(bytes).catch(() => {});
  const answer = await client.next();
  return answer?.kind === "error" ? answer.body.code : answer?.body ?? null;
}

/** A request whose body is this text: for what JSON.stringify would not write. */
const sent = (kind: string, body: string) => frame(kind, {}).replace('"body":{}', `"body":${body}`);

Deno.test("what a request may say of itself, to a real brokerd", async (t) => {
  using home = new TempHome();
  home.grant("ask", 'tool = "read_file"\nmode = "ask"\n[constraints]\npaths = ["/n"]\n');
  await using broker = await startBroker(home);
  const { adminSocket, brokerSocket } = home.layout;
  using waiting = await RawClient.connect(brokerSocket);
  await waiting.send(frame("tool_request", readFile("s1", "c1", "/n/a")));
  assert.deepEqual((await waiting.next())?.body, {
    status: "pending_approval",
    approval: 0,
    expires: (await pendingOf(adminSocket))[0]?.expires,
  });
  /** Each of `requests` changes nothing: the call still waits, and nothing was recorded. */
  const withoutEffect = async (
    path: string,
    requests: readonly string[],
    code: string | null,
  ) => {
    const before = snapshot(home.layout.audit);
    for (const bytes of requests) {
      assert.equal(await answerTo(path, bytes), code, JSON.stringify(bytes.slice(0, 200)));
    }
    assert.deepEqual(snapshot(home.layout.audit), before);
    assert.deepEqual((await pendingOf(adminSocket)).map(({ approval }) => approval), [0]);
  };

  await t.step("CVE-2019-14287: a number that is read as another", async () => {
    const numbers = [
      "-1",
      "-0",
      "0.0",
      "0e0",
      "00",
      '"0"',
      "[0]",
      "null",
      "false",
      "9007199254740992",
      "1e400",
    ];
    const bodies = numbers.map((number) => sent("approve", `{"approval":${number}}`));
    await withoutEffect(adminSocket, bodies, "bad_frame");
    await withoutEffect(
      adminSocket,
      [sent("approve", '{"approval":4294967296}')],
      "no_such_approval",
    );
    for (const word of ["-1", "--", "00", "0x0", "+0", " 0", "0.0", ""]) {
      const { code } = await runCtl(home.layout.home, ["approve", word]);
      assert.equal(code, 2, JSON.stringify(word));
    }
    assert.equal((await pendingOf(adminSocket)).length, 1);
  });

  await t.step("CVE-2019-7304: an identity that the client writes itself", async () => {
    await withoutEffect(adminSocket, [
      sent("approve", '{"approval":0,"by":"owner"}'),
      sent("approve", '{"approval":0,"uid":0}'),
      frame("approve", { approval: 0 }).replace('"v":1', '"v":1,"uid":0'),
    ], "bad_frame");
    await withoutEffect(brokerSocket, [frame("approve", { approval: 0 })], "forbidden");
    const { arguments: args } = readFile("s1", "c2", "/n/a");
    const request = { session: "s1;uid=0;", call: "c2", tool: "read_file", arguments: args };
    await withoutEffect(brokerSocket, [frame("tool_request", request)], "bad_frame");
  });

  await t.step("CVE-2017-1000367: a name with a blank or a newline in it", async () => {
    const { arguments: args } = readFile("s1", "c2", "/n/a");
    const names = ["s1 ", "s1  grant all", "s1\n41", "../../audit", "s1/../s2", "S1", ""];
    const requests = names.map((session) =>
      frame("tool_request", { session, call: "c2", tool: "read_file", arguments: args })
    );
    await withoutEffect(brokerSocket, requests, "bad_frame");
  });

  await t.step(
    "CVE-2025-49596 and CVE-2024-28224: a web page that talks to a local server",
    async () => {
      const body = frame("approve", { approval: 0 });
      const post =
        `POST / HTTP/1.1\r\nHost: rebound.example\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
      await withoutEffect(adminSocket, [post, "GET / HTTP/1.1\r\n\r\n"], "bad_frame");
      const { connectable } = await listeningTcp(broker.pid);
      assert.deepEqual(connectable, [], "there is no port that a page could reach");
    },
  );

  await t.step("CVE-2023-51764: two ideas of where a message ends", async () => {
    const approve = frame("approve", { approval: 0 });
    await withoutEffect(adminSocket, [
      approve.replace("\n", "\r\n"),
      `\n${approve}`,
      ` ${approve}`,
      `\ufeff${approve}`,
      `{"v":1}\r${approve}`,
      approve.replace("}\n", "}\0\n"),
    ], "bad_frame");
    // What follows the first request is nobody's: here an approve behind a look at what waits.
    const items = await answerTo(adminSocket, frame("approvals", {}) + approve);
    assert.ok(typeof items === "object" && items !== null && "items" in items);
    await withoutEffect(adminSocket, [], null);
  });

  await t.step("CVE-2026-34040: a request so long that its body is left out", async () => {
    const long = { session: "s1", call: "c2", tool: "read_file", arguments: "" };
    const empty = frame("tool_request", long).length;
    const sized = (bytes: number) =>
      frame("tool_request", { ...long, arguments: "x".repeat(bytes - empty) });
    await withoutEffect(brokerSocket, [sized(1024 * 1024 + 1)], "too_large");
    const denied = { status: "denied", reason: "invalid_arguments" };
    assert.deepEqual(await answerTo(brokerSocket, sized(1024 * 1024)), denied);
  });

  await t.step("the same call without a trick is approved", async () => {
    const [answer] = await ask(adminSocket, "approve", { approval: 0 });
    assert.deepEqual(answer?.body, { outcome: { outcome: "ask" } });
    assert.equal((await waiting.next())?.final, true);
  });
});

async function pendingOf(adminSocket: string) {
  const answers = await ask(adminSocket, "approvals", {});
  return answers.flatMap((answer) => answer.kind === "approval_list" ? answer.body.items : []);
}

/** The TCP ports that the process `pid` listens on, by what the kernel says. */
async function listeningTcp(pid: number): Promise<{ connectable: string[] }> {
  const inodes = new Set<string>();
  for (const { name } of Deno.readDirSync(`/proc/${pid}/fd`)) {
    const [, inode] = /^socket:\[(\d+)\]$/.exec(await readLink(`/proc/${pid}/fd/${name}`)) ?? [];
    if (inode !== undefined) inodes.add(inode);
  }
  assert.ok(inodes.size >= 2, "its two unix sockets at least");
  const rows = ["tcp", "tcp6"].flatMap((name) =>
    Deno.readTextFileSync(`/proc/${pid}/net/${name}`).trim().split("\n").slice(1)
  );
  return { connectable: rows.filter((row) => inodes.has(row.trim().split(/\s+/)[9] ?? "")) };
}

async function readLink(path: string): Promise<string> {
  return await Deno.readLink(path).catch(() => "");
}

Deno.test("CVE-2025-32711: a picture in the answer whose address holds what was read", async () => {
  using home = new CtlHome();
  const asked: string[] = [];
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    (request) => {
      asked.push(request.url);
      return new Response("");
    },
  );
  const address = `http://127.0.0.1:${server.addr.port}`;
  const picture = `![x](${address}/?key=s3cret)`;
  using _loop = new FakeLoop(
    home.layout.loopSocket,
    playing({ type: "text", text: picture }, { type: "done" }),
  );
  const { code, stdout } = await runCtl(home.layout.home, ["chat", "--say", "hello"]);
  assert.deepEqual([code, stdout], [0, `${picture}\n`], "text is text");
  assert.deepEqual(asked, []);
  await (await fetch(`${address}/`)).body?.cancel();
  assert.equal(asked.length, 1, "the server was there to be asked");
});
