/**
 * The claims of specification 1, each by a test named after it, with the real parts of all three programs
 * in one process: loopd against a model server that plays a script, brokerd with a runtime that records
 * what it is given, and the reading of the log that `bxctl audit verify` uses.
 */
import assert from "node:assert/strict";
import { readBrokerConfig } from "../../broker/config.ts";
import { makeNotices } from "../../broker/notices.ts";
import type { RunOutcome, RunSpec, Runtime } from "../../broker/runner.ts";
import { start } from "../../broker/serve.ts";
import { verifyLog } from "../../ctl/audit_files.ts";
import { type AuditRecord, parseRecord } from "../../proto/audit.ts";
import type { DenyReason } from "../../proto/decisions.ts";
import { BODIES, type FinalToolResponse, type Kind, REQUESTS } from "../../proto/messages.ts";
import { LineSplitter } from "../../proto/lines.ts";
import { PARTS, problemsOf } from "../../scripts/check_runbook.ts";
import {
  ask,
  frame,
  PROJECT,
  RawClient,
  refusedStart,
  startBroker,
  TempHome,
  until,
} from "../support/broker.ts";
import { calling, FakeLlama, saying } from "../support/llama.ts";
import { Loop, LoopHome } from "../support/loop.ts";

const CONTENT = "the recipe for the good soup";
const NOTES = "/srv/notes";

/** What the broker's log holds. */
function recordsOf(home: TempHome): AuditRecord[] {
  return home.auditFiles().flatMap((name) => {
    const bytes = Deno.readFileSync(`${home.layout.audit}/${name}`);
    return [...new LineSplitter().push(bytes)].map((line) => {
      const record = parseRecord(line.bytes);
      assert(record !== null);
      return record;
    });
  });
}

/** Notes each spec with the log as it was when the run began. */
class RecordingRuntime implements Runtime {
  readonly ran: { readonly spec: RunSpec; readonly log: AuditRecord[] }[] = [];
  readonly #home: TempHome;

  constructor(home: TempHome) {
    this.#home = home;
  }

  run(spec: RunSpec): Promise<RunOutcome> {
    this.ran.push({ spec, log: recordsOf(this.#home) });
    return Promise.resolve({ status: "result", content: CONTENT, truncated: false });
  }
}

/** brokerd in this process: everything but its locks, its command line and its containers. */
class LocalBroker implements Disposable {
  readonly home: TempHome;
  readonly runtime: RecordingRuntime;
  readonly said: string[] = [];
  readonly #stop: () => void;

  constructor(home: TempHome) {
    this.home = home;
    this.runtime = new RecordingRuntime(home);
    const notices = makeNotices((...lines) => this.said.push(...lines));
    const config = readBrokerConfig(home.configFile, undefined);
    const started = start(config, false, notices, this.runtime);
    if (started.status !== "running") throw new Error(`brokerd did not start: ${started.status}`);
    this.#stop = () => started.stop();
  }

  async call(session: string, tool: string, args: unknown): Promise<FinalToolResponse> {
    const body = { session, call: "c1", tool, arguments: JSON.stringify(args) };
    const [answer] = await ask(this.home.layout.brokerSocket, "tool_request", body);
    assert(answer?.kind === "tool_response" && answer.body.status !== "pending_approval");
    return answer.body;
  }

  async read(session: string, path = `${NOTES}/a.md`): Promise<FinalToolResponse> {
    return await this.call(session, "read_file", { path });
  }

  [Symbol.dispose](): void {
    this.#stop();
  }
}

/** A `read_file` grant for the notes; `more` comes before its constraints. */
function readGrant(mode: string, more = ""): string {
  return `tool = "read_file"\nmode = "${mode}"\n${more}[constraints]\npaths = ["${NOTES}"]\n`;
}

const denied = (reason: DenyReason) => ({ status: "denied", reason }) as const;
const whole = {
  status: "result",
  content: CONTENT,
  class: "private",
  untrusted: false,
  truncated: false,
} as const;

Deno.test("no grant, an expired grant, too much taint, or arguments outside the grant each end in a denial with the right reason", async () => {
  using home = new TempHome();
  using broker = new LocalBroker(home);
  assert.deepEqual(await broker.read("s1"), denied("no_grant"));

  home.grant("notes", readGrant("auto", 'expires = "2020-01-01T00:00:00.000Z"\n'));
  assert.deepEqual(await broker.read("s1"), denied("grant_expired"));

  home.grant("notes", readGrant("auto"));
  assert.deepEqual(await broker.read("s1", "/srv/other/a.md"), denied("no_grant"));
  assert.deepEqual(await broker.read("s1"), whole);

  const secret = readGrant("auto").replace(NOTES, "/srv/keys");
  Deno.writeTextFileSync(
    `${home.layout.grants}/keys.toml`,
    `max_taint = "secret"\nresult_class = "secret"\n${secret}`,
  );
  Deno.writeTextFileSync(
    `${home.layout.grants}/notes.toml`,
    `max_taint = "private"\nresult_class = "private"\n${readGrant("auto")}`,
  );
  assert.equal((await broker.read("s1", "/srv/keys/k")).status, "result");
  assert.deepEqual(await broker.read("s1"), denied("taint_too_high"));
  assert.deepEqual(await broker.read("s2"), whole, "a session that has seen nothing secret");

  const outcomes = recordsOf(home).flatMap(({ event }) =>
    event.type === "decision" && event.outcome.outcome === "denied" ? [event.outcome.reason] : []
  );
  assert.deepEqual(outcomes, ["no_grant", "grant_expired", "no_grant", "taint_too_high"]);
});

Deno.test("one invalid grant file denies every call", async () => {
  using home = new TempHome();
  home.grant("notes", readGrant("auto"));
  home.grant("typo", readGrant("deny").replace("mode", "mood"));
  using broker = new LocalBroker(home);
  assert.deepEqual(await broker.read("s1"), denied("grants_invalid"));
  const pointer = (line: string) => line.endsWith("see docs/runbook.md#grants-invalid");
  assert.deepEqual(broker.said.filter(pointer).length, 1);
  assert(
    broker.said.some((line) => line.includes("typo.toml:4: unknown key mood")),
    broker.said[0],
  );

  Deno.removeSync(`${home.layout.grants}/typo.toml`);
  assert.deepEqual(await broker.read("s1"), whole);
});

Deno.test("nothing runs without a decision record on disk first", async () => {
  using home = new TempHome();
  home.grant("notes", readGrant("auto"));
  using broker = new LocalBroker(home);
  assert.deepEqual(await broker.read("s1"), whole);
  const [run] = broker.runtime.ran;
  assert(run !== undefined);
  assert.deepEqual(run.log.map(({ event }) => event.type), ["decision"]);

  // The log is gone from under the broker: there is nowhere to write, so nothing runs.
  const { audit } = home.layout;
  Deno.renameSync(audit, `${audit}-away`);
  assert.deepEqual(await broker.read("s1"), denied("audit_unavailable"));
  assert.equal(broker.runtime.ran.length, 1);

  Deno.renameSync(`${audit}-away`, audit);
  assert.deepEqual(await broker.read("s1"), whole);
  assert.equal(verifyLog(audit, null).failure, null);
});

Deno.test("any edit, deletion, reordering or gap in the audit log is found, with its file and line", async (t) => {
  using home = new TempHome();
  const { brokerSocket } = home.layout;
  const call = async () => {
    const request = { session: "s1", call: "c1", tool: "read_file", arguments: "{}" };
    const [answer] = await ask(brokerSocket, "tool_request", request);
    return answer?.body;
  };
  {
    // As a process, since the lock on the log lasts as long as one.
    await using broker = await startBroker(home);
    for (let i = 0; i < 5; i++) await call();
    await broker.stop();
  }
  const [name = ""] = home.auditFiles();
  const path = `${home.layout.audit}/${name}`;
  const lines = Deno.readTextFileSync(path).trimEnd().split("\n");
  const [a = "", b = "", c = "", d = "", e = ""] = lines;
  assert.equal(verifyLog(home.layout.audit, null).failure, null);
  const cases = {
    "an edit": [[a, b.replace("read_file", "http_fetch"), c, d, e], 3],
    "a deletion": [[a, c, d, e], 2],
    "a reordering": [[a, c, b, d, e], 2],
    "a gap": [[a, b, c.replace('"seq":2', '"seq":3'), d, e], 3],
    "an end that is missing": [[a, b, c], 4],
  } as const;
  for (const [what, [changed, line]] of Object.entries(cases)) {
    await t.step(what, async () => {
      Deno.writeTextFileSync(path, `${changed.join("\n")}\n`);
      const { failure } = verifyLog(home.layout.audit, null);
      assert.deepEqual([failure?.file, failure?.line], [name, line]);
      const { code, stderr } = await refusedStart(home);
      assert.equal(code, 1);
      assert(stderr.includes(`${name}:${line}: `), stderr);
      assert(stderr.includes("see docs/runbook.md#audit-chain-broken"), stderr);
    });
  }
  Deno.writeTextFileSync(path, `${lines.join("\n")}\n`);
  await using again = await startBroker(home);
  assert.deepEqual(await call(), denied("invalid_arguments"));
  await again.stop();
});

Deno.test("loopd cannot approve: the tool socket refuses every admin message", async () => {
  using home = new TempHome();
  home.grant("notes", readGrant("ask"));
  using broker = new LocalBroker(home);
  const { brokerSocket, adminSocket } = home.layout;
  using waiting = await RawClient.connect(brokerSocket);
  const args = JSON.stringify({ path: `${NOTES}/a.md` });
  const request = { session: "s1", call: "c1", tool: "read_file", arguments: args };
  await waiting.send(frame("tool_request", request));
  assert.equal((await waiting.next())?.final, false);

  const bodies: Partial<Record<Kind, unknown>> = {
    approve: { approval: 0 },
    refuse: { approval: 0, reason: null },
  };
  for (const kind of REQUESTS["admin.sock"]) {
    assert(BODIES[kind].safeParse(bodies[kind] ?? {}).success);
    using client = await RawClient.connect(brokerSocket);
    await client.send(frame(kind, bodies[kind] ?? {}));
    const answer = await client.next();
    assert(answer?.kind === "error" && answer.body.code === "forbidden", kind);
  }
  assert.equal(broker.runtime.ran.length, 0);

  // The same message on the owner's socket.
  const [approved] = await ask(adminSocket, "approve", { approval: 0 });
  assert.deepEqual(approved?.body, { outcome: { outcome: "ask" } });
  assert.deepEqual((await waiting.next())?.body, whole);
});

Deno.test("an approval only lets through a call that is still ask when approved", async () => {
  using home = new TempHome();
  home.grant("notes", readGrant("ask"));
  using broker = new LocalBroker(home);
  const { brokerSocket, adminSocket, grants } = home.layout;
  async function asked(): Promise<{ client: RawClient; approval: number }> {
    const client = await RawClient.connect(brokerSocket);
    const args = JSON.stringify({ path: `${NOTES}/a.md` });
    await client.send(
      frame("tool_request", { session: "s1", call: "c1", tool: "read_file", arguments: args }),
    );
    const answer = await client.next();
    assert(answer?.kind === "tool_response" && answer.body.status === "pending_approval");
    return { client, approval: answer.body.approval };
  }
  {
    const { client, approval } = await asked();
    using _ = client;
    Deno.removeSync(`${grants}/notes.toml`);
    const [answer] = await ask(adminSocket, "approve", { approval });
    assert.deepEqual(answer?.body, { outcome: { outcome: "denied", reason: "no_grant" } });
    assert.deepEqual((await client.next())?.body, denied("no_grant"));
  }
  home.grant("notes", readGrant("ask"));
  {
    const { client, approval } = await asked();
    using _ = client;
    home.grant("never", readGrant("deny"));
    const [answer] = await ask(adminSocket, "approve", { approval });
    assert.deepEqual(answer?.body, { outcome: { outcome: "denied", reason: "denied_by_grant" } });
    Deno.removeSync(`${grants}/never.toml`);
  }
  assert.equal(broker.runtime.ran.length, 0);
  const { client, approval } = await asked();
  using _ = client;
  await ask(adminSocket, "approve", { approval });
  assert.deepEqual((await client.next())?.body, whole);
  assert.equal(broker.runtime.ran.length, 1);
});

Deno.test("a denial reaches the model as a plain tool result and the turn goes on", async () => {
  using home = new TempHome();
  using broker = new LocalBroker(home);
  const wanted = { path: `${NOTES}/a.md` };
  await using llama = new FakeLlama(
    ...[calling("read_file", wanted), saying("I may not read that.")],
    ...[calling("read_file", wanted), saying("Soup.")],
  );
  using loopHome = new LoopHome(llama.url);
  Deno.mkdirSync(`${loopHome.home}/run`, { recursive: true });
  Deno.symlinkSync(`${home.home}/run/loop-broker`, `${loopHome.home}/run/loop-broker`);
  await using loop = await Loop.start(loopHome);

  const events = await loop.chat("s1", "read my note");
  assert.deepEqual(events.at(-1), { type: "done" });
  assert(events.some((event) => event.type === "text" && event.text.includes("may not")));
  const told = llama.requests[1]?.messages.at(-1);
  assert.equal(told?.role, "tool");
  assert.equal(told?.content, "Denied: no grant allows this call.");
  const [decision, ...more] = recordsOf(home);
  assert(decision?.event.type === "decision");
  assert.deepEqual(decision.event.outcome, { outcome: "denied", reason: "no_grant" });
  assert.deepEqual(more, []);
  assert.equal(broker.runtime.ran.length, 0);

  home.grant("notes", readGrant("auto"));
  await loop.chat("s1", "again, please");
  assert.equal(llama.requests[3]?.messages.at(-1)?.content, CONTENT);
  await until("a run", () => broker.runtime.ran.length === 1);
});

Deno.test("every fail-closed state names a runbook entry that exists", () => {
  const sources = ["broker", "ctl", "loop", "proto", "proto/io"].flatMap((folder) =>
    [...Deno.readDirSync(new URL(folder, PROJECT))].filter(({ isFile }) => isFile)
      .map(({ name }) => `${folder}/${name}`)
  ).map((file) => ({ file, text: Deno.readTextFileSync(new URL(file, PROJECT)) }));
  const runbook = Deno.readTextFileSync(new URL("docs/runbook.md", PROJECT));
  const missing = (markdown: string) =>
    problemsOf(markdown, sources).filter((problem) => !problem.includes("nowhere"));
  assert.deepEqual(missing(runbook), []);
  assert.equal(PARTS.length, 5);
  const without = runbook.replace("\n## grants-invalid\n", "\n## grants-invalid-no-more\n");
  assert(missing(without).some((problem) => problem.includes("grants-invalid")));
});
