/** `brokerd`: the command line, and the start behind its locks. */
import { parseArgs } from "node:util";
import { causes, runbook, say } from "../proto/io/log.ts";
import { configProblem } from "../proto/io/config_file.ts";
import { startProblem } from "../proto/io/start.ts";
import { display } from "../proto/escape.ts";
import { assertNever } from "../proto/text.ts";
import { type BrokerConfig, lockOf, readBrokerConfig } from "./config.ts";
import { makeNotices } from "./notices.ts";
import { start, type StartProblem } from "./serve.ts";

const HELP = `brokerd decides each tool call, records it and runs what is allowed

usage: brokerd serve [--config PATH] [--accept-break]

  --config PATH    the configuration (default /etc/boxmaker/brokerd.toml, which may be missing)
  --accept-break   go on after a break in the audit log; see docs/runbook.md#audit-chain-broken
  --help           this text

environment: BOXMAKER_HOME   the home where the configuration names none (default /var/lib/boxmaker)
exit status: 0 stopped, 1 refused to start, 2 wrong usage`;

function refuse(...lines: string[]): never {
  say("brokerd", ...lines);
  Deno.exit(1);
}

function wrongUsage(problem: string): never {
  say("brokerd", problem, "see brokerd --help");
  Deno.exit(2);
}

function readCommandLine(args: string[]): { config: string | null; acceptBreak: boolean } {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        config: { type: "string" },
        "accept-break": { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
    if (values.help) {
      console.log(HELP);
      Deno.exit(0);
    }
    if (positionals.length !== 1 || positionals[0] !== "serve") {
      wrongUsage("the one command is serve");
    }
    return { config: values.config ?? null, acceptBreak: values["accept-break"] };
  } catch (error) {
    wrongUsage(causes(error));
  }
}

function readConfig(file: string | null): BrokerConfig {
  try {
    return readBrokerConfig(file, Deno.env.get("BOXMAKER_HOME"));
  } catch (error) {
    const hint = `start it with deno task broker; ${runbook("brokerd-cannot-start")}`;
    refuse(...configProblem(error, hint));
  }
}

function explain(problem: StartProblem): never {
  switch (problem.status) {
    case "already_running":
      return refuse("brokerd is already running", runbook("brokerd-already-running"));
    case "nothing_to_accept":
      say("brokerd", "audit: nothing to accept: the log is whole", "start without --accept-break");
      return Deno.exit(2);
    case "broken": {
      const { file, line, what } = problem.failure;
      return refuse(
        `audit: ${display(file)}:${line}: ${display(what)}`,
        runbook("audit-chain-broken"),
      );
    }
    case "socket_place":
      return refuse(problem.problem, runbook("socket-directory"));
    default:
      return assertNever(problem);
  }
}

function main(): void {
  const { config: file, acceptBreak } = readCommandLine(Deno.args);
  const config = readConfig(file);
  const problem = startProblem(lockOf(config), config.layout);
  if (problem !== null) refuse(...problem);
  const notices = makeNotices();
  // A bug in one call must not end the others. What it was about to do has not been recorded.
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    notices.internal(event.reason);
  });
  let running: ReturnType<typeof start>;
  try {
    running = start(config, acceptBreak, notices);
  } catch (error) {
    refuse(`cannot start: ${causes(error)}`, runbook("brokerd-cannot-start"));
  }
  if (running.status !== "running") explain(running);
  const { stop } = running;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => {
      stop();
      notices.stopped();
      Deno.exit(0);
    });
  }
  // Only now: whoever waits for this line may send a signal right after it.
  notices.ready(config.brokerSocket, config.adminSocket);
}

main();
