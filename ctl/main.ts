/** `bxctl`: the command line, and one command behind its locks. */
import { ConfigError } from "../proto/io/config_file.ts";
import { DENO_VERSION, giveUpUnseen, tooWide } from "../proto/io/start.ts";
import { assertNever } from "../proto/text.ts";
import { Admin } from "./admin.ts";
import { listApprovals, showApproval } from "./approvals.ts";
import { approve } from "./approve.ts";
import { type Command, readCommandLine, readsGrants } from "./args.ts";
import { listCalls } from "./audit_log.ts";
import { writeReport } from "./audit_report.ts";
import { showCall } from "./audit_show.ts";
import { verifyAudit } from "./audit_verify.ts";
import { chat } from "./chat.ts";
import { type CtlConfig, type CtlOverrides, lockOf, readCtlConfig } from "./config.ts";
import { checkGrants } from "./grants_check.ts";
import { replayGrants } from "./grants_replay.ts";
import { testGrants } from "./grants_try.ts";
import { helpText } from "./help.ts";
import { type Io, OutputGone, realIo, reportFailure, type Status } from "./io.ts";
import { Keyboard, stdin } from "./keyboard.ts";
import { Failed, notAllowed, notices } from "./notices.ts";
import { refuse } from "./refuse.ts";
import { watchApprovals } from "./watch.ts";
import { why } from "./why.ts";

/** Signals that end a chat or a list, with their numbers: the exit status of a chat is 128 more. */
const SIGNALS = [["SIGHUP", 1], ["SIGINT", 2], ["SIGTERM", 15]] as const;
const VERSION = "bxctl m3a";

function environment(name: "BOXMAKER_HOME" | "NO_COLOR" | "TERM"): string | undefined {
  try {
    return Deno.env.get(name);
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw notAllowed(`the variable ${name}`);
    throw error;
  }
}

function readConfig(places: CtlOverrides, { name }: Command): CtlConfig {
  try {
    return readCtlConfig(places, environment("BOXMAKER_HOME"), readsGrants(name));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    if (error.cause instanceof Deno.errors.NotCapable) throw notAllowed("its configuration");
    throw new Failed("config_invalid", notices.config(error.message), error);
  }
}

/** Throws `Failed` unless this is the right runtime, and locked. */
function checkRuntime(config: CtlConfig): void {
  const { deno } = Deno.version;
  if (deno !== DENO_VERSION) {
    throw new Failed("deno_version", notices.denoVersion(DENO_VERSION, deno));
  }
  const lock = lockOf(config);
  const wide = tooWide(lock, config.layout);
  if (wide.length > 0) throw new Failed("permissions_too_wide", notices.tooWide(wide));
  giveUpUnseen(lock);
}

/**
 * Ends on a signal as on any other end: the runtime gives the terminal its mode back then, but not where
 * a signal ends it, and Ctrl-C may come while the terminal is without its echo.
 */
function exitOnSignals(): void {
  for (const [signal, number] of SIGNALS) {
    Deno.addSignalListener(signal, () => Deno.exit(128 + number));
  }
}

/** Tells a list that is followed to come to its end, which is no failure. */
function stopOnSignals(): AbortSignal {
  const stop = new AbortController();
  for (const [signal] of SIGNALS) {
    Deno.addSignalListener(signal, () => stop.abort());
  }
  return stop.signal;
}

async function run(command: Command, config: CtlConfig, io: Io, json: boolean): Promise<Status> {
  const admin = new Admin(config.adminSocket);
  const places = { audit: config.layout.audit, grants: config.grants };
  switch (command.name) {
    case "chat": {
      const options = { ...command, loopSocket: config.loopSocket, json };
      exitOnSignals();
      return await chat(options, admin, new Keyboard(stdin), io);
    }
    case "approvals":
      if (command.watch) {
        const dumb = environment("TERM") === "dumb";
        return await watchApprovals(admin, io, stdin, dumb, stopOnSignals());
      }
      return await listApprovals(admin, io, json);
    case "approvals show":
      return await showApproval(admin, io, json, command.approval);
    case "approve":
      return await approve(admin, io, json, command.approval);
    case "refuse":
      return await refuse(admin, io, json, command.approval, command.reason);
    case "why":
      return why(places, command.seq, io, json);
    case "grants check":
      return await checkGrants(admin, config.grants, io, json);
    case "grants test":
      return testGrants(places, command, io, json);
    case "grants replay":
      return replayGrants(places, command.since, io, json);
    case "audit verify":
      return verifyAudit(config.layout.audit, io, json, command.expect);
    case "audit log": {
      const stop = command.follow ? stopOnSignals() : null;
      return await listCalls(config.layout.audit, command.filter, io, json, stop);
    }
    case "audit show":
      return showCall(config.layout.audit, command.seq, io, json);
    case "audit report": {
      const { out } = config;
      if (out === null) throw new Error("a report has a file to write");
      return writeReport({ ...places, out }, command.since, io, json);
    }
    default:
      return assertNever(command);
  }
}

async function main(args: readonly string[]): Promise<Status> {
  const invocation = readCommandLine(args);
  const plain = realIo(true);
  switch (invocation.kind) {
    case "help":
      plain.answer(helpText(invocation.command));
      return 0;
    case "nothing":
      plain.answer(helpText(null));
      return 2;
    case "version":
      plain.answer(`${VERSION} (deno ${Deno.version.deno})\n`);
      return 0;
    case "usage":
      plain.tell(...notices.usage(invocation.problem, invocation.hint));
      return 2;
    case "run":
      break;
    default:
      return assertNever(invocation);
  }
  const { command, json, places } = invocation;
  try {
    const config = readConfig(places, command);
    checkRuntime(config);
    const colours = !environment("NO_COLOR") && environment("TERM") !== "dumb";
    return await run(command, config, realIo(!colours), json);
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    reportFailure(plain, error, json);
    return 1;
  }
}

/** Whatever went wrong is told in words: never a stack trace for an input. */
async function guarded(args: readonly string[]): Promise<Status> {
  try {
    return await main(args);
  } catch (error) {
    const io = realIo(true);
    if (!(error instanceof OutputGone)) io.tell(...notices.internal(error));
    // Whoever closed stdout, as head does, has read enough and knows.
    else if (!(error.cause instanceof Deno.errors.BrokenPipe)) {
      io.tell(...notices.outputGone(error.cause));
    }
    return 1;
  }
}

Deno.exit(await guarded(Deno.args));
