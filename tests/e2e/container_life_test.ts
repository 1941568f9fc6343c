/**
 * Life and death of a call (specification 13): turns, brokerd's end and that of its client in the middle, a
 * runner that does not work, and containers that others end. Nothing is left, and each call is recorded.
 */
import assert from "node:assert/strict";
import { LABEL } from "../../broker/podman/args.ts";
import { labelOf } from "../../broker/podman/runtime.ts";
import type { AuditEvent } from "../../proto/audit.ts";
import { recordsIn } from "../../scripts/support/story.ts";
import { frame, namesOf, RawClient, startBroker, until } from "../support/broker.ts";
import {
  callTool,
  containersOf,
  noContainerOf,
  runnerHere,
  toolHome,
  type ToolOptions,
  toolTest,
} from "../support/containers.ts";
import { tomlText } from "../support/grants.ts";
import { processesWith } from "../support/hostile_container.ts";
import { GrantPlace, podman } from "../support/image.ts";

/** A home with a grant of `shell` for one directory, in which commands and the test tell each other how far they are. */
class LifeWorld implements Disposable {
  readonly #place = new GrantPlace();
  readonly directory = this.#place.directory("granted");
  #calls = 0;

  private constructor(readonly home: Awaited<ReturnType<typeof toolHome>>) {
    home.grant(
      "shell",
      `tool = "shell"\nmode = "auto"\n[constraints]\npaths = [${tomlText(this.directory)}]\n`,
    );
  }

  static async make(options: ToolOptions = {}): Promise<LifeWorld> {
    return new LifeWorld(await toolHome(options));
  }

  /** Starts a call that writes its name to the file `began`, and ends once there is a file of its name. */
  begin(name: string) {
    return this.call(this.waiting(name));
  }

  waiting(name: string): string {
    return `echo ${name} >>began; until [ -e ${name} ]; do sleep 0.05; done; echo ${name}`;
  }

  call(command: string) {
    return callTool(this.home, "shell", { command, cwd: this.directory });
  }

  /** Asks for a call, and gives the connection; its answer is not waited for. */
  async ask(command: string): Promise<RawClient> {
    const client = await RawClient.connect(this.home.layout.brokerSocket);
    this.#calls += 1;
    await client.send(frame("tool_request", {
      ...{ session: "s1", call: `asked-${this.#calls}`, tool: "shell" },
      arguments: JSON.stringify({ command, cwd: this.directory }),
    }));
    return client;
  }

  /** Lets the call `name` end. */
  release(name: string): void {
    Deno.writeTextFileSync(`${this.directory}/${name}`, "");
  }

  /** The calls that have begun, in order. A line that is not whole yet counts for nothing: a shell makes the file first. */
  get began(): string[] {
    try {
      return Deno.readTextFileSync(`${this.directory}/began`).split("\n").slice(0, -1);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      return [];
    }
  }

  async hasBegun(...names: string[]): Promise<void> {
    await until(`beginning of ${names}`, () => this.began.length >= names.length);
    assert.deepEqual(this.began, names);
  }

  eventsOf<T extends AuditEvent["type"]>(type: T): Extract<AuditEvent, { type: T }>[] {
    return recordsIn(this.home.layout.audit).map(({ event }) => event)
      .filter((event): event is Extract<AuditEvent, { type: T }> => event.type === type);
  }

  [Symbol.dispose](): void {
    this.home[Symbol.dispose]();
    this.#place[Symbol.dispose]();
  }
}

/** What a call of `begin(name)` comes to. */
const ended = (name: string) => ({
  status: "result",
  content: JSON.stringify({ exit: 0, stdout: `${name}\n`, stderr: "" }),
  class: "private",
  untrusted: false,
  truncated: false,
});

toolTest("turns: as many calls as `parallel` run, the rest wait in order", async () => {
  using world = await LifeWorld.make({ runner: { parallel: 2 } });
  await using _broker = await startBroker(world.home);
  const first = world.begin("a");
  await world.hasBegun("a");
  const second = world.begin("b");
  await world.hasBegun("a", "b");
  const third = world.begin("c");
  await until("third decision", () => world.eventsOf("decision").length === 3);
  const fourth = world.begin("d");
  await until("fourth decision", () => world.eventsOf("decision").length === 4);
  assert.equal((await containersOf(world.home)).length, 2);
  // It does not matter which of those that run ends.
  world.release("b");
  assert.deepEqual(await second, ended("b"));
  await world.hasBegun("a", "b", "c");
  assert.equal((await containersOf(world.home)).length, 2);
  world.release("a");
  assert.deepEqual(await first, ended("a"));
  await world.hasBegun("a", "b", "c", "d");
  world.release("d");
  world.release("c");
  assert.deepEqual(await Promise.all([third, fourth]), [ended("c"), ended("d")]);
  await noContainerOf(world.home);
});

toolTest("turns: 128 calls wait, one more is refused and has run nothing", async () => {
  using world = await LifeWorld.make({ runner: { parallel: 1 } });
  await using broker = await startBroker(world.home);
  using _running = await world.ask(world.waiting("a"));
  await world.hasBegun("a");
  using clients = new DisposableStack();
  for (let count = 0; count < 128; count += 1) clients.use(await world.ask("echo x >>began"));
  await until("129 decisions", () => world.eventsOf("decision").length === 129);
  assert.deepEqual(world.eventsOf("result"), []);
  assert.deepEqual(await world.call("echo x >>began"), {
    status: "failed",
    message: "too many calls wait for their turn",
  });
  const [result, ...more] = world.eventsOf("result");
  assert.deepEqual([result?.status, result?.class, more], ["failed", "public", []]);
  await broker.stop();
  assert.deepEqual(world.began, ["a"]);
  await noContainerOf(world.home);
});

toolTest(
  "brokerd is killed in the middle: its next start removes the containers, and only its own",
  async () => {
    // What listens there takes connections, and never says a word.
    using silent = Deno.listen({ hostname: "127.0.9.77", port: 443 });
    using world = await LifeWorld.make({
      more: '[egress]\nprivate = ["127.0.9.77"]\n[egress.hosts]\n"silent.example" = "127.0.9.77"\n',
    });
    world.home.grant(
      "fetch",
      'tool = "http_fetch"\nmode = "auto"\n[constraints]\nhosts = ["silent.example"]\n',
    );
    using other = await LifeWorld.make();
    await using _otherBroker = await startBroker(other.home);
    const others = other.begin("o");
    await other.hasBegun("o");
    const egress = `${world.home.layout.broker}/egress`;
    let cut: Promise<unknown>;
    {
      await using broker = await startBroker(world.home);
      using _call = await world.ask(world.waiting("a"));
      cut = assert.rejects(
        callTool(world.home, "http_fetch", { url: "https://silent.example/" }),
      );
      (await silent.accept()).close();
      await world.hasBegun("a");
      broker.signal("SIGKILL");
      await broker.ended();
    }
    await cut;
    // The command runs on, and the proxy's directory is there.
    assert((await containersOf(world.home)).length > 0);
    assert.equal(namesOf(egress).length, 1);
    await using broker = await startBroker(world.home);
    await broker.said("removed a container of an earlier brokerd");
    await noContainerOf(world.home);
    assert.deepEqual(namesOf(egress), []);
    assert.equal((await containersOf(other.home)).length, 1);
    world.release("b");
    assert.deepEqual(await world.begin("b"), ended("b"));
    other.release("o");
    assert.deepEqual(await others, ended("o"));
  },
);

toolTest(
  "brokerd is stopped in the middle: the call ends, is recorded, and nothing is left",
  async () => {
    using world = await LifeWorld.make({ runner: { parallel: 1 } });
    await using broker = await startBroker(world.home);
    using _running = await world.ask(world.waiting("a"));
    await world.hasBegun("a");
    using _waiting = await world.ask(world.waiting("w"));
    await until("both decisions", () => world.eventsOf("decision").length === 2);
    await broker.stop();
    assert.deepEqual(await containersOf(world.home), []);
    assert.deepEqual(world.began, ["a"]);
    const results = world.eventsOf("result");
    assert.deepEqual(results.map(({ call, status, class: seen }) => [call, status, seen]), [
      ["asked-1", "failed", "private"],
      ["asked-2", "failed", "public"],
    ]);
  },
);

toolTest(
  "the client goes away in the middle: the call goes on to its end and is recorded",
  async () => {
    using world = await LifeWorld.make();
    await using _broker = await startBroker(world.home);
    {
      using _client = await world.ask(world.waiting("a"));
      await world.hasBegun("a");
    }
    assert.equal((await containersOf(world.home)).length, 1);
    world.release("a");
    await until("result", () => world.eventsOf("result").length === 1);
    const [result] = world.eventsOf("result");
    assert.deepEqual([result?.call, result?.status], ["asked-1", "result"]);
    await noContainerOf(world.home);
  },
);

toolTest("a missing image is named, and once it is there calls run without a restart", async () => {
  // An image that only this test knows.
  const { image } = await runnerHere();
  const container = (await podman("create", "--pull=never", image, "true")).trim();
  const id = (await podman("commit", "--quiet", container)).trim();
  await podman("rm", container);
  using place = new GrantPlace();
  const file = `${place.path}/image.tar`;
  await podman("save", "--output", file, id);
  await podman("rmi", id);
  using world = await LifeWorld.make({ runner: { image: `sha256:${id}` } });
  await using broker = await startBroker(world.home);
  world.release("a");
  for (let count = 0; count < 2; count += 1) {
    assert.deepEqual(await world.begin("a"), {
      status: "failed",
      message: "the image of the tools is not there",
    });
  }
  assert.equal(broker.stderr.split("there is no image").length, 2, broker.stderr);
  assert(broker.stderr.includes("see docs/runbook.md#image-missing"), broker.stderr);
  await podman("load", "--quiet", "--input", file);
  try {
    assert.deepEqual(await world.begin("a"), ended("a"));
    await broker.said("tools run again");
    // What did not run has shown the session nothing.
    const classes = world.eventsOf("result").map(({ class: seen }) => seen);
    assert.deepEqual(classes, ["public", "public", "private"]);
  } finally {
    await podman("rmi", id);
  }
});

toolTest("a podman that is not there, or is none, is named, and the calls fail", async () => {
  for (const program of ["/nonexistent/podman", "/bin/false", "/bin/true", "/etc"]) {
    using world = await LifeWorld.make({ runner: { podman: program } });
    await using broker = await startBroker(world.home);
    const answer = await world.begin("a");
    assert(answer.status === "failed", `${program}: ${JSON.stringify(answer)}`);
    assert(broker.stderr.includes("see docs/runbook.md#runner-unavailable"), broker.stderr);
    const [result] = world.eventsOf("result");
    // What ends well and has said nothing may have run something.
    const seen = program === "/bin/true" ? "private" : "public";
    assert.deepEqual([result?.status, result?.class], ["failed", seen]);
    await broker.stop();
  }
});

toolTest(
  "a container that is gone before its proxy is ready is no fault of the proxy",
  async () => {
    using home = await toolHome({ runner: { podman: "/bin/true" } });
    const hosts = '[constraints]\nhosts = ["page.example"]\n';
    home.grant("fetch", `tool = "http_fetch"\nmode = "auto"\n${hosts}`);
    await using broker = await startBroker(home);
    const answer = await callTool(home, "http_fetch", { url: "https://page.example/" });
    assert.equal(answer.status, "failed");
    await broker.stop();
    assert(broker.stderr.includes("see docs/runbook.md#runner-unavailable"), broker.stderr);
    assert.equal(broker.stderr.includes("egress"), false, broker.stderr);
  },
);

toolTest("a tool that fails has run, so the session's class rises", async () => {
  using world = await LifeWorld.make({ runner: { timeout_ms: 5000 } });
  await using _broker = await startBroker(world.home);
  const answer = await world.begin("a");
  assert(answer.status === "failed" && answer.message.startsWith("it was stopped after 5000 ms"));
  const [result] = world.eventsOf("result");
  assert.deepEqual([result?.status, result?.class, result?.taint_after], [
    ...["failed", "private", "private"],
  ]);
});

toolTest("time that is too short to start a container leaves none", async () => {
  using world = await LifeWorld.make({ runner: { timeout_ms: 100 } });
  await using _broker = await startBroker(world.home);
  const answer = await world.begin("a");
  // How far it came in that time is the machine's affair.
  assert(
    answer.status === "failed" && answer.message.includes("after 100 ms"),
    JSON.stringify(answer),
  );
  await noContainerOf(world.home);
});

/** Starts a call, does `what` to its container or its podman, and gives the call's answer. */
async function disturbed(world: LifeWorld, what: () => Promise<void>) {
  const call = world.begin("a");
  await world.hasBegun("a");
  await what();
  return await call;
}

toolTest("a container that somebody else ends is the command's end by that signal", async () => {
  using world = await LifeWorld.make();
  await using _broker = await startBroker(world.home);
  const answer = await disturbed(world, async () => {
    const [id = ""] = await containersOf(world.home);
    await podman("kill", id);
  });
  assert(answer.status === "result", JSON.stringify(answer));
  assert.deepEqual(JSON.parse(answer.content), { exit: 137, stdout: "", stderr: "" });
  await noContainerOf(world.home);
  world.release("b");
  assert.deepEqual(await world.begin("b"), ended("b"));
});

toolTest("a podman that somebody else ends takes its container with it", async () => {
  using world = await LifeWorld.make();
  await using _broker = await startBroker(world.home);
  const answer = await disturbed(world, () => {
    const [pid] = processesWith(`--label=${LABEL}=${labelOf(world.home.layout.home)}`);
    assert(pid !== undefined);
    Deno.kill(pid, "SIGKILL");
    return Promise.resolve();
  });
  assert.equal(answer.status, "failed", JSON.stringify(answer));
  assert.deepEqual(await containersOf(world.home), []);
  world.release("b");
  assert.deepEqual(await world.begin("b"), ended("b"));
});
