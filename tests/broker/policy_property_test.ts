/** Decisions against the oracle of generated cases (specification 12, "Property test"). */
import assert from "node:assert/strict";
import fc from "fast-check";
import { decide, redecide } from "../../broker/policy.ts";
import { runs } from "../support/long.ts";
import { aCase, EACH, oracle, situationOf } from "../support/policy_cases.ts";

const RUNS = runs(2_000, 100_000);

Deno.test({
  name: "every decision is the one that the oracle gives, with its reason and its grant",
  permissions: "none",
  fn() {
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(aCase, (one) => {
        const { state } = one;
        const expected = oracle(one);
        const situation = situationOf(one);
        for (const how of [decide, redecide]) {
          const decision = how(situation);
          const record = decision.toRecord();
          const { covered } = decision;
          assert.deepEqual({
            outcome: record.outcome,
            reason: record.outcome === "denied" ? record.reason : null,
            grant: covered?.grant.id ?? null,
            matchedPath: covered?.matchedPath ?? null,
          }, expected);
          assert.deepEqual(decision.state, state ?? { taint: "secret", untrusted: true });
          const runsIf = how === decide ? ["allowed"] : ["allowed", "ask"];
          assert.equal(decision.mayRun, runsIf.includes(expected.outcome));
        }
        const word = expected.reason ?? expected.outcome;
        seen.set(word, (seen.get(word) ?? 0) + 1);
      }),
      { numRuns: RUNS },
    );
    for (const word of EACH) {
      const share = (seen.get(word) ?? 0) / RUNS;
      assert.ok(share >= 0.02, `${word} is only ${(share * 100).toFixed(1)} % of the cases`);
    }
    assert.equal(seen.size, EACH.length, "no outcome but these");
  },
});
