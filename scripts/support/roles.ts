/**
 * The three programs as scripts start them: their names, their folders and the flags of the one
 * permission table (contracts 1, "Every role is started locked").
 */
import { fileURLToPath } from "node:url";
import { denoPath, lockOf as brokerLockOf, readBrokerConfig } from "../../broker/config.ts";
import { readCommandLine, usesOf } from "../../ctl/args.ts";
import {
  type CtlOverrides,
  type CtlUses,
  lockOf as ctlLockOf,
  readCtlConfig,
} from "../../ctl/config.ts";
import { missingPaths } from "../../ctl/grants_files.ts";
import { lockOfInit } from "../../ctl/init.ts";
import { lockOf as loopLockOf, readLoopConfig } from "../../loop/config.ts";
import { denoFlags, type Role } from "../../proto/locks.ts";
import { assertNever } from "../../proto/text.ts";

/** The project's folder, without a slash at its end. */
export const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** Each program's folder. */
export const FOLDERS = {
  brokerd: "broker",
  loopd: "loop",
  bxctl: "ctl",
} as const satisfies Record<Role, string>;

/** The role that `name` means, as a program's or as a folder's name; null for anything else. */
export function roleOf(name: string): Role | null {
  const roles = Object.keys(FOLDERS) as Role[];
  return roles.find((role) => role === name || FOLDERS[role] === name) ?? null;
}

/** The main module of `role`. */
export function mainOf(role: Role): string {
  return `${PROJECT}/${FOLDERS[role]}/main.ts`;
}

/** Where a role is told to look; the daemons take `config` only. */
export type Places = CtlOverrides;

/** For bxctl: what its command may do. */
export interface FlagOptions extends CtlUses {
  /** The program that brokerd may start for the egress proxy; null for none. */
  readonly deno?: string | null;
}

/**
 * The Deno flags of `role`, worked out from the configuration that the role itself would read. `home` is
 * `BOXMAKER_HOME`. Throws `ConfigError`.
 */
export function flagsFor(
  role: Role,
  places: Places,
  home: string | undefined,
  { deno = denoPath(), ...uses }: FlagOptions = {},
): string[] {
  switch (role) {
    case "brokerd":
      return denoFlags(brokerLockOf(readBrokerConfig(places.config ?? null, home), deno));
    case "loopd":
      return denoFlags(loopLockOf(readLoopConfig(places.config ?? null, home)));
    case "bxctl":
      return denoFlags(ctlLockOf(readCtlConfig(places, home, uses)));
    default:
      return assertNever(role);
  }
}

/**
 * The flags for bxctl with `args`, or null where they ask for nothing but words. Each command has its own:
 * most may not read the grants, three alone write a file, `init` makes a home, and `grants check` may see
 * which of the grants' paths are missing. Throws `ConfigError`, and for `init` `Failed`.
 */
export function ctlFlagsOf(args: readonly string[], home: string | undefined): string[] | null {
  const invocation = readCommandLine(args);
  if (invocation.kind !== "run") return null;
  const { command, places } = invocation;
  const config = readCtlConfig(places, home, usesOf(command));
  if (command.name === "init") return denoFlags(lockOfInit(config, command.dryRun));
  const lock = ctlLockOf(config);
  const missing = command.name === "grants check"
    ? missingPaths(config.grants, config.layout.home)
    : [];
  return denoFlags({ ...lock, read: [...lock.read, ...missing] });
}
