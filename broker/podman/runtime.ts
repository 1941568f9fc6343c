/**
 * The runtime of Podman (specification 7 and 13): a call's turn, its container, its egress proxy, and what
 * came of them. What could not be started is `unavailable`; from the tool's first byte on it is a result or a
 * failure.
 */
import { sha256 } from "../../proto/ids.ts";
import type { BrokerStatus, ImageState } from "../../proto/status.ts";
import { utf8 } from "../../proto/text.ts";
import { type EgressChild, startEgress } from "../egress/child.ts";
import { EGRESS_LIMITS, type EgressSettings } from "../egress/settings.ts";
import type { Notices } from "../notices.ts";
import { isRunSpec, type RunOutcome, type RunSpec, type Runtime } from "../runner.ts";
import { commonArgs, LABEL, podmanArgs, type RunnerSettings } from "./args.ts";
import { Container, podmanSays } from "./container.ts";
import {
  type Ended,
  hasStarted,
  HEAD_BYTES,
  lastWords,
  mayHaveRun,
  mountFailure,
  outcomeOf,
} from "./outcome.ts";
import { seccompProfile } from "./seccomp.ts";
import { Slots } from "./slots.ts";

/** How many calls wait for their turn at most: each holds its arguments, up to 1 MiB. */
const MAX_WAITING = 128;

/** How long a status waits for Podman to say whether the image is there, in milliseconds. */
const ASK_MS = 3000;

/** What a status says of the runner. */
type RunnerStatus = BrokerStatus["runner"];

/** Where the runtime keeps what it needs, and whose containers are its own. */
export interface RuntimePlaces {
  /** A directory of brokerd's for the sockets of egress proxies. */
  readonly egress: string;
  /** Where it writes the list of system calls that a container may make. */
  readonly seccomp: string;
  /** The label's value for this home's containers. */
  readonly label: string;
  /** Whether brokerd runs as root. */
  readonly asRoot: boolean;
}

/** What `[egress]` of brokerd.toml says, and the program that runs the proxy. */
export interface EgressOptions {
  readonly table: EgressSettings["table"];
  readonly private: EgressSettings["private"];
  readonly caFile: string | null;
  /** The path of Deno; null where there is none, as in a compiled brokerd. */
  readonly deno: string | null;
}

/** An egress proxy beside a container. */
interface Egress {
  readonly directory: string;
  readonly child: EgressChild;
}

const unavailable = (message: string): RunOutcome => ({ status: "unavailable", message });

export class PodmanRuntime implements Runtime {
  readonly #settings: RunnerSettings;
  readonly #egress: EgressOptions;
  readonly #places: RuntimePlaces;
  readonly #notices: Notices;
  readonly #slots: Slots;
  readonly #running = new Set<Container>();
  /** The calls that run or wait. */
  readonly #calls = new Set<Promise<RunOutcome>>();
  #stopped = false;
  /** Whether nothing of an earlier brokerd is left; null: not looked yet, or it failed. */
  #clean: Promise<boolean> | null = null;
  /** What Podman said last of the image. */
  #image: Exclude<ImageState, "none"> = "unknown";
  /** A question about the image that a status waits for: one at a time. */
  #asking: Promise<unknown> | null = null;

  constructor(
    settings: RunnerSettings,
    egress: EgressOptions,
    places: RuntimePlaces,
    notices: Notices,
  ) {
    this.#settings = settings;
    this.#egress = egress;
    this.#places = places;
    this.#notices = notices;
    this.#slots = new Slots(settings.parallel, MAX_WAITING);
  }

  /**
   * Removes what an earlier brokerd left, and looks whether the image is there; tells the operator what is
   * wrong. Never throws. Each call waits for it, and tries again where it failed.
   */
  async prepare(): Promise<boolean> {
    this.#clean ??= this.#removeLeftovers();
    const clean = await this.#clean;
    if (!clean) this.#clean = null;
    return clean;
  }

  async run(spec: RunSpec): Promise<RunOutcome> {
    if (!isRunSpec(spec)) throw new TypeError("not a RunSpec that the runner made");
    const call = this.#runInTurn(spec);
    this.#calls.add(call);
    try {
      return await call;
    } finally {
      this.#calls.delete(call);
    }
  }

  async #runInTurn(spec: RunSpec): Promise<RunOutcome> {
    const turn = this.#slots.take();
    if (turn === null) return unavailable("too many calls wait for their turn");
    await turn;
    try {
      if (!await this.prepare()) return unavailable("the runner does not work");
      if (this.#stopped) return unavailable("brokerd stops");
      return await this.#runNow(spec);
    } finally {
      this.#slots.give();
    }
  }

  /**
   * Ends every container, and lets nothing start any more. Resolves once all are gone, and all calls have
   * their outcomes, those that wait for their turn too.
   */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const container of this.#running) container.end("stopped");
    await Promise.allSettled(this.#calls);
  }

  /**
   * What runs the tools, and whether the image is there. Podman is asked only where it was not there when
   * last seen, and waited for no longer than `ASK_MS`.
   */
  async status(): Promise<RunnerStatus> {
    if (this.#image !== "there" && !this.#stopped) {
      // It throws where Podman cannot be started: then the image is as unknown as before.
      this.#asking ??= this.#hasImage().catch(() => {}).finally(() => this.#asking = null);
      let timer: ReturnType<typeof setTimeout> | undefined;
      const late = new Promise((resolve) => timer = setTimeout(resolve, ASK_MS));
      await Promise.race([this.#asking, late]);
      clearTimeout(timer);
    }
    const { podman, ociRuntime, image } = this.#settings;
    return { podman, oci_runtime: ociRuntime, image, image_state: this.#image };
  }

  async #runNow(spec: RunSpec): Promise<RunOutcome> {
    const id = crypto.randomUUID();
    const name = `${LABEL}-${id}`;
    const egress = spec.egress === null ? null : this.#openEgress(id, spec.egress);
    if (egress === "failed") return unavailable("the egress proxy could not be started");
    let ended: Ended | null;
    try {
      const { label, asRoot, seccomp } = this.#places;
      const command = podmanArgs(this.#settings, spec, {
        ...{ name, label, asRoot, seccomp },
        proxyDirectory: egress?.directory ?? null,
        caFile: this.#egress.caFile,
      });
      if (!command.ok) return unavailable(command.problem);
      ended = await this.#contain(name, command.args, command.input, egress);
    } finally {
      // Only once it is gone has it told all that it refused.
      if (egress !== null) await this.#closeEgress(egress);
    }
    return await this.#judge(spec, ended, egress);
  }

  /** Runs the container to its end; null where Podman cannot be started, or the proxy could not. */
  async #contain(
    name: string,
    args: readonly string[],
    input: Uint8Array,
    egress: Egress | null,
  ): Promise<Ended | null> {
    const { podman, outputBytes, timeoutMs } = this.#settings;
    let container: Container;
    try {
      container = new Container({
        ...{ podman, name, args, input, timeoutMs },
        common: commonArgs(this.#settings),
        keepBytes: outputBytes + HEAD_BYTES,
      });
    } catch (error) {
      this.#notices.runnerUnavailable(error);
      return null;
    }
    this.#running.add(container);
    // The proxy starts beside the container. Where it does not, there is nothing to wait for.
    let proxyFailed = false;
    egress?.child.ready.then(() => this.#notices.egressWorks(), (error) => {
      // Where the container is gone first, the proxy was ended with it.
      if (!this.#running.has(container)) return;
      proxyFailed = true;
      this.#notices.egressUnavailable(error);
      container.end("stopped");
    });
    try {
      const ended = await container.ended;
      return proxyFailed ? null : ended;
    } finally {
      this.#running.delete(container);
    }
  }

  /** What came of the container, with what the proxy refused. */
  async #judge(spec: RunSpec, ended: Ended | null, egress: Egress | null): Promise<RunOutcome> {
    if (ended === null) return unavailable("the runner could not start the tool");
    const { outputBytes, timeoutMs } = this.#settings;
    if (mayHaveRun(ended)) {
      const message = `podman ended with ${ended.code}, and nothing of what the tool said`;
      this.#notices.runnerUnavailable(message);
      return { status: "failed", message };
    }
    if (!hasStarted(ended)) return await this.#notStarted(ended);
    this.#notices.runnerWorks();
    this.#image = "there";
    const outcome = outcomeOf(spec.args, ended, outputBytes, timeoutMs);
    const { count, reasons } = egress?.child.refused() ?? { count: 0, reasons: [] };
    if (count === 0) return outcome;
    this.#notices.egressRefused(count, reasons);
    return outcome.status === "failed"
      ? { ...outcome, message: `${outcome.message}; refused: ${reasons.join("; ")}` }
      : outcome;
  }

  async #notStarted(ended: Ended): Promise<RunOutcome> {
    if (ended.how === "stopped") return unavailable("brokerd stops");
    const problem = mountFailure(ended);
    if (problem !== null) {
      this.#notices.notMounted(problem);
      return unavailable(problem);
    }
    const words = ended.how === "late"
      ? `the tool had not started after ${this.#settings.timeoutMs} ms`
      : lastWords(ended);
    if (!await this.#hasImage()) return unavailable("the image of the tools is not there");
    this.#notices.runnerUnavailable(words);
    return unavailable(`the tool could not be started: ${words}`);
  }

  /** Whether the image is there; tells the operator where it is not. */
  async #hasImage(): Promise<boolean> {
    const { podman, image } = this.#settings;
    const { code } = await podmanSays(podman, [
      ...commonArgs(this.#settings),
      ...["image", "exists", image],
    ]);
    if (code === 1) this.#notices.imageMissing(image);
    else if (code === 0 && this.#image === "missing") this.#notices.imageThere();
    this.#image = code === 0 ? "there" : code === 1 ? "missing" : "unknown";
    return code !== 1;
  }

  async #removeLeftovers(): Promise<boolean> {
    const { podman } = this.#settings;
    const common = commonArgs(this.#settings);
    const ours = `--filter=label=${LABEL}=${this.#places.label}`;
    try {
      await emptyDirectory(this.#places.egress);
      const calls = seccompProfile(Deno.build.arch);
      await Deno.writeTextFile(this.#places.seccomp, calls, { mode: 0o600 });
      const listed = await podmanSays(podman, [...common, "ps", "--all", "--quiet", ours]);
      if (listed.code !== 0) throw new Error(listed.stderr.trim());
      const ids = listed.stdout.split("\n").filter((id) => id !== "");
      if (ids.length > 0) {
        const removed = await podmanSays(podman, [
          ...common,
          ...["rm", "--force", "--time=0", "--ignore", ...ids],
        ]);
        if (removed.code !== 0) throw new Error(removed.stderr.trim());
        this.#notices.leftoversRemoved(ids.length);
      }
      await this.#hasImage();
      return true;
    } catch (error) {
      this.#notices.runnerUnavailable(error);
      return false;
    }
  }

  #openEgress(id: string, hosts: readonly string[]): Egress | "failed" {
    const { deno, table, private: named } = this.#egress;
    // A socket's path holds few bytes.
    const directory = `${this.#places.egress}/${id.slice(0, 8)}`;
    try {
      if (deno === null) throw new Error("a compiled brokerd has no egress proxy");
      Deno.mkdirSync(directory);
      // For the user inside, whatever the umask says; the directory above keeps all others out.
      Deno.chmodSync(directory, 0o755);
      const socket = `${directory}/proxy.sock`;
      const child = startEgress(deno, {
        ...{ socket, hosts, table, private: named },
        limits: EGRESS_LIMITS,
      });
      return { directory, child };
    } catch (error) {
      removeDirectory(directory);
      this.#notices.egressUnavailable(error);
      return "failed";
    }
  }

  async #closeEgress({ child, directory }: Egress): Promise<void> {
    await child.stop();
    removeDirectory(directory);
  }
}

/** The label's value of the containers of `home`: another home of the same user has containers of its own. */
export function labelOf(home: string): string {
  return sha256(utf8(home)).slice(0, 16);
}

/** Removes `directory` of a proxy. What cannot be removed, the next start of brokerd removes. */
function removeDirectory(directory: string): void {
  try {
    Deno.removeSync(directory, { recursive: true });
  } catch {
    // not made, or in use
  }
}

/** Makes `directory`, or takes away what is in it. */
async function emptyDirectory(directory: string): Promise<void> {
  await Deno.mkdir(directory, { recursive: true, mode: 0o700 });
  for await (const { name } of Deno.readDir(directory)) {
    await Deno.remove(`${directory}/${name}`, { recursive: true });
  }
}
