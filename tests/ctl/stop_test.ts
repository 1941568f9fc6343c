/** Ctrl-C in a turn, as loopd hears of it. */
import assert from "node:assert/strict";
import { Stopper } from "../../ctl/stop.ts";
import { until } from "../support/broker.ts";
import { CtlHome, Terminal } from "../support/ctl.ts";
import { FakeLoop, Gate } from "../support/daemons.ts";

/** A stopper, and what it did. */
function stopping(path: string): { stopper: Stopper; did: string[] } {
  const did: string[] = [];
  const note = (what: string) => () => void did.push(what);
  const told = { stopping: note("stopping"), hangUp: note("hung up"), leave: note("left") };
  return { stopper: new Stopper({ path, ...told }), did };
}

Deno.test("a stop goes out once, as soon as the session is known, and is waited for", async () => {
  using home = new CtlHome();
  using loop = new FakeLoop(home.layout.loopSocket);
  const answered = new Gate();
  loop.stopped = () => answered.opened;
  const { stopper, did } = stopping(home.layout.loopSocket);
  await stopper.settled();
  stopper.press();
  assert.deepEqual([did, loop.stops, stopper.signal.aborted], [["stopping"], [], true]);
  stopper.known("chat-1");
  stopper.known("chat-1");
  await until("the stop", () => loop.stops.length === 1);
  let settled = false;
  const waiting = stopper.settled().then(() => settled = true);
  stopper.press();
  assert.deepEqual([did, settled], [["stopping", "left"], false]);
  answered.open();
  await waiting;
  assert.deepEqual([loop.stops, did], [["chat-1"], ["stopping", "left"]]);
});

Deno.test("without Ctrl-C nothing is stopped", async () => {
  using home = new CtlHome();
  using loop = new FakeLoop(home.layout.loopSocket);
  const { stopper, did } = stopping(home.layout.loopSocket);
  stopper.known("chat-1");
  await stopper.settled();
  assert.deepEqual([did, loop.stops, stopper.signal.aborted], [[], [], false]);
});

Deno.test("where loopd refuses to stop, or is not there, its client hangs up", async () => {
  using home = new CtlHome();
  {
    using loop = new FakeLoop(home.layout.loopSocket);
    const body = { code: "internal", message: "" } as const;
    loop.stopAnswer = { kind: "error", final: true, body };
    const { stopper, did } = stopping(home.layout.loopSocket);
    stopper.known("chat-1");
    stopper.press();
    await stopper.settled();
    assert.deepEqual(did, ["stopping", "hung up"]);
  }
  const { stopper, did } = stopping(home.layout.loopSocket);
  stopper.known("chat-1");
  stopper.press();
  await stopper.settled();
  assert.deepEqual(did, ["stopping", "hung up"]);
});

Deno.test("a chat that had to hang up says so, and goes on", async () => {
  using home = new CtlHome();
  using loop = new FakeLoop(home.layout.loopSocket, async (send) => {
    await send({ type: "text", text: "half" });
    await new Promise(() => {});
  }, async (send) => {
    await send({ type: "text", text: "next" });
    await send({ type: "done" });
  });
  const body = { code: "bad_frame", message: "unknown kind" } as const;
  loop.stopAnswer = { kind: "error", final: true, body };
  await using terminal = new Terminal(home.layout.home, ["chat"]);
  await terminal.shows("> ");
  await terminal.type("hello\n");
  await terminal.shows("half");
  await terminal.type("\x03");
  await terminal.shows("bxctl: hung up on loopd, which ends the turn\r\n> ");
  await terminal.type("again\n");
  await terminal.shows("next\r\n> ");
  assert.deepEqual(loop.requests.map(({ session }) => session), [null, "chat-1"]);
});
