/** The one end of a pending call (contracts 4), whoever comes with it and whatever the log does. */
import assert from "node:assert/strict";
import { handleToolRequest } from "../../broker/broker.ts";
import { denied } from "../../proto/decisions.ts";
import { timestamp } from "../../proto/ids.ts";
import type { Message, ToolRequest } from "../../proto/messages.ts";
import {
  approvalsOf,
  asking,
  type DecisionPath,
  deny,
  isOpen,
  RAN,
  reading,
  TTL_MS,
  turn,
} from "../support/decision_path.ts";
import { diskFull } from "../support/watched_files.ts";

// ── One winner ──────────────────────────────────────────────────────────────────────────────────

/** What may end a pending call, with what it gives to whoever did it, the call's answer and the record. */
const ENDERS = {
  approve: {
    act: (path: DecisionPath, approval: number): unknown => path.pipeline.approve(approval),
    wins: { outcome: "ask" },
    answer: RAN,
    record: "approved",
  },
  "another approve": {
    act: (path: DecisionPath, approval: number): unknown => path.pipeline.approve(approval),
    wins: { outcome: "ask" },
    answer: RAN,
    record: "approved",
  },
  refuse: {
    act: (path: DecisionPath, approval: number): unknown => path.pipeline.refuse(approval, null),
    wins: "ok",
    answer: deny("approval_refused"),
    record: "refused",
  },
  expiry: {
    act: (path: DecisionPath): unknown => {
      path.now += TTL_MS;
      return path.pipeline.expire();
    },
    wins: undefined,
    answer: deny("approval_expired"),
    record: "expired",
  },
  "a dropped connection": {
    act: (path: DecisionPath, approval: number): unknown => path.pipeline.lost(approval),
    wins: undefined,
    answer: null,
    record: null,
  },
} as const;
type Ender = keyof typeof ENDERS;

/** Every order of two or more of the enders. */
function orders(): Ender[][] {
  const longer = (start: readonly Ender[]): Ender[][] =>
    (Object.keys(ENDERS) as Ender[]).filter((name) => !start.includes(name))
      .map((name) => [...start, name])
      .flatMap((order) => [order, ...longer(order)]);
  return longer([]).filter((order) => order.length >= 2);
}

/** How far apart the enders come, each in a task of its own. */
const SPACING = {
  "in one step": null,
  "at the same time": () => Promise.resolve(),
  "one microtask apart": async (at: number) => {
    for (let n = 0; n < at; n += 1) await Promise.resolve();
  },
  "one microtask apart, backwards": async (at: number) => {
    for (let n = 5; n > at; n -= 1) await Promise.resolve();
  },
  "one turn apart": async (at: number) => {
    for (let n = 0; n < at; n += 1) await turn();
  },
} as const satisfies Record<string, ((at: number) => Promise<void>) | null>;

for (const [spacing, wait] of Object.entries(SPACING)) {
  Deno.test(`approve against approve, refuse, expiry and a dropped connection: one winner each time (${spacing})`, async () => {
    using path = asking();
    const all = orders();
    assert.equal(all.length, 20 + 60 + 120 + 120);
    const recorded: string[][] = [];
    for (const [n, order] of all.entries()) {
      const { answer, approval } = path.ask(reading("s1", `c${n}`));
      const answers: unknown[] = [];
      void answer.then((one) => answers.push(one));
      const ran = path.runtime.runs.length;
      /** Who came, in order, and what they got. */
      const came: { name: Ender; got: unknown }[] = [];
      const act = (name: Ender) => void came.push({ name, got: ENDERS[name].act(path, approval) });
      if (wait === null) order.forEach(act);
      else await Promise.all(order.map((name, at) => wait(at).then(() => act(name))));
      await turn();

      const what = order.join(", ");
      const [first] = came;
      assert.ok(first !== undefined && came.length === order.length, what);
      const { wins, answer: expected, record } = ENDERS[first.name];
      assert.deepEqual(first.got, wins, `${what}: the first wins`);
      for (const { name, got } of came.slice(1)) {
        const nothing = ENDERS[name].wins === undefined ? undefined : "no_such_approval";
        assert.deepEqual(got, nothing, `${what}: ${name} comes second`);
      }
      assert.deepEqual(answers, [expected], `${what}: one answer`);
      const runs = record === "approved";
      recorded.push([
        `c${n} decision`,
        ...(record === null ? [] : [`c${n} ${record}`]),
        ...(runs ? [`c${n} result`] : []),
      ]);
      assert.equal(path.runtime.runs.length - ran, runs ? 1 : 0, what);
      assert.deepEqual(path.pipeline.pending(), [], what);
    }
    const events = path.events().map((event) =>
      `${"call" in event && event.call} ${event.type === "approval" ? event.answer : event.type}`
    );
    assert.deepEqual(events, recorded.flat());
    assert.equal(path.report().failure, null);
  });
}

// ── The log cannot be written ───────────────────────────────────────────────────────────────────

Deno.test("an answer that cannot be recorded takes no effect, and has used the approval up", async () => {
  const ends: Readonly<
    Record<string, readonly [(path: DecisionPath, id: number) => unknown, unknown]>
  > = {
    approve: [(path, id) => path.pipeline.approve(id), denied("audit_unavailable")],
    refuse: [(path, id) => path.pipeline.refuse(id, "no"), "audit_unavailable"],
    expiry: [(path) => {
      path.now += TTL_MS;
      return path.pipeline.expire();
    }, undefined],
  };
  for (const [what, [end, told]] of Object.entries(ends)) {
    using path = asking();
    const { answer, approval } = path.ask(reading("s1", "c1"));
    path.files.fault = ({ what }) => what === "write" ? diskFull() : null;
    assert.deepEqual(end(path, approval), told, what);
    assert.deepEqual(await answer, deny("audit_unavailable"), what);
    assert.equal(path.runtime.runs.length, 0, what);
    assert.deepEqual(approvalsOf(path), [], what);
    path.files.fault = () => null;
    assert.equal(path.pipeline.approve(approval), "no_such_approval", what);
    const other = path.ask(reading("s1", "c2"));
    path.pipeline.approve(other.approval);
    assert.deepEqual(await other.answer, RAN, `${what}: the same call once the disk has room`);
    assert.equal(path.report().failure, null);
    assert.deepEqual(path.report().abandoned, [approval]);
  }
});

// ── The client of a pending call ────────────────────────────────────────────────────────────────

/** A client of broker.sock as the handler sees it. */
class Client {
  readonly got: Message[] = [];
  readonly #gone = Promise.withResolvers<void>();
  /** Whether it reads. */
  reads = true;

  send(message: Message): Promise<boolean> {
    if (this.reads) this.got.push(message);
    return Promise.resolve(this.reads);
  }

  whenGone(): Promise<void> {
    return this.#gone.promise;
  }

  goes(): void {
    this.reads = false;
    this.#gone.resolve();
  }
}

function requests(path: DecisionPath, client: Client, body: ToolRequest): Promise<void> {
  return handleToolRequest(path.pipeline, { kind: "tool_request", final: true, body }, client);
}

Deno.test("a client is told that its call waits, and then how it ended", async () => {
  using path = asking();
  const client = new Client();
  const handled = requests(path, client, reading("s1", "c1"));
  assert.ok(await isOpen(handled));
  const expires = timestamp(path.now + TTL_MS);
  const pending = { status: "pending_approval", approval: 0, expires } as const;
  const first = { kind: "tool_response", final: false, body: pending };
  assert.deepEqual(client.got, [first]);
  path.pipeline.approve(0);
  await handled;
  assert.deepEqual(client.got, [first, { kind: "tool_response", final: true, body: RAN }]);
});

Deno.test("a client that goes away while its call waits has lost it", async () => {
  using path = asking();
  const client = new Client();
  const handled = requests(path, client, reading("s1", "c1"));
  await turn();
  client.goes();
  await handled;
  assert.deepEqual(path.pipeline.pending(), []);
  assert.deepEqual(path.report().abandoned, [0]);
  assert.equal(client.got.length, 1);
});

Deno.test("a client that is gone before it is told has lost its call", async () => {
  using path = asking();
  const client = new Client();
  client.goes();
  await requests(path, client, reading("s1", "c1"));
  assert.deepEqual(path.pipeline.pending(), []);
  assert.deepEqual(path.report().abandoned, [0]);
  assert.equal(path.runtime.runs.length, 0);
});

Deno.test("a client that goes as the owner approves: the call runs and is recorded, or is lost", async () => {
  for (const approvesFirst of [true, false]) {
    using path = asking();
    const client = new Client();
    const handled = requests(path, client, reading("s1", "c1"));
    await turn();
    if (approvesFirst) assert.deepEqual(path.pipeline.approve(0), { outcome: "ask" });
    client.goes();
    if (!approvesFirst) {
      await turn();
      assert.equal(path.pipeline.approve(0), "no_such_approval");
    }
    await handled;
    const kinds = path.events().map(({ type }) => type);
    assert.deepEqual(kinds, approvesFirst ? ["decision", "approval", "result"] : ["decision"]);
    assert.equal(path.runtime.runs.length, approvesFirst ? 1 : 0);
  }
});
