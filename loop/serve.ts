/** Startup and the listener of `loop.sock` (contracts 1, 7 and 8). The only module that listens. */
import { timestamp } from "../proto/ids.ts";
import { lockReport } from "../proto/io/start.ts";
import { serve as serveSocket } from "../proto/io/server.ts";
import {
  checkSocketPlace,
  isListening,
  listen,
  ownerOfNewFile,
  removeSocket,
  SocketPlaceError,
} from "../proto/io/socket.ts";
import { BrokerPort, noBroker } from "./broker_port.ts";
import { Chats } from "./chat.ts";
import { lockOf, type LoopConfig } from "./config.ts";
import { ModelServer } from "./llama.ts";
import type { Notices } from "./notices.ts";
import { type SelfTest, selfTest } from "./selftest.ts";
import { LoopStatuses } from "./status.ts";

/** How long a client may take to read an event, in milliseconds. */
const SEND_TIMEOUT_MS = 30_000;
/** How long turns may take to end when loopd stops, in milliseconds. */
const STOP_MS = 5_000;

/** A start that was refused. */
export type StartProblem =
  | { readonly status: "already_running" }
  | { readonly status: "socket_place"; readonly problem: string }
  | Exclude<SelfTest, { status: "ok" }>;

export interface Running {
  readonly status: "running";
  /** Stops accepting, ends every turn, closes every connection and removes the socket. */
  stop(): Promise<void>;
}

/** Starts loopd. Throws where a directory cannot be made or used. */
export async function start(
  config: LoopConfig,
  notices: Notices,
): Promise<Running | StartProblem> {
  const { layout, loopSocket, brokerSocket, llama } = config;
  Deno.mkdirSync(layout.loopSessions, { recursive: true, mode: 0o700 });
  const lock = takeLock(`${layout.loop}/.lock`);
  if (lock === null) return { status: "already_running" };
  const giveUp = (problem: StartProblem) => {
    lock.close();
    return problem;
  };
  try {
    checkSocketPlace(loopSocket, ownerOfNewFile(layout.loop));
  } catch (error) {
    if (!(error instanceof SocketPlaceError)) throw error;
    return giveUp({ status: "socket_place", problem: error.message });
  }
  // A loopd of another home may use the same socket.
  if (await isListening(loopSocket)) return giveUp({ status: "already_running" });
  const server = new ModelServer(llama);
  const tested = await selfTest(server, {
    loadingMs: llama.timeoutMs,
    loading: () => notices.modelLoading(llama.timeoutMs),
  });
  if (tested.status !== "ok") return giveUp(tested);

  const chats = new Chats({
    model: server,
    broker: brokerSocket === null ? noBroker : new BrokerPort(brokerSocket, notices, Date.now),
    maxToolCalls: llama.maxToolCalls,
    now: Date.now,
    random: () => crypto.randomUUID().slice(0, 8),
    sessions: layout.loopSessions,
    core: layout.core,
    notices,
  });
  const row = lockOf(config);
  const statuses = new LoopStatuses({
    ...{ model: server, url: llama.url, brokerSocket, notices },
    turns: () => chats.turns,
    lock: () => lockReport(row, layout),
    since: timestamp(Date.now()),
  });
  const socket = serveSocket({
    listener: listen(loopSocket),
    socket: "loop.sock",
    sendTimeoutMs: SEND_TIMEOUT_MS,
    handle: async (request, exchange) => {
      if (request.kind !== "status") return await chats.handle(request, exchange);
      await exchange.send({ kind: "loop_status", final: true, body: await statuses.now() });
    },
    forbidden: notices.forbidden,
    failed: notices.internal,
  });
  return {
    status: "running",
    async stop() {
      socket.stop();
      removeSocket(loopSocket);
      // Their clients are gone now, so that they end by themselves once their entry is on disk.
      await within(STOP_MS, chats.settled());
      lock.close();
    },
  };
}

/** The exclusive lock on `path` for as long as the file is open, or null where somebody holds it. */
function takeLock(path: string): Deno.FsFile | null {
  // Read and write: opening a FIFO that way does not wait.
  const file = Deno.openSync(path, { read: true, write: true, create: true, mode: 0o600 });
  if (file.tryLockSync(true)) return file;
  file.close();
  return null;
}

async function within(ms: number, promise: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => timer = setTimeout(resolve, ms));
  await Promise.race([promise, late]);
  clearTimeout(timer);
}
