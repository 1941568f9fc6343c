/** How long brokerd and bxctl take to start, and what brokerd holds after many calls. */
import { flagsFor, FOLDERS, mainOf, PROJECT } from "../support/roles.ts";
import { Daemon } from "../support/daemon.ts";
import { runCtl } from "../support/ctl.ts";
import { manyCalls } from "./calls.ts";
import { BenchHome, type Figure, figure, READY_MS, residentMiB } from "./figures.ts";
import type { LogHome } from "./log_home.ts";
import { interleave, spread } from "./measure.ts";
import { runProgram } from "./programs.ts";

/** After so many calls brokerd holds what it needs. */
const FEW_CALLS = 1000;

type Role = "brokerd" | "bxctl";

/** Deno's arguments for a script that imports what the main module of `role` imports, and ends. */
function emptyScript({ path }: BenchHome, role: Role): string[] {
  const source = Deno.readTextFileSync(mainOf(role));
  const imports = source.matchAll(/^import (?!type )[^;]*? from "(\.{1,2}\/[^"]+)";$/gm);
  const lines = [...imports].map(([, name = ""]) =>
    `import ${JSON.stringify(new URL(name, `file://${PROJECT}/${FOLDERS[role]}/`).href)};`
  );
  if (lines.length < 3) throw new Error(`no imports found in ${mainOf(role)}`);
  const script = `${path}/${role}-empty.js`;
  Deno.writeTextFileSync(
    script,
    [...lines, 'console.error("empty: ready");', "Deno.exit(0);", ""].join("\n"),
  );
  return [...flagsFor(role, {}, path), `--config=${PROJECT}/deno.json`, script];
}

/** Milliseconds from the start of a program to its `ready`. */
async function timeToReady(daemon: Daemon, from: number): Promise<number> {
  await using started = daemon;
  await started.ready(READY_MS);
  return performance.now() - from;
}

/** brokerd's start to ready without a log, against a script that imports the same. */
export async function startEmpty(rounds: number): Promise<Figure[]> {
  using home = new BenchHome();
  const args = emptyScript(home, "brokerd");
  const times = await interleave({
    broker: () => timeToReady(home.startBroker(), performance.now()),
    empty: () => timeToReady(new Daemon({ name: "empty", args }), performance.now()),
  }, rounds);
  const baseline = "a script that imports the same";
  return [
    figure("brokerd, start to ready", "ms", times.broker, baseline, times.empty.median, {
      atMost: 2,
    }),
  ];
}

/** brokerd's start to ready with many records in older files, against none in these. */
export async function startFull(many: LogHome, none: LogHome, rounds: number): Promise<Figure[]> {
  const times = await interleave({
    many: () => timeToReady(many.startBroker(), performance.now()),
    none: () => timeToReady(none.startBroker(), performance.now()),
  }, rounds);
  const name = `brokerd, start to ready, ${many.records} records`;
  return [
    figure(name, "ms", times.many, "a log without older files", times.none.median, {
      atMost: 1.3,
    }),
  ];
}

/** brokerd's memory after `calls` calls, against that after 1,000. Measured once: it takes long. */
export async function memoryOfCalls(calls: number): Promise<Figure[]> {
  using home = new BenchHome();
  await using broker = home.startBroker();
  await broker.ready(READY_MS);
  await manyCalls(home, FEW_CALLS);
  const before = residentMiB(broker.pid);
  await manyCalls(home, calls - FEW_CALLS);
  const name = `brokerd, memory after ${calls} calls`;
  const after = spread([residentMiB(broker.pid)]);
  return [figure(name, "MiB", after, `after ${FEW_CALLS} calls`, before, { atMost: 1.5 })];
}

/** The shortest command of bxctl, against a script that imports the same. */
export async function shortest(rounds: number): Promise<Figure[]> {
  using home = new BenchHome();
  const args = ["run", "--quiet", ...emptyScript(home, "bxctl")];
  const times = await interleave({
    bxctl: async () => {
      const { code } = await runCtl({ home: home.path }, "--version");
      if (code !== 0) throw new Error(`bxctl --version ended with ${code}`);
    },
    empty: async () => void await runProgram(Deno.execPath(), args, { cwd: PROJECT }),
  }, rounds);
  const baseline = "a script that imports the same";
  return [
    figure("bxctl --version", "ms", times.bxctl, baseline, times.empty.median, { atMost: 1.3 }),
  ];
}
