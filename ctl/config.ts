/** Where `bxctl` finds the daemons and the log: `bxctl.toml`, or the command line (contracts 6). */
import * as z from "zod";
import { display } from "../proto/escape.ts";
import { text } from "../proto/text.ts";
import { checkPath, ConfigError, readConfigFile } from "../proto/io/config_file.ts";
import { CONFIG_DIRECTORY, DEFAULT_HOME, type Layout, layout } from "../proto/layout.ts";
import { ctlLock, type Lock } from "../proto/locks.ts";

const Schema = z.strictObject({
  paths: z.strictObject({ home: text.optional(), grants: text.optional() }).default({}),
  sockets: z.strictObject({ admin: text.optional(), loop: text.optional() }).default({}),
});

export interface CtlConfig {
  readonly configFile: string;
  readonly layout: Layout;
  readonly adminSocket: string;
  readonly loopSocket: string;
  /** The grants directory, as brokerd is configured to read it, or another that the owner names. */
  readonly grants: string;
  /** The command is one of those that read it; the others may not. */
  readonly readsGrants: boolean;
  /** The command is `doctor`, whose row lets it look at the machine. */
  readonly examines: boolean;
  /** The command is one of the two that write it, which then read it too. */
  readonly writesGrants: boolean;
  /** The one file that `audit report` writes; null for every other command. */
  readonly out: string | null;
}

/** What the command line says of places; it wins over the configuration. */
export interface CtlOverrides {
  readonly config?: string | undefined;
  readonly home?: string | undefined;
  readonly "admin-socket"?: string | undefined;
  readonly "loop-socket"?: string | undefined;
  /** The file that `audit report` writes. */
  readonly out?: string | undefined;
  readonly grants?: string | undefined;
}

/** What a command may do beside what all may. */
export interface CtlUses {
  readonly readsGrants?: boolean;
  /** Then it reads them too. */
  readonly writesGrants?: boolean;
  readonly examines?: boolean;
}

/**
 * Reads the configuration that `overrides` names, or the default one; a default file that is missing
/**
 * Reads the configuration that `overrides` names, or the default one; a default file that is missing
 * gives the defaults. `home` is `BOXMAKER_HOME`. Throws `ConfigError`.
 */
export function readCtlConfig(
  overrides: CtlOverrides,
  home: string | undefined,
  { readsGrants = false, writesGrants = false, examines = false }: CtlUses = {},
): CtlConfig {
  const configFile = overrides.config ?? `${CONFIG_DIRECTORY}/bxctl.toml`;
  const { paths, sockets } = readConfigFile(Schema, configFile, overrides.config !== undefined) ??
    Schema.parse({});
  const places = layout(overrides.home ?? paths.home ?? (home || DEFAULT_HOME));
  // A home named on the command line means that home's sockets and grants.
  const ofHome = overrides.home !== undefined;
  const configured = ofHome ? {} : sockets;
  const config: CtlConfig = {
    configFile,
    layout: places,
    adminSocket: overrides["admin-socket"] ?? configured.admin ?? places.adminSocket,
    loopSocket: overrides["loop-socket"] ?? configured.loop ?? places.loopSocket,
    grants: overrides.grants ?? (ofHome ? undefined : paths.grants) ?? places.grants,
    readsGrants,
    writesGrants,
    examines,
    out: overrides.out ?? null,
  };
  checkPath("home", places.home);
  checkPath("admin socket", config.adminSocket);
  checkPath("loop socket", config.loopSocket);
  checkGrantsPlace(config);
  if (config.out !== null) checkPath("out", config.out);
  return config;
}

/**
 * Throws `ConfigError` where reading the grants directory would mean reading what is not bxctl's: then the
 * lock could not be told from one that is too wide.
 */
function checkGrantsPlace({ grants, layout: places }: CtlConfig): void {
  checkPath("grants", grants);
  const plain = (path: string) => `${path}/`.replace(/\/+/g, "/");
  const within = (inner: string, outer: string) => plain(inner).startsWith(plain(outer));
  const foreign = [places.broker, places.loop, places.memory];
  const wider = [places.home, "/etc", "/proc"].some((place) => within(place, grants));
  if (wider || foreign.some((place) => within(grants, place))) {
    throw new ConfigError(`grants: ${display(grants)} is not a directory of grants alone`);
  }
}

/** bxctl's row of the permission table, for the command that the configuration was read for. */
export function lockOf(config: CtlConfig): Lock {
  const { grants, readsGrants, writesGrants, out } = config;
  return ctlLock({
    ...config,
    grantsToRead: readsGrants || writesGrants ? grants : null,
    grantsToWrite: writesGrants ? grants : null,
    pageToWrite: out,
  });
}
