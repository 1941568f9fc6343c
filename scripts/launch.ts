/** `deno task broker`, `loop` and `ctl`: one role behind the locks of the permission table (contracts 1). */
import { parseArgs } from "node:util";
import { Failed } from "../ctl/notices.ts";
import { ConfigError } from "../proto/io/config_file.ts";
import { runbook, say } from "../proto/io/log.ts";
import { ALWAYS, type Role } from "../proto/locks.ts";
import { runScript, UsageError } from "./support/cli.ts";
import { forbidLinks } from "./support/kernel_lock.ts";
import { ctlFlagsOf, flagsFor, mainOf, type Places, roleOf } from "./support/roles.ts";
import { watchStarter } from "./support/starter.ts";

const HELP =
  `launch starts a role with exactly its Deno flags, which it works out from the role's configuration

usage: deno task broker [OPTIONS]    brokerd serve OPTIONS
       deno task loop [OPTIONS]      loopd serve OPTIONS
       deno task ctl [ARGUMENTS]     bxctl ARGUMENTS

Each takes --help for the role's own options. deno task permissions ROLE prints the flags.

environment: BOXMAKER_HOME   the home where the configuration names none (default /var/lib/boxmaker)
exit status: the role's own`;

/**
 * How long a role may take to end after Ctrl-C before the signal is sent once more, in milliseconds: the
 * terminal has sent it already, and for loopd a second one means not to wait for its turns.
 */
const CTRL_C_MS = 6000;

/** The places that `args` of a daemon name; null where they ask for nothing but words. */
function placesOf(args: string[]): Places | null {
  // What is wrong with the other arguments is the role's to say.
  const { values } = parseArgs({
    args,
    options: { config: { type: "string" }, help: { type: "boolean" } },
    allowPositionals: true,
    strict: false,
  });
  if (values.help) return null;
  return typeof values.config === "string" ? { config: values.config } : {};
}

/** The flags for running `role` with `args`. Throws `ConfigError`. */
export function flagsOfRun(
  role: Role,
  args: string[],
  home: string | undefined,
): readonly string[] {
  if (role === "bxctl") return ctlFlagsOf(args, home) ?? ALWAYS;
  const places = placesOf(args);
  return places === null ? ALWAYS : flagsFor(role, places, home);
}

/**
 * Runs Deno with `args` on the streams of this process, and passes on the signals that end a program.
 * Returns its exit status; where a signal ended it, 128 and the signal's number.
 */
export async function runPassingSignals(args: readonly string[]): Promise<number> {
  let child: Deno.ChildProcess | null = null;
  const forward = (signal: Deno.Signal) => {
    try {
      child?.kill(signal);
    } catch {
      // it has just ended
    }
  };
  let interrupted: ReturnType<typeof setTimeout> | undefined;
  Deno.addSignalListener("SIGINT", () => {
    if (!Deno.stdin.isTerminal()) return forward("SIGINT");
    interrupted ??= setTimeout(() => forward("SIGINT"), CTRL_C_MS);
  });
  for (const signal of ["SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, () => forward("SIGTERM"));
  }
  const unwatch = watchStarter(() => forward("SIGTERM"));
  child = new Deno.Command(Deno.execPath(), {
    args: [...args],
    // A locked program's runtime has no business on the network either.
    env: { DENO_NO_UPDATE_CHECK: "1" },
    stdin: "inherit",
    stdout: "inherit",
    stderr: "inherit",
  }).spawn();
  const { code } = await child.status;
  clearTimeout(interrupted);
  unwatch();
  return code;
}

async function main([name = "", ...args]: string[]): Promise<number> {
  const role = roleOf(name);
  if (role === null) throw new UsageError("the first argument is broker, loop or ctl");
  let flags: readonly string[];
  try {
    flags = flagsOfRun(role, args, Deno.env.get("BOXMAKER_HOME"));
  } catch (error) {
    if (error instanceof Failed) {
      say(role, ...error.lines);
      return 1;
    }
    if (!(error instanceof ConfigError)) throw error;
    say(role, ...error.message.split("\n"), runbook("config-invalid"));
    return 1;
  }
  // Podman makes links, and cannot run where its privileges are kept from it.
  if (!flags.some((flag) => flag.startsWith("--allow-run="))) forbidLinks(role);
  return await runPassingSignals(["run", "--quiet", ...flags, mainOf(role), ...args]);
}

if (import.meta.main) {
  // The arguments after the role are the role's, its --help too.
  await runScript("launch", HELP, Deno.args.slice(0, 1), () => main([...Deno.args]));
}
