/** `deno task broker`, `loop` and `ctl`: the roles as they are, behind their locks, whatever the folder. */
import assert from "node:assert/strict";
import { homeAt, prepareHome } from "../../scripts/support/home.ts";
import { flagsOfRun } from "../../scripts/launch.ts";
import { ALWAYS } from "../../proto/locks.ts";
import { grantFile } from "../support/grants.ts";
import { flagsFor } from "../../scripts/support/roles.ts";
import {
  Followed,
  noneLeftWith,
  processesWith,
  ROOT,
  runScript,
  TempDir,
} from "../support/scripts.ts";

const DENO = Deno.execPath();
const LAUNCH = [DENO, "run", "--quiet", "-A", `${ROOT}/scripts/launch.ts`] as const;

Deno.test("the flags come from the places that the arguments name", () => {
  using place = new TempDir();
  const home = "/srv/home";
  const broker = place.write("b.toml", '[paths]\ngrants = "/srv/g"\n');
  const loop = place.write("l.toml", '[llama]\nurl = "http://m:1"\n');
  const ctl = place.write("c.toml", '[paths]\nhome = "/srv/c"\n');
  assert.deepEqual(
    flagsOfRun("brokerd", ["serve", "--accept-break", "--config", broker], home),
    flagsFor("brokerd", { config: broker }, home),
  );
  assert.deepEqual(
    flagsOfRun("loopd", ["serve", `--config=${loop}`], home),
    flagsFor("loopd", { config: loop }, home),
  );
  assert.deepEqual(
    flagsOfRun("bxctl", ["chat", "--config", ctl, "--say=--home=/x", "--loop-socket=/srv/l"], home),
    flagsFor("bxctl", { "config": ctl, "loop-socket": "/srv/l" }, home),
  );
  // Of bxctl's commands those that read grants have them in their flags, and no other.
  const test = ["grants", "test", "--tool=shell", "--arguments={}"];
  assert.deepEqual(
    flagsOfRun("bxctl", test, home),
    flagsFor("bxctl", {}, home, { readsGrants: true }),
  );
  assert.deepEqual(
    flagsOfRun("bxctl", [...test, "--grants=/srv/g"], home),
    flagsFor("bxctl", { grants: "/srv/g" }, home, { readsGrants: true }),
  );
  assert.ok(flagsFor("bxctl", {}, home, { readsGrants: true }).join().includes(`,${home}/grants,`));
  assert.deepEqual(
    flagsOfRun("bxctl", ["audit", "report", "--out=/srv/page.html"], home),
    flagsFor("bxctl", { out: "/srv/page.html" }, home, { readsGrants: true }),
  );
  assert.deepEqual(
    flagsOfRun("bxctl", ["doctor"], home),
    flagsFor("bxctl", {}, home, { examines: true }),
  );
  assert.deepEqual(flagsOfRun("bxctl", ["status"], home), flagsFor("bxctl", {}, home));
  assert.ok(!flagsOfRun("bxctl", ["approvals"], home).join().includes("grants"));
  assert.deepEqual(flagsOfRun("brokerd", ["serve"], home), flagsFor("brokerd", {}, home));
});

Deno.test("grants check sees which paths of the grants are missing, and gets nothing to read by it", () => {
  using place = new TempDir();
  const home = `${place.path}/home`;
  Deno.mkdirSync(`${home}/grants`, { recursive: true });
  Deno.mkdirSync(`${place.path}/there`);
  const named = ["there", "gone", "home/loop/gone"].map((name) => `${place.path}/${name}`);
  const grant = { tool: "read_file", constraints: { paths: named } };
  place.write("home/grants/a.toml", grantFile(grant));
  const usual = flagsFor("bxctl", {}, home, { readsGrants: true });
  const flags = flagsOfRun("bxctl", ["grants", "check"], home);
  assert.deepEqual(
    flags.map((flag) => flag.replace(`,${place.path}/gone`, "")),
    usual,
  );
  assert.notDeepEqual(flags, usual);
  assert.deepEqual(
    flagsOfRun("bxctl", ["grants", "replay", `--grants=${home}/grants`], home),
    usual,
  );
});

Deno.test("what only prints words gets no permission at all", () => {
  assert.deepEqual(flagsOfRun("brokerd", ["serve", "--help"], "/a,b"), ALWAYS);
  for (const args of [[], ["--help"], ["chat", "--help"], ["--version"], ["chat", "--home", "x"]]) {
    assert.deepEqual(flagsOfRun("bxctl", args, "/a,b"), ALWAYS);
  }
});

Deno.test("arguments, streams and exit status are the role's own", async () => {
  using place = new TempDir();
  const env = { BOXMAKER_HOME: place.path };
  const run = (...args: string[]) => runScript("launch.ts", args, { env, cwd: `${ROOT}/docs` });
  const help = await run("broker", "serve", "--help");
  assert.equal(help.code, 0);
  assert(help.stdout.startsWith("brokerd decides each tool call"));
  const usage = await run("loop", "serve", "--colour");
  assert.equal(usage.code, 2);
  assert(usage.stderr.endsWith("loopd: see loopd --help\n"));
  assert.equal((await run("ctl")).code, 2);
  assert.equal((await run("ctl", "--home", "relative", "approvals")).code, 2);
  const absent = await run("ctl", "audit", "verify");
  assert.equal(absent.code, 1);
  assert(absent.stdout.startsWith("audit:0: cannot be read"), absent.stdout);
  const elsewhere = await runScript("launch.ts", ["ctl", "--version"], { env, cwd: "/" });
  assert.deepEqual([elsewhere.code, elsewhere.stdout], [0, "bxctl m3a (deno 2.9.6)\n"]);
  const own = await run("--help");
  assert.equal(own.code, 0);
  assert(own.stdout.startsWith("launch starts a role"));
  assert.equal((await run("other")).code, 2);
});

Deno.test("a configuration that cannot be used is said in the role's name, with 1", async () => {
  using place = new TempDir();
  const config = place.write("x.toml", "[paths]\nhom = 1\n");
  const cases = { broker: "brokerd", loop: "loopd" } as const;
  for (const [name, program] of Object.entries(cases)) {
    const { code, stdout, stderr } = await runScript("launch.ts", [
      ...[name, "serve", "--config", config],
    ]);
    assert.equal(code, 1);
    assert.equal(stdout, "");
    assert.equal(
      stderr,
      `${program}: ${config}:2: unknown key paths.hom\n` +
        `${program}: see docs/runbook.md#config-invalid\n`,
    );
  }
});

Deno.test("SIGTERM and SIGINT are passed on, and the role ends as by itself", async () => {
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    using place = new TempDir();
    const path = `${place.path}/my home`;
    prepareHome(path);
    const options = { env: { BOXMAKER_HOME: path }, cwd: `${ROOT}/proto/io` };
    await using broker = Followed.start([...LAUNCH, "broker", "serve"], options);
    await broker.shows("brokerd: ready, serving ");
    // With its flags, in which a space is no end of a word.
    const { stdout } = await runScript("permissions.ts", ["brokerd"], options);
    const [{ commandLine = "" } = {}] = processesWith(path);
    assert(commandLine.includes(` run --quiet ${stdout.trimEnd().replaceAll("\n", " ")} `));
    broker.signal(signal);
    assert.equal(await broker.ends(), 0);
    assert(broker.output.endsWith("brokerd: stopped\n"), broker.output);
    await noneLeftWith(path);
    assert.throws(() => Deno.lstatSync(homeAt(path).layout.adminSocket), Deno.errors.NotFound);
  }
});

/** Starts a program by the launcher's function; that counts the signals of a second, and exits with them. */
function countsSignals(place: TempDir): [string, ...string[]] {
  const counting = place.write(
    "counting.ts",
    `let count = 0;
    Deno.addSignalListener("SIGINT", () => {
      count += 1;
      setTimeout(() => Deno.exit(100 + count), 1000);
    });
    // Once it is at rest: two signals that come while it is busy are one.
    setTimeout(() => console.log("counting"), 500);
    setInterval(() => {}, 1000);`,
  );
  const driver = place.write(
    "driver.ts",
    `import { runPassingSignals } from "${new URL("../../scripts/launch.ts", import.meta.url)}";
    Deno.exit(await runPassingSignals(["run", "--allow-all", "${counting}"]));`,
  );
  return [DENO, "run", "--quiet", "--config", `${ROOT}/deno.json`, "--allow-all", driver];
}

Deno.test("a Ctrl-C on a terminal reaches the role once, a SIGINT elsewhere once too", async () => {
  using place = new TempDir();
  {
    await using terminal = Followed.onTerminal(countsSignals(place));
    await terminal.shows("counting");
    await terminal.type("\x03");
    assert.equal(await terminal.ends(), 101);
  }
  await using pipes = Followed.start(countsSignals(place));
  await pipes.shows("counting");
  pipes.signal("SIGINT");
  assert.equal(await pipes.ends(), 101);
});

Deno.test("a role that a signal ends gives 128 and the signal's number", async () => {
  using place = new TempDir();
  prepareHome(place.path);
  const options = { env: { BOXMAKER_HOME: place.path } };
  await using broker = Followed.start([...LAUNCH, "broker", "serve"], options);
  await broker.shows("brokerd: ready, serving ");
  const [role] = processesWith(place.path);
  assert(role !== undefined);
  Deno.kill(role.pid, "SIGKILL");
  assert.equal(await broker.ends(), 137);
});
