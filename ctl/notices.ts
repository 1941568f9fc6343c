/** Everything that `bxctl` says to its owner beside its answers, with what helps next. */
import type { ChainFailure } from "../proto/chain.ts";
import { display } from "../proto/escape.ts";
import { ClientError } from "../proto/io/client.ts";
import { runbook } from "../proto/io/log.ts";
import type { Body } from "../proto/messages.ts";
import { assertNever } from "../proto/text.ts";

/**
 * A command that could not be done: exit status 1. `lines` are for people, with every text that is not
 * the program's own escaped; `code` is for `--json`.
 */
export class Failed extends Error {
  readonly code: string;
  readonly lines: readonly string[];
  constructor(code: string, lines: readonly string[], cause?: unknown) {
    super(lines.join("; "), { cause });
    this.code = code;
    this.lines = lines;
  }
}

export type Daemon = "brokerd" | "loopd";

const DAEMONS = {
  brokerd: { task: "deno task broker", entry: runbook("broker-unavailable") },
  loopd: { task: "deno task loop", entry: runbook("loopd-unavailable") },
} as const satisfies Record<Daemon, { task: string; entry: string }>;

const FLAGS = "start bxctl with the flags that `deno task permissions bxctl` prints";
const FLAGS_WITH_GRANTS =
  "start bxctl with the flags that `deno task permissions bxctl --with-grants` prints";

const FLAGS_TO_WRITE =
  "start bxctl with the flags that `deno task permissions bxctl --writes-grants` prints";

/** The message of an error, on one line, as data. */
export function messageOf(error: unknown): string {
  return display(error instanceof Error ? error.message : String(error));
}

/** Why `daemon`, at the socket `path`, gave no answer. */
export function noAnswer(daemon: Daemon, path: string, error: ClientError): Failed {
  const { task, entry } = DAEMONS[daemon];
  const socket = display(path);
  const failed = (...lines: string[]) => new Failed(error.failure, lines, error);
  switch (error.failure) {
    case "unreachable": {
      const { cause } = error;
      const nobody = cause instanceof Deno.errors.NotFound ||
        cause instanceof Deno.errors.ConnectionRefused;
      return nobody
        ? failed(
          `${daemon} is not running: nobody listens on ${socket}`,
          `start it with \`${daemon} serve\`, or from the sources with \`${task}\`; ${entry}`,
        )
        : failed(`cannot connect to ${daemon} at ${socket}: ${messageOf(cause)}`, entry);
    }
    case "no_permission":
      return error.cause instanceof Deno.errors.NotCapable
        ? failed(`started without leave to use ${socket}`, `${FLAGS}; ${entry}`)
        : failed(
          `this user may not use ${socket}`,
          `run bxctl as the user that ${daemon} runs as; ${entry}`,
        );
    case "request_too_large":
      return failed("the message is larger than 1 MiB and was not sent", "send it in parts");
    case "closed":
      return failed(
        `${daemon} ended the connection before its answer was whole`,
        `its own messages may say why; ${entry}`,
      );
    case "timeout":
      return failed(`${daemon} did not answer in time`, `is it stopped or overloaded? ${entry}`);
    case "bad_answer":
      return failed(
        `${daemon} gave an answer that bxctl does not understand`,
        `are ${daemon} and bxctl of the same version? ${entry}`,
      );
    default:
      return assertNever(error.failure);
  }
}

/** There is no such approval, or no more. */
export function noSuchApproval(approval: number): Failed {
  return new Failed("no_such_approval", [
    `no approval ${approval} is pending`,
    "it was answered, or expired, or its call went away; see bxctl approvals",
  ]);
}

/** The log has no record of that number. */
export function noSuchRecord(seq: number): Failed {
  return new Failed("no_such_record", [
    `no record ${seq} is in the audit log`,
    "see bxctl audit log for the calls there are",
  ]);
}

/** Why the page cannot be written to `path`. */
export function pageNotWritten(path: string, error: unknown): Failed {
  const file = display(path);
  const entry = runbook("report-not-written");
  const failed = (...lines: string[]) => new Failed("report_not_written", lines, error);
  if (error instanceof Deno.errors.NotCapable) {
    return failed(
      `started without leave to write ${file}`,
      `start it with \`deno task ctl audit report --out ${file}\`; ${entry}`,
    );
  }
  if (error instanceof Deno.errors.AlreadyExists) {
    return failed(`${file} is there already and stays as it is`, `name another file; ${entry}`);
  }
  return failed(`cannot write ${file}: ${messageOf(error)}`, entry);
}

/** Nobody could be asked. `left`: what stays as it was, escaped. */
export function notConfirmed(left: readonly string[]): Failed {
  return new Failed("not_confirmed", [
    "nothing was done: there is no terminal to ask on, or --json asks nothing",
    "to do it without being asked, add --yes",
    ...left,
  ]);
}

/** Why the answer to `approval` cannot be remembered: `why`, escaped. Nothing was written. */
export function notRemembered(approval: number, why: readonly string[]): Failed {
  return new Failed("not_remembered", [
    "this answer cannot be remembered, and nothing was written:",
    ...why,
    ...notices.leftPending(approval),
    runbook("not-remembered"),
  ]);
}

/** Why the new grant `file` was not written. */
export function grantNotWritten(file: string, error: unknown): Failed {
  const path = display(file);
  const entry = runbook("grant-not-written");
  const failed = (...lines: string[]) => new Failed("grant_not_written", lines, error);
  if (error instanceof Deno.errors.NotCapable) {
    return failed(`started without leave to write ${path}`, `${FLAGS_TO_WRITE}; ${entry}`);
  }
  if (error instanceof Deno.errors.AlreadyExists) {
    return failed(`${path}, or what is left of writing it, is there already`, entry);
  }
  return failed(`cannot write ${path}: ${messageOf(error)}`, entry);
}

/** Why the grant `file` was not removed. */
export function grantNotRemoved(file: string, error: unknown): Failed {
  const path = display(file);
  const entry = runbook("grant-not-written");
  const failed = (...lines: string[]) => new Failed("grant_not_removed", lines, error);
  return error instanceof Deno.errors.NotCapable
    ? failed(`started without leave to remove ${path}`, `${FLAGS_TO_WRITE}; ${entry}`)
    : failed(`cannot remove ${path}: ${messageOf(error)}`, entry);
}

/** There is no file of that grant. */
export function noSuchGrant(grant: string): Failed {
  return new Failed("no_such_grant", [`there is no grant ${grant}`, "see bxctl grants list"]);
}

/** The grant is not one that `approve --remember` wrote. */
export function notRemembering(grant: string, directory: string): Failed {
  return new Failed("not_remembering", [
    `the grant ${grant} is not one that approve --remember wrote`,
    `it is yours to edit or to remove: ${display(`${directory}/${grant}.toml`)}`,
  ]);
}

/** The grant's file is not the one that was shown. */
export function changedMeanwhile(grant: string): Failed {
  return new Failed("changed_meanwhile", [
    `the file of ${grant} was changed while it was shown, and stays`,
    `see it again with bxctl grants revoke ${grant}`,
  ]);
}

/** Why `bxctl init` cannot make `path`. */
export function homeNotMade(path: string, error: unknown): Failed {
  const place = display(path);
  const entry = runbook("home-not-made");
  const failed = (...lines: string[]) => new Failed("home_not_made", lines, error);
  if (error instanceof Deno.errors.NotCapable) {
    return failed(
      `started without leave to make ${place}`,
      `start it with \`deno task ctl init\`; ${entry}`,
    );
  }
  return failed(`cannot make ${place}: ${messageOf(error)}`, entry);
}

/** Why `daemon` refused a request. `approval`: the one that the request was about. */
export function refused(daemon: Daemon, error: Body<"error">, approval: number | null): Failed {
  const { code, message } = error;
  if (code === "no_such_approval" && approval !== null) return noSuchApproval(approval);
  if (code === "audit_unavailable") {
    return new Failed(code, ["brokerd cannot write the audit log", runbook("audit-unavailable")]);
  }
  const what = `${daemon} refused the request (${code}): ${display(message)}`;
  return new Failed(code, [what, DAEMONS[daemon].entry]);
}

/** Reading `what` is not among the permissions of this process. */
export function notAllowed(what: string): Failed {
  return new Failed("no_permission", [
    `started without leave to read ${what}`,
    `${FLAGS}; ${runbook("permissions-too-wide")}`,
  ]);
}

/** Why the grants in `directory` could not be used: `why`, which has been through `display`. */
export function grantsUnusable(directory: string, why: string): string {
  return `the grants in ${display(directory)} could not be used: ${why}`;
}

/** Reading the grants is not among the permissions of this process: few commands have it. */
export function notAllowedGrants(directory: string): Failed {
  const what = `started without leave to read the grants in ${display(directory)}`;
  return new Failed("no_permission", [
    what,
    `${FLAGS_WITH_GRANTS}; ${runbook("permissions-too-wide")}`,
  ]);
}

export const notices = {
  usage: (problem: string, hint: string) => [problem, hint],
  denoVersion: (wanted: string, found: string) => [
    `needs Deno ${wanted}, and this is ${display(found)}`,
    runbook("deno-version"),
  ],
  config: (problems: string) => [...problems.split("\n"), runbook("config-invalid")],
  tooWide: (wide: readonly string[]) => [
    ...wide.map((what) => `this process may ${display(what)}, which it must not`),
    runbook("permissions-too-wide"),
  ],
  internal: (
    error: unknown,
  ) => [`an internal error: ${messageOf(error)}`, runbook("internal-error")],
  outputGone: (error: unknown) => [`cannot write the answer: ${messageOf(error)}`],

  grantProblems: () => [`every call is denied until this is fixed; ${runbook("grants-invalid")}`],
  shownBroken: (failure: ChainFailure) => [
    `${display(failure.file)}:${failure.line}: ${display(failure.what)}`,
    ...notices.chainBroken(),
  ],
  grantProblemsThere: () => [
    `with these grants every call would be denied; ${runbook("grants-invalid")}`,
  ],
  notWarned: (problem: string) => [`no warnings: ${problem}`],
  logUnreadable: (path: string, why: string) => [
    `${display(path)} ${display(why)}`,
    runbook("audit-chain-broken"),
  ],
  noRecords: (lines: number) => [
    `lines of the log that are no records were passed over: ${lines}; ${
      runbook("audit-chain-broken")
    }`,
  ],
  sessionNotInLog: (session: string) => [
    `session ${display(session)} is not in the audit log: decided as in a new one`,
  ],
  stateWasUnreadable: (session: string) => [
    `at the last call of session ${display(session)} brokerd could not read its state; ${
      runbook("broker-state-damaged")
    }`,
  ],
  notADecision: (seq: number, type: string, decision: number | null) => [
    `record ${seq} is of type ${type}, and no decision`,
    ...decision === null ? [] : [`it belongs to the decision ${decision}: bxctl why ${decision}`],
  ],
  chainBroken: () => [`the audit log is not whole; ${runbook("audit-chain-broken")}`],

  session: (session: string) => [
    `session ${display(session)}; to go on with it: bxctl chat --session ${display(session)}`,
  ],
  stopping: () => ["stopping the turn; Ctrl-C again ends the chat"],
  stopped: () => ["the turn was stopped"],
  hungUp: () => ["hung up on loopd, which ends the turn"],
  turnFailed: (message: string) => [
    `the turn failed: ${display(message)}`,
    "see bxctl status for what helps",
  ],
  notUtf8: () => ["that line is not UTF-8 and was not sent"],
  leftPending: (approval: number) => [
    `approval ${approval} waits: bxctl approve ${approval}, or bxctl refuse ${approval}`,
  ],
  notPending: (approval: number) => [`approval ${approval} is pending no more`],
  takenBack: (grant: string) => [`the grant ${grant} was taken back`],
  notTakenBack: (grant: string, why: readonly string[]) => [
    ...why,
    `the grant ${grant} could not be taken back: bxctl grants revoke ${grant}`,
  ],
  notTakenUp: (ran: boolean, directory: string) => [
    !ran
      ? "the call was denied all the same, so nothing is remembered"
      : `brokerd did not see the new grant, so nothing is remembered: does it read ${
        display(directory)
      }?`,
    runbook("not-remembered"),
  ],
  withdrawn: (approval: number) => [`approval ${approval} ended without an answer here`],
  identicalWait: (
    others: readonly number[],
  ) => [`identical calls still wait: ${others.join(", ")}`],
  noScreen: (dumb: boolean) => [
    dumb
      ? "--watch draws on the terminal, and TERM=dumb says that this one cannot be drawn on"
      : "--watch needs a terminal for its keys and its screen",
    "bxctl approvals lists the same; bxctl approve ID and bxctl refuse ID answer",
  ],
  answerLeft: (approval: number) => [
    `approval ${approval} was being answered, and its outcome is not known`,
    `see bxctl audit show ${approval}`,
  ],
  changedMeanwhile: (line: string) => [line, "not approved yet: look again"],
  discarded: () => ["what was typed before the question was discarded"],
} as const;
