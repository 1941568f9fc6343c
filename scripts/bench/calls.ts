/** Calls over brokerd's socket, against what they are made of done bare: socket, disk and grant files. */
import { utf8 } from "../../proto/text.ts";
import { BenchHome, callOnce, deniedOnce, type Figure, figure, READY_MS } from "./figures.ts";
import { interleave } from "./measure.ts";

/** A record of a usual call has about this many bytes. */
const RECORD_BYTES = 400;
/** What `floor.ts` does, in words. */
const FLOOR = "these parts in one program under the same locks";
/** How many clients call at once. */
const CLIENTS = 32;
/** Calls of each of them in a round. */
const CALLS = 8;

/** The parts of a call as a program would do them that does nothing else. */
export class Bare implements Disposable {
  readonly #home: string;
  readonly #log: Deno.FsFile;
  readonly #record = new Uint8Array(RECORD_BYTES);
  readonly #line = utf8(`${"x".repeat(150)}\n`);

  constructor({ path }: BenchHome) {
    this.#home = path;
    this.#log = Deno.openSync(`${path}/bare.log`, { append: true, create: true });
  }

  /** One line there and back. `echo.ts` runs then. */
  async roundTrip(): Promise<void> {
    using conn = await Deno.connect({ transport: "unix", path: `${this.#home}/echo.sock` });
    await conn.write(this.#line);
    await conn.read(new Uint8Array(1024));
  }

  append(): void {
    this.#log.writeSync(this.#record);
    this.#log.syncSync();
  }

  /** A new content that replaces a file's at once, on disk. */
  writeState(): void {
    const path = `${this.#home}/bare.json`;
    using file = Deno.openSync(`${path}.tmp`, { write: true, createNew: true });
    file.writeSync(utf8('{"taint":"private","untrusted":false}'));
    file.syncSync();
    Deno.renameSync(`${path}.tmp`, path);
    using directory = Deno.openSync(this.#home);
    directory.syncSync();
  }

  readGrants(): void {
    const grants = `${this.#home}/grants`;
    for (const { name } of Deno.readDirSync(grants)) Deno.readFileSync(`${grants}/${name}`);
  }

  [Symbol.dispose](): void {
    this.#log.close();
  }
}

/** `a 1.00 + b 2.00`, and the sum. */
function sum(parts: Readonly<Record<string, number>>): { words: string; least: number } {
  const words = Object.entries(parts).map(([name, ms]) => `${name} ${ms.toFixed(2)}`).join(" + ");
  return { words, least: Object.values(parts).reduce((all, ms) => all + ms, 0) };
}

/** A denied call with ten grants, one client. */
export async function deniedCall(rounds: number): Promise<Figure[]> {
  using home = new BenchHome();
  await using broker = home.startBroker();
  await using echo = home.startBare("echo");
  using floorHome = new BenchHome();
  await using floor = floorHome.startFloor(RECORD_BYTES);
  await Promise.all([broker, echo, floor].map((daemon) => daemon.ready(READY_MS)));
  using bare = new Bare(home);
  const times = await interleave({
    call: () => deniedOnce(home),
    floor: () => deniedOnce(floorHome),
    roundTrip: () => bare.roundTrip(),
    append: () => bare.append(),
    readGrants: () => bare.readGrants(),
  }, rounds);
  const { words, least } = sum({
    "round trip": times.roundTrip.median,
    "append and sync": times.append.median,
    "reading the grants": times.readGrants.median,
  });
  return [
    figure("denied call", "ms", times.call, words, least, { atMost: 1.5 }),
    figure("denied call", "ms", times.call, FLOOR, times.floor.median),
  ];
}

/** An allowed call, which the runtime that runs nothing refuses: two records and the session's state. */
export async function allowedCall(rounds: number): Promise<Figure[]> {
  using home = new BenchHome();
  // A session that has seen nothing has no state that could be written.
  Deno.mkdirSync(`${home.path}/broker/sessions`, { recursive: true, mode: 0o700 });
  const state = `${home.path}/broker/sessions/bench.json`;
  Deno.writeTextFileSync(state, '{"taint":"private","untrusted":false}', { mode: 0o600 });
  await using broker = home.startBroker();
  await using echo = home.startBare("echo");
  await Promise.all([broker.ready(READY_MS), echo.ready(READY_MS)]);
  using bare = new Bare(home);
  const times = await interleave({
    call: () => callOnce(home, "read_file", { path: "/srv/notes/3/a.md" }, "failed"),
    roundTrip: () => bare.roundTrip(),
    append: () => bare.append(),
    writeState: () => bare.writeState(),
  }, rounds);
  const { words, least } = sum({
    "round trip": times.roundTrip.median,
    "2 appends and syncs": 2 * times.append.median,
    "atomic write": times.writeState.median,
  });
  return [figure("allowed call", "ms", times.call, words, least, { atMost: 1.5 })];
}

/** `total` denied calls, of 32 clients at once. */
export async function manyCalls(home: BenchHome, total: number): Promise<void> {
  let left = total;
  const client = async () => {
    while (left > 0) {
      left -= 1;
      await deniedOnce(home);
    }
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
}

/**
 * Denied calls of many clients at once, against syncs one after another, and the least that any broker does for
 * them beside: with each sync in its turn, and with the syncs in a queue.
 */
export async function clients(rounds: number): Promise<Figure[]> {
  using home = new BenchHome();
  using floorHome = new BenchHome();
  using queuedHome = new BenchHome();
  await using broker = home.startBroker();
  await using floor = floorHome.startFloor(RECORD_BYTES);
  await using queued = queuedHome.startFloor(RECORD_BYTES, true);
  await Promise.all([broker, floor, queued].map((daemon) => daemon.ready(READY_MS)));
  using bare = new Bare(home);
  const total = CLIENTS * CALLS;
  const rate = (from: number) => total * 1000 / (performance.now() - from);
  const callsOf = async (home: BenchHome) => {
    const from = performance.now();
    await manyCalls(home, total);
    return rate(from);
  };
  const rates = await interleave({
    calls: () => callsOf(home),
    floor: () => callsOf(floorHome),
    queued: () => callsOf(queuedHome),
    bare() {
      const from = performance.now();
      for (let n = 0; n < total; n += 1) bare.append();
      return rate(from);
    },
  }, rounds);
  const name = `denied calls, ${CLIENTS} clients at once`;
  const appends = ["appends and syncs one after another", rates.bare.median] as const;
  return [
    figure(name, "calls/s", rates.calls, ...appends, { atLeast: 0.8 }),
    figure(name, "calls/s", rates.calls, FLOOR, rates.floor.median),
    figure(`${FLOOR}, ${CLIENTS} clients`, "calls/s", rates.floor, ...appends),
    figure(
      `the same with a queue of syncs, ${CLIENTS} clients`,
      "calls/s",
      rates.queued,
      ...appends,
    ),
  ];
}
