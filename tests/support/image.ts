/**
 * The tools in their real image and a real container each, started by podman as `brokerd` starts them but
 * without `brokerd`. What a test adds to the command line is in `ToolCall`.
 */
import { buildImage, findImage, IMAGE_SOURCES } from "../../scripts/support/image.ts";
import { within } from "./broker.ts";

/** crun does not start under the first version of cgroups. */
const PODMAN = ["podman", "--log-level=error", "--runtime=runc"] as const;

let image: Promise<string> | undefined;

/** The id of the image of the tools as they are now, which is built where podman does not have it. */
export function toolImage(): Promise<string> {
  image ??= (async () => {
    // Test files run side by side, and one of them builds it for all.
    using file = Deno.openSync(`${IMAGE_SOURCES}/packages`);
    await file.lock(true);
    return await findImage("podman") ?? await buildImage("podman", () => {});
  })();
  return image;
}

export interface ToolCall {
  /** The mounts: each path as in BOXMAKER_MOUNTS, mounted at itself. */
  readonly mounts?: readonly string[];
  /** Whether they may be written. */
  readonly writable?: boolean;
  /** Further arguments of `podman run`. */
  readonly podman?: readonly string[];
  /** Stdin, which then ends; null leaves it open without a byte. */
  readonly input?: string | Uint8Array<ArrayBuffer> | null;
  /** BOXMAKER_LIMIT, in bytes. */
  readonly limit?: number;
  /** BOXMAKER_SECONDS. */
  readonly seconds?: number;
}

export interface ToolEnd {
  readonly code: number;
  readonly stdout: Uint8Array<ArrayBuffer>;
  /** Stdout as text, of which each byte is one character. */
  readonly text: string;
  readonly stderr: string;
}

async function podmanArgs(call: ToolCall, command: readonly string[]): Promise<string[]> {
  const { mounts = [], writable = false, limit = 1000, seconds = 20 } = call;
  return [
    ...["run", "--rm", "--interactive", "--network=none", "--read-only"],
    ...["--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges"],
    ...["--user=65534:65534", "--pids-limit=64", "--memory=512m", "--http-proxy=false"],
    ...["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"],
    "--tmpfs=/tmp:rw,mode=1777,size=64m",
    `--env=BOXMAKER_MOUNTS=${mounts.join("\n")}`,
    `--env=BOXMAKER_LIMIT=${limit}`,
    `--env=BOXMAKER_SECONDS=${seconds}`,
    ...mounts.map((path) =>
      `--mount=type=bind,source=${path},destination=${path},ro=${String(!writable)}`
    ),
    ...call.podman ?? [],
    await toolImage(),
    ...command,
  ];
}

/** Runs `command` of the image to its end. */
export async function runInImage(
  command: readonly string[],
  call: ToolCall = {},
): Promise<ToolEnd> {
  const [program, ...global] = PODMAN;
  const child = new Deno.Command(program, {
    args: [...global, ...await podmanArgs(call, command)],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const { input = "" } = call;
  const feed = async () => {
    if (input === null) return;
    const bytes = typeof input === "string" ? new TextEncoder().encode(input) : input;
    // A tool that fails reads it too, so that a pipe which breaks is a fault.
    const writer = child.stdin.getWriter();
    await writer.write(bytes);
    await writer.close();
  };
  const [{ code, stdout, stderr }] = await within(
    `end of ${command.join(" ")}`,
    Promise.all([child.output(), feed()]),
    60_000,
  );
  if (input === null) await child.stdin.close().catch(() => {});
  return {
    code,
    stdout,
    text: new TextDecoder("latin1").decode(stdout),
    stderr: new TextDecoder().decode(stderr),
  };
}

/** Runs the tool `name` to its end. */
export function runTool(
  name: string,
  args: readonly string[],
  call: ToolCall = {},
): Promise<ToolEnd> {
  return runInImage(["/usr/lib/boxmaker/tool", name, ...args], call);
}

/** Runs `podman` with `args` to its end, without a container of the tools. */
export async function podman(...args: string[]): Promise<string> {
  const [program, ...global] = PODMAN;
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args: [...global, ...args],
    stdin: "null",
  }).output();
  if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

/** A directory for grants: every user may enter and write it, as the container's user is another. */
export class GrantPlace implements Disposable {
  readonly path = Deno.realPathSync(Deno.makeTempDirSync({ prefix: "boxmaker-grant-" }));

  /** A directory that everybody may write. */
  directory(name: string): string {
    const path = `${this.path}/${name}`;
    Deno.mkdirSync(path);
    Deno.chmodSync(path, 0o777);
    return path;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}
