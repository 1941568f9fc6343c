/** What every role does before anything else: is this the right runtime, and is it locked? */
import type { Layout } from "../layout.ts";
import { runbook } from "./log.ts";
import { MAX_ITEMS, statusText } from "../cut.ts";
import { describe, forbidden, type Lock, type Question } from "../locks.ts";

/** The only version of Deno whose locks were tested: older ones do not hold unix sockets to `--allow-net`. */
export const DENO_VERSION = "2.9.6";

function isHeld(question: Question): boolean {
  // "import" is a permission of the runtime that its types do not list.
  const { state } = Deno.permissions.querySync(question as Deno.PermissionDescriptor);
  // Without --deny-import the runtime imports from a list of hosts, and says "prompt".
  return question.name === "import" ? state !== "denied" : state === "granted";
}

/**
 * Gives up for good what `lock` does not have. A permission for one program, library or fact of the system,
 * such as `--allow-run=sh`, does not show when the runtime is asked for the whole: `tooWide` cannot see it.
 * A role that runs one program keeps whatever it was given to run: the runtime gives up all of it or none. So
 * does one that asks for a fact of the system.
 */
export function giveUpUnseen({ run, sys = [] }: Lock): void {
  Deno.permissions.revokeSync({ name: "ffi" });
  if (run.length === 0) Deno.permissions.revokeSync({ name: "run" });
  if (sys.length === 0) Deno.permissions.revokeSync({ name: "sys" });
}

/** What this process may do beyond `lock`, in words (contracts 1). Empty when it is locked. */
export function tooWide(lock: Lock, layout: Layout): string[] {
  return [...new Set(forbidden(lock, layout).filter(isHeld).map(describe))];
}

/** What of `lock` this process may not do, in words. */
function missing({ read, write, net, env, run }: Lock): string[] {
  const questions: Question[] = [
    ...read.map((path) => ({ name: "read" as const, path })),
    ...write.map((path) => ({ name: "write" as const, path })),
    ...net.map((host) => ({ name: "net" as const, host })),
  ];
  const single = (name: "env" | "run", value: string): Deno.PermissionDescriptor =>
    name === "env" ? { name, variable: value } : { name, command: value };
  const named = [
    ...env.map((one) => ["env", one] as const),
    ...run.map((one) => ["run", one] as const),
  ];
  return [
    ...questions.filter((question) => !isHeld(question)).map(describe),
    ...named.filter(([name, value]) =>
      Deno.permissions.querySync(single(name, value)).state !== "granted"
    ).map(([name, value]) => `${name === "env" ? "read the variable" : "run"} ${value}`),
  ];
}

/** How this process differs from `lock`, in words that may hold any path. */
export function lockReport(
  lock: Lock,
  layout: Layout,
): { too_wide: string[]; missing: string[] } {
  return {
    too_wide: tooWide(lock, layout).slice(0, MAX_ITEMS).map(statusText),
    missing: missing(lock).slice(0, MAX_ITEMS).map(statusText),
  };
}

/**
 * Why a daemon must not run, in lines for its operator, or null where it is locked (contracts 1). Gives
 * up what `tooWide` cannot see.
 */
export function startProblem(lock: Lock, layout: Layout): string[] | null {
  const { deno } = Deno.version;
  if (deno !== DENO_VERSION) {
    return [`needs Deno ${DENO_VERSION}, and this is ${deno}`, runbook("deno-version")];
  }
  const wide = tooWide(lock, layout);
  giveUpUnseen(lock);
  if (wide.length === 0) return null;
  return [
    ...wide.map((what) => `this process may ${what}, which it must not`),
    runbook("permissions-too-wide"),
  ];
}
