/** The checker of the torture harness: a whole story passes, and each thing that may be wrong is found. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import {
  type CallSeen,
  check,
  type Evidence,
  type Finding,
} from "../../scripts/torture/checker.ts";

const hashOf = (text: string | Uint8Array) => createHash("sha256").update(text).digest("hex");
const ZEROS = "0".repeat(64);
const FILE = "2026-12-01.jsonl";
const NEXT = "2026-12-02.jsonl";

type Json = Readonly<Record<string, unknown>>;

const argumentsOf = (call: string) => JSON.stringify({ path: `/x/${call}` });

function decision(session: string, call: string, outcome: Json, more: Json = {}): Json {
  return {
    ...{
      type: "decision",
      session,
      call,
      tool: "read_file",
      arguments: argumentsOf(call),
      outcome,
    },
    ...{ grant: "g", grant_sha256: hashOf("g"), taint: "private", untrusted: false, ...more },
  };
}

function approval(session: string, call: string, seq: number, answer: string, outcome: Json): Json {
  const by = answer === "expired" ? null : "bxctl";
  return {
    ...{ type: "approval", session, call, decision: seq, answer, by, post: null, reason: null },
    outcome,
  };
}

function result(
  session: string,
  call: string,
  seq: number,
  content: string,
  more: Json = {},
): Json {
  return {
    ...{ type: "result", session, call, decision: seq, status: "result", class: "private" },
    ...{ untrusted: false, truncated: false, bytes: content.length, sha256: hashOf(content) },
    ...{ taint_after: "private", ...more },
  };
}

const ALLOWED = { outcome: "allowed" };
const ASK = { outcome: "ask" };
const denied = (reason: string) => ({ outcome: "denied", reason });
const answer = (body: Json) => ({ v: 1, kind: "tool_response", final: true, body });

/** A story in a temporary place, as it should be. A case spoils it before it is checked. */
class Scene implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-checker-" });
  readonly audit = `${this.root}/audit`;
  readonly sessions = `${this.root}/sessions`;
  /** The log by file, an event a line. */
  events: Record<string, Json[]> = {
    [FILE]: [
      decision("s1", "c0", denied("no_grant"), { grant: null, grant_sha256: null }),
      decision("s1", "c1", ALLOWED),
      result("s1", "c1", 1, "one"),
      decision("s1", "c2", ASK),
      approval("s1", "c2", 3, "approved", ASK),
      result("s1", "c2", 3, "two"),
    ],
    [NEXT]: [
      decision("s2", "c3", ASK),
      approval("s2", "c3", 6, "refused", denied("approval_refused")),
      decision("s2", "c4", ALLOWED),
      result("s2", "c4", 8, "sad", {
        ...{ status: "failed", class: "secret", untrusted: true, taint_after: "secret" },
      }),
      decision("s2", "c5", ASK, { taint: "secret", untrusted: true }),
    ],
  };
  calls: CallSeen[] = [
    this.call("s1", "c0", { status: "denied", reason: "no_grant" }),
    this.call("s1", "c1", this.content("one")),
    this.call(
      "s1",
      "c2",
      { status: "pending_approval", approval: 3, expires: "x" },
      this.content("two"),
    ),
    this.call("s2", "c3", { status: "denied", reason: "approval_refused" }),
    this.call("s2", "c4", { status: "failed", message: "sad" }),
    this.call("s2", "c5", { status: "pending_approval", approval: 10, expires: "x" }),
    // What has no record: a writer that was latched, and a connection that ended.
    this.call("s2", "c6", { status: "denied", reason: "audit_unavailable" }),
    this.call("s2", "c7"),
  ];
  owner: Evidence["owner"] = [
    { kind: "approve", approval: 3, answer: { kind: "approve_result", body: { outcome: ASK } } },
    { kind: "refuse", approval: 6, answer: { kind: "ok", body: {} } },
    { kind: "approve", approval: 10, answer: null },
  ];
  runs = ["c1", "c2", "c4"].map((call) => ({ tool: "read_file", arguments: argumentsOf(call) }));
  states: Record<string, string> = {
    s1: '{"taint":"private","untrusted":false}',
    s2: '{"taint":"secret","untrusted":true}',
  };
  before: [string, { taint: string; untrusted: boolean }][] = [];
  mayBeTorn = false;
  /** Changes the text of a file, or what `head.json` says, before it is written. */
  spoil: (texts: Record<string, string>) => void = () => {};

  call(session: string, call: string, ...bodies: Json[]): CallSeen {
    const answers = bodies.map(answer);
    return { session, call, tool: "read_file", arguments: argumentsOf(call), answers };
  }

  content(content: string): Json {
    return { status: "result", content, class: "private", untrusted: false, truncated: false };
  }

  check(): readonly Finding[] {
    const texts: Record<string, string> = {};
    let prev = ZEROS;
    let seq = 0;
    for (const [name, events] of Object.entries(this.events)) {
      texts[name] = "";
      for (const event of events) {
        const line = JSON.stringify({ seq, time: "2026-12-01T10:00:00.000Z", prev, event });
        texts[name] += `${line}\n`;
        prev = hashOf(line);
        seq += 1;
      }
    }
    texts["head.json"] = `${JSON.stringify({ seq: seq - 1, hash: prev }).padEnd(127)}\n`;
    this.spoil(texts);
    for (const directory of [this.audit, this.sessions]) Deno.mkdirSync(directory);
    for (const [name, text] of Object.entries(texts)) {
      Deno.writeTextFileSync(`${this.audit}/${name}`, text);
    }
    for (const [session, text] of Object.entries(this.states)) {
      Deno.writeTextFileSync(`${this.sessions}/${session}.json`, text);
    }
    const { audit, sessions, calls, owner, runs, mayBeTorn } = this;
    const before = new Map(this.before);
    return check({ audit, sessions, calls, owner, runs, before, mayBeTorn }).findings;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

/** The text of a file of `texts`. */
const textOf = (texts: Record<string, string>, name: string) => texts[name] ?? "";

function replaceIn(name: string, from: string | RegExp, to: string): (scene: Scene) => void {
  return (scene) => {
    scene.spoil = (texts) => {
      const text = textOf(texts, name);
      texts[name] = text.replace(from, to);
      assert.notEqual(texts[name], text, "something was spoilt");
    };
  };
}

/** The event at `at` of the first file with `more` in it. */
function spoilEvent(at: number, more: Json, name = FILE): (scene: Scene) => void {
  return (scene) => {
    const events = scene.events[name];
    assert(events?.[at] !== undefined);
    events[at] = { ...events[at], ...more };
  };
}

/** The frames of the call `id` instead of its own. */
function told(id: string, ...bodies: Json[]): (scene: Scene) => void {
  return (scene) => {
    scene.calls = scene.calls.map((seen) =>
      seen.call === id ? { ...seen, answers: bodies.map(answer) } : seen
    );
  };
}

Deno.test("a whole story passes", () => {
  using scene = new Scene();
  assert.deepEqual(scene.check(), []);
});

const TORN = '{"seq":11,"time":"2026';

function recovered(torn: string, covered = torn): (scene: Scene) => void {
  return (scene) => {
    scene.spoil = (texts) => {
      const lines = textOf(texts, NEXT).trimEnd().split("\n");
      const event = {
        ...{ type: "recovery", torn_bytes: new TextEncoder().encode(covered).length },
        torn_sha256: hashOf(covered),
      };
      const time = "2026-12-02T10:00:00.000Z";
      const prev = hashOf(lines.at(-1) ?? "");
      texts[NEXT] += `${torn}\n${JSON.stringify({ seq: 11, time, prev, event })}\n`;
    };
  };
}

const WELL: Readonly<Record<string, (scene: Scene) => void>> = {
  "a torn end after a crash": (scene) => {
    scene.mayBeTorn = true;
    scene.spoil = (texts) => void (texts[NEXT] += TORN);
  },
  "a torn end that was recovered": recovered(TORN),
  "torn lines that were recovered twice": recovered(`${TORN}\n{"seq`),
  "no head.json, and one that is not whole": (scene) => {
    scene.spoil = (texts) => void (texts["head.json"] = "{");
  },
  "a head.json that lags": (scene) => {
    scene.spoil = (texts) => {
      const line = textOf(texts, FILE).split("\n")[2] ?? "";
      texts["head.json"] = `${JSON.stringify({ seq: 2, hash: hashOf(line) }).padEnd(127)}\n`;
    };
  },
  "an empty file in between": (scene) => {
    const { [FILE]: first = [], [NEXT]: second = [] } = scene.events;
    scene.events = {
      "2026-11-30.jsonl": [],
      [FILE]: first,
      "2026-12-01.jsonl.bak": [],
      [NEXT]: second,
    };
  },
};

Deno.test("what a crash may leave passes too", async (t) => {
  for (const [name, spoil] of Object.entries(WELL)) {
    await t.step(name, () => {
      using scene = new Scene();
      spoil(scene);
      assert.deepEqual(scene.check(), []);
    });
  }
});

const FOUND: Readonly<Record<Finding["kind"], Readonly<Record<string, (scene: Scene) => void>>>> = {
  log: {
    "a changed byte": replaceIn(FILE, '"c0"', '"cO"'),
    "a line that is gone": replaceIn(FILE, /^.*\n/, ""),
    "the first line of a day that is gone": replaceIn(NEXT, /^.*\n/, ""),
    "a space": replaceIn(FILE, '{"seq":2,', '{"seq": 2,'),
    "another key": replaceIn(FILE, '"untrusted":false}}', '"untrusted":false,"x":1}}'),
    "a key in another place": replaceIn(
      FILE,
      '"taint":"private","untrusted":false',
      '"untrusted":false,"taint":"private"',
    ),
    "a time that is none": replaceIn(FILE, "T10:00:00.000Z", "T24:00:00.000Z"),
    "a seq that is skipped": replaceIn(NEXT, '{"seq":10,', '{"seq":11,'),
    "an empty line": replaceIn(FILE, "\n", "\n\n"),
    "an unknown event": spoilEvent(0, { type: "rumour" }),
    "an unknown reason": spoilEvent(0, { outcome: denied("bad_mood") }),
    "a torn end that no crash can have left": (scene) => {
      scene.spoil = (texts) => void (texts[NEXT] += TORN);
    },
    "a torn end of an older file": (scene) => {
      scene.mayBeTorn = true;
      scene.spoil = (texts) => void (texts[FILE] += TORN);
    },
    "a recovery of something else": recovered(TORN, `${TORN} `),
    "a recovery of nothing": (scene) => {
      const event = { type: "recovery", torn_bytes: 0, torn_sha256: hashOf("") };
      scene.events[NEXT]?.push(event);
    },
    "an accepted break": (scene) => {
      scene.events[NEXT]?.push({ type: "accepted_break", file: NEXT, line: 1, last_good: ZEROS });
    },
    "a head that leads": replaceIn("head.json", '{"seq":10,', '{"seq":11,'),
    "a head with another hash": replaceIn("head.json", /"hash":"...../, '"hash":"00000'),
    "a result of no decision": spoilEvent(2, { decision: 0 }),
    "a result of another call": spoilEvent(2, { call: "c2" }),
    "a second result": (scene) => void scene.events[NEXT]?.push(result("s1", "c1", 1, "one")),
    "a result of what was denied": (scene) =>
      void scene.events[NEXT]?.push(result("s1", "c0", 0, "zero")),
    "a result of what was refused": (scene) =>
      void scene.events[NEXT]?.push(result("s2", "c3", 6, "three")),
    "an approval where nobody was asked": (scene) =>
      void scene.events[NEXT]?.push(approval("s1", "c1", 1, "approved", ALLOWED)),
    "a second approval": (scene) =>
      void scene.events[NEXT]?.push(approval("s1", "c2", 3, "approved", ALLOWED)),
    "a second decision of a call": (scene) =>
      void scene.events[NEXT]?.push(decision("s1", "c1", denied("no_grant"))),
  },
  unrecorded: {
    "a denial without a record": (scene) =>
      void scene.calls.push(scene.call("s3", "c9", { status: "denied", reason: "no_grant" })),
    "another reason": told("c0", { status: "denied", reason: "grant_expired" }),
    "a denial of what was allowed": told("c1", { status: "denied", reason: "no_grant" }),
    "another content": told("c1", {
      ...{ status: "result", content: "One", class: "private", untrusted: false, truncated: false },
    }),
    "another class": told("c1", {
      ...{ status: "result", content: "one", class: "public", untrusted: false, truncated: false },
    }),
    "cut, and not said": spoilEvent(2, { truncated: true }),
    "another message": told("c4", { status: "failed", message: "glad" }),
    "a content without a result": told("c5", {
      ...{ status: "result", content: "x", class: "private", untrusted: false, truncated: false },
    }),
    "another number to wait for": told("c5", {
      ...{ status: "pending_approval", approval: 6, expires: "x" },
    }),
    "other arguments": spoilEvent(1, { arguments: "{}" }),
    "another tool": spoilEvent(0, { tool: "shell" }),
    "an approval that is not recorded": (scene) => {
      const answer = { kind: "approve_result", body: { outcome: ASK } };
      scene.owner = [{ kind: "approve", approval: 10, answer }];
    },
    "an approval with another outcome": (scene) => {
      const answer = { kind: "approve_result", body: { outcome: denied("no_grant") } };
      scene.owner = [{ kind: "approve", approval: 3, answer }];
    },
    "a refusal that is recorded as an approval": (scene) => {
      scene.owner = [{ kind: "refuse", approval: 3, answer: { kind: "ok", body: {} } }];
    },
  },
  ran: {
    "a run of what was denied": (scene) =>
      void scene.runs.push({ tool: "read_file", arguments: argumentsOf("c0") }),
    "a run of what nobody approved": (scene) =>
      void scene.runs.push({ tool: "read_file", arguments: argumentsOf("c5") }),
    "a run of what was refused": (scene) =>
      void scene.runs.push({ tool: "read_file", arguments: argumentsOf("c3") }),
    "a run of no call": (scene) => void scene.runs.push({ tool: "read_file", arguments: "{}" }),
    "a run of another tool": (scene) => {
      scene.runs = scene.runs.map((run) => ({ ...run, tool: "shell" }));
    },
    "a call that ran twice": (scene) =>
      void scene.runs.push({ tool: "read_file", arguments: argumentsOf("c1") }),
    "a result of what never ran": (scene) => void scene.runs.pop(),
  },
  taint: {
    "no state": (scene) => void delete scene.states.s1,
    "a lower state": (scene) => {
      scene.states.s2 = '{"taint":"private","untrusted":true}';
    },
    "a flag that is gone": (scene) => {
      scene.states.s2 = '{"taint":"secret","untrusted":false}';
    },
    "a state below private": (scene) => {
      scene.states.s1 = '{"taint":"public","untrusted":false}';
    },
    "a state that is damaged": (scene) => {
      scene.states.s1 = '{"taint":"private"}';
    },
    "a state that was higher": (scene) => {
      scene.before = [["s1", { taint: "secret", untrusted: false }]];
    },
    "a decision on less": spoilEvent(4, { taint: "private" }, NEXT),
    "a taint that goes down": (scene) => {
      scene.events[NEXT]?.push(decision("s2", "c8", ALLOWED, { taint: "secret", untrusted: true }));
      scene.events[NEXT]?.push(result("s2", "c8", 11, "x"));
      scene.runs.push({ tool: "read_file", arguments: argumentsOf("c8") });
    },
    "a taint that did not rise": spoilEvent(3, { taint_after: "private" }, NEXT),
  },
};

for (const [kind, cases] of Object.entries(FOUND)) {
  Deno.test(`what is wrong is found: ${kind}`, async (t) => {
    for (const [name, spoil] of Object.entries(cases)) {
      await t.step(name, () => {
        using scene = new Scene();
        spoil(scene);
        const findings = scene.check();
        assert(findings.some((finding) => finding.kind === kind), JSON.stringify(findings));
      });
    }
  });
}
