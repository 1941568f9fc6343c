/**
 * A program that tries doors. Started under a role's own flags by `tests/broker/locks_probe_test.ts`: it
 * prints, as JSON, which of the doors named in its argument were open.
 */
import childProcess from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import net from "node:net";
import os from "node:os";
import process from "node:process";

/** One thing to try: `act` is a key of `ACTS`. `own`: a directory that the role may write. */
export interface Door {
  readonly name: string;
  readonly act: keyof typeof ACTS;
  readonly target: string;
  readonly own: string;
}

/** `closed`: the runtime refused. Anything else that went wrong is told in words. */
export type Outcome = "open" | "closed" | string;

const readsThe = (target: string) => `Deno.readFileSync(${JSON.stringify(target)})`;
const asData = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;

/** A path in `directory` where nothing stands. */
const anew = (directory: string) => `${directory}/${crypto.randomUUID()}`;

/** Ends well where the emitter says so, with its error else. */
function once(emitter: NodeJS.EventEmitter, wanted: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    emitter.on(wanted, resolve);
    emitter.on("error", reject);
  });
}

function fromWorker(url: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const worker = new Worker(url, { type: "module" });
  worker.onmessage = ({ data }) => data === "open" ? resolve() : reject(new Error(String(data)));
  worker.onerror = (event) => {
    event.preventDefault();
    reject(new Error(event.message));
  };
  return promise.finally(() => worker.terminate());
}

const workerThatReads = (target: string) =>
  `try { ${readsThe(target)}; postMessage("open"); } catch (error) { postMessage(String(error)); }`;

export const ACTS = {
  read: (target: string) => Deno.readFileSync(target),
  readByNode: (target: string) => fs.readFileSync(target),
  list: (target: string) => [...Deno.readDirSync(target)],
  stat: (target: string) => Deno.lstatSync(target),
  readByData: (target: string) => import(asData(readsThe(target))),
  readByWorker: (target: string) => fromWorker(asData(workerThatReads(target))),
  readByBlobWorker: (target: string) => {
    const blob = new Blob([workerThatReads(target)], { type: "text/javascript" });
    return fromWorker(URL.createObjectURL(blob));
  },
  importFile: (target: string) => import(target),

  append: (target: string) => Deno.writeTextFileSync(target, "", { append: true }),
  appendByNode: (target: string) => fs.appendFileSync(target, ""),
  create: (target: string) => Deno.writeTextFileSync(`${target}/probe`, ""),
  makeDirectory: (target: string) => Deno.mkdirSync(anew(target)),
  chmod: (target: string) => Deno.chmodSync(target, 0o600),

  copyOut: (target: string, own: string) => Deno.copyFileSync(target, anew(own)),
  linkOut: (target: string, own: string) => Deno.linkSync(target, anew(own)),
  symlink: (target: string, own: string) => Deno.symlinkSync(target, anew(own)),
  symlinkByNode: (target: string, own: string) => fs.symlinkSync(target, anew(own)),

  connect: async (target: string) =>
    (await Deno.connect({ transport: "unix", path: target })).close(),
  connectByNode: async (target: string) => {
    const socket = net.connect({ path: target });
    await once(socket, "connect");
    socket.destroy();
  },
  /** `target`: the socket, then the address that the request is for. */
  fetchOverSocket: async (target: string) => {
    const [path = "", url = ""] = target.split(" ");
    using client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
    await past(fetch(url, { client }));
  },
  requestOverSocket: (target: string) =>
    past(once(http.request({ socketPath: target, path: "/" }).end(), "response")),
  listenOnSocket: (target: string) => Deno.listen({ transport: "unix", path: target }).close(),

  connectTcp: async (target: string) => {
    const [hostname = "", port] = target.split(":");
    (await Deno.connect({ hostname, port: Number(port) })).close();
  },
  connectTcpByNode: async (target: string) => {
    const [hostname = "", port] = target.split(":");
    const socket = net.connect(Number(port), hostname);
    await once(socket, "connect");
    socket.destroy();
  },
  fetch: async (target: string) => await (await fetch(`http://${target}/`)).body?.cancel(),
  webSocket: async (target: string) => {
    const socket = new WebSocket(`ws://${target}/`);
    await past(
      new Promise((resolve, reject) => {
        socket.onopen = resolve;
        socket.onerror = () => reject(new Error("not a server of web sockets"));
      }),
    );
    socket.close();
  },
  listenTcp: (target: string) => {
    const [hostname = "", port] = target.split(":");
    Deno.listen({ hostname, port: Number(port) }).close();
  },

  run: (target: string) => new Deno.Command(target).outputSync(),
  runByNode: (target: string) => {
    const { error } = childProcess.spawnSync(target);
    if (error) throw error;
  },
  signal: (target: string) => Deno.kill(Number(target), "SIGCONT"),
  requestRun: () => {
    const { state } = Deno.permissions.requestSync({ name: "run" });
    if (state !== "granted") throw new Deno.errors.NotCapable(state);
  },
  nativeCode: (target: string) => Deno.dlopen(target, {}).close(),
  nativeModule: (target: string) =>
    past(Promise.try(() => process.dlopen({ exports: {} }, target))),
  systemInformation: () => Deno.hostname(),
  systemInformationByNode: () => os.hostname(),
  environment: (target: string) => Deno.env.get(target),
  environmentByNode: (target: string) => process.env[target],

  importRemote: (target: string) => import(target),
  /** The registry need not know the package: it is asked, or it is not. */
  importPackage: (target: string) => past(import(target)),
  workerRemote: (target: string) => fromWorker(target),
} as const satisfies Record<string, (target: string, own: string) => unknown>;

/** A failure behind the door, as of a server that speaks something else, is not the lock's. */
async function past(attempt: Promise<unknown>): Promise<void> {
  try {
    await attempt;
  } catch (error) {
    if (isRefusal(error)) throw error;
  }
}

/** Whether the runtime refused. A worker and an import give its words only. */
function isRefusal(error: unknown): boolean {
  return error instanceof Deno.errors.NotCapable ||
    error instanceof Error && (
        /Requires [\w-]+ access/.test(error.message) ||
        // What --cached-only says of a package.
        /^Failed loading http\S+ for package /.test(error.message)
      );
}

async function attempt({ act, target, own }: Door): Promise<Outcome> {
  try {
    await ACTS[act](target, own);
    return "open";
  } catch (error) {
    return isRefusal(error) ? "closed" : `failed: ${error}`;
  }
}

if (import.meta.main) {
  const doors: readonly Door[] = JSON.parse(Deno.args[0] ?? "[]");
  const outcomes: Record<string, Outcome> = {};
  for (const door of doors) outcomes[door.name] = await attempt(door);
  console.log(JSON.stringify(outcomes));
  Deno.exit(0);
}
