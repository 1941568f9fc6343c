/**
 * What an egress proxy is told at its start, and the Deno flags it runs under (specification 13). Both
 * come from the same settings, so that the flags allow what the proxy's own check does. Pure.
 */
import { ALWAYS, unlockablePath } from "../../proto/locks.ts";
import { hostMatches, hostPatternProblem, hostProblem } from "../hosts.ts";
import {
  type Address,
  allowed,
  type Cidr,
  cidr,
  deniedRanges,
  endsOf,
  formatAddress,
  formatCidr,
  isAddress,
  isCidr,
  parseAddress,
} from "./addresses.ts";

/** The only port that is reached. */
export const PORT = 443;
/** The system takes no longer path for a socket, in bytes of UTF-8. */
const MAX_SOCKET_PATH_BYTES = 107;

/** What one call's proxy bears. Each is a whole number of at least 1. */
export interface EgressLimits {
  /** Connections that are accepted in the call, refused ones included. After these nobody listens. */
  readonly connections: number;
  /** Connections at once. One more is refused. */
  readonly atOnce: number;
  /** Bytes of all connections in both directions together. */
  readonly bytes: number;
  /** Milliseconds until a client has said where it wants to go. */
  readonly handshakeMs: number;
  /** Milliseconds for looking up a host and connecting to it. */
  readonly connectMs: number;
  /** Milliseconds that one connection lasts from when it is made. */
  readonly wholeMs: number;
}

export const EGRESS_LIMITS: EgressLimits = {
  connections: 64,
  atOnce: 8,
  bytes: 64 * 1024 * 1024,
  handshakeMs: 10_000,
  connectMs: 20_000,
  wholeMs: 600_000,
};

/** One call's proxy. */
export interface EgressSettings {
  /** The absolute path that it listens on; its directory exists and keeps others out. */
  readonly socket: string;
  /** The grant's host patterns (specification 3, "Hosts"). */
  readonly hosts: readonly string[];
  /** `[egress.hosts]`: names that are not looked up, with the address of each. */
  readonly table: Readonly<Record<string, string>>;
  /** `[egress] private`: addresses and ranges that may be reached though they are special. */
  readonly private: readonly string[];
  readonly limits: EgressLimits;
}

/** What is wrong with `settings`, or null. Each text of a flag is checked here: none can add another. */
export function settingsProblem(settings: EgressSettings): string | null {
  const { socket } = settings;
  const path = unlockablePath(socket);
  if (path !== null) return `the socket ${socket} ${path}`;
  if (new TextEncoder().encode(socket).length > MAX_SOCKET_PATH_BYTES) {
    return `the socket ${socket} is longer than the ${MAX_SOCKET_PATH_BYTES} bytes that a socket's path may have`;
  }
  if (settings.hosts.length === 0) return "no host is named";
  for (const pattern of settings.hosts) {
    const problem = hostPatternProblem(pattern);
    if (problem !== null) return `the host ${pattern} ${problem}`;
  }
  for (const [name, address] of Object.entries(settings.table)) {
    const problem = hostProblem(name);
    if (problem !== null) return `the host ${name} ${problem}`;
    if (!isAddress(address)) return `${address}, for ${name}, is not an IP address`;
  }
  for (const range of settings.private) {
    if (!isCidr(range)) return `${range} is neither an IP address nor a range of them`;
  }
  for (const [name, value] of Object.entries(settings.limits)) {
    if (!Number.isSafeInteger(value) || value < 1) return `${name} is not a whole number above 0`;
  }
  return null;
}

/** Whether the grant names `host`, a valid host name. */
export function isGranted({ hosts }: EgressSettings, host: string): boolean {
  return hosts.some((pattern) => hostMatches(pattern, host));
}

/** The address that the static table has for `host`, or null where the host is to be looked up. */
export function tableAddress({ table }: EgressSettings, host: string): Address | null {
  return Object.hasOwn(table, host) ? parseAddress(table[host] ?? "") : null;
}

/** `[egress] private` as ranges. */
export function privateRanges(settings: EgressSettings): Cidr[] {
  return settings.private.map(cidr);
}

/** `address` as a host of Deno's flags. */
export function flagHost(address: Address): string {
  return address.family === 4 ? formatAddress(address) : `[${formatAddress(address)}]`;
}

/** Of a range, what Deno's flags take: IPv6 only as a single address. */
function flagRange(range: Cidr): string {
  return range.family === 4 ? formatCidr(range) : flagHost(endsOf(range)[0]);
}

/**
 * The Deno flags of the proxy: the grant's hosts and the static table's addresses for them on port 443,
 * and its socket. Throws where the settings have a problem.
 */
export function egressFlags(settings: EgressSettings): string[] {
  const problem = settingsProblem(settings);
  if (problem !== null) throw new Error(problem);
  const { socket, hosts, table } = settings;
  const named = privateRanges(settings);
  const addresses = Object.keys(table)
    .filter((name) => isGranted(settings, name))
    .map((name) => tableAddress(settings, name))
    .filter((address) => address !== null && allowed(address, named));
  const reached = [...hosts, ...addresses.map((address) => address && flagHost(address))];
  const denied = deniedRanges(named).map(flagRange);
  return [
    ...ALWAYS,
    `--allow-read=${socket}`,
    `--allow-write=${socket}`,
    `--allow-net=${[`unix:${socket}`, ...reached.map((host) => `${host}:${PORT}`)].join(",")}`,
    // Without a value it would deny everything.
    ...denied.length === 0 ? [] : [`--deny-net=${denied.join(",")}`],
  ];
}
