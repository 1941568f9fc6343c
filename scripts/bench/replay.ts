/** `bxctl grants replay` beside `bxctl audit verify`, over one log. */
import { verifyLog } from "../../ctl/audit_files.ts";
import { replayGrants } from "../../ctl/grants_replay.ts";
import type { Io } from "../../ctl/io.ts";
import { BenchHome, type Figure, figure } from "./figures.ts";
import { denied, writeLog } from "./log.ts";
import { interleave } from "./measure.ts";

/** What a replay may take of the time that a verification of the same records takes. */
const AT_MOST = 2;

/** How long a replay of a log of `calls` calls takes, each of them decided again, beside its verification. */
export async function replayOfLog(calls: number, rounds: number): Promise<Figure[]> {
  using home = new BenchHome();
  const places = { audit: `${home.path}/audit`, grants: `${home.path}/grants` };
  writeLog(places.audit, [calls], denied);
  let answered = "";
  const io: Io = {
    ...{ answer: (text) => answered = text, tell: () => {}, prompt: () => {} },
    ...{ now: () => 0, terminal: false, colours: false, width: null, statusWidth: null },
  };
  const { replay, verify } = await interleave({
    replay: () => void replayGrants(places, null, io, true),
    verify: () => void verifyLog(places.audit, null),
  }, rounds);
  if (JSON.parse(answered).decisions !== calls) throw new Error("not every call was replayed");
  const name = `grants replay, ${calls} calls`;
  return [
    figure(name, "ms", replay, "audit verify of them", verify.median, { atMost: AT_MOST }),
  ];
}
