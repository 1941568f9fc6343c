/** `deno task demo` and `scripts/device-check`, whole, with the real programs and the stand-in. */
import assert from "node:assert/strict";
import { toolTest } from "../support/containers.ts";
import { Followed, noneLeftWith, ROOT, runScript, TempDir } from "../support/scripts.ts";

/** A folder for temporary homes, to see what is left in it. */
function tempEnv(place: TempDir): Record<string, string> {
  return { TMPDIR: place.path };
}

const left = ({ path }: TempDir) => [...Deno.readDirSync(path)].map(({ name }) => name);

toolTest("the demo comes out as it must, step by step, and leaves nothing", async () => {
  using place = new TempDir();
  const { code, stdout, stderr } = await runScript("demo.ts", [], { env: tempEnv(place) });
  assert.equal(code, 0, stdout + stderr);
  assert.equal(stdout.split("\n    as it must be\n").length, 10);
  assert.equal(stdout.includes("NOT AS"), false);
  const expected = [
    "[denied] read_file: Denied: no grant allows this call.",
    "log 0: decision on read_file: denied no_grant, grant -",
    "log 1: decision on write_file: allowed, grant drafts-write",
    "[approval 3] approved 3: runs",
    "[result] read_file: # Shopping",
    "[approval 6] refused 6",
    "[denied] read_file: Denied: the owner refused this call.",
    '[result] shell: {"exit":0,"stdout":"65534\\n","stderr":""}',
    '[result] http_fetch: {"status":"HTTP/2 200","headers":{"content-type":"text/plain",',
    "log 12: result: result",
    "[approval 13] left unanswered",
    "log 14: approval expired: denied approval_expired",
    "audit: ok, 15 records, head ",
    ".jsonl:2: prev is not the hash of the line before it",
    "demo: all 9 steps came out as they must",
  ];
  for (const words of expected) assert(stdout.includes(words), words);
  assert.deepEqual(left(place), []);
  await noneLeftWith(place.path);
});

Deno.test("without tools the same decisions are made, and the calls fail", async () => {
  using place = new TempDir();
  const env = tempEnv(place);
  const { code, stdout, stderr } = await runScript("demo.ts", ["--no-tools"], { env });
  assert.equal(code, 0, stdout + stderr);
  assert(stdout.includes("[failed] read_file: the runner arrives in M3b"), stdout);
  assert(stdout.includes("demo: all 8 steps came out as they must"), stdout);
  assert(stderr.startsWith("demo: no tool runs here, and calls that may run fail: "), stderr);
  await noneLeftWith(place.path);
});

Deno.test("a signal ends the demo, and nothing is left", async () => {
  using place = new TempDir();
  const demo = [Deno.execPath(), "run", "--quiet", "-A", `${ROOT}/scripts/demo.ts`] as const;
  await using running = Followed.start(demo, { env: tempEnv(place) });
  await running.shows("1. what no grant covers");
  running.signal("SIGTERM");
  assert.equal(await running.ends(), 143);
  assert.deepEqual(left(place), []);
  await noneLeftWith(place.path);
});

Deno.test("a step that comes out otherwise is named, with 1, and the home is kept", async () => {
  using place = new TempDir();
  const demo = [
    Deno.execPath(),
    "run",
    "--quiet",
    "-A",
    `${ROOT}/scripts/demo.ts`,
    "--no-tools",
  ] as const;
  await using running = Followed.start(demo, { env: tempEnv(place) });
  await running.shows("1. what no grant covers");
  // From the next call on nothing is allowed any more.
  const [home] = left(place);
  Deno.writeTextFileSync(`${place.path}/${home}/grants/bad.toml`, "nothing\n");
  assert.equal(await running.ends(), 1);
  const { output } = running;
  assert(output.includes("NOT AS IT MUST BE: the owner was not asked\n"), output);
  assert.match(output, /\ndemo: [3-6] of 8 steps did not come out as they must\n/);
  assert(output.endsWith(`demo: the home is kept: ${place.path}/${home}\n`), output);
  await noneLeftWith(place.path);
});

Deno.test("--keep keeps the home of the demo; wrong usage ends with 2", async () => {
  using place = new TempDir();
  const { code, stderr } = await runScript("demo.ts", ["--keep", "--no-tools"], {
    env: tempEnv(place),
  });
  assert.equal(code, 0);
  const [home] = left(place);
  assert(stderr.endsWith(`demo: the home is kept: ${place.path}/${home}\n`), stderr);
  assert(Deno.statSync(`${place.path}/${home}/audit`).isDirectory);
  assert.equal((await runScript("demo.ts", ["more"])).code, 2);
  assert((await runScript("demo.ts", ["--help"])).stdout.startsWith("demo plays"));
});

Deno.test("the device check holds with the stand-in, and leaves nothing", async () => {
  using place = new TempDir();
  const { code, stdout, stderr } = await runScript("device_check.ts", [], { env: tempEnv(place) });
  assert.equal(code, 0, stdout + stderr);
  assert.equal(stdout.split("\nok      ").length, 9);
  assert(stdout.endsWith("\ndevice-check: 8 hold, 0 do not\n"));
  assert.deepEqual(left(place), []);
  await noneLeftWith(place.path);
});

Deno.test("it fails with a model that asks for nothing, says what did not come, and keeps the home", async () => {
  using place = new TempDir();
  const args = ["--ask", "tell me a joke about PATH"];
  const { code, stdout, stderr } = await runScript("device_check.ts", args, {
    env: tempEnv(place),
  });
  assert.equal(code, 1);
  assert.match(stdout, /^FAILED {2}the approval block appears$/m);
  assert.match(stdout, /^ok {6}the audit log verifies$/m);
  assert.match(stdout, /^FAILED {2}it holds the decision, the approval and the result$/m);
  assert(stdout.endsWith("\ndevice-check: 2 hold, 6 do not\n"), stdout);
  const [home] = left(place);
  assert(stderr.endsWith(`device-check: the home is kept: ${place.path}/${home}\n`), stderr);
  await noneLeftWith(place.path);
});

Deno.test("it fails with a model server that is not there, and says what loopd says", async () => {
  using place = new TempDir();
  const args = ["--llama", "http://127.0.0.1:1"];
  const { code, stderr } = await runScript("device_check.ts", args, { env: tempEnv(place) });
  assert.equal(code, 1);
  assert.match(stderr, /^device-check: loopd has ended, with status 1; its last words:$/m);
  assert.match(stderr, /^device-check: loopd: see docs\/runbook\.md#loopd-selftest-failed$/m);
  await noneLeftWith(place.path);
});
