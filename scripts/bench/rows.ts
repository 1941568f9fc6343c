/** What the bench measures: its rows by name, in groups, and how often each is measured. */
import { besideHostile } from "./beside.ts";
import { allowedCall, clients, deniedCall } from "./calls.ts";
import { chats } from "./chats.ts";
import { BenchHome, type Figure, startAndRest } from "./figures.ts";
import { containers } from "./containers.ts";
import { decideAlone, manyGrants } from "./grants.ts";
import { LogHome } from "./log_home.ts";
import { replayOfLog } from "./replay.ts";
import { memoryOfCalls, shortest, startEmpty, startFull } from "./starts.ts";
import { verifyMemory, verifyTime } from "./verify.ts";

/** How much is measured. */
export interface Sizes {
  /** Rounds of single calls and of decisions. */
  readonly calls: number;
  /** Rounds of what takes some 100 ms: starts of programs, 256 calls of many clients. */
  readonly starts: number;
  /** Rounds of verifications and of chats. */
  readonly long: number;
  readonly hostile: number;
  /** Records of the log that is verified and started with. */
  readonly records: number;
  /** Calls of the log that is replayed. */
  readonly replayed: number;
  /** Calls after which brokerd's memory is looked at. */
  readonly memoryCalls: number;
  /** Chunks of a chat. */
  readonly chunks: number;
  /** Whether the verifier in Rust is built, which takes long. */
  readonly rust: boolean;
}

export const USUAL: Sizes = {
  ...{ calls: 1500, starts: 20, long: 5, hostile: 10 },
  ...{ records: 1_000_000, replayed: 100_000, memoryCalls: 100_000, chunks: 250, rust: true },
};
/** For CI: small enough for a minute, large enough to tell a factor of two. */
export const QUICK: Sizes = {
  ...{ calls: 100, starts: 4, long: 3, hostile: 1 },
  ...{ records: 50_000, replayed: 20_000, memoryCalls: 3000, chunks: 150, rust: false },
};

/**
 * A pause of loopd makes all chats late at once. With 150 chunks a chat one such moment is less than a hundredth
 * of all events, and so many rounds tell it from what is usual.
 */
const CHAT_ROUNDS = 5;

/** The logs that several rows read; each is made once, when it is first asked for. */
export class Logs implements Disposable {
  readonly #homes = new Map<number, LogHome>();

  of(records: number): LogHome {
    const home = this.#homes.get(records) ?? new LogHome(records);
    this.#homes.set(records, home);
    return home;
  }

  [Symbol.dispose](): void {
    for (const home of this.#homes.values()) home[Symbol.dispose]();
  }
}

type Measure = (sizes: Sizes, logs: Logs) => Promise<Figure[]>;

/** Does `measure` with a home that is gone afterwards. */
async function withHome<T>(measure: (home: BenchHome) => Promise<T>): Promise<T> {
  using home = new BenchHome();
  return await measure(home);
}

/** The rows of each group, in the order of the table. */
export const GROUPS: Readonly<Record<string, Readonly<Record<string, Measure>>>> = {
  calls: {
    denied: ({ calls }) => deniedCall(calls),
    allowed: ({ calls }) => allowedCall(calls),
    clients: ({ starts }) => clients(starts),
  },
  grants: {
    "grants-1000": ({ calls }) => manyGrants(Math.ceil(calls / 10)),
    decide: ({ calls }) => decideAlone(Math.ceil(calls / 10)),
  },
  verify: {
    "verify-time": ({ records, long, rust }, logs) =>
      verifyTime(logs.of(records), logs.of(0), long, rust),
    "verify-memory": ({ records, long }, logs) =>
      verifyMemory(logs.of(records), logs.of(Math.ceil(records / 10)), long),
  },
  replay: {
    replay: ({ replayed, long }) => replayOfLog(replayed, long),
  },
  start: {
    "start-full": ({ starts, records }, logs) => startFull(logs.of(records), logs.of(0), starts),
    "start-empty": ({ starts }) => startEmpty(starts),
    "start-idle": ({ starts }) => withHome((home) => startAndRest(home, starts)),
    "memory-calls": ({ memoryCalls }) => memoryOfCalls(memoryCalls),
    "bxctl": ({ starts }) => shortest(starts),
  },
  loop: {
    chunks: ({ chunks }) => chats(chunks, CHAT_ROUNDS),
  },
  tools: {
    containers: ({ starts }) => containers(Math.ceil(1.5 * starts)),
  },
  hostile: {
    beside: ({ hostile }) => withHome((home) => besideHostile(home, hostile)),
  },
};

/** A row, as `--only` may name it by itself or by its group. */
export interface Row {
  readonly name: string;
  readonly group: string;
  readonly measure: Measure;
}

export const ROWS: readonly Row[] = Object.entries(GROUPS).flatMap(([group, rows]) =>
  Object.entries(rows).map(([name, measure]) => ({ name, group, measure }))
);
