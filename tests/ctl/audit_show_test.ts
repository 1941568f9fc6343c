/** `bxctl audit show`: all records of one call, whichever of them is named. */
import assert from "node:assert/strict";
import { showCall } from "../../ctl/audit_show.ts";
import { Failed } from "../../ctl/notices.ts";
import { aDay, answered, at, CallsHome, decided } from "../support/calls_log.ts";
import { Recorder, runCtl } from "../support/ctl.ts";

/** What showing `seq` prints, which must succeed. */
function shown(home: CallsHome, seq: number, json = false): string {
  const io = new Recorder();
  assert.equal(showCall(home.audit, seq, io, json), 0);
  assert.equal(io.err, "");
  return io.out;
}

const ZEROS = "0".repeat(64);
const APPROVED = `decision 3
  time          2026-12-01T09:02:00.000Z
  session       chat-1
  call          c3
  tool          shell
  arguments     {"command":"ls -l"}
  outcome       ask
  grant         shell-ask
  grant_sha256  ${ZEROS}
  taint         private
  untrusted     false
  prev          0201e1963b9e4e0fa665f9b8a6f61a2ac78f54df38fe552499ff3d610c322164

approval 4
  time      2026-12-01T09:02:30.000Z
  session   chat-1
  call      c3
  decision  3
  answer    approved
  by        bxctl
  post      (none)
  reason    (none)
  outcome   ask
  prev      52fa04fec7a09625350b7528778f3acbd05dc0001dbb1c8a336c26d68896cf80

result 5
  time         2026-12-01T09:02:31.000Z
  session      chat-1
  call         c3
  decision     3
  status       result
  class        public
  untrusted    false
  truncated    false
  bytes        5
  sha256       ${ZEROS}
  taint_after  secret
  prev         3e297fa58c4fae85e9c49c95147e195125381ead02e3ebe54ffaf64541d91a48
`;

Deno.test("all records of a call are shown, each field on a line, whichever is named", async () => {
  using home = new CallsHome();
  aDay(home);
  for (const seq of [3, 4, 5]) assert.equal(shown(home, seq), APPROVED);
  const ran = await runCtl(home.root, ["audit", "show", "4"]);
  assert.deepEqual(ran, { code: 0, stdout: APPROVED, stderr: "" });
  assert.match(shown(home, 7), / {2}reason {4}not that\n {2}outcome {3}denied approval_refused\n/);
  // A call that was denied at once has one record.
  assert.deepEqual(shown(home, 2).match(/^\w+ \d+$/gm), ["decision 2"]);
});

Deno.test("with --json the records come as they are in the log, in one document", () => {
  using home = new CallsHome();
  aDay(home);
  const lines = Deno.readTextFileSync(home.path(at("09:00:00"))).split("\n");
  assert.equal(shown(home, 5, true), `[${lines.slice(3, 6).join(",")}]\n`);
});

Deno.test("arguments are shown in full, and every text as data", () => {
  using home = new CallsHome();
  const args = `{"command":"${"x".repeat(1_000_000)}\u202e"}`;
  home.add(at("09:00:00"), decided({ tool: "a\x1b[2J\nb", arguments: args, grant: "g\u200b" }));
  home.add(
    at("09:01:00"),
    answered(0, { by: "b\x9b", post: "p\x07", reason: "r\nresult 9\n  status  result" }),
  );
  const text = shown(home, 0);
  assert.ok(text.includes(`\n  arguments     ${args.replace("\u202e", "\\u202e")}\n`));
  for (
    const line of [
      "  tool          a\\u001b[2J\\u000ab",
      "  grant         g\\u200b",
      "  by        b\\u009b",
      "  post      p\\u0007",
      "  reason    r\\u000aresult 9\\u000a  status  result",
    ]
  ) {
    assert.ok(text.includes(`\n${line}\n`), line);
  }
});

Deno.test("a number that the log does not have is told, with status 1", async () => {
  using home = new CallsHome();
  aDay(home);
  assert.throws(() => showCall(home.audit, 14, new Recorder(), false), Failed);
  assert.deepEqual(await runCtl(home.root, ["audit", "show", "14"]), {
    code: 1,
    stdout: "",
    stderr: "bxctl: no record 14 is in the audit log\n" +
      "bxctl: see bxctl audit log for the calls there are\n",
  });
  assert.equal(shown(home, 13).split("\n")[0], "decision 13");
});

Deno.test("a call of a log that is not whole is shown all the same, with a warning and status 1", () => {
  using home = new CallsHome();
  aDay(home);
  const path = home.path(at("09:00:00"));
  Deno.writeTextFileSync(path, Deno.readTextFileSync(path).replace("ls -l", "ls -a"));
  const io = new Recorder();
  assert.equal(showCall(home.audit, 3, io, false), 1);
  assert.equal(io.out, APPROVED.replace("ls -l", "ls -a"));
  assert.match(io.err, /^bxctl: 2026-12-01\.jsonl:5: prev .*\n.*#audit-chain-broken\n$/);
});
