/** No command prints an escape sequence where nobody wants one, whatever it shows. */
import assert from "node:assert/strict";
import {
  type CommandName,
  COMMANDS,
  type CommandSpec,
  type OptionName,
  OPTIONS,
} from "../../ctl/commands.ts";
import { runCtl, Terminal } from "../support/ctl.ts";
import { FakeBroker, FakeLoop, pending, playing } from "../support/daemons.ts";
import { ALLOWED, decided, DecidedHome } from "../support/decided_log.ts";

const HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J";
const REASONING = { type: "reasoning", text: `hm ${HOSTILE}` } as const;

/** A home in which every command finds something to show, all of it hostile. */
class Scene implements Disposable {
  readonly home = new DecidedHome({ notes: { constraints: { paths: ["/n"] } } });
  readonly broker = new FakeBroker(this.home.layout.adminSocket);
  readonly loop = new FakeLoop(
    this.home.layout.loopSocket,
    playing(REASONING, { type: "text", text: `yes ${HOSTILE}` }, { type: "done" }),
  );

  constructor() {
    const differs = { arguments: HOSTILE, tool: `t${HOSTILE}` };
    this.home.log.add(decided(ALLOWED, null, differs)).add(decided(ALLOWED, null, differs));
    this.home.write();
    const problems = [{ file: `a${HOSTILE}.toml`, line: 1, problem: HOSTILE }];
    this.broker.problems = problems;
    const status = this.broker.status.body;
    const grants = { count: 0, problem_count: 1, problems };
    const troubles = [{ about: "audit" as const, lines: [HOSTILE] }];
    this.broker.status = { ...this.broker.status, body: { ...status, grants, troubles } };
  }

  /** The command line of `name`, with all that it needs. */
  lineOf(name: CommandName): string[] {
    const { operand, needed = [] }: CommandSpec = COMMANDS[name];
    const operands = { ID: "41", SEQ: "0", GRANT: "notes", SHELL: "zsh" } as const;
    const values: Partial<Record<OptionName, string>> = {
      tool: `t${HOSTILE}`,
      arguments: HOSTILE,
      grants: this.home.layout.grants,
      out: `${this.home.root}/page.html`,
    };
    return [
      ...name.split(" "),
      ...operand === null ? [] : [operands[operand]],
      ...needed.map((option) => `--${option}=${values[option] ?? OPTIONS[option].value}`),
      ...name === "chat" ? ["--say", "hello"] : [],
    ];
  }

  /** What `run` gives for each command, with its name. */
  async each(run: (line: string[]) => Promise<string>): Promise<Map<CommandName, string>> {
    const said = new Map<CommandName, string>();
    for (const name of Object.keys(COMMANDS) as CommandName[]) {
      const item = { tool: `t${HOSTILE}`, arguments: HOSTILE, grant: HOSTILE };
      this.broker.items = [pending(item)];
      said.set(name, await run(this.lineOf(name)));
    }
    return said;
  }

  /** What each command shows on a terminal. */
  onTerminals(env: Readonly<Record<string, string>>): Promise<Map<CommandName, string>> {
    return this.each(async (line) => {
      await using terminal = new Terminal(this.home.layout.home, line, { options: { env } });
      await terminal.ends();
      return terminal.screen;
    });
  }

  [Symbol.dispose](): void {
    this.loop[Symbol.dispose]();
    this.broker[Symbol.dispose]();
    this.home[Symbol.dispose]();
  }
}

/** Each command has said something, and nothing that a terminal obeys, but for the ends of lines. */
function checkPlain(said: ReadonlyMap<CommandName, string>): void {
  for (const [name, text] of said) {
    assert.match(text, /[a-z]/, name);
    assert.doesNotMatch(text.replaceAll("\r\n", "\n"), /(?!\n)\p{Cc}/u, name);
  }
}

Deno.test("into a pipe no command prints an escape sequence", async () => {
  using scene = new Scene();
  const said = await scene.each(async (line) => {
    const { stdout, stderr } = await runCtl(scene.home.layout.home, line);
    return stdout + stderr;
  });
  checkPlain(said);
  // What was hostile is there, and escaped.
  for (const name of ["chat", "approvals", "audit log", "audit show", "why"] as const) {
    assert.ok(said.get(name)?.includes("\\u001b[31mred"), said.get(name));
  }
});

Deno.test("nor on a terminal with NO_COLOR", async () => {
  using scene = new Scene();
  checkPlain(await scene.onTerminals({ NO_COLOR: "1" }));
});

Deno.test("nor on one that is dumb", async () => {
  using scene = new Scene();
  checkPlain(await scene.onTerminals({ TERM: "dumb" }));
});

Deno.test("an empty NO_COLOR means nothing, and only what is bxctl's own is coloured", async () => {
  using scene = new Scene();
  const said = await scene.onTerminals({ NO_COLOR: "" });
  const chat = said.get("chat") ?? "";
  assert.ok(chat.includes("\x1b[2mhm \\u001b[31mred"), JSON.stringify(chat));
  checkPlain(new Map([["chat", chat.replaceAll("\x1b[2m", "").replaceAll("\x1b[22m", "")]]));
});
