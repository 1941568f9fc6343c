/** What came of trying a door, for `tests/support/probe.ts` and the acts beside this file. */

/** `closed`: the runtime refused. `absent`: there is no such thing. Anything else is told in words. */
export type Outcome = "open" | "closed" | "absent" | string;

/** What a door does: `own` is a directory that the role may write. */
export type Act = (target: string, own: string) => unknown;

/** The thing to be tried is not there. */
export class Absent extends Error {}

/** How long a door may take, in milliseconds. */
const DOOR_MS = 10_000;

/** A failure behind the door, as of a server that speaks something else, is not the lock's. */
export async function past(attempt: Promise<unknown>): Promise<void> {
  try {
    await attempt;
  } catch (error) {
    if (isRefusal(error)) throw error;
  }
}

/** What the system says of a door that the lock let through, to a probe that asks for nothing real. */
const SYSTEM = /^(ENOENT|EEXIST|EINVAL|ENOTDIR|ENXIO|ECONNREFUSED|ECONNRESET|ESRCH|EPERM|EBUSY)$/;

/** Runs `act`; that the system refuses it behind the lock is none of the lock's doing. */
export async function beyond(act: () => unknown): Promise<void> {
  try {
    await act();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (isRefusal(error) || !SYSTEM.test(code)) throw error;
  }
}

/** Whether the runtime refused. A worker and an import give its words only. */
export function isRefusal(error: unknown): boolean {
  return error instanceof Deno.errors.NotCapable ||
    error instanceof Error && (
        /Requires [\w-]+ access/.test(error.message) ||
        // What --cached-only says of a package.
        /^Failed loading http\S+ for package /.test(error.message)
      );
}

/** An error that the runtime raises where nobody waits for it, as some of its node modules do. */
function stray(): { readonly raised: Promise<never>; readonly ignore: () => void } {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  const onError = (event: ErrorEvent) => {
    event.preventDefault();
    reject(event.error);
  };
  const onRejection = (event: PromiseRejectionEvent) => {
    event.preventDefault();
    reject(event.reason);
  };
  globalThis.addEventListener("error", onError);
  globalThis.addEventListener("unhandledrejection", onRejection);
  return {
    raised: promise,
    ignore: () => {
      globalThis.removeEventListener("error", onError);
      globalThis.removeEventListener("unhandledrejection", onRejection);
    },
  };
}

/** Tries `act`. */
export async function attempt(act: Act, target: string, own: string): Promise<Outcome> {
  const { raised, ignore } = stray();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came of it in ${DOOR_MS} ms`)), DOOR_MS);
  });
  try {
    await Promise.race([Promise.try(act, target, own), raised, late]);
    return "open";
  } catch (error) {
    if (error instanceof Absent) return "absent";
    return isRefusal(error) ? "closed" : `failed: ${error}`;
  } finally {
    clearTimeout(timer);
    ignore();
  }
}
