/** What the bench measures of brokerd, each figure beside a baseline of the same run. */
import { Call } from "../../proto/io/client.ts";
import { Daemon } from "../support/daemon.ts";
import { flagsFor, mainOf, PROJECT } from "../support/roles.ts";
import { interleave, type Spread, spread } from "./measure.ts";

export interface Figure {
  readonly name: string;
  readonly unit: "ms" | "µs" | "MiB" | "calls/s";
  readonly measured: Spread;
  /** What it is held against, in words and in the same unit. */
  readonly baseline: string;
  readonly least: number;
  readonly ratio: number;
  /** What the ratio should be; none where nobody has set it. */
  readonly target?: Target;
}

/** A ratio that is at most this, or at least this. */
export type Target = { readonly atMost: number } | { readonly atLeast: number };

/** How long a program may take until it is ready, in milliseconds. */
export const READY_MS = 30_000;
/** How many grants a usual home has. */
export const GRANTS = 10;

/** A home for the bench, with grants for `/srv/notes/0` and so on, and none for anything else. */
export class BenchHome implements Disposable {
  readonly path = Deno.makeTempDirSync({ prefix: "boxmaker-bench-" });
  readonly brokerSocket = `${this.path}/run/loop-broker/broker.sock`;

  constructor(grants = GRANTS) {
    Deno.mkdirSync(`${this.path}/grants`);
    for (let i = 0; i < grants; i++) {
      const grant = [
        'tool = "read_file"',
        'mode = "auto"',
        'max_taint = "secret"',
        'result_class = "private"',
        "[constraints]",
        `paths = ["/srv/notes/${i}"]`,
      ];
      Deno.writeTextFileSync(`${this.path}/grants/notes-${i}.toml`, `${grant.join("\n")}\n`);
    }
  }

  /** `config`: the path of its configuration; null for none. */
  startBroker(config: string | null = null): Daemon {
    const [places, named] = config === null ? [{}, []] : [{ config }, ["--config", config]];
    const flags = flagsFor("brokerd", places, this.path);
    const args = [...flags, mainOf("brokerd"), "serve", ...named];
    return new Daemon({ name: "brokerd", args, env: { BOXMAKER_HOME: this.path } });
  }

  /** Starts `floor.ts` in place of brokerd, under its locks. `queued`: with a queue of syncs. */
  startFloor(recordBytes: number, queued = false): Daemon {
    for (const part of ["audit", "run/loop-broker"]) {
      Deno.mkdirSync(`${this.path}/${part}`, { recursive: true });
    }
    const main = `${PROJECT}/scripts/bench/floor.ts`;
    const args = [...flagsFor("brokerd", {}, this.path), main, this.path, `${recordBytes}`];
    return new Daemon({ name: "floor", args: queued ? [...args, "queued"] : args });
  }

  startBare(name: "echo" | "idle"): Daemon {
    return this.startScript(name, `${this.path}/${name}.sock`);
  }

  /** Starts a program of this folder that may use `socket` and nothing else. */
  startScript(name: string, socket: string, ...args: readonly string[]): Daemon {
    const flags = [
      ...["--no-prompt", "--cached-only", "--frozen", `--allow-net=unix:${socket}`],
      ...[`--allow-read=${socket}`, `--allow-write=${socket}`],
    ];
    const main = `${PROJECT}/scripts/bench/${name}.ts`;
    return new Daemon({ name, args: [...flags, main, socket, ...args] });
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

/** Resident memory of a process, in MiB; 0 where it has ended and is only to be waited for. */
export function residentMiB(pid: number): number {
  const [, kib = 0] = /^VmRSS:\s*(\d+) kB$/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`)) ??
    [];
  return Number(kib) / 1024;
}

/** Between two looks at a program's memory, in milliseconds. */
const LOOK_MS = 10;

/** The most memory, in MiB, that the process `pid` held at once until `end`. */
export async function peakMiB(pid: number, end: Promise<unknown>): Promise<number> {
  let peak = 0;
  let ended = false;
  void end.finally(() => ended = true);
  while (!ended) {
    // Once the process has ended the file is gone, or says nothing of memory.
    const status = await Deno.readTextFile(`/proc/${pid}/status`).catch(() => "");
    const [, kib = 0] = /^VmHWM:\s*(\d+) kB$/m.exec(status) ?? [];
    peak = Math.max(peak, Number(kib) / 1024);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return peak;
}

/** Start to ready and memory at rest, against a program that imports the same and does nothing. */
export async function startAndRest(home: BenchHome, rounds: number): Promise<Figure[]> {
  const memory: Record<"brokerd" | "idle", number[]> = { brokerd: [], idle: [] };
  async function measure(name: "brokerd" | "idle"): Promise<number> {
    const from = performance.now();
    await using daemon = name === "brokerd" ? home.startBroker() : home.startBare("idle");
    await daemon.ready(READY_MS);
    const time = performance.now() - from;
    memory[name].push(residentMiB(daemon.pid));
    if (name === "idle") await Deno.remove(`${home.path}/idle.sock`);
    return time;
  }
  const times = await interleave({
    brokerd: () => measure("brokerd"),
    idle: () => measure("idle"),
  }, rounds);
  const baseline = "a program that imports the same and listens";
  const [ours, least] = [spread(memory.brokerd), spread(memory.idle)];
  return [
    figure("brokerd, start to ready", "ms", times.brokerd, baseline, times.idle.median),
    figure("brokerd, memory at rest", "MiB", ours, baseline, least.median),
  ];
}

/** One call, which must come out as `status`. */
export async function callOnce(
  { brokerSocket }: BenchHome,
  tool: string,
  args: object,
  status: "denied" | "failed" | "result",
): Promise<void> {
  const call = await Call.open(brokerSocket, {
    kind: "tool_request",
    final: true,
    body: { session: "bench", call: "c1", tool, arguments: JSON.stringify(args) },
  }, ["tool_response"]);
  const { body } = await call.next(READY_MS);
  call.close();
  if (body.status !== status) throw new Error(`the call came out ${JSON.stringify(body)}`);
}

/** One call that no grant allows. */
export function deniedOnce(home: BenchHome): Promise<void> {
  return callOnce(home, "read_file", { path: "/etc/passwd" }, "denied");
}

export function figure(
  name: string,
  unit: Figure["unit"],
  measured: Spread,
  baseline: string,
  least: number,
  target?: Target,
): Figure {
  const ratio = measured.median / least;
  return {
    name,
    unit,
    measured,
    baseline,
    least,
    ratio,
    ...target === undefined ? {} : { target },
  };
}
