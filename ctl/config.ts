/** Where `bxctl` finds the daemons and the log: `bxctl.toml`, or the command line (contracts 6). */
import * as z from "zod";
import { text } from "../proto/text.ts";
import { checkPath, readConfigFile } from "../proto/io/config_file.ts";
import { CONFIG_DIRECTORY, DEFAULT_HOME, type Layout, layout } from "../proto/layout.ts";
import { ctlLock, type Lock, type ReportPlaces } from "../proto/locks.ts";

const Schema = z.strictObject({
  paths: z.strictObject({ home: text.optional(), grants: text.optional() }).default({}),
  sockets: z.strictObject({ admin: text.optional(), loop: text.optional() }).default({}),
});

export interface CtlConfig {
  readonly configFile: string;
  readonly layout: Layout;
  readonly adminSocket: string;
  readonly loopSocket: string;
  /** Null for every command but `audit report`. */
  readonly report: ReportPlaces | null;
}

/** What the command line says of places; it wins over the configuration. */
export interface CtlOverrides {
  readonly config?: string | undefined;
  readonly home?: string | undefined;
  readonly "admin-socket"?: string | undefined;
  readonly "loop-socket"?: string | undefined;
  /** The file that `audit report` writes; with it comes its part of the permission table. */
  readonly out?: string | undefined;
  readonly grants?: string | undefined;
}

/**
 * Reads the configuration that `overrides` names, or the default one; a default file that is missing
 * gives the defaults. `home` is `BOXMAKER_HOME`. Throws `ConfigError`.
 */
export function readCtlConfig(overrides: CtlOverrides, home: string | undefined): CtlConfig {
  const configFile = overrides.config ?? `${CONFIG_DIRECTORY}/bxctl.toml`;
  const { paths, sockets } = readConfigFile(Schema, configFile, overrides.config !== undefined) ??
    Schema.parse({});
  const places = layout(overrides.home ?? paths.home ?? (home || DEFAULT_HOME));
  // A home named on the command line means that home's sockets and grants.
  const whole = overrides.home === undefined;
  const configured: typeof sockets = whole ? sockets : {};
  const grants = overrides.grants ?? (whole ? paths.grants : undefined) ?? places.grants;
  const config: CtlConfig = {
    configFile,
    layout: places,
    adminSocket: overrides["admin-socket"] ?? configured.admin ?? places.adminSocket,
    loopSocket: overrides["loop-socket"] ?? configured.loop ?? places.loopSocket,
    report: overrides.out === undefined ? null : { grants, out: overrides.out },
  };
  checkPath("home", places.home);
  checkPath("admin socket", config.adminSocket);
  checkPath("loop socket", config.loopSocket);
  checkPath("grants", grants);
  if (config.report !== null) checkPath("out", config.report.out);
  return config;
}

/** bxctl's row of the permission table. */
export function lockOf(config: CtlConfig): Lock {
  return ctlLock(config);
}
