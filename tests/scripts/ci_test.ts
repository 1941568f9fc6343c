/** `.ci/run`: it ends with the count and keeps the status, whatever stands between. */
import assert from "node:assert/strict";
import { ROOT, TempDir } from "../support/scripts.ts";

/** All that it looks for. */
const TOOLS = [
  ...[
    "strace",
    "script",
    "ip",
    "podman",
    "runc",
    "newuidmap",
    "passt",
    "slirp4netns",
    "mmdebstrap",
    "chromium",
    "zsh",
    "fish",
    "groff",
    "mandoc",
  ],
];

/** Runs it with an `npx` and an `apt-get` of the test's, and the programs of `tools` besides. */
async function runCi(npx: string, { apt = "exit 1", tools = TOOLS } = {}) {
  using place = new TempDir();
  const bin = `${place.path}/bin`;
  const program = (name: string, content: string) => {
    Deno.chmodSync(place.write(`bin/${name}`, `#!/bin/sh\n${content}\n`), 0o755);
  };
  program("npx", npx);
  program("apt-get", `echo apt-get "$@"\n${apt}`);
  for (const tool of tools) program(tool, "exit 0");
  for (const tool of ["dirname", "tee", "mktemp", "rm", "tail", "grep", "cat"]) {
    const [folder] = ["/usr/bin", "/bin"].filter((folder) => {
      try {
        return Deno.statSync(`${folder}/${tool}`).isFile;
      } catch {
        return false;
      }
    });
    Deno.symlinkSync(`${folder}/${tool}`, `${bin}/${tool}`);
  }
  const { code, stdout } = await new Deno.Command("/bin/bash", {
    args: [`${ROOT}/.ci/run`],
    cwd: place.path,
    env: { PATH: bin, CI: "" },
    stdin: "null",
  }).output();
  const lines = new TextDecoder().decode(stdout).trimEnd().split("\n");
  return { code, lines, last: lines.at(-1) };
}

Deno.test("it runs the one task with CI=true and no input, and the count is its last line", async () => {
  const { code, lines } = await runCi(
    'echo "$@"; echo "CI=$CI in $PWD"; cat; [ "$4" = image ] || echo "12 passed, 0 failed"',
  );
  assert.equal(code, 0);
  assert.deepEqual(lines, [
    "--yes deno@2.9.6 task image",
    `CI= in ${ROOT}`,
    "--yes deno@2.9.6 task test",
    `CI=true in ${ROOT}`,
    "12 passed, 0 failed",
  ]);
});

Deno.test("a failure keeps its status, and the count is last even where something follows it", async () => {
  const failed = await runCi(
    '[ "$4" = image ] && exit; echo "11 passed, 1 failed"; echo "npm notice" >&2; exit 7',
  );
  assert.deepEqual([failed.code, failed.last], [7, "11 passed, 1 failed"]);
});

Deno.test("a run that breaks off before it has counted counts as failed", async () => {
  for (const status of [0, 3]) {
    const broken = await runCi(`[ "$4" = image ] && exit; echo "half of it"; exit ${status}`);
    assert.deepEqual([broken.code, broken.last], [1, "0 passed, 1 failed"]);
  }
});

Deno.test("an image that cannot be built counts as failed", async () => {
  const without = await runCi('[ "$4" = image ] && exit 1; echo "1 passed, 0 failed"');
  assert.deepEqual([without.code, without.last], [1, "0 passed, 1 failed"]);
});

Deno.test("it installs what is missing, and nothing else", async () => {
  const npx = '[ "$4" = image ] || echo "1 passed, 0 failed"';
  const without = (...missing: string[]) => TOOLS.filter((tool) => !missing.includes(tool));
  const { lines } = await runCi(npx, { apt: "exit 0", tools: without("strace") });
  assert.deepEqual(lines, [
    "apt-get update",
    "apt-get install --yes --no-install-recommends strace",
    "1 passed, 0 failed",
  ]);
  assert.deepEqual((await runCi(npx)).lines, ["1 passed, 0 failed"]);
  // Debian has newuidmap in a package of another name.
  const packages = await runCi(npx, { apt: "exit 0", tools: without("newuidmap") });
  assert.match(packages.lines[1] ?? "", / uidmap$/);
  const refused = await runCi(npx, { tools: without("script") });
  assert.deepEqual([refused.code, refused.last], [1, "0 passed, 1 failed"]);
});
