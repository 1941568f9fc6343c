/** One container of Podman: started, fed, read within a limit, and gone at its end whatever happens. */
import type { Ended } from "./outcome.ts";

/**
 * The environment of Podman. Nothing of brokerd's own goes on to it: it finds its helpers here, and what
 * else it needs in the list of users.
 */
const ENVIRONMENT = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" };
/** How long Podman may take to end a container before it is ended itself, in milliseconds. */
const KILL_MS = 15_000;
/** Between two attempts to remove a container that may not be there yet, in milliseconds. */
const RETRY_MS = 100;

/** How a command of Podman ended, and what it said. */
export interface Said {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `podman` with `args` to its end. Throws where it cannot be started. */
export async function podmanSays(podman: string, args: readonly string[]): Promise<Said> {
  const { code, stdout, stderr } = await command(podman, args, "null").output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

function command(podman: string, args: readonly string[], stdin: "null" | "piped"): Deno.Command {
  return new Deno.Command(podman, {
    args: [...args],
    clearEnv: true,
    env: ENVIRONMENT,
    // A directory that is there for everybody, and that nothing is read from.
    cwd: "/",
    stdin,
    stdout: "piped",
    stderr: "piped",
  });
}

export interface ContainerOptions {
  readonly podman: string;
  /** What `podman rm` begins with. */
  readonly common: readonly string[];
  readonly name: string;
  readonly args: readonly string[];
  /** What the tool reads. */
  readonly input: Uint8Array;
  /** How much is kept of stdout and stderr together, in bytes; more ends the container. */
  readonly keepBytes: number;
  readonly timeoutMs: number;
}

/** A container that runs. */
export class Container {
  readonly #options: ContainerOptions;
  readonly #child: Deno.ChildProcess;
  #how: Ended["how"] = "exited";
  #running = true;
  #kept = 0;
  #killed: Promise<void> | null = null;
  /** Once it and everything of it is gone. */
  readonly ended: Promise<Ended>;

  /** Throws where Podman cannot be started. */
  constructor(options: ContainerOptions) {
    this.#options = options;
    this.#child = command(options.podman, options.args, "piped").spawn();
    this.ended = this.#run();
  }

  /** Ends it, for the reason `how`. Without effect once it has ended. */
  end(how: Exclude<Ended["how"], "exited">): void {
    if (!this.#running || this.#killed !== null) return;
    this.#how = how;
    this.#killed = this.#kill();
  }

  async #run(): Promise<Ended> {
    const timer = setTimeout(() => this.end("late"), this.#options.timeoutMs);
    // Podman that somebody else ends leaves its container running, and maybe a pipe to us open.
    void this.#child.status.then(({ signal }) => signal !== null && this.end("lost"));
    try {
      const [stdout, stderr] = await Promise.all([
        this.#read(this.#child.stdout),
        this.#read(this.#child.stderr),
        this.#feed(),
      ]);
      const { code } = await this.#child.status;
      return { how: this.#how, code, stdout, stderr };
    } finally {
      this.#running = false;
      clearTimeout(timer);
      await this.#killed;
    }
  }

  async #feed(): Promise<void> {
    const writer = this.#child.stdin.getWriter();
    try {
      await writer.write(this.#options.input);
      await writer.close();
    } catch {
      // A tool that has ended reads no more; its status tells why.
    }
  }

  /** What `stream` says, up to the limit. Goes on reading beyond it, so that nothing waits for us. */
  async #read(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    for await (const chunk of stream) {
      const part = chunk.subarray(0, this.#options.keepBytes - this.#kept);
      this.#kept += part.length;
      if (part.length > 0) parts.push(part);
      if (part.length < chunk.length) this.end("cut");
    }
    return concat(parts);
  }

  async #remove(): Promise<void> {
    const { podman, common, name } = this.#options;
    await podmanSays(podman, [...common, "rm", "--force", "--time=0", "--ignore", name]);
  }

  async #kill(): Promise<void> {
    const end = Date.now() + KILL_MS;
    // A container that is still being started is not there to be removed yet.
    do {
      await this.#remove();
      await Promise.race([
        this.#child.status,
        new Promise((resolve) => setTimeout(resolve, RETRY_MS)),
      ]);
    } while (this.#running && Date.now() < end);
    if (!this.#running) return;
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // it has just ended
    }
    await this.#remove();
  }
}

function concat(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
