/** `brokerd.toml` into a `BrokerConfig` (specification 2, "Configuration"). */
import * as z from "zod";
import { text } from "../proto/text.ts";
import { checkPath, ConfigError, readConfigFile } from "../proto/io/config_file.ts";
import { CONFIG_DIRECTORY, DEFAULT_HOME, type Layout, layout } from "../proto/layout.ts";
import { brokerLock, type Lock } from "../proto/locks.ts";

/** How long an approval waits for the owner unless configured, in milliseconds. */
const DEFAULT_TTL_MS = 900_000;
/** A timer of the runtime holds at most this many milliseconds, some 24 days. */
const MAX_TTL_MS = 2 ** 31 - 1;

const Schema = z.strictObject({
  paths: z.strictObject({ home: text.optional(), grants: text.optional() }).default({}),
  sockets: z.strictObject({ broker: text.optional(), admin: text.optional() }).default({}),
  approvals: z.strictObject({
    ttl_ms: z.int().min(1).max(MAX_TTL_MS).default(DEFAULT_TTL_MS),
  }).default({ ttl_ms: DEFAULT_TTL_MS }),
});

export interface BrokerConfig {
  readonly configFile: string;
  readonly layout: Layout;
  readonly grants: string;
  readonly brokerSocket: string;
  readonly adminSocket: string;
  readonly ttlMs: number;
}

/**
 * Reads `file`, or the default one where null; a default file that is missing gives the defaults.
 * `home` is `BOXMAKER_HOME`. Throws `ConfigError`.
 */
export function readBrokerConfig(file: string | null, home: string | undefined): BrokerConfig {
  const configFile = file ?? `${CONFIG_DIRECTORY}/brokerd.toml`;
  const { paths, sockets, approvals } = readConfigFile(Schema, configFile, file !== null) ??
    Schema.parse({});
  const places = layout(paths.home ?? (home || DEFAULT_HOME));
  const config: BrokerConfig = {
    configFile,
    layout: places,
    grants: paths.grants ?? places.grants,
    brokerSocket: sockets.broker ?? places.brokerSocket,
    adminSocket: sockets.admin ?? places.adminSocket,
    ttlMs: approvals.ttl_ms,
  };
  checkPath("home", places.home);
  checkPath("[paths] grants", config.grants);
  checkPath("[sockets] broker", config.brokerSocket);
  checkPath("[sockets] admin", config.adminSocket);
  if (config.brokerSocket === config.adminSocket) {
    // loopd may connect to the one, and must not reach the other.
    throw new ConfigError("[sockets]: broker and admin are the same path");
  }
  return config;
}

/** brokerd's row of the permission table. */
export function lockOf(config: BrokerConfig): Lock {
  return brokerLock(config);
}
