/** `brokerd.toml` into a `BrokerConfig` (specification 2, "Configuration"). */
import * as z from "zod";
import { display } from "../proto/escape.ts";
import { text } from "../proto/text.ts";
import { checkPath, ConfigError, readConfigFile } from "../proto/io/config_file.ts";
import { CONFIG_DIRECTORY, DEFAULT_HOME, type Layout, layout } from "../proto/layout.ts";
import { brokerLock, type Lock } from "../proto/locks.ts";
import { isAddress, isCidr } from "./egress/addresses.ts";
import { hostProblem } from "./hosts.ts";
import { mountProblem, type RunnerSettings } from "./podman/args.ts";

/** How long an approval waits for the owner unless configured, in milliseconds. */
const DEFAULT_TTL_MS = 900_000;
/** A timer of the runtime holds at most this many milliseconds, some 24 days. */
const MAX_TTL_MS = 2 ** 31 - 1;

/** Which tools run, and within which limits; each with a default that a small machine bears. */
const Runner = z.strictObject({
  runtime: z.enum(["podman", "refusing"]).default("refusing"),
  podman: text.default("/usr/bin/podman"),
  oci_runtime: text.optional(),
  image: z.string().regex(/^sha256:[0-9a-f]{64}$/, "not an image's id, sha256: and 64 hex digits")
    .optional(),
  user: z.string().regex(/^[1-9][0-9]{0,8}:[0-9]{1,9}$/, "not UID:GID of a user that is not root")
    .default("65534:65534"),
  memory_mb: z.int().min(16).max(1_048_576).default(512),
  processes: z.int().min(4).max(100_000).default(128),
  timeout_ms: z.int().min(100).max(3_600_000).default(60_000),
  output_bytes: z.int().min(1).max(1_048_576).default(262_144),
  parallel: z.int().min(1).max(64).default(4),
});

const Egress = z.strictObject({
  hosts: z.record(text, text).default({}),
  private: z.array(text).default([]),
  ca_file: text.optional(),
});

/** The keys of `brokerd.toml`. */
export const Schema = z.strictObject({
  paths: z.strictObject({ home: text.optional(), grants: text.optional() }).default({}),
  sockets: z.strictObject({ broker: text.optional(), admin: text.optional() }).default({}),
  approvals: z.strictObject({
    ttl_ms: z.int().min(1).max(MAX_TTL_MS).default(DEFAULT_TTL_MS),
  }).default({ ttl_ms: DEFAULT_TTL_MS }),
  runner: Runner.prefault({}),
  egress: Egress.prefault({}),
});

export interface BrokerConfig {
  readonly configFile: string;
  readonly layout: Layout;
  readonly grants: string;
  readonly brokerSocket: string;
  readonly adminSocket: string;
  readonly ttlMs: number;
  /** Null: no tool runs. */
  readonly runner: RunnerSettings | null;
  readonly egress: EgressConfig;
}

/** What `[egress]` says. */
export interface EgressConfig {
  /** A static table: host names and the addresses that they lead to. */
  readonly table: Readonly<Record<string, string>>;
  /** The special addresses that may be reached all the same, as addresses or CIDRs. */
  readonly private: readonly string[];
  /** Certificates to trust beside those of the image. */
  readonly caFile: string | null;
}

/**
 * Reads `file`, or the default one where null; a default file that is missing gives the defaults.
 * `home` is `BOXMAKER_HOME`. Throws `ConfigError`.
 */
export function readBrokerConfig(file: string | null, home: string | undefined): BrokerConfig {
  const configFile = file ?? `${CONFIG_DIRECTORY}/brokerd.toml`;
  const { paths, sockets, approvals, runner, egress } =
    readConfigFile(Schema, configFile, file !== null) ?? Schema.parse({});
  const places = layout(paths.home ?? (home || DEFAULT_HOME));
  const config: BrokerConfig = {
    configFile,
    layout: places,
    grants: paths.grants ?? places.grants,
    brokerSocket: sockets.broker ?? places.brokerSocket,
    adminSocket: sockets.admin ?? places.adminSocket,
    ttlMs: approvals.ttl_ms,
    runner: runnerSettings(runner),
    egress: egressConfig(egress),
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

/** What a `[runner]` table with these keys comes to; null: no tool runs. Throws `ConfigError`. */
export function readRunner(table: z.input<typeof Runner>): RunnerSettings | null {
  return runnerSettings(Runner.parse(table));
}

/** Throws `ConfigError` where Podman is to run without an image, or by a path that is none. */
function runnerSettings(runner: z.infer<typeof Runner>): RunnerSettings | null {
  if (runner.runtime === "refusing") return null;
  const { podman, oci_runtime: ociRuntime = null, image, user, parallel, processes } = runner;
  checkPath("[runner] podman", podman);
  if (ociRuntime !== null && !/^[\w./-]+$/.test(ociRuntime)) {
    throw new ConfigError(
      `[runner] oci_runtime: ${display(ociRuntime)} is no program's name or path`,
    );
  }
  if (image === undefined) {
    throw new ConfigError("[runner] image: missing; deno task image makes one and prints its id");
  }
  return {
    ...{ podman, ociRuntime, image, user, parallel, processes },
    memoryMb: runner.memory_mb,
    timeoutMs: runner.timeout_ms,
    outputBytes: runner.output_bytes,
  };
}

/** Throws `ConfigError` for a host that is no name, and an address that is none. */
function egressConfig(egress: z.infer<typeof Egress>): EgressConfig {
  const { hosts, private: named, ca_file: caFile = null } = egress;
  for (const [host, address] of Object.entries(hosts)) {
    const problem = hostProblem(host);
    if (problem !== null) throw new ConfigError(`[egress.hosts] ${display(host)}: ${problem}`);
    if (!isAddress(address)) {
      throw new ConfigError(
        `[egress.hosts] ${display(host)}: ${display(address)} is no IPv4 or IPv6 address`,
      );
    }
  }
  for (const range of named) {
    if (isCidr(range)) continue;
    throw new ConfigError(
      `[egress] private: ${display(range)} is no address, nor a range as 10.0.0.0/8`,
    );
  }
  if (caFile !== null) {
    checkPath("[egress] ca_file", caFile);
    const problem = mountProblem(caFile);
    if (problem !== null) throw new ConfigError(`[egress] ca_file: ${display(caFile)} ${problem}`);
  }
  return { table: hosts, private: named, caFile };
}

/**
 * brokerd's row of the permission table. `deno`: the program that runs the egress proxy, null where there
 * is none.
 */
export function lockOf(config: BrokerConfig, deno: string | null = denoPath()): Lock {
  const { runner } = config;
  return brokerLock({
    ...config,
    run: runner === null ? [] : [runner.podman, ...deno === null ? [] : [deno]],
  });
}

/** The path of Deno; null in a compiled program, which is no Deno that could run another. */
export function denoPath(): string | null {
  return Deno.build.standalone ? null : Deno.execPath();
}
