/** What `bxctl init` makes is what the real programs take, each under its own flags. */
import assert from "node:assert/strict";
import { lockOf as brokerLockOf, readBrokerConfig } from "../../broker/config.ts";
import { lockOf as loopLockOf, readLoopConfig } from "../../loop/config.ts";
import { DENIALS } from "../../loop/denials.ts";
import { denoFlags } from "../../proto/locks.ts";
import { checkSameHome, homeAt, prepareHome } from "../../scripts/support/home.ts";
import { runCtl } from "../../scripts/support/ctl.ts";
import { PROJECT } from "../../scripts/support/roles.ts";
import { Stack } from "../../scripts/support/stack.ts";
import { play, problemsOf, type Step } from "../../scripts/support/story.ts";
import { snapshot } from "../support/broker.ts";
import { noneLeftWith, runScript, TempDir } from "../support/scripts.ts";
import { parseUnit, untilReady, words } from "../support/units.ts";

async function madeIn(home: string): Promise<void> {
  const { code, stderr } = await runScript("launch.ts", ["ctl", "init", "--home", home]);
  assert.deepEqual([code, stderr], [0, ""]);
}

Deno.test("the daemons start on what init made; a call is let through, one is asked about, one denied", async () => {
  using place = new TempDir();
  await madeIn(`${place.path}/my home`);
  const made = snapshot(place.path);
  // As up does: it adds a place for what the daemons say, and no grant.
  const home = prepareHome(`${place.path}/my home`);
  const added = Object.keys(snapshot(place.path)).filter((path) => !(path in made));
  assert.deepEqual(added, [home.logs.slice(place.path.length)]);
  checkSameHome(home);
  const { brokerSocket } = readBrokerConfig(home.brokerConfig, undefined);
  assert.equal(readLoopConfig(home.loopConfig, undefined).brokerSocket, brokerSocket);
  // No tool runs here: a call that may run fails, and only such a call.
  const may = { status: "failed", content: "the runner arrives in M3b" };
  const STEPS: readonly Step[] = [
    {
      title: "let through",
      say: `write "${home.drafts}/b.md" a draft`,
      answer: null,
      tool: "write_file",
      result: may,
      records: ["decision on write_file: allowed, grant drafts-write", "result: failed"],
    },
    {
      title: "asked",
      say: `read ${home.notes}/a.md`,
      answer: "approve",
      tool: "read_file",
      result: may,
      records: [
        ...["decision on read_file: ask, grant notes-read", "approval approved: ask"],
        "result: failed",
      ],
    },
    {
      title: "denied",
      say: "run uname -a",
      answer: null,
      tool: "shell",
      result: { status: "denied", content: DENIALS.no_grant },
      records: ["decision on shell: denied no_grant, grant -"],
    },
  ];
  {
    await using stack = new Stack({ home, llama: null });
    await stack.start();
    for (const step of STEPS) {
      assert.deepEqual(problemsOf(step, await play(stack, step)), [], step.title);
    }
    // By the file alone, and nothing in it that may surprise.
    const config = `${home.path}/bxctl.toml`;
    const check = await runScript("launch.ts", ["ctl", "grants", "check", "--config", config]);
    assert.deepEqual(check, { code: 0, stdout: "grants: ok\n", stderr: "" });
    Deno.removeSync(`${home.layout.grants}/drafts-write.toml`);
    const outcome = await play(stack, STEPS[0] ?? assert.fail());
    assert.equal(outcome.result?.status, "denied");
    const verify = await runCtl(stack.places, "audit", "verify");
    assert.match(verify.stdout, /^audit: ok, 7 records, /);
  }
  await noneLeftWith(place.path);
});

Deno.test("the units start the daemons of the home with exactly their rows, in directories that are there", async () => {
  using place = new TempDir();
  const home = homeAt(`${place.path}/home`);
  await madeIn(home.path);
  const locks = {
    brokerd: brokerLockOf(readBrokerConfig(home.brokerConfig, undefined)),
    loopd: loopLockOf(readLoopConfig(home.loopConfig, undefined)),
  };
  const configs = { brokerd: home.brokerConfig, loopd: home.loopConfig };
  const mains = { brokerd: "broker/main.ts", loopd: "loop/main.ts" };
  for (const role of ["brokerd", "loopd"] as const) {
    const unit = parseUnit(
      Deno.readTextFileSync(`${home.path}/systemd/boxmaker-${role}.service`),
    );
    const [, ...args] = words(unit, "ExecStart");
    assert.deepEqual(args, [
      ...["run", ...denoFlags(locks[role]), `${PROJECT}/${mains[role]}`],
      ...["serve", "--config", configs[role]],
    ]);
    assert.deepEqual(words(unit, "WorkingDirectory"), [PROJECT]);
    // systemd starts no unit that opens a directory which is not there.
    const opened = [...words(unit, "ReadWritePaths"), ...words(unit, "ReadOnlyPaths")];
    assert(opened.length > 1);
    for (const path of opened) assert(Deno.statSync(path).isDirectory, path);
    const closed = words(unit, "InaccessiblePaths").map((path) => path.replace(/^-/, ""));
    for (const path of closed) assert(Deno.statSync(path).isDirectory, path);
    if (role === "loopd") continue; // it waits for a model server
    const child = new Deno.Command(Deno.execPath(), { args, cwd: PROJECT, stderr: "piped" })
      .spawn();
    assert.match(await untilReady(child.stderr), /^brokerd: ready, serving /m);
    child.kill("SIGTERM");
    assert.equal((await child.status).code, 0);
  }
});
