/** `deno task image`: how the image is built, imported and refused, and the recipe of the Containerfile. */
import assert from "node:assert/strict";
import {
  findImage,
  IMAGE_ENV,
  IMAGE_SOURCES,
  imageTag,
  TOOLS,
} from "../../scripts/support/image.ts";
import { toolImage } from "../support/image.ts";
import { toolTest } from "../support/containers.ts";
import { Followed, noneLeftWith, ROOT, runScript, TempDir } from "../support/scripts.ts";

/** A program `name` in `place`, of the shell. */
function program(place: TempDir, name: string, content: string): string {
  const path = place.write(name, `#!/bin/sh\n${content}\n`);
  Deno.chmodSync(path, 0o755);
  return path;
}

/** The real podman with an empty store of its own. */
function emptyPodman(place: TempDir): string {
  const { path } = place;
  const store = `--root='${path}/store' --runroot='${path}/run' --storage-driver=vfs`;
  return program(place, "podman", `exec podman ${store} "$@"`);
}

/** Runs openly what `args` say and expects it to work. */
function must(command: string, ...args: string[]): void {
  const { code, stderr } = new Deno.Command(command, { args }).outputSync();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
}

toolTest("it prints the line for brokerd.toml of an image that is there", async () => {
  const id = await toolImage();
  const { code, stdout, stderr } = await runScript("image.ts");
  assert.deepEqual([code, stdout], [0, `image = "${id}"\n`]);
  assert.equal(stderr, `image: ${imageTag()} is there already\n`);
  assert.match(id, /^sha256:[0-9a-f]{64}$/);
  assert.match(imageTag(), /^localhost\/boxmaker-tools:[0-9a-f]{16}$/);
});

toolTest("what --to writes --from imports, and nothing else", async () => {
  using place = new TempDir();
  const podman = emptyPodman(place);
  const tar = `${place.path}/root.tar`;
  assert.equal(await findImage(podman), null);
  const built = await runScript("image.ts", ["--to", tar], { ms: 300_000 });
  assert.deepEqual([built.code, built.stdout], [0, ""], built.stderr);
  assert.match(built.stderr, /^image: I: success in /m);
  const imported = await runScript("image.ts", ["--podman", podman, "--from", tar]);
  assert.equal(imported.code, 0, imported.stderr);
  assert.equal(imported.stdout, `image = "${await findImage(podman)}"\n`);
  // The same with another stamp, as another version of the tools has it.
  const stamp = "usr/lib/boxmaker/recipe";
  place.write(`other/${stamp}`, "0123456789abcdef\n");
  const other = `${place.path}/other.tar`;
  must("tar", "--create", `--file=${other}`, `--directory=${place.path}/other`, `./${stamp}`);
  const refused = await runScript("image.ts", ["--podman", podman, "--from", other]);
  assert.deepEqual([refused.code, refused.stdout], [1, ""]);
  assert.equal(
    refused.stderr,
    `image: ${other} was built from another version of scripts/image/; build it again\n`,
  );
  const absent = await runScript("image.ts", ["--podman", podman, "--from", "/absent.tar"]);
  assert.equal(absent.code, 1);
  assert.match(absent.stderr, /^image: tar failed, with status 2\nimage: .*\/absent\.tar/);
});

Deno.test("a program that is missing or fails is said, with 1; wrong usage with 2", async () => {
  using place = new TempDir();
  const without = await runScript("image.ts", ["--podman", "/absent/podman"]);
  assert.equal(without.code, 1);
  assert.match(without.stderr, /^image: \/absent\/podman could not be started: .*$/m);
  assert.match(without.stderr, /^image: on Debian it comes with the package podman$/m);
  const podman = program(place, "bin/podman", "exit 0");
  const env = { PATH: `${place.path}/bin` };
  const args = ["--podman", podman];
  const noBootstrap = await runScript("image.ts", args, { env });
  assert.equal(noBootstrap.code, 1);
  assert.match(noBootstrap.stderr, /^image: on Debian it comes with the package mmdebstrap$/m);
  program(place, "bin/mmdebstrap", "echo 'E: no \x1b[31mmirror' >&2; exit 25");
  const failed = await runScript("image.ts", args, { env });
  assert.deepEqual([failed.code, failed.stdout], [1, ""]);
  assert.match(failed.stderr, /^image: mmdebstrap failed, with status 25$/m);
  assert.match(failed.stderr, /^image: E: no .*mirror$/m);
  assert(!failed.stderr.includes("\x1b"));
  const broken = program(place, "broken", "echo 'cannot open the store' >&2; exit 125");
  const unable = await runScript("image.ts", ["--podman", broken]);
  assert.equal(unable.code, 1);
  assert.match(unable.stderr, /failed, with status 125\nimage: cannot open the store$/m);
  for (const args of [["--nonsense"], ["x"], ["--to", "x", "--from", "y"]]) {
    assert.equal((await runScript("image.ts", args)).code, 2, args.join(" "));
  }
  const help = await runScript("image.ts", ["--help"]);
  assert.deepEqual([help.code, help.stdout.startsWith("image builds the image")], [0, true]);
});

toolTest("asked to end, it stops what it started and leaves nothing", async () => {
  using place = new TempDir();
  Deno.mkdirSync(`${place.path}/tmp`);
  // mmdebstrap works there too, under a name of its own user in rootless use.
  Deno.chmodSync(place.path, 0o755);
  Deno.chmodSync(`${place.path}/tmp`, 0o777);
  const command = [Deno.execPath(), "run", "--quiet", "--frozen", "-A", `${ROOT}/scripts/image.ts`];
  const podman = emptyPodman(place);
  await using image = Followed.start(
    [command[0] ?? "", ...command.slice(1), "--again", "--podman", podman],
    { env: { TMPDIR: `${place.path}/tmp` } },
  );
  await image.shows("image: I: running apt-get update");
  image.signal("SIGTERM");
  assert.equal(await image.ends(), 143);
  await noneLeftWith(`${place.path}/tmp`);
  assert.deepEqual([...Deno.readDirSync(`${place.path}/tmp`)], []);
});

Deno.test("the Containerfile makes the same image of the same files", () => {
  const file = Deno.readTextFileSync(`${IMAGE_SOURCES}/Containerfile`);
  const lines = file.replaceAll("\\\n", " ").split("\n");
  const copied = lines.flatMap((line) => {
    const [, mode, names] =
      /^COPY --chown=0:0 --chmod=(\d+) ([\w ]+) \/usr\/lib\/boxmaker\/$/.exec(line) ?? [];
    return names === undefined ? [] : names.split(" ").map((name) => [name, mode]);
  });
  assert.deepEqual(Object.fromEntries(copied), TOOLS);
  assert.equal(lines.filter((line) => line.startsWith("COPY")).length, 2);
  assert.deepEqual(lines.filter((line) => line.startsWith("ENV")), IMAGE_ENV);
  // The packages, and what follows them, are read from the same files.
  const [run = "", ...more] = lines.filter((line) => line.startsWith("RUN"));
  assert.deepEqual(more, []);
  assert.match(run, /--mount=type=bind,source=\.,target=\/recipe /);
  assert.match(
    run,
    /xargs --arg-file=\/recipe\/packages +apt-get install .*&& +sh \/recipe\/finish ""$/,
  );
  assert.deepEqual(
    [...Deno.readDirSync(IMAGE_SOURCES)].map(({ name }) => name).sort(),
    [...Object.keys(TOOLS), "Containerfile", "finish", "packages"].sort(),
  );
});
