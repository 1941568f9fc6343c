/** The project's scripts as processes: to their end, or followed while they run, on pipes or a terminal. */
import { PROJECT as ROOT } from "../../scripts/support/roles.ts";
import { until, within } from "./broker.ts";

export { ROOT };

export interface ScriptOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** How long it may take, or of what is followed each thing that is waited for, in milliseconds. */
  readonly ms?: number;
}

const decoder = new TextDecoder();

/** What every script of a test gets: no home of this machine's owner, no colours. */
const ENV = { BOXMAKER_HOME: "", CI: "", NO_COLOR: "1", TERM: "xterm", SHELL: "/bin/sh" };

/** A temporary directory that is gone at the end. */
export class TempDir implements Disposable {
  readonly path = Deno.makeTempDirSync({ prefix: "boxmaker-" });

  write(name: string, content: string): string {
    const path = `${this.path}/${name}`;
    Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    Deno.writeTextFileSync(path, content);
    return path;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

/** Runs `scripts/NAME` to its end, without input. */
export async function runScript(
  name: string,
  args: readonly string[] = [],
  { env = {}, cwd = ROOT, ms = 60_000 }: ScriptOptions = {},
): Promise<{ code: number; stdout: string; stderr: string }> {
  const command = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--frozen", "-A", `${ROOT}/scripts/${name}`, ...args],
    cwd,
    env: { ...ENV, ...env },
    stdin: "null",
  });
  const { code, stdout, stderr } = await within(`end of ${name}`, command.output(), ms);
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/** A program that a test follows. Dispose of it: then it is gone, with what it started. */
export class Followed implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #reading: Promise<void>;
  #wake: (() => void)[] = [];
  #ended = false;
  /** All that it wrote so far, on both its streams. */
  output = "";

  readonly #ms: number | undefined;

  private constructor(command: Deno.Command, ms?: number) {
    this.#ms = ms;
    this.#child = command.spawn();
    this.#writer = this.#child.stdin.getWriter();
    const streams = [this.#child.stdout, this.#child.stderr];
    this.#reading = Promise.all(streams.map((stream) => this.#read(stream))).then(() => {
      this.#ended = true;
      this.#notify();
    });
  }

  /** On pipes. */
  static start([program, ...args]: readonly [string, ...string[]], options: ScriptOptions = {}) {
    return new Followed(
      new Deno.Command(program, {
        args,
        cwd: options.cwd ?? ROOT,
        env: { ...ENV, ...options.env },
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }),
      options.ms,
    );
  }

  /** On a terminal of its own. */
  static onTerminal(words: readonly string[], options: ScriptOptions = {}) {
    const quoted = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(" ");
    return Followed.start(
      ["script", "-qefE", "never", "-c", `exec ${quoted}`, "/dev/null"],
      options,
    );
  }

  get pid(): number {
    return this.#child.pid;
  }

  async #read(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) {
      this.output += text;
      this.#notify();
    }
  }

  #notify(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }

  async type(text: string): Promise<void> {
    await this.#writer.write(new TextEncoder().encode(text));
  }

  /** Ends its input. */
  async endInput(): Promise<void> {
    await this.#writer.close();
  }

  /** Waits until it has written `text`, `times` times. */
  async shows(text: string, times = 1): Promise<void> {
    const shown = async () => {
      while (this.output.split(text).length <= times) {
        if (this.#ended) throw new Error("it has ended");
        await new Promise<void>((resolve) => this.#wake.push(resolve));
      }
    };
    try {
      await within(`"${text}"`, shown(), this.#ms);
    } catch (cause) {
      throw new Error(`without "${text}":\n${this.output}`, { cause });
    }
  }

  signal(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** Its exit status, once it has ended. */
  async ends(): Promise<number> {
    const { code } = await within(`end after:\n${this.output}`, this.#child.status);
    await within("end of its output", this.#reading);
    return code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // First so that it can stop what it started.
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      try {
        this.#child.kill(signal);
      } catch {
        // it has ended
      }
      await within("end", this.#child.status).catch(() => {});
    }
    await within("end of its output", this.#reading).catch(() => {});
    await this.#writer.close().catch(() => {});
  }
}

/** The command line of each process in which `text` occurs, with its id. */
export function processesWith(text: string): { pid: number; commandLine: string }[] {
  return [...Deno.readDirSync("/proc")].flatMap(({ name }) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const commandLine = Deno.readTextFileSync(`/proc/${name}/cmdline`).replaceAll("\0", " ");
      return commandLine.includes(text) ? [{ pid: Number(name), commandLine }] : [];
    } catch {
      return []; // it has just ended
    }
  });
}

/** Waits until no process is left in whose command line `text` occurs. */
export async function noneLeftWith(text: string): Promise<void> {
  await until("end of every process", () => processesWith(text).length === 0);
}
