/** What the real brokerd decides is what bxctl says of it, from the log and the grants alone. */
import assert from "node:assert/strict";
import { replayGrants } from "../../ctl/grants_replay.ts";
import { testGrants } from "../../ctl/grants_try.ts";
import { why } from "../../ctl/why.ts";
import { Recorder } from "../support/ctl.ts";
import { DENY, WatchedBroker, whole } from "../support/hostile.ts";
import { recordsIn } from "../support/log.ts";

Deno.test("bxctl replays and explains what brokerd decided, and foretells what it will", async () => {
  await using watched = await WatchedBroker.start((home) => {
    home.grant("keys", DENY.replace("/n", "/n/keys"));
  });
  const { layout } = watched.home;
  const places = { audit: layout.audit, grants: layout.grants };
  const io = new Recorder();
  const json = (run: () => void) => {
    io.out = "";
    run();
    return JSON.parse(io.out);
  };
  const foretold = (path: string) => {
    const call = { tool: "read_file", arguments: JSON.stringify({ path }) };
    const { outcome } = json(() =>
      testGrants(places, { ...call, session: "s1", taint: null }, io, true)
    );
    return outcome.reason ?? outcome.outcome;
  };
  const CALLS = { "/n/b": "allowed", "/n/keys/id": "denied_by_grant", "/m": "no_grant" };
  for (const [path, outcome] of Object.entries({ ...CALLS, "m": "invalid_arguments" })) {
    assert.equal(foretold(path), outcome);
    assert.equal(await watched.call("s1", path), outcome);
  }
  const seqs = recordsIn(layout.audit).filter(({ event }) => event.type === "decision")
    .map(({ seq }) => seq);
  assert.equal(seqs.length, 5);
  for (const seq of seqs) {
    const said = json(() => why(places, seq, io, true));
    assert.deepEqual(
      [said.same_outcome, said.now.grant, said.grant_file === "changed"],
      [true, said.record.event.grant, false],
    );
  }
  const replayed = () => {
    const { decisions, differing } = json(() => replayGrants(places, null, io, true));
    return [decisions, differing];
  };
  assert.deepEqual(replayed(), [5, 0]);
  // A grant that is changed under them.
  Deno.writeTextFileSync(watched.grantPath("keys.toml"), whole(DENY));
  assert.deepEqual(replayed(), [5, 2]);
  assert.equal(foretold("/n/b"), "denied_by_grant");
  assert.equal(await watched.call("s1", "/n/b"), "denied_by_grant");
});
