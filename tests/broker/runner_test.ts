/** The runner seam (specification 7 and 12): what a runtime is handed, and what never reaches one. */
import assert from "node:assert/strict";
import { decide, redecide } from "../../broker/policy.ts";
import { isRunSpec, refusing, run, type RunOutcome } from "../../broker/runner.ts";
import type { ToolName } from "../../proto/tools.ts";
import type { GrantFields } from "../support/grants.ts";
import { Recording, situation, specOf } from "../support/specs.ts";

function pure(name: string, fn: () => void | Promise<void>): void {
  Deno.test({ name, permissions: "none", fn });
}

interface Row {
  readonly constraints?: GrantFields["constraints"];
  readonly args: Readonly<Record<string, string>>;
  readonly mounts: readonly { path: string; writable: boolean }[];
  readonly egress: readonly string[] | null;
}

/** The table of specification 7, with grants that leave a choice. */
const TABLE: Readonly<Record<ToolName, Readonly<Record<string, Row>>>> = {
  read_file: {
    "the matched path, read-only": {
      constraints: { paths: ["/m", "/n"] },
      args: { path: "/n/a" },
      mounts: [{ path: "/n", writable: false }],
      egress: null,
    },
    "the longest of two that match": {
      constraints: { paths: ["/n", "/n/a", "/"] },
      args: { path: "/n/a/b" },
      mounts: [{ path: "/n/a", writable: false }],
      egress: null,
    },
    "the grant's path itself": {
      constraints: { paths: ["/n"] },
      args: { path: "/n" },
      mounts: [{ path: "/n", writable: false }],
      egress: null,
    },
  },
  write_file: {
    "the matched path, writable": {
      constraints: { paths: ["/m", "/n"] },
      args: { path: "/n/a", content: "text" },
      mounts: [{ path: "/n", writable: true }],
      egress: null,
    },
    "the longest of two that match": {
      constraints: { paths: ["/", "/n"] },
      args: { path: "/n/a", content: "" },
      mounts: [{ path: "/n", writable: true }],
      egress: null,
    },
  },
  shell: {
    "every path, writable": {
      constraints: { paths: ["/n", "/m", "/n/a"] },
      args: { command: "ls", cwd: "/n/a" },
      mounts: [
        { path: "/n", writable: true },
        { path: "/m", writable: true },
        { path: "/n/a", writable: true },
      ],
      egress: null,
    },
    "no path, no mount": { args: { command: "ls" }, mounts: [], egress: null },
  },
  http_fetch: {
    "no mount, and every host of the grant": {
      constraints: { hosts: ["a.example", "*.b.example"] },
      args: { url: "https://a.example/c" },
      mounts: [],
      egress: ["a.example", "*.b.example"],
    },
  },
};

for (const [tool, rows] of Object.entries(TABLE)) {
  for (const [what, { constraints = {}, args, mounts, egress }] of Object.entries(rows)) {
    pure(`a runtime is handed, for ${tool}: ${what}`, async () => {
      for (
        const [mode, how] of [["auto", decide], ["auto", redecide], ["ask", redecide]] as const
      ) {
        const grants = { g: { tool, mode, constraints } };
        const spec = await specOf(how(situation(grants, args)));
        assert.ok(isRunSpec(spec));
        assert.deepEqual(spec.args, { tool, ...args });
        assert.deepEqual(spec.mounts, mounts);
        assert.deepEqual(spec.egress, egress);
      }
    });
  }
}

pure("only the grant that decided opens anything", async () => {
  const spec = await specOf(decide(situation({
    "a-ask-elsewhere": { tool: "read_file", mode: "ask", constraints: { paths: ["/m"] } },
    "b-expired": {
      tool: "read_file",
      expires: "2026-12-01T10:00:00.000Z",
      constraints: { paths: ["/n/a"] },
    },
    "c-chosen": { tool: "read_file", constraints: { paths: ["/n", "/o"] } },
    "d-wider": { tool: "read_file", constraints: { paths: ["/"] } },
    "e-shell": { tool: "shell", constraints: { paths: ["/n/a"] } },
    "f-fetch": { tool: "http_fetch", constraints: { hosts: ["a.example"] } },
  }, { path: "/n/a/b" })));
  assert.deepEqual(spec.mounts, [{ path: "/n", writable: false }]);
  assert.equal(spec.egress, null);
});

const READ: Readonly<Record<string, GrantFields>> = {
  g: { tool: "read_file", constraints: { paths: ["/n"] } },
};
const ASK: typeof READ = { g: { ...READ.g, mode: "ask" } };
const DENY: typeof READ = { g: { ...READ.g, mode: "deny" } };
const CALL = { path: "/n/a" };

/** `run` with whatever is handed to it, as code that the types do not hold would. */
async function handed(thing: unknown): Promise<{ error: unknown; ran: number }> {
  const runtime = new Recording();
  let error: unknown = null;
  try {
    await Reflect.apply(run, undefined, [thing, runtime]);
  } catch (thrown) {
    error = thrown;
  }
  return { error, ran: runtime.specs.length };
}

pure(
  "nothing runs on a denied decision, nor on one to ask about until it is decided again",
  async () => {
    const refused = {
      "denied by a grant": decide(situation(DENY, CALL)),
      "denied again by a grant": redecide(situation(DENY, CALL)),
      "denied with no grant": redecide(situation(READ, { path: "/m" })),
      "denied for bad arguments": redecide(situation(READ, {})),
      "denied for invalid grants": redecide({
        ...situation(READ, CALL),
        grants: { ok: false, problems: [] },
      }),
      "denied for a state that cannot be read": redecide({ ...situation(READ, CALL), state: null }),
      "to ask about": decide(situation(ASK, CALL)),
    };
    for (const [what, decision] of Object.entries(refused)) {
      const { error, ran } = await handed(decision);
      assert.ok(error instanceof TypeError && /lets nothing run/.test(error.message), what);
      assert.equal(ran, 0, what);
    }
    assert.deepEqual(await handed(redecide(situation(ASK, CALL))), { error: null, ran: 1 });
    assert.deepEqual(await handed(decide(situation(READ, CALL))), { error: null, ran: 1 });
  },
);

pure("nothing runs on what only looks like a decision", async () => {
  const decision = decide(situation(READ, CALL));
  assert.deepEqual(await handed(decision), { error: null, ran: 1 });
  const { covered, state } = decision;
  const lookAlike = { covered, state, mayRun: true, toRecord: () => ({ outcome: "allowed" }) };
  const others: Readonly<Record<string, unknown>> = {
    "an object of the same shape": lookAlike,
    "one with the prototype of a decision": Object.setPrototypeOf(
      { ...lookAlike },
      Object.getPrototypeOf(decision),
    ),
    "an empty one with that prototype": Object.create(Object.getPrototypeOf(decision)),
    "an heir of a decision": Object.create(decision, { mayRun: { value: true } }),
    "a proxy of a decision": new Proxy(decision, {}),
    "a structured clone": structuredClone(decision),
    "a spread copy": { ...decision },
    "a copy through JSON": JSON.parse(JSON.stringify(decision)),
    "a spec": await specOf(decision),
    "the class": decision.constructor,
    "null": null,
    "nothing": undefined,
    "a record": decision.toRecord(),
  };
  for (const [what, other] of Object.entries(others)) {
    const { error, ran } = await handed(other);
    assert.ok(error instanceof TypeError && /not a Decision/.test(error.message), what);
    assert.equal(ran, 0, what);
  }
});

pure("only the runner makes a spec: no copy, heir or constructor does", async () => {
  const spec = await specOf(decide(situation(READ, CALL)));
  const { args, mounts, egress } = spec;
  const others = [
    { args, mounts, egress },
    { ...spec },
    structuredClone(spec),
    Object.create(spec),
    Object.create(Object.getPrototypeOf(spec)),
    new Proxy(spec, {}),
    decide(situation(READ, CALL)),
    spec.constructor,
    null,
    undefined,
  ];
  for (const other of others) assert.equal(isRunSpec(other), false);
  for (const key of [Symbol("made by runner"), Symbol.for("made by runner"), undefined]) {
    const fields = { args, mounts: [{ path: "/", writable: true }], egress: ["*.example.com"] };
    assert.throws(() => Reflect.construct(spec.constructor, [key, fields]), TypeError);
  }
});

pure("a runtime cannot change what it was handed, nor what later calls are handed", async () => {
  const grants: Readonly<Record<string, GrantFields>> = {
    g: { tool: "http_fetch", constraints: { hosts: ["a.example"] } },
  };
  const specs = [
    await specOf(decide(situation(READ, CALL))),
    await specOf(decide(situation(grants, { url: "https://a.example" }))),
  ];
  for (const spec of specs) {
    const { args, mounts, egress } = spec;
    const before = JSON.stringify([args, mounts, egress]);
    const parts = [spec, Object.getPrototypeOf(spec), spec.constructor, args, mounts, ...mounts];
    for (const part of egress === null ? parts : [...parts, egress]) {
      assert.ok(Object.isFrozen(part));
      for (const key of ["made", "args", "mounts", "egress", "path", "writable", "0", "1"]) {
        assert.equal(Reflect.set(part, key, "/"), false, key);
        assert.equal(Reflect.defineProperty(part, key, { value: "/" }), false, key);
      }
    }
    assert.equal(JSON.stringify([spec.args, spec.mounts, spec.egress]), before);
  }
});

pure("what a runtime answers or throws is what run gives", async () => {
  const decision = decide(situation(READ, CALL));
  const outcomes: readonly RunOutcome[] = [
    { status: "result", content: "", truncated: true },
    { status: "failed", message: "no such file" },
    { status: "unavailable", message: "not now" },
  ];
  for (const outcome of outcomes) {
    assert.equal(await run(decision, { run: () => Promise.resolve(outcome) }), outcome);
  }
  const broken = new Error("broken");
  await assert.rejects(run(decision, { run: () => Promise.reject(broken) }), broken);
  const throwing = {
    run(): Promise<RunOutcome> {
      throw broken;
    },
  };
  await assert.rejects(run(decision, throwing), broken);
});

pure("until tools run, the runtime refuses every call as unavailable", async () => {
  const decision = decide(situation(READ, CALL));
  assert.deepEqual(await run(decision, refusing), {
    status: "unavailable",
    message: "the runner arrives in M3b",
  });
});
