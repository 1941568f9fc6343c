/** What a denied call costs beside hostile clients, against the same call with nobody beside it. */
import { BenchHome, deniedOnce, type Figure, figure, READY_MS } from "./figures.ts";
import { interleave, spread } from "./measure.ts";

/** Calls in a row: the first ones come before things have settled, of the others the median counts. */
const SETTLING = 20;
const CALLS = 60;
const LOOK_MS = 20;

/** Hostile clients, in the words of `hostile.ts` and of the figure. */
const HOSTILE = {
  silent: "denied call beside 1,000 silent connections",
  slow: "denied call beside 128 senders of a byte at a time",
  garbage: "denied call beside 16 senders of garbage",
} as const;
type Hostile = keyof typeof HOSTILE;

async function medianCall(home: BenchHome): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < SETTLING; n += 1) await deniedOnce(home);
  for (let n = 0; n < CALLS; n += 1) {
    const from = performance.now();
    await deniedOnce(home);
    times.push(performance.now() - from);
  }
  return spread(times).median;
}

function openFiles(pid: number): number {
  return [...Deno.readDirSync(`/proc/${pid}/fd`)].length;
}

/** Each kind of hostile client beside the call, in turns with nobody beside it. */
export async function besideHostile(home: BenchHome, rounds: number): Promise<Figure[]> {
  await using broker = home.startBroker();
  await broker.ready(READY_MS);
  await deniedOnce(home);
  const atRest = openFiles(broker.pid);

  async function beside(kind: Hostile): Promise<number> {
    let median: number;
    {
      await using hostile = home.startScript("hostile", home.brokerSocket, kind);
      await hostile.ready(READY_MS);
      median = await medianCall(home);
    }
    while (openFiles(broker.pid) > atRest) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
    return median;
  }

  const times = await interleave({
    rest: () => medianCall(home),
    silent: () => beside("silent"),
    slow: () => beside("slow"),
    garbage: () => beside("garbage"),
  }, rounds);
  const kinds = Object.keys(HOSTILE) as Hostile[];
  return kinds.map((kind) =>
    figure(HOSTILE[kind], "ms", times[kind], "the same call at rest", times.rest.median)
  );
}
