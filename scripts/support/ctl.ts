/** The real bxctl for scripts, under its own flags: a command to its end, or a turn event by event. */
import { TurnEvent } from "../../proto/messages.ts";
import { Failure } from "./cli.ts";
import { linesOf } from "./lines.ts";
import { ctlFlagsOf, flagsFor, mainOf, type Places, PROJECT } from "./roles.ts";

type Streams = Pick<Deno.CommandOptions, "stdin" | "stdout" | "stderr" | "signal">;

/** How long a command or a turn may take, in milliseconds: a real model may think long. */
const DEADLINE_MS = 600_000;

/** Where bxctl finds its daemons; each entry is an option of its command line. */
export type CtlPlaces = Places & { readonly home: string };

/** bxctl with `args` for the daemons at `places`. Throws `ConfigError`. */
export function ctlCommand(
  places: CtlPlaces,
  args: readonly string[],
  streams: Streams,
): Deno.Command {
  const { home } = places;
  const named = Object.entries(places).map(([name, path]) => `--${name}=${path}`);
  const line = [...args, ...named];
  return new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--quiet", ...ctlFlagsOf(line, home) ?? flagsFor("bxctl", places, home)],
      ...[mainOf("bxctl"), ...line],
    ],
    cwd: PROJECT,
    env: { DENO_NO_UPDATE_CHECK: "1", BOXMAKER_HOME: home },
    ...streams,
  });
}

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs bxctl to its end, without input. */
export async function runCtl(places: CtlPlaces, ...args: readonly string[]): Promise<Ran> {
  const signal = AbortSignal.timeout(DEADLINE_MS);
  const { code, stdout, stderr } = await ctlCommand(places, args, { stdin: "null", signal })
    .output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/** What a bxctl that runs says on stdout, line by line. Dispose of it, and it is gone. */
export class CtlProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #lines: AsyncGenerator<string>;
  readonly #stderr: Promise<string>;

  constructor(places: CtlPlaces, ...args: readonly string[]) {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const pipes = { stdin: "null", stdout: "piped", stderr: "piped", signal } as const;
    this.#child = ctlCommand(places, args, pipes).spawn();
    this.#lines = linesOf(this.#child.stdout);
    this.#stderr = new Response(this.#child.stderr).text();
  }

  /** The next line, or null at the end. */
  async line(): Promise<string | null> {
    const { value, done } = await this.#lines.next();
    return done ? null : value;
  }

  /** Its exit status and its messages, once it has ended. */
  async ended(): Promise<{ readonly code: number; readonly stderr: string }> {
    const { code } = await this.#child.status;
    return { code, stderr: await this.#stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // it has ended
    }
    while (await this.line() !== null);
    await this.ended();
  }
}

/** A turn of the model, begun by `bxctl chat --say`. Dispose of it to hang up. */
export class SaidTurn implements AsyncDisposable {
  readonly #ctl: CtlProcess;

  constructor(places: CtlPlaces, text: string) {
    this.#ctl = new CtlProcess(places, "chat", `--say=${text}`, "--json");
  }

  /** The next event, or null after the last one. Throws `Failure` for anything that is no event. */
  async next(): Promise<TurnEvent | null> {
    const line = await this.#ctl.line();
    if (line === null) return null;
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      throw new Failure(`bxctl chat --json printed a line that is not JSON: ${line}`);
    }
    const event = TurnEvent.safeParse(value);
    if (event.success) return event.data;
    throw new Failure(`bxctl chat --json printed something that is no event: ${line}`);
  }

  /** How bxctl ended, after its last event. */
  async ended(): Promise<{ readonly code: number; readonly stderr: string }> {
    return await this.#ctl.ended();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#ctl[Symbol.asyncDispose]();
  }
}
