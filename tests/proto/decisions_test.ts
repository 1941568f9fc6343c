/** The words of a decision: each in one form, and nothing beside it (specification 5, contracts 5). */
import assert from "node:assert/strict";
import { DecisionRecord, denied, DENY_REASONS } from "../../proto/decisions.ts";

Deno.test("a decision is allowed, ask, or denied for one of the reasons", {
  permissions: "none",
}, () => {
  const records = [{ outcome: "allowed" }, { outcome: "ask" }, ...DENY_REASONS.map(denied)];
  for (const record of records) {
    assert.deepEqual(DecisionRecord.parse(record), record);
    const more = { ...record, grant: "notes-read" };
    assert.equal(DecisionRecord.safeParse(more).success, false, JSON.stringify(more));
  }
  const wrong = [
    ...[{}, { outcome: "denied" }, { outcome: "denied", reason: "other" }, { outcome: "approved" }],
    ...[{ outcome: "allowed", reason: "no_grant" }, { reason: "no_grant" }, "allowed", null],
  ];
  for (const record of wrong) assert.equal(DecisionRecord.safeParse(record).success, false);
});
