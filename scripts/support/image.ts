/**
 * The image in which the tools run: what it is made of (scripts/image/), how it is built from Debian's
 * packages, and how it is found again. No registry of images has a part in it.
 */
import { createHash } from "node:crypto";
import { display } from "../../proto/escape.ts";
import { causes } from "../../proto/io/log.ts";
import { Failure } from "./cli.ts";
import { linesOf } from "./lines.ts";
import { PROJECT } from "./roles.ts";

/** The folder of what goes into the image. */
export const IMAGE_SOURCES = `${PROJECT}/scripts/image`;
/** Where the tools are in the image. */
export const TOOLS_FOLDER = "usr/lib/boxmaker";
/** The tools, with the rights of each. */
export const TOOLS = {
  tool: "0755",
  read_file: "0755",
  write_file: "0755",
  shell: "0755",
  http_fetch: "0755",
  common: "0644",
} as const;
/** The file beside the tools that says what an image was built from: `recipeHash`. */
const STAMP = "recipe";

const SUITE = "bookworm";
/** The environment that the image brings, in podman's form of a Containerfile's lines. */
export const IMAGE_ENV = [
  "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  "ENV LC_ALL=C.UTF-8",
] as const;

/** How a program that is missing can be had. */
const DEBIAN_PACKAGES = { mmdebstrap: "mmdebstrap", tar: "tar", podman: "podman" } as const;
type Program = keyof typeof DEBIAN_PACKAGES;

/** How many of a program's last lines are told when it fails. */
const LAST_WORDS = 10;

function source(name: string): string {
  return Deno.readTextFileSync(`${IMAGE_SOURCES}/${name}`);
}

/** The arguments of `mmdebstrap` that write the root directory to `tar`, still without the tools. */
function debootstrapArgs(tar: string): string[] {
  const packages = source("packages").trim().split("\n");
  return [
    "--variant=essential",
    `--include=${packages.join(",")}`,
    // Devices are the runtime's to make, and in /run are the mount points that `finish` has made.
    "--skip=output/dev,cleanup/run",
    // The text and not the file: as an ordinary user, mmdebstrap may not be able to reach that.
    `--customize-hook=${source("finish")}`,
    ...["--format=tar", SUITE, tar],
  ];
}

/** The first 16 hexadecimal digits of the SHA-256 of all that the image is made of. */
function recipeHash(): string {
  const recipe = {
    debootstrap: debootstrapArgs("root.tar"),
    env: IMAGE_ENV,
    tools: Object.entries(TOOLS).map(([name, mode]) => [name, mode, source(name)]),
  };
  return createHash("sha256").update(JSON.stringify(recipe)).digest("hex").slice(0, 16);
}

/** The name under which the image of the tools as they are now is kept. */
export function imageTag(): string {
  return `localhost/boxmaker-tools:${recipeHash()}`;
}

/** What `run` needs beside the command. */
interface RunOptions {
  /** Called for each line of stderr. */
  readonly tell?: (line: string) => void;
  /** Ends the program when it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs `command` to its end, in a process group of its own, and gives its stdout. Throws `Failure` where
 * it is missing or fails. mmdebstrap wants the group: it hangs up on the whole of it when it fails, and
 * ends on a signal only when its children get that too.
 */
async function run(
  program: Program,
  command: string,
  args: readonly string[],
  { tell = () => {}, signal }: RunOptions = {},
): Promise<string> {
  signal?.throwIfAborted();
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command(command, {
      args: [...args],
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      detached: true,
    }).spawn();
  } catch (error) {
    throw new Failure(
      `${command} could not be started: ${causes(error)}`,
      `on Debian it comes with the package ${DEBIAN_PACKAGES[program]}`,
    );
  }
  const stop = () => {
    try {
      Deno.kill(-child.pid, "SIGTERM");
    } catch {
      // it has just ended
    }
  };
  signal?.addEventListener("abort", stop);
  const words: string[] = [];
  const listen = async () => {
    for await (const line of linesOf(child.stderr)) {
      words.push(line);
      tell(line);
    }
  };
  const [stdout, { code }] = await Promise.all([
    new Response(child.stdout).text(),
    child.status,
    listen(),
  ]);
  signal?.removeEventListener("abort", stop);
  signal?.throwIfAborted();
  if (code === 0) return stdout;
  throw new Failure(
    `${command} failed, with status ${code}`,
    ...words.slice(-LAST_WORDS).map(display),
  );
}

/**
 * The id (`sha256:` and 64 hexadecimal digits) of the image of the tools as they are now, as `podman` has
 * it for this user; null where it has none. Throws `Failure` where podman cannot be asked.
 */
export async function findImage(podman: string): Promise<string | null> {
  const found = await run("podman", podman, [
    ...["images", "--quiet", "--no-trunc", "--filter", `reference=${imageTag()}`],
  ]);
  return idIn(found);
}

/** The first image id in what podman printed, or null. */
function idIn(text: string): string | null {
  return /^sha256:[0-9a-f]{64}$/m.exec(text)?.[0] ?? null;
}

/**
 * Writes the image's root directory to the new file `tar`. Takes Debian's packages from where mmdebstrap
 * finds them. Each line of progress goes to `tell`. Throws `Failure`.
 */
export async function buildTar(
  tar: string,
  tell: (line: string) => void,
  signal?: AbortSignal,
): Promise<void> {
  await run("mmdebstrap", "mmdebstrap", debootstrapArgs(tar), { tell, signal });
  const folder = Deno.makeTempDirSync({ prefix: "boxmaker-image-" });
  try {
    Deno.writeTextFileSync(`${folder}/${STAMP}`, `${recipeHash()}\n`);
    const files = [
      { from: folder, name: STAMP, mode: "0644" },
      ...Object.entries(TOOLS).map(([name, mode]) => ({ from: IMAGE_SOURCES, name, mode })),
    ];
    for (const { from, name, mode } of files) {
      await run("tar", "tar", [
        ...["--append", `--file=${tar}`, "--owner=root:0", "--group=root:0", `--mode=${mode}`],
        ...[`--transform=s,^,./${TOOLS_FOLDER}/,`, `--directory=${from}`, name],
      ], { signal });
    }
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

/**
 * Gives podman the root directory in `tar`, which `buildTar` wrote here or elsewhere, and gives the image's
 * id. Throws `Failure`, also where `tar` holds other tools than those of now.
 */
export async function importTar(
  podman: string,
  tar: string,
  tell: (line: string) => void,
  signal?: AbortSignal,
): Promise<string> {
  const args = ["--extract", "--to-stdout", `--file=${tar}`, `./${TOOLS_FOLDER}/${STAMP}`];
  const stamp = await run("tar", "tar", args, { signal });
  if (stamp.trim() !== recipeHash()) {
    throw new Failure(`${tar} was built from another version of scripts/image/; build it again`);
  }
  const changes = IMAGE_ENV.flatMap((line) => ["--change", line]);
  const printed = await run("podman", podman, ["import", ...changes, tar, imageTag()], {
    tell,
    signal,
  });
  const id = idIn(printed);
  if (id === null) throw new Failure(`${podman} import did not say which image came of ${tar}`);
  return id;
}

/** Builds the image, a matter of a minute, and gives its id. As `buildTar` and `importTar`. */
export async function buildImage(
  podman: string,
  tell: (line: string) => void,
  signal?: AbortSignal,
): Promise<string> {
  // Asked before the long part, so that a podman that does not work is known at once.
  await findImage(podman);
  const folder = Deno.makeTempDirSync({ prefix: "boxmaker-image-" });
  try {
    const tar = `${folder}/root.tar`;
    await buildTar(tar, tell, signal);
    return await importTar(podman, tar, tell, signal);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}
