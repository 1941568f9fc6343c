/** `bxctl grants replay` beside `bxctl audit verify`, over one log. */
import { verifyLog } from "../../ctl/audit_files.ts";
import { replayGrants } from "../../ctl/grants_replay.ts";
import type { Io } from "../../ctl/io.ts";
import { encodeRecord } from "../../proto/audit.ts";
import { sha256, timestamp, ZERO_HASH } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";
import type { BenchHome, Figure } from "./figures.ts";
import { interleave } from "./measure.ts";

const FIRST_MS = Date.parse("2026-12-01T10:00:00.000Z");

/** Writes a log of `calls` denied calls to `directory`: all of its records are decided again. */
function writeLog(directory: string, calls: number): void {
  using file = Deno.openSync(`${directory}/2026-12-01.jsonl`, { write: true, create: true });
  let prev = ZERO_HASH;
  for (let seq = 0; seq < calls; seq += 1) {
    const line = encodeRecord({
      ...{ seq, time: timestamp(FIRST_MS + seq), prev },
      event: {
        ...{ type: "decision", session: "s1", call: `c${seq}`, tool: "read_file" },
        arguments: `{"path":"/srv/notes/${seq}/a.md"}`,
        ...{ outcome: { outcome: "denied", reason: "no_grant" }, grant: null, grant_sha256: null },
        ...{ taint: "private", untrusted: false },
      },
    });
    prev = sha256(line);
    for (const bytes of [line, utf8("\n")]) file.writeSync(bytes);
  }
}

/** How long a replay of a log of `calls` calls takes, beside its verification. */
export async function replayOfLog(
  { path }: BenchHome,
  calls: number,
  rounds: number,
): Promise<Figure[]> {
  const audit = `${path}/replayed`;
  Deno.mkdirSync(audit);
  writeLog(audit, calls);
  const silent: Io = {
    ...{ answer: () => {}, tell: () => {}, prompt: () => {} },
    ...{ now: () => FIRST_MS, terminal: false, colours: false },
  };
  const places = { audit, grants: `${path}/grants` };
  const { replay, verify } = await interleave({
    replay: () => void replayGrants(places, null, silent, true),
    verify: () => void verifyLog(audit, null),
  }, rounds);
  return [{
    name: `replay of ${calls} calls`,
    unit: "ms",
    measured: replay,
    baseline: "audit verify of them",
    least: verify.median,
    ratio: replay.median / verify.median,
  }];
}
