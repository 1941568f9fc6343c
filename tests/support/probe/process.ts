/** Ways to other processes, to the system and to this process's own runtime. */
import childProcess from "node:child_process";
import cluster from "node:cluster";
import inspector from "node:inspector";
import { createRequire } from "node:module";
import os from "node:os";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { anew, once } from "./files.ts";
import { Absent, type Act, beyond, past } from "./outcome.ts";

/** The thing at `path`, as `Deno.openKv`, from the global scope. */
function named(path: string): unknown {
  let found: unknown = globalThis;
  for (const name of path.split(".")) {
    if (found === null || typeof found !== "object" && typeof found !== "function") {
      return undefined;
    }
    found = Reflect.get(found, name);
  }
  return found;
}

/** Calls the function at `path`, which the types do not know. */
function call(path: string, ...args: unknown[]): unknown {
  const found = named(path);
  if (typeof found !== "function") throw new Absent(path);
  return found(...args);
}

export const PROCESS_ACTS = {
  denoRun: (target: string) => call("Deno.run", { cmd: [target] }),
  denoSpawn: (target: string) => call("Deno.spawnAndWaitSync", target),
  commandSpawn: async (target: string) => await new Deno.Command(target).spawn().status,
  nodeSpawn: (target: string) => once(childProcess.spawn(target), "exit"),
  nodeExec: (target: string) => childProcess.execSync(target),
  nodeExecFile: (target: string) => childProcess.execFileSync(target),
  nodeFork: (target: string) => past(once(childProcess.fork(`/usr/bin/${target}`), "exit")),
  nodeCluster: () => {
    // Under other flags it would start this very program again.
    cluster.setupPrimary({ exec: "/nonexistent.mjs" });
    return past(once(cluster.fork(), "exit"));
  },
  signalGroup: (target: string) => beyond(() => Deno.kill(Number(target), "SIGURG")),
  nodeSignal: (target: string) => beyond(() => process.kill(Number(target), 0)),
  nodeDebug: (target: string) =>
    past(Promise.try(() => call("process._debugProcess", Number(target)))),

  pointer: () => past(Promise.try(() => Deno.UnsafePointer.of(new Uint8Array(1)))),
  pointerView: () =>
    past(Promise.try(() => call("Deno.UnsafePointerView.getArrayBuffer", null, 1))),
  callback: () =>
    past(Promise.try(() => {
      new Deno.UnsafeCallback({ parameters: [], result: "void" }, () => {}).close();
    })),
  requireNative: (target: string) =>
    past(Promise.try(() => createRequire(import.meta.url)(target))),
  databaseExtension: (target: string) =>
    past(
      Promise.try(() =>
        new DatabaseSync(":memory:", { allowExtension: true }).loadExtension(target)
      ),
    ),

  inspectorPort: () => {
    inspector.open(0, "127.0.0.1");
    inspector.close();
  },
  inspectorSession: () => new inspector.Session().connect(),

  umask: () => Deno.umask(Deno.umask()),
  nodeUmask: () => process.umask(),
  userId: () => Deno.uid(),
  nodeUserId: () => process.getuid?.(),
  setUser: () => beyond(() => process.setuid?.(Number(process.getuid?.()))),
  priority: () => beyond(() => os.setPriority(0, os.getPriority(0))),
  userInfo: () => os.userInfo(),
  interfaces: () => Deno.networkInterfaces(),
  homeDirectory: () => os.homedir(),
  processors: () => os.cpus(),

  wholeEnvironment: () => Deno.env.toObject(),
  nodeWholeEnvironment: () => Object.keys(process.env),
  setEnvironment: (target: string) => Deno.env.set(target, "x"),
} as const satisfies Record<string, Act>;

/** What the runtime keeps for its own modules, and lets others see. */
const inner: Record<string, Record<string, Record<string, unknown>> | undefined> = Reflect.get(
  Deno,
  Reflect.get(Deno, "internal"),
);

/** The functions in Rust of which it lets others see some, by their names. */
const operations = () => inner["core"]?.["ops"] ?? {};

/** What each of some of them is called with, for a path where nothing stands. */
const OPERATIONS: Readonly<Record<string, (path: string) => readonly unknown[]>> = {
  op_require_stat: (path) => [path],
  op_node_fs_exists_sync: (path) => [path],
  op_node_open_sync: (path) => [path, 0, 0],
  op_node_rmdir_sync: (path) => [path],
  op_node_lchmod_sync: (path) => [path, 0o600],
  op_fs_remove_sync: (path) => [path, false],
  op_fs_rename_sync: (path) => [path, `${path}x`],
  op_fs_link_sync: (path) => [path, `${path}x`],
  op_fs_copy_file_sync: (path) => [path, `${path}x`],
  op_fs_truncate_sync: (path) => [path, 0],
  op_fs_chmod_sync: (path) => [path, 0o600],
  op_ffi_ptr_create: () => [4096n],
  op_ffi_ptr_of_exact: () => [new Uint8Array(1)],
  op_node_process_kill: () => [1, 0],
  op_node_process_setuid: () => [0],
  op_set_env: () => ["BOXMAKER_PROBE", "x"],
};

export const OPERATION_NAMES = Object.keys(OPERATIONS);

export const OPERATION_ACTS = {
  /** `target`: the function, a space, a directory. */
  operation: (target: string) => {
    const [name = "", directory = ""] = target.split(" ");
    const operation = operations()[name];
    if (typeof operation !== "function") throw new Absent(name);
    const call = () => operation(...OPERATIONS[name]?.(anew(directory)) ?? []);
    return past(Promise.try(call));
  },
  innerNative: (target: string) =>
    past(Promise.try(() => {
      const open = operations()["op_napi_open"];
      if (typeof open !== "function") throw new Absent("op_napi_open");
      const none = () => {};
      open(target, none, none, none, none, none, none, none);
    })),
} as const satisfies Record<string, Act>;

export const ABSENT_ACTS = {
  /** `target`: what it is called. */
  find: (target: string) => {
    if (named(target) === undefined) throw new Absent(target);
  },
  /** `target`: a name among what the runtime keeps for itself. */
  findInner: (target: string) => {
    if (inner[target] === undefined) throw new Absent(target);
  },
  findModule: (target: string) => {
    if (process.getBuiltinModule(target) === undefined) throw new Absent(target);
  },
} as const satisfies Record<string, Act>;
