/**
 * Stands where the egress proxy does, under its very flags, with no check of its own: tries each act of its
 * argument and prints what became of it.
 */
import { type Act, attempt } from "./probe/outcome.ts";

const hostAndPort = (target: string) => {
  const [hostname = "", port] = target.split(" ");
  return { hostname, port: Number(port) };
};

const ACTS = {
  connect: async (target: string) => (await Deno.connect(hostAndPort(target))).close(),
  fetch: async (target: string) => await (await fetch(target)).body?.cancel(),
  unix: async (path: string) => (await Deno.connect({ transport: "unix", path })).close(),
  listenUnix: (path: string) => Deno.listen({ transport: "unix", path }).close(),
  listen: (target: string) => Deno.listen(hostAndPort(target)).close(),
  resolve: (name: string) => Deno.resolveDns(name, "A"),
  read: (path: string) => Deno.readFileSync(path),
  list: (path: string) => [...Deno.readDirSync(path)],
  write: (path: string) => Deno.writeTextFileSync(path, ""),
  run: (path: string) => new Deno.Command(path).outputSync(),
  env: (name: string) => Deno.env.get(name),
  sys: () => Deno.hostname(),
  ffi: (path: string) => Deno.dlopen(path, {}).close(),
  import: (specifier: string) => import(specifier),
} as const satisfies Record<string, Act>;

/** An act and what it is tried on. */
export type Try = readonly [act: keyof typeof ACTS, target: string];

if (import.meta.main) {
  const tries: readonly Try[] = JSON.parse(Deno.args[0] ?? "[]");
  const outcomes: string[] = [];
  for (const [act, target] of tries) outcomes.push(await attempt(ACTS[act], target, ""));
  console.log(JSON.stringify(outcomes));
  Deno.exit(0);
}
