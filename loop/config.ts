/** `loopd.toml` into a `LoopConfig` (contracts 7). */
import * as z from "zod";
import { text } from "../proto/text.ts";
import { checkPath, ConfigError, readConfigFile } from "../proto/io/config_file.ts";
import { CONFIG_DIRECTORY, DEFAULT_HOME, type Layout, layout } from "../proto/layout.ts";
import { display } from "../proto/escape.ts";
import { type Lock, loopLock } from "../proto/locks.ts";

const DEFAULT_LLAMA_URL = "http://127.0.0.1:8080";
/** The longest silence between two chunks of the model, in milliseconds. */
const DEFAULT_LLAMA_TIMEOUT_MS = 300_000;
const DEFAULT_MAX_TOOL_CALLS = 16;
/** A timer of the runtime holds at most this many milliseconds, some 24 days. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** The keys of `loopd.toml`. */
export const Schema = z.strictObject({
  paths: z.strictObject({ home: text.optional() }).default({}),
  sockets: z.strictObject({ loop: text.optional() }).default({}),
  broker: z.strictObject({ socket: text.optional() }).default({}),
  llama: z.strictObject({
    url: text.optional(),
    model: text.optional(),
    timeout_ms: z.int().min(1).max(MAX_TIMEOUT_MS).optional(),
    max_tool_calls: z.int().min(1).max(1000).optional(),
  }).default({}),
});

export interface LlamaConfig {
  /** `http://host:port` or `https://host:port`, without a path. */
  readonly url: string;
  /** The `model` of each request; null leaves it to the server. */
  readonly model: string | null;
  readonly timeoutMs: number;
  /** Tool calls that one turn may make. */
  readonly maxToolCalls: number;
}

export interface LoopConfig {
  readonly configFile: string;
  readonly layout: Layout;
  readonly loopSocket: string;
  /** Null: no tool broker is configured. */
  readonly brokerSocket: string | null;
  readonly llama: LlamaConfig;
}

/**
 * Reads `file`, or the default one where null; a default file that is missing gives the defaults.
 * `home` is `BOXMAKER_HOME`. Throws `ConfigError`.
 */
export function readLoopConfig(file: string | null, home: string | undefined): LoopConfig {
  const configFile = file ?? `${CONFIG_DIRECTORY}/loopd.toml`;
  const { paths, sockets, broker, llama } = readConfigFile(Schema, configFile, file !== null) ??
    Schema.parse({});
  const places = layout(paths.home ?? (home || DEFAULT_HOME));
  const config: LoopConfig = {
    configFile,
    layout: places,
    loopSocket: sockets.loop ?? places.loopSocket,
    brokerSocket: broker.socket ?? null,
    llama: {
      url: serverUrl(llama.url ?? DEFAULT_LLAMA_URL),
      model: llama.model ?? null,
      timeoutMs: llama.timeout_ms ?? DEFAULT_LLAMA_TIMEOUT_MS,
      maxToolCalls: llama.max_tool_calls ?? DEFAULT_MAX_TOOL_CALLS,
    },
  };
  checkPath("home", places.home);
  checkPath("[sockets] loop", config.loopSocket);
  if (config.brokerSocket !== null) checkPath("[broker] socket", config.brokerSocket);
  return config;
}

/** `value` as `scheme://host:port`. The permission table takes the host and port from it. */
function serverUrl(value: string): string {
  const url = URL.canParse(value) ? new URL(value) : null;
  const plain = url !== null && (url.protocol === "http:" || url.protocol === "https:") &&
    url.username === "" && url.password === "" && url.pathname === "/" && url.search === "" &&
    url.hash === "";
  // "*", "," and the like mean something to --allow-net.
  if (!plain || !/^[A-Za-z0-9.:[\]-]+$/.test(url.host)) {
    throw new ConfigError(`[llama] url: ${display(value)} is not http(s)://HOST:PORT`);
  }
  return url.origin;
}

/** loopd's row of the permission table. */
export function lockOf(config: LoopConfig): Lock {
  const { hostname, port, protocol } = new URL(config.llama.url);
  const llama = `${hostname}:${port || (protocol === "https:" ? "443" : "80")}`;
  return loopLock({ ...config, llama });
}
