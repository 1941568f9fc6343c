/** What a call costs that runs a tool, beside the same container started by Podman alone in the same run. */
import { stringify } from "smol-toml";
import { readRunner } from "../../broker/config.ts";
import { display } from "../../proto/escape.ts";
import { type EgressChild, startEgress } from "../../broker/egress/child.ts";
import { EGRESS_LIMITS, type EgressSettings } from "../../broker/egress/settings.ts";
import { realFiles } from "../../broker/files.ts";
import { grantReader } from "../../broker/grants.ts";
import { podmanArgs, type RunnerSettings } from "../../broker/podman/args.ts";
import { podmanSays } from "../../broker/podman/container.ts";
import { decide } from "../../broker/policy.ts";
import { run, type RunSpec } from "../../broker/runner.ts";
import { FRESH } from "../../broker/state.ts";
import { PROJECT } from "../support/roles.ts";
import { findRunner, type RunnerTable } from "../support/podman.ts";
import { BenchHome, callOnce, type Figure, figure, READY_MS } from "./figures.ts";
import { interleave } from "./measure.ts";
import { peakOfChildrenMiB } from "./memory.ts";

/** How many calls run side by side. */
const PARALLEL = 8;
/** The address of the page that is fetched; no other program is likely to have it. */
const SITE = "127.66.66.1";
const HOST = "page.example";
const TLS = `${PROJECT}/fixtures/tls`;

/** The calls that are measured. */
const CALLS = {
  read_file: (notes: string) => ({ path: `${notes}/a.md` }),
  shell: () => ({ command: "true" }),
  http_fetch: () => ({ url: `https://${HOST}/` }),
} as const;
type Tool = keyof typeof CALLS;

/** A home in which the calls of `CALLS` may run. */
class ToolHome extends BenchHome {
  readonly notes = `${this.path}/notes`;
  readonly config = `${this.path}/brokerd.toml`;
  readonly settings: RunnerSettings;
  readonly egress = { private: [SITE], ca_file: `${TLS}/ca.pem`, hosts: { [HOST]: SITE } };

  constructor(machine: RunnerTable) {
    super();
    const runner = { ...machine, parallel: PARALLEL };
    const settings = readRunner(runner);
    if (settings === null) throw new Error("the runner refuses");
    this.settings = settings;
    Deno.mkdirSync(this.notes, { mode: 0o755 });
    Deno.writeTextFileSync(`${this.notes}/a.md`, "milk\n");
    const { egress } = this;
    Deno.writeTextFileSync(this.config, stringify({ runner, egress }));
    this.#grant("read_file", { paths: [this.notes] });
    this.#grant("shell");
    this.#grant("http_fetch", { hosts: [HOST] });
  }

  #grant(tool: Tool, constraints?: object): void {
    const common = { tool, mode: "auto", max_taint: "secret", result_class: "private" };
    const grant = constraints === undefined ? common : { ...common, constraints };
    const name = tool.replace("_", "-");
    Deno.writeTextFileSync(`${this.path}/grants/${name}.toml`, stringify(grant));
  }

  /** One call through brokerd. */
  async call(tool: Tool): Promise<void> {
    await callOnce(this, tool, CALLS[tool](this.notes), "result");
  }

  /** What brokerd's runtime is handed for that call. */
  async #spec(tool: Tool): Promise<RunSpec> {
    const decision = decide({
      now: new Date().toISOString(),
      grants: grantReader(realFiles, `${this.path}/grants`)(),
      ...{ state: FRESH, tool, arguments: JSON.stringify(CALLS[tool](this.notes)) },
    });
    const { promise, resolve } = Promise.withResolvers<RunSpec>();
    await run(decision, {
      run(spec) {
        resolve(spec);
        return Promise.resolve({ status: "unavailable", message: "only looked at" });
      },
    });
    return await promise;
  }

  /** The container of that call, as a function that runs it by Podman alone. */
  async bare(tool: Tool, proxyDirectory: string | null = null): Promise<() => Promise<void>> {
    const { settings, egress } = this;
    const spec = await this.#spec(tool);
    return async () => {
      const command = podmanArgs(settings, spec, {
        ...{ name: `boxmaker-bench-${crypto.randomUUID()}`, label: "bench", proxyDirectory },
        ...{ asRoot: Deno.uid() === 0, caFile: egress.ca_file },
        // brokerd has written it by the first call.
        seccomp: `${this.path}/broker/seccomp.json`,
      });
      if (!command.ok) throw new Error(command.problem);
      const { code, stderr } = await podmanSays(settings.podman, command.args);
      if (code !== 0) throw new Error(`podman ended with ${code}: ${stderr}`);
    };
  }

  /** A proxy as brokerd starts one for each call, that serves all calls of a run. */
  async startProxy(directory: string): Promise<EgressChild> {
    const { hosts: table, private: named } = this.egress;
    Deno.mkdirSync(directory, { mode: 0o755 });
    const limits = { ...EGRESS_LIMITS, connections: 1_000_000, bytes: 2 ** 40 };
    const settings: EgressSettings = {
      ...{ socket: `${directory}/proxy.sock`, hosts: [HOST], table, private: named, limits },
    };
    const proxy = startEgress(Deno.execPath(), settings);
    await proxy.ready;
    return proxy;
  }
}

/** Runs `work` as often as calls run side by side, all at once. */
async function sideBySide(work: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: PARALLEL }, work));
}

/** Time and memory of calls of the tools that need no network. */
async function local(home: ToolHome, broker: number, rounds: number): Promise<Figure[]> {
  const [read, shell] = [await home.bare("read_file"), await home.bare("shell")];
  const times = await interleave({
    read: () => home.call("read_file"),
    bareRead: read,
    shell: () => home.call("shell"),
    bareShell: shell,
  }, rounds);
  const together = await interleave({
    calls: () => sideBySide(() => home.call("shell")),
    bare: () => sideBySide(shell),
  }, Math.ceil(rounds / 3));
  const memory = await interleave({
    call: () => peakOfChildrenMiB(broker, () => home.call("shell")),
    bare: () => peakOfChildrenMiB(Deno.pid, shell),
  }, Math.ceil(rounds / 3));
  const baseline = "the same container by podman alone";
  const calls = `${PARALLEL} calls of shell side by side`;
  return [
    figure("call of read_file", "ms", times.read, baseline, times.bareRead.median, {
      atMost: 1.15,
    }),
    figure("call of shell", "ms", times.shell, baseline, times.bareShell.median, {
      atMost: 1.15,
    }),
    figure(calls, "ms", together.calls, `${PARALLEL} containers at once`, together.bare.median),
    figure(calls, "ms", together.calls, "one call alone", times.shell.median),
    figure("memory for a call of shell", "MiB", memory.call, baseline, memory.bare.median),
  ];
}

/** Time and memory of calls of http_fetch. */
async function fetched(home: ToolHome, broker: number, rounds: number): Promise<Figure[]> {
  const directory = `${home.path}/proxy`;
  const proxy = await home.startProxy(directory);
  try {
    const bare = await home.bare("http_fetch", directory);
    const call = () => home.call("http_fetch");
    const times = await interleave({ call, bare }, rounds);
    const memory = await interleave({
      call: () => peakOfChildrenMiB(broker, call),
      bare: () => peakOfChildrenMiB(Deno.pid, bare),
    }, Math.ceil(rounds / 3));
    const baseline = "the same container and a proxy that runs already";
    return [
      figure("call of http_fetch", "ms", times.call, baseline, times.bare.median, { atMost: 1.3 }),
      figure("memory for a call of http_fetch", "MiB", memory.call, baseline, memory.bare.median),
    ];
  } finally {
    await proxy.stop();
  }
}

/** Serves the page that is fetched; null where this user may not listen on port 443. */
function startSite(): Deno.HttpServer | null {
  const read = (name: string) => Deno.readTextFileSync(`${TLS}/${name}`);
  try {
    const options = { hostname: SITE, port: 443, onListen: () => {} };
    const certificate = { cert: read("page.pem"), key: read("page.key") };
    return Deno.serve({ ...options, ...certificate }, () => new Response("a page\n"));
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return null;
    throw error;
  }
}

/** Calls that run tools; none where no tool can run. */
export async function containers(rounds: number): Promise<Figure[]> {
  const found = await findRunner((line) => console.error(`bench: ${display(line)}`));
  if (found.ok) return await inContainers(found.runner, rounds);
  console.error(`bench: no figures of tools: ${found.why.map(display).join("; ")}`);
  return [];
}

async function inContainers(machine: RunnerTable, rounds: number): Promise<Figure[]> {
  using home = new ToolHome(machine);
  await using broker = home.startBroker(home.config);
  await broker.ready(READY_MS);
  const figures = await local(home, broker.pid, rounds);
  const site = startSite();
  if (site === null) {
    console.error("bench: no figures of http_fetch: only root may listen on port 443 here");
    return figures;
  }
  try {
    return [...figures, ...await fetched(home, broker.pid, rounds)];
  } finally {
    await site.shutdown();
  }
}
