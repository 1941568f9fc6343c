/** Where `bxctl` finds the daemons and the log: `bxctl.toml`, or the command line (contracts 6). */
import * as z from "zod";
import { text } from "../proto/text.ts";
import { checkPath, readConfigFile } from "../proto/io/config_file.ts";
import { CONFIG_DIRECTORY, DEFAULT_HOME, type Layout, layout } from "../proto/layout.ts";
import { ctlLock, type Lock } from "../proto/locks.ts";

const Schema = z.strictObject({
  paths: z.strictObject({ home: text.optional() }).default({}),
  sockets: z.strictObject({ admin: text.optional(), loop: text.optional() }).default({}),
});

export interface CtlConfig {
  readonly configFile: string;
  readonly layout: Layout;
  readonly adminSocket: string;
  readonly loopSocket: string;
}

/** What the command line says of places; it wins over the configuration. */
export interface CtlOverrides {
  readonly config?: string | undefined;
  readonly home?: string | undefined;
  readonly "admin-socket"?: string | undefined;
  readonly "loop-socket"?: string | undefined;
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
  // A home named on the command line means that home's sockets.
  const configured = overrides.home === undefined ? sockets : {};
  const config: CtlConfig = {
    configFile,
    layout: places,
    adminSocket: overrides["admin-socket"] ?? configured.admin ?? places.adminSocket,
    loopSocket: overrides["loop-socket"] ?? configured.loop ?? places.loopSocket,
  };
  checkPath("home", places.home);
  checkPath("admin socket", config.adminSocket);
  checkPath("loop socket", config.loopSocket);
  return config;
}

/** bxctl's row of the permission table. */
export function lockOf(config: CtlConfig): Lock {
  return ctlLock(config);
}
