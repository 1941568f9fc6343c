/** `brokerd`: the command line, and the start behind its locks. */
import { readServeLine } from "../proto/io/command_line.ts";
import { causes, runbook, say } from "../proto/io/log.ts";
import { configProblem } from "../proto/io/config_file.ts";
import { startProblem } from "../proto/io/start.ts";
import { display } from "../proto/escape.ts";
import { assertNever } from "../proto/text.ts";
import { type BrokerConfig, lockOf, readBrokerConfig } from "./config.ts";
import { makeNotices } from "./notices.ts";
import type { Runtime } from "./runner.ts";
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

/** The options of the command line; ends the process where it asks for help, or is none. */
function readOptions(
  args: string[],
): { readonly config?: string; readonly "accept-break"?: boolean } {
  const line = readServeLine(args, {
    config: { type: "string" },
    "accept-break": { type: "boolean" },
  });
  switch (line.kind) {
    case "help":
      console.log(HELP);
      return Deno.exit(0);
    case "usage":
      say("brokerd", line.problem, "see brokerd --help");
      return Deno.exit(2);
    case "serve":
      return line.values;
    default:
      return assertNever(line);
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

/** Runs brokerd with this command line. `runtime` and `now` are others only in the torture harness. */
export function main(args: string[], runtime?: Runtime, now?: () => number): void {
  const options = readOptions(args);
  const config = readConfig(options.config ?? null);
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
    running = start(config, options["accept-break"] ?? false, notices, runtime, now);
  } catch (error) {
    refuse(`cannot start: ${causes(error)}`, runbook("brokerd-cannot-start"));
  }
  if (running.status !== "running") explain(running);
  const { stop } = running;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, async () => {
      await stop();
      notices.stopped();
      Deno.exit(0);
    });
  }
  if (config.runner === null) notices.noRunner();
  // Only now: whoever waits for this line may send a signal right after it.
  notices.ready(config.brokerSocket, config.adminSocket);
}

if (import.meta.main) main(Deno.args);
