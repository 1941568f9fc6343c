/** `bxctl chat` on a terminal: the question, and who may answer it. */
import assert from "node:assert/strict";
import type { Message, PendingApproval, TurnEvent } from "../../proto/messages.ts";
import { forEach, until } from "../support/broker.ts";
import { CtlHome, Terminal } from "../support/ctl.ts";
import { FakeBroker, FakeLoop, Gate, pending, playing } from "../support/daemons.ts";

const QUESTION = "approve 41? [y/N] ";
const done: TurnEvent = { type: "done" };

function asking(approval: number): TurnEvent {
  return { type: "approval_pending", approval, tool: "shell", expires: "2026-12-01T10:13:00.000Z" };
}

function result(call: string, content: string): TurnEvent {
  return { type: "tool_result", call, tool: "shell", status: "denied", content };
}

/**
 * A chat with a turn that waits for approval 41. `answered`: once brokerd has an answer; `ended`: to be
 * opened where the call ends otherwise.
 */
class Bench implements AsyncDisposable {
  readonly #home = new CtlHome();
  readonly broker = new FakeBroker(this.#home.layout.adminSocket);
  readonly loop: FakeLoop;
  readonly asked = new Gate();
  readonly ended = new Gate();
  readonly terminal: Terminal;

  constructor(
    { item = {}, before = Promise.resolve(), shell = "exec $BXCTL" }: {
      item?: Partial<PendingApproval>;
      before?: Promise<void>;
      shell?: string;
    } = {},
  ) {
    this.broker.items = [pending(item)];
    this.broker.answered = () => this.ended.open();
    const turn = async (send: (event: TurnEvent) => Promise<void>) => {
      await before;
      await send(asking(41));
      this.asked.open();
      await this.ended.opened;
      await send(result("c1", "that was it"));
      await send(done);
    };
    this.loop = new FakeLoop(
      this.#home.layout.loopSocket,
      turn,
      playing({ type: "text", text: "next" }, done),
    );
    this.terminal = new Terminal(this.#home.layout.home, ["chat"], { shell });
  }

  get home(): CtlHome {
    return this.#home;
  }

  /** The answers that brokerd got. */
  get answers(): Message[] {
    return this.broker.answers;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.terminal[Symbol.asyncDispose]();
    this.loop[Symbol.dispose]();
    this.broker[Symbol.dispose]();
    this.#home[Symbol.dispose]();
  }
}

const kinds = (bench: Bench) => bench.answers.map(({ kind }) => kind);

Deno.test("y approves, and the chat goes on", async () => {
  await using bench = new Bench();
  const { terminal } = bench;
  await terminal.shows("> ");
  await terminal.type("hello\n");
  await terminal.shows(QUESTION);
  assert.match(
    terminal.screen,
    /\r\n41 {2}.* {2}session chat-1 {2}grant shell-scratch {2}taint private\r\n {4}shell \{"command":"ls"\}\r\napprove 41\? \[y\/N\] $/,
  );
  assert.deepEqual(kinds(bench), []);
  await terminal.type("y\n");
  await terminal.shows("approved 41: runs\r\n[denied] shell that was it\r\n> ");
  assert.deepEqual(kinds(bench), ["approve"]);
  await terminal.type("again\n");
  await terminal.shows("next\r\n> ");
  await terminal.type("\x04");
  assert.equal(await terminal.ends(), 0);
  assert.deepEqual(bench.loop.requests, [
    { session: null, text: "hello" },
    { session: "chat-1", text: "again" },
  ]);
});

Deno.test("anything but y refuses, and the chat goes on", async () => {
  const answers = {
    Enter: "\n",
    Y: "Y\n",
    yes: "yes\n",
    "y and a space": "y \n",
    "Ctrl-D": "\x04",
  };
  await forEach(answers, async (typed) => {
    await using bench = new Bench();
    const { terminal } = bench;
    await terminal.shows("> ");
    await terminal.type("hello\n");
    await terminal.shows(QUESTION);
    await terminal.type(typed);
    await terminal.shows("refused 41\r\n[denied] shell that was it\r\n> ");
    assert.deepEqual(bench.answers.map(({ body }) => body), [{ approval: 41, reason: null }]);
    await terminal.type("again\n");
    await terminal.shows("next\r\n> ");
  });
});

Deno.test("what is typed too early answers nothing, and that is told", async () => {
  await forEach({ line: "y\n", "no Enter": "y", lines: "y\ny\ny" }, async (early) => {
    const typed = new Gate();
    await using bench = new Bench({ before: typed.opened });
    const { terminal } = bench;
    await terminal.shows("> ");
    await terminal.type("hello\n");
    await terminal.shows("session chat-1;");
    await terminal.type(early);
    typed.open();
    await terminal.shows("bxctl: what was typed before the question was discarded\r\n" + QUESTION);
    assert.deepEqual(kinds(bench), []);
    // Had the y stayed in the line, this would refuse.
    await terminal.type("y\n");
    await terminal.shows("approved 41: runs\r\n");
    assert.deepEqual(kinds(bench), ["approve"]);
    await terminal.shows("> ", 2);
    assert.equal(bench.loop.requests.length, 1);
  });
});

Deno.test("a question whose approval ends otherwise is withdrawn, and its answer goes nowhere", async () => {
  await using bench = new Bench();
  const { terminal } = bench;
  await terminal.shows("> ");
  await terminal.type("hello\n");
  await terminal.shows(QUESTION);
  await terminal.type("y");
  await terminal.shows(`${QUESTION}y`);
  bench.broker.items = [];
  bench.ended.open();
  await terminal.shows(
    `${QUESTION}y\r\nbxctl: approval 41 ended without an answer here\r\n[denied] shell that was it\r\n> `,
  );
  assert.deepEqual(kinds(bench), []);
  await terminal.type("again\n");
  await terminal.shows("next\r\n> ");
  assert.equal(bench.loop.requests.at(-1)?.text, "again");
});

Deno.test("an approval that was answered elsewhere in the same moment is told", async () => {
  await using bench = new Bench();
  const { terminal } = bench;
  await terminal.shows("> ");
  await terminal.type("hello\n");
  await terminal.shows(QUESTION);
  bench.broker.items = [];
  await terminal.type("y\n");
  await terminal.shows("bxctl: no approval 41 is pending\r\n");
  bench.ended.open();
  await terminal.shows("[denied] shell that was it\r\n> ");
});

Deno.test("what the model wants shown comes to the terminal as data only", async () => {
  const evil = "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\u200b\u{e0041}\r";
  const shown = "\\u001b[2J\\u001b]0;title\\u0007\\u009b31m\\u202e\\u200b\\u{e0041}\\u000d";
  const item = { tool: `t${evil}`, arguments: `${evil}${"x".repeat(3000)}${evil}` };
  await using bench = new Bench({ item });
  const { terminal } = bench;
  await terminal.shows("> ");
  await terminal.type("hello\n");
  await terminal.shows(`    t${shown} ${shown}${"x".repeat(3000)}${shown}\r\n${QUESTION}`);
  await terminal.type("n\n");
  await terminal.shows("> ", 2);
  // bxctl's own: pastes are to come in marks.
  const written = terminal.screen.replace("\x1b[?2004h", "");
  assert.doesNotMatch(written.replaceAll("\r\n", ""), /[\p{Cc}\p{Cf}]/u);
});

Deno.test("events that come while the question waits are shown after its answer", async () => {
  using home = new CtlHome();
  using broker = new FakeBroker(home.layout.adminSocket);
  const other = { approval: 42, call: "c2", arguments: '{"command":"pwd"}' };
  broker.items = [pending(), pending(other)];
  const sent = new Gate();
  using _loop = new FakeLoop(home.layout.loopSocket, async (send) => {
    await send(asking(41));
    await send({ type: "text", text: "approve 40? [y/N] " });
    await send(asking(42));
    sent.open();
    await until("two answers", () => broker.answers.length === 2);
    await send(done);
  });
  await using terminal = new Terminal(home.layout.home, ["chat"]);
  await terminal.shows("> ");
  await terminal.type("hello\n");
  await sent.opened;
  await terminal.shows(QUESTION);
  assert.ok(terminal.screen.endsWith(QUESTION) && !terminal.screen.includes("approve 40?"));
  await terminal.type("y\ny\n");
  // The second y was typed before the second question.
  await terminal.shows("approved 41: runs\r\napprove 40? [y/N] \r\n42  ");
  await terminal.shows("discarded\r\napprove 42? [y/N] ");
  await terminal.type("\n");
  await terminal.shows("refused 42\r\n> ");
  assert.deepEqual(broker.answers.map(({ kind }) => kind), ["approve", "refuse"]);
});

Deno.test("reasoning is dimmed on a terminal, and not where colours are not wanted", async () => {
  using home = new CtlHome();
  using _loop = new FakeLoop(
    home.layout.loopSocket,
    playing({ type: "reasoning", text: "hm" }, { type: "text", text: "yes" }, done),
  );
  const plain = "[reasoning] hm\r\nyes\r\n";
  const cases = {
    coloured: { env: {}, shown: "\x1b[2mhm\x1b[22m\r\nyes\r\n" },
    NO_COLOR: { env: { NO_COLOR: "1" }, shown: plain },
    "TERM=dumb": { env: { TERM: "dumb" }, shown: plain },
  };
  await forEach<{ env: Record<string, string>; shown: string }>(cases, async ({ env, shown }) => {
    const words = ["chat", "--say", "hello"];
    await using terminal = new Terminal(home.layout.home, words, { options: { env } });
    assert.equal(await terminal.ends(), 0);
    assert.ok(terminal.screen.endsWith(shown), JSON.stringify(terminal.screen));
  });
});

Deno.test("with --say the call is left pending on a terminal too", async () => {
  using home = new CtlHome();
  using broker = new FakeBroker(home.layout.adminSocket);
  broker.items = [pending()];
  const left = new Gate();
  using _loop = new FakeLoop(home.layout.loopSocket, async (send) => {
    await send(asking(41));
    await left.opened;
    await send(done);
  });
  await using terminal = new Terminal(home.layout.home, ["chat", "--say", "hello"]);
  await terminal.shows("bxctl: approval 41 waits: bxctl approve 41, or bxctl refuse 41\r\n");
  left.open();
  assert.equal(await terminal.ends(), 0);
  assert.ok(terminal.screen.includes("\r\n    shell {"), terminal.screen);
  assert.ok(!terminal.screen.includes("approve 41?"), terminal.screen);
  assert.deepEqual(broker.answers, []);
});

Deno.test("the question and its call are on stderr where stdout goes elsewhere", async () => {
  await using bench = new Bench({ shell: "exec $BXCTL >/dev/null" });
  const { terminal } = bench;
  await terminal.shows("> ");
  await terminal.type("hello\n");
  await terminal.shows(`    shell {"command":"ls"}\r\n${QUESTION}`);
  await terminal.type("y\n");
  await terminal.shows("> ", 2);
  assert.deepEqual(kinds(bench), ["approve"]);
});

Deno.test("leaving by a second Ctrl-C before the question leaves the terminal as it was", async () => {
  using home = new CtlHome();
  using broker = new FakeBroker(home.layout.adminSocket);
  broker.items = [pending()];
  using _loop = new FakeLoop(home.layout.loopSocket, async (send) => {
    await send(asking(41));
    await new Promise(() => {});
  });
  // The shell outlives the signal.
  const shell = "trap : INT; echo on $(tty).; stty; $BXCTL; echo ended $?; stty";
  await using terminal = new Terminal(home.layout.home, ["chat"], { shell });
  await terminal.shows("> ");
  const [, device = "", before = ""] =
    /on (\S+)\.\r\n([^]*)\p{Cc}\[\?2004h> $/u.exec(terminal.screen) ??
      [];
  assert.match(before, /speed/);
  await terminal.type("hello\n");
  await until("a terminal that gives out what is typed at once", async () => {
    const { stdout } = await new Deno.Command("stty", { args: ["-F", device] }).output();
    return new TextDecoder().decode(stdout).includes("-icanon");
  });
  await terminal.shows("    shell {");
  await terminal.type("\x03");
  await terminal.shows("bxctl: stopping the turn; Ctrl-C again ends the chat\r\n");
  await terminal.type("\x03");
  await terminal.shows("\x1b[?2004lended 130\r\n");
  await terminal.ends();
  assert.equal(terminal.screen.split("ended 130\r\n")[1], before);
});

Deno.test("a loopd that is not there ends no chat on a terminal: the message is sent again once it is", async () => {
  using home = new CtlHome();
  await using terminal = new Terminal(home.layout.home, ["chat"]);
  await terminal.shows("> ");
  await terminal.type("hello\r");
  await terminal.shows("docs/runbook.md#loopd-unavailable\r\n");
  await terminal.shows("> ", 2);
  const turn = playing({ type: "text", text: "here I am" }, done);
  using loop = new FakeLoop(home.layout.loopSocket, turn);
  await terminal.type("\x1b[A\r");
  await terminal.shows("here I am");
  await terminal.shows("> ");
  await terminal.type("\x04");
  assert.equal(await terminal.ends(), 0);
  assert.deepEqual(loop.requests, [{ session: null, text: "hello" }]);
});

Deno.test("what has changed since the ask is said with the question, and again where it changes under it", async () => {
  await using bench = new Bench();
  const { terminal, broker } = bench;
  const same = { approval: 41, grant: null, taint: null, untrusted: false, unreadable: false };
  broker.items.push(pending({ approval: 42, call: "c2" }));
  broker.changes = [{ ...same, taint: "secret" }];
  await terminal.shows("> ");
  await terminal.type("hello\n");
  const alike = "2 identical calls: 41, 42; an answer is for one of them";
  const rose = "changed since: the taint rose from private to secret";
  await terminal.shows(`    ${alike}\r\n    ${rose}\r\n${QUESTION}`);
  broker.changes = [{ ...same, taint: "secret", grant: "edited" }];
  await terminal.type("y\n");
  await terminal.shows(
    `bxctl: ${rose}; grant shell-scratch.toml was edited\r\n` +
      `bxctl: not approved yet: look again\r\n${QUESTION}`,
  );
  assert.deepEqual(kinds(bench), []);
  await terminal.type("y\n");
  await terminal.shows("approved 41: runs\r\nbxctl: identical calls still wait: 42\r\n");
  assert.deepEqual(bench.answers.map(({ body }) => body), [{ approval: 41 }]);
});
