/** brokerd's two sockets (specification 6 and 12, "Sockets"; contracts 2 and 8), at the real process. */
import assert from "node:assert/strict";
import { type Kind, type Message, REQUESTS } from "../../proto/messages.ts";
import { directoryOf } from "../../proto/layout.ts";
import {
  ask,
  forEach,
  frame,
  RawClient,
  readFile,
  refusedStart,
  snapshot,
  startBroker,
  TempHome,
} from "../support/broker.ts";
import { recordsIn } from "../support/log.ts";
import { messagesOf } from "../support/messages.ts";
import { leaveSocket } from "../support/sockets.ts";

/** Each kind with a body that is right for it. */
const BODIES_OF_KINDS: Readonly<Record<Kind, unknown>> = {
  tool_request: readFile("s1", "c1", "/n/a"),
  tool_response: { status: "denied", reason: "no_grant" },
  chat: { session: null, text: "hello" },
  turn_event: { type: "done" },
  stop: { session: "s1" },
  approvals: {},
  approval_list: { items: [] },
  approve: { approval: 0 },
  approve_result: { outcome: { outcome: "ask" } },
  refuse: { approval: 0, reason: null },
  ok: {},
  check_grants: {},
  grants_report: { problems: [] },
  status: {},
  broker_status: messagesOf("broker_status")[0]?.body,
  loop_status: messagesOf("loop_status")[0]?.body,
  changes: {},
  change_list: { items: [] },
  error: { code: "internal", message: "" },
};

/** One answer to a frame, and that the connection ends after it. */
async function only(path: string, text: string): Promise<Message> {
  using client = await RawClient.connect(path);
  await client.send(text);
  const answer = await client.next();
  assert(answer !== null, "an answer");
  assert.equal(await client.next(), null, "the connection is closed");
  assert.equal(answer.final, true);
  return answer;
}

Deno.test("a kind on the wrong socket is forbidden, whatever its body, and the owner is told", async () => {
  using home = new TempHome();
  await using broker = await startBroker(home);
  const { brokerSocket, adminSocket } = home.layout;
  let forbidden = 0;
  for (
    const [name, path] of [["broker.sock", brokerSocket], ["admin.sock", adminSocket]] as const
  ) {
    const accepted: readonly string[] = REQUESTS[name];
    for (const [kind, body] of Object.entries(BODIES_OF_KINDS)) {
      const answer = await only(path, frame(kind, body));
      if (accepted.includes(kind)) {
        assert(answer.kind !== "error" || answer.body.code !== "forbidden", `${kind} on ${name}`);
        continue;
      }
      assert(answer.kind === "error", `${kind} on ${name}`);
      assert.equal(answer.body.code, "forbidden", `${kind} on ${name}`);
      const said = `brokerd: a request of kind ${kind} came in on ${name} and was refused\n` +
        "brokerd: see docs/runbook.md#socket-forbidden\n";
      assert(broker.stderr.includes(said), broker.stderr);
      forbidden += 1;

      const bad = await only(path, frame(kind, { wrong: true }));
      assert(bad.kind === "error" && bad.body.code === "forbidden", `${kind} with a wrong body`);
    }
  }
  assert.equal(forbidden, 2 * Object.keys(BODIES_OF_KINDS).length - 7);
  // A kind that nobody knows is a bad frame.
  for (const path of [brokerSocket, adminSocket]) {
    const answer = await only(path, frame("approve_all", {}));
    assert(answer.kind === "error" && answer.body.code === "bad_frame");
  }
  await broker.stop();
  assert.equal(recordsIn(home.layout.audit).length, 1, "the one call that came in where calls do");
});

Deno.test("the tool socket refuses every admin message while an approval is pending", async () => {
  using home = new TempHome();
  home.grant("notes", 'tool = "read_file"\nmode = "ask"\n[constraints]\npaths = ["/n"]\n');
  await using broker = await startBroker(home);
  const { brokerSocket, adminSocket } = home.layout;
  using client = await RawClient.connect(brokerSocket);
  await client.send(frame("tool_request", readFile("s1", "c1", "/n/a")));
  const pending = await client.next();
  assert(pending?.kind === "tool_response" && pending.body.status === "pending_approval");
  const { approval } = pending.body;
  for (const [kind, body] of [["approve", { approval }], ["refuse", { approval, reason: null }]]) {
    const answer = await only(brokerSocket, frame(String(kind), body));
    assert(answer.kind === "error" && answer.body.code === "forbidden");
  }
  // On the connection that waits, what follows the first frame is ignored.
  await client.send(frame("approve", { approval }));
  const [list] = await ask(adminSocket, "approvals", {});
  assert(list?.kind === "approval_list" && list.body.items.length === 1, "still pending");
  // The same message on its own socket takes effect.
  const approved = await only(adminSocket, frame("approve", { approval }));
  assert.deepEqual(approved.body, { outcome: { outcome: "ask" } });
  const answer = await client.next();
  assert(answer?.kind === "tool_response" && answer.body.status === "failed");
  await broker.stop();
});

Deno.test("the sockets have mode 0600 and their directories 0700, whatever the umask", async () => {
  const umask = Deno.umask(0);
  try {
    using home = new TempHome();
    await using broker = await startBroker(home);
    for (const path of [home.layout.brokerSocket, home.layout.adminSocket]) {
      const info = Deno.lstatSync(path);
      assert(info.isSocket);
      assert.equal((info.mode ?? 0) & 0o777, 0o600, path);
      assert.equal((Deno.lstatSync(directoryOf(path)).mode ?? 0) & 0o777, 0o700, path);
    }
    await broker.stop();
  } finally {
    Deno.umask(umask);
  }
});

function mkfifo(path: string): void {
  assert(new Deno.Command("mkfifo", { args: [path] }).outputSync().success);
}

type Spoil = (path: string) => void;

/** What stands where a socket or its directory is to be; `says` is part of what is said of it. */
const UNSAFE: Readonly<Record<string, readonly [Spoil, says: string]>> = {
  ...Object.fromEntries(
    [0o710, 0o701, 0o720, 0o704, 0o750, 0o755, 0o777].map((mode) => {
      const octal = `0${mode.toString(8)}`;
      const spoil: Spoil = (path) => Deno.chmodSync(directoryOf(path), mode);
      return [`a directory of mode ${octal}`, [spoil, `has mode ${octal}, wider than 0700`]];
    }),
  ),
  "a file in the directory's place": [(path) => {
    Deno.removeSync(directoryOf(path));
    Deno.writeTextFileSync(directoryOf(path), "");
  }, "is not a directory"],
  "a link in the directory's place": [(path) => {
    Deno.renameSync(directoryOf(path), `${directoryOf(path)}.real`);
    Deno.symlinkSync(`${directoryOf(path)}.real`, directoryOf(path));
  }, "is not a directory"],
  "a file": [(path) => Deno.writeTextFileSync(path, "x"), "exists and is not a socket"],
  "a FIFO": [mkfifo, "exists and is not a socket"],
  "a directory": [(path) => Deno.mkdirSync(path), "exists and is not a socket"],
  "a link to nothing": [
    (path) => Deno.symlinkSync(`${path}.none`, path),
    "exists and is not a socket",
  ],
  "a link to a socket": [(path) => {
    leaveSocket(`${path}.real`);
    Deno.symlinkSync(`${path}.real`, path);
  }, "exists and is not a socket"],
};

/** A home where brokerd starts: the directories of its sockets are there, as it makes them. */
function homeWithSocketDirectories(): TempHome {
  const home = new TempHome();
  for (const path of [home.layout.brokerSocket, home.layout.adminSocket]) {
    Deno.mkdirSync(directoryOf(path), { recursive: true, mode: 0o700 });
  }
  Deno.mkdirSync(home.layout.audit);
  Deno.writeTextFileSync(`${home.layout.audit}/.lock`, "");
  Deno.mkdirSync(home.layout.brokerSessions, { recursive: true });
  return home;
}

async function checkRefused(spoil: Spoil, says: string, socket: "brokerSocket" | "adminSocket") {
  using home = homeWithSocketDirectories();
  spoil(home.layout[socket]);
  const before = snapshot(home.root);
  const { code, stderr } = await refusedStart(home);
  assert.equal(code, 1, stderr);
  assert(stderr.includes(says), stderr);
  assert(stderr.endsWith("brokerd: see docs/runbook.md#socket-directory\n"), stderr);
  assert.deepEqual(snapshot(home.root), before, "untouched");
}

Deno.test("an unsafe place for a socket stops the start, and stays as it was", async () => {
  for (const socket of ["adminSocket", "brokerSocket"] as const) {
    await forEach(UNSAFE, ([spoil, says]) => checkRefused(spoil, says, socket));
  }
});

Deno.test({
  name: "a socket directory of another owner stops the start, and stays as it was",
  // Only root can give a directory away.
  ignore: Deno.uid() !== 0,
  async fn() {
    for (const socket of ["adminSocket", "brokerSocket"] as const) {
      const spoil: Spoil = (path) => Deno.chownSync(directoryOf(path), 1, null);
      await checkRefused(spoil, "belongs to another user", socket);
    }
  },
});

Deno.test("a stale socket stops nothing, nor does a directory with the right mode", async () => {
  using home = homeWithSocketDirectories();
  leaveSocket(home.layout.brokerSocket);
  leaveSocket(home.layout.adminSocket);
  await using broker = await startBroker(home);
  assert.equal((await ask(home.layout.adminSocket, "approvals", {})).length, 1);
  await broker.stop();
});
