/** The tasks of deno.json: pinned, complete, and good for a machine that has Node and nothing else. */
import assert from "node:assert/strict";
import * as z from "zod";
import { flagsFor } from "../../scripts/support/roles.ts";
import { ROOT, TempDir } from "../support/scripts.ts";

const { tasks } = z.object({ tasks: z.record(z.string(), z.string()) })
  .parse(JSON.parse(Deno.readTextFileSync(`${ROOT}/deno.json`)));

Deno.test("every task fills the cache first, frozen, and then runs a script, frozen", () => {
  const needed = ["permissions", "broker", "loop", "ctl", "up", "demo", "compile", "test"];
  for (const name of [...needed, "test:long", "device-check", "check-runbook"]) {
    assert.match(
      tasks[name] ?? "",
      /^deno install --frozen --quiet && ([A-Z_]+=1 )?deno run --frozen --cached-only (--[\w=,-]+ )+scripts\/\w+\.ts/,
      name,
    );
  }
  for (const [name, command] of Object.entries(tasks)) {
    const [, script = ""] = /(scripts\/\S+\.ts)/.exec(command) ?? [];
    assert(Deno.statSync(`${ROOT}/${script}`).isFile, `${name} runs ${script}`);
  }
});

const HOME = "/srv/home";

/** `deno task NAME` in `cwd` with an empty PATH and the modules cached in `cache` only. */
async function runTask(cwd: string, cache: string, ...args: string[]) {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["task", "--quiet", ...args],
    cwd,
    env: { PATH: "/nonexistent", DENO_DIR: cache, NO_COLOR: "1", BOXMAKER_HOME: HOME },
  }).output();
  const text = new TextDecoder();
  return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
}

Deno.test("with no deno on PATH and nothing cached, tasks run from any folder of the project", async () => {
  using place = new TempDir();
  // The locked program runs from the cache alone: it works only because the task has filled it.
  const version = await runTask(`${ROOT}/docs/samples`, `${place.path}/a`, "ctl", "--version");
  assert.deepEqual(version, { code: 0, stdout: "bxctl m3a (deno 2.9.6)\n", stderr: "" });
  const flags = await runTask(`${ROOT}/proto`, `${place.path}/b`, "permissions", "loop");
  assert.equal(flags.code, 0);
  assert.equal(flags.stderr, "");
  const printed = flagsFor("loopd", {}, HOME);
  assert.deepEqual(flags.stdout.split("\n"), [...printed, ""]);
});

Deno.test("what a task is given goes to the script, spaces and all", async () => {
  using place = new TempDir();
  const audit = `${place.path}/my home/audit`;
  Deno.mkdirSync(audit, { recursive: true });
  const home = `${place.path}/my home`;
  const verify = await runTask(ROOT, `${place.path}/c`, "ctl", "audit", "verify", "--home", home);
  assert.deepEqual([verify.code, verify.stderr], [0, ""]);
  assert.equal(verify.stdout, "audit: ok, 0 records, head -\nnot anchored\n");
});

Deno.test("without their cache the programs do not start, whatever the registry has", async () => {
  using place = new TempDir();
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--cached-only", "--frozen", `${ROOT}/ctl/main.ts`, "--version"],
    env: { DENO_DIR: `${place.path}/empty`, NO_COLOR: "1" },
  }).output();
  assert.notEqual(code, 0);
  assert.match(new TextDecoder().decode(stderr), /cached-only|not.*cached/i);
});

Deno.test("the wrappers in scripts/ are what the tasks are", async () => {
  for (const name of ["check-runbook", "device-check"]) {
    const file = `${ROOT}/scripts/${name}`;
    assert.equal((Deno.statSync(file).mode ?? 0) & 0o111, 0o111, `${name} can be run`);
    const { code, stdout } = await new Deno.Command(file, { args: ["--help"], cwd: "/" }).output();
    assert.equal(code, 0);
    assert(new TextDecoder().decode(stdout).includes(`usage: scripts/${name}`));
  }
});
