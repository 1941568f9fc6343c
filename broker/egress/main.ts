/**
 * The egress proxy: one process for each call of `http_fetch` (specification 13). `brokerd` starts it with
 * its settings as JSON and the flags that `egressFlags` has for them. It tells events on stdout and what is
 * wrong at its start on stderr, and ends when its stdin ends, which it does with `brokerd`.
 */
import { describe, type Question } from "../../proto/locks.ts";
import { directoryOf } from "../../proto/layout.ts";
import { causes, runbook, say } from "../../proto/io/log.ts";
import { DENO_VERSION } from "../../proto/io/start.ts";
import { deniedRanges, endsOf } from "./addresses.ts";
import { type EgressEvent, eventLine } from "./events.ts";
import { serveEgress } from "./serve.ts";
import { type EgressSettings, flagHost, PORT, privateRanges, settingsProblem } from "./settings.ts";

function refuse(...lines: string[]): never {
  say("egress", ...lines);
  Deno.exit(1);
}

function stateOf(question: Question): Deno.PermissionState {
  // "import" is a permission of the runtime that its types do not list.
  return Deno.permissions.querySync(question as Deno.PermissionDescriptor).state;
}

/** What this process may do beyond its settings, in words. Empty when it is locked. */
function tooWide(settings: EgressSettings): string[] {
  const directory = directoryOf(settings.socket);
  const names = ["read", "write", "net", "env", "run", "ffi", "sys"] as const;
  const questions: Question[] = [
    ...names.map((name) => ({ name })),
    ...["/", "/etc", "/proc", directory].flatMap((path) => [
      { name: "read" as const, path },
      { name: "write" as const, path },
    ]),
    ...[`unix:${directory}/other`, `host.invalid:${PORT}`].map((host) => ({
      name: "net" as const,
      host,
    })),
    ...settings.hosts.map((host) => ({
      name: "net" as const,
      host: `${host.replace("*", "any")}:${PORT + 1}`,
    })),
  ];
  const held = questions.filter((question) => stateOf(question) === "granted");
  // What is denied says so, and what is only not allowed says "prompt": an allowed name may lead there.
  const reached = [
    ...deniedRanges(privateRanges(settings)).flatMap(endsOf).map((address) => ({
      name: "net" as const,
      host: flagHost(address),
    })),
    { name: "import" as const },
  ].filter((question) => stateOf(question) !== "denied");
  return [...new Set([...held, ...reached].map(describe))];
}

const encoder = new TextEncoder();

/** Written at once and whole: the event is told before what follows from it happens. */
function tell(event: EgressEvent): void {
  const bytes = encoder.encode(eventLine(event));
  try {
    for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
  } catch {
    // brokerd is gone, and so is this process in a moment.
  }
}

if (import.meta.main) {
  const { deno } = Deno.version;
  if (deno !== DENO_VERSION) {
    refuse(`needs Deno ${DENO_VERSION}, and this is ${deno}`, runbook("deno-version"));
  }
  // brokerd's own words: their types are its compiler's business.
  const settings: EgressSettings = JSON.parse(Deno.args[0] ?? "");
  const problem = settingsProblem(settings);
  if (problem !== null) refuse(problem);
  const wide = tooWide(settings);
  if (wide.length > 0) {
    const lines = wide.map((what) => `this process may ${what}, which it must not`);
    refuse(...lines, runbook("permissions-too-wide"));
  }
  // A permission for one program does not show when the runtime is asked for the whole.
  for (const name of ["run", "ffi", "sys"] as const) Deno.permissions.revokeSync({ name });
  void serveEgress(settings, tell).catch((error) =>
    refuse(`the socket ${settings.socket} cannot be made: ${causes(error)}`)
  );
  for await (const _ of Deno.stdin.readable) {
    // Nothing is said here; only its end counts.
  }
  Deno.exit(0);
}
