/** brokerd, loopd and a model server beside a script, each as a process of its own under its own row. */
import { readBrokerConfig } from "../../broker/config.ts";
import { readLoopConfig } from "../../loop/config.ts";
import { ALWAYS } from "../../proto/locks.ts";
import type { CtlPlaces } from "./ctl.ts";
import { Daemon } from "./daemon.ts";
import { brokerConfigForRun, type Home, loopConfigForRun } from "./home.ts";
import { flagsFor, mainOf, PROJECT } from "./roles.ts";

export interface StackOptions {
  readonly home: Home;
  /** The model server's address; null for the stand-in. */
  readonly llama: string | null;
  /** Tables for brokerd's configuration that the owner's file does not have, as `[runner]`. */
  readonly tables?: Readonly<Record<string, object>>;
  /** Called once brokerd runs, before anything else is started. */
  readonly afterBroker?: () => void;
  /** Called for each line that a daemon says. */
  readonly heard?: (line: string) => void;
  /** As in `DaemonOptions`. */
  readonly detached?: boolean;
}

type DaemonName = "standin" | "brokerd" | "loopd";

/** How long a daemon may take until it is ready, in milliseconds; a model may take longer to load. */
const READY_MS = 30_000;

/** The daemons of one home. Dispose of it, and they are gone. */
export class Stack implements AsyncDisposable {
  readonly home: Home;
  readonly #options: StackOptions;
  #stopped = false;
  /** In order of their start. */
  readonly #daemons = new Map<DaemonName, Daemon>();
  /** Where bxctl finds these daemons. */
  readonly places: CtlPlaces;

  /** Throws `ConfigError`. */
  constructor(options: StackOptions) {
    const { home } = options;
    this.home = home;
    this.#options = options;
    this.places = {
      "home": home.path,
      "admin-socket": readBrokerConfig(home.brokerConfig, home.path).adminSocket,
      "loop-socket": readLoopConfig(home.loopConfig, home.path).loopSocket,
    };
  }

  /**
   * Starts the daemons, each once the one before is ready. Throws `NotReady` and `ConfigError`; what was
   * started until then runs until `stop`.
   */
  async start(): Promise<void> {
    await this.#startBroker();
    this.#options.afterBroker?.();
    const llama = this.#options.llama ?? await this.#startStandin();
    await this.#startLoop(llama);
  }

  get daemons(): readonly Daemon[] {
    return [...this.#daemons.values()];
  }

  /** Stops the daemons, the last started first. No other can be started then. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const daemon of this.daemons.toReversed()) await daemon.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #start(name: DaemonName, args: readonly string[]): Daemon {
    if (this.#stopped) throw new Error("the daemons were stopped");
    const { home, heard, detached } = this.#options;
    const daemon = new Daemon({
      name,
      args,
      env: { BOXMAKER_HOME: home.path },
      log: `${home.logs}/${name}.log`,
      ...heard === undefined ? {} : { heard },
      ...detached === undefined ? {} : { detached },
    });
    this.#daemons.set(name, daemon);
    return daemon;
  }

  /** Returns the stand-in's address. It may listen on the loopback, and nothing else. */
  async #startStandin(): Promise<string> {
    const main = `${PROJECT}/scripts/standin/main.ts`;
    const standin = this.#start("standin", [...ALWAYS, "--allow-net=127.0.0.1:0", main]);
    const ready = await standin.ready(READY_MS);
    return ready.slice(ready.lastIndexOf(" ") + 1);
  }

  async #startBroker(): Promise<void> {
    const { path } = this.home;
    const config = brokerConfigForRun(this.home, this.#options.tables ?? {});
    const flags = flagsFor("brokerd", { config }, path);
    const broker = this.#start("brokerd", [
      ...flags,
      ...[mainOf("brokerd"), "serve", "--config", config],
    ]);
    await broker.ready(READY_MS);
  }

  async #startLoop(llama: string): Promise<void> {
    const { path } = this.home;
    const config = loopConfigForRun(this.home, llama);
    const flags = flagsFor("loopd", { config }, path);
    const loop = this.#start("loopd", [
      ...flags,
      ...[mainOf("loopd"), "serve", "--config", config],
    ]);
    await loop.ready(READY_MS + readLoopConfig(config, path).llama.timeoutMs);
  }
}
