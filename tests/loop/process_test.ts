/** loopd as a process: its command line, its locks, its start and its end (contracts 1, 7 and 8). */
import assert from "node:assert/strict";
import { forEach, namesOf, PROJECT, snapshot } from "../support/broker.ts";
import { calling, chunk, FakeLlama, Held, saying } from "../support/llama.ts";
import {
  chat,
  flagsFor,
  LoopHome,
  LoopProcess,
  OpenTurn,
  type ProcessOptions,
  textOf,
  ToolBroker,
  toolResult,
} from "../support/loop.ts";

/** Nobody listens there. */
const NOBODY = "http://127.0.0.1:1";

async function refusedStart(home: LoopHome, options: ProcessOptions = {}) {
  await using loop = new LoopProcess(home, options);
  return await loop.ended();
}

function runMain(args: readonly string[], env: Record<string, string> = {}) {
  using home = new LoopHome(NOBODY);
  const { code, stdout, stderr } = new Deno.Command(Deno.execPath(), {
    args: ["run", ...flagsFor(home), new URL("loop/main.ts", PROJECT).pathname, ...args],
    env: { NO_COLOR: "1", ...env },
  }).outputSync();
  const text = new TextDecoder();
  return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
}

Deno.test("--help goes to stdout with 0; wrong usage goes to stderr with 2", () => {
  const help = runMain(["--help"]);
  assert.equal(help.code, 0);
  assert(help.stdout.startsWith("loopd "));
  assert.equal(help.stderr, "");
  for (
    const args of [[], ["start"], ["serve", "more"], ["serve", "--colour"], ["serve", "--config"]]
  ) {
    const { code, stdout, stderr } = runMain(args);
    assert.equal(code, 2, args.join(" "));
    assert.equal(stdout, "");
    assert.match(stderr, /^loopd: .*\nloopd: see loopd --help\n$/);
  }
});

Deno.test("a configuration that cannot be used is named with file, line and key", async () => {
  using home = new LoopHome(NOBODY);
  const flags = flagsFor(home);
  Deno.writeTextFileSync(home.configFile, "[llama]\nurl = 7\n[broker]\nsockets = 1\n");
  const { code, stderr } = await refusedStart(home, { flags });
  assert.equal(code, 1);
  const file = home.configFile;
  assert(stderr.includes(`loopd: ${file}:2: llama.url`), stderr);
  assert(stderr.includes(`loopd: ${file}:4: unknown key broker.sockets\n`), stderr);
  assert(stderr.endsWith("loopd: see docs/runbook.md#config-invalid\n"), stderr);
});

type Widen = (flags: readonly string[], home: LoopHome) => string[];

/** `flags` with the permission `name` for `more` as well. */
function widen(flags: readonly string[], name: string, more: string): string[] {
  const begins = `--allow-${name}=`;
  assert(flags.some((flag) => flag.startsWith(begins)));
  return flags.map((flag) => flag.startsWith(begins) ? `${flag},${more}` : flag);
}

const TOO_WIDE: Readonly<Record<string, readonly [Widen, (home: LoopHome) => string]>> = {
  "everything": [() => ["-A"], () => "run programs"],
  "running programs": [(flags) => [...flags, "--allow-run"], () => "run programs"],
  "remote code": [
    (flags) => flags.filter((flag) => flag !== "--deny-import"),
    () => "import remote code",
  ],
  "brokerd's directory": [
    (flags, { layout }) => widen(flags, "read", layout.broker),
    ({ layout }) => `read ${layout.broker}`,
  ],
  "the audit log": [
    (flags, { layout }) => widen(flags, "read", layout.audit),
    ({ layout }) => `read ${layout.audit}`,
  ],
  "admin.sock": [
    (flags, { layout }) => widen(flags, "net", `unix:${layout.adminSocket}`),
    ({ layout }) => `connect to unix:${layout.adminSocket}`,
  ],
  "its own configuration's directory": [
    (flags, { root }) => widen(flags, "write", root),
    ({ root }) => `write ${root}`,
  ],
};

Deno.test("loopd does not start with one permission too much, and says which", async () => {
  await using llama = new FakeLlama();
  await forEach(TOO_WIDE, async ([widened, words]) => {
    using home = new LoopHome(llama.url);
    const before = snapshot(home.root);
    const { code, stderr } = await refusedStart(home, { flags: widened(flagsFor(home), home) });
    assert.equal(code, 1, stderr);
    assert(stderr.includes(`loopd: this process may ${words(home)}, which it must not\n`), stderr);
    assert(stderr.endsWith("loopd: see docs/runbook.md#permissions-too-wide\n"), stderr);
    assert.deepEqual(snapshot(home.root), before);
  });
});

Deno.test("under exactly its flags, in a home that is missing, it starts, chats, asks brokerd, stops and resumes", async () => {
  await using llama = new FakeLlama(
    calling("read_file", { path: "/n/a" }),
    saying("There is ", "milk. 🥛"),
    saying("You are welcome."),
  );
  using home = new LoopHome(llama.url);
  home.remember("Kyle.");
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    await using loop = await LoopProcess.start(home);
    assert(loop.stderr.includes(`loopd: ready, serving ${home.layout.loopSocket}\n`));
    if (signal === "SIGTERM") {
      using broker = new ToolBroker(home, toolResult("milk"));
      const events = await loop.chat("s1", "Notes?");
      assert.equal(textOf(events), "There is milk. 🥛");
      assert.deepEqual(events.at(-1), { type: "done" });
      assert.deepEqual(broker.requests, [
        { session: "s1", call: "call00001", tool: "read_file", arguments: '{"path":"/n/a"}' },
      ]);
    } else {
      assert.equal(textOf(await loop.chat("s1", "Thanks.")), "You are welcome.");
    }
    loop.signal(signal);
    const { code, stderr } = await loop.ended();
    assert.equal(code, 0, stderr);
    assert(stderr.endsWith("loopd: stopped\n"), stderr);
    assert.deepEqual(namesOf(`${home.home}/run/owner-loop`), []);
  }
  // The second process sent the conversation of the first.
  const conversation = llama.messages().map(({ role, content }) => `${role}: ${content}`);
  assert(conversation[0]?.endsWith("Kyle."));
  assert.deepEqual(conversation.slice(1), [
    "user: Notes?",
    "assistant: ",
    "tool: milk",
    "assistant: There is milk. 🥛",
    "user: Thanks.",
  ]);
});

Deno.test("killed in the middle of a turn, it leaves a session that goes on", async () => {
  const held = new Held();
  await using llama = new FakeLlama(() => held.response, saying("again"));
  using home = new LoopHome(llama.url);
  {
    await using loop = await LoopProcess.start(home);
    using turn = await OpenTurn.start(home.layout.loopSocket, "s1", "one");
    await held.send(chunk({ content: "half" }));
    await turn.until("text");
    loop.signal("SIGKILL");
    await loop.ended();
  }
  // The stale socket is replaced.
  await using loop = await LoopProcess.start(home);
  assert.equal(textOf(await loop.chat("s1", "two")), "again");
  assert.deepEqual(llama.messages().slice(1).map(({ role, content }) => `${role}: ${content}`), [
    "user: one",
    "assistant: half",
    "user: two",
  ]);
});

Deno.test("stopped in the middle of a turn, it ends the turn's record before it goes", async () => {
  const held = new Held();
  await using llama = new FakeLlama(() => held.response);
  using home = new LoopHome(llama.url);
  await using loop = await LoopProcess.start(home);
  using turn = await OpenTurn.start(home.layout.loopSocket, "s1", "one");
  await held.send(chunk({ content: "half" }));
  await turn.until("text");
  loop.signal("SIGTERM");
  assert.equal((await loop.ended()).code, 0);
  assert.equal(await turn.next(), null);
  assert.equal(home.entries("s1").at(-1)?.outcome, "interrupted");
});

Deno.test("each refused start exits with 1 and names its entry of the runbook", async () => {
  await using llama = new FakeLlama();
  await using tools = new FakeLlama();
  tools.tools = () => Response.json([{ tool: "exec_shell_command" }, { tool: "a\u001b[31m" }]);
  const cases: Readonly<Record<string, readonly [string, (home: LoopHome) => void, string[]]>> = {
    "no model server": [NOBODY, () => {}, [
      "loopd: the self-test of the model server at http://127.0.0.1:1 failed: the connection",
      "see docs/runbook.md#loopd-selftest-failed",
    ]],
    "a server with tools": [tools.url, () => {}, [
      `loopd: the model server at ${tools.url} runs tools itself: exec_shell_command, a\\u001b[31m`,
      "see docs/runbook.md#llama-runs-tools",
    ]],
    "a wide socket directory": [llama.url, ({ home }) => {
      Deno.mkdirSync(`${home}/run/owner-loop`, { recursive: true });
      Deno.chmodSync(`${home}/run/owner-loop`, 0o755);
    }, ["owner-loop has mode 0755, wider than 0700", "see docs/runbook.md#socket-directory"]],
    "a file in place of its directory": [llama.url, ({ home, layout }) => {
      Deno.mkdirSync(home);
      Deno.writeTextFileSync(layout.loop, "x");
    }, ["loopd: cannot start: ", "see docs/runbook.md#loopd-cannot-start"]],
  };
  await forEach(cases, async ([url, spoil, words]) => {
    using home = new LoopHome(url);
    spoil(home);
    const { code, stderr } = await refusedStart(home);
    assert.equal(code, 1, stderr);
    for (const part of words) assert(stderr.includes(part), stderr);
  });
});

Deno.test("a second loopd says that one is running, and exits with 1", async () => {
  await using llama = new FakeLlama(saying("a"));
  using home = new LoopHome(llama.url);
  await using first = await LoopProcess.start(home);
  const { code, stderr } = await refusedStart(home);
  assert.equal(code, 1);
  assert.equal(
    stderr,
    "loopd: loopd is already running\nloopd: see docs/runbook.md#loopd-already-running\n",
  );
  assert.equal(textOf(await first.chat("s1", "x")), "a");
});

Deno.test("it waits for a model that is loading, and can be stopped while it waits", async () => {
  await using llama = new FakeLlama(saying("a"));
  let loaded = false;
  llama.health = () => new Response(null, { status: loaded ? 200 : 503 });
  using home = new LoopHome(llama.url);
  {
    await using loop = new LoopProcess(home);
    await loop.said("loopd: the model server is still loading its model");
    loop.signal("SIGTERM");
    assert.equal((await loop.ended()).code, 0);
  }
  await using loop = new LoopProcess(home);
  await loop.said("loopd: the model server is still loading its model");
  loaded = true;
  await loop.said("loopd: ready");
  assert.equal(textOf(await loop.chat("s1", "x")), "a");
});

Deno.test("a proxy of the environment sees nothing of the conversation", async () => {
  let seen = 0;
  await using proxy = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => {
    seen += 1;
    return new Response(null, { status: 502 });
  });
  const url = `http://127.0.0.1:${proxy.addr.port}`;
  await using llama = new FakeLlama(saying("direct"));
  using home = new LoopHome(llama.url);
  // The runtime itself asks for a newer version now and then, and that would count.
  const DENO_NO_UPDATE_CHECK = "1";
  const proxied = { HTTP_PROXY: url, http_proxy: url, ALL_PROXY: url, NO_PROXY: "", no_proxy: "" };
  const env = { DENO_NO_UPDATE_CHECK, ...proxied };
  await using loop = await LoopProcess.start(home, { env });
  assert.equal(textOf(await loop.chat("s1", "x")), "direct");
  assert.equal(seen, 0);
});

Deno.test("a server behind https is used when its certificate is trusted, and else is not", async () => {
  const tls = (name: string) => new URL(`fixtures/tls/${name}.pem`, PROJECT);
  await using llama = new FakeLlama(saying("secret"));
  await using server = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen: () => {},
    cert: Deno.readTextFileSync(tls("cert")),
    key: Deno.readTextFileSync(tls("key")),
  }, (request) => llama.handle(request));
  using home = new LoopHome(`https://localhost:${server.addr.port}`);
  const untrusted = await refusedStart(home);
  assert.equal(untrusted.code, 1);
  assert(untrusted.stderr.includes("see docs/runbook.md#loopd-selftest-failed"));
  const env = { DENO_CERT: tls("cert").pathname };
  await using loop = await LoopProcess.start(home, { env });
  assert.equal(textOf(await loop.chat("s1", "x")), "secret");
});

Deno.test("a disk that is full fails the turn before anything is shown; then the session goes on", async () => {
  const long = "x".repeat(100_000);
  await using llama = new FakeLlama(saying("fits"), saying(long), saying("fits again"));
  using home = new LoopHome(llama.url);
  {
    // A limit on the size of files: a write beyond it is cut short or fails, as on a full disk.
    const shell = "trap '' XFSZ; ulimit -f 64";
    await using loop = await LoopProcess.start(home, { shell });
    assert.equal(textOf(await loop.chat("s1", "one")), "fits");
    const events = await loop.chat("s1", "two");
    assert.deepEqual(events, [
      { type: "session", session: "s1" },
      {
        type: "failed",
        message: "this session's log cannot be used; the operator of loopd has been told",
      },
    ]);
    await loop.said("see docs/runbook.md#session-log-unavailable");
  }
  await using loop = await LoopProcess.start(home);
  assert.equal(textOf(await loop.chat("s1", "three")), "fits again");
  await loop.said("see docs/runbook.md#session-log-torn");
  assert.deepEqual(llama.messages().slice(1).map(({ role, content }) => `${role}: ${content}`), [
    "user: one",
    "assistant: fits",
    "user: two",
    "assistant: (The turn ended before I gave an answer.)",
    "user: three",
  ]);
  assert(Deno.readTextFileSync(home.log("s1")).includes('\n{"type":"recovery",'));
});

Deno.test("several clients at once, one of them rude, are each served", async () => {
  await using llama = new FakeLlama(...Array(20).fill(saying("a")));
  using home = new LoopHome(llama.url);
  await using _loop = await LoopProcess.start(home);
  const path = home.layout.loopSocket;
  for (let count = 0; count < 5; count++) {
    // It hangs up before its answer.
    (await OpenTurn.start(path, null, "x"))[Symbol.dispose]();
  }
  const turns = await Promise.all(
    Array.from({ length: 10 }, (_, index) => chat(path, `s${index}`, "x")),
  );
  assert.deepEqual(turns.map((events) => events.at(-1)?.type), Array(10).fill("done"));
});
