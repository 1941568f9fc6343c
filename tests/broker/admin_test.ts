/** What `bxctl` asks brokerd on admin.sock (specification 6, "Admin messages"; contracts 2, 4 and 8). */
import assert from "node:assert/strict";
import { MAX_ANSWER_BYTES } from "../../proto/frames.ts";
import type { Body, Kind, Message, PendingApproval } from "../../proto/messages.ts";
import {
  ask,
  frame,
  RawClient,
  readFile,
  startBroker,
  TempHome,
  within,
} from "../support/broker.ts";
import { recordsIn, verifyDirectory } from "../support/log.ts";

const ASK = 'tool = "read_file"\nmode = "ask"\n[constraints]\npaths = ["/n"]\n';
const ASK_WRITE = 'tool = "write_file"\nmode = "ask"\n[constraints]\npaths = ["/n"]\n';

function homeThatAsks(): TempHome {
  const home = new TempHome();
  home.grant("read", ASK);
  home.grant("write", ASK_WRITE);
  return home;
}

/** A call that waits for the owner. */
async function pending(
  home: TempHome,
  request: Body<"tool_request">,
): Promise<{ client: RawClient; approval: number }> {
  const client = await RawClient.connect(home.layout.brokerSocket);
  await client.send(frame("tool_request", request));
  const answer = await client.next();
  if (answer?.kind !== "tool_response" || answer.body.status !== "pending_approval") {
    throw new Error(`not pending: ${JSON.stringify(answer)}`);
  }
  return { client, approval: answer.body.approval };
}

/** The one answer of admin.sock to a request, and its kind. */
async function admin<K extends Kind>(home: TempHome, kind: K, body: Body<K>): Promise<Message> {
  const [answer, ...more] = await ask(home.layout.adminSocket, kind, body);
  assert(answer !== undefined && more.length === 0);
  assert.equal(answer.final, true);
  return answer;
}

function errorCode(answer: Message | null): string {
  assert(answer?.kind === "error", JSON.stringify(answer));
  return answer.body.code;
}

async function listed(home: TempHome): Promise<PendingApproval[]> {
  return (await ask(home.layout.adminSocket, "approvals", {})).flatMap((page) =>
    page.kind === "approval_list" ? page.body.items : []
  );
}

Deno.test("approvals come in pages that each fit a frame, by number and unshortened", async () => {
  using home = homeThatAsks();
  await using broker = await startBroker(home);
  const { adminSocket } = home.layout;
  const [none] = await ask(adminSocket, "approvals", {});
  assert.deepEqual(none, { kind: "approval_list", final: true, body: { items: [] } });

  // Ten of them hold some 9.5 MB; the last ones are small.
  const calls = Array.from({ length: 12 }, (_, n) => {
    const content = String.fromCharCode(0x61 + n).repeat(n < 10 ? 950_000 : 10);
    const args = JSON.stringify({ path: `/n/${n}`, content });
    return { session: `s${n % 3}`, call: `c${n}`, tool: "write_file", arguments: args };
  });
  const waiting = [];
  for (const call of calls) waiting.push({ call, ...await pending(home, call) });

  using client = await RawClient.connect(adminSocket);
  await client.send(frame("approvals", {}));
  const pages: { bytes: number; answer: Message }[] = [];
  for (let line = await client.line(); line !== null; line = await client.line()) {
    pages.push({ bytes: line.length + 1, answer: JSON.parse(new TextDecoder().decode(line)) });
  }
  assert(pages.length >= 5, `${pages.length} pages`);
  assert(pages.every(({ bytes }) => bytes <= MAX_ANSWER_BYTES));
  assert.deepEqual(pages.map(({ answer }) => answer.final), [
    ...pages.slice(1).map(() => false),
    true,
  ]);
  const items = await listed(home);
  assert.deepEqual(
    items.map(({ approval, session, call, tool, arguments: args }) => [
      approval,
      { session, call, tool, arguments: args },
    ]),
    waiting.map(({ approval, call }) => [approval, call]),
  );
  const [first] = items;
  assert.deepEqual([first?.grant, first?.taint], ["write", "private"]);
  assert.equal(Date.parse(first?.expires ?? "") - Date.parse(first?.created ?? ""), 900_000);

  for (const { client } of waiting) client[Symbol.dispose]();
  await broker.stop();
});

Deno.test("a report of more problems than fit a frame says how many it leaves out", async () => {
  using home = new TempHome();
  const paths = Array.from({ length: 9000 }, () => '"x"').join(",");
  const content = (tool: string) =>
    `tool = "${tool}"\nmode = "auto"\n[constraints]\npaths = [${paths}]\n`;
  home.grant("a", content("read_file"));
  const { adminSocket } = home.layout;
  await using broker = await startBroker(home);
  const few = await admin(home, "check_grants", {});
  assert(few.kind === "grants_report");
  assert.equal(few.body.problems.length, 9000);

  for (const id of ["b", "c", "d"]) home.grant(id, content("read_file"));
  using client = await RawClient.connect(adminSocket);
  await client.send(frame("check_grants", {}));
  const line = await client.line();
  assert(line !== null && line.length + 1 <= MAX_ANSWER_BYTES);
  const many = await admin(home, "check_grants", {});
  assert(many.kind === "grants_report");
  const shown = many.body.problems.length - 1;
  assert(shown > 9000);
  assert.deepEqual(
    many.body.problems.at(-1)?.problem,
    `${36_000 - shown} more problems are not shown`,
  );
  // Whatever does not fit the report, the grants are invalid.
  const [denied] = await ask(home.layout.brokerSocket, "tool_request", readFile("s", "c", "/n/a"));
  assert.deepEqual(denied?.body, { status: "denied", reason: "grants_invalid" });

  for (const id of ["a", "b", "c", "d"]) home.grant(id, ASK);
  assert.deepEqual((await admin(home, "check_grants", {})).body, { problems: [] });
  await broker.stop();
});

Deno.test("an approval that is unknown or answered already is no_such_approval", async () => {
  using home = homeThatAsks();
  await using broker = await startBroker(home);
  const { client, approval } = await pending(home, readFile("s1", "c1", "/n/a"));
  using _ = client;
  for (const unknown of [approval + 1, Number.MAX_SAFE_INTEGER]) {
    assert.equal(
      errorCode(await admin(home, "approve", { approval: unknown })),
      "no_such_approval",
    );
    assert.equal(
      errorCode(await admin(home, "refuse", { approval: unknown, reason: null })),
      "no_such_approval",
    );
  }
  for (const malformed of [-1, 0.5, Number.MAX_SAFE_INTEGER + 1, "0", null]) {
    using raw = await RawClient.connect(home.layout.adminSocket);
    await raw.send(frame("approve", { approval: malformed }));
    assert.equal(errorCode(await raw.next()), "bad_frame", String(malformed));
  }
  assert.deepEqual((await admin(home, "approve", { approval })).body, {
    outcome: { outcome: "ask" },
  });
  assert.equal(errorCode(await admin(home, "approve", { approval })), "no_such_approval");
  assert.equal(
    errorCode(await admin(home, "refuse", { approval, reason: null })),
    "no_such_approval",
  );
  const answer = await client.next();
  assert.deepEqual(answer?.body, { status: "failed", message: "the runner arrives in M3b" });
  await broker.stop();
  const { failure, abandoned, unfinished } = verifyDirectory(home.layout.audit);
  assert.deepEqual([failure, abandoned, unfinished], [null, [], []]);
});

Deno.test("a reason over 1 KiB is a bad frame and leaves the call pending; one of 1 KiB is recorded", async () => {
  using home = homeThatAsks();
  await using broker = await startBroker(home);
  const { client, approval } = await pending(home, readFile("s1", "c1", "/n/a"));
  using _ = client;
  // Bytes count, not characters.
  for (const reason of ["x".repeat(1025), "€".repeat(342), "💥".repeat(257)]) {
    using raw = await RawClient.connect(home.layout.adminSocket);
    await raw.send(frame("refuse", { approval, reason }));
    assert.equal(errorCode(await raw.next()), "bad_frame");
    assert.deepEqual((await listed(home)).map((item) => item.approval), [approval]);
  }
  const reason = "€".repeat(341) + "x";
  assert.equal(new TextEncoder().encode(reason).length, 1024);
  assert.deepEqual(await admin(home, "refuse", { approval, reason }), {
    ...{ kind: "ok", final: true, body: {} },
  });
  const line = new TextDecoder().decode((await client.line()) ?? undefined);
  assert.deepEqual(JSON.parse(line).body, { status: "denied", reason: "approval_refused" });
  assert(!line.includes("€"), "the reason is not for the model");
  await broker.stop();
  const record = recordsIn(home.layout.audit).at(-1);
  assert.deepEqual(record?.event, {
    ...{ type: "approval", session: "s1", call: "c1", decision: approval, answer: "refused" },
    ...{ by: "bxctl", post: null, reason },
    outcome: { outcome: "denied", reason: "approval_refused" },
  });
});

Deno.test("while the log cannot be written, every answer of the owner is audit_unavailable", async () => {
  using home = homeThatAsks();
  await using broker = await startBroker(home);
  const [refused, approved, kept] = [
    await pending(home, readFile("s1", "c1", "/n/a")),
    await pending(home, readFile("s1", "c2", "/n/b")),
    await pending(home, readFile("s1", "c3", "/n/c")),
  ];
  const [name = ""] = home.auditFiles();
  const path = `${home.layout.audit}/${name}`;
  Deno.renameSync(path, `${path}.away`);
  Deno.mkdirSync(path);

  const denied = { status: "denied", reason: "audit_unavailable" };
  const call = async () =>
    (await ask(home.layout.brokerSocket, "tool_request", readFile("s2", "c1", "/x")))[0]?.body;
  assert.deepEqual(await call(), denied, "the first that finds it");
  const refusal = { approval: refused.approval, reason: null };
  assert.deepEqual((await admin(home, "refuse", refusal)).body, {
    ...{ code: "audit_unavailable", message: "the audit log cannot be written" },
  });
  assert.deepEqual((await refused.client.next())?.body, denied);
  const approval = await admin(home, "approve", { approval: approved.approval });
  assert.deepEqual(approval.body, { outcome: { outcome: "denied", reason: "audit_unavailable" } });
  assert.deepEqual((await approved.client.next())?.body, denied);
  assert.deepEqual(await call(), denied, "one that comes later");
  assert(broker.stderr.includes("see docs/runbook.md#audit-"), broker.stderr);
  // Both answers are used up.
  assert.equal(errorCode(await admin(home, "refuse", refusal)), "no_such_approval");
  assert.deepEqual((await listed(home)).map((item) => item.approval), [kept.approval]);

  // The log is put back: the call that still waits can be refused.
  Deno.removeSync(path);
  Deno.renameSync(`${path}.away`, path);
  const last = await admin(home, "refuse", { approval: kept.approval, reason: null });
  assert.equal(last.kind, "ok");
  assert.deepEqual((await kept.client.next())?.body, {
    ...{ status: "denied", reason: "approval_refused" },
  });
  for (const { client } of [refused, approved, kept]) client[Symbol.dispose]();
  await within("stop", broker.stop());
  const report = verifyDirectory(home.layout.audit);
  assert.equal(report.failure, null);
  assert.deepEqual(report.abandoned, [refused.approval, approved.approval]);
});
