/** A home for loopd, loopd in this process or as one of its own, and its client. */
import { lockOf, readLoopConfig } from "../../loop/config.ts";
import { makeNotices } from "../../loop/notices.ts";
import { type Running, start } from "../../loop/serve.ts";
import { type Layout, layout } from "../../proto/layout.ts";
import { denoFlags } from "../../proto/locks.ts";
import { type Exchange, serve, type Server } from "../../proto/io/server.ts";
import { listen } from "../../proto/io/socket.ts";
import type { Body, FinalToolResponse, ToolRequest, TurnEvent } from "../../proto/messages.ts";
import type { Gate } from "./daemons.ts";
import { DEADLINE_MS, frame, PROJECT, RawClient, until, within } from "./broker.ts";

/** A home in a temporary directory, with a `loopd.toml` for the model server at `url`. */
export class LoopHome implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-" });
  readonly home = `${this.root}/home`;
  readonly configFile = `${this.root}/loopd.toml`;
  readonly layout: Layout = layout(this.home);

  /** `llama`: more of `[llama]`. With `broker`, brokerd's usual socket is configured. */
  constructor(url: string, { llama = "", broker = true } = {}) {
    const socket = broker ? `[broker]\nsocket = "${this.layout.brokerSocket}"\n` : "";
    Deno.writeTextFileSync(
      this.configFile,
      `[paths]\nhome = "${this.home}"\n${socket}[llama]\nurl = "${url}"\n${llama}`,
    );
  }

  /** Where the log of `session` lies. */
  log(session: string): string {
    return `${this.layout.loopSessions}/${session}.jsonl`;
  }

  /** The entries of the log of `session`. */
  entries(session: string): Record<string, unknown>[] {
    return Deno.readTextFileSync(this.log(session)).trimEnd().split("\n").map((line) =>
      JSON.parse(line)
    );
  }

  /** Writes `memory/core.md`. */
  remember(content: string | Uint8Array): void {
    Deno.mkdirSync(this.layout.memory, { recursive: true });
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    Deno.writeFileSync(this.layout.core, bytes);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

/** loopd in this process: everything but its locks and its command line. */
export class Loop implements AsyncDisposable {
  /** What it said to its operator. */
  readonly said: string[];
  readonly #running: Running;
  #stopped: Promise<void> | null = null;
  readonly #socket: string;

  private constructor(running: Running, socket: string, said: string[]) {
    this.#running = running;
    this.#socket = socket;
    this.said = said;
  }

  static async start({ configFile }: LoopHome): Promise<Loop> {
    const config = readLoopConfig(configFile, undefined);
    const said: string[] = [];
    const started = await start(config, makeNotices((...lines) => said.push(...lines)));
    if (started.status !== "running") throw new Error(`loopd did not start: ${started.status}`);
    return new Loop(started, config.loopSocket, said);
  }

  /** One whole turn. */
  async chat(session: string | null, text: string): Promise<TurnEvent[]> {
    return await chat(this.#socket, session, text);
  }

  /** A turn that the test follows event by event. */
  async open(session: string | null, text: string): Promise<OpenTurn> {
    return await OpenTurn.start(this.#socket, session, text);
  }

  async stop(): Promise<void> {
    this.#stopped ??= this.#running.stop();
    await this.#stopped;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** loopd's flags, as the one table gives them for the configuration of `home`. */
export function flagsFor({ configFile }: LoopHome): string[] {
  return denoFlags(lockOf(readLoopConfig(configFile, undefined)));
}

export interface ProcessOptions {
  /** Deno's flags; the ones of loopd's row unless given. */
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Lines of shell before loopd takes the shell's place, as a limit. */
  readonly shell?: string;
}

/** loopd as a process of its own, under its own flags. Dispose of it: then it is gone. */
export class LoopProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  readonly #socket: string;
  #ended = false;
  stderr = "";

  constructor(home: LoopHome, options: ProcessOptions = {}) {
    const { flags = flagsFor(home), env = {}, shell = "" } = options;
    const main = new URL("loop/main.ts", PROJECT).pathname;
    this.#socket = home.layout.loopSocket;
    this.#child = new Deno.Command("sh", {
      args: [
        ...["-c", `${shell}\nexec "$@"`, "sh", Deno.execPath(), "run", ...flags],
        ...[main, "serve", "--config", home.configFile],
      ],
      cwd: PROJECT,
      env: { BOXMAKER_HOME: "", NO_COLOR: "1", ...env },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    this.#reading = this.#read();
  }

  /** Starts loopd and waits until it serves. */
  static async start(home: LoopHome, options: ProcessOptions = {}): Promise<LoopProcess> {
    const loop = new LoopProcess(home, options);
    try {
      await loop.said("loopd: ready, serving");
      return loop;
    } catch (error) {
      await loop[Symbol.asyncDispose]();
      throw error;
    }
  }

  get pid(): number {
    return this.#child.pid;
  }

  async #read(): Promise<void> {
    for await (const text of this.#child.stderr.pipeThrough(new TextDecoderStream())) {
      this.stderr += text;
    }
    this.#ended = true;
  }

  /** Waits until it has said `text`; fails when it ends without. */
  async said(text: string): Promise<void> {
    await until(`"${text}" from loopd`, () => {
      if (this.stderr.includes(text)) return true;
      if (this.#ended) throw new Error(`loopd ended without "${text}":\n${this.stderr}`);
      return false;
    });
  }

  signal(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** Its exit status and all that it said, once it has ended. */
  async ended(): Promise<{ code: number; stderr: string }> {
    const { code } = await within("end of loopd", this.#child.status);
    await within("end of stderr", this.#reading);
    return { code, stderr: this.stderr };
  }

  /** One whole turn. */
  async chat(session: string | null, text: string): Promise<TurnEvent[]> {
    return await chat(this.#socket, session, text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // it has ended
    }
    await this.#child.status;
    await this.#reading;
  }
}

/** A turn that is running. Dispose of it to hang up. */
export class OpenTurn implements Disposable {
  readonly #client: RawClient;

  private constructor(client: RawClient) {
    this.#client = client;
  }

  static async start(path: string, session: string | null, text: string): Promise<OpenTurn> {
    const client = await RawClient.connect(path);
    const body: Body<"chat"> = { session, text };
    await client.send(frame("chat", body));
    return new OpenTurn(client);
  }

  /** The next event, or null once loopd has closed the connection. */
  async next(): Promise<TurnEvent | null> {
    const message = await this.#client.next();
    if (message === null) return null;
    if (message.kind !== "turn_event") throw new Error(JSON.stringify(message));
    const { type } = message.body;
    if (message.final !== (type === "done" || type === "failed")) {
      throw new Error(`a ${type} event with final ${message.final}`);
    }
    return message.body;
  }

  /** Passes over events until one of `type`. */
  async until<T extends TurnEvent["type"]>(type: T): Promise<Extract<TurnEvent, { type: T }>> {
    for (let event = await this.next(); event !== null; event = await this.next()) {
      if (isOf(event, type)) return event;
    }
    throw new Error(`the turn ended without ${type}`);
  }

  /** The events that are left. */
  async rest(): Promise<TurnEvent[]> {
    const events: TurnEvent[] = [];
    for (let event = await this.next(); event !== null; event = await this.next()) {
      events.push(event);
    }
    return events;
  }

  [Symbol.dispose](): void {
    this.#client[Symbol.dispose]();
  }
}

function isOf<T extends TurnEvent["type"]>(
  event: TurnEvent,
  type: T,
): event is Extract<TurnEvent, { type: T }> {
  return event.type === type;
}

/** One whole turn over the socket at `path`. */
export async function chat(
  path: string,
  session: string | null,
  text: string,
): Promise<TurnEvent[]> {
  using turn = await OpenTurn.start(path, session, text);
  return await turn.rest();
}

/** The events of `type` among `events`. */
export function ofType<T extends TurnEvent["type"]>(
  events: readonly TurnEvent[],
  type: T,
): Extract<TurnEvent, { type: T }>[] {
  return events.filter((event) => isOf(event, type));
}

/** All text of `events`. */
export function textOf(events: readonly TurnEvent[]): string {
  return ofType(events, "text").map(({ text }) => text).join("");
}

/** How the fake broker answers one call: at once, or as the function does. */
export type ToolScript =
  | FinalToolResponse
  | ((request: ToolRequest, exchange: Exchange) => Promise<FinalToolResponse>);

/** brokerd's side of broker.sock: plays a script for each call, and no policy. */
export class ToolBroker implements Disposable {
  readonly requests: ToolRequest[] = [];
  readonly scripts: ToolScript[];
  readonly #server: Server;

  constructor({ layout }: LoopHome, ...scripts: readonly ToolScript[]) {
    this.scripts = [...scripts];
    this.#server = serve({
      listener: listen(layout.brokerSocket),
      socket: "broker.sock",
      sendTimeoutMs: DEADLINE_MS,
      handle: async ({ body }, exchange) => {
        this.requests.push(body);
        const script = this.scripts.shift() ?? { status: "denied", reason: "no_grant" };
        const answer = typeof script === "function" ? await script(body, exchange) : script;
        await exchange.send({ kind: "tool_response", final: true, body: answer });
      },
      forbidden: (kind) => {
        throw new Error(`loopd sent ${kind} to broker.sock`);
      },
      failed: (error) => {
        throw error;
      },
    });
  }

  [Symbol.dispose](): void {
    this.#server.stop();
  }
}

/** Asks the owner about the call, and opens `dropped` once the client is gone. */
export function asksOwner(dropped: Gate): ToolScript {
  return async (_, { send, whenGone }) => {
    const expires = new Date(Date.now() + 900_000).toISOString();
    const body = { status: "pending_approval", approval: 7, expires } as const;
    await send({ kind: "tool_response", final: false, body });
    await whenGone();
    dropped.open();
    return toolResult("too late");
  };
}

/** What a tool gave. */
export function toolResult(content: string): FinalToolResponse {
  return { status: "result", content, class: "private", untrusted: false, truncated: false };
}

/** Waits until the log of `session` has an entry of `type`. */
export async function logged(home: LoopHome, session: string, type: string): Promise<void> {
  await until(
    `${type} in the log of ${session}`,
    () => home.entries(session).some((entry) => entry.type === type),
  );
}
