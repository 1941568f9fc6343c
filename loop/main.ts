/** `loopd`: the command line, and the start behind its locks. */
import { readServeLine } from "../proto/io/command_line.ts";
import { causes, runbook, say } from "../proto/io/log.ts";
import { configProblem } from "../proto/io/config_file.ts";
import { startProblem } from "../proto/io/start.ts";
import { display } from "../proto/escape.ts";
import { assertNever } from "../proto/text.ts";
import { shorten } from "./events.ts";
import { lockOf, type LoopConfig, readLoopConfig } from "./config.ts";
import { makeNotices } from "./notices.ts";
import { type Running, start, type StartProblem } from "./serve.ts";

const HELP = `loopd talks to the model, keeps the conversation and passes tool calls to brokerd

usage: loopd serve [--config PATH]

  --config PATH    the configuration (default /etc/boxmaker/loopd.toml, which may be missing)
  --help           this text

environment: BOXMAKER_HOME   the home where the configuration names none (default /var/lib/boxmaker)
exit status: 0 stopped, 1 refused to start, 2 wrong usage`;

function refuse(...lines: string[]): never {
  say("loopd", ...lines);
  Deno.exit(1);
}

/** The options of the command line; ends the process where it asks for help, or is none. */
function readOptions(): { readonly config?: string } {
  const line = readServeLine(Deno.args, { config: { type: "string" } });
  switch (line.kind) {
    case "help":
      console.log(HELP);
      return Deno.exit(0);
    case "usage":
      say("loopd", line.problem, "see loopd --help");
      return Deno.exit(2);
    case "serve":
      return line.values;
    default:
      return assertNever(line);
  }
}

function readConfig(file: string | null): LoopConfig {
  try {
    return readLoopConfig(file, Deno.env.get("BOXMAKER_HOME"));
  } catch (error) {
    const hint = `start it with deno task loop; ${runbook("loopd-cannot-start")}`;
    refuse(...configProblem(error, hint));
  }
}

function explain(problem: StartProblem, config: LoopConfig): never {
  const server = display(config.llama.url);
  switch (problem.status) {
    case "already_running":
      return refuse("loopd is already running", runbook("loopd-already-running"));
    case "socket_place":
      return refuse(problem.problem, runbook("socket-directory"));
    case "selftest_failed":
      return refuse(
        `the self-test of the model server at ${server} failed: ${display(problem.problem)}`,
        runbook("loopd-selftest-failed"),
      );
    case "runs_tools":
      return refuse(
        `the model server at ${server} runs tools itself: ${
          display(shorten(problem.tools.join(", "), 1000))
        }`,
        `start it without them; ${runbook("llama-runs-tools")}`,
      );
    default:
      return assertNever(problem);
  }
}

async function main(): Promise<void> {
  const config = readConfig(readOptions().config ?? null);
  const problem = startProblem(lockOf(config), config.layout);
  if (problem !== null) refuse(...problem);
  const notices = makeNotices();
  // A bug in one turn must not end the others.
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    notices.internal(event.reason);
  });
  let running: Running | null = null;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    // From here on, since the self-test may wait for a model that loads.
    Deno.addSignalListener(signal, async () => {
      const stopping = running?.stop();
      // Whoever sends a second signal does not want to wait.
      running = null;
      await stopping;
      notices.stopped();
      Deno.exit(0);
    });
  }
  let started: Running | StartProblem;
  try {
    started = await start(config, notices);
  } catch (error) {
    refuse(`cannot start: ${causes(error)}`, runbook("loopd-cannot-start"));
  }
  if (started.status !== "running") explain(started, config);
  running = started;
  notices.ready(config.loopSocket);
}

await main();
