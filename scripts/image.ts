/** `deno task image`: the image in which the tools run, built and given to podman. */
import { say } from "../proto/io/log.ts";
import { display } from "../proto/escape.ts";
import { readArgs, runScript, UsageError } from "./support/cli.ts";
import { Ending } from "./support/ending.ts";
import { buildImage, buildTar, findImage, imageTag, importTar } from "./support/image.ts";

const HELP = `image builds the image in which the tools run, from Debian's packages

usage: deno task image [--podman PATH] [--from FILE.tar] [--again]
       deno task image --to FILE.tar

  --podman PATH     podman, as [runner] podman in brokerd.toml names it (default podman)
  --from FILE.tar   import what --to wrote, here or on another machine
  --to FILE.tar     write the image's root directory there and import nothing
  --again           build it although podman has it: with the newest packages
  --help            this text

Prints the line for [runner] in brokerd.toml. It is for the user who runs it: podman keeps the images of
each user apart. Needs the Debian packages podman and mmdebstrap; Debian's packages come from the mirror
that mmdebstrap takes. scripts/image/Containerfile is for owners who build by a registry.

exit status: 0 built, 1 it cannot be built, 2 wrong usage`;

function tell(line: string): void {
  say("image", display(line));
}

async function build(args: string[], signal: AbortSignal): Promise<number> {
  const { values: { podman, from, to, again } } = readArgs({
    args,
    options: {
      podman: { type: "string", default: "podman" },
      from: { type: "string" },
      to: { type: "string" },
      again: { type: "boolean", default: false },
    },
  });
  if (to !== undefined) {
    if (from !== undefined || again) throw new UsageError("--to goes with no other option");
    await buildTar(to, tell, signal);
    tell(`${to} is written`);
    return 0;
  }
  let id = from === undefined && !again ? await findImage(podman) : null;
  if (id !== null) tell(`${imageTag()} is there already`);
  else if (from === undefined) id = await buildImage(podman, tell, signal);
  else id = await importTar(podman, from, tell, signal);
  console.log(`image = "${id}"`);
  return 0;
}

/** Builds, or stops with what it started when it is asked to end. */
async function main(args: string[]): Promise<number> {
  using ending = new Ending();
  const stop = new AbortController();
  let status: number | null = null;
  void ending.asked.then((asked) => {
    status = asked;
    stop.abort();
  });
  try {
    return await build(args, stop.signal);
  } catch (error) {
    if (status === null) throw error;
    return status;
  }
}

if (import.meta.main) await runScript("image", HELP, Deno.args, main);
