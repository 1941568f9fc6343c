/** Reading a role's configuration file. */
import type * as z from "zod";
import { display } from "../escape.ts";
import { unlockablePath } from "../locks.ts";
import { readToml } from "../toml.ts";
import { causes, runbook } from "./log.ts";

/** A configuration that cannot be used. Its message names the file and, where there is one, the line. */
export class ConfigError extends Error {}

/**
 * The configuration in `file`, or null where that does not exist and `named` is false.
 * Throws `ConfigError` for anything else that is not a whole configuration.
 */
export function readConfigFile<T>(schema: z.ZodType<T>, file: string, named: boolean): T | null {
  checkPath("--config", file);
  let content: string;
  try {
    content = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
      .decode(Deno.readFileSync(file));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound && !named) return null;
    const why = error instanceof Deno.errors.NotFound
      ? "no such file"
      : error instanceof TypeError
      ? "not UTF-8"
      : "cannot be read";
    throw new ConfigError(`${display(file)}: ${why}`, { cause: error });
  }
  const result = readToml(schema, content);
  if (result.ok) return result.value;
  const problems = result.problems.map(({ line, problem }) =>
    `${display(file)}:${line === null ? "" : `${line}:`} ${display(problem)}`
  );
  throw new ConfigError(problems.join("\n"));
}

/** Throws `ConfigError` where the permission table cannot express `path`. */
export function checkPath(name: string, path: string): void {
  const problem = unlockablePath(path);
  if (problem !== null) throw new ConfigError(`${name}: ${display(path)} ${problem}`);
}

/** Why a configuration cannot be used, in lines for the operator; `hint` is for a start without permissions. */
export function configProblem(error: unknown, hint: string): string[] {
  if (error instanceof Deno.errors.NotCapable) return [`holds too little: ${causes(error)}`, hint];
  if (!(error instanceof ConfigError)) throw error;
  return [...error.message.split("\n"), runbook("config-invalid")];
}
