/** An explanation and the decision always agree, and each grant is judged by the rules of specification 3. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { type Candidate, explain } from "../../broker/explain.ts";
import { decide } from "../../broker/policy.ts";
import { runs } from "../support/long.ts";
import { aCase, EACH, oracle, ruledOutBy, situationOf } from "../support/policy_cases.ts";

const RUNS = runs(2_000, 100_000);
const MATCHED = [
  "allowed",
  "ask",
  "denied_by_grant",
  "no_grant",
  "grant_expired",
  "taint_too_high",
];

/** Which rule a clause of a grant that is ruled out names, by its words. */
function ruleOf(words: string): "expired" | "tooHigh" | "gap" {
  if (words.startsWith("it expired at ")) return "expired";
  return words.startsWith("its max_taint is ") ? "tooHigh" : "gap";
}

const of = (candidates: readonly Candidate[], verdict: Candidate["verdict"]) =>
  candidates.filter((one) => one.verdict === verdict);

Deno.test("an explanation and its decision agree on the outcome, the grant and every candidate", {
  permissions: "none",
}, () => {
  const seen = new Set<string>();
  const verdicts = new Set<string>();
  fc.assert(
    fc.property(aCase, (one) => {
      const situation = situationOf(one);
      const decision = decide(situation);
      const { outcome, grant, grant_sha256, candidates } = explain(situation, () => null);
      assert.deepEqual(outcome, decision.toRecord());
      assert.equal(grant, decision.covered?.grant.id ?? null);
      assert.equal(grant_sha256, decision.covered?.grant.sha256 ?? null);
      const expected = oracle(one);
      const word = expected.reason ?? expected.outcome;
      seen.add(word);

      // Where no grant was looked at, none is shown; else every one of the tool is, once.
      const ofTool = one.grants.filter(({ tool }) => tool === one.call.tool);
      const looked = MATCHED.includes(word) ? ofTool : [];
      assert.deepEqual(
        candidates.map(({ grant }) => grant).toSorted(),
        looked.map(({ id }) => id).toSorted(),
      );
      assert.deepEqual(
        of(candidates, "decides").map(({ grant }) => grant),
        expected.grant === null ? [] : [expected.grant],
      );
      for (const { grant, verdict, clauses } of candidates) {
        verdicts.add(verdict);
        const file = looked.find(({ id }) => id === grant);
        assert.ok(file !== undefined && one.state !== null);
        const { expired, tooHigh, covers } = ruledOutBy(file, one, one.state.taint);
        const rules = [expired ? "expired" : [], tooHigh ? "tooHigh" : [], covers ? [] : "gap"]
          .flat();
        assert.equal(verdict === "ruled_out", rules.length > 0);
        // In the order of the specification, so that the first is the one that rules out.
        if (verdict === "ruled_out") {
          assert.deepEqual(clauses.map(({ words }) => ruleOf(words)), rules);
        } else assert.equal(clauses.length, 1);
      }
    }),
    { numRuns: RUNS },
  );
  assert.deepEqual([...seen].toSorted(), EACH.toSorted());
  assert.deepEqual([...verdicts].toSorted(), ["decides", "loses", "ruled_out"]);
});
