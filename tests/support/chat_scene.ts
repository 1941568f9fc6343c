/**
 * A chat on a terminal through the real brokerd and loopd, in this process, and the real bxctl as one of
 * its own. The test plays the model, and says how each tool ends.
 */
import { readBrokerConfig } from "../../broker/config.ts";
import { makeNotices } from "../../broker/notices.ts";
import { type Running, start } from "../../broker/serve.ts";
import type { AuditEvent } from "../../proto/audit.ts";
import { HeldRuntime, type Run } from "./decision_path.ts";
import { until } from "./broker.ts";
import { type RunOptions, Terminal } from "./ctl.ts";
import { grantFile } from "./grants.ts";
import { FakeLlama, type Reply } from "./llama.ts";
import { recordsIn } from "./log.ts";
import { Loop, LoopHome } from "./loop.ts";

export interface SceneOptions extends RunOptions {
  /** As in `Terminal`. */
  readonly shell?: string;
}

export class ChatScene implements AsyncDisposable {
  readonly llama: FakeLlama;
  readonly home: LoopHome;
  /** Tools begin, and end when the test says so. */
  readonly runtime: HeldRuntime;
  readonly terminal: Terminal;
  readonly #broker: Running;
  readonly #loop: Loop;

  private constructor(
    parts: Pick<ChatScene, "llama" | "home" | "runtime" | "terminal">,
    broker: Running,
    loop: Loop,
  ) {
    this.llama = parts.llama;
    this.home = parts.home;
    this.runtime = parts.runtime;
    this.terminal = parts.terminal;
    this.#broker = broker;
    this.#loop = loop;
  }

  /** Reading below /n is allowed, writing there is asked about, and nothing else is granted. */
  static async start(
    replies: readonly (Reply | string)[],
    { shell = "exec $BXCTL", ...options }: SceneOptions = {},
  ): Promise<ChatScene> {
    const llama = new FakeLlama(...replies);
    const home = new LoopHome(llama.url);
    const { layout } = home;
    Deno.mkdirSync(layout.grants, { recursive: true });
    const constraints = { paths: ["/n"] };
    Deno.writeTextFileSync(`${layout.grants}/read.toml`, grantFile({ constraints }));
    const asks = grantFile({ tool: "write_file", mode: "ask", constraints });
    Deno.writeTextFileSync(`${layout.grants}/write.toml`, asks);
    const configFile = `${home.root}/brokerd.toml`;
    Deno.writeTextFileSync(configFile, `[paths]\nhome = "${layout.home}"\n`);
    const runtime = new HeldRuntime();
    runtime.outcome = null;
    const config = readBrokerConfig(configFile, undefined);
    const broker = start(config, false, makeNotices(() => {}), runtime);
    if (broker.status !== "running") throw new Error(`brokerd did not start: ${broker.status}`);
    const loop = await Loop.start(home);
    const terminal = new Terminal(layout.home, ["chat"], { options, shell });
    const scene = new ChatScene({ llama, home, runtime, terminal }, broker, loop);
    try {
      await terminal.shows("> ");
    } catch (error) {
      await scene[Symbol.asyncDispose]();
      throw error;
    }
    return scene;
  }

  /** The session of the chat, once a turn has begun. */
  get session(): string {
    const [, session = ""] = /session (chat-[0-9a-z-]+);/.exec(this.terminal.screen) ?? [];
    if (session === "") throw new Error("no turn has begun");
    return session;
  }

  /** The run `index`, once it has begun. */
  async run(index: number): Promise<Run> {
    await until("a run", () => this.runtime.runs.length > index);
    const run = this.runtime.runs[index];
    if (run === undefined) throw new Error("no run");
    return run;
  }

  /** What the audit log has, in order. */
  events(): AuditEvent[] {
    return recordsIn(this.home.layout.audit).map(({ event }) => event);
  }

  /** What the model was last sent, without the system prompt. */
  sent(): string[] {
    return this.llama.messages().slice(1).map(({ role, content }) => `${role}: ${content}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.terminal[Symbol.asyncDispose]();
    await this.#loop.stop();
    for (const run of this.runtime.runs) run.end({ status: "failed", message: "the test is over" });
    await this.#broker.stop();
    await this.llama[Symbol.asyncDispose]();
    this.home[Symbol.dispose]();
  }
}
