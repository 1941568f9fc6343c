/** The checker of the torture harness: a whole story passes, and what its clients cannot have been told is found. */
import assert from "node:assert/strict";
import {
  ALLOWED,
  answer,
  approval,
  ASK,
  decision,
  denied,
  FILE,
  hashOf,
  NEXT,
  result,
  Scene,
} from "../support/torture_scene.ts";
import {
  approved,
  before,
  blocked,
  both,
  called,
  type Cases,
  content,
  DENIED,
  error,
  failed,
  filed,
  findEach,
  framed,
  logged,
  NO_GRANT,
  NOT_RECORDED,
  owner,
  passEach,
  ran,
  SECRET,
  type Spoil,
  spoilEvent,
  state,
  told,
  TOO_MANY,
} from "../support/torture_spoils.ts";

Deno.test("a whole story passes, and is counted", () => {
  using scene = new Scene();
  const { findings, records, states, counts } = scene.check();
  assert.deepEqual(findings, []);
  assert.equal(records, 11);
  assert.deepEqual([...states], [["s1", { taint: "private", untrusted: false }], ["s2", SECRET]]);
  assert.deepEqual(counts, {
    "denied no_grant": 1,
    "result": 2,
    "denied approval_refused": 1,
    "failed sad": 1,
    "pending_approval": 1,
    "denied audit_unavailable": 1,
    "no answer": 1,
  });
});

const WELL: Readonly<Record<string, Spoil>> = {
  "a state that is being written": (scene) => {
    scene.afterwards = () => Deno.writeTextFileSync(`${scene.sessions}/s1.json.tmp`, "{");
  },
  "a state higher than the log says": state("s1", '{"taint":"secret","untrusted":true}'),
  "what is as it was before": both(before("s1", "private", false), before("s2", "secret", true)),
  "a state that could not be read for once": both(
    logged(decision("s1", "c8", denied("state_unreadable"), { ...NO_GRANT, ...SECRET })),
    logged(decision("s1", "c9", denied("no_grant"), NO_GRANT)),
    called("s1", "c8", { status: "denied", reason: "state_unreadable" }),
    called("s1", "c9", { status: "denied", reason: "no_grant" }),
  ),
  "a run that never began": both(
    logged(decision("s5", "c8", ALLOWED)),
    logged(result("s5", "c8", 11, "no runner", { status: "failed", class: "public" })),
    called("s5", "c8", failed("no runner")),
  ),
  "a result that could not be recorded": both(
    logged(decision("s1", "c8", ALLOWED)),
    ran("c8"),
    called("s1", "c8", NOT_RECORDED),
  ),
  "one too many that waits": both(
    logged(decision("s1", "c8", ASK)),
    called("s1", "c8", TOO_MANY),
  ),
  "a decision that came to be on disk all the same": both(
    logged(decision("s1", "c8", ALLOWED)),
    called("s1", "c8", DENIED),
  ),
  "an approval that expired": both(
    logged(decision("s1", "c8", ASK)),
    logged(approval("s1", "c8", 11, "expired", denied("approval_expired"))),
    called("s1", "c8", { status: "denied", reason: "approval_expired" }),
    owner("approve", 11, error("no_such_approval")),
  ),
  "an approval that no longer helps": both(
    logged(decision("s1", "c8", ASK)),
    logged(approval("s1", "c8", 11, "approved", denied("no_grant"))),
    called("s1", "c8", { status: "denied", reason: "no_grant" }),
    owner("approve", 11, approved(denied("no_grant"))),
  ),
  "owners who are told that nothing can be recorded": both(
    owner("approve", 10, approved(denied("audit_unavailable"))),
    owner("refuse", 10, error("audit_unavailable")),
  ),
  "a connection that was too slow to make its call": both(
    called("s3", "c9"),
    framed("c9", error("timeout")),
  ),
  "text that is longer in bytes": both(
    spoilEvent(2, { bytes: 6, sha256: hashOf("ö😀") }),
    told("c1", content("ö😀")),
  ),
};

Deno.test("what faults may leave of a story passes too", (t) => passEach(t, WELL));

const UNRECORDED: Cases = {
  "a denial without a record": [
    "call c9: told denied no_grant, and there is no decision",
    called("s3", "c9", { status: "denied", reason: "no_grant" }),
  ],
  "another reason": [
    `${FILE}:1: call c0: told denied grant_expired, and the log`,
    told("c0", { status: "denied", reason: "grant_expired" }),
  ],
  "a denial of what was allowed": [
    `${FILE}:2: call c1: told denied no_grant, and the log`,
    told("c1", { status: "denied", reason: "no_grant" }),
  ],
  "an expiry that is not recorded": [
    `${NEXT}:5: call c5: told denied approval_expired, and the log`,
    told("c5", { status: "denied", reason: "approval_expired" }),
  ],
  "a result of what was denied for want of a log": [
    `${FILE}:2: call c1: told denied audit_unavailable, and ${FILE}:3 is its result`,
    told("c1", DENIED),
  ],
  "another content": [
    `call c1: the result that ${FILE}:3 has is another`,
    told("c1", content("One")),
  ],
  "another class": [
    `call c1: the result that ${FILE}:3 has is another`,
    told("c1", content("one", { class: "public" })),
  ],
  "another trust": [
    `call c1: the result that ${FILE}:3 has is another`,
    told("c1", content("one", { untrusted: true })),
  ],
  "cut, and not said": [
    `call c1: the result that ${FILE}:3 has is another`,
    spoilEvent(2, { truncated: true }),
  ],
  "another size": [
    `call c1: the result that ${FILE}:3 has is another`,
    spoilEvent(2, { bytes: 4 }),
  ],
  "another message": [
    `call c4: the result that ${NEXT}:4 has is another`,
    told("c4", failed("glad")),
  ],
  "a failure for a result": [
    `call c1: the result that ${FILE}:3 has is another`,
    told("c1", failed("one")),
  ],
  "a content without a result": [
    `${NEXT}:5: call c5: told result, and no result`,
    told("c5", content("x")),
  ],
  "another number to wait for": [
    `${NEXT}:5: call c5: told to wait for 6`,
    told("c5", { status: "pending_approval", approval: 6, expires: "x" }),
  ],
  "told to wait where nobody was asked": [
    `${FILE}:2: call c1: told to wait for 1, and record 1 says allowed`,
    told("c1", { status: "pending_approval", approval: 1, expires: "x" }, content("one")),
  ],
  "other arguments": [
    `${FILE}:2: call c1: has another tool or other arguments`,
    spoilEvent(1, { arguments: "{}" }),
  ],
  "another tool": [
    `${FILE}:1: call c0: has another tool or other arguments`,
    spoilEvent(0, { tool: "shell" }),
  ],
  "a run that could not be recorded, nor its decision": [
    "call c9: told failed the result could not be recorded, and there is no decision",
    called("s3", "c9", NOT_RECORDED),
  ],
  "a run that could not be recorded, of what was denied": [
    `${FILE}:1: call c0: told failed the result could not be recorded, and nothing`,
    told("c0", NOT_RECORDED),
  ],
  "one too many without its ask": [
    "call c9: told failed too many approvals are pending, and there is no decision",
    called("s3", "c9", TOO_MANY),
  ],
  "one too many that was answered by the owner": [
    `${NEXT}:1: call c3: told failed too many approvals are pending, and more`,
    told("c3", TOO_MANY),
  ],
  "an error": ["call c7: told internal", framed("c7", error("internal"))],
  "a call that was decided, and too slow": [
    `${FILE}:2: call c1: told timeout`,
    framed("c1", error("timeout")),
  ],
  "something that is no status": [`call c1: told {"v":1`, told("c1", { status: "maybe" })],
  "a frame of another kind": [
    "call c1: answer 1 of 1 is out of place",
    framed("c1", { ...answer(content("one")), kind: "turn_event" }),
  ],
  "a last answer that does not say so": [
    "call c1: answer 1 of 1 is out of place",
    framed("c1", { ...answer(content("one")), final: false }),
  ],
  "a wait that says that it is the last": [
    "call c5: answer 1 of 1 is out of place",
    framed("c5", {
      ...answer({ status: "pending_approval", approval: 10, expires: "x" }),
      final: true,
    }),
  ],
  "an answer after the last": [
    "call c1: answer 1 of 2 is out of place",
    told("c1", content("one"), content("one")),
  ],
  "an approval that is not recorded": [
    `${NEXT}:5: approval 10: approve was answered, and not recorded`,
    owner("approve", 10, approved(ASK)),
  ],
  "an approval of what was never decided": [
    "approval 99: approve was answered, and not recorded",
    owner("approve", 99, approved(ASK)),
  ],
  "an approval with another outcome": [
    `${FILE}:4: approval 3: told {"outcome":"denied","reason":"no_grant"}, and another`,
    owner("approve", 3, approved(denied("no_grant"))),
  ],
  "a refusal that is recorded as an approval": [
    `${FILE}:4: approval 3: refuse was answered, and approved recorded`,
    owner("refuse", 3, { kind: "ok", body: {} }),
  ],
  "a refusal that is not recorded": [
    `${NEXT}:5: approval 10: refuse was answered, and not recorded`,
    owner("refuse", 10, { kind: "ok", body: {} }),
  ],
  "an approval that is answered like a refusal": [
    `${FILE}:4: approval 3: approve was told ok`,
    owner("approve", 3, { kind: "ok", body: {} }),
  ],
  "an error for the owner": [
    `${NEXT}:5: approval 10: told error internal`,
    owner("approve", 10, error("internal")),
  ],
};

const RAN: Cases = {
  "a run of what was denied": [
    `${FILE}:1: read_file {"path":"/x/c0"} ran, and no record`,
    ran("c0"),
  ],
  "a run of what nobody approved": [
    `${NEXT}:5: read_file {"path":"/x/c5"} ran, and no record`,
    ran("c5"),
  ],
  "a run of what was refused": [
    `${NEXT}:1: read_file {"path":"/x/c3"} ran, and no record`,
    ran("c3"),
  ],
  "a run without a decision": [`read_file {"path":"/x/c7"} ran, and no record`, ran("c7")],
  "a run of no call": [
    `${NEXT}:6: read_file {"path":"/x/c9"} ran, and nobody called it`,
    both(logged(decision("s9", "c9", ALLOWED)), ran("c9")),
  ],
  "a run of another tool": [`${FILE}:2: shell {"path":"/x/c1"} ran, and no record`, (scene) => {
    scene.runs = scene.runs.map((run) => ({ ...run, tool: "shell" }));
  }],
  "a call that ran twice": [`${FILE}:2: read_file {"path":"/x/c1"} ran twice`, ran("c1")],
  "a run whose client was told that nothing could be recorded": [
    `${NEXT}:6: read_file {"path":"/x/c8"} ran, and its client was denied`,
    both(logged(decision("s1", "c8", ALLOWED)), called("s1", "c8", DENIED), ran("c8")),
  ],
  "a trusted result of what never ran": [
    `${FILE}:3: is a result, and nothing ran`,
    (scene) => void scene.runs.shift(),
  ],
  "a result of what never ran": [
    `${NEXT}:4: is a result, and nothing ran`,
    (scene) => void scene.runs.pop(),
  ],
};

const TAINT: Cases = {
  "no state": ["s1.json:0: has seen content", (scene) => void delete scene.states.s1],
  "no state that was there before": ["s9.json:0: has seen content", before("s9", "private", false)],
  "no state of what was given out": [
    "s3.json:0: has seen content",
    called("s3", "c9", content("x")),
  ],
  "a lower state": ["s2.json:1: has reached", state("s2", '{"taint":"private","untrusted":true}')],
  "a flag that is gone": [
    "s2.json:1: has reached",
    state("s2", '{"taint":"secret","untrusted":false}'),
  ],
  "a state lower than what was given out": [
    's1.json:1: has reached {"taint":"secret"',
    told("c1", content("one", { class: "secret" })),
  ],
  "a state lower than what was decided on": [
    's1.json:1: has reached {"taint":"secret"',
    both(
      logged(decision("s1", "c8", ALLOWED, { taint: "secret" })),
      called("s1", "c8"),
    ),
  ],
  "a state below private": [
    "s1.json:1: is no state",
    state("s1", '{"taint":"public","untrusted":false}'),
  ],
  "a state that is damaged": ["s1.json:1: is no state", state("s1", '{"taint":"private"}')],
  "a state with a key twice": [
    "s1.json:1: is no state",
    state("s1", '{"taint":"private","taint":"private","untrusted":false}'),
  ],
  "a state with a byte-order mark": [
    "s1.json:1: is no state",
    state("s1", '\ufeff{"taint":"private","untrusted":false}'),
  ],
  "a directory where a state was": [
    "s1.json:0: is no session's",
    blocked(({ sessions }) => `${sessions}/s1.json`),
  ],
  "a state of what is no session": [
    "S_1.json:0: is no session's",
    state("S_1", '{"taint":"private","untrusted":false}'),
  ],
  "a file in the place of the states": ["cannot be listed", filed(({ sessions }) => sessions)],
  "a state that was higher": ["s1.json:1: has reached", before("s1", "secret", false)],
  "a state that was untrusted": ["s1.json:1: has reached", before("s1", "private", true)],
  "a decision on less": [
    `${NEXT}:5: was decided on less`,
    spoilEvent(4, { taint: "private" }, NEXT),
  ],
  "a decision on less than trust": [
    `${NEXT}:5: was decided on less`,
    spoilEvent(4, { untrusted: false }, NEXT),
  ],
  "a decision on less than a session starts with": [
    `${FILE}:1: was decided on less`,
    spoilEvent(0, { taint: "public" }),
  ],
  "a decision on less than another": [
    `${FILE}:2: was decided on less`,
    spoilEvent(0, { taint: "secret" }),
  ],
  "an unreadable state that is no reason for care": [
    `${NEXT}:6: could not read the state`,
    logged(decision("s1", "c8", denied("state_unreadable"), NO_GRANT)),
  ],
  "an unreadable state that is half a reason for care": [
    `${NEXT}:6: could not read the state`,
    logged(decision("s1", "c8", denied("state_unreadable"), { ...NO_GRANT, taint: "secret" })),
  ],
  "a taint that goes down": [
    `${NEXT}:7: the taint went down`,
    both(
      logged(decision("s2", "c8", ALLOWED, SECRET), result("s2", "c8", 11, "x")),
      called("s2", "c8"),
      ran("c8"),
    ),
  ],
  "a taint that did not rise": [
    `${NEXT}:4: the taint did not rise`,
    spoilEvent(3, { taint_after: "private" }, NEXT),
  ],
};

Deno.test("an answer without its record is found", (t) => findEach(t, "unrecorded", UNRECORDED));
Deno.test("a run without its record is found", (t) => findEach(t, "ran", RAN));
Deno.test("a taint that was lowered or lost is found", (t) => findEach(t, "taint", TAINT));
