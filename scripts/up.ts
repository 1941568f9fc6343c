/** `deno task up`: everything at once in a home of its own, and a chat to try it in. */
import { display } from "../proto/escape.ts";
import { say } from "../proto/io/log.ts";
import { shellWord } from "../proto/text.ts";
import { checkSameHome, hasGrant, type Home, namesRunner, prepareHome } from "./support/home.ts";
import { readArgs, runScript } from "./support/cli.ts";
import { ctlCommand } from "./support/ctl.ts";
import { forbidLinks } from "./support/kernel_lock.ts";
import type { Daemon } from "./support/daemon.ts";
import { Ending } from "./support/ending.ts";
import { runnerTables } from "./support/podman.ts";
import { PROJECT } from "./support/roles.ts";
import { Stack } from "./support/stack.ts";

const HELP = `up starts brokerd, loopd and a model server, and opens a chat

usage: deno task up [--llama URL] [--no-tools]

  --llama URL   the llama.cpp server to talk to, http://HOST:PORT (default: a stand-in, which is no model)
  --no-tools    run no tool: allowed calls fail (default: in containers, where podman can run them)
  --help        this text

The home is .boxmaker in the project's folder. The first run makes it, with three example grants and a
note; no run overwrites anything in it but run/*.toml. The end of the chat stops everything.

environment: BOXMAKER_HOME   a home in place of .boxmaker
exit status: the chat's; 1 where a daemon does not start or ends too early, 2 wrong usage`;

/** How many of the daemons' last lines are repeated after the chat. */
const REPEATED = 20;

/** What there is to try, and where to look. */
function guidance(home: Home, standin: boolean): string[] {
  const { path, notes, drafts, logs, layout } = home;
  const draft = `${drafts}/b.md`.includes(" ") ? `"${drafts}/b.md"` : `${drafts}/b.md`;
  const model = standin
    ? [
      "the model is a stand-in: it turns five sentences into tool calls, and is no model",
      "a real one: --llama http://HOST:PORT",
    ]
    : [];
  const commands = hasGrant(home, "commands-run")
    ? [
      ["run uname -a", "you are asked; it runs in a container that sees nothing of this machine"],
    ] as const
    : [];
  const examples = [
    [`read ${notes}/a.md`, "you are asked first: only y lets it run"],
    [`write ${draft} a first draft`, "runs without asking"],
    ...commands,
    ["read /etc/passwd", "denied: no grant allows it"],
    ["time", "needs no grant"],
  ] as const;
  const width = Math.max(...examples.map(([sentence]) => sentence.length));
  return [
    ...model,
    `the grants are in ${layout.grants}; what the daemons say is in ${logs}`,
    "try, a line each:",
    ...examples.map(([sentence, what]) => `  ${sentence.padEnd(width)}  ${what}`),
    "Ctrl-D ends it; then look at what was recorded:",
    `  npx --yes deno@2.9.6 task ctl audit verify --home ${shellWord(path)}`,
  ].map(display);
}

function tell(...lines: readonly string[]): void {
  say("up", ...lines);
}

/** What the daemons say. */
class Heard {
  #live = true;
  #kept: string[] = [];

  /** Shown at once until the chat begins; after that it would break into what the owner types. */
  readonly hear = (line: string): void => {
    if (this.#live) tell(display(line));
    else this.#kept = [...this.#kept, line].slice(-REPEATED);
  };

  /** From now on what is said is kept. */
  keep(): void {
    this.#live = false;
  }

  /** Tells what was kept. */
  repeat(logs: string): void {
    if (this.#kept.length === 0) return;
    const lines = this.#kept.map((line) => `  ${display(line)}`);
    tell(`said meanwhile, and in ${display(logs)}:`, ...lines);
  }
}

/** The first daemon of `daemons` that ends, with how. */
async function firstEnd(daemons: readonly Daemon[]): Promise<readonly string[]> {
  return await Promise.race(
    daemons.map(async (daemon) => daemon.obituary(await daemon.ended)),
  );
}

/** How long the chat may take to end once it is told to, in milliseconds. */
const CHAT_END_MS = 5000;

/** Runs the chat until it or a daemon ends, or a signal comes. Returns the exit status. */
async function chat(stack: Stack, ending: Ending): Promise<number> {
  const streams = { stdin: "inherit", stdout: "inherit", stderr: "inherit" } as const;
  const child = ctlCommand(stack.places, ["chat"], streams).spawn();
  let running = true;
  const ended = child.status.then(({ code }) => {
    running = false;
    return code;
  });
  const first = await Promise.race([ended, ending.asked, firstEnd(stack.daemons)]);
  if (running) {
    // It gives the terminal back as it was.
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), CHAT_END_MS);
    await ended;
    clearTimeout(timer);
  }
  if (typeof first === "number") return first;
  tell(...first.map(display));
  return 1;
}

async function run(stack: Stack, heard: Heard, ending: Ending, standin: boolean): Promise<number> {
  const started = await Promise.race([stack.start(), ending.asked]);
  if (started !== undefined) return started;
  tell(...guidance(stack.home, standin));
  heard.keep();
  const status = await chat(stack, ending);
  heard.repeat(stack.home.logs);
  return status;
}

async function main(args: string[]): Promise<number> {
  const { values } = readArgs({
    args,
    options: { "llama": { type: "string" }, "no-tools": { type: "boolean", default: false } },
  });
  const home = prepareHome(Deno.env.get("BOXMAKER_HOME") || `${PROJECT}/.boxmaker`);
  checkSameHome(home);
  using ending = new Ending();
  const heard = new Heard();
  // Who wrote a table of their own knows what runs.
  const tables = namesRunner(home)
    ? {}
    : await runnerTables(!values["no-tools"], tell, ending.asked);
  if (typeof tables === "number") return tables;
  await using stack = new Stack({
    ...{ home, tables },
    afterBroker: () => forbidLinks("up"),
    llama: values.llama ?? null,
    heard: heard.hear,
    detached: true,
  });
  return await run(stack, heard, ending, values.llama === undefined);
}

if (import.meta.main) await runScript("up", HELP, Deno.args, main);
