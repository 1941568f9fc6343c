/** `bxctl status` with real daemons: all right, and each trouble beside the same home without it. */
import assert from "node:assert/strict";
import { onPath } from "../../scripts/support/podman.ts";
import { frame, RawClient, readFile, startBroker, until } from "../support/broker.ts";
import {
  callTool,
  containersOf,
  noContainerOf,
  runnerHere,
  toolTest,
} from "../support/containers.ts";
import { IS_ROOT, run } from "../support/hostile.ts";
import { LoopProcess } from "../support/loop.ts";
import { Daemons, entriesIn, StatusHome } from "../support/status_home.ts";

const ASK = 'tool = "read_file"\nmode = "ask"\n[constraints]\npaths = ["/n"]\n';
const DENY = ASK.replace('"ask"', '"deny"');

const ALL_RIGHT = [
  "ok       brokerd       m3a, Deno 2.9.6, since TIME (AGO)",
  "ok       loopd         m3a, Deno 2.9.6, since TIME (AGO)",
  "ok       model server  URL",
  "ok       tool broker   loopd reaches brokerd's socket",
  "ok       grants        1 grant",
  "ok       audit log     no record yet",
  "ok       approvals     none wait for you",
  "ok       calls         none run",
  "warning  tools' image  no tool runs: brokerd.toml names no runner",
  "                       see docs/runbook.md#runner-off",
  "1 to look at",
];

/** `ALL_RIGHT` with other lines in place of those that begin with the names in `changed`. */
function except(changed: Readonly<Record<string, readonly string[]>>, sum: string): string[] {
  const nameOf = (line: string) => line.slice(9, 21).trimEnd();
  return [
    ...ALL_RIGHT.slice(0, -1).flatMap((line) => changed[nameOf(line)] ?? [line]),
    ...changed.more ?? [],
    sum,
  ];
}

const withGrant = (home: StatusHome) => home.grant("notes", ASK);
const start = () => Daemons.start({ prepare: withGrant });

/** Sends a call that brokerd answers at once, and gives its final answer's kind of end. */
async function call(daemons: Daemons, id: string): Promise<string> {
  using client = await RawClient.connect(daemons.home.layout.brokerSocket);
  await client.send(frame("tool_request", readFile("s1", id, "/elsewhere")));
  const answer = await client.next();
  assert(answer?.kind === "tool_response" && answer.body.status === "denied");
  return answer.body.reason;
}

Deno.test("all is right: a line for each part, exit status 0, and the same as JSON", async () => {
  await using daemons = await start();
  assert.deepEqual(await daemons.status(), { code: 0, lines: ALL_RIGHT, stderr: "" });
  assert.deepEqual(entriesIn(ALL_RIGHT), ["runner-off"]);
  const { code, stdout } = await daemons.ctl("status", "--json");
  const { ok, checks, brokerd, loopd, newest } = JSON.parse(stdout);
  assert.deepEqual([code, ok, newest], [0, true, null]);
  assert.deepEqual(checks.map(({ state }: { state: string }) => state), [
    ...Array(8).fill("ok"),
    "warning",
  ]);
  assert.deepEqual([brokerd.lock, loopd.lock], Array(2).fill({ too_wide: [], missing: [] }));
  assert.equal(loopd.model.url, daemons.llama.url);
});

Deno.test("a daemon that is down is named, and the other still says what it knows", async () => {
  await using daemons = await start();
  const { home, broker, loop } = daemons;
  await broker?.stop();
  const brokerDown = [
    "wrong    brokerd       brokerd is not running: nobody listens on HOME/run/owner-broker/admin.sock",
    "                       start it with `brokerd serve`, or from the sources with `deno task broker`; " +
    "see docs/runbook.md#broker-unavailable",
  ];
  const down = {
    brokerd: brokerDown,
    "tool broker": [
      "wrong    tool broker   nobody listens where loopd.toml says that brokerd is",
      "                       see docs/runbook.md#broker-unavailable",
    ],
    grants: ["unknown  grants        brokerd does not say"],
    "audit log": ["unknown  audit log     no record, as the files say"],
    approvals: ["unknown  approvals     brokerd does not say"],
    calls: ["unknown  calls         brokerd does not say"],
    "tools' image": ["unknown  tools' image  brokerd does not say"],
    "": [],
  };
  const found = await daemons.status();
  assert.deepEqual(found, { code: 1, lines: except(down, "2 wrong, 5 unknown"), stderr: "" });
  entriesIn(found.lines);

  daemons.broker = await startBroker(home);
  assert.deepEqual((await daemons.status()).lines, ALL_RIGHT);

  await loop?.[Symbol.asyncDispose]();
  const { code, lines } = await daemons.status();
  const loopDown = {
    loopd: [
      "wrong    loopd         loopd is not running: nobody listens on HOME/run/owner-loop/loop.sock",
      "                       start it with `loopd serve`, or from the sources with `deno task loop`; " +
      "see docs/runbook.md#loopd-unavailable",
    ],
    "model server": ["unknown  model server  loopd does not say"],
    "tool broker": ["unknown  tool broker   loopd does not say"],
  };
  assert.equal(code, 1);
  assert.deepEqual(lines, except(loopDown, "1 wrong, 1 to look at, 2 unknown"));
  entriesIn(lines);
  daemons.loop = await LoopProcess.start(home.loop);
  assert.deepEqual((await daemons.status()).lines, ALL_RIGHT);
});

Deno.test("the model server is as loopd sees it now: gone, loading, with tools of its own, back", async () => {
  await using daemons = await start();
  const { llama } = daemons;
  const works = llama.health;
  const cases = [
    {
      set: () => llama.health = () => new Response("", { status: 500 }),
      line: "wrong    model server  URL: GET /health answered 500",
      entry: "loopd-selftest-failed",
      sum: "1 wrong, 1 to look at",
    },
    {
      set: () => llama.health = () => new Response("", { status: 503 }),
      line: "warning  model server  URL: it is still loading its model",
      entry: "loopd-selftest-failed",
      sum: "2 to look at",
    },
    {
      set: () => llama.tools = () => Response.json([{ tool: "sh\x1b[2J\u202ell" }]),
      line: "wrong    model server  URL runs tools itself: sh\\u001b[2J\\u202ell",
      entry: "llama-runs-tools",
      sum: "1 wrong, 1 to look at",
    },
  ];
  const noTools = llama.tools;
  for (const { set, line, entry, sum } of cases) {
    set();
    const model = [line, `                       see docs/runbook.md#${entry}`];
    const { code, lines } = await daemons.status();
    assert.deepEqual(lines, except({ "model server": model }, sum));
    assert.equal(code, line.startsWith("wrong") ? 1 : 0);
    entriesIn(lines);
    llama.health = works;
    llama.tools = noTools;
    assert.deepEqual((await daemons.status()).lines, ALL_RIGHT);
  }
});

Deno.test("a model server that is gone, or says nothing, is said by loopd", async () => {
  await using daemons = await start();
  const { llama } = daemons;
  const tools = llama.tools;
  llama.tools = () => new Response(new ReadableStream({ start() {} }));
  const silent = await daemons.status();
  assert.equal(silent.code, 1);
  assert.ok(
    silent.lines.includes(
      "wrong    model server  URL: the model server did not answer GET /tools in 3000 ms",
    ),
    silent.lines.join("\n"),
  );
  llama.tools = tools;
  assert.deepEqual((await daemons.status()).lines, ALL_RIGHT);
  await llama[Symbol.asyncDispose]();
  const gone = await daemons.status();
  assert.equal(gone.code, 1);
  const line = gone.lines.find((line) => line.slice(9).startsWith("model server"));
  assert.match(
    line ?? "",
    /^wrong {4}model server {2}URL: the connection to the model server failed/,
  );
});

Deno.test("an invalid grant is named with its file and line, once it is there and not before", async () => {
  await using daemons = await start();
  assert.equal((await daemons.status()).code, 0);
  daemons.home.grant("bad", `${DENY}x = 1\n`);
  const { code, lines } = await daemons.status();
  const grants = [
    "wrong    grants        every call is denied: 1 problem",
    "                       bad.toml:7: unknown key constraints.x",
    "                       bxctl grants check; see docs/runbook.md#grants-invalid",
  ];
  assert.deepEqual(lines, except({ grants }, "1 wrong, 1 to look at"));
  assert.equal(code, 1);
  entriesIn(lines);
});

Deno.test("the head is the last record's, and a spoiled newest file is seen before the next call", async () => {
  await using daemons = await start();
  assert.equal(await call(daemons, "c1"), "no_grant");
  const head = "ok       audit log     record 0 of TIME (AGO) in FILE";
  assert.deepEqual(
    (await daemons.status()).lines,
    except({ "audit log": [head] }, "1 to look at"),
  );

  const [file = ""] = daemons.home.auditFiles();
  const path = `${daemons.home.layout.audit}/${file}`;
  // The record once more: no line that a crash cut off.
  Deno.writeTextFileSync(path, Deno.readTextFileSync(path), { append: true });
  const disturbed = await daemons.status();
  assert.equal(disturbed.code, 0);
  assert.deepEqual(
    disturbed.lines,
    except({
      "audit log": [
        "warning  audit log     record 0 of TIME (AGO) in FILE; the newest file is not as brokerd left it, and the next " +
        "call will look into that",
        "                       bxctl audit verify; see docs/runbook.md#audit-chain-broken",
      ],
    }, "2 to look at"),
  );

  assert.equal(await call(daemons, "c2"), "audit_unavailable");
  const { code, lines } = await daemons.status();
  assert.deepEqual(
    lines,
    except({
      "audit log": [
        "wrong    audit log     every call is denied until a record is written; record 0 of TIME (AGO) in FILE",
        "                       audit: FILE:2: seq is 0, not 1",
        "                       every call is denied; see docs/runbook.md#audit-chain-broken",
        "                       bxctl audit verify says whether it is whole",
      ],
    }, "1 wrong, 1 to look at"),
  );
  assert.equal(code, 1);
  entriesIn(lines);
});

Deno.test({
  name: "a full disk latches the log, which is said until a record is written again",
  // Only root may mount a small file system.
  ignore: !IS_ROOT,
  async fn() {
    await using daemons = await Daemons.start({
      prepare(home) {
        withGrant(home);
        const { audit } = home.layout;
        Deno.mkdirSync(audit, { recursive: true, mode: 0o700 });
        run("mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "none", audit);
      },
    });
    const { audit } = daemons.home.layout;
    try {
      assert.equal(await call(daemons, "c1"), "no_grant");
      assert.equal((await daemons.status()).code, 0);
      fill(`${audit}/filler`);
      // What is left of the last page of the log's own file is filled by calls.
      let reason = "";
      for (let n = 2; reason !== "audit_unavailable"; n += 1) reason = await call(daemons, `c${n}`);
      const { code, lines } = await daemons.status();
      assert.equal(code, 1);
      const at = lines.findIndex((line) => line.startsWith("wrong    audit log     every call is"));
      assert.ok(at > 0, lines.join("\n"));
      assert.match(lines[at + 1] ?? "", /audit: every call is denied: /);
      assert.ok(entriesIn(lines).includes("audit-unavailable"));
      Deno.removeSync(`${audit}/filler`);
      assert.equal(await call(daemons, "last"), "no_grant");
      const after = await daemons.status();
      assert.equal(after.code, 0, after.lines.join("\n"));
    } finally {
      await daemons.broker?.[Symbol.asyncDispose]();
      run("umount", audit);
    }
  },
});

/** Writes to a new file at `path` until the disk is full. */
function fill(path: string): void {
  using file = Deno.openSync(path, { write: true, createNew: true });
  const bytes = new Uint8Array(1024);
  assert.throws(() => {
    while (true) file.writeSync(bytes);
  });
}

Deno.test("a call that waits is listed, and the next step named", async () => {
  await using daemons = await start();
  using client = await RawClient.connect(daemons.home.layout.brokerSocket);
  await client.send(frame("tool_request", readFile("s1", "c1", "/n/a")));
  assert.equal((await client.next())?.kind, "tool_response");
  const { code, lines } = await daemons.status();
  assert.deepEqual(
    lines,
    except({
      "audit log": ["ok       audit log     record 0 of TIME (AGO) in FILE"],
      approvals: [
        "ok       approvals     1 waits for you",
        "                       0  session s1  read_file  expires soon",
        "                       bxctl approvals",
      ],
    }, "1 to look at"),
  );
  assert.equal(code, 0);
});

Deno.test("as many calls as may wait are a trouble, and one fewer is none", async () => {
  await using daemons = await start();
  const clients: RawClient[] = [];
  try {
    const ask = async (n: number) => {
      const client = await RawClient.connect(daemons.home.layout.brokerSocket);
      clients.push(client);
      await client.send(
        frame("tool_request", readFile(`s${Math.floor(n / 16)}`, `c${n}`, "/n/a")),
      );
      assert.equal((await client.next())?.final, false);
    };
    for (let n = 0; n < 127; n += 1) await ask(n);
    const almost = await daemons.status();
    assert.equal(almost.code, 0);
    assert.ok(almost.lines.includes("ok       approvals     127 wait for you"));
    assert.ok(almost.lines.some((line) => line.trim() === "and 111 more"), almost.lines.join("\n"));
    await ask(127);
    const { code, lines } = await daemons.status();
    const full =
      "wrong    approvals     128 wait for you, as many as may; further calls that ask fail";
    assert.ok(lines.includes(full), lines.join("\n"));
    assert.equal(code, 1);
    assert.ok(entriesIn(lines).includes("approvals-full"));
  } finally {
    for (const client of clients) client[Symbol.dispose]();
  }
});

Deno.test("what brokerd and loopd told their operators and has not ended is said", async () => {
  await using daemons = await start();
  const { layout } = daemons.home;
  Deno.writeTextFileSync(`${layout.brokerSessions}/s1.json`, "{");
  assert.equal(await call(daemons, "c1"), "state_unreadable");
  const { code, lines } = await daemons.status();
  assert.equal(code, 1);
  const at = lines.findIndex((line) => line.startsWith("wrong    state s1"));
  assert.match(
    lines[at] ?? "",
    /every call of session s1 is denied: HOME\/broker\/sessions\/s1\.json/,
  );
  assert.ok(entriesIn(lines).includes("broker-state-damaged"));
  Deno.removeSync(`${layout.brokerSessions}/s1.json`);
  assert.equal(await call(daemons, "c2"), "no_grant");
  assert.equal((await daemons.status()).code, 0);
});

Deno.test({
  name: "an image that is missing is said, with the command that makes it",
  ignore: onPath("podman") === null, // podman says whether an image is there
  async fn() {
    const image = `sha256:${"0".repeat(64)}`;
    const podman = onPath("podman") ?? "";
    const more = `[runner]\nruntime = "podman"\npodman = "${podman}"\nimage = "${image}"\n`;
    await using daemons = await Daemons.start({ more, prepare: withGrant });
    const { code, lines } = await daemons.status();
    assert.deepEqual(lines.slice(-3), [
      `wrong    tools' image  ${image} is not there, so no tool runs`,
      "                       deno task image; see docs/runbook.md#image-missing",
      "1 wrong",
    ]);
    assert.equal(code, 1);
    entriesIn(lines);
  },
});

toolTest(
  "with its image all is right, and a call that runs is listed until it has ended",
  async () => {
    const table = Object.entries(await runnerHere())
      .map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`).join("");
    await using daemons = await Daemons.start({
      more: `[runner]\n${table}`,
      prepare: (home) => home.grant("shell", 'tool = "shell"\nmode = "auto"\n'),
    });
    const { home } = daemons;
    const { image } = await runnerHere();
    const idle = await daemons.status();
    assert.deepEqual(idle.lines.slice(-3), [
      "ok       calls         none run",
      `ok       tools' image  ${image}`,
      "all right",
    ]);
    const running = callTool(home, "shell", { command: "sleep 600" });
    await until("a container", async () => (await containersOf(home)).length > 0);
    const { code, lines } = await daemons.status();
    const at = lines.indexOf("ok       calls         1 runs or waits for a turn");
    assert.deepEqual(lines.slice(at + 1, at + 3), [
      "                       0  session s1  shell  since TIME (AGO)",
      "                       bxctl audit show SEQ",
    ]);
    assert.equal(code, 0);
    const [id = ""] = await containersOf(home);
    run((await runnerHere()).podman, "rm", "--force", "--time=0", id);
    await running;
    await noContainerOf(home);
    assert.deepEqual(
      (await daemons.status()).lines.filter((line) => line.includes(" calls ")),
      ["ok       calls         none run"],
    );
  },
);
