/** Reading a role's configuration file. */
import type * as z from "zod";
import { display } from "../escape.ts";
import { unlockablePath } from "../locks.ts";
import { fromUtf8 } from "../text.ts";
import { readToml } from "../toml.ts";
import { causes, runbook } from "./log.ts";
import { readRegularFile } from "./regular_file.ts";

/** No configuration is larger, in bytes. */
const MAX_CONFIG_BYTES = 64 * 1024;

/** A configuration that cannot be used. Its message names the file and, where there is one, the line. */
export class ConfigError extends Error {}

/**
 * The configuration in `file`, or null where that does not exist and `named` is false.
 * Throws `ConfigError` for anything else that is not a whole configuration.
 */
export function readConfigFile<T>(schema: z.ZodType<T>, file: string, named: boolean): T | null {
  checkPath("--config", file);
  const refuse = (why: string, cause?: unknown) =>
    new ConfigError(`${display(file)}: ${why}`, { cause });
  let bytes: Uint8Array | null;
  try {
    bytes = readRegularFile(file, MAX_CONFIG_BYTES);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw refuse("cannot be read", error);
    if (!named) return null;
    throw refuse("no such file", error);
  }
  if (bytes === null) throw refuse("not a regular file");
  if (bytes.length > MAX_CONFIG_BYTES) throw refuse("larger than 64 KiB");
  const content = fromUtf8(bytes);
  if (content === null) throw refuse("not UTF-8");
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
