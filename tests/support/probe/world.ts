/** Homes and servers for a probe of the locks, the probe in a process of its own, and the flags that open a door. */
import assert from "node:assert/strict";
import { directoryOf } from "../../../proto/layout.ts";
import { ask, type Broker, DEADLINE_MS, PROJECT, readFile, startBroker } from "../broker.ts";
import type { Door } from "../probe.ts";
import { RolesHome } from "../roles.ts";
import type { Outcome } from "./outcome.ts";

/** What opens a door: the flag that is widened by its target, or the flags that are added. */
export type Guard =
  | "read"
  | "write"
  | "read and write"
  | "reading and writing anywhere"
  | "socket"
  | "network"
  | "network at large"
  | "run"
  | "run and env"
  | "ffi"
  | "sys"
  | "env"
  | "import"
  | "everything";

export type Tried = Omit<Door, "own" | "name"> & { readonly guard: Guard };

export const tried = (guard: Guard, act: Door["act"], ...targets: string[]): Tried[] =>
  targets.map((target) => ({ guard, act, target }));

const serve = (handler: Deno.ServeHandler) =>
  Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, handler);

const addressOf = ({ addr }: Deno.HttpServer<Deno.NetAddr>) => `${addr.hostname}:${addr.port}`;

/** A home with all that the roles keep apart, a brokerd that serves it, and servers to be reached. */
export class World implements AsyncDisposable {
  readonly #model = serve(() => new Response("the model"));
  readonly #other = serve((request) => {
    const { pathname } = new URL(request.url);
    this.asked.push(pathname);
    if (!pathname.endsWith(".js")) return new Response("", { status: 404 });
    const headers = { "content-type": "text/javascript" };
    return new Response('globalThis.postMessage?.("open");', { headers });
  });
  /** Paths that the other server was asked for: it has modules, and knows no package. */
  readonly asked: string[] = [];
  readonly model = addressOf(this.#model);
  readonly other = addressOf(this.#other);
  readonly home = new RolesHome(this.model);
  readonly cache = Deno.makeTempDirSync({ prefix: "boxmaker-cache-" });
  readonly notes = `${this.home.root}/notes`;
  readonly grant = `${this.home.layout.grants}/notes.toml`;
  readonly state = `${this.home.layout.brokerSessions}/s1.json`;
  readonly sessionLog = `${this.home.layout.loopSessions}/s1.jsonl`;
  readonly #loop: Deno.HttpServer<Deno.UnixAddr>;
  #broker: Broker | null = null;

  constructor() {
    const { layout } = this.home;
    for (const path of [layout.brokerSessions, layout.loopSessions, layout.memory, this.notes]) {
      Deno.mkdirSync(path, { recursive: true });
    }
    this.home.grant("notes", `tool = "read_file"\nmode = "ask"\n[constraints]\npaths = ["/n"]\n`);
    Deno.writeTextFileSync(this.state, '{"taint":"private","untrusted":false}');
    for (const path of [this.sessionLog, layout.core, `${this.notes}/a.ts`]) {
      Deno.writeTextFileSync(path, "");
    }
    Deno.mkdirSync(directoryOf(layout.loopSocket), { recursive: true, mode: 0o700 });
    this.#loop = Deno.serve({ path: layout.loopSocket, onListen: () => {} }, () => new Response());
  }

  static async start(): Promise<World> {
    const world = new World();
    world.#broker = await startBroker(world.home);
    // Then there is a log.
    await ask(world.home.layout.brokerSocket, "tool_request", readFile("s1", "c1", "/x"));
    return world;
  }

  get broker(): Broker {
    assert(this.#broker !== null);
    return this.#broker;
  }

  /** The process of brokerd. */
  get brokerPid(): number {
    return this.broker.pid;
  }

  get log(): string {
    return `${this.home.layout.audit}/${this.home.auditFiles()[0]}`;
  }

  /** Tries `doors` in a process with `flags`. */
  async probe(
    flags: readonly string[],
    doors: readonly Omit<Tried, "guard">[],
    own: string,
  ): Promise<Record<string, Outcome>> {
    const named = doors.map(({ act, target }) => ({ name: `${act} ${target}`, act, target, own }));
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", ...flags, new URL("tests/support/probe.ts", PROJECT).pathname],
        JSON.stringify(named satisfies Door[]),
      ],
      cwd: PROJECT,
      signal: AbortSignal.timeout(DEADLINE_MS),
      env: {
        DENO_DIR: this.cache,
        NO_COLOR: "1",
        // Whatever would be fetched is asked for here.
        NPM_CONFIG_REGISTRY: `http://${this.other}/npm/`,
        JSR_URL: `http://${this.other}/jsr/`,
      },
    }).output();
    const text = new TextDecoder();
    assert(success, text.decode(stderr));
    return JSON.parse(text.decode(stdout));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#broker?.[Symbol.asyncDispose]();
    await Promise.all([this.#model, this.#other, this.#loop].map((server) => server.shutdown()));
    Deno.removeSync(this.cache, { recursive: true });
    this.home[Symbol.dispose]();
  }
}

/** `flags` with the guard of `doors` widened to let them through. */
export function widened(
  flags: readonly string[],
  guard: Guard,
  doors: readonly Tried[],
  own: string,
): string[] {
  const targets = doors.map(({ target }) => target);
  const more = (list: readonly string[], name: string, values: readonly string[]) =>
    list.map((flag) =>
      flag.startsWith(`--allow-${name}=`) ? [flag, ...values].join(",").replace("=,", "=") : flag
    );
  const all = (list: readonly string[], ...names: string[]) =>
    list.map((flag) => names.find((name) => flag.startsWith(`${name}=`)) ?? flag);
  switch (guard) {
    case "read":
    case "env":
    case "write":
      return more(flags, guard, targets);
    case "read and write":
      return more(more(flags, "read", [...targets, own]), "write", [...targets, own]);
    case "reading and writing anywhere":
      return all(flags, "--allow-read", "--allow-write");
    case "socket": {
      const paths = targets.map((target) => target.split(" ")[0] ?? target);
      const hosts = targets.flatMap((target) => target.split(" http://")[1]?.slice(0, -1) ?? []);
      const both = more(more(flags, "read", paths), "write", paths);
      return more(both, "net", [...paths.map((path) => `unix:${path}`), ...hosts]);
    }
    case "network":
      return more(flags, "net", targets);
    case "network at large":
      return all(flags, "--allow-net");
    case "run":
      return [...flags, "--allow-run"];
    case "run and env":
      return [...all(flags, "--allow-env"), "--allow-run"];
    case "ffi":
      return [...flags, "--allow-ffi"];
    case "sys":
      return [...flags, "--allow-sys"];
    case "everything":
      return ["-A"];
    case "import": {
      const closing = ["--cached-only", "--deny-import", "--frozen"];
      return [...flags.filter((flag) => !closing.includes(flag)), "--no-lock", "--allow-import"];
    }
  }
}
