/**
 * `kill -9` of the real brokerd at random moments, with clients at work: every answer that left has its
 * records, the log verifies, and the next start goes on. `BOXMAKER_SEED` runs a round of moments again.
 */
import assert from "node:assert/strict";
import type { AuditEvent } from "../../proto/audit.ts";
import { sha256 } from "../../proto/ids.ts";
import type { Body, Message, ToolRequest } from "../../proto/messages.ts";
import { utf8 } from "../../proto/text.ts";
import { type Broker, frame, RawClient, startBroker, TempHome, within } from "../support/broker.ts";
import { recordsIn, verifyDirectory } from "../support/log.ts";

const ROUNDS = 15;
const CLIENTS = 6;
const SESSIONS = 12;

type Random = () => number;

/** mulberry32: numbers from 0 to 1. */
function random(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const below = (next: Random, count: number) => Math.floor(next() * count);

/** What a client was told, and of which call. */
interface Told {
  readonly request: ToolRequest;
  readonly answer: Message;
}

/** A grant of each mode, for the paths below its name. */
function grants(home: TempHome): void {
  for (const mode of ["auto", "ask", "deny"]) {
    home.grant(
      mode,
      `tool = "read_file"\nmode = "${mode}"\n[constraints]\npaths = ["/${mode}"]\n`,
    );
  }
}

/** Sends a request and hands each answer to `take` until the connection ends. */
async function exchange(
  path: string,
  request: string,
  take: (answer: Message) => Promise<void> | void,
): Promise<void> {
  using client = await RawClient.connect(path);
  await client.send(request);
  for (let answer = await client.next(); answer !== null; answer = await client.next()) {
    await take(answer);
    if (answer.final) return;
  }
}

/** Calls, one after another, and answers for the owner where a call asks, until brokerd is gone. */
async function work(
  home: TempHome,
  name: string,
  next: Random,
  tell: (told: Told) => void,
): Promise<void> {
  const { brokerSocket, adminSocket } = home.layout;
  try {
    for (let n = 0;; n += 1) {
      const path = ["/auto/a", "/ask/a", "/ask/b", "/deny/a", "/none"][below(next, 5)];
      const request: ToolRequest = {
        session: `s${below(next, SESSIONS)}`,
        call: `${name}-${n}`,
        tool: "read_file",
        arguments: JSON.stringify({ path }),
      };
      await exchange(brokerSocket, frame("tool_request", request), async (answer) => {
        tell({ request, answer });
        if (answer.kind !== "tool_response" || answer.body.status !== "pending_approval") return;
        const { approval } = answer.body;
        const owner = next() < 0.6
          ? frame("approve", { approval })
          : frame("refuse", { approval, reason: "no" });
        await exchange(adminSocket, owner, (answer) => tell({ request, answer }));
      });
    }
  } catch (error) {
    // brokerd is gone: whatever was on its way has no answer.
    assert(error instanceof Deno.errors.NotFound || isBroken(error), String(error));
  }
}

function isBroken(error: unknown): boolean {
  return [
    Deno.errors.ConnectionRefused,
    Deno.errors.ConnectionReset,
    Deno.errors.BrokenPipe,
  ].some((kind) => error instanceof kind);
}

/** Kills brokerd a little after the clients were `told` what this round wants. */
async function killAfter(broker: Broker, told: Promise<void>, delayMs: number): Promise<void> {
  await within("answers", told);
  await new Promise((resolve) => setTimeout(resolve, delayMs));
  broker.signal("SIGKILL");
  assert.equal((await broker.ended()).signal, "SIGKILL");
}

type Decision = Extract<AuditEvent, { type: "decision" }>;

/** What the log holds, by call and by the `seq` of its decision. */
function readLog(directory: string) {
  const decisions = new Map<string, { seq: number; event: Decision }>();
  const approvals = new Map<number, Extract<AuditEvent, { type: "approval" }>>();
  const results = new Map<number, Extract<AuditEvent, { type: "result" }>>();
  for (const { seq, event } of recordsIn(directory)) {
    if (event.type === "decision") {
      const key = `${event.session} ${event.call}`;
      assert(!decisions.has(key), "one decision a call");
      decisions.set(key, { seq, event });
    }
    if (event.type === "approval") approvals.set(event.decision, event);
    if (event.type === "result") results.set(event.decision, event);
  }
  return { decisions, approvals, results };
}

/** Checks that what a client was told is in the log, and gives a word for what it was told. */
function checkRecorded({ request, answer }: Told, log: ReturnType<typeof readLog>): string {
  const decision = log.decisions.get(`${request.session} ${request.call}`);
  assert(decision !== undefined, "a decision");
  assert.equal(decision.event.arguments, request.arguments);
  const { outcome } = decision.event.outcome;
  const approval = log.approvals.get(decision.seq);
  switch (answer.kind) {
    case "ok":
      assert.equal(approval?.answer, "refused");
      return "refused";
    case "approve_result":
      assert.equal(approval?.answer, "approved");
      assert.deepEqual(approval?.outcome, answer.body.outcome);
      return "approved";
    case "tool_response":
      return checkResponse(answer.body);
    default:
      throw new Error(`told ${JSON.stringify(answer)}`);
  }

  function checkResponse(body: Body<"tool_response">): string {
    switch (body.status) {
      case "pending_approval":
        assert.equal(outcome, "ask");
        assert.equal(body.approval, decision?.seq);
        return "pending";
      case "denied":
        if (body.reason === "approval_refused") assert.equal(approval?.answer, "refused");
        else assert.deepEqual(decision?.event.outcome, { outcome: "denied", reason: body.reason });
        return body.reason;
      case "failed": {
        if (outcome === "ask") assert.equal(approval?.answer, "approved");
        else assert.equal(outcome, "allowed");
        const result = log.results.get(decision?.seq ?? -1);
        assert.equal(result?.status, "failed");
        assert.equal(result?.sha256, sha256(utf8(body.message)));
        return `failed, ${outcome}`;
      }
      case "result":
        throw new Error("nothing runs yet");
    }
  }
}

Deno.test("whenever brokerd is killed, every answer that left is in a log that verifies", async () => {
  const seed = Number(Deno.env.get("BOXMAKER_SEED") ?? Math.floor(Math.random() * 2 ** 32));
  console.log(`BOXMAKER_SEED=${seed}`);
  const next = random(seed);
  using home = new TempHome();
  grants(home);
  const told: Told[] = [];
  const seen = new Map<string, number>();

  for (let round = 0; round < ROUNDS; round += 1) {
    await using broker = await startBroker(home);
    const before = told.length;
    const wanted = before + 1 + below(next, 60);
    const enough = Promise.withResolvers<void>();
    const tell = (one: Told) => {
      told.push(one);
      if (told.length >= wanted) enough.resolve();
    };
    const clients = Array.from(
      { length: CLIENTS },
      (_, n) => work(home, `r${round}-${n}`, random(below(next, 2 ** 32)), tell),
    );
    await killAfter(broker, enough.promise, next() * 15);
    await Promise.all(clients);

    // As the crash left it, and held against head.json: that never leads.
    const report = verifyDirectory(home.layout.audit);
    assert.equal(report.failure, null, `round ${round}`);
    const log = readLog(home.layout.audit);
    for (const one of told.slice(before)) {
      const what = checkRecorded(one, log);
      seen.set(what, (seen.get(what) ?? 0) + 1);
    }
  }

  // It starts once more, and ends well.
  await using broker = await startBroker(home);
  await broker.stop();
  const report = verifyDirectory(home.layout.audit);
  assert.deepEqual([report.failure, report.torn_tail], [null, null]);
  // The clients were told everything there is to tell.
  assert.deepEqual([...seen.keys()].sort(), [
    ...["approval_refused", "approved", "denied_by_grant", "failed, allowed", "failed, ask"],
    ...["no_grant", "pending", "refused"],
  ]);
});
