/**
 * `deno task compile`: each role as a program of its own, with its row of the permission table baked in.
 * A compiled program takes no flags, so what it may do is fixed here, from the device's configuration.
 */
import { resolve } from "node:path";
import { ROLES } from "../proto/locks.ts";
import { shellWord } from "../proto/text.ts";
import { Failure, readArgs, runScript } from "./support/cli.ts";
import { flagsFor, mainOf, PROJECT } from "./support/roles.ts";

const HELP = `compile builds brokerd, loopd and bxctl, each with its permissions baked in

usage: deno task compile [--config-dir DIR] [--out DIR] [--print]

  --config-dir DIR   where brokerd.toml, loopd.toml and bxctl.toml are; all three must be there, and the
                     programs are then started with --config (default /etc/boxmaker, where each may be
                     missing)
  --out DIR          where the programs go (default dist)
  --print            print the command lines and run nothing
  --help             this text

environment: BOXMAKER_HOME   the home where the configuration names none (default /var/lib/boxmaker)
             DENORT_BIN      the runtime archive of Deno, which is downloaded otherwise
exit status: 0 built, 1 something cannot be built, 2 wrong usage`;

export interface CompileOptions {
  /** Null: the default places of the configuration. */
  readonly configDir: string | null;
  readonly out: string;
  /** `BOXMAKER_HOME`. */
  readonly home: string | undefined;
}

/** Deno's arguments that build each role, in order. Throws `ConfigError`. */
export function compileArgs({ configDir, out, home }: CompileOptions): string[][] {
  return ROLES.map((role) => {
    const places = configDir === null ? {} : { config: `${configDir}/${role}.toml` };
    return [
      // What only the tests use does not come along.
      ...["compile", "--exclude-unused-npm"],
      // A compiled brokerd is no Deno that could run the egress proxy.
      ...flagsFor(role, places, home, { deno: null }),
      ...["--output", `${out}/${role}`, mainOf(role)],
    ];
  });
}

async function build(args: readonly string[]): Promise<void> {
  const { code } = await new Deno.Command(Deno.execPath(), { args: [...args], cwd: PROJECT })
    .spawn().status;
  if (code === 0) return;
  throw new Failure(
    `deno compile failed for ${args.at(-1)}, with status ${code}`,
    "it needs the runtime archive of this version of Deno, which it downloads, or finds in DENORT_BIN",
  );
}

async function main(args: string[]): Promise<number> {
  const { values } = readArgs({
    args,
    options: {
      "config-dir": { type: "string" },
      "out": { type: "string", default: "dist" },
      "print": { type: "boolean", default: false },
    },
  });
  const configDir = values["config-dir"];
  const commands = compileArgs({
    configDir: configDir === undefined ? null : resolve(configDir),
    out: resolve(PROJECT, values.out),
    home: Deno.env.get("BOXMAKER_HOME"),
  });
  for (const command of commands) {
    if (values.print) console.log([Deno.execPath(), ...command].map(shellWord).join(" "));
    else await build(command);
  }
  return 0;
}

if (import.meta.main) await runScript("compile", HELP, Deno.args, main);
