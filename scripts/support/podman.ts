/** Whether tools can run on this machine, and what brokerd must be told for that. */
import { readRunner } from "../../broker/config.ts";
import { type RunPlace, TRIAL_OUTPUT, trialArgs } from "../../broker/podman/args.ts";
import { podmanSays } from "../../broker/podman/container.ts";
import { seccompProfile } from "../../broker/podman/seccomp.ts";
import { display } from "../../proto/escape.ts";
import { Failure } from "./cli.ts";
import { buildImage, findImage } from "./image.ts";

/** What Debian calls all that the tools need. */
export const DEBIAN_PACKAGES = "podman runc uidmap passt slirp4netns mmdebstrap";

/** A `[runner]` table of brokerd.toml. */
export interface RunnerTable {
  readonly runtime: "podman";
  readonly podman: string;
  readonly image: string;
  readonly oci_runtime?: string;
}

export type RunnerFound =
  | { readonly ok: true; readonly runner: RunnerTable }
  /** Why no tool can run here, in lines for the owner. */
  | { readonly ok: false; readonly why: readonly string[] };

/** The OCI runtimes to try: Podman's own choice first. */
const OCI_RUNTIMES = [undefined, "runc"] as const;

/**
 * Looks for Podman and the tools' image, which it builds where it is not there yet (`tell` hears of that), and
 * runs one container to see whether it can. Takes a third of a second, with building a minute. `signal` ends
 * the building.
 */
export async function findRunner(
  tell: (line: string) => void,
  signal?: AbortSignal,
): Promise<RunnerFound> {
  const podman = onPath("podman");
  if (podman === null) {
    return {
      ok: false,
      why: ["podman is not installed", `on Debian: apt install ${DEBIAN_PACKAGES}`],
    };
  }
  let image: string;
  try {
    const found = await findImage(podman);
    if (found === null) {
      tell("building the image of the tools from Debian's packages, which takes a minute");
    }
    image = found ?? await buildImage(podman, () => {}, signal);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return { ok: false, why: error.lines };
  }
  const why: string[] = [];
  for (const runtime of OCI_RUNTIMES) {
    const runner: RunnerTable = {
      ...{ runtime: "podman", podman, image } as const,
      ...runtime === undefined ? {} : { oci_runtime: runtime },
    };
    const problem = await tryOut(runner);
    if (problem === null) return { ok: true, runner };
    why.push(`${runtime ?? "podman's own OCI runtime"}: ${problem}`);
  }
  return { ok: false, why: ["podman cannot run a container", ...why] };
}

/**
 * The `[runner]` table for a script's run, with word of it to `tell`; empty where no tool can run, or none is
 * wanted. `asked`: ends the search, and is then the answer.
 */
export async function runnerTables(
  wanted: boolean,
  tell: (...lines: readonly string[]) => void,
  asked: Promise<number>,
): Promise<Record<string, object> | number> {
  const stop = new AbortController();
  asked.then(() => stop.abort());
  const found = wanted
    ? await Promise.race([findRunner((line) => tell(display(line)), stop.signal), asked])
    : { ok: false as const, why: ["--no-tools was given"] };
  if (typeof found === "number") return found;
  if (found.ok) {
    tell("tools run in containers of podman");
    return { runner: found.runner };
  }
  const [first = "", ...more] = found.why.map(display);
  tell(`no tool runs here, and calls that may run fail: ${first}`, ...more);
  return {};
}

/** The program `name` on the path of this process, or null. */
export function onPath(name: string): string | null {
  for (const directory of (Deno.env.get("PATH") ?? "").split(":")) {
    const path = `${directory}/${name}`;
    try {
      if (directory.startsWith("/") && Deno.statSync(path).isFile) return path;
    } catch {
      // not there
    }
  }
  return null;
}

/** Why a container with the settings of `runner` does not run, or null where it does. */
async function tryOut(runner: RunnerTable): Promise<string | null> {
  const settings = readRunner(runner);
  if (settings === null) throw new Error("a runner of Podman's has settings");
  const seccomp = Deno.makeTempFileSync({ prefix: "boxmaker-seccomp-" });
  Deno.writeTextFileSync(seccomp, seccompProfile(Deno.build.arch));
  const place: RunPlace = {
    name: `boxmaker-trial-${crypto.randomUUID()}`,
    label: "trial",
    asRoot: Deno.uid() === 0,
    proxyDirectory: null,
    caFile: null,
    seccomp,
  };
  const { code, stdout, stderr } = await podmanSays(runner.podman, trialArgs(settings, place))
    .finally(() => Deno.removeSync(seccomp));
  if (code === 0 && stdout === TRIAL_OUTPUT) return null;
  return stderr.trim().split("\n").at(-1) ?? `status ${code}`;
}
