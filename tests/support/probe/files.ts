/** Every way to a file that the runtime has. Where `target` is a directory, nothing of it is changed. */
import { Buffer } from "node:buffer";
import type { EventEmitter } from "node:events";
import fs from "node:fs";
import fsp from "node:fs/promises";
import { createRequire } from "node:module";
import process from "node:process";
import { backup, DatabaseSync } from "node:sqlite";
import v8 from "node:v8";
import vm from "node:vm";
import { type Act, beyond } from "./outcome.ts";

/** A path in `directory` where nothing stands. */
export const anew = (directory: string) => `${directory}/${crypto.randomUUID()}`;

/** Ends well where the emitter says so, with its error else. */
export function once(emitter: EventEmitter, wanted: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    emitter.on(wanted, resolve);
    emitter.on("error", reject);
  });
}

const require = createRequire(import.meta.url);

/** A file in `own`, to be brought elsewhere. */
function fileIn(own: string): string {
  const path = anew(own);
  Deno.writeTextFileSync(path, "");
  return path;
}

/** Acts on a name in the directory `target` where nothing stands. */
const onNothing = (act: (path: string) => unknown): Act => (target) =>
  beyond(() => act(anew(target)));

/** `target`: a directory. */
export const DIRECTORY_ACTS = {
  openWriting: onNothing((path) => Deno.openSync(path, { write: true })),
  createNew: onNothing((path) => Deno.openSync(`${path}/x`, { write: true, create: true })),
  truncate: onNothing((path) => Deno.truncateSync(path)),
  utime: onNothing((path) => Deno.utimeSync(path, 0, 0)),
  chown: onNothing((path) => Deno.chownSync(path, null, null)),
  remove: onNothing((path) => Deno.removeSync(path, { recursive: true })),
  readLink: onNothing((path) => Deno.readLinkSync(path)),
  realPath: onNothing((path) => Deno.realPathSync(path)),
  statMissing: onNothing((path) => Deno.statSync(path)),
  watch: (target: string) => Deno.watchFs(target).close(),
  changeDirectory: (target: string) => {
    const before = Deno.cwd();
    Deno.chdir(target);
    Deno.chdir(before);
  },
  temporaryFile: (target: string) => Deno.removeSync(Deno.makeTempFileSync({ dir: target })),
  temporaryDirectory: (target: string) => Deno.removeSync(Deno.makeTempDirSync({ dir: target })),
  readByUrl: onNothing((path) => Deno.readFileSync(new URL(`file://${path}`))),

  nodeAccess: onNothing((path) => fs.accessSync(path)),
  nodeOpen: onNothing((path) => fs.openSync(path, "r")),
  nodeReadByBuffer: onNothing((path) => fs.readFileSync(Buffer.from(path))),
  nodeTruncate: onNothing((path) => fs.truncateSync(path)),
  nodeTimes: onNothing((path) => fs.lutimesSync(path, 0, 0)),
  nodeChmod: onNothing((path) => fs.chmodSync(path, 0o600)),
  nodeUnlink: onNothing((path) => fs.unlinkSync(path)),
  nodeRemove: onNothing((path) => fs.rmSync(path)),
  nodeRemoveDirectory: onNothing((path) => fs.rmdirSync(path)),
  nodeReadLink: onNothing((path) => fs.readlinkSync(path)),
  nodeRealPath: onNothing((path) => fs.realpathSync(path)),
  nodeStatfs: (target: string) => fs.statfsSync(target),
  nodeOpendir: (target: string) => fs.opendirSync(target).closeSync(),
  nodeTemporary: (target: string) => fs.rmdirSync(fs.mkdtempSync(`${target}/x`)),
  nodeWatch: async (target: string) => {
    const watcher = fs.watch(target);
    // It says that it may not look only some time after it began.
    await new Promise((resolve) => setTimeout(resolve, 200));
    watcher.close();
  },
  nodeReadStream: onNothing((path) => once(fs.createReadStream(path), "open")),
  nodeWriteStream: onNothing((path) => once(fs.createWriteStream(`${path}/x`), "open")),
  nodeCopyOut: (target: string, own: string) =>
    beyond(() => fs.cpSync(anew(target), anew(own), { recursive: true })),
  nodePromisesOpen: onNothing((path) => fsp.open(path)),
  nodePromisesRead: onNothing((path) => fsp.readFile(path)),
  nodePromisesStatfs: (target: string) => fsp.statfs(target),
  nodePromisesCopyOut: (target: string, own: string) =>
    beyond(() => fsp.cp(anew(target), anew(own), { recursive: true })),
  nodePromisesUnlink: onNothing((path) => fsp.unlink(path)),
  nodeChangeDirectory: (target: string) => {
    const before = Deno.cwd();
    process.chdir(target);
    process.chdir(before);
  },
  heapSnapshot: (target: string) => Deno.removeSync(v8.writeHeapSnapshot(anew(target))),

  databaseFile: (target: string) => {
    const path = anew(target);
    new DatabaseSync(path).close();
    Deno.removeSync(path);
  },
  databaseBackup: async (target: string) => {
    const path = anew(target);
    await backup(new DatabaseSync(":memory:"), path);
    Deno.removeSync(path);
  },

  moveIn: (target: string, own: string) => Deno.renameSync(fileIn(own), anew(target)),
  copyIn: (target: string, own: string) => Deno.copyFileSync(fileIn(own), anew(target)),
  linkIn: (target: string, own: string) => Deno.linkSync(fileIn(own), anew(target)),
  nodeMoveIn: (target: string, own: string) => fs.renameSync(fileIn(own), anew(target)),
  nodeCopyIn: (target: string, own: string) => fs.copyFileSync(fileIn(own), anew(target)),
  nodeLinkIn: (target: string, own: string) => fs.linkSync(fileIn(own), anew(target)),
  moveOut: (target: string, own: string) => beyond(() => Deno.renameSync(anew(target), anew(own))),
} as const satisfies Record<string, Act>;

/** Writes only where the runtime opens a database inside a database: see `attachedDatabase`. */
const inMemory = (sql: string) => new DatabaseSync(":memory:").exec(sql);

const asData = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;

/** `target`: a file that exists, and holds JSON. */
export const FILE_ACTS = {
  textFile: (target: string) => Deno.readTextFileSync(target),
  open: (target: string) => Deno.openSync(target).close(),
  nodeBlob: async (target: string) => (await fs.openAsBlob(target)).text(),
  fetchFile: async (target: string) => (await fetch(`file://${target}`)).text(),
  requireJson: (target: string) => require(target),
  requireResolve: (target: string) => require.resolve(target),
  builtinModule: (target: string) => process.getBuiltinModule("fs").readFileSync(target),
  otherContext: (target: string) => {
    const escape = "this.constructor.constructor('return globalThis')()";
    const outside: typeof globalThis = vm.runInNewContext(escape, { Deno });
    return outside.Deno.readFileSync(target);
  },
  evaluated: (target: string) => {
    const read: unknown = new Function("path", "return Deno.readFileSync(path)")(target);
    return read;
  },
  importJson: (target: string) => import(target, { with: { type: "json" } }),
} as const satisfies Record<string, Act>;

/** `target`: a file of text. */
export const TEXT_ACTS = {
  importText: (target: string) => import(target, { with: { type: "text" } }),
  importByData: (target: string) =>
    import(asData(`import text from "file://${target}" with { type: "text" }; export { text };`)),
  importByBlob: (target: string) => {
    const code = `import text from "file://${target}" with { type: "text" }; export { text };`;
    return import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  },
  importOfOwnModule: (target: string, own: string) => {
    const path = `${anew(own)}.mjs`;
    Deno.writeTextFileSync(
      path,
      `import text from "file://${target}" with { type: "text" }; export { text };`,
    );
    return import(path);
  },
} as const satisfies Record<string, Act>;

/** What no flag opens for a role: there is no such way. */
export const DEAD_ENDS = {
  attachedDatabase: (target: string) => inMemory(`attach '${target}/x.db' as x`),
  vacuumInto: (target: string) => inMemory(`vacuum into '${target}/x.db'`),
  readByQuery: () => new DatabaseSync(":memory:").prepare("select readfile('/etc/passwd')").get(),
} as const satisfies Record<string, Act>;
