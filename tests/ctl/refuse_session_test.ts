/** `bxctl refuse --session ID --all`. */
import assert from "node:assert/strict";
import { Admin } from "../../ctl/admin.ts";
import { refuseSession } from "../../ctl/refuse.ts";
import { AskingBroker, endOf } from "../support/asked.ts";
import { CtlHome, Recorder, runCtl } from "../support/ctl.ts";
import { FakeBroker, pending } from "../support/daemons.ts";

Deno.test("every waiting call of the session is refused and said, and no other", async () => {
  await using asking = await AskingBroker.start({
    notes: { mode: "ask", constraints: { paths: ["/n"] } },
  });
  const ours = [];
  for (const path of ["/n/a", "/n/b"]) ours.push(await asking.waits("read_file", { path }, "s1"));
  const other = await asking.asks("read_file", { path: "/n/a" }, "s2");
  const refuse = ["refuse", "--session", "s1", "--all", "--reason", "enough"];
  const ran = await runCtl(asking.path, refuse);
  assert.equal(ran.code, 0, ran.stderr);
  assert.equal(ran.stdout, ours.map(({ approval }) => `refused ${approval}\n`).join(""));
  for (const one of ours) assert.equal(await endOf(one), "approval_refused");
  const { stdout } = await runCtl(asking.path, ["approvals", "--json"]);
  assert.deepEqual(
    JSON.parse(stdout).map(({ approval }: { approval: number }) => approval),
    [other],
  );
  const again = await runCtl(asking.path, refuse);
  assert.equal(again.stdout, "no approvals of session s1 are pending\n");
  const json = await runCtl(asking.path, ["refuse", "--session", "s2", "--all", "--json"]);
  assert.deepEqual(JSON.parse(json.stdout), {
    ...{ session: "s2", answer: "refused", approvals: [other] },
  });
});

Deno.test("a call that ends meanwhile is passed over, and the others are refused", async () => {
  using home = new CtlHome();
  using broker = new FakeBroker(home.layout.adminSocket);
  broker.items = [41, 42, 43].map((approval) => pending({ approval }));
  broker.answered = () => broker.items = broker.items.filter(({ approval }) => approval !== 42);
  const io = new Recorder();
  const admin = new Admin(home.layout.adminSocket);
  assert.equal(await refuseSession(admin, io, false, "chat-1", null), 0);
  assert.equal(io.out, "refused 41\nrefused 43\n");
  assert.equal(io.err, "bxctl: approval 42 ended without an answer here\n");
});
