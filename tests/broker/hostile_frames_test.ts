/**
 * Bad frames on every socket of the real daemons (contracts 2): each gets its error or its end, none reaches the
 * log, and a client beside them is answered as if they were not there.
 */
import assert from "node:assert/strict";
import type { Message } from "../../proto/messages.ts";
import { ask, forEach, readFile, startBroker, TempHome } from "../support/broker.ts";
import { type BadFrame, badFrames, CORPUS } from "../support/bad_frames.ts";
import { expectedOf, type Socket } from "../support/frame_oracle.ts";
import { holding } from "../support/hostile.ts";
import { exchange, filesBackTo } from "../support/hostile_client.ts";
import { FakeLlama, saying } from "../support/llama.ts";
import { recordsIn, verifyDirectory } from "../support/log.ts";
import { runs } from "../support/long.ts";
import { LoopHome, LoopProcess } from "../support/loop.ts";

/** Of the damages, every so manieth is tried. It has no factor in common with their number at a place. */
const EVERY = runs(7, 1);

/** The damages of `socket` that are tried, by name. */
function tried(socket: Socket): Record<string, BadFrame> {
  const chosen = [...badFrames(socket)].filter((_, index) => index % EVERY === 0);
  return Object.fromEntries(chosen.map((frame) => [frame.what, frame]));
}

/** What a daemon made of a frame, in the words of the oracle. */
function madeOf(answers: readonly Message[]): string {
  const [answer] = answers;
  if (answer === undefined) return "closed";
  if (answer.kind !== "error" || answer.body.code === "no_such_approval") return "taken";
  assert.equal(answers.length, 1, "one error");
  assert.equal(answer.final, true);
  return answer.body.code;
}

/** Sends each of `frames`, and gives how many of them were requests. */
async function sendAll(path: string, frames: Readonly<Record<string, BadFrame>>): Promise<number> {
  let taken = 0;
  await forEach(frames, async ({ bytes, expected }) => {
    const made = madeOf(await exchange(path, bytes, expected === "closed"));
    assert.equal(made, expected);
    if (made === "taken") taken += 1;
  });
  return taken;
}

/** A client that does as it should, from now until it is asked to stop. Gives the number of its calls. */
function goodClient(path: string): { stop: () => Promise<number> } {
  let stopped = false;
  const calling = async () => {
    let calls = 0;
    for (; !stopped; calls += 1) {
      const answers = await ask(path, "tool_request", readFile("good", `g${calls}`, "/n/a"));
      const body = { status: "failed", message: "the runner arrives in M3b" };
      assert.deepEqual(answers, [{ kind: "tool_response", final: true, body }]);
      // It leaves the others most of the machine.
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return calls;
  };
  const ended = calling();
  return {
    stop: () => {
      stopped = true;
      return ended;
    },
  };
}

const READ = 'tool = "read_file"\nmode = "auto"\n[constraints]\npaths = ["/n"]\n';

/** Sends `frames` to a socket of a brokerd that serves a good client at the same time. */
async function beside(
  socket: "broker.sock" | "admin.sock",
  frames: Readonly<Record<string, BadFrame>>,
): Promise<void> {
  using home = new TempHome();
  home.grant("read", READ);
  await using broker = await startBroker(home);
  const { brokerSocket, adminSocket, audit } = home.layout;
  const before = { said: broker.stderr, fds: holding(broker.pid).fds };
  const good = goodClient(brokerSocket);
  const path = socket === "broker.sock" ? brokerSocket : adminSocket;
  let calls = 0;
  let taken: number;
  try {
    taken = await sendAll(path, frames);
  } finally {
    calls = await good.stop();
  }
  assert(calls > 0);
  assert.deepEqual(await ask(adminSocket, "approvals", {}), [
    { kind: "approval_list", final: true, body: { items: [] } },
  ]);
  // The log's own file and head.json are open since the first call.
  await filesBackTo(broker.pid, before.fds + 2);
  assert.equal(broker.stderr, before.said, "nothing is said of a bad frame");
  const records = recordsIn(audit);
  const of = (session: (name: string) => boolean) =>
    records.filter(({ event }) => event.type === "decision" && session(event.session)).length;
  assert.equal(of((name) => name === "good"), calls);
  const others = socket === "broker.sock" ? taken : 0;
  assert.equal(of((name) => name !== "good"), others, "a record for each request, and no other");
  assert.equal(records.length, 2 * calls + others);
  await broker.stop();
  assert.equal(verifyDirectory(audit).failure, null);
}

Deno.test("the corpus says of each case what the oracle says", { permissions: "none" }, () => {
  for (const { what, bytes, expected } of CORPUS) {
    assert.equal(expectedOf("broker.sock", bytes), expected, what);
  }
});

Deno.test(
  "there are over 1,000 damages, each with a name of its own",
  { permissions: "none" },
  () => {
    for (const socket of ["broker.sock", "admin.sock", "loop.sock"] as const) {
      const frames = [...badFrames(socket)];
      assert(frames.length > 1000, socket);
      assert.equal(new Set(frames.map(({ what }) => what)).size, frames.length, socket);
      for (const expected of ["taken", "closed", "bad_frame", "unsupported_version"]) {
        assert(frames.some((frame) => frame.expected === expected), `${expected} on ${socket}`);
      }
    }
  },
);

Deno.test("each frame of the corpus gets its answer from brokerd, and a good client its own", async () => {
  await beside("broker.sock", Object.fromEntries(CORPUS.map((frame) => [frame.what, frame])));
});

for (const socket of ["broker.sock", "admin.sock"] as const) {
  Deno.test(`${socket}: each damaged frame gets its answer, and a good client its own`, async () => {
    await beside(socket, tried(socket));
  });
}

Deno.test("loop.sock: each damaged frame gets its answer, and a good client its own", async () => {
  await using llama = new FakeLlama();
  using home = new LoopHome(llama.url, { broker: false });
  await using loop = await LoopProcess.start(home);
  const frames = tried("loop.sock");
  const good = Object.values(frames).filter(({ expected }) => expected === "taken");
  const taken = good.length;
  // The model does not hear of the others.
  const isChat = (bytes: Uint8Array) => new TextDecoder().decode(bytes).includes('"kind":"chat"');
  const chats = good.filter(({ bytes }) => isChat(bytes)).length;
  assert(chats > 0 && chats < taken);
  llama.replies.push(...Array.from({ length: chats + 1 }, () => saying("well")));
  const before = { said: loop.stderr, fds: holding(loop.pid).fds };
  const chat = loop.chat("good", "hello");
  assert.equal(await sendAll(home.layout.loopSocket, frames), taken);
  assert.equal((await chat).at(-1)?.type, "done");
  await filesBackTo(loop.pid, before.fds);
  assert.equal(loop.stderr, before.said, "nothing is said of a bad frame");
  assert.equal(llama.requests.length, chats + 1);
});
