/** `bxctl grants replay` beside `bxctl audit verify`, over one log. */
import { verifyLog } from "../../ctl/audit_files.ts";
import { replayGrants } from "../../ctl/grants_replay.ts";
import type { Io } from "../../ctl/io.ts";
import { BenchHome, type Figure, figure } from "./figures.ts";
import { denied, writeLog } from "./log.ts";
import { interleave } from "./measure.ts";

/** What a replay may take of the time that a verification of the same records takes. */
const AT_MOST = 2;

/**
 * How long a replay takes beside a verification of the same log: of a usual one of `calls` calls, which have run
 * and so have two records each, and of as many that were denied, of which each record is decided again.
 */
export async function replayOfLog(calls: number, rounds: number): Promise<Figure[]> {
  const usual = await beside(calls, rounds, (audit) => writeLog(audit, [2 * calls]));
  const nothingElse = await beside(calls, rounds, (audit) => writeLog(audit, [calls], denied));
  const row = (what: string, { replay, verify }: typeof usual) =>
    figure(`grants replay, ${what}`, "ms", replay, "audit verify of them", verify.median, {
      atMost: AT_MOST,
    });
  return [
    row(`${calls} calls`, usual),
    row(`${calls} denied calls, a record each`, nothingElse),
  ];
}

async function beside(calls: number, rounds: number, write: (audit: string) => void) {
  using home = new BenchHome();
  const places = { audit: `${home.path}/audit`, grants: `${home.path}/grants` };
  write(places.audit);
  let answered = "";
  const io: Io = {
    ...{ answer: (text) => answered = text, tell: () => {}, prompt: () => {} },
    ...{ now: () => 0, terminal: false, colours: false, width: null, statusWidth: null },
  };
  const times = await interleave({
    replay: () => void replayGrants(places, null, io, true),
    verify: () => void verifyLog(places.audit, null),
  }, rounds);
  if (JSON.parse(answered).decisions !== calls) throw new Error("not every call was replayed");
  return times;
}
