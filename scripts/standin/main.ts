/** The stand-in model as a program: it listens on the loopback and says where. */
import { say } from "../../proto/io/log.ts";
import { readArgs, runScript, UsageError } from "../support/cli.ts";
import { answer } from "./server.ts";

const HELP = `standin is an OpenAI-compatible server in the place of a model, and plainly none

usage: deno run --allow-net=127.0.0.1:PORT scripts/standin/main.ts [--port PORT]

  --port PORT   where it listens on 127.0.0.1 (default 0: any free port, which it names)
  --help        this text

It answers "read PATH", "write PATH TEXT", "run COMMAND", "fetch URL" and "time" with the tool calls
that a model would make, and everything else with a list of these.

exit status: 0 stopped, 1 it cannot listen, 2 wrong usage`;

function readPort(args: string[]): number {
  const { values } = readArgs({ args, options: { port: { type: "string", default: "0" } } });
  const port = /^\d{1,5}$/.test(values.port) ? Number(values.port) : NaN;
  if (!(port <= 65535)) throw new UsageError("--port is a number from 0 to 65535");
  return port;
}

async function main(args: string[]): Promise<number> {
  const port = readPort(args);
  let server: Deno.HttpServer<Deno.NetAddr>;
  try {
    server = Deno.serve({ hostname: "127.0.0.1", port, onListen: () => {} }, answer);
  } catch (error) {
    if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    say("standin", `127.0.0.1:${port} is in use`);
    return 1;
  }
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => {
      say("standin", "stopped");
      // Whoever waits for a word of it has nothing to lose.
      Deno.exit(0);
    });
  }
  say("standin", `ready, serving http://127.0.0.1:${server.addr.port}`);
  await server.finished;
  return 0;
}

if (import.meta.main) await runScript("standin", HELP, Deno.args, main);
