/** `deno task up` as its owner meets it: on a terminal and on pipes, and with whatever ends it. */
import assert from "node:assert/strict";
import { homeAt } from "../../scripts/support/home.ts";
import { recordsIn } from "../../scripts/support/story.ts";
import { snapshot, until } from "../support/broker.ts";
import { toolTest } from "../support/containers.ts";
import {
  Followed,
  noneLeftWith,
  processesWith,
  ROOT,
  runScript,
  TempDir,
} from "../support/scripts.ts";

const UP = [Deno.execPath(), "run", "--quiet", "-A", `${ROOT}/scripts/up.ts`] as const;

/** What the owner wrote, or may write: no run changes it. */
function ownersFiles(home: string): Record<string, string> {
  const all = Object.entries(snapshot(home));
  return Object.fromEntries(all.filter(([path]) => /^\/(grants|notes|\w+\.toml)/.test(path)));
}

/** up with the home `home`, once it waits for the first line. Most tests have no need of tools. */
async function upWith(
  home: string,
  terminal: boolean,
  args: readonly string[] = ["--no-tools"],
): Promise<Followed> {
  const options = { env: { BOXMAKER_HOME: home } };
  const command = [...UP, ...args] as const;
  const up = terminal ? Followed.onTerminal(command, options) : Followed.start(command, options);
  try {
    await up.shows("task ctl audit verify --home");
    if (terminal) await up.shows("> ");
    return up;
  } catch (error) {
    await up[Symbol.asyncDispose]();
    throw error;
  }
}

function pidOf(home: string, program: string): number {
  const found = processesWith(home).find(({ commandLine }) => commandLine.includes(program));
  assert(found !== undefined, `${program} runs`);
  return found.pid;
}

toolTest(
  "on a terminal: denied, asked, approved, refused, and all of it in the log; the next run goes on",
  async () => {
    using place = new TempDir();
    // A space, as in many a path.
    const home = `${place.path}/my home`;
    const { notes, layout } = homeAt(home);
    {
      await using up = await upWith(home, true, []);
      assert(up.output.includes("up: tools run in containers of podman"), up.output);
      await up.type("read /etc/passwd\r");
      await up.shows("[denied] read_file Denied: no grant allows this call.");
      await up.shows("> ", 2);
      await up.type(`read ${notes}/a.md\r`);
      await up.shows("approve 1? [y/N] ");
      await up.type("y\r");
      await up.shows("approved 1: runs");
      await up.shows("The tool said: # Shopping");
      await up.shows("- a new lamp for the hall");
      await up.type(`read ${notes}/a.md\r`);
      await up.shows("approve 4? [y/N] ");
      await up.type("n\r");
      await up.shows("The tool said: Denied: the owner refused this call.");
      await up.type("\x04");
      assert.equal(await up.ends(), 0);
      // What was said meanwhile is told at the end, and did not break into what was typed.
      const [during = "", after = ""] = up.output.split("up: said meanwhile, and in ");
      assert.equal(during.includes("brokerd: approval"), false);
      for (const said of ["brokerd: approval 1: session", "brokerd: approval 4: session"]) {
        assert(after.includes(said), said);
      }
      assert(up.output.includes(`task ctl audit verify --home '${home}'`), up.output);
    }
    await noneLeftWith(home);
    assert.equal(recordsIn(layout.audit).length, 6);
    Deno.removeSync(`${layout.grants}/drafts-write.toml`);
    Deno.writeTextFileSync(`${notes}/a.md`, "my own\n");
    const before = ownersFiles(home);
    {
      await using up = await upWith(home, false);
      await up.type("time\n");
      await up.shows("The clock said: ");
      await up.endInput();
      assert.equal(await up.ends(), 0);
    }
    await noneLeftWith(home);
    assert.deepEqual(ownersFiles(home), before);
    const verify = await runScript("launch.ts", ["ctl", "audit", "verify", "--home", home]);
    assert.match(verify.stdout, /^audit: ok, 6 records, head [0-9a-f]{64}\nanchored at 5\n$/);
  },
);

toolTest("each program runs under exactly its row", async () => {
  using place = new TempDir();
  // With tools brokerd may start podman and Deno, and nothing else.
  await using _up = await upWith(place.path, false, []);
  const { layout } = homeAt(place.path);
  const env = { BOXMAKER_HOME: place.path };
  const configs = {
    brokerd: `${place.path}/run/brokerd.toml`,
    loopd: `${place.path}/run/loopd.toml`,
  };
  for (const [role, config] of Object.entries(configs)) {
    const { stdout } = await runScript("permissions.ts", [role, "--config", config], { env });
    const program = { brokerd: "broker/main.ts", loopd: "loop/main.ts" }[role] ?? "";
    const [, flags] = / run --quiet (.*) \S*main\.ts /.exec(
      processesWith(place.path).find(({ commandLine }) => commandLine.includes(program))
        ?.commandLine ?? "",
    ) ?? [];
    assert.equal(flags, stdout.trimEnd().replaceAll("\n", " "));
  }
  const standin = processesWith("standin/main.ts")
    .find(({ pid }) => Deno.readTextFileSync(`/proc/${pid}/environ`).includes(place.path));
  assert(standin !== undefined);
  assert.match(
    standin.commandLine,
    / run --quiet --no-prompt --cached-only --deny-import --frozen --allow-net=127\.0\.0\.1:0 /,
  );
  assert(Deno.lstatSync(layout.loopSocket).isSocket);
});

/** The stand-in has no path of its home on its command line. */
function standinsOf(home: string): number[] {
  return processesWith("standin/main.ts").map(({ pid }) => pid).filter((pid) => {
    try {
      return Deno.readTextFileSync(`/proc/${pid}/environ`).includes(`BOXMAKER_HOME=${home}\0`);
    } catch {
      return false; // it has just ended
    }
  });
}

async function nothingLeft(home: string): Promise<void> {
  await noneLeftWith(home);
  await until("end of the stand-in", () => standinsOf(home).length === 0);
  assert.deepEqual([...Deno.readDirSync(`${home}/run/owner-loop`)], []);
  assert.deepEqual([...Deno.readDirSync(`${home}/run/owner-broker`)], []);
}

Deno.test("Ctrl-C on a terminal ends everything", async () => {
  using place = new TempDir();
  await using up = await upWith(place.path, true);
  assert.equal(standinsOf(place.path).length, 1);
  await up.type("\x03");
  assert.equal(await up.ends(), 130);
  await nothingLeft(place.path);
});

Deno.test("Ctrl-C while the owner is asked stops the turn alone, and the next ends everything", async () => {
  using place = new TempDir();
  const { notes, layout } = homeAt(place.path);
  await using up = await upWith(place.path, true);
  await up.type(`read ${notes}/a.md\r`);
  await up.shows("approve 0? [y/N] ");
  await up.type("\x03");
  await up.shows("bxctl: the turn was stopped\r\n> ");
  await up.type("\x03");
  assert.equal(await up.ends(), 130);
  await nothingLeft(place.path);
  assert.deepEqual(recordsIn(layout.audit).map(({ event }) => event.type), ["decision"]);
});

Deno.test("SIGTERM and SIGHUP end everything", async () => {
  for (const [signal, status] of [["SIGTERM", 143], ["SIGHUP", 129]] as const) {
    using place = new TempDir();
    await using up = await upWith(place.path, false);
    up.signal(signal);
    assert.equal(await up.ends(), status);
    await nothingLeft(place.path);
  }
});

Deno.test("the end of the npx that started it ends everything", async () => {
  using place = new TempDir();
  const npx = ["npx", "--yes", "deno@2.9.6", "task", "up"] as const;
  await using up = Followed.start(npx, { env: { BOXMAKER_HOME: place.path } });
  await up.shows("task ctl audit verify --home");
  up.signal("SIGTERM");
  await nothingLeft(place.path);
});

Deno.test("a daemon that dies is named with its last words, and ends everything", async () => {
  for (const [program, name] of [["broker/main.ts", "brokerd"], ["loop/main.ts", "loopd"]]) {
    using place = new TempDir();
    await using up = await upWith(place.path, true);
    Deno.kill(pidOf(place.path, program ?? ""), "SIGKILL");
    assert.equal(await up.ends(), 1);
    assert(up.output.includes(`up: ${name} has ended, by SIGKILL; its last words:`), up.output);
    assert(up.output.includes(`up: ${name}: ready, serving `), up.output);
    await noneLeftWith(place.path);
  }
});

Deno.test("a second one in the same home says that brokerd is running, and leaves the first alone", async () => {
  using place = new TempDir();
  await using up = await upWith(place.path, false);
  const second = await runScript("up.ts", ["--no-tools"], { env: { BOXMAKER_HOME: place.path } });
  assert.equal(second.code, 1);
  assert.match(second.stderr, /^up: brokerd has ended, with status 1; its last words:$/m);
  assert.match(second.stderr, /^up: brokerd: see docs\/runbook\.md#brokerd-already-running$/m);
  await up.type("time\n");
  await up.shows("The clock said: ");
  assert.equal(standinsOf(place.path).length, 1, "the second one's stand-in is gone");
});

Deno.test("what cannot be used is said, with 1; wrong usage ends with 2", async () => {
  using place = new TempDir();
  const env = { BOXMAKER_HOME: place.path };
  const bad: readonly (readonly [string[], Record<string, string>, number, RegExp])[] = [
    [
      ["--llama"],
      env,
      2,
      /^up: Option '--llama <value>' argument missing\nup: --help tells more\n$/,
    ],
    [["more"], env, 2, /^up: Unexpected argument 'more'/],
    [["--llama", "127.0.0.1"], env, 1, /up: \[llama\] url: 127\.0\.0\.1 is not http/],
    [["--llama", "http://127.0.0.1:1"], env, 1, /see docs\/runbook\.md#loopd-selftest-failed/],
    [[], { BOXMAKER_HOME: "/a,b" }, 1, /^up: the home \/a,b has a comma in it/],
    [[], { BOXMAKER_HOME: "relative" }, 1, /^up: the home relative is not an absolute path/],
  ];
  for (const [args, given, status, words] of bad) {
    const { code, stderr } = await runScript("up.ts", args, { env: given });
    assert.equal(code, status, stderr);
    assert.match(stderr, words);
  }
  place.write("brokerd.toml", "[paths]\nhome = 7\n");
  const { code, stderr } = await runScript("up.ts", [], { env });
  assert.equal(code, 1);
  assert(stderr.includes(`up: ${place.path}/brokerd.toml:2: paths.home`), stderr);
  assert(stderr.endsWith("up: see docs/runbook.md#config-invalid\n"), stderr);
  await noneLeftWith(place.path);
});

Deno.test("a home that was moved is noticed", async () => {
  using place = new TempDir();
  const old = `${place.path}/old`;
  {
    await using up = await upWith(old, false);
    await up.endInput();
    assert.equal(await up.ends(), 0);
  }
  const moved = `${place.path}/new`;
  Deno.renameSync(old, moved);
  const { code, stderr } = await runScript("up.ts", [], { env: { BOXMAKER_HOME: moved } });
  assert.equal(code, 1);
  assert(stderr.startsWith(`up: ${moved}/brokerd.toml names another home, ${old}\n`), stderr);
});

Deno.test("a model server in place of the stand-in is used", async () => {
  using place = new TempDir();
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    (request) =>
      request.url.endsWith("/health") ? new Response() : new Response(null, { status: 404 }),
  );
  const url = `http://127.0.0.1:${server.addr.port}`;
  const options = { env: { BOXMAKER_HOME: place.path } };
  await using up = Followed.start([...UP, "--llama", url], options);
  await up.shows("task ctl audit verify --home");
  assert.equal(standinsOf(place.path).length, 0);
  await up.type("hello\n");
  await up.shows("the model server answered 404");
  await up.endInput();
  assert.equal(await up.ends(), 0);
  await nothingLeft(place.path);
});
