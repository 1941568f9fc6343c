/** Policy tables (specification 3 and 12; contracts 3): every row of every table is a case. */
import assert from "node:assert/strict";
import {
  decide,
  type Decision,
  isDecision,
  redecide,
  type Situation,
} from "../../broker/policy.ts";
import type { DecisionRecord, DenyReason } from "../../proto/decisions.ts";
import { DATA_CLASSES, TOOL_NAMES } from "../../proto/tools.ts";
import matching from "../../fixtures/vectors/matching.json" with { type: "json" };
import { type GrantFields, grantOf, grantSet } from "../support/grants.ts";

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

const NOW = "2026-12-01T10:00:00.000Z";
const SOON = "2026-12-01T10:00:00.001Z";
const FRESH = { taint: "private", untrusted: false } as const;

/** A call to read `/n/a` in a fresh session, but for what `differs`. */
function situation(grants: Situation["grants"], differs: Partial<Situation> = {}): Situation {
  return {
    now: NOW,
    grants,
    state: FRESH,
    tool: "read_file",
    arguments: '{"path":"/n/a"}',
    ...differs,
  };
}

/** How a decision came out, in one line: its outcome, its reason and the grant that decided. */
function told(decision: Decision): string {
  const record = decision.toRecord();
  const outcome = record.outcome === "denied" ? record.reason : record.outcome;
  const { covered } = decision;
  return covered === null ? outcome : `${outcome} by ${covered.grant.id}`;
}

const decided = (files: Readonly<Record<string, GrantFields>>, differs: Partial<Situation> = {}) =>
  told(decide(situation(grantSet(files), differs)));

const READ: GrantFields = { constraints: { paths: ["/n"] } };

for (const { name, now, grants, session, request, expect } of matching) {
  pure(`matching: ${name}`, () => {
    const taint = DATA_CLASSES.find((one) => one === session.taint);
    assert.ok(taint !== undefined);
    const state = { taint, untrusted: session.untrusted };
    const files: Readonly<Record<string, GrantFields | undefined>> = grants;
    const given = Object.entries(files).flatMap(([id, fields]) =>
      fields === undefined ? [] : [[id, fields] as const]
    );
    const set = grantSet(Object.fromEntries(given));
    const { grant, ...outcome } = expect;
    for (const how of [decide, redecide]) {
      const decision = how({ now, grants: set, state, ...request });
      assert.deepEqual(decision.toRecord(), outcome);
      assert.equal(decision.covered?.grant.id ?? null, grant);
      assert.deepEqual(decision.state, state);
    }
  });
}

/** The table "Paths": a grant's path, the path asked for, and what becomes of it. */
const PATHS: readonly (readonly [grant: string, path: string, outcome: string])[] = [
  ["/home/kyle/notes", "/home/kyle/notes/a.md", "inside"],
  ["/home/kyle/notes", "/home/kyle/notes", "inside"],
  ["/home/kyle/notes", "/home/kyle/notes2/a.md", "no_grant"],
  ["/home/kyle/notes", "/home/kyle/notes/../.ssh/id", "invalid_arguments"],
  ["/home/kyle/notes", "notes/a.md", "invalid_arguments"],
  ["/home/kyle/notes", "/home/kyle//notes/./a.md", "invalid_arguments"],
  ["/", "/etc/passwd", "inside"],
];

for (const [grant, path, outcome] of PATHS) {
  pure(`a grant of ${grant} and ${path}: ${outcome}`, () => {
    const constraints = { paths: [grant] };
    const calls = {
      read_file: { path },
      write_file: { path, content: "" },
      shell: { command: "ls", cwd: path },
    };
    for (const [tool, args] of Object.entries(calls)) {
      const self = tool === "write_file" && path === grant ? "no_grant" : "allowed by g";
      const expected = outcome === "inside" ? self : outcome;
      const call = { tool, arguments: JSON.stringify(args) };
      assert.equal(decided({ g: { tool, constraints } }, call), expected, tool);
    }
  });
}

/** The table "Hosts": a grant's hosts, the URL's host, and whether they match. */
const HOSTS: readonly (readonly [grant: readonly string[], host: string, matches: boolean])[] = [
  [["example.com"], "example.com", true],
  [["example.com"], "www.example.com", false],
  [["*.example.com"], "www.example.com", true],
  [["*.example.com"], "a.b.example.com", true],
  [["*.example.com"], "example.com", false],
  [["*.example.com", "example.com"], "example.com", true],
  [["other.example", "example.com"], "example.com", true],
];

for (const [hosts, host, matches] of HOSTS) {
  pure(
    `a grant of ${hosts.join(" and ")} ${matches ? "matches" : "does not match"} ${host}`,
    () => {
      const call = { tool: "http_fetch", arguments: JSON.stringify({ url: `https://${host}/a` }) };
      const expected = matches ? "allowed by g" : "no_grant";
      assert.equal(decided({ g: { tool: "http_fetch", constraints: { hosts } } }, call), expected);
    },
  );
}

/** The table of what each tool takes: when a grant covers a call. */
const COVERED: readonly {
  tool: string;
  constraints: GrantFields["constraints"];
  covers: unknown[];
  not: unknown[];
}[] = [
  {
    tool: "read_file",
    constraints: { paths: ["/n", "/m"] },
    covers: [{ path: "/n/a" }, { path: "/m" }, { path: "/m/b/c" }],
    not: [{ path: "/" }, { path: "/o" }, { path: "/nn" }],
  },
  {
    tool: "write_file",
    constraints: { paths: ["/n", "/m", "/m/b"] },
    covers: [{ path: "/n/a", content: "" }, { path: "/m/b/c", content: "" }],
    not: [{ path: "/n", content: "" }, { path: "/m/b", content: "" }, { path: "/o", content: "" }],
  },
  {
    tool: "shell",
    constraints: {},
    covers: [{ command: "rm -rf /" }],
    not: [{ command: "ls", cwd: "/n" }, { command: "ls", cwd: "/" }],
  },
  {
    tool: "shell",
    constraints: { paths: ["/n"] },
    covers: [{ command: "ls", cwd: "/n" }, { command: "ls", cwd: "/n/a" }],
    not: [{ command: "ls" }, { command: "ls", cwd: "/" }, { command: "ls", cwd: "/m" }],
  },
  {
    tool: "http_fetch",
    constraints: { hosts: ["a.example", "*.b.example"] },
    covers: [{ url: "https://a.example" }, { url: "https://x.b.example:443/c?d" }],
    not: [{ url: "https://b.example/" }, { url: "https://c.a.example/" }],
  },
];

for (const { tool, constraints = {}, covers, not } of COVERED) {
  pure(`what a grant of ${tool} with ${JSON.stringify(constraints)} covers`, () => {
    const grants = grantSet({ g: { tool, constraints } });
    assert.ok(grants.ok);
    const outcome = (args: unknown) =>
      told(decide(situation(grants, { tool, arguments: JSON.stringify(args) })));
    for (const args of covers) assert.equal(outcome(args), "allowed by g", JSON.stringify(args));
    for (const args of not) assert.equal(outcome(args), "no_grant", JSON.stringify(args));
    const other = grantSet({ g: { tool, constraints, mode: "deny" } });
    for (const args of covers) {
      const decision = decide(situation(other, { tool, arguments: JSON.stringify(args) }));
      assert.equal(told(decision), "denied_by_grant by g");
    }
  });
}

pure("a grant counts only for its own tool", () => {
  const constraints = { paths: ["/n"] };
  const files = { "the-grant": { tool: "write_file", constraints } };
  assert.equal(decided(files), "no_grant");
  assert.equal(
    decided({ "the-grant": { tool: "read_file", constraints } }),
    "allowed by the-grant",
  );
});

/** Each order of three. */
const ORDERS = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] as const;

pure("deny, then ask, then auto, whichever ids and order the grants have", () => {
  for (const [a, b, c] of ORDERS) {
    const modes = ["auto", "ask", "deny"];
    const files = {
      a: { ...READ, mode: modes[a] ?? "" },
      b: { ...READ, mode: modes[b] ?? "" },
      c: { ...READ, mode: modes[c] ?? "" },
    };
    const idOf = (mode: string) =>
      Object.entries(files).find(([, fields]) => fields.mode === mode)?.[0] ?? "";
    assert.equal(decided(files), `denied_by_grant by ${idOf("deny")}`);
    const { [idOf("deny")]: _deny, ...two } = Object.fromEntries(Object.entries(files));
    assert.equal(decided(two), `ask by ${idOf("ask")}`);
    const { [idOf("ask")]: _ask, ...one } = two;
    assert.equal(decided(one), `allowed by ${idOf("auto")}`);
  }
});

pure("a tie goes to the lowest id in byte order, in every mode and order", () => {
  const inOrder = ["-", "0", "10", "2", "a", "a-", "a-b", "a0", "aa", "b"];
  for (
    const [mode, outcome] of Object.entries(
      { auto: "allowed", ask: "ask", deny: "denied_by_grant" },
    )
  ) {
    for (let first = 0; first < inOrder.length; first += 1) {
      const ids = inOrder.slice(first);
      const backwards = Object.fromEntries(ids.toReversed().map((id) => [id, { ...READ, mode }]));
      assert.equal(decided(backwards), `${outcome} by ${ids[0]}`);
      const { grants } = { grants: ids.map((id) => grantOf({ ...READ, mode }, id)) };
      assert.equal(told(decide(situation({ ok: true, grants }))), `${outcome} by ${ids[0]}`);
    }
  }
});

pure("a grant has expired exactly at expires, and not a millisecond before", () => {
  const before = "2026-12-01T09:59:59.999Z";
  assert.equal(decided({ g: { ...READ, expires: before } }), "grant_expired");
  assert.equal(decided({ g: { ...READ, expires: NOW } }), "grant_expired");
  assert.equal(decided({ g: { ...READ, expires: SOON } }), "allowed by g");
  assert.equal(decided({ g: { ...READ, expires: "9999-12-31T23:59:59.999Z" } }), "allowed by g");
});

pure("a session's taint must not be above max_taint, for each pair of classes", () => {
  for (const [high, max_taint] of DATA_CLASSES.entries()) {
    for (const [at, taint] of DATA_CLASSES.entries()) {
      const outcome = decided({ g: { ...READ, max_taint } }, {
        state: { taint, untrusted: false },
      });
      assert.equal(outcome, at > high ? "taint_too_high" : "allowed by g", `${taint} ${max_taint}`);
    }
  }
});

pure("the untrusted flag and the class of results rule nothing out", () => {
  for (const untrusted of [false, true]) {
    for (const result_class of DATA_CLASSES) {
      const files = { g: { ...READ, result_class, untrusted, max_taint: "private" } };
      assert.equal(decided(files, { state: { taint: "private", untrusted } }), "allowed by g");
    }
  }
});

/** A candidate and whether it is ruled out: by expiry, by taint, by its constraints. */
const EXPIRED: GrantFields = { ...READ, expires: NOW };
const TAINTED: GrantFields = { ...READ, max_taint: "public" };
const ELSEWHERE: GrantFields = { constraints: { paths: ["/m"] } };

const REASONS: readonly (readonly [string, readonly GrantFields[], DenyReason])[] = [
  ["one expired, another with too much taint", [EXPIRED, TAINTED], "grant_expired"],
  ["one with too much taint, another expired", [TAINTED, EXPIRED], "grant_expired"],
  ["one elsewhere, another with too much taint", [ELSEWHERE, TAINTED], "taint_too_high"],
  ["one elsewhere, another expired", [ELSEWHERE, EXPIRED], "grant_expired"],
  ["one that is both", [{ ...EXPIRED, ...TAINTED }], "no_grant"],
  ["one that is both, another with too much taint", [
    { ...EXPIRED, ...TAINTED },
    TAINTED,
  ], "taint_too_high"],
  ["one that is both, another expired", [{ ...EXPIRED, ...TAINTED }, EXPIRED], "grant_expired"],
  ["one expired and elsewhere", [{ ...EXPIRED, ...ELSEWHERE }], "no_grant"],
  ["one with too much taint and elsewhere", [{ ...TAINTED, ...ELSEWHERE }], "no_grant"],
  ["one expired of another tool", [{ ...EXPIRED, tool: "write_file" }], "no_grant"],
  ["an expired deny", [{ ...EXPIRED, mode: "deny" }], "grant_expired"],
  ["a deny with too much taint", [{ ...TAINTED, mode: "deny" }], "taint_too_high"],
];

for (const [what, candidates, reason] of REASONS) {
  pure(`no grant is left, ${what}: ${reason}`, () => {
    const files = Object.fromEntries(candidates.map((fields, at) => [`g${at}`, fields]));
    assert.equal(decided(files), reason);
    assert.equal(decided({ ...files, "h": READ }), "allowed by h", "the same call with a grant");
  });
}

pure("a grant that is ruled out does not make the mode stricter", () => {
  const deny = { mode: "deny" };
  for (const ruledOut of [EXPIRED, TAINTED, ELSEWHERE]) {
    assert.equal(decided({ a: { ...ruledOut, ...deny }, b: READ }), "allowed by b");
  }
  assert.equal(decided({ a: { ...READ, ...deny }, b: READ }), "denied_by_grant by a");
});

/** The checks in their order, each with what makes it fail. */
const CHECKS: readonly (readonly [DenyReason, Partial<Situation>])[] = [
  ["grants_invalid", {
    grants: { ok: false, problems: [{ file: "x.toml", line: 1, problem: "is bad" }] },
  }],
  ["state_unreadable", { state: null }],
  ["invalid_arguments", { arguments: "{}" }],
  ["no_grant", { grants: grantSet({}) }],
];

pure("the first check that fails gives the reason, whatever else fails", () => {
  const good = situation(grantSet({ g: READ }));
  assert.equal(told(decide(good)), "allowed by g");
  for (let fails = 1; fails < 2 ** CHECKS.length; fails += 1) {
    const failing = CHECKS.filter((_, at) => (fails >> at) % 2 === 1);
    let call = good;
    // In reverse, so that the set of grants is the one of the first check.
    for (const [, differs] of failing.toReversed()) call = { ...call, ...differs };
    assert.equal(told(decide(call)), failing[0]?.[0], failing.map(([reason]) => reason).join());
    assert.equal(told(redecide(call)), failing[0]?.[0]);
  }
});

pure("a tool name that is none of the four is no_grant, and its arguments are not parsed", () => {
  const grants = grantSet({ g: READ });
  for (const tool of ["clock", "", "Read_file", "read_file ", "__proto__", "constructor"]) {
    for (const args of ["{}", "not JSON", "", '{"path":"/n/a"}']) {
      assert.equal(told(decide(situation(grants, { tool, arguments: args }))), "no_grant", tool);
    }
    const invalid: Situation["grants"] = { ok: false, problems: [] };
    assert.equal(told(decide(situation(invalid, { tool }))), "grants_invalid");
    assert.equal(told(decide(situation(grants, { tool, state: null }))), "state_unreadable");
  }
  for (const tool of TOOL_NAMES) {
    assert.equal(told(decide(situation(grants, { tool, arguments: "{}" }))), "invalid_arguments");
  }
});

pure("a state that cannot be read is decided on as the worst there is", () => {
  const worst = { taint: "secret", untrusted: true };
  const grants = grantSet({ g: READ });
  assert.deepEqual(decide(situation(grants, { state: null })).state, worst);
  const invalid: Situation["grants"] = { ok: false, problems: [] };
  assert.deepEqual(decide(situation(invalid, { state: null })).state, worst);
  assert.deepEqual(decide(situation(invalid)).state, FRESH);
  assert.deepEqual(decide(situation(grants)).state, FRESH);
});

pure("an allowed call may run; one to ask about only once it is decided again", () => {
  const may = (mode: string) => {
    const given = situation(grantSet({ g: { ...READ, mode } }));
    return [decide(given).mayRun, redecide(given).mayRun];
  };
  assert.deepEqual(may("auto"), [true, true]);
  assert.deepEqual(may("ask"), [false, true]);
  assert.deepEqual(may("deny"), [false, false]);
  const none = situation(grantSet({}));
  assert.deepEqual([decide(none).mayRun, redecide(none).mayRun], [false, false]);
});

pure("a decision tells the arguments and the longest path that was matched", () => {
  const constraints = { paths: ["/", "/n/a", "/n"] };
  const at = (tool: string, args: unknown, fields: GrantFields = { constraints }) => {
    const given = situation(grantSet({ g: { ...fields, tool } }), {
      tool,
      arguments: JSON.stringify(args),
    });
    const { covered } = decide(given);
    assert.ok(covered !== null);
    assert.deepEqual(covered.args, { tool, ...Object(args) });
    return covered.matchedPath;
  };
  assert.equal(at("read_file", { path: "/n/a/b" }), "/n/a");
  assert.equal(at("write_file", { path: "/n/b", content: "x" }), "/n");
  assert.equal(at("shell", { command: "ls", cwd: "/n/a" }), "/n/a");
  assert.equal(at("shell", { command: "ls" }, {}), null);
  const hosts = ["*.example.com", "a.example.com"];
  assert.equal(
    at("http_fetch", { url: "https://a.example.com/" }, { constraints: { hosts } }),
    null,
  );
});

/** Every decision that there can be. */
function decisions(): Decision[] {
  const modes = ["auto", "ask", "deny"].map((mode) =>
    situation(grantSet({ g: { ...READ, mode } }))
  );
  const denials = CHECKS.map(([, differs]) => situation(grantSet({ g: READ }), differs));
  return [...modes, ...denials].flatMap((given) => [decide(given), redecide(given)]);
}

pure("only policy makes a decision: no copy, cast, heir or constructor does", () => {
  for (const decision of decisions()) {
    assert.ok(isDecision(decision));
    const { covered, state } = decision;
    const record = decision.toRecord();
    const others = [
      structuredClone(decision),
      { ...decision },
      Object.assign({}, decision),
      { covered, state, mayRun: true, toRecord: () => record },
      Object.create(Object.getPrototypeOf(decision)),
      Object.create(decision),
      new Proxy(decision, {}),
      JSON.parse(JSON.stringify(decision)),
      decision.constructor,
      Object.getPrototypeOf(decision),
      null,
      undefined,
      "allowed",
    ];
    for (const other of others) assert.equal(isDecision(other), false);
    const fields = { record, state, covered, mayRun: true };
    for (const key of [Symbol("made by policy"), Symbol.for("made by policy"), undefined, "KEY"]) {
      assert.throws(() => Reflect.construct(decision.constructor, [key, fields]), TypeError);
      const Heir = class extends Object(decision.constructor) {
        constructor() {
          super(key, fields);
        }
      };
      assert.throws(() => new Heir(), TypeError);
    }
  }
});

pure("nothing of a decision can be changed, nor the check whether it is one", () => {
  for (const decision of decisions()) {
    const before = JSON.stringify([decision.toRecord(), decision.state, decision.covered]);
    const parts: unknown[] = [
      decision,
      decision.constructor,
      Object.getPrototypeOf(decision),
      decision.toRecord(),
      decision.state,
    ];
    const { covered } = decision;
    if (covered !== null) {
      const { args, grant } = covered;
      parts.push(covered, args, grant, grant.constraints, grant.constraints.paths);
    }
    for (const part of parts) {
      assert.ok(Object.isFrozen(part), `frozen: ${JSON.stringify(part)}`);
      for (const key of ["made", "mayRun", "outcome", "taint", "path", "mode", "0", "other"]) {
        const descriptor = { value: () => true };
        assert.equal(Reflect.defineProperty(Object(part), key, descriptor), false);
      }
    }
    assert.equal(JSON.stringify([decision.toRecord(), decision.state, decision.covered]), before);
    assert.equal(isDecision({ mayRun: true }), false);
  }
});

pure("what a caller does to its own objects afterwards changes no decision", () => {
  const state = { taint: "private", untrusted: false } as const;
  const given = { ...state };
  const decision = decide(situation(grantSet({ g: READ }), { state: given }));
  const record: DecisionRecord = { outcome: "allowed" };
  Object.assign(given, { taint: "public", untrusted: true });
  assert.deepEqual(decision.state, state);
  assert.deepEqual(decision.toRecord(), record);
});
