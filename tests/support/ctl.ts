/** bxctl as a process under its own flags, on pipes or on a terminal, and its commands in this process. */
import { readCommandLine, usesOf } from "../../ctl/args.ts";
import { lockOf, readCtlConfig } from "../../ctl/config.ts";
import type { Io } from "../../ctl/io.ts";
import { type Layout, layout } from "../../proto/layout.ts";
import { denoFlags } from "../../proto/locks.ts";
import { PROJECT, within } from "./broker.ts";

/** A home in a temporary directory, with the directories of the two sockets that bxctl uses. */
export class CtlHome implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-" });
  readonly layout: Layout = layout(`${this.root}/home`);

  constructor() {
    Deno.mkdirSync(this.layout.audit, { recursive: true });
    for (const name of ["owner-broker", "owner-loop"]) {
      Deno.mkdirSync(`${this.layout.home}/run/${name}`, { recursive: true, mode: 0o700 });
    }
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly stdin?: string | Uint8Array<ArrayBuffer>;
  /** Deno's flags; the ones of bxctl's row unless given. */
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** The flags of bxctl's row for the home `home`, and for the command of `args`. */
export function flagsFor(home: string, args: readonly string[] = []): string[] {
  const read = readCommandLine(args);
  if (read.kind !== "run") return denoFlags(lockOf(readCtlConfig({ home }, undefined)));
  const { command, places: { grants, out } } = read;
  const config = readCtlConfig({ home, grants, out }, undefined, usesOf(command));
  return denoFlags(lockOf(config));
}

function commandLine(
  home: string,
  args: readonly string[],
  flags = flagsFor(home, args),
): string[] {
  return ["run", "--quiet", ...flags, new URL("ctl/main.ts", PROJECT).pathname, ...args];
}

/** Starts bxctl with the home of `BOXMAKER_HOME`, its three streams piped. */
export function startCtl(
  home: string,
  args: readonly string[],
  { flags, env = {} }: RunOptions = {},
): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: commandLine(home, args, flags === undefined ? undefined : [...flags]),
    cwd: PROJECT,
    env: { BOXMAKER_HOME: home, NO_COLOR: "", TERM: "xterm", ...env },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** Runs bxctl to its end. */
export async function runCtl(
  home: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<Ran> {
  const { stdin = "" } = options;
  const child = startCtl(home, args, options);
  const writer = child.stdin.getWriter();
  // It may end without reading what it is given.
  writer.write(typeof stdin === "string" ? new TextEncoder().encode(stdin) : stdin)
    .then(() => writer.close()).catch(() => {});
  const { code, stdout, stderr } = await within(`end of bxctl ${args.join(" ")}`, child.output());
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/** Puts `word` in quotes for the shell that `script` starts. */
const quoted = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`;

/** bxctl on a terminal of its own. Dispose of it: then it is gone, whatever the test did. */
export class Terminal implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #reading: Promise<void>;
  #wake: (() => void)[] = [];
  #ended = false;
  /** Everything on the screen so far, bytes as they came. */
  screen = "";

  /** `shell`: how the shell runs it, `$BXCTL` being its command line. */
  constructor(
    home: string,
    args: readonly string[],
    { options = {}, shell = "exec $BXCTL" }: { options?: RunOptions; shell?: string } = {},
  ) {
    const words = [Deno.execPath(), ...commandLine(home, args)].map(quoted).join(" ");
    this.#child = new Deno.Command("script", {
      args: ["-qefE", "never", "-c", shell.replace("$BXCTL", () => words), "/dev/null"],
      cwd: PROJECT,
      env: {
        BOXMAKER_HOME: home,
        NO_COLOR: "",
        COLUMNS: "",
        TERM: "xterm",
        SHELL: "/bin/sh",
        ...options.env,
      },
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#writer = this.#child.stdin.getWriter();
    this.#reading = this.#read();
  }

  async #read(): Promise<void> {
    for await (const text of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
      this.screen += text;
      this.#notify();
    }
    this.#ended = true;
    this.#notify();
  }

  #notify(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }

  async type(text: string): Promise<void> {
    await this.#writer.write(new TextEncoder().encode(text));
  }

  /** Waits until `text` is on the screen, `times` times. */
  async shows(text: string, times = 1): Promise<void> {
    const shown = async () => {
      while (this.screen.split(text).length <= times) {
        if (this.#ended) throw new Error(`bxctl ended without "${text}":\n${this.screen}`);
        await new Promise<void>((resolve) => this.#wake.push(resolve));
      }
    };
    try {
      await within(`"${text}" on the screen`, shown());
    } catch (error) {
      throw new Error(`the screen:\n${this.screen}`, { cause: error });
    }
  }

  /** Its exit status, once it has ended. */
  async ends(): Promise<number> {
    const { code } = await within("end of bxctl", this.#child.status);
    await within("end of its output", this.#reading);
    return code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // it has ended
    }
    await this.#child.status;
    await this.#reading;
    await this.#writer.close().catch(() => {});
  }
}

/** What the commands of bxctl said in this process. The present is 2026-12-01T10:00:00.000Z. */
export class Recorder implements Io {
  out = "";
  err = "";
  readonly terminal: boolean;
  readonly colours: boolean;
  readonly width: number | null;
  readonly statusWidth: number | null;

  constructor(
    { terminal = false, colours = false, width = null, statusWidth = null }: Partial<
      Pick<Io, "terminal" | "colours" | "width" | "statusWidth">
    > = {},
  ) {
    this.terminal = terminal;
    this.colours = colours;
    this.width = width;
    this.statusWidth = statusWidth;
  }

  answer(text: string): void {
    this.out += text;
  }

  tell(...lines: readonly string[]): void {
    this.err += lines.map((line) => `bxctl: ${line}\n`).join("");
  }

  prompt(question: string): void {
    this.err += question;
  }

  now(): number {
    return Date.parse("2026-12-01T10:00:00.000Z");
  }
}
