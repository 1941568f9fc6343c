/** A home of its own for a test, the real brokerd in it under its own flags, and a client of plain bytes. */
import { lockOf, readBrokerConfig } from "../../broker/config.ts";
import { decodeFrame } from "../../proto/frames.ts";
import { BODIES, type Body, type Kind, type Message } from "../../proto/messages.ts";
import { type Layout, layout } from "../../proto/layout.ts";
import { denoFlags } from "../../proto/locks.ts";
import { LineSplitter } from "../../proto/lines.ts";
import { utf8 } from "../../proto/text.ts";

/** What a test waits for comes within this many milliseconds, or the test fails. */
export const DEADLINE_MS = 20_000;

/** Where the project stands. */
export const PROJECT = new URL("../../", import.meta.url);

/** `promise`, or an error that says what did not come within the deadline. */
export async function within<T>(what: string, promise: Promise<T>, ms = DEADLINE_MS): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`within ${ms} ms there was no ${what}`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Waits until `holds`. For conditions that nothing tells of. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + DEADLINE_MS;
  while (!await holds()) {
    if (Date.now() > end) throw new Error(`within ${DEADLINE_MS} ms there was no ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Checks each of `cases` at the same time, a few at once; an error says of which it is. */
export async function forEach<T>(
  cases: Readonly<Record<string, T>>,
  check: (one: T, name: string) => Promise<void>,
): Promise<void> {
  const left = Object.entries(cases);
  const worker = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const [name, one] = next;
      try {
        await check(one, name);
      } catch (error) {
        throw new Error(name, { cause: error });
      }
    }
  };
  const ended = await Promise.allSettled([worker(), worker(), worker()]);
  for (const end of ended) if (end.status === "rejected") throw end.reason;
}

/** A home in a temporary directory, with a `brokerd.toml` and an empty grants directory. */
export class TempHome implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-" });
  readonly home = `${this.root}/home`;
  readonly configFile = `${this.root}/brokerd.toml`;
  readonly layout: Layout = layout(this.home);

  /** `more`: TOML after `[paths] home`. */
  constructor(more = "") {
    Deno.mkdirSync(this.layout.grants, { recursive: true });
    Deno.writeTextFileSync(this.configFile, `[paths]\nhome = "${this.home}"\n${more}`);
  }

  /** Writes the grant `id`; `fields` in TOML beside those that every grant needs. */
  grant(id: string, fields: string): void {
    const common = 'max_taint = "secret"\nresult_class = "private"\n';
    Deno.writeTextFileSync(`${this.layout.grants}/${id}.toml`, common + fields);
  }

  /** The files of the audit log, in order of names. */
  auditFiles(): string[] {
    return namesOf(this.layout.audit).filter((name) => name.endsWith(".jsonl"));
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

export function namesOf(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
}

/** Everything under `directory`: what stands at each path, with mode, owner and, for a file, its bytes. */
export function snapshot(directory: string): Record<string, string> {
  const found: Record<string, string> = {};
  const walk = (path: string) => {
    const info = Deno.lstatSync(path);
    const kind = info.isDirectory ? "directory" : info.isSymlink ? Deno.readLinkSync(path) : "";
    const bytes = info.isFile ? new Uint8Array(Deno.readFileSync(path)).toHex() : kind;
    found[path.slice(directory.length)] = `${info.mode} ${info.uid} ${bytes}`;
    if (info.isDirectory) { for (const name of namesOf(path)) walk(`${path}/${name}`); }
  };
  walk(directory);
  return found;
}

export interface StartOptions {
  /** After `serve --config FILE`. */
  readonly args?: readonly string[];
  /** Deno's flags; the ones of brokerd's row unless given. */
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** brokerd's flags, as the one table gives them for the configuration of `home`. */
export function flagsFor(home: TempHome): string[] {
  return denoFlags(lockOf(readBrokerConfig(home.configFile, undefined)));
}

/** A brokerd that was started. Dispose of it: then it is gone, whatever the test did. */
export class Broker implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  #stderr = "";
  #wake: (() => void)[] = [];
  #ended = false;

  constructor(home: TempHome, options: StartOptions) {
    const { args = [], flags = flagsFor(home), env = {} } = options;
    this.#child = new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", ...flags, new URL("broker/main.ts", PROJECT).pathname],
        ...["serve", "--config", home.configFile, ...args],
      ],
      cwd: PROJECT,
      env: { BOXMAKER_HOME: "", NO_COLOR: "1", ...env },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    this.#reading = this.#read();
  }

  /** What it has said. */
  get stderr(): string {
    return this.#stderr;
  }

  get pid(): number {
    return this.#child.pid;
  }

  async #read(): Promise<void> {
    for await (const text of this.#child.stderr.pipeThrough(new TextDecoderStream())) {
      this.#stderr += text;
      this.#notify();
    }
    this.#ended = true;
    this.#notify();
  }

  #notify(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }

  /** Waits until it has said `text`; fails when it ends without. */
  async said(text: string): Promise<void> {
    const said = async () => {
      while (!this.#stderr.includes(text)) {
        if (this.#ended) throw new Error(`brokerd ended without "${text}":\n${this.#stderr}`);
        await new Promise<void>((resolve) => this.#wake.push(resolve));
      }
    };
    await within(`"${text}" from brokerd`, said());
  }

  signal(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** Its exit status and all that it said, once it has ended. */
  async ended(): Promise<{ code: number; signal: Deno.Signal | null; stderr: string }> {
    const { code, signal } = await within("end of brokerd", this.#child.status);
    await within("end of stderr", this.#reading);
    return { code, signal, stderr: this.#stderr };
  }

  async stop(): Promise<void> {
    this.signal("SIGTERM");
    const { code, stderr } = await this.ended();
    if (code !== 0) throw new Error(`brokerd stopped with ${code}:\n${stderr}`);
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

/** Starts brokerd and waits until it serves. */
export async function startBroker(home: TempHome, options: StartOptions = {}): Promise<Broker> {
  const broker = new Broker(home, options);
  try {
    await broker.said("brokerd: ready");
    return broker;
  } catch (error) {
    await broker[Symbol.asyncDispose]();
    throw error;
  }
}

/** Starts a brokerd that is to refuse, and gives how it ended. */
export async function refusedStart(
  home: TempHome,
  options: StartOptions = {},
): Promise<{ code: number; stderr: string }> {
  await using broker = new Broker(home, options);
  const { code, stderr } = await broker.ended();
  return { code, stderr };
}

const KINDS = Object.keys(BODIES) as Kind[];

/** A client that sends whatever bytes it is given. */
export class RawClient implements Disposable {
  readonly #conn: Deno.Conn;
  readonly #splitter = new LineSplitter();
  readonly #lines: Uint8Array[] = [];

  private constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  static async connect(path: string): Promise<RawClient> {
    return new RawClient(await Deno.connect({ transport: "unix", path }));
  }

  async send(text: string): Promise<void> {
    const bytes = utf8(text);
    for (let at = 0; at < bytes.length;) at += await this.#conn.write(bytes.subarray(at));
  }

  /** The next line without its newline, or null at the end of the connection. */
  async line(): Promise<Uint8Array | null> {
    return await within("answer", this.#line());
  }

  async #line(): Promise<Uint8Array | null> {
    const chunk = new Uint8Array(64 * 1024);
    while (this.#lines.length === 0) {
      const count = await this.#conn.read(chunk).catch(() => null);
      if (count === null) return null;
      for (const { bytes } of this.#splitter.push(chunk.subarray(0, count))) {
        this.#lines.push(bytes.slice());
      }
    }
    return this.#lines.shift() ?? null;
  }

  /** The next answer, or null at the end of the connection. */
  async next(): Promise<Message | null> {
    const line = await this.line();
    if (line === null) return null;
    const decoded = decodeFrame(line, KINDS);
    if (!decoded.ok) throw new Error(`not a frame: ${new TextDecoder().decode(line)}`);
    return decoded.message;
  }

  [Symbol.dispose](): void {
    this.#conn.close();
  }
}

/** A request's frame, written by hand so that a test can send what no client would. */
export function frame(kind: string, body: unknown): string {
  return JSON.stringify({ v: 1, kind, final: true, body }) + "\n";
}

/** Sends one request and gives every answer until the server closes. */
export async function ask<K extends Kind>(
  path: string,
  kind: K,
  body: Body<K>,
): Promise<Message[]> {
  using client = await RawClient.connect(path);
  await client.send(frame(kind, body));
  const answers: Message[] = [];
  for (let answer = await client.next(); answer !== null; answer = await client.next()) {
    answers.push(answer);
  }
  return answers;
}

/** A tool call that grants decide on by its path. */
export function readFile(session: string, call: string, path: string): Body<"tool_request"> {
  return { session, call, tool: "read_file", arguments: JSON.stringify({ path }) };
}
