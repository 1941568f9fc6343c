/** brokerd as a process: its command line, its locks, its start and its end (contracts 1). */
import assert from "node:assert/strict";
import {
  ask,
  Broker,
  flagsFor,
  frame,
  namesOf,
  PROJECT,
  RawClient,
  readFile,
  refusedStart,
  snapshot,
  startBroker,
  TempHome,
} from "../support/broker.ts";
import { recordsIn, verifyDirectory } from "../support/log.ts";

const ASK = 'tool = "read_file"\nmode = "ask"\n[constraints]\npaths = ["/n"]\n';

function runMain(args: readonly string[]): { code: number; stdout: string; stderr: string } {
  using home = new TempHome();
  const { code, stdout, stderr } = new Deno.Command(Deno.execPath(), {
    args: ["run", ...flagsFor(home), new URL("broker/main.ts", PROJECT).pathname, ...args],
    env: { NO_COLOR: "1" },
  }).outputSync();
  const text = new TextDecoder();
  return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
}

Deno.test("--help goes to stdout with 0; wrong usage goes to stderr with 2", () => {
  const help = runMain(["--help"]);
  assert.equal(help.code, 0);
  assert(help.stdout.startsWith("brokerd "));
  assert.equal(help.stderr, "");
  for (
    const args of [
      [],
      ["start"],
      ["serve", "more"],
      ["serve", "--colour"],
      ["serve", "--config"],
      ["serve", "--accept-break=yes"],
    ]
  ) {
    const { code, stdout, stderr } = runMain(args);
    assert.equal(code, 2, args.join(" "));
    assert.equal(stdout, "");
    assert.match(stderr, /^brokerd: .*\nbrokerd: see brokerd --help\n$/);
  }
});

Deno.test("with exactly its row it starts, in a home that is missing, and makes what it needs", async () => {
  using home = new TempHome();
  Deno.removeSync(home.home, { recursive: true });
  await using broker = await startBroker(home);
  // The grants are the owner's: brokerd says that they are missing, and goes on.
  const missing = `brokerd: grants: ${home.layout.grants}: the grants directory cannot be read`;
  assert(broker.stderr.includes(missing), broker.stderr);
  await broker.stop();
  assert.deepEqual(namesOf(home.home), ["audit", "broker", "run"]);
  for (
    const path of [home.home, home.layout.audit, home.layout.broker, home.layout.brokerSessions]
  ) {
    assert.equal((Deno.statSync(path).mode ?? 0) & 0o777, 0o700, path);
  }
  assert.equal((Deno.statSync(`${home.layout.audit}/.lock`).mode ?? 0) & 0o777, 0o600);
});

Deno.test("BOXMAKER_HOME is the home where the configuration names none", async () => {
  using home = new TempHome();
  const flags = flagsFor(home);
  Deno.writeTextFileSync(home.configFile, "");
  await using broker = await startBroker(home, { flags, env: { BOXMAKER_HOME: home.home } });
  const said = `ready, serving ${home.layout.brokerSocket} and ${home.layout.adminSocket}\n`;
  assert(broker.stderr.includes(said), broker.stderr);
  await broker.stop();
});

Deno.test("a second brokerd does not start, and the first one goes on", async () => {
  using home = new TempHome();
  await using broker = await startBroker(home);
  const before = snapshot(home.root);
  for (const args of [[], ["--accept-break"]]) {
    const { code, stderr } = await refusedStart(home, { args });
    assert.equal(code, 1);
    assert.equal(
      stderr,
      "brokerd: brokerd is already running\nbrokerd: see docs/runbook.md#brokerd-already-running\n",
    );
  }
  assert.deepEqual(snapshot(home.root), before);
  const [answer] = await ask(home.layout.adminSocket, "approvals", {});
  assert.equal(answer?.kind, "approval_list");
  await broker.stop();
});

Deno.test("SIGTERM and SIGINT end it with 0; pending approvals are lost, and the next start works", async (t) => {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    await t.step(signal, async () => {
      using home = new TempHome();
      home.grant("notes", ASK);
      const { brokerSocket, adminSocket } = home.layout;
      {
        await using broker = await startBroker(home);
        using client = await RawClient.connect(brokerSocket);
        await client.send(frame("tool_request", readFile("s1", "c1", "/n/a")));
        const pending = await client.next();
        assert(pending?.kind === "tool_response" && pending.body.status === "pending_approval");
        using idle = await RawClient.connect(adminSocket);
        broker.signal(signal);
        assert.deepEqual(
          [await client.next(), await idle.next()],
          [null, null],
          "closed, unanswered",
        );
        const { code, stderr } = await broker.ended();
        assert.equal(code, 0);
        assert(stderr.endsWith("brokerd: stopped\n"), stderr);
        for (const path of [brokerSocket, adminSocket]) {
          assert.throws(() => Deno.lstatSync(path), Deno.errors.NotFound);
        }
      }
      await using broker = await startBroker(home);
      const [list] = await ask(adminSocket, "approvals", {});
      assert.deepEqual(list?.body, { items: [] });
      const [gone] = await ask(adminSocket, "approve", { approval: 0 });
      assert(gone?.kind === "error" && gone.body.code === "no_such_approval");
      await broker.stop();
      const report = verifyDirectory(home.layout.audit);
      assert.equal(report.failure, null);
      assert.deepEqual(report.abandoned, [0]);
      assert.deepEqual(recordsIn(home.layout.audit).map(({ event }) => event.type), ["decision"]);
    });
  }
});

Deno.test("a signal that comes with the ready line finds it prepared", async () => {
  using home = new TempHome();
  for (let n = 0; n < 5; n += 1) {
    await using broker = new Broker(home, {});
    await broker.said("ready");
    broker.signal("SIGTERM");
    assert.equal((await broker.ended()).code, 0);
  }
});

Deno.test("after a kill the stale sockets do not stop the next start", async () => {
  using home = new TempHome();
  {
    await using broker = await startBroker(home);
    broker.signal("SIGKILL");
    assert.equal((await broker.ended()).signal, "SIGKILL");
  }
  assert(Deno.lstatSync(home.layout.brokerSocket).isSocket);
  await using broker = await startBroker(home);
  assert.equal((await ask(home.layout.adminSocket, "check_grants", {})).length, 1);
  await broker.stop();
});
