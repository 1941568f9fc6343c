/** The words of each denial, exactly (specification 8). */
import assert from "node:assert/strict";
import { DENIALS, denialText } from "../../loop/denials.ts";
import { DENY_REASONS } from "../../proto/decisions.ts";

Deno.test({
  name: "each reason has the words of the specification, and no other does",
  permissions: "none",
  fn() {
    const table = `
      no_grant: Denied: no grant allows this call.
      grant_expired: Denied: the grant for this call has expired.
      taint_too_high: Denied: this session has seen data too sensitive for this call.
      denied_by_grant: Denied: a grant forbids this call.
      approval_refused: Denied: the owner refused this call.
      approval_expired: Denied: the approval request expired without an answer.
      invalid_arguments: Denied: the arguments are not valid for this tool.
      grants_invalid: Denied: the grant files have an error; the owner has been told.
      audit_unavailable: Denied: the audit log cannot be written; the owner has been told.
      state_unreadable: Denied: this session's broker state is damaged; the owner has been told.`;
    const rows = table.trim().split("\n").map((row) => row.trim());
    assert.deepEqual(
      DENY_REASONS.map((reason) => `${reason}: ${DENIALS[reason]}`).sort(),
      rows.sort(),
    );
  },
});

Deno.test({
  name: "a hint stands after the words, and without one there are only the words",
  permissions: "none",
  fn() {
    for (const reason of DENY_REASONS) {
      assert.equal(denialText(reason, undefined), DENIALS[reason]);
      assert.equal(denialText(reason, "a\nb"), `${DENIALS[reason]}\nYour owner says: a\nb`);
    }
  },
});
