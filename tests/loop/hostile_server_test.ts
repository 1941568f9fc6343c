/**
 * A hostile model server against the real loopd under its own locks, brokerd beside it. Whatever it sends,
 * the turn ends in words for the owner, loopd keeps within its memory, and a good chat beside it is served.
 */
import assert from "node:assert/strict";
import { prepareHome, TempHome } from "../../scripts/support/home.ts";
import { Stack } from "../../scripts/support/stack.ts";
import type { Home } from "../../scripts/support/home.ts";
import type { Message, TurnEvent } from "../../proto/messages.ts";
import { forEach, frame, RawClient, until, within } from "../support/broker.ts";
import { holding } from "../support/hostile.ts";
import { type Case, casesFor, OK, SILENT, text } from "../support/hostile_answers.ts";
import {
  besideGoodChats,
  head,
  HIDDEN_BUT_NEWLINE,
  HostileLlama,
  lastOf,
  type Plain,
} from "../support/hostile_llama.ts";
import { saying } from "../support/llama.ts";
import { logged, LoopHome, LoopProcess, OpenTurn, textOf } from "../support/loop.ts";

/** The longest silence that loopd is configured for, in milliseconds. */
const TIMEOUT_MS = 8000;
/** The same where nothing else runs beside. */
const DRIP_TIMEOUT_MS = 3000;
/** How long one case may take, on a machine that is busy. */
const CASE_MS = 120_000;
/** What loopd may hold at its peak, in KiB, with four hostile answers at once. */
const MAX_PEAK_KIB = 1024 * 1024;

/** A home whose loopd gives a silent server up soon. */
function homeFor(path: string): Home {
  const home = prepareHome(path);
  Deno.writeTextFileSync(home.loopConfig, `timeout_ms = ${TIMEOUT_MS}\n`, { append: true });
  return home;
}

/** One whole turn, its frames read with no more care than their size allows. */
async function turnOf(path: string, session: string, text: string): Promise<TurnEvent[]> {
  using client = await RawClient.connect(path);
  await client.send(frame("chat", { session, text }));
  const events: TurnEvent[] = [];
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for (let line = await client.line(); line !== null; line = await client.line()) {
    const { body }: Message<"turn_event"> = JSON.parse(decoder.decode(line));
    events.push(body);
  }
  return events;
}

/** How `events` differ from what `ends` and `shows` say, or null. */
function problemOf(events: readonly TurnEvent[], { ends, shows }: Case): string | null {
  const last = events.at(-1);
  const end = last?.type === "failed" ? last.message : last?.type ?? "nothing";
  if (ends === "done" ? last?.type !== "done" : !ends.test(end)) return end;
  const shown = textOf(events);
  return shows === undefined || shows === shown ? null : `it shows ${shown}`;
}

Deno.test("whatever a model server sends, the turn ends in words, and a good chat beside it is served", async () => {
  using temp = new TempHome("test", false);
  const home = homeFor(temp.path);
  let knocked = 0;
  await using elsewhere = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => {
    knocked += 1;
    return new Response(saying("elsewhere"));
  });
  const cases = casesFor(`http://127.0.0.1:${elsewhere.addr.port}`);
  await using llama = new HostileLlama(async (request, wire) => {
    const { role, content } = lastOf(request);
    const play = role === "user" ? cases[content]?.play ?? OK + saying("good") : OK + saying("end");
    if (typeof play === "function") await play(wire);
    else await wire.send(play);
  });
  await using stack = new Stack({ home, llama: llama.url });
  await stack.start();
  const loopd = stack.daemons.find(({ name }) => name === "loopd");
  assert(loopd !== undefined);
  const socket = home.layout.loopSocket;

  const problems: string[] = [];
  let number = 0;
  const check = async (one: Case, name: string) => {
    number += 1;
    const events = await within(`end of ${name}`, turnOf(socket, `case-${number}`, name), CASE_MS);
    const problem = problemOf(events, one);
    if (problem !== null) problems.push(`${name}: ${problem}`);
  };
  const all = Object.entries(cases);
  const slow = all.filter(([, { ends }]) => ends === SILENT);
  const others = Object.fromEntries(all.filter(([, { ends }]) => ends !== SILENT));
  await besideGoodChats(socket, async () => {
    await Promise.all([forEach(others, check), ...slow.map(([name, one]) => check(one, name))]);
  });
  assert.deepEqual(problems, []);
  assert.equal(knocked, 0);
  // Every connection has been given back.
  await until("end of the connections", () => llama.open === 0);
  const { peakKiB } = holding(loopd.pid);
  assert(peakKiB < MAX_PEAK_KIB, `loopd had ${peakKiB} KiB at its peak`);
  const said = loopd.lines.join("\n");
  assert.doesNotMatch(said, /internal error/);
  assert.doesNotMatch(said, HIDDEN_BUT_NEWLINE);
  temp.done();
});

Deno.test("an answer that drips goes on for longer than any silence may last, until its owner leaves", async () => {
  let drops = 0;
  await using llama = new HostileLlama(async (_, wire) => {
    await wire.send(OK + text("a"));
    for (; true; drops++) {
      await wire.send(": ping\n\n");
      await new Promise((resolve) => setTimeout(resolve, DRIP_TIMEOUT_MS / 10));
    }
  });
  using home = new LoopHome(llama.url, {
    llama: `timeout_ms = ${DRIP_TIMEOUT_MS}\n`,
    broker: false,
  });
  await using _loop = await LoopProcess.start(home);
  {
    using turn = await OpenTurn.start(home.layout.loopSocket, "s1", "x");
    await turn.until("text");
    await until("longer drip than a silence may last", () => drops > 12);
    assert.equal(llama.open, 1);
  }
  await until("end of the request", () => llama.open === 0);
  await logged(home, "s1", "end");
  assert.equal(home.entries("s1").at(-1)?.outcome, "interrupted");
});

Deno.test("64 turns run at once, one more is told so, and has its place once one of them has ended", async () => {
  await using llama = new HostileLlama((request, wire) =>
    lastOf(request).content === "hold" ? wire.silence() : wire.send(OK + saying("good"))
  );
  using home = new LoopHome(llama.url, { broker: false });
  await using loop = await LoopProcess.start(home);
  using turns = new DisposableStack();
  const first = await OpenTurn.start(home.layout.loopSocket, "held-0", "hold");
  for (let count = 1; count < 64; count++) {
    turns.use(await OpenTurn.start(home.layout.loopSocket, `held-${count}`, "hold"));
  }
  await until("64 requests", () => llama.open === 64);
  assert.deepEqual(await loop.chat("one-more", "x"), [
    { type: "session", session: "one-more" },
    {
      type: "failed",
      message: "64 turns are running already; try again once one of them has ended",
    },
  ]);
  assert.equal(llama.open, 64);
  first[Symbol.dispose]();
  await until(
    "place for one more",
    async () => textOf(await loop.chat("one-more", "x")) === "good",
  );
});

/** What `GET /health` or `GET /tools` may be answered, and what loopd then says. */
const START_CASES: Readonly<Record<string, readonly [Partial<Plain>, RegExp]>> = {
  "health: nothing": [{ health: "" }, /failed: the connection to the model server failed/],
  "health: no HTTP": [{ health: "\u001b[2J\u202e" }, /failed: the connection to the model server/],
  "health: a redirect": [
    { health: head("302 Found", "location: http://127.0.0.1:1/") },
    /failed: GET \/health answered 302\n/,
  ],
  "health: escapes": [
    { health: `${head("418 \u001b[2J")}\u001b[2J` },
    /GET \/health answered 418\n/,
  ],
  "tools: a name of escapes": [
    { tools: `${OK}[{"name":"\\u001b[2J\\u202e\\ud800"}]` },
    /runs tools itself: \\u001b\[2J\\u202e\ufffd\n/,
  ],
  "tools: no list": [
    { tools: `${OK}\u001b[2J` },
    /answered something that is not a list of tools\n/,
  ],
  "tools: a list as deep as it goes": [
    { tools: `${OK}${"[".repeat(200_000)}${"]".repeat(200_000)}` },
    /runs tools itself: a tool without a name\n/,
  ],
  "tools: a list over 1 MiB": [
    { tools: `${OK}[${"1,".repeat(600_000)}1]` },
    /is not a list of tools\n/,
  ],
  "tools: half a million": [
    { tools: `${OK}[${"1,".repeat(500_000)}1]` },
    /runs tools itself: a tool/,
  ],
};

Deno.test("whatever a model server answers at the start, loopd says so and ends, and a good one is taken", async () => {
  await using llama = new HostileLlama((_, wire) => wire.send(OK + saying("good")));
  const good = { ...llama.plain };
  using home = new LoopHome(llama.url, { broker: false });
  for (const [name, [plain, words]] of Object.entries(START_CASES)) {
    Object.assign(llama.plain, good, plain);
    await using loop = new LoopProcess(home);
    const { code, stderr } = await loop.ended();
    assert.equal(code, 1, name);
    assert.match(stderr, words, name);
    assert.doesNotMatch(stderr, HIDDEN_BUT_NEWLINE, name);
    assert(stderr.length < 3000, `${name}: ${stderr.length} characters`);
  }
  Object.assign(llama.plain, good);
  await using loop = await LoopProcess.start(home);
  assert.equal(textOf(await loop.chat("s1", "x")), "good");
});
