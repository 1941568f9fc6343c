/** What the bench measures of brokerd, each figure beside a baseline of the same run. */
import { Call } from "../../proto/io/client.ts";
import { utf8 } from "../../proto/text.ts";
import { Daemon } from "../support/daemon.ts";
import { flagsFor, mainOf, PROJECT } from "../support/roles.ts";
import { interleave, type Spread, spread } from "./measure.ts";

export interface Figure {
  readonly name: string;
  readonly unit: "ms" | "MiB";
  readonly measured: Spread;
  /** What it is held against, in words and in the same unit. */
  readonly baseline: string;
  readonly least: number;
  readonly ratio: number;
}

/** How long a program may take until it is ready, in milliseconds. */
export const READY_MS = 30_000;
/** A record of a usual call has about this many bytes. */
const RECORD_BYTES = 400;
const GRANTS = 10;

/** A home for the bench, with ten grants of which none allows the call that is measured. */
export class BenchHome implements Disposable {
  readonly path = Deno.makeTempDirSync({ prefix: "boxmaker-bench-" });
  readonly brokerSocket = `${this.path}/run/loop-broker/broker.sock`;

  constructor() {
    Deno.mkdirSync(`${this.path}/grants`);
    for (let i = 0; i < GRANTS; i++) {
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
  status: "denied" | "result",
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

/** The round trip of a denied call with ten grants, against its parts done bare. */
export async function deniedCall(home: BenchHome, rounds: number): Promise<Figure[]> {
  await using broker = home.startBroker();
  await using echo = home.startBare("echo");
  await Promise.all([broker.ready(READY_MS), echo.ready(READY_MS)]);
  const line = utf8(`${"x".repeat(150)}\n`);
  const record = new Uint8Array(RECORD_BYTES);
  const log = Deno.openSync(`${home.path}/bare.log`, { append: true, create: true });
  const grants = `${home.path}/grants`;
  try {
    const times = await interleave({
      call: () => deniedOnce(home),
      async roundTrip() {
        using conn = await Deno.connect({ transport: "unix", path: `${home.path}/echo.sock` });
        await conn.write(line);
        await conn.read(new Uint8Array(1024));
      },
      appendAndSync() {
        log.writeSync(record);
        log.syncSync();
      },
      readGrants() {
        for (const { name } of Deno.readDirSync(grants)) Deno.readFileSync(`${grants}/${name}`);
      },
    }, rounds);
    const bare = times.roundTrip.median + times.appendAndSync.median;
    const ms = (value: number) => value.toFixed(2);
    const parts = `round trip ${ms(times.roundTrip.median)} + append and sync ${
      ms(times.appendAndSync.median)
    }`;
    const reading = `${parts} + reading the ${GRANTS} files ${ms(times.readGrants.median)}`;
    return [
      figure("denied call", "ms", times.call, parts, bare),
      figure("denied call", "ms", times.call, reading, bare + times.readGrants.median),
    ];
  } finally {
    log.close();
  }
}

export function figure(
  name: string,
  unit: Figure["unit"],
  measured: Spread,
  baseline: string,
  least: number,
): Figure {
  return { name, unit, measured, baseline, least, ratio: measured.median / least };
}
