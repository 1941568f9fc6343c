/** A program that runs beside a script: started, heard until it is ready, and gone when it is stopped. */
import { Failure } from "./cli.ts";
import { linesOf } from "./lines.ts";
import { PROJECT } from "./roles.ts";

export interface DaemonOptions {
  readonly name: string;
  /** Deno's arguments after `run`: flags, module and the program's own. */
  readonly args: readonly string[];
  /** A command that becomes the program or follows it, with its own arguments, such as `strace -D`. */
  readonly under?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Where everything that it says is added, or null. */
  readonly log?: string | null;
  /** Called for each line that it says. */
  readonly heard?: (line: string) => void;
  /**
   * Outside the terminal's foreground, so that Ctrl-C reaches the script alone, which stops it in turn.
   * A test must not ask for this: it would outlive a test run that is interrupted.
   */
  readonly detached?: boolean;
}

/** A program that did not become ready: what became of it, then its last words. */
export class NotReady extends Failure {}

/** How long a program may take to stop before it is killed, in milliseconds. loopd takes 5 s. */
const STOP_MS = 10_000;
/** How many of its last lines are kept. */
const KEPT_LINES = 200;
/** How many of them are its last words. */
const LAST_WORDS = 10;

export class Daemon implements AsyncDisposable {
  readonly name: string;
  /** Resolves once it has ended and all that it said has been read. */
  readonly ended: Promise<Deno.CommandStatus>;
  readonly #child: Deno.ChildProcess;
  readonly #options: DaemonOptions;
  readonly #log: Deno.FsFile | null;
  #lines: string[] = [];
  #status: Deno.CommandStatus | null = null;
  #wake: (() => void)[] = [];

  constructor(options: DaemonOptions) {
    const { name, args, under = [], env = {}, log = null, detached = false } = options;
    const [command = Deno.execPath(), ...words] = [...under, Deno.execPath()];
    this.name = name;
    this.#options = options;
    this.#log = log === null ? null : Deno.openSync(log, { append: true, create: true });
    this.#child = new Deno.Command(command, {
      args: [...words, "run", "--quiet", ...args],
      cwd: PROJECT,
      env: { DENO_NO_UPDATE_CHECK: "1", NO_COLOR: "1", ...env },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
      detached,
    }).spawn();
    this.ended = this.#listen();
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** The last lines that it said. */
  get lines(): readonly string[] {
    return this.#lines;
  }

  async #listen(): Promise<Deno.CommandStatus> {
    for await (const line of linesOf(this.#child.stderr)) this.#hear(line);
    this.#status = await this.#child.status;
    this.#log?.close();
    this.#notify();
    return this.#status;
  }

  #hear(line: string): void {
    this.#lines = [...this.#lines, line].slice(-KEPT_LINES);
    const bytes = new TextEncoder().encode(`${line}\n`);
    for (let at = 0; this.#log !== null && at < bytes.length;) {
      at += this.#log.writeSync(bytes.subarray(at));
    }
    this.#options.heard?.(line);
    this.#notify();
  }

  #notify(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }

  /**
   * The first line that begins with `NAME: ready`, within `ms` milliseconds. Throws `NotReady` where it
   * ends or the time is up without.
   */
  async ready(ms: number): Promise<string> {
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      this.#notify();
    }, ms);
    try {
      while (true) {
        const line = this.#lines.find((line) => line.startsWith(`${this.name}: ready`));
        if (line !== undefined) return line;
        if (this.#status !== null) throw new NotReady(...this.obituary(this.#status));
        if (late) {
          const what = `${this.name} was not ready within ${Math.round(ms / 1000)} s`;
          throw new NotReady(what, ...this.#lines.slice(-LAST_WORDS));
        }
        await new Promise<void>((resolve) => this.#wake.push(resolve));
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** How it ended, and its last words. */
  obituary({ code, signal }: Deno.CommandStatus): string[] {
    const how = signal === null ? `with status ${code}` : `by ${signal}`;
    const words = this.#lines.slice(-LAST_WORDS);
    const what = `${this.name} has ended, ${how}`;
    return words.length === 0 ? [what] : [`${what}; its last words:`, ...words];
  }

  /** Sends `signal` if it still runs. */
  signal(signal: Deno.Signal): void {
    try {
      this.#child.kill(signal);
    } catch {
      // it has ended
    }
  }

  /** Ends it: SIGTERM, and SIGKILL where that has not helped after `ms` milliseconds. */
  async stop(ms = STOP_MS): Promise<void> {
    this.signal("SIGTERM");
    const timer = setTimeout(() => this.signal("SIGKILL"), ms);
    await this.ended;
    clearTimeout(timer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
