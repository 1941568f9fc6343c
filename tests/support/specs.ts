/** Specs as the runner makes them, from the decision on a call under the test's own grants. */
import assert from "node:assert/strict";
import { decide, type Decision, type Situation } from "../../broker/policy.ts";
import { run, type RunOutcome, type RunSpec, type Runtime } from "../../broker/runner.ts";
import { type GrantFields, grantSet } from "./grants.ts";

/** A runtime that runs nothing and notes what it was handed. */
export class Recording implements Runtime {
  readonly specs: RunSpec[] = [];
  readonly outcome: RunOutcome = { status: "result", content: "content", truncated: false };

  run(spec: RunSpec): Promise<RunOutcome> {
    this.specs.push(spec);
    return Promise.resolve(this.outcome);
  }
}

/** A call of the first grant's tool with `args`. */
export function situation(grants: Readonly<Record<string, GrantFields>>, args: unknown): Situation {
  const [tool = ""] = Object.values(grants).map((grant) => grant.tool);
  return {
    now: "2026-12-01T10:00:00.000Z",
    grants: grantSet(grants),
    state: { taint: "private", untrusted: false },
    tool,
    arguments: JSON.stringify(args),
  };
}

/** What a runtime is handed for `decision`. */
export async function specOf(decision: Decision): Promise<RunSpec> {
  const runtime = new Recording();
  assert.deepEqual(await run(decision, runtime), runtime.outcome);
  const [spec, ...more] = runtime.specs;
  assert.ok(spec !== undefined && more.length === 0, "the runtime ran once");
  return spec;
}

/** What a runtime is handed for a call of the grant's tool with `args`. */
export async function specFor(grant: GrantFields, args: unknown): Promise<RunSpec> {
  return await specOf(decide(situation({ g: grant }, args)));
}
