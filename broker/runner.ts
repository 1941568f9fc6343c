/**
 * The seam to whatever runs tools (specification 7). The only place where a `RunSpec` is made, and only
 * from a decision that lets its call run. Pure but for the runtime that is handed in.
 */
import { assertNever } from "../proto/text.ts";
import type { ToolArgs } from "../proto/tools.ts";
import { type Covered, type Decision, isDecision } from "./policy.ts";

export interface Mount {
  /** The same path inside as outside. */
  readonly path: string;
  readonly writable: boolean;
}

interface Fields {
  readonly args: ToolArgs;
  readonly mounts: readonly Mount[];
  readonly egress: readonly string[] | null;
}

const KEY = Symbol("made by runner");

class SealedRunSpec {
  readonly #fields: Fields;

  constructor(key: symbol, fields: Fields) {
    if (key !== KEY) throw new TypeError("only the runner makes a RunSpec");
    this.#fields = fields;
    Object.freeze(this);
  }

  /** Whether `value` was made here. */
  static made(value: unknown): value is SealedRunSpec {
    return typeof value === "object" && value !== null && #fields in value;
  }

  /** The tool with its checked arguments. */
  get args(): ToolArgs {
    return this.#fields.args;
  }

  /** What of the machine's files the tool may see. */
  get mounts(): readonly Mount[] {
    return this.#fields.mounts;
  }

  /** The host patterns that the tool may reach; null: no network. */
  get egress(): readonly string[] | null {
    return this.#fields.egress;
  }
}
Object.freeze(SealedRunSpec);
Object.freeze(SealedRunSpec.prototype);

export type RunSpec = SealedRunSpec;

/** Whether `value` is a spec that the runner made. A runtime asks before it runs anything. */
export function isRunSpec(value: unknown): value is RunSpec {
  return SealedRunSpec.made(value);
}

/**
 * How a run came out. `failed`: the tool ran, and the message is its own. `unavailable`: nothing ran.
 */
export type RunOutcome =
  | { readonly status: "result"; readonly content: string; readonly truncated: boolean }
  | { readonly status: "failed"; readonly message: string }
  | { readonly status: "unavailable"; readonly message: string };

/** Runs one tool call. */
export interface Runtime {
  run(spec: RunSpec): Promise<RunOutcome>;
}

/** Until tools run: refuses every call. */
export const refusing: Runtime = {
  run: () => Promise.resolve({ status: "unavailable", message: "the runner arrives in M3b" }),
};

/**
 * Runs the call that `decision` lets run. Throws `TypeError` for anything that is not such a decision:
 * that is a bug, and nothing runs.
 */
export async function run(decision: Decision, runtime: Runtime): Promise<RunOutcome> {
  if (!isDecision(decision)) throw new TypeError("not a Decision that policy made");
  const { covered, mayRun } = decision;
  if (!mayRun || covered === null) throw new TypeError("this decision lets nothing run");
  const spec = new SealedRunSpec(KEY, {
    args: covered.args,
    mounts: Object.freeze(mountsOf(covered).map((mount) => Object.freeze(mount))),
    egress: covered.args.tool === "http_fetch"
      ? Object.freeze([...covered.grant.constraints.hosts])
      : null,
  });
  return await runtime.run(spec);
}

function mountsOf({ args, grant, matchedPath }: Covered): Mount[] {
  switch (args.tool) {
    case "read_file":
      return matchedPath === null ? [] : [{ path: matchedPath, writable: false }];
    case "write_file":
      return matchedPath === null ? [] : [{ path: matchedPath, writable: true }];
    case "shell":
      return grant.constraints.paths.map((path) => ({ path, writable: true }));
    case "http_fetch":
      return [];
    default:
      return assertNever(args);
  }
}
