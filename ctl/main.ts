/** `bxctl`: the command line, and one command behind its locks. */
import { ConfigError } from "../proto/io/config_file.ts";
import { DENO_VERSION, giveUpUnseen, tooWide } from "../proto/io/start.ts";
import { assertNever } from "../proto/text.ts";
import { VERSION } from "../proto/version.ts";
import { Admin } from "./admin.ts";
import { listApprovals, showApproval } from "./approvals.ts";
import { approve } from "./approve.ts";
import { approveAndRemember } from "./approve_remember.ts";
import { type Command, readCommandLine, usesOf } from "./args.ts";
import { type CommandName } from "./commands.ts";
import { listCalls } from "./audit_log.ts";
import { writeReport } from "./audit_report.ts";
import { showCall } from "./audit_show.ts";
import { verifyAudit } from "./audit_verify.ts";
import { chat } from "./chat.ts";
import { completionScript } from "./completion.ts";
import { type CtlConfig, type CtlOverrides, lockOf, readCtlConfig } from "./config.ts";
import { doctor } from "./doctor.ts";
import { checkGrants } from "./grants_check.ts";
import { listGrants } from "./grants_list.ts";
import { replayGrants } from "./grants_replay.ts";
import { revokeGrant } from "./grants_revoke.ts";
import { testGrants } from "./grants_try.ts";
import { hangOfHelp, helpText } from "./help.ts";
import { init, lockOfInit } from "./init.ts";
import {
  answerJson,
  answerLines,
  type Io,
  type Looks,
  OutputGone,
  PLAIN,
  realIo,
  reportFailure,
  type Status,
} from "./io.ts";
import { Keyboard, stdin } from "./keyboard.ts";
import { PlainLines } from "./lines.ts";
import { Failed, notAllowed, notices } from "./notices.ts";
import { refuse, refuseSession } from "./refuse.ts";
import { showStatus } from "./status.ts";
import { realTty, terminalSize } from "./tty.ts";
import { Typist } from "./typist.ts";
import { watchApprovals } from "./watch.ts";
import { why } from "./why.ts";

/** Signals that end a chat or a list, with their numbers: the exit status of a chat is 128 more. */
const SIGNALS = [["SIGHUP", 1], ["SIGINT", 2], ["SIGQUIT", 3], ["SIGTERM", 15]] as const;

function environment(name: "BOXMAKER_HOME" | "NO_COLOR" | "TERM"): string | undefined {
  try {
    return Deno.env.get(name);
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw notAllowed(`the variable ${name}`);
    throw error;
  }
}

function readConfig(places: CtlOverrides, command: Command): CtlConfig {
  try {
    return readCtlConfig(places, environment("BOXMAKER_HOME"), usesOf(command));
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    if (error.cause instanceof Deno.errors.NotCapable) throw notAllowed("its configuration");
    throw new Failed("config_invalid", notices.config(error.message), error);
  }
}

/** NO_COLOR counts where it is not empty (no-color.org). */
function looks(): Looks {
  const dumb = environment("TERM") === "dumb";
  return { colours: !dumb && !environment("NO_COLOR"), dumb };
}

/** Throws `Failed` unless this is the right runtime, and locked. */
function checkRuntime(config: CtlConfig, command: Command): void {
  const { deno } = Deno.version;
  if (deno !== DENO_VERSION) {
    throw new Failed("deno_version", notices.denoVersion(DENO_VERSION, deno));
  }
  const lock = command.name === "init" ? lockOfInit(config, command.dryRun) : lockOf(config);
  const wide = tooWide(lock, config.layout);
  if (wide.length > 0) throw new Failed("permissions_too_wide", notices.tooWide(wide));
  giveUpUnseen(lock);
}

/**
 * Ends on a signal as on any other end: the runtime gives the terminal its mode back then, but not where
 * a signal ends it, and Ctrl-C may come while the terminal is without its echo.
 */
function exitOnSignals(before = () => {}): void {
  for (const [signal, number] of SIGNALS) {
    Deno.addSignalListener(signal, () => {
      before();
      Deno.exit(128 + number);
    });
  }
}

const plainLines = (io: Io) => new PlainLines(new Keyboard(stdin), io);

/** A chat in lines of its own editing where the terminal can be drawn on, else in those of the kernel. */
async function runChat(
  command: Extract<Command, { name: "chat" }>,
  config: CtlConfig,
  io: Io,
  json: boolean,
): Promise<Status> {
  const draws = command.say === null && environment("TERM") !== "dumb";
  const tty = draws ? realTty() : null;
  const typist = tty === null ? null : new Typist(tty);
  const close = () => typist?.close();
  const leave = () => {
    close();
    Deno.exit(130);
  };
  const columns = typist !== null && io.terminal ? () => terminalSize().columns : null;
  const options = { ...command, loopSocket: config.loopSocket, json, columns, leave };
  exitOnSignals(close);
  if (typist !== null) {
    typist.open();
    Deno.addSignalListener("SIGWINCH", () => typist.resized());
    Deno.addSignalListener("SIGCONT", () => typist.resumed());
  }
  try {
    const lines = typist ?? plainLines(io);
    return await chat(options, new Admin(config.adminSocket), lines, io);
  } finally {
    close();
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
    case "chat":
      return await runChat(command, config, io, json);
    case "status":
      return await showStatus({ ...config, audit: config.layout.audit }, io, json);
    case "doctor":
      return await doctor(config, io, json);
    case "init":
      return init(config, command.dryRun, io, json);
    case "approvals":
      if (command.watch) {
        const dumb = environment("TERM") === "dumb";
        return await watchApprovals(admin, io, stdin, dumb, stopOnSignals());
      }
      return await listApprovals(admin, io, json);
    case "approvals show":
      return await showApproval(admin, io, json, command.approval);
    case "approve": {
      const { approval, remember, yes } = command;
      if (remember === null) return await approve(admin, io, json, approval);
      exitOnSignals();
      const asking = { lines: plainLines(io), yes, json };
      const { grants } = config;
      return await approveAndRemember(admin, { approval, remember, grants }, asking, io);
    }
    case "refuse":
      if ("session" in command) {
        return await refuseSession(admin, io, json, command.session, command.reason);
      }
      return await refuse(admin, io, json, command.approval, command.reason);
    case "why":
      return why(places, command.seq, io, json);
    case "grants check":
      return await checkGrants(admin, config.grants, io, json);
    case "grants list":
      return listGrants(config.grants, io, json);
    case "grants revoke": {
      exitOnSignals();
      const asking = { lines: plainLines(io), yes: command.yes, json };
      return await revokeGrant(config.grants, command.grant, asking, io);
    }
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

function answerHelp(io: Io, command: CommandName | null): void {
  answerLines(io, helpText(command).trimEnd().split("\n"), hangOfHelp);
}

async function main(args: readonly string[]): Promise<Status> {
  const invocation = readCommandLine(args);
  const plain = realIo(PLAIN);
  switch (invocation.kind) {
    case "help":
      answerHelp(plain, invocation.command);
      return 0;
    case "nothing":
      answerHelp(plain, null);
      return 2;
    case "version":
      plain.answer(`bxctl ${VERSION} (deno ${Deno.version.deno})\n`);
      return 0;
    case "completion": {
      const { shell } = invocation;
      const script = completionScript(shell);
      if (invocation.json) answerJson(plain, { shell, script });
      else plain.answer(script);
      return 0;
    }
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
    checkRuntime(config, command);
    return await run(command, config, realIo(looks()), json);
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
    const io = realIo(PLAIN);
    if (!(error instanceof OutputGone)) io.tell(...notices.internal(error));
    // Whoever closed stdout, as head does, has read enough and knows.
    else if (!(error.cause instanceof Deno.errors.BrokenPipe)) {
      io.tell(...notices.outputGone(error.cause));
    }
    return 1;
  }
}

Deno.exit(await guarded(Deno.args));
