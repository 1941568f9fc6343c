/** Startup and the two listeners (specification 2 and 5; contracts 1). The only module that listens. */
import { serve as serveSocket, type Server } from "../proto/io/server.ts";
import {
  checkSocketPlace,
  listen,
  ownerOfNewFile,
  removeSocket,
  SocketPlaceError,
} from "../proto/io/socket.ts";
import type { ChainFailure } from "../proto/chain.ts";
import type { SocketName } from "../proto/messages.ts";
import { handleAdminRequest } from "./admin.ts";
import { timestamp } from "../proto/ids.ts";
import { lockReport } from "../proto/io/start.ts";
import { AuditLog } from "./audit_log.ts";
import { handleToolRequest } from "./broker.ts";
import { type BrokerConfig, denoPath, lockOf } from "./config.ts";
import { realFiles } from "./files.ts";
import { grantReader } from "./grants.ts";
import type { Notices } from "./notices.ts";
import { Pipeline } from "./pipeline.ts";
import { labelOf, PodmanRuntime } from "./podman/runtime.ts";
import { refusing, type Runtime } from "./runner.ts";
import { SessionStates } from "./state.ts";
import { brokerStatus } from "./status.ts";

/** Between two looks at the table of approvals, in milliseconds (specification 6, "Expiry"). */
const EXPIRY_CHECK_MS = 1000;
/** How long a client may take to read an answer, in milliseconds. */
const SEND_TIMEOUT_MS = 30_000;

/** A start that was refused; everything is as it was. */
export type StartProblem =
  | { readonly status: "already_running" }
  | { readonly status: "nothing_to_accept" }
  | { readonly status: "broken"; readonly failure: ChainFailure }
  | { readonly status: "socket_place"; readonly problem: string };

export interface Running {
  readonly status: "running";
  /** Ends every tool that runs, stops accepting, closes every connection and removes the sockets. */
  stop(): Promise<void>;
}

/**
 * Starts brokerd. `runtime`: null for what the configuration says. `now`: the clock, in milliseconds since
 * 1970. Throws where a directory or the log cannot be read, made or synced.
 */
export function start(
  config: BrokerConfig,
  acceptBreak: boolean,
  notices: Notices,
  runtime: Runtime | null = null,
  now: () => number = Date.now,
): Running | StartProblem {
  const { layout, brokerSocket, adminSocket } = config;
  const sessions = realFiles.lstat(layout.brokerSessions);
  // Every call would be denied: no session can be read through a link (contracts 8).
  if (sessions !== null && !sessions.isDirectory) {
    throw new Error(`${layout.brokerSessions} is not a directory`);
  }
  for (const directory of [layout.audit, layout.brokerSessions]) {
    if (realFiles.stat(directory) === null) realFiles.makeDirectory(directory);
  }
  const owner = ownerOfNewFile(layout.broker);
  try {
    for (const path of [brokerSocket, adminSocket]) checkSocketPlace(path, owner);
  } catch (error) {
    if (!(error instanceof SocketPlaceError)) throw error;
    return { status: "socket_place", problem: error.message };
  }
  const audit = new AuditLog(realFiles, layout.audit, now, notices);
  const started = audit.start(acceptBreak);
  if (started.status !== "open") return started;

  const podman = runtime === null ? podmanOf(config, owner, notices) : null;
  const pipeline = new Pipeline({
    audit,
    states: new SessionStates(realFiles, layout.brokerSessions),
    grants: grantReader(realFiles, config.grants),
    runtime: runtime ?? podman ?? refusing,
    notices,
    now,
    ttlMs: config.ttlMs,
  });
  const row = lockOf(config);
  const sources = {
    ...{ pipeline, audit, podman, notices, since: timestamp(now()) },
    lock: () => lockReport(row, layout),
  };
  // The lock on the log is ours, so a socket that is there is stale.
  const common = (socket: SocketName) => ({
    sendTimeoutMs: SEND_TIMEOUT_MS,
    forbidden: (kind: string) => notices.forbidden(kind, socket),
    failed: notices.internal,
  });
  const servers: Server[] = [
    serveSocket({
      ...common("broker.sock"),
      socket: "broker.sock",
      listener: listen(brokerSocket),
      handle: (request, exchange) => handleToolRequest(pipeline, request, exchange),
    }),
    serveSocket({
      ...common("admin.sock"),
      socket: "admin.sock",
      listener: listen(adminSocket),
      handle: (request, exchange) =>
        handleAdminRequest(pipeline, () => brokerStatus(sources), request, exchange),
    }),
  ];
  const expiry = setInterval(() => pipeline.expire(), EXPIRY_CHECK_MS);
  pipeline.checkGrants();
  // The calls wait for it; whoever starts brokerd does not.
  podman?.prepare();
  return {
    status: "running",
    async stop() {
      clearInterval(expiry);
      if (podman !== null) {
        await podman.stop();
        // The calls' outcomes are there. One turn of the event loop later all of them are recorded.
        await new Promise((resolve) => setTimeout(resolve));
      }
      // Last, and the caller exits at once: some time after a listener is closed, the runtime removes whatever
      // stands at its path.
      for (const server of servers) server.stop();
      for (const path of [brokerSocket, adminSocket]) removeSocket(path);
    },
  };
}

/** The runtime that the configuration names; null where no tool is to run. `owner`: brokerd's own user id. */
function podmanOf(
  { runner, egress, layout }: BrokerConfig,
  owner: number | null,
  notices: Notices,
): PodmanRuntime | null {
  if (runner === null) return null;
  return new PodmanRuntime(runner, { ...egress, deno: denoPath() }, {
    egress: `${layout.broker}/egress`,
    seccomp: `${layout.broker}/seccomp.json`,
    label: labelOf(layout.home),
    asRoot: owner === 0,
  }, notices);
}
