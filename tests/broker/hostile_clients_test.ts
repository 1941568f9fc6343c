/**
 * Clients that are slow, silent, too many or gone, at the real brokerd (contracts 2 and 4): a client beside them
 * is answered, nothing is lost, no file stays open, and the memory stays within a bound that is stated here.
 */
import assert from "node:assert/strict";
import { Call } from "../../proto/io/client.ts";
import type { Message } from "../../proto/messages.ts";
import {
  ask,
  type Broker,
  DEADLINE_MS,
  forEach,
  frame,
  RawClient,
  readFile,
  startBroker,
  TempHome,
  until,
  within,
} from "../support/broker.ts";
import { holding } from "../support/hostile.ts";
import { answersOn, atOnce, exchange, filesBackTo, pour } from "../support/hostile_client.ts";
import { recordsIn, verifyDirectory } from "../support/log.ts";
import { runs } from "../support/long.ts";

const MIB = 1024 * 1024;
/** Connections of a socket that may wait with their request unfinished; calls that may wait for the owner. */
const MAX_WAITING = 128;
const MAX_PENDING = 128;
const MAX_PENDING_PER_SESSION = 16;

/** What brokerd's memory is bounded by, in MiB, whatever clients do: 1,536 in all. */
const BOUND = {
  /** At rest, with what the runtime has let go and not given back yet. */
  base: 256,
  /** An unfinished request is less than 1 MiB, in a buffer that is doubled: 1.5 MiB while that is done. */
  unfinished: 2 * MAX_WAITING * 1.5,
  /** A pending call: the line it came in, at most 1 MiB, and its text, in which a character may take 2 bytes. */
  pending: MAX_PENDING * 3,
  /** Answers that nobody reads are 256 MiB on each of two sockets. */
  unread: 2 * 256,
} as const;

function staysBelow(broker: Broker, ...parts: readonly (keyof typeof BOUND)[]): void {
  const bound = parts.reduce<number>((sum, part) => sum + BOUND[part], BOUND.base);
  const peak = holding(broker.pid).peakKiB / 1024;
  assert(peak < bound, `${Math.round(peak)} MiB at the peak, and the bound is ${bound}`);
}

const grantFor = (tool: string, mode: string, path: string) =>
  `tool = "${tool}"\nmode = "${mode}"\n[constraints]\npaths = ["${path}"]\n`;

/** A brokerd that lets `/n` be read, and asks before `/ask` is read or written. Dispose of it. */
class World implements AsyncDisposable {
  readonly home: TempHome;
  readonly broker: Broker;
  #calls = 0;
  /** Its open files, once the log is open. */
  #files = 0;

  private constructor(home: TempHome, broker: Broker) {
    this.home = home;
    this.broker = broker;
  }

  static async start(): Promise<World> {
    const home = new TempHome("[approvals]\nttl_ms = 600000\n");
    home.grant("read", grantFor("read_file", "auto", "/n"));
    home.grant("ask", grantFor("read_file", "ask", "/ask"));
    home.grant("ask-write", grantFor("write_file", "ask", "/ask"));
    const world = new World(home, await startBroker(home));
    await world.goodCall();
    await world.goodCall();
    world.#files = holding(world.broker.pid).fds;
    return world;
  }

  get brokerSocket(): string {
    return this.home.layout.brokerSocket;
  }

  get adminSocket(): string {
    return this.home.layout.adminSocket;
  }

  /** A call of the client beside, which must be answered rightly. */
  async goodCall(): Promise<void> {
    this.#calls += 1;
    const call = readFile("good", `g${this.#calls}`, "/n/a");
    const request = { kind: "tool_request", final: true, body: call } as const;
    const sent = await Call.open(this.brokerSocket, request, ["tool_response"]);
    const { body } = await sent.next(DEADLINE_MS);
    sent.close();
    assert.deepEqual(body, { status: "failed", message: "the runner arrives in M3b" });
  }

  /** The numbers of the calls that wait for the owner. */
  async pending(): Promise<number[]> {
    const answers = await ask(this.adminSocket, "approvals", {});
    return answers.flatMap((answer) => {
      assert(answer.kind === "approval_list");
      return answer.body.items.map(({ approval }) => approval);
    });
  }

  /**
   * Waits until no connection is left; everyone is served, nothing was lost, the memory stayed within its
   * `parts`, and it stops.
   */
  async unharmed(...parts: readonly (keyof typeof BOUND)[]): Promise<void> {
    await filesBackTo(this.broker.pid, this.#files);
    await this.goodCall();
    assert.deepEqual(await this.pending(), []);
    staysBelow(this.broker, ...parts);
    await this.broker.stop();
    assert.doesNotMatch(this.broker.stderr, /internal error/);
    assert.equal(verifyDirectory(this.home.layout.audit).failure, null);
    const good = this.decisions().filter(({ session }) => session === "good");
    assert.equal(good.length, this.#calls);
  }

  decisions() {
    return recordsIn(this.home.layout.audit)
      .flatMap(({ event }) => event.type === "decision" ? [event] : []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.broker[Symbol.asyncDispose]();
    this.home[Symbol.dispose]();
  }
}

const connect = (path: string) => Deno.connect({ transport: "unix", path });
const bytes = (text: string) => new TextEncoder().encode(text);
const ASK = (session: string, call: string) =>
  bytes(frame("tool_request", readFile(session, call, "/ask/a")));

/** The code of the one error that came; null where none did. */
function codeOf(answers: readonly Message[]): string | null {
  const [answer] = answers;
  return answer?.kind === "error" ? answer.body.code : null;
}

Deno.test("of 1,000 silent connections on each socket 128 wait; the others get timeout, and a call its answer", async () => {
  await using world = await World.start();
  const opened: Deno.Conn[] = [];
  let timeouts = 0;
  const silent = async (path: string) => {
    const conn = await connect(path);
    opened.push(conn);
    void answersOn(conn).then((answers) => {
      if (codeOf(answers) === "timeout") timeouts += 1;
    });
  };
  for (let n = 0; n < 10; n += 1) {
    await atOnce(100, () => silent(world.brokerSocket));
    await atOnce(100, () => silent(world.adminSocket));
    await world.goodCall();
  }
  await until("timeouts of all but 128", () => timeouts >= 2 * (1000 - MAX_WAITING));
  await world.goodCall();
  assert(timeouts <= 2 * (1000 - MAX_WAITING) + 20, "the calls between them closed a few more");
  for (const conn of opened) conn.close();
  await world.unharmed();
});

Deno.test("a request that comes right behind its connection is read, however many come that send nothing", async () => {
  await using world = await World.start();
  let over = false;
  const flood = atOnce(20, async () => {
    while (!over) await connect(world.brokerSocket).then((conn) => conn.close(), () => {});
  });
  try {
    for (let n = 0; n < runs(15, 200); n += 1) await world.goodCall();
  } finally {
    over = true;
    await flood;
  }
  await world.unharmed();
});

Deno.test("unfinished requests of 1 MiB on both sockets take no more than their share of memory", async () => {
  await using world = await World.start();
  const almost = new Uint8Array(MIB - 1).fill(0x5b);
  for (const path of [world.brokerSocket, world.adminSocket]) {
    const conns = await atOnce(MAX_WAITING + 50, async () => {
      const conn = await connect(path);
      await pour(conn, almost);
      return conn;
    });
    await world.goodCall();
    for (const conn of conns) conn.close();
  }
  await world.unharmed("unfinished");
});

Deno.test("slow, half-closed and broken-off requests leave nothing behind and hold nobody up", async () => {
  await using world = await World.start();
  const good = bytes(frame("tool_request", readFile("slow", "c1", "/n/a")));
  const drip = async (index: number) => {
    using conn = await connect(world.brokerSocket);
    const answers = answersOn(conn);
    for (let at = 0; at < good.length; at += 1 + index % 7) {
      await pour(conn, good.subarray(at, at + 1 + index % 7));
      await new Promise((resolve) => setTimeout(resolve, index % 5));
    }
    assert.equal((await answers)[0]?.kind, "tool_response");
  };
  const halfClosed = async () => {
    const answers = await exchange(world.brokerSocket, good, true);
    assert.equal(answers[0]?.kind, "tool_response", "a whole request is answered");
  };
  const brokenOff = async (index: number) => {
    const path = index % 2 === 0 ? world.brokerSocket : world.adminSocket;
    using conn = await connect(path);
    await pour(conn, good.subarray(0, index % good.length));
  };
  // Fewer at once than may wait: none of them is closed for another one.
  const all = Promise.all([atOnce(30, drip), atOnce(30, halfClosed)]);
  for (let n = 0; n < 10; n += 1) {
    await atOnce(30, (index) => brokenOff(30 * n + index));
    await world.goodCall();
  }
  await all;
  await world.unharmed();
  const slow = world.decisions().filter(({ session }) => session === "slow");
  assert.equal(slow.length, 60, "one record for each whole request");
});

Deno.test("clients that hang up without reading lose their answers, and no record", async () => {
  await using world = await World.start();
  const calls = 300;
  await atOnce(calls, async (index) => {
    const conn = await connect(world.brokerSocket);
    await pour(conn, bytes(frame("tool_request", readFile("deaf", `c${index}`, "/n/a"))));
    conn.close();
  });
  const deaf = () => world.decisions().filter(({ session }) => session === "deaf");
  await until("all records", () => deaf().length === calls);
  await world.unharmed();
  assert.equal(new Set(deaf().map(({ call }) => call)).size, calls);
});

Deno.test("arguments of 1 MiB by the hundred are recorded whole", async () => {
  await using world = await World.start();
  const calls = runs(100, 500);
  const sent = new Map<string, string>();
  const cases = Object.fromEntries(Array.from({ length: calls }, (_, n) => [`c${n}`, n]));
  await forEach(cases, async (n, call) => {
    const body = { session: "large", call, tool: "shell", arguments: "" };
    const room = MIB - frame("tool_request", body).length;
    const text = `${n} `.repeat(room).slice(0, room);
    sent.set(call, text);
    const [answer] = await ask(world.brokerSocket, "tool_request", { ...body, arguments: text });
    assert.deepEqual(answer?.body, { status: "denied", reason: "invalid_arguments" });
    if (n % 10 === 0) await world.goodCall();
  });
  await world.unharmed();
  for (const { session, call, arguments: text } of world.decisions()) {
    if (session !== "large") continue;
    assert(text === sent.get(call), `the arguments of ${call}`);
    sent.delete(call);
  }
  assert.equal(sent.size, 0);
});

Deno.test("a flood of calls to ask about: 16 of a session wait, 128 in all, and the others fail", async () => {
  await using world = await World.start();
  const waiting: RawClient[] = [];
  let failed = 0;
  const sessions = 12;
  const each = 20;
  for (let session = 0; session < sessions; session += 1) {
    await atOnce(each, async (index) => {
      const client = await RawClient.connect(world.brokerSocket);
      await client.send(frame("tool_request", readFile(`s${session}`, `c${index}`, "/ask/a")));
      const answer = await client.next();
      assert(answer?.kind === "tool_response");
      if (answer.body.status === "pending_approval") return void waiting.push(client);
      const message = "too many approvals are pending";
      assert.deepEqual(answer.body, { status: "failed", message });
      failed += 1;
      client[Symbol.dispose]();
    });
    const most = Math.min((session + 1) * MAX_PENDING_PER_SESSION, MAX_PENDING);
    assert.equal(waiting.length, most);
    await world.goodCall();
  }
  assert.equal(failed, sessions * each - MAX_PENDING);
  assert.equal((await world.pending()).length, MAX_PENDING);
  for (const client of waiting) client[Symbol.dispose]();
  await until("end of what waited", async () => (await world.pending()).length === 0);
  await world.unharmed("pending");
  const asked = world.decisions().filter(({ outcome }) => outcome.outcome === "ask");
  assert.equal(asked.length, sessions * each, "each has its record");
  const { abandoned } = verifyDirectory(world.home.layout.audit);
  assert.equal(abandoned.length, sessions * each);
});

Deno.test("pending calls of 1 MiB and lists of them that nobody reads stay within their share of memory", async () => {
  await using world = await World.start();
  const content = "x".repeat(MIB - 400);
  const count = runs(40, MAX_PENDING);
  const calls = await atOnce(count, async (index) => {
    const client = await RawClient.connect(world.brokerSocket);
    const session = `s${index % 8}`;
    const body = { session, call: `c${index}`, tool: "write_file" };
    const text = JSON.stringify({ path: "/ask/a", content });
    await client.send(frame("tool_request", { ...body, arguments: text }));
    const answer = await client.next();
    assert(answer?.kind === "tool_response" && answer.body.status === "pending_approval");
    return client;
  });
  staysBelow(world.broker, "pending");
  const deaf = await atOnce(runs(150, 400), async () => {
    const conn = await connect(world.adminSocket);
    await pour(conn, bytes(frame("approvals", {})));
    return conn;
  });
  await world.goodCall();
  // The owner's client still gets the whole list beside them.
  assert.equal((await world.pending()).length, count);
  staysBelow(world.broker, "pending", "unread");
  for (const conn of deaf) conn.close();
  for (const client of calls) client[Symbol.dispose]();
  await world.unharmed("pending", "unread");
});

Deno.test("of 100 approvals of one call at once, one wins", async () => {
  await using world = await World.start();
  for (let round = 0; round < 3; round += 1) {
    using conn = await connect(world.brokerSocket);
    await pour(conn, ASK("asking", `c${round}`));
    const answers = answersOn(conn);
    let approval: number | undefined;
    await until("pending call", async () => {
      [approval] = await world.pending();
      return approval !== undefined;
    });
    const given = await atOnce(
      100,
      () => exchange(world.adminSocket, bytes(frame("approve", { approval }))),
    );
    const won = given.filter(([answer]) => answer?.kind === "approve_result");
    assert.equal(won.length, 1);
    assert.equal(given.filter((one) => codeOf(one) === "no_such_approval").length, 99);
    const [, last] = await within("end of the call", answers);
    assert(last?.kind === "tool_response" && last.final);
  }
  await world.unharmed();
  const events = recordsIn(world.home.layout.audit).map(({ event }) => event);
  const approvals = events.filter(({ type }) => type === "approval");
  assert.equal(approvals.length, 3);
  const results = events.filter((event) => event.type === "result" && event.session === "asking");
  assert.equal(results.length, 3);
});
