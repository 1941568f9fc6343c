/** What every script's command line has in common: `--help`, wrong usage, failures in words. */
import { parseArgs, type ParseArgsConfig } from "node:util";
import { ConfigError } from "../../proto/io/config_file.ts";
import { causes, runbook, say } from "../../proto/io/log.ts";

/** A command line that is not one: exit status 2. */
export class UsageError extends Error {}

/** Something that the script could not do, in words for its owner: exit status 1. */
export class Failure extends Error {
  readonly lines: readonly string[];
  constructor(...lines: readonly string[]) {
    super(lines.join("\n"));
    this.lines = lines;
  }
}

/** `parseArgs` of node:util, strict; what is wrong becomes a `UsageError`. */
export function readArgs<T extends ParseArgsConfig>(
  config: T,
): ReturnType<typeof parseArgs<T & { strict: true }>> {
  try {
    return parseArgs({ ...config, strict: true });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new UsageError(causes(error), { cause: error });
  }
}

/**
 * Runs the script `name` and ends the process with the status that `main` gives. `--help` among `args`
 * prints `help`.
 */
export async function runScript(
  name: string,
  help: string,
  args: readonly string[],
  main: (args: string[]) => number | Promise<number>,
): Promise<never> {
  if (args.includes("--help")) {
    console.log(help);
    Deno.exit(0);
  }
  try {
    Deno.exit(await main([...args]));
  } catch (error) {
    if (error instanceof UsageError) {
      say(name, error.message, "--help tells more");
      Deno.exit(2);
    }
    if (error instanceof ConfigError) {
      say(name, ...error.message.split("\n"), runbook("config-invalid"));
    }
    if (error instanceof Failure) say(name, ...error.lines);
    if (!(error instanceof ConfigError || error instanceof Failure)) throw error;
    Deno.exit(1);
  }
}
