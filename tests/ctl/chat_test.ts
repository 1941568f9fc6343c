/** `bxctl chat` on pipes: one message, events as JSON, and lines from a program. */
import assert from "node:assert/strict";
import type { TurnEvent } from "../../proto/messages.ts";
import { within } from "../support/broker.ts";
import { CtlHome, runCtl, startCtl } from "../support/ctl.ts";
import { FakeBroker, FakeLoop, Gate, pending, playing, type Script } from "../support/daemons.ts";

class Bench implements Disposable {
  readonly #home = new CtlHome();
  readonly home = this.#home.layout.home;
  readonly broker = new FakeBroker(this.#home.layout.adminSocket);
  readonly loop: FakeLoop;

  constructor(...scripts: Script[]) {
    this.loop = new FakeLoop(this.#home.layout.loopSocket, ...scripts);
  }

  [Symbol.dispose](): void {
    this.loop[Symbol.dispose]();
    this.broker[Symbol.dispose]();
    this.#home[Symbol.dispose]();
  }
}

const WHAT_HELPS = "bxctl: see bxctl status for what helps\n";
const EVIL = "\x1b[2J\x9b1m\u202e\r";
const SHOWN = "\\u001b[2J\\u009b1m\\u202e\\u000d";
const SESSION = "bxctl: session chat-1; to go on with it: bxctl chat --session chat-1\n";

const call: TurnEvent = {
  type: "tool_call",
  call: "c1",
  tool: "shell",
  arguments: `{"a":"${EVIL}"}`,
};
const asked: TurnEvent = {
  type: "approval_pending",
  approval: 41,
  tool: "shell",
  expires: "2026-12-01T10:13:00.000Z",
};

Deno.test("--say prints the turn as it comes, with everything that is not bxctl's own escaped", async () => {
  using bench = new Bench(playing(
    { type: "reasoning", text: `I think${EVIL}` },
    { type: "reasoning", text: ".\n" },
    { type: "text", text: "Hello " },
    { type: "text", text: `wor${EVIL}ld\n\tbye` },
    call,
    { type: "tool_result", call: "c1", tool: "shell", status: "denied", content: `No.\n${EVIL}` },
    { type: "text", text: "xn--mnch" },
    { type: "text", text: "en-3ya.de" },
    { type: "done" },
  ));
  const { code, stdout, stderr } = await runCtl(bench.home, ["chat", "--say", "hello\nthere"]);
  assert.equal(
    stdout,
    `[reasoning] I think${SHOWN}.\n` +
      `Hello wor${SHOWN}ld\n\tbye\n` +
      `[call] shell {"a":"${SHOWN}"}\n` +
      `[denied] shell No.\\u000a${SHOWN}\n` +
      "xn--mnchen-3ya.de (münchen.de)\n",
  );
  assert.deepEqual([code, stderr], [0, SESSION]);
  assert.deepEqual(bench.loop.requests, [{ session: null, text: "hello\nthere" }]);
});

Deno.test("long arguments and results are shortened, which is said", async () => {
  const content = "r".repeat(5000);
  using bench = new Bench(playing(
    { type: "tool_call", call: "c1", tool: "shell", arguments: "a".repeat(2001) },
    { type: "tool_result", call: "c1", tool: "shell", status: "result", content },
    { type: "done" },
  ));
  const { stdout } = await runCtl(bench.home, ["chat", "--say", "x"]);
  const cut = (c: string, more: number) =>
    `${c.repeat(1500)}… ${more} more characters, see --json …${c.repeat(400)}`;
  assert.equal(stdout, `[call] shell ${cut("a", 101)}\n[result] shell ${cut("r", 3100)}\n`);
  const json = await runCtl(bench.home, ["chat", "--say", "x", "--json"]);
  assert.equal(JSON.parse(json.stdout.split("\n")[2] ?? "").content, content);
});

Deno.test("text is shown before the next piece is there", async () => {
  const shown = new Gate();
  using bench = new Bench(async (send) => {
    await send({ type: "text", text: "one " });
    await shown.opened;
    await send({ type: "text", text: "two" });
    await send({ type: "done" });
  });
  const child = startCtl(bench.home, ["chat", "--say", "x"]);
  await child.stdin.close();
  const stderr = new Response(child.stderr).text();
  let stdout = "";
  const reading = (async () => {
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      stdout += text;
      if (stdout === "one ") shown.open();
    }
  })();
  const { code } = await within("end of bxctl", child.status);
  await reading;
  assert.deepEqual([code, stdout, await stderr], [0, "one two\n", SESSION]);
});

Deno.test("--json prints each event on a line as it came, and asks nothing", async () => {
  const events: TurnEvent[] = [
    { type: "reasoning", text: "hm" },
    { type: "text", text: `a${EVIL}\n` },
    call,
    asked,
    { type: "tool_result", call: "c1", tool: "shell", status: "failed", content: "no" },
    { type: "done" },
  ];
  using bench = new Bench(playing(...events));
  bench.broker.items = [pending()];
  const { code, stdout, stderr } = await runCtl(bench.home, ["chat", "--say", "x", "--json"]);
  const lines = stdout.trimEnd().split("\n");
  assert.deepEqual(lines.map((line) => JSON.parse(line)), [
    { type: "session", session: "chat-1" },
    ...events,
  ]);
  assert.equal(lines[1], '{"type":"reasoning","text":"hm"}');
  assert.match(stdout, /^[\x20-\x7e\n]*$/);
  assert.deepEqual([code, stderr], [0, ""]);
  assert.deepEqual(bench.broker.requests, []);
});

Deno.test("a turn that fails is told, and ends --say with 1", async () => {
  using bench = new Bench(playing(
    { type: "text", text: "half a" },
    { type: "failed", message: `the model ${EVIL}` },
  ));
  const { code, stdout, stderr } = await runCtl(bench.home, ["chat", "--say", "x"]);
  assert.deepEqual([code, stdout, stderr], [
    1,
    "half a\n",
    `${SESSION}bxctl: the turn failed: the model ${SHOWN}\n${WHAT_HELPS}`,
  ]);
  const json = await runCtl(bench.home, ["chat", "--say", "x", "--json"]);
  assert.deepEqual([json.code, json.stderr], [1, ""]);
  assert.match(json.stdout, /\n\{"type":"failed","message":.*\}\n$/);
});

Deno.test("a loopd that goes away in a turn is told, and ends --say with 1", async () => {
  using bench = new Bench(playing({ type: "text", text: "half a" }));
  const { code, stdout, stderr } = await runCtl(bench.home, ["chat", "--say", "x"]);
  assert.deepEqual([code, stdout], [1, "half a\n"]);
  assert.match(stderr, /bxctl: loopd ended the connection before its answer was whole\n/);
  assert.match(stderr, /see docs\/runbook\.md#loopd-unavailable\n$/);
});

Deno.test("every line is a turn of one session, and a failed turn does not end the chat", async () => {
  using bench = new Bench(
    playing({ type: "text", text: "first" }, { type: "done" }),
    playing({ type: "failed", message: "no model" }),
    playing({ type: "text", text: "half" }),
    playing({ type: "text", text: "last" }, { type: "done" }),
  );
  const stdin = new Uint8Array([
    ...new TextEncoder().encode("one\n\n  \ntwo\n"),
    ...[0xff, 0x0a],
    ...new TextEncoder().encode("three\nfour"),
  ]);
  const { code, stdout, stderr } = await runCtl(bench.home, ["chat"], { stdin });
  assert.deepEqual([code, stdout], [0, "first\nhalf\nlast\n"]);
  assert.deepEqual(bench.loop.requests, [
    { session: null, text: "one" },
    { session: "chat-1", text: "two" },
    { session: "chat-1", text: "three" },
    { session: "chat-1", text: "four" },
  ]);
  assert.match(
    stderr,
    /^bxctl: session chat-1;.*\nbxctl: the turn failed: no model\nbxctl: see bxctl status for what helps\nbxctl: that line is not UTF-8 and was not sent\nbxctl: loopd ended/,
  );
});

Deno.test("--session goes on with a session", async () => {
  using bench = new Bench(playing({ type: "done" }));
  const { code, stdout, stderr } = await runCtl(bench.home, ["chat", "--session", "mine-7"], {
    stdin: "one\ntwo\n",
  });
  assert.deepEqual([code, stdout], [0, ""]);
  assert.equal(stderr, "bxctl: session mine-7; to go on with it: bxctl chat --session mine-7\n");
  assert.deepEqual(bench.loop.requests.map(({ session }) => session), ["mine-7", "mine-7"]);
});

Deno.test("without a terminal a waiting call is shown in full and left pending", async () => {
  const args = `{"command":"${"x".repeat(3000)}${EVIL}"}`;
  const script = playing(asked, { type: "text", text: "bye" }, { type: "done" });
  for (const [more, stdin] of [[["--say", "x"], ""], [[], "x\ny\n"]] as const) {
    using bench = new Bench(script);
    const now = Date.now();
    bench.broker.items = [
      pending({ approval: 3 }),
      pending({
        arguments: args,
        created: new Date(now - 120_000).toISOString(),
        expires: new Date(now + 780_000).toISOString(),
      }),
    ];
    const { code, stdout, stderr } = await runCtl(bench.home, ["chat", ...more], { stdin });
    const block =
      "41  2 min ago  expires in 13 min  session chat-1  grant shell-scratch  taint private\n" +
      `    shell {"command":"${"x".repeat(3000)}${SHOWN}"}\n`;
    const left = "bxctl: approval 41 waits: bxctl approve 41, or bxctl refuse 41\n";
    // On a pipe the second line is the next turn: it answers nothing.
    const turns = stdin === "" ? 1 : 2;
    assert.equal(stdout, `${block}bye\n`.repeat(turns));
    assert.deepEqual([code, stderr], [0, SESSION + left.repeat(turns)]);
    assert.equal(bench.loop.requests.length, turns);
    assert.deepEqual(bench.broker.answers, []);
  }
});

Deno.test("a waiting call that brokerd does not list, or cannot, is shown as loopd tells of it", async () => {
  const expires = new Date(Date.now() + 780_000).toISOString();
  using bench = new Bench(playing({ ...asked, tool: EVIL, expires }, { type: "done" }));
  assert.deepEqual(await runCtl(bench.home, ["chat", "--say", "x"]), {
    code: 0,
    stdout: `[approval 41] ${SHOWN}  expires in 13 min\n`,
    stderr: `${SESSION}bxctl: approval 41 is pending no more\n`,
  });
  bench.broker[Symbol.dispose]();
  const { code, stderr } = await runCtl(bench.home, ["chat", "--say", "x"]);
  assert.equal(code, 0);
  assert.match(stderr, /bxctl: brokerd is not running: /);
  assert.match(stderr, /\nbxctl: approval 41 waits: /);
});

Deno.test("a message that no frame holds is not sent", async () => {
  using bench = new Bench(playing({ type: "text", text: "got it" }, { type: "done" }));
  const stdin = `${"x".repeat(1 << 20)}\nshort\n`;
  const { code, stdout, stderr } = await runCtl(bench.home, ["chat"], { stdin });
  assert.deepEqual([code, stdout], [0, "got it\n"]);
  assert.match(stderr, /^bxctl: the message is larger than 1 MiB and was not sent\n/);
  assert.deepEqual(bench.loop.requests.map(({ text }) => text), ["short"]);
});
