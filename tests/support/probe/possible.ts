/** What a locked program can do all the same. Each act leaves something that a test can look at. */
import { createSocket } from "node:dgram";
import { DatabaseSync } from "node:sqlite";
import { WASI } from "node:wasi";
import process from "node:process";
import { anew, once } from "./files.ts";
import type { Act } from "./outcome.ts";

/** What the WASI of the runtime takes for a memory of WebAssembly, with no WebAssembly at all. */
class Memory {
  readonly buffer = new ArrayBuffer(4096);
  get [Symbol.toStringTag](): string {
    return "WebAssembly.Memory";
  }
}

/** Its preview1 function `path_symlink`, as far as it is needed. */
type LinkFunction = (
  to: number,
  toLength: number,
  fd: number,
  at: number,
  length: number,
) => number;

/** The first descriptor of a directory that was opened for the module. */
const PREOPENED = 3;

function linkByWasi(path: string, to: string): void {
  const [, directory = "", name = ""] = /^(.*)\/([^/]+)$/.exec(path) ?? [];
  const wasi = new WASI({ version: "preview1", preopens: { "/d": directory } });
  const memory = new Memory();
  wasi.initialize({ exports: { memory } });
  const put = (at: number, text: string) =>
    new TextEncoder().encodeInto(text, new Uint8Array(memory.buffer, at)).written;
  const link: LinkFunction = Reflect.get(wasi.wasiImport, "path_symlink");
  const errno = link(0, put(0, to), PREOPENED, 2048, put(2048, name));
  if (errno !== 0) throw new Error(`path_symlink gave ${errno}`);
}

/** A database in memory whose rows are sorted in files of `directory` that have no name for long. */
function spill(directory: string): void {
  const database = new DatabaseSync(":memory:");
  database.exec(`pragma temp_store = 1; pragma temp_store_directory = '${directory}';
    pragma cache_size = 5; create temp table t (a)`);
  const insert = database.prepare("insert into t values (randomblob(200000))");
  for (let count = 0; count < 20; count++) insert.run();
}

export const POSSIBLE_ACTS = {
  /** `target`: where the link leads, a space, where it is to stand. */
  linkByWasi: (target: string) => {
    const [to = "", path = ""] = target.split(" ");
    linkByWasi(path, to);
  },
  /** `target`: a directory that is not the role's. */
  spill: (target: string) => spill(target),
  /** `target`: a file that the role may write, with its name in a directory that it may not. */
  journal: (target: string) => {
    const database = new DatabaseSync(target);
    database.exec("pragma journal_mode = wal; create table t (a); insert into t values (1)");
  },
  fill: (_, own: string) => Deno.writeFileSync(anew(own), new Uint8Array(1 << 20)),

  removePath: (target: string) => Deno.removeSync(target, { recursive: true }),
  makeDirectoryAt: (target: string) => Deno.mkdirSync(`${target}/x`, { recursive: true }),
  openToAll: (target: string) => Deno.chmodSync(target, 0o777),
  listenAndLeave: (target: string) => {
    Deno.listen({ transport: "unix", path: target });
  },
  bindDatagram: async (target: string) => {
    const [host = "", port] = target.split(":");
    const socket = createSocket("udp4");
    socket.bind(Number(port), host);
    await once(socket, "listening");
    socket.close();
  },

  evaluate: () => {
    const two: unknown = new Function("return 1 + 1")();
    if (two !== 2) throw new Error("not evaluated");
  },
  webAssembly: () => new WebAssembly.Module(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0)),
  signalSelf: () => Deno.kill(Deno.pid, "SIGCONT"),
  setTitle: () => {
    process.title = "another name";
  },
  handleSignals: () => Deno.addSignalListener("SIGTERM", () => {}),
  speak: () => console.error("a word"),
  whoAmI: () => [Deno.pid, Deno.ppid, Deno.execPath(), Deno.mainModule, Deno.cwd()],
  importOwnSource: () => import(import.meta.url),
} as const satisfies Record<string, Act>;
