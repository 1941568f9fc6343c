/** `bxctl approvals --watch` on a terminal, with the real brokerd behind it. */
import assert from "node:assert/strict";
import { wrap } from "../../ctl/watch_screen.ts";
import {
  type Broker,
  forEach,
  frame,
  RawClient,
  startBroker,
  TempHome,
  until,
} from "../support/broker.ts";
import { runCtl, Terminal } from "../support/ctl.ts";
import { recordsIn, verifyDirectory } from "../support/log.ts";
import { processesWith } from "../support/scripts.ts";
import { Emulator } from "../support/screen.ts";

const ASK = 'tool = "shell"\nmode = "ask"\n';
const READY = "a: approve  r: refuse";

/** What the log has of the owner's answers and of what ran, in order. */
function told(home: TempHome): string[] {
  return recordsIn(home.layout.audit).flatMap(({ event }) =>
    event.type === "approval"
      ? [`${event.answer} ${event.decision}`]
      : event.type === "result"
      ? [`${event.status} ${event.decision}`]
      : []
  );
}

/** A brokerd that asks for every command, and a terminal that shows what waits. */
class Scene implements AsyncDisposable {
  readonly home: TempHome;
  broker: Broker;
  readonly #clients: RawClient[] = [];
  #terminal: Terminal | null = null;
  columns: number;
  rows: number;

  private constructor(home: TempHome, broker: Broker, columns: number, rows: number) {
    this.home = home;
    this.broker = broker;
    this.columns = columns;
    this.rows = rows;
  }

  static async open(columns = 80, rows = 24): Promise<Scene> {
    const home = new TempHome();
    home.grant("shell", ASK);
    return new Scene(home, await startBroker(home), columns, rows);
  }

  /** Starts the watch. `after`: what the shell does once it has ended. */
  watch({ after = "", env = {} }: { after?: string; env?: Record<string, string> } = {}): void {
    const size = `stty rows ${this.rows} cols ${this.columns}`;
    const shell = after === ""
      ? `${size}; exec $BXCTL`
      : `${size}; tty; echo before; stty -a; echo running; $BXCTL; ${after}`;
    const args = ["approvals", "--watch"];
    this.#terminal = new Terminal(this.home.home, args, { options: { env }, shell });
  }

  get terminal(): Terminal {
    if (this.#terminal === null) throw new Error("no watch was started");
    return this.#terminal;
  }

  /** What the terminal shows now. */
  get screen(): Emulator {
    return Emulator.after(this.terminal.screen, this.columns, this.rows);
  }

  /** Waits until the screen holds all of `parts`. */
  async shows(...parts: (string | RegExp)[]): Promise<void> {
    const holds = () => {
      const { text } = this.screen;
      return parts.every((part) =>
        typeof part === "string" ? text.includes(part) : part.test(text)
      );
    };
    try {
      await until(`"${parts.join('", "')}" on the screen`, holds);
    } catch (cause) {
      throw new Error(this.screen.text, { cause });
    }
  }

  /** A call that waits; its number, and its answer. */
  async ask(session: string, args: string): Promise<{ approval: number; client: RawClient }> {
    const client = await RawClient.connect(this.home.layout.brokerSocket);
    this.#clients.push(client);
    const body = { session, call: `c${this.#clients.length}`, tool: "shell", arguments: args };
    await client.send(frame("tool_request", body));
    const answer = await client.next();
    assert(answer?.kind === "tool_response" && answer.body.status === "pending_approval");
    return { approval: answer.body.approval, client };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#terminal?.[Symbol.asyncDispose]();
    for (const client of this.#clients) client[Symbol.dispose]();
    await this.broker[Symbol.asyncDispose]();
    this.home[Symbol.dispose]();
  }
}

const command = (text: string) => JSON.stringify({ command: text });

/** Nothing came to the terminal but what bxctl draws, and it is as it was. */
function checkEnd({ screen }: Scene): void {
  assert.deepEqual(screen.unknown, []);
  assert.deepEqual(
    [screen.alternate, screen.cursorHidden, screen.pasteInBrackets],
    [false, false, false],
  );
}

Deno.test("a call is approved, another refused, and the log has both", async () => {
  await using scene = await Scene.open();
  scene.watch();
  await scene.shows("no approvals are pending");
  assert.ok(scene.screen.alternate && scene.screen.cursorHidden && scene.screen.pasteInBrackets);
  const first = await scene.ask("s1", command("ls"));
  const second = await scene.ask("s2", command("rm x"));
  assert.deepEqual([first.approval, second.approval], [0, 1]);
  await scene.shows("approvals pending: 2", READY);
  assert.deepEqual(
    scene.screen.lines.slice(1, 3).map((line) => line.replace(/(?<=\d) {2}.* {2}/, " ")),
    [
      '> 0 shell {"command":"ls"}',
      '  1 shell {"command":"rm x"}',
    ],
  );
  assert.match(scene.screen.lines[3] ?? "", /^-- 0: .* ago, expires in .* -+$/);
  assert.deepEqual(scene.screen.lines.slice(4, 7), [
    "| session s1  grant shell  taint private",
    '| shell {"command":"ls"}',
    "",
  ]);
  await scene.terminal.type("a");
  await scene.shows("approved 0: runs", "approvals pending: 1", "> 1 ");
  const answer = await first.client.next();
  assert(answer?.kind === "tool_response");
  assert.deepEqual(answer.body, { status: "failed", message: "the runner arrives in M3b" });

  await scene.shows(READY);
  await scene.terminal.type("r");
  await scene.shows("refused 1", "no approvals are pending");
  const refused = await second.client.next();
  assert(refused?.kind === "tool_response");
  assert.deepEqual(refused.body, { status: "denied", reason: "approval_refused" });

  await scene.terminal.type("q");
  assert.equal(await scene.terminal.ends(), 0);
  assert.deepEqual(told(scene.home), ["approved 0", "failed 0", "refused 1"]);
  assert.equal(verifyDirectory(scene.home.layout.audit).failure, null);
  checkEnd(scene);
});

Deno.test("a key that comes before its call was looked at answers nothing, and the screen says why", async () => {
  await using scene = await Scene.open();
  await scene.ask("s1", command("ls"));
  const { client } = await scene.ask("s2", command("ls"));
  scene.watch();
  await scene.shows("approvals pending: 2", READY);
  // Both at once: the second call is on the screen for no time at all when its key comes.
  await scene.terminal.type("ja");
  await scene.shows("> 1 ", "shown for under 1 s: look, then press");
  assert.deepEqual(told(scene.home), []);
  await scene.shows(READY);
  // Neither the letter of another key nor what is pasted is a key.
  await scene.terminal.type("\x1b[1;2a\x1ba\x1b[200~aara\x1b[201~A\n\x0c");
  await scene.terminal.shows("\x1b[2J", 2);
  assert.deepEqual(told(scene.home), []);
  await scene.terminal.type("a");
  await scene.shows("approved 1: runs");
  assert.notEqual(await client.next(), null);
  assert.deepEqual(told(scene.home), ["approved 1", "failed 1"]);
});

Deno.test("the selection is moved with arrows and letters, and stays with its call", async () => {
  await using scene = await Scene.open();
  const calls = [];
  for (const name of ["a", "b", "c"]) calls.push(await scene.ask(`s-${name}`, command(name)));
  scene.watch();
  await scene.shows("> 0 ", "-- 0: ");
  for (const [typed, at] of [["j", 1], ["\x1b[B", 2], ["j", 2], ["k", 1], ["\x1bOA", 0]] as const) {
    await scene.terminal.type(typed);
    await scene.shows(new RegExp(`^> ${at} `, "m"), `-- ${at}: `);
  }
  await scene.terminal.type("jj");
  await scene.shows("> 2 ");
  assert.equal((await runCtl(scene.home.home, ["refuse", "0"])).code, 0);
  await scene.shows("approvals pending: 2", "> 2 ", "-- 2: ", READY);
  assert.equal((await runCtl(scene.home.home, ["refuse", "2"])).code, 0);
  await scene.shows("2 waits no more", "> 1 ", READY);
  await scene.terminal.type("a");
  await scene.shows("approved 1: runs");
  assert.notEqual(await calls[1]?.client.next(), null);
  assert.deepEqual(told(scene.home), ["refused 0", "refused 2", "approved 1", "failed 1"]);
});

Deno.test("identical calls are one row, and an answer is for one of them", async () => {
  await using scene = await Scene.open();
  const { client } = await scene.ask("s1", command("ls"));
  for (const _ of [2, 3]) await scene.ask("s1", command("ls"));
  scene.watch();
  await scene.shows("approvals pending: 3, 1 of them different", "> 0 x3 ", "identical: 0, 1, 2");
  await scene.shows(READY);
  await scene.terminal.type("a");
  await scene.shows("approved 0: runs; identical calls still wait: 1, 2", "> 1 x2 ");
  assert.notEqual(await client.next(), null);
  assert.deepEqual(told(scene.home), ["approved 0", "failed 0"]);
});

Deno.test("a grant that is edited is told, and is to be looked at before its call is approved", async () => {
  await using scene = await Scene.open();
  await scene.ask("s1", command("ls"));
  scene.watch();
  await scene.shows(READY);
  const before = scene.terminal.screen.length;
  scene.home.grant("shell", `${ASK}# edited\n`);
  await scene.shows("| changed since: grant shell.toml was edited", READY);
  assert.ok(scene.terminal.screen.slice(before).includes("a: not yet"), "it was a while");
  Deno.removeSync(`${scene.home.layout.grants}/shell.toml`);
  await scene.shows("| changed since: grant shell.toml is gone", READY);
  await scene.terminal.type("a");
  await scene.shows("approved 0: denied (no_grant)");
  assert.deepEqual(told(scene.home), ["approved 0"]);
});

/** Clears, recolours, renames, moves, reorders and hides; wide, combining and zero-width characters. */
const HOSTILE = "\x1b[2J\x1b[1;1H\x1b]0;owned\x07\x9b31m\r\n\u202egpj.exe\u2066\u200b\u{e0041}" +
  "漢字한국ｆｕｌｌ👨‍👩‍👧🇩🇪e\u0301\u0301 א ع approvals pending: 0 a: approve ";

Deno.test("hostile arguments stay data, within their place, on a wide and on a narrow screen", async () => {
  await forEach({ wide: [80, 24], narrow: [40, 10] }, async ([columns = 0, rows = 0]) => {
    await using scene = await Scene.open(columns, rows);
    const args = command(HOSTILE.repeat(12));
    await scene.ask("s1", args);
    const { stdout } = await runCtl(scene.home.home, ["approvals", "show", "0"]);
    const [, call = ""] = stdout.trimEnd().split("\n    ");
    const facts = "session s1  grant shell  taint private";
    const lines = [facts, call].flatMap((text) => wrap(text, columns - 2));
    scene.watch();
    for (let to = 0; to < lines.length;) {
      await until(`the lines after ${to}`, () => {
        const [, first, last, total] =
          /^-- 0: lines (\d+)-(\d+) of (\d+)/m.exec(scene.screen.text) ?? [];
        if (Number(last) === to || Number(total) !== lines.length) return false;
        const shown = scene.screen.lines.filter((line) => line.startsWith("| "));
        const wanted = lines.slice(Number(first) - 1, Number(last));
        if (shown.join("\n") !== wanted.map((line) => `| ${line}`.trimEnd()).join("\n")) {
          return false;
        }
        assert.ok(Number(first) <= to + 1, "no line is passed over");
        to = Number(last);
        return true;
      });
      if (to < lines.length) {
        assert.match(scene.screen.lines.at(-1) ?? "", /a: not yet|space\/b -/);
        await scene.terminal.type(" ");
      }
    }
    assert.ok(scene.screen.lines[0]?.startsWith("approvals pending: 1"));
    await scene.shows(/a: approve {2}r: refuse|space\/b a r/);
    await scene.terminal.type("a");
    await scene.shows("approved 0: ");
    await scene.terminal.type("q");
    assert.equal(await scene.terminal.ends(), 0);
    assert.equal(scene.screen.overflowed, false);
    checkEnd(scene);
    // deno-lint-ignore no-control-regex
    const raw = scene.terminal.screen.replace(/\x1b\[[\d;?]*[HKJmhl]/g, "");
    assert.doesNotMatch(raw.replaceAll("\r\n", ""), /[\p{Cc}\p{Cf}]/u);
  });
});

Deno.test("a terminal that is resized is drawn anew, and its call is to be looked at again", async () => {
  await using scene = await Scene.open();
  await scene.ask("s1", command("x".repeat(60)));
  scene.watch({ after: "echo ended $?" });
  await scene.shows(READY);
  const [, device = ""] = /(\/dev\/pts\/\d+)/.exec(scene.terminal.screen) ?? [];
  const resize = async (columns: number, rows: number) => {
    [scene.columns, scene.rows] = [columns, rows];
    const args = ["-F", device, "rows", `${rows}`, "cols", `${columns}`];
    assert.ok((await new Deno.Command("stty", { args }).output()).success);
  };
  const lengthBefore = scene.terminal.screen.length;
  await resize(40, 10);
  const narrow = () =>
    Emulator.after(scene.terminal.screen.slice(lengthBefore), scene.columns, scene.rows);
  // stty tells of the rows before the columns.
  await until("a screen of 40 by 10", () => narrow().lines[6] === '| xx"}');
  assert.deepEqual(narrow().lines.slice(3, 7), [
    "| session s1  grant shell  taint private",
    `| shell {"command":"${"x".repeat(20)}`,
    `| ${"x".repeat(38)}`,
    '| xx"}',
  ]);
  await until("the second", () => narrow().lines[9] === "j/k space/b a r q");
  await resize(20, 5);
  await until("a word on the size", () => narrow().text.startsWith("needs 30 columns and"));
  await resize(80, 24);
  await until("the whole", () => narrow().text.includes(READY));
  assert.deepEqual(told(scene.home), []);
});

Deno.test("where brokerd goes away the screen says so, and goes on when it is back", async () => {
  await using scene = await Scene.open();
  await scene.ask("s1", command("ls"));
  scene.watch();
  await scene.shows(READY);
  await scene.broker.stop();
  await scene.shows(
    "brokerd does not answer; trying again",
    "brokerd is not running",
    "a: not yet",
  );
  await scene.terminal.type("a");
  await scene.shows("\nbrokerd does not answer\n");
  scene.broker = await startBroker(scene.home);
  await scene.shows("no approvals are pending");
  const { approval } = await scene.ask("s1", command("ls"));
  await scene.shows(`> ${approval} `, READY);
  await scene.terminal.type("a");
  await scene.shows(`approved ${approval}: runs`);
});

Deno.test("a brokerd that hangs is told, and nothing is answered on its old list", async () => {
  await using scene = await Scene.open();
  await scene.ask("s1", command("ls"));
  scene.watch();
  await scene.shows(READY);
  scene.broker.signal("SIGSTOP");
  await scene.shows(/no answer of brokerd for \d+ s; trying again/, "a: not yet");
  await scene.terminal.type("a");
  await scene.shows("the list is too old");
  scene.broker.signal("SIGCONT");
  await scene.shows("approvals pending: 1", READY);
  assert.deepEqual(told(scene.home), []);
});

Deno.test("every way out gives the terminal back as it was", async () => {
  const quits: Readonly<Record<string, (scene: Scene) => Promise<void>>> = {
    q: (scene) => scene.terminal.type("q"),
    "Ctrl-C": (scene) => scene.terminal.type("\x03"),
    SIGTERM: (scene) => killWatch(scene, "SIGTERM"),
    SIGHUP: (scene) => killWatch(scene, "SIGHUP"),
    SIGQUIT: (scene) => killWatch(scene, "SIGQUIT"),
    SIGINT: (scene) => killWatch(scene, "SIGINT"),
  };
  await forEach(quits, async (quit) => {
    await using scene = await Scene.open();
    await scene.ask("s1", command("ls"));
    scene.watch({ after: "echo ended $?; stty -a; echo after" });
    await scene.shows(READY);
    await quit(scene);
    await scene.terminal.shows("after\r\n");
    assert.equal(await scene.terminal.ends(), 0);
    const { screen } = scene.terminal;
    const [, before] = /before\r\n([^]*?)running\r\n/.exec(screen) ?? [];
    const [, status, after] = /ended (\d+)\r\n([^]*?)after\r\n/.exec(screen) ?? [];
    assert.equal(status, "0");
    assert.ok(before !== undefined && before.includes(" icanon") && before.includes(" echo"));
    assert.equal(after, before);
    assert.ok(screen.includes("\x1b[?2004l\x1b[?25h\x1b[?1049lended 0"));
    checkEnd(scene);
    assert.deepEqual(told(scene.home), []);
  });
});

/** Sends the watch of `scene` a signal. */
function killWatch(scene: Scene, signal: Deno.Signal): Promise<void> {
  // The shell and `script` have all of it as one word.
  const found = processesWith(scene.home.home).filter(({ commandLine }) =>
    commandLine.startsWith(`${Deno.execPath()} run `) && commandLine.includes(" --watch")
  );
  assert.equal(found.length, 1);
  for (const { pid } of found) Deno.kill(pid, signal);
  return Promise.resolve();
}

Deno.test("the selected call is in reverse where colours are wanted, and nowhere else", async () => {
  await forEach<Record<string, string>>({ coloured: {}, plain: { NO_COLOR: "1" } }, async (env) => {
    await using scene = await Scene.open();
    await scene.ask("s1", command("ls"));
    scene.watch({ env });
    await scene.shows(READY);
    assert.deepEqual([...scene.screen.reversed], "NO_COLOR" in env ? [] : [1]);
    // deno-lint-ignore no-control-regex
    assert.equal(/\x1b\[[\d;]*m/.test(scene.terminal.screen), !("NO_COLOR" in env));
  });
});

Deno.test("without a terminal, or on a dumb one, it says what else there is, with status 2", async () => {
  using home = new TempHome();
  const run = await runCtl(home.home, ["approvals", "--watch"]);
  assert.deepEqual([run.code, run.stdout], [2, ""]);
  assert.match(run.stderr, /^bxctl: --watch needs a terminal .*\nbxctl: bxctl approvals lists/);
  await using dumb = new Terminal(home.home, ["approvals", "--watch"], {
    options: { env: { TERM: "dumb" } },
  });
  assert.equal(await dumb.ends(), 2);
  assert.match(dumb.screen, /^bxctl: --watch draws on the terminal, and TERM=dumb/);
  assert.ok(!dumb.screen.includes("\x1b"));
  await using piped = new Terminal(home.home, ["approvals", "--watch"], {
    shell: "$BXCTL | cat; echo end",
  });
  await piped.shows("end\r\n");
  assert.match(piped.screen, /^bxctl: --watch needs a terminal/);
});
