/** `bxctl audit verify` against other programs that read the same records, and the memory that it takes. */
import { ctlCommand } from "../support/ctl.ts";
import { type Figure, figure, peakMiB } from "./figures.ts";
import { makeJournal } from "./journal.ts";
import type { LogHome } from "./log_home.ts";
import { interleave } from "./measure.ts";
import { orNothing, runProgram } from "./programs.ts";
import { buildVerifier } from "./rust.ts";

/** From so many records on, the start of bxctl does not matter beside them. */
const MANY = 1_000_000;
/** What a verification may take, in MiB. */
const MEMORY_MIB = 200;

/**
 * The time of a verification of the log of `home`. `none`: a home whose log is nearly empty, which tells how
 * long bxctl takes to start. `rust`: build the verifier in Rust, which takes some 30 s.
 */
export async function verifyTime(
  home: LogHome,
  none: LogHome,
  rounds: number,
  rust: boolean,
): Promise<Figure[]> {
  const { files, path, records } = home;
  const last = `{"seq":${records - 1},`;
  const journal = await orNothing(
    "journalctl",
    () => makeJournal(`${path}/journal`, files, last),
  );
  const verifier = rust
    ? await orNothing("a verifier in Rust", () => buildVerifier(`${path}/rust`))
    : null;
  const nothing = () => {};
  const times = await interleave({
    verify: () => home.verify(),
    start: () => none.verify(),
    sha256sum: async () => void await runProgram("sha256sum", files),
    journalctl: journal === null ? nothing : async () => {
      await runProgram("journalctl", [`--directory=${journal}`, "--verify", "--quiet"]);
    },
    rust: verifier === null ? nothing : async () => void await runProgram(verifier, files),
  }, rounds);
  const name = `audit verify, ${records} records`;
  const { verify, start, sha256sum, journalctl } = times;
  const net = {
    median: verify.median - start.median,
    low: verify.low - start.median,
    high: verify.high - start.median,
  };
  // The target is that of a million records.
  const [whole, less] = records >= MANY
    ? [{ measured: verify, name }, []]
    : [{ measured: net, name: `${name}, less the start` }, [
      figure(name, "ms", verify, "sha256sum of the files", sha256sum.median),
    ]];
  const held = (baseline: string, least: number, atMost: number) =>
    figure(whole.name, "ms", whole.measured, baseline, least, { atMost });
  return [
    ...less,
    held("sha256sum of the files", sha256sum.median, 1.5),
    ...journal === null ? [] : [held("journalctl --verify", journalctl.median, 0.25)],
    ...verifier === null ? [] : [held("a plain verifier in Rust", times.rust.median, 1)],
  ];
}

/** The most memory that a verification takes at once, with many records and with a tenth of them. */
export async function verifyMemory(
  many: LogHome,
  few: LogHome,
  rounds: number,
): Promise<Figure[]> {
  const peak = async ({ path }: LogHome) => {
    const streams = { stdin: "null", stdout: "null", stderr: "null" } as const;
    const child = ctlCommand({ home: path }, ["audit", "verify"], streams).spawn();
    const most = await peakMiB(child.pid, child.status);
    if ((await child.status).code !== 0) throw new Error("bxctl audit verify failed");
    return most;
  };
  const peaks = await interleave({ many: () => peak(many), few: () => peak(few) }, rounds);
  const name = `audit verify, memory, ${many.records} records`;
  const most = `the ${MEMORY_MIB} MiB that it may take`;
  return [
    figure(name, "MiB", peaks.many, most, MEMORY_MIB, { atMost: 1 }),
    figure(name, "MiB", peaks.many, `${few.records} records`, peaks.few.median),
  ];
}
