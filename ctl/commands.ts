/**
 * The one table of bxctl's commands and options (specification 9; contracts 6): what is parsed, what `--help`
 * and the manual say, and what a shell completes all come from it. Pure.
 */
export interface OptionSpec {
  /** What stands for its value in the help; null for a switch. */
  readonly value: string | null;
  readonly about: string;
}

/** Every option of every command. */
export const OPTIONS = {
  session: { value: "ID", about: "the session (default for chat and grants test: a new one)" },
  say: { value: "TEXT", about: "send this one message, print its turn and end" },
  reason: { value: "TEXT", about: "why, for the audit log only; at most 1 KiB" },
  remember: {
    value: "DURATION",
    about: "let the same call run without asking, for 30m, 1h or 7d; at most 30d",
  },
  all: { value: null, about: "every call of the session of --session that waits" },
  yes: {
    value: null,
    about: "do it without asking: what is asked on a terminal counts as answered",
  },
  expect: { value: "SEQ:HASH", about: "hold the log against a head that you kept elsewhere" },
  tool: { value: "TOOL", about: "the tool: of the calls to list, or the one that would be called" },
  arguments: { value: "JSON", about: "the call's arguments, as the model would write them" },
  taint: { value: "CLASS", about: "the session's taint: public, private or secret" },
  outcome: {
    value: "OUTCOME",
    about: "only result, failed, denied, pending, unfinished, or a reason",
  },
  since: {
    value: "DATE",
    about: "only calls from then on: YYYY-MM-DD, or a time as in the log (UTC)",
  },
  follow: { value: null, about: "go on with the calls to come, until Ctrl-C" },
  watch: { value: null, about: "go on showing them, with keys to approve and refuse" },
  out: { value: "FILE", about: "the page to write: a new file whose name ends in .html" },
  grants: {
    value: "DIR",
    about: "the grants directory (default: that of bxctl.toml, or in the home)",
  },
  "dry-run": { value: null, about: "make nothing, and say what would be made" },
  json: {
    value: null,
    about: "print JSON: one document; one a line for the events of chat and for calls",
  },
  home: { value: "PATH", about: "Boxmaker's home (default BOXMAKER_HOME, then /var/lib/boxmaker)" },
  config: { value: "PATH", about: "the configuration (default /etc/boxmaker/bxctl.toml)" },
  "admin-socket": { value: "PATH", about: "brokerd's socket for its owner" },
  "loop-socket": { value: "PATH", about: "loopd's socket for its owner" },
  help: { value: null, about: "print help and end" },
  version: { value: null, about: "print the version and end" },
} as const satisfies Record<string, OptionSpec>;
export type OptionName = keyof typeof OPTIONS;

/** The options that every command takes. */
export const COMMON_OPTIONS = [
  ...["json", "home", "config", "admin-socket", "loop-socket", "help"] as const,
] as const satisfies readonly OptionName[];

/** What an operand is, in words. */
export const OPERANDS = {
  ID: "ID of an approval",
  SEQ: "SEQ of a record",
  GRANT: "GRANT, the name of its file without .toml",
  SHELL: "SHELL: bash, zsh or fish",
} as const;

/** The shells that `completion` writes for. */
export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

export interface CommandSpec {
  readonly operand: keyof typeof OPERANDS | null;
  /** The switch that stands in the operand's place. */
  readonly operandUnless?: OptionName;
  /** The options that it cannot do without. */
  readonly needed?: readonly OptionName[];
  readonly options: readonly OptionName[];
  /** Its row of the permission table has the grants directory. */
  readonly readsGrants?: true;
  /** Its row lets it look at the machine (decision 122). */
  readonly examines?: true;
  /** What its exit statuses mean, where that is not the usual. */
  readonly exits?: string;
  readonly about: string;
}

export const COMMANDS = {
  "init": {
    operand: null,
    options: ["dry-run"],
    about: "make a home: configuration, two grants to begin with, service units",
  },
  "status": {
    operand: null,
    options: [],
    exits: "0 all right, 1 something is wrong, 2 wrong usage",
    about: "say whether all is right, and what helps where it is not",
  },
  "doctor": {
    operand: null,
    options: [],
    examines: true,
    exits: "0 nothing is wrong, 1 something is wrong, 2 wrong usage",
    about: "look at the machine: locks, modes, owners, clock, disk, sockets",
  },
  "chat": { operand: null, options: ["session", "say"], about: "talk with the model" },
  "approvals": {
    operand: null,
    options: ["watch"],
    about: "list the calls that wait for your approval",
  },
  "approvals show": { operand: "ID", options: [], about: "print one of them in full" },
  "approve": {
    operand: "ID",
    options: ["remember", "yes"],
    about: "let a waiting call run, if it is still allowed",
  },
  "refuse": {
    operand: "ID",
    operandUnless: "all",
    options: ["reason", "session", "all"],
    about: "deny a waiting call, or with --session and --all those of a session",
  },
  "why": {
    operand: "SEQ",
    options: ["grants"],
    readsGrants: true,
    about: "say why a call in the audit log was decided as it was",
  },
  "grants check": {
    operand: null,
    options: [],
    readsGrants: true,
    about: "check the grant files, and warn of what may surprise",
  },
  "grants list": {
    operand: null,
    options: [],
    readsGrants: true,
    about: "list the grants, in words",
  },
  "grants revoke": {
    operand: "GRANT",
    options: ["yes"],
    readsGrants: true,
    about: "remove a grant that approve --remember wrote",
  },
  "grants test": {
    operand: null,
    needed: ["tool", "arguments"],
    options: ["session", "taint", "grants"],
    readsGrants: true,
    about: "say how a call would be decided, and why",
  },
  "grants replay": {
    operand: null,
    needed: ["grants"],
    options: ["since"],
    readsGrants: true,
    about: "list the calls in the log that other grants would decide otherwise",
  },
  "audit verify": {
    operand: null,
    options: ["expect"],
    about: "check that the audit log is whole",
  },
  "audit log": {
    operand: null,
    options: ["session", "tool", "outcome", "since", "follow"],
    about: "list the calls, a line each",
  },
  "audit show": { operand: "SEQ", options: [], about: "print all records of one call" },
  "audit report": {
    operand: null,
    needed: ["out"],
    options: ["since", "grants"],
    readsGrants: true,
    about: "write a page about what happened",
  },
  "completion": {
    operand: "SHELL",
    options: [],
    about: "print a script that completes bxctl's command line in a shell",
  },
} as const satisfies Record<string, CommandSpec>;
export type CommandName = keyof typeof COMMANDS;
