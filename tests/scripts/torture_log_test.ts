/** The checker of the torture harness on the log: what a crash may leave passes, and each fault is found and named. */
import assert from "node:assert/strict";
import {
  ALLOWED,
  approval,
  ASK,
  decision,
  denied,
  FILE,
  hashOf,
  NEXT,
  result,
  ZEROS,
} from "../support/torture_scene.ts";
import {
  addTo,
  blocked,
  both,
  type Cases,
  change,
  filed,
  findEach,
  headOf,
  logged,
  mayBeTorn,
  NO_GRANT,
  passEach,
  recovered,
  replaceIn,
  SECRET,
  type Spoil,
  spoilEvent,
  TORN,
  WHOLE,
} from "../support/torture_spoils.ts";

const WELL: Readonly<Record<string, Spoil>> = {
  "a torn end after a crash": both(mayBeTorn, addTo(NEXT, TORN)),
  "a torn end before an empty file": both(
    mayBeTorn,
    addTo(NEXT, TORN),
    (scene) => void (scene.events["2026-12-03.jsonl"] = []),
  ),
  "torn lines after a crash": both(mayBeTorn, addTo(NEXT, `${TORN}\n{"seq`)),
  "a whole record without its newline after a crash": both(mayBeTorn, addTo(NEXT, WHOLE)),
  "a torn end that was recovered": recovered(TORN),
  "torn lines that were recovered twice": recovered(`${TORN}\n{"seq`),
  "a whole record without its newline that was recovered": recovered(WHOLE),
  "torn lines as long as a record may be": recovered(`${"x".repeat(2 ** 20)}\n${TORN}`),
  "no head.json": (scene) => {
    scene.spoil = (texts) => void delete texts["head.json"];
  },
  "a head.json that is not whole": replaceIn("head.json", /.*/, "{"),
  "a head.json a byte too long": replaceIn("head.json", '{"seq":10,', '{"seq":99,  '),
  "a head.json beyond what is safe": change("head.json", () => headOf(2 ** 53, ZEROS)),
  "a head.json in another form": replaceIn("head.json", '{"seq":10,', '{"seq":099,'),
  "a directory where head.json was": blocked(({ audit }) => `${audit}/head.json`),
  "a head.json that lags": (scene) => {
    scene.spoil = (texts) => {
      texts["head.json"] = headOf(2, hashOf(texts[FILE]?.split("\n")[2] ?? ""));
    };
  },
  "an empty file, and files that are not the log": (scene) => {
    const { [FILE]: first = [], [NEXT]: second = [] } = scene.events;
    scene.events = { "2026-11-30.jsonl": [], [FILE]: first, "2026-12-01.jsonl.bak": [] };
    scene.events[NEXT] = second;
    scene.spoil = (texts) => void (texts["2026-13-01.jsonl"] = texts["x.jsonl"] = "x\n");
  },
  "nothing at all, where nothing was said": (scene) => {
    [scene.calls, scene.owner, scene.runs, scene.events] = [[], [], [], {}];
    scene.spoil = (texts) => void delete texts["head.json"];
    scene.afterwards = () => Deno.removeSync(scene.audit);
  },
};

Deno.test("a log that a crash may leave passes", (t) => passEach(t, WELL));

const UNPARSED = `${FILE}:1: does not parse, and no recovery`;

const LOG: Cases = {
  "a changed byte": [`${FILE}:2: does not follow`, replaceIn(FILE, '"c0"', '"cO"')],
  "a line that is gone": [`${FILE}:1: does not follow`, replaceIn(FILE, /^.*\n/, "")],
  "two lines swapped": [`${FILE}:1: does not follow`, replaceIn(FILE, /^(.*\n)(.*\n)/, "$2$1")],
  "the first line of a day that is gone": [
    `${NEXT}:1: does not follow`,
    replaceIn(NEXT, /^.*\n/, ""),
  ],
  "a seq that is skipped": [
    `${NEXT}:5: does not follow`,
    replaceIn(NEXT, '{"seq":10,', '{"seq":11,'),
  ],
  "a prev that is another": [
    `${NEXT}:5: does not follow`,
    replaceIn(NEXT, /"prev":"[^"]*"(?=[^\n]*\n$)/, `"prev":"${ZEROS}"`),
  ],
  "a space": [`${FILE}:3: does not parse`, replaceIn(FILE, '{"seq":2,', '{"seq": 2,')],
  "a carriage return": [UNPARSED, replaceIn(FILE, "\n", "\r\n")],
  "a byte-order mark": [UNPARSED, replaceIn(FILE, /^/, "\ufeff")],
  "another escape": [UNPARSED, replaceIn(FILE, '"c0"', '"c\\u0030"')],
  "a number in another form": [UNPARSED, replaceIn(FILE, '{"seq":0,', '{"seq":0.0,')],
  "a number that is not safe": [
    `${NEXT}:1: does not parse`,
    replaceIn(NEXT, '"seq":6,', '"seq":9007199254740992,'),
  ],
  "a number that is negative": [UNPARSED, replaceIn(FILE, '{"seq":0,', '{"seq":-1,')],
  "a key twice": [UNPARSED, replaceIn(FILE, '{"seq":0,', '{"seq":0,"seq":0,')],
  "another key": [UNPARSED, replaceIn(FILE, '"untrusted":false}}', '"untrusted":false,"x":1}}')],
  "a key that is gone": [UNPARSED, replaceIn(FILE, ',"untrusted":false}}', "}}")],
  "a key in another place": [
    UNPARSED,
    replaceIn(
      FILE,
      '"taint":"private","untrusted":false',
      '"untrusted":false,"taint":"private"',
    ),
  ],
  "a lone surrogate": [UNPARSED, spoilEvent(0, { tool: "\ud800" })],
  "a word in an array": [`${FILE}:5: does not parse`, spoilEvent(4, { answer: ["approved"] })],
  "a flag that is a word": [UNPARSED, spoilEvent(0, { untrusted: "false" })],
  "a hash in capitals": [
    `${FILE}:2: does not parse`,
    spoilEvent(1, { grant_sha256: "A".repeat(64) }),
  ],
  "a session that cannot be one": [UNPARSED, spoilEvent(0, { session: "S1" })],
  "a call that cannot be one": [UNPARSED, spoilEvent(0, { call: "c".repeat(65) })],
  "an hour that is none": [UNPARSED, replaceIn(FILE, "T10:00:00.000Z", "T24:00:00.000Z")],
  "a day that is none": [UNPARSED, replaceIn(FILE, "2026-12-01T", "2026-02-30T")],
  "a year of five digits": [UNPARSED, replaceIn(FILE, "2026-12-01T", "+012026-12-01T")],
  "an unknown class": [UNPARSED, spoilEvent(0, { taint: "top" })],
  "a line that is null": [UNPARSED, replaceIn(FILE, /^.*/, "null")],
  "an event that is null": [UNPARSED, replaceIn(FILE, /"event":.*/, '"event":null}')],
  "an event that is a word": [UNPARSED, replaceIn(FILE, /"event":.*/, '"event":"decision"}')],
  "an event without a type": [UNPARSED, replaceIn(FILE, /"event":.*/, '"event":{}}')],
  "an empty line at the beginning": [UNPARSED, replaceIn(FILE, /^/, "\n")],
  "an empty line": [`${FILE}:2: does not parse`, replaceIn(FILE, "\n", "\n\n")],
  "an unknown event": [UNPARSED, spoilEvent(0, { type: "rumour" })],
  "an event by the name of what every object has": [
    `${NEXT}:6: is torn`,
    logged({ type: "constructor" }),
  ],
  "an unknown reason": [UNPARSED, spoilEvent(0, { outcome: denied("bad_mood") })],
  "a file that has no real date": ["head.json:1: names record 10", (scene) => {
    scene.spoil = (texts) => {
      texts["2026-12-32.jsonl"] = texts[NEXT] ?? "";
      delete texts[NEXT];
    };
  }],
  "a directory by the name of a file": [
    `${NEXT}:0: is no regular file`,
    blocked(({ audit }) => `${audit}/${NEXT}`),
  ],
  "a file in the place of the log": ["cannot be listed", filed(({ audit }) => audit)],
  "a torn end that no crash can have left": [`${NEXT}:6: is torn`, addTo(NEXT, TORN)],
  "a last record without its newline": [`${NEXT}:5: is torn`, replaceIn(NEXT, /\n$/, "")],
  "a torn end of an older file": [`${FILE}:7: is torn`, both(mayBeTorn, addTo(FILE, TORN))],
  "a torn line in the middle": [
    `${FILE}:1: does not parse`,
    both(mayBeTorn, replaceIn(FILE, /^/, `${TORN}\n`)),
  ],
  "a recovery with another hash": [
    `${NEXT}:6: does not parse, and no`,
    recovered(TORN, TORN.toUpperCase()),
  ],
  "a recovery of a byte more": [
    `${NEXT}:6: does not parse, and no`,
    recovered(TORN, `${TORN}\n`),
  ],
  "a recovery of only the last line": [
    `${NEXT}:6: does not parse, and no`,
    recovered(`${TORN}\n{"seq`, '{"seq'),
  ],
  "a recovery that follows nothing": [
    `${NEXT}:7: does not follow`,
    recovered(TORN, TORN, { prev: ZEROS }),
  ],
  "a recovery with another seq": [`${NEXT}:7: does not follow`, recovered(TORN, TORN, { seq: 12 })],
  "a recovery of nothing": [
    `${NEXT}:6: does not parse, and no`,
    logged({ type: "recovery", torn_bytes: 0, torn_sha256: hashOf("") }),
  ],
  "an accepted break": [
    `${NEXT}:6: an accepted break`,
    logged({ type: "accepted_break", file: NEXT, line: 1, last_good: ZEROS }),
  ],
  "a head that leads": [
    "head.json:1: names record 11",
    replaceIn("head.json", '{"seq":10,', '{"seq":11,'),
  ],
  "a head with another hash": [
    `${NEXT}:5: head.json has another hash`,
    replaceIn("head.json", /"hash":"...../, '"hash":"00000'),
  ],
  "a head that lags with another hash": [`${FILE}:3: head.json has another hash`, (scene) => {
    scene.spoil = (texts) => void (texts["head.json"] = headOf(2, ZEROS));
  }],
  "a last record that is gone": ["head.json:1: names record 10", replaceIn(NEXT, /.*\n$/, "")],
  "a result of no decision": [`${FILE}:3: belongs to no`, spoilEvent(2, { decision: 5 })],
  "a result of a later decision": [`${FILE}:3: belongs to no`, spoilEvent(2, { decision: 3 })],
  "a result of another call": [`${FILE}:3: belongs to no`, spoilEvent(2, { call: "c2" })],
  "an approval of another session": [`${FILE}:5: belongs to no`, spoilEvent(4, { session: "s2" })],
  "a second result": [`${NEXT}:6: a second result`, logged(result("s1", "c1", 1, "one"))],
  "a result of what was denied": [
    `${NEXT}:6: a result of a call that was not`,
    logged(result("s1", "c0", 0, "zero")),
  ],
  "a result of what was refused": [
    `${NEXT}:6: a result of a call that was not`,
    logged(result("s2", "c3", 6, "three", { taint_after: "secret" })),
  ],
  "a result of what still waits": [
    `${NEXT}:6: a result of a call that was not`,
    logged(result("s2", "c5", 10, "five", { taint_after: "secret" })),
  ],
  "a result of what was approved and denied": [
    `${FILE}:6: a result of a call that was not`,
    spoilEvent(4, { outcome: denied("no_grant") }),
  ],
  "an approval where nobody was asked": [
    `${NEXT}:6: nobody was asked`,
    logged(approval("s1", "c1", 1, "approved", ALLOWED)),
  ],
  "a second approval": [
    `${NEXT}:6: comes too late`,
    logged(approval("s2", "c3", 6, "refused", denied("approval_refused"))),
  ],
  "an approval after the result": [
    `${FILE}:6: comes too late`,
    (scene) => {
      const [first, second] = scene.events[FILE]?.splice(4, 2) ?? [];
      assert(first !== undefined && second !== undefined);
      scene.events[FILE]?.push(second, first);
    },
  ],
  "a second decision of a call": [
    `${NEXT}:6: a second decision of call s1 c1`,
    logged(decision("s1", "c1", denied("no_grant"), NO_GRANT)),
  ],
  "a decision that only an approval comes to": [
    `${FILE}:1: no decision can be approval_expired`,
    spoilEvent(0, { outcome: denied("approval_expired") }),
  ],
  "a grant without its hash": [
    `${FILE}:2: has a grant or its hash`,
    spoilEvent(1, { grant_sha256: null }),
  ],
  "an allowed call without a grant": [`${FILE}:2: names no grant`, spoilEvent(1, NO_GRANT)],
  "a grant where none matched": [
    `${FILE}:1: names a grant`,
    spoilEvent(0, { grant: "g", grant_sha256: ZEROS }),
  ],
  "a refusal that lets run": [
    `${NEXT}:2: was refused, and its outcome is`,
    spoilEvent(1, { outcome: ASK }, NEXT),
  ],
  "an expiry that is called a refusal": [
    `${NEXT}:2: was expired, and its outcome is`,
    spoilEvent(1, { answer: "expired", by: null }, NEXT),
  ],
  "an approval that came out as a refusal": [
    `${NEXT}:2: was approved, and its outcome is`,
    spoilEvent(1, { answer: "approved" }, NEXT),
  ],
  "an approval by nobody": [`${FILE}:5: was approved by null`, spoilEvent(4, { by: null })],
  "an approval for a reason": [`${FILE}:5: was approved for`, spoilEvent(4, { reason: "why" })],
  "a call that nobody made": [
    `${NEXT}:6: nobody made this call`,
    logged(decision("s9", "c9", ALLOWED)),
  ],
  "other arguments than those of a call that got no answer": [
    `${NEXT}:6: has another tool`,
    logged(decision("s2", "c7", ALLOWED, { arguments: "{}", ...SECRET })),
  ],
  "an approval that the owner never gave": [
    `${FILE}:5: the owner was never asked to approve 3`,
    (scene) => void (scene.owner = scene.owner.slice(1)),
  ],
  "a refusal that the owner never gave": [
    `${NEXT}:2: the owner was never asked to refuse 6`,
    (scene) => void (scene.owner = scene.owner.slice(0, 1)),
  ],
};

Deno.test("what is wrong with the log is found", (t) => findEach(t, "log", LOG));
