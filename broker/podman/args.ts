/**
 * A `RunSpec` into the command line of Podman: one container for one call, with exactly the mounts of the
 * specification's table (section 7) and no network. Pure: tests/broker/podman_args_test.ts holds the whole
 * list for each tool.
 */
import { display } from "../../proto/escape.ts";
import { assertNever, utf8, utf8Length } from "../../proto/text.ts";
import type { ToolArgs } from "../../proto/tools.ts";
import type { RunSpec } from "../runner.ts";

/** What `[runner]` of brokerd.toml says. */
export interface RunnerSettings {
  /** The program, an absolute path. */
  readonly podman: string;
  /** The OCI runtime, a name or an absolute path; null: Podman's own choice. */
  readonly ociRuntime: string | null;
  /** The id of the tools' image, `sha256:` and 64 hex digits. */
  readonly image: string;
  /** The user and group inside, `UID:GID`, where brokerd runs as root; an ordinary user stays itself. */
  readonly user: string;
  readonly memoryMb: number;
  readonly processes: number;
  /** How long a call may run, its start included, in milliseconds. */
  readonly timeoutMs: number;
  /** How much of a tool's output is kept, in bytes. */
  readonly outputBytes: number;
  /** How many calls run side by side. */
  readonly parallel: number;
}

/** What one run has of its own. */
export interface RunPlace {
  /** The container's name. */
  readonly name: string;
  /** The label's value: which broker's container it is. */
  readonly label: string;
  /** Whether brokerd runs as root. */
  readonly asRoot: boolean;
  /** The directory with the egress proxy's socket; null without egress. */
  readonly proxyDirectory: string | null;
  /** A file with certificates of the owner's own to trust, for `http_fetch`; null for none. */
  readonly caFile: string | null;
  /** The file with the system calls that a container may make: see seccomp.ts. */
  readonly seccomp: string;
}

/** What is run, or why nothing can be: then the message is for the model and the owner. */
export type CommandLine =
  | { readonly ok: true; readonly args: readonly string[]; readonly input: Uint8Array }
  | { readonly ok: false; readonly problem: string };

export const LABEL = "boxmaker";
/** Where the container finds the egress proxy's socket, and the owner's certificates. */
const PROXY_PLACE = "/run/boxmaker";
const CA_PLACE = "/run/boxmaker-ca.pem";
/** The first program in the image. */
const TOOL = "/usr/lib/boxmaker/tool";
/** The size of /tmp inside, in MiB. */
const TMP_MB = 64;
/** No file grows larger than this in a container, in bytes: 256 MiB. */
const FILE_BYTES = 256 * 1024 * 1024;
/** One argument of a program holds at most this many bytes on Linux, the NUL at its end not counted. */
const MAX_ARGUMENT_BYTES = 128 * 1024 - 1;
/** How much later than brokerd the container's own supervisor ends it, in seconds: brokerd may have died. */
const GRACE_S = 10;

/** What the tools themselves and the kernel's files stand on: nothing is mounted there, above it or in it. */
const TAKEN = [
  ...["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr/bin", "/usr/sbin", "/usr/lib"],
  ...["/usr/lib32", "/usr/lib64", "/usr/libx32", "/proc", "/sys", "/dev", PROXY_PLACE, CA_PLACE],
];

const isInside = (path: string, place: string) =>
  path === place || path.startsWith(place === "/" ? "/" : `${place}/`);

/** Why `path` cannot be mounted at itself, or null. Podman reads a mount as comma-separated fields. */
export function mountProblem(path: string): string | null {
  if (/[,"\p{Cc}]/u.test(path)) {
    return "has a comma, a quotation mark or a control character in it, which Podman cannot take";
  }
  const taken = TAKEN.find((place) => isInside(path, place) || isInside(place, path));
  return taken === undefined ? null : `cannot be mounted: the tools need ${taken} of their own`;
}

/** The command line of Podman for `spec`. */
export function podmanArgs(settings: RunnerSettings, spec: RunSpec, place: RunPlace): CommandLine {
  for (const { path } of spec.mounts) {
    const problem = mountProblem(path);
    if (problem !== null) {
      return { ok: false, problem: `the granted path ${display(path)} ${problem}` };
    }
  }
  const { words, input } = toolCommand(spec.args);
  if (words.some((word) => word.includes("\0"))) {
    return { ok: false, problem: "a command cannot hold the character NUL" };
  }
  if (words.some((word) => utf8Length(word) > MAX_ARGUMENT_BYTES)) {
    return { ok: false, problem: `a command holds at most ${MAX_ARGUMENT_BYTES} bytes` };
  }
  const tool = [...mounts(spec, place), settings.image, TOOL, ...words];
  const paths = spec.mounts.map(({ path }) => path);
  return { ok: true, input, args: [...containerArgs(settings, place, paths), ...tool] };
}

/** A command line that shows whether tools can run: with these settings it prints `TRIAL_OUTPUT`. */
export function trialArgs(settings: RunnerSettings, place: RunPlace): string[] {
  return [...containerArgs(settings, place, []), settings.image, TOOL, "shell", "/", "exit 0"];
}
export const TRIAL_OUTPUT = "SC";

/** All that comes before the mounts and the image. `paths`: what the tool is told of the mounts. */
function containerArgs(
  settings: RunnerSettings,
  place: RunPlace,
  paths: readonly string[],
): string[] {
  const { memoryMb, processes, outputBytes, timeoutMs } = settings;
  const seconds = Math.ceil(timeoutMs / 1000);
  return [
    ...commonArgs(settings),
    ...["run", "--rm", "--pull=never", "--interactive", "--log-driver=none"],
    ...[`--name=${place.name}`, `--label=${LABEL}=${place.label}`],
    ...["--network=none", "--no-hosts", "--http-proxy=false"],
    ...["--read-only", "--read-only-tmpfs=false", "--cap-drop=all"],
    // Labels of SELinux would have to be put on the owner's own files.
    ...["--security-opt=no-new-privileges", "--security-opt=label=disable"],
    `--security-opt=seccomp=${place.seccomp}`,
    place.asRoot ? `--user=${settings.user}` : "--userns=keep-id",
    ...[`--memory=${memoryMb}m`, `--memory-swap=${memoryMb}m`, `--pids-limit=${processes}`],
    ...limits(settings),
    `--timeout=${seconds + GRACE_S}`,
    ...["--env=LC_ALL=C.UTF-8", "--env=HOME=/tmp", `--env=BOXMAKER_LIMIT=${outputBytes}`],
    `--env=BOXMAKER_SECONDS=${seconds}`,
    `--env=BOXMAKER_MOUNTS=${paths.join("\n")}`,
  ];
}

/** What every command of Podman begins with. */
export function commonArgs({ ociRuntime }: RunnerSettings): string[] {
  return ["--log-level=error", ...ociRuntime === null ? [] : [`--runtime=${ociRuntime}`]];
}

/**
 * The limits of the kernel beside those of control groups, which an ordinary user does not have
 * everywhere. Podman's own defaults are more than some runtimes may set. Processes are counted for all
 * containers of the user together.
 */
function limits({ memoryMb, processes, parallel }: RunnerSettings): string[] {
  const values = {
    core: 0,
    // The OCI runtime is under this limit too, and needs some 80 MiB for a moment.
    data: Math.max(memoryMb, 128) * 1024 * 1024,
    fsize: FILE_BYTES,
    nofile: 1024,
    nproc: processes * parallel,
  };
  return Object.entries(values).map(([name, value]) => `--ulimit=${name}=${value}:${value}`);
}

/** `/tmp`, the mounts of the specification, and what the egress proxy needs. */
function mounts(spec: RunSpec, { proxyDirectory, caFile }: RunPlace): string[] {
  const bind = (source: string, path: string, writable: boolean) =>
    `--mount=type=bind,source=${source},destination=${path},ro=${!writable},nosuid,nodev,` +
    "bind-propagation=private";
  const granted = spec.mounts.map(({ path, writable }) => bind(path, path, writable));
  const tmp = spec.mounts.some(({ path }) => path === "/tmp")
    ? []
    : [`--tmpfs=/tmp:rw,nosuid,nodev,mode=1777,size=${TMP_MB}m`];
  if (proxyDirectory === null) return [...tmp, ...granted];
  const ca = caFile === null
    ? []
    : [bind(caFile, CA_PLACE, false), `--env=BOXMAKER_CA=${CA_PLACE}`];
  return [...tmp, ...granted, bind(proxyDirectory, PROXY_PLACE, false), ...ca];
}

/** The tool with its arguments, and what it reads. */
function toolCommand(
  args: ToolArgs,
): { readonly words: readonly string[]; readonly input: Uint8Array } {
  const nothing = new Uint8Array();
  switch (args.tool) {
    case "read_file":
      return { words: ["read_file", args.path], input: nothing };
    case "write_file": {
      const input = utf8(args.content);
      return { words: ["write_file", args.path, String(input.length)], input };
    }
    case "shell":
      return { words: ["shell", args.cwd ?? "", args.command], input: nothing };
    case "http_fetch":
      return { words: ["http_fetch", args.url], input: nothing };
    default:
      return assertNever(args);
  }
}
