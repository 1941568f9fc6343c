/**
 * A program that tries doors. Started under a role's own flags by the tests of the locks: it prints, as
 * JSON, which of the doors named in its argument were open. More of its acts stand in `probe/`, by kind.
 */
import childProcess from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import net from "node:net";
import os from "node:os";
import process from "node:process";
import { anew, DEAD_ENDS, DIRECTORY_ACTS, FILE_ACTS, once, TEXT_ACTS } from "./probe/files.ts";
import { CODE_ACTS, fromWorker, NETWORK_ACTS, WORKER_ACTS } from "./probe/network.ts";
import { type Act, attempt, type Outcome, past } from "./probe/outcome.ts";
import { POSSIBLE_ACTS } from "./probe/possible.ts";
import { ABSENT_ACTS, OPERATION_ACTS, PROCESS_ACTS } from "./probe/process.ts";

/** One thing to try: `act` is a key of `ACTS`. `own`: a directory that the role may write. */
export interface Door {
  readonly name: string;
  readonly act: keyof typeof ACTS;
  readonly target: string;
  readonly own: string;
}

const readsThe = (target: string) => `Deno.readFileSync(${JSON.stringify(target)})`;
const asData = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;

const workerThatReads = (target: string) =>
  `try { ${readsThe(target)}; postMessage("open"); } catch (error) { postMessage(String(error)); }`;

export const ACTS = {
  ...DIRECTORY_ACTS,
  ...FILE_ACTS,
  ...TEXT_ACTS,
  ...DEAD_ENDS,
  ...NETWORK_ACTS,
  ...WORKER_ACTS,
  ...CODE_ACTS,
  ...PROCESS_ACTS,
  ...ABSENT_ACTS,
  ...OPERATION_ACTS,
  ...POSSIBLE_ACTS,

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
} as const satisfies Record<string, Act>;

if (import.meta.main) {
  const doors: readonly Door[] = JSON.parse(Deno.args[0] ?? "[]");
  const outcomes: Record<string, Outcome> = {};
  for (const door of doors) {
    outcomes[door.name] = await attempt(ACTS[door.act], door.target, door.own);
  }
  console.log(JSON.stringify(outcomes));
  Deno.exit(0);
}
