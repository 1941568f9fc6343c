/**
 * The command line of `bxctl` (specification 9; contracts 6), by the table in `commands.ts`. Pure.
 */
import { parseArgs } from "node:util";
import { Anchor } from "../proto/audit.ts";
import { display } from "../proto/escape.ts";
import { GrantId, isTimestamp, SessionId, type Timestamp } from "../proto/ids.ts";
import { unlockablePath } from "../proto/locks.ts";
import { MAX_REASON_BYTES } from "../proto/messages.ts";
import { assertNever, utf8Length } from "../proto/text.ts";
import { type CallFilter, OUTCOME_WORDS, type OutcomeWord } from "./audit_calls.ts";
import { DATA_CLASSES, DataClass } from "../proto/tools.ts";
import { durationMs, MAX_REMEMBER_MS } from "./durations.ts";
import {
  type CommandName,
  COMMANDS,
  type CommandSpec,
  COMMON_OPTIONS,
  OPERANDS,
  type OptionName,
  OPTIONS,
  type OptionSpec,
  type Shell,
  SHELLS,
} from "./commands.ts";
import type { CtlOverrides, CtlUses } from "./config.ts";

/** Whether the command `name` may read the grants directory; the lock of all others is without it. */
export function readsGrants(name: CommandName): boolean {
  const spec: CommandSpec = COMMANDS[name];
  return spec.readsGrants === true;
}

/** Whether the command `name` looks at the machine; the lock of all others does not let it. */
export function examines(name: CommandName): boolean {
  const spec: CommandSpec = COMMANDS[name];
  return spec.examines === true;
}

/**
 * Whether `command` may write the grants directory, and then it reads it too: `approve` with `--remember`
 * and `grants revoke`, and no other (decision 111).
 */
export function writesGrants(command: Command): boolean {
  return command.name === "grants revoke" ||
    (command.name === "approve" && command.remember !== null);
}

/** What `command` may do beside what all may. */
export function usesOf(command: Command): CtlUses {
  const { name } = command;
  return {
    readsGrants: readsGrants(name),
    writesGrants: writesGrants(command),
    examines: examines(name),
  };
}

/** A command with its values, checked. */
export type Command =
  | { readonly name: "init"; readonly dryRun: boolean }
  | { readonly name: "chat"; readonly session: SessionId | null; readonly say: string | null }
  | { readonly name: "status" }
  | { readonly name: "doctor" }
  | { readonly name: "approvals"; readonly watch: boolean }
  | { readonly name: "approvals show"; readonly approval: number }
  | {
    readonly name: "approve";
    readonly approval: number;
    /** How long to remember the answer, in milliseconds; null: not at all. */
    readonly remember: number | null;
    readonly yes: boolean;
  }
  | { readonly name: "refuse"; readonly approval: number; readonly reason: string | null }
  /** Every waiting call of the session. */
  | { readonly name: "refuse"; readonly session: SessionId; readonly reason: string | null }
  | { readonly name: "why"; readonly seq: number }
  | { readonly name: "grants check" }
  | { readonly name: "grants list" }
  | { readonly name: "grants revoke"; readonly grant: GrantId; readonly yes: boolean }
  | {
    readonly name: "grants test";
    readonly tool: string;
    readonly arguments: string;
    /** The session whose taint counts, or a taint, or neither: a new session. */
    readonly session: SessionId | null;
    readonly taint: DataClass | null;
  }
  | { readonly name: "grants replay"; readonly since: Timestamp | null }
  | { readonly name: "audit verify"; readonly expect: Anchor | null }
  | { readonly name: "audit log"; readonly filter: CallFilter; readonly follow: boolean }
  | { readonly name: "audit show"; readonly seq: number }
  | { readonly name: "audit report"; readonly since: Timestamp | null };

/** What a command line asks for. */
export type Invocation =
  | {
    readonly kind: "run";
    readonly command: Command;
    readonly json: boolean;
    readonly places: CtlOverrides;
  }
  /** Needs no configuration: a shell asks for it at its start. */
  | { readonly kind: "completion"; readonly shell: Shell; readonly json: boolean }
  /** The help of one command, or with null of all. */
  | { readonly kind: "help"; readonly command: CommandName | null }
  | { readonly kind: "version" }
  /** No argument at all. */
  | { readonly kind: "nothing" }
  | { readonly kind: "usage"; readonly problem: string; readonly hint: string };

/** A command line that is not one. Its texts have been through `display`. */
class UsageError extends Error {
  readonly hint: string;
  constructor(problem: string, hint: string) {
    super(problem);
    this.hint = hint;
  }
}

/** Reads the arguments after the program's name. */
export function readCommandLine(args: readonly string[]): Invocation {
  if (args.length === 0) return { kind: "nothing" };
  try {
    return read(args);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { kind: "usage", problem: error.message, hint: error.hint };
  }
}

function read(args: readonly string[]): Invocation {
  const { given, words } = split(args);
  if (given.has("version")) return { kind: "version" };
  if (given.has("help") && words.length === 0) return { kind: "help", command: null };
  const name = findCommand(words);
  if (given.has("help")) return { kind: "help", command: name };
  const hint = hintFor(name);
  const { operand, operandUnless, needed = [], options }: CommandSpec = COMMANDS[name];
  for (const option of given.keys()) {
    const taken = [...needed, ...options, ...COMMON_OPTIONS].includes(option);
    if (!taken) throw new UsageError(`bxctl ${name} takes no --${option}`, hint);
  }
  const operands = words.slice(name.split(" ").length);
  const spared = operandUnless !== undefined && given.has(operandUnless);
  const extra = operands[operand === null || spared ? 0 : 1];
  if (extra !== undefined) {
    throw new UsageError(`bxctl ${name} takes no further argument ${shown(extra)}`, hint);
  }
  if (operand !== null && !spared && operands.length === 0) {
    throw new UsageError(`bxctl ${name} needs the ${OPERANDS[operand]}`, hint);
  }
  const missing = needed.find((option) => !given.has(option));
  if (missing !== undefined) {
    throw new UsageError(`bxctl ${name} needs --${missing} ${OPTIONS[missing].value}`, hint);
  }
  if (name === "completion") {
    const shell = SHELLS.find((shell) => shell === operands[0]);
    if (shell !== undefined) return { kind: "completion", shell, json: given.has("json") };
    throw new UsageError(`${shown(operands[0] ?? "")} is not the ${OPERANDS.SHELL}`, hint);
  }
  return {
    kind: "run",
    command: commandOf(name, operands[0] ?? "", given, hint),
    json: given.has("json"),
    places: placesOf(given, hint),
  };
}

type Given = ReadonlyMap<OptionName, string>;

function isOption(name: string): name is OptionName {
  return Object.hasOwn(OPTIONS, name);
}

/** Tells options with their values (a switch's is "") from the other words. */
function split(args: readonly string[]): { given: Given; words: string[] } {
  const hint = hintFor(null);
  const types = Object.entries(OPTIONS).map(([name, { value }]) =>
    [name, { type: value === null ? "boolean" : "string" } as const] as const
  );
  const { tokens } = parseArgs({
    args: [...args],
    options: { ...Object.fromEntries(types), help: { type: "boolean", short: "h" } },
    allowPositionals: true,
    // The tokens are checked here, in words of our own and with what was typed escaped.
    strict: false,
    tokens: true,
  });
  const given = new Map<OptionName, string>();
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === "positional") words.push(token.value);
    if (token.kind !== "option") continue;
    const { name, rawName, value, inlineValue } = token;
    if (!isOption(name)) throw new UsageError(`unknown option ${shown(rawName)}`, hint);
    const spec: OptionSpec = OPTIONS[name];
    if (spec.value === null) {
      if (value !== undefined) throw new UsageError(`--${name} takes no value`, hint);
      given.set(name, "");
      continue;
    }
    if (value === undefined) throw new UsageError(`--${name} needs a value: ${spec.value}`, hint);
    if (!inlineValue && value.length > 1 && value.startsWith("-")) {
      const example = `--${name}=${shown(value)}`;
      throw new UsageError(`--${name} needs a value`, `if ${shown(value)} is it: ${example}`);
    }
    if (given.has(name)) throw new UsageError(`--${name} is given twice`, hint);
    given.set(name, value);
  }
  return { given, words };
}

function hintFor(name: CommandName | null): string {
  return name === null ? "see bxctl --help" : `see bxctl ${name} --help`;
}

/** The command that `words` begin with; of two, the one of more words. */
function findCommand(words: readonly string[]): CommandName {
  const names = Object.keys(COMMANDS) as CommandName[];
  const longestFirst = names.sort((a, b) => b.split(" ").length - a.split(" ").length);
  const found = longestFirst.find((name) => name.split(" ").every((word, i) => words[i] === word));
  if (found !== undefined) return found;
  const [first] = words;
  if (first === undefined) throw new UsageError("no command is given", hintFor(null));
  const similar = names.find((name) => name.split(" ")[0] === first);
  const typed = shown(similar === undefined ? first : words.slice(0, 2).join(" "));
  throw new UsageError(
    `unknown command ${typed}`,
    similar === undefined ? hintFor(null) : `did you mean bxctl ${similar}?`,
  );
}

function commandOf(
  name: Command["name"],
  operand: string,
  given: Given,
  hint: string,
): Command {
  const bad = (problem: string) => new UsageError(problem, hint);
  const numberOf = (kind: keyof typeof OPERANDS) => {
    const value = /^(0|[1-9]\d*)$/.test(operand) ? Number(operand) : NaN;
    if (!Number.isSafeInteger(value)) {
      throw bad(`${shown(operand)} is not the ${OPERANDS[kind]}`);
    }
    return value;
  };
  const approval = () => numberOf("ID");
  const session = () => {
    const id = given.get("session") ?? null;
    if (id === null || SessionId.safeParse(id).success) return id;
    throw bad(`--session: ${shown(id)} is not 1 to 64 of a-z, 0-9 and -`);
  };
  switch (name) {
    case "init":
      return { name, dryRun: given.has("dry-run") };
    case "chat": {
      const say = given.get("say") ?? null;
      if (say === "") throw bad("--say: the text is empty");
      if (say?.isWellFormed() === false) throw bad("--say: the text is not UTF-8");
      return { name, session: session(), say };
    }
    case "refuse": {
      const reason = given.get("reason") ?? null;
      if (reason !== null && utf8Length(reason) > MAX_REASON_BYTES) {
        throw bad(`--reason: over ${MAX_REASON_BYTES} bytes`);
      }
      if (reason?.isWellFormed() === false) throw bad("--reason: the text is not UTF-8");
      const ofSession = session();
      if (given.has("all") !== (ofSession !== null)) throw bad("--session and --all go together");
      return ofSession === null
        ? { name, approval: approval(), reason }
        : { name, session: ofSession, reason };
    }
    case "approve": {
      const remember = given.has("remember") ? rememberOf(given.get("remember") ?? "", hint) : null;
      const yes = given.has("yes");
      if (yes && remember === null) throw bad("--yes is for --remember");
      return { name, approval: approval(), remember, yes };
    }
    case "grants revoke": {
      const grant = GrantId.safeParse(operand);
      if (!grant.success) throw bad(`${shown(operand)} is not the ${OPERANDS.GRANT}`);
      return { name, grant: grant.data, yes: given.has("yes") };
    }
    case "why":
      return { name, seq: numberOf("SEQ") };
    case "grants test": {
      const tool = given.get("tool") ?? "";
      const args = given.get("arguments") ?? "";
      if (!tool.isWellFormed()) throw bad("--tool: the text is not UTF-8");
      if (!args.isWellFormed()) throw bad("--arguments: the text is not UTF-8");
      const taint = DataClass.nullable().safeParse(given.get("taint") ?? null);
      if (!taint.success) {
        const value = shown(given.get("taint") ?? "");
        throw bad(`--taint: ${value} is not one of ${DATA_CLASSES.join(", ")}`);
      }
      if (taint.data !== null && given.has("session")) {
        throw bad("--taint and --session: one of them says what the taint is");
      }
      return { name, tool, arguments: args, session: session(), taint: taint.data };
    }
    case "grants replay":
      return { name, since: sinceOf(given, hint) };
    case "audit verify":
      return {
        name,
        expect: given.has("expect") ? anchorOf(given.get("expect") ?? "", hint) : null,
      };
    case "audit log": {
      const filter: CallFilter = {
        session: session(),
        tool: given.get("tool") ?? null,
        outcome: outcomeOf(given.get("outcome") ?? null, hint),
        since: sinceOf(given, hint),
      };
      return { name, filter, follow: given.has("follow") };
    }
    case "audit show":
      return { name, seq: numberOf("SEQ") };
    case "audit report":
      return { name, since: sinceOf(given, hint) };
    case "approvals show":
      return { name, approval: approval() };
    case "approvals": {
      const watch = given.has("watch");
      if (watch && given.has("json")) throw bad("--watch and --json: one of them");
      return { name, watch };
    }
    case "status":
    case "doctor":
    case "grants check":
    case "grants list":
      return { name };
    default:
      return assertNever(name);
  }
}

/** The time that `--since` means: of a date its first moment, in UTC. */
function sinceOf(given: Given, hint: string): Timestamp | null {
  const value = given.get("since");
  if (value === undefined) return null;
  const time = value.length === "YYYY-MM-DD".length ? `${value}T00:00:00.000Z` : value;
  if (isTimestamp(time)) return time;
  const form = "is not YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS.mmmZ";
  throw new UsageError(`--since: ${shown(value)} ${form}`, hint);
}

/** The milliseconds that `--remember` means. */
function rememberOf(value: string, hint: string): number {
  const ms = durationMs(value);
  if (ms !== null && ms <= MAX_REMEMBER_MS) return ms;
  const form = "is not a duration such as 30m, 1h or 7d, at most 30d";
  throw new UsageError(`--remember: ${shown(value)} ${form}`, hint);
}

function anchorOf(value: string, hint: string): Anchor {
  const [, seq, hash] = /^(0|[1-9]\d*):([0-9a-f]{64})$/.exec(value) ?? [];
  const anchor = Anchor.safeParse({ seq: Number(seq), hash });
  if (anchor.success) return anchor.data;
  const form = "is not SEQ:HASH, a number and 64 lowercase hex digits";
  throw new UsageError(`--expect: ${shown(value)} ${form}`, hint);
}

function outcomeOf(value: string | null, hint: string): OutcomeWord | null {
  if (value === null) return null;
  const word = OUTCOME_WORDS.find((word) => word === value);
  if (word !== undefined) return word;
  throw new UsageError(`--outcome: ${shown(value)} is none of ${OUTCOME_WORDS.join(", ")}`, hint);
}

type PlaceName = "config" | "home" | "admin-socket" | "loop-socket" | "grants" | "out";

function placesOf(given: Given, hint: string): CtlOverrides {
  const place = (name: PlaceName) => {
    const path = given.get(name);
    const problem = path === undefined ? null : unlockablePath(path);
    if (problem !== null) {
      throw new UsageError(`--${name}: ${shown(path ?? "")} ${problem}`, hint);
    }
    return path;
  };
  const out = place("out");
  // What reads files by the ends of their names, as brokerd does grants and logs, never reads a page.
  if (out !== undefined && !out.endsWith(".html")) {
    throw new UsageError(`--out: ${shown(out)} does not end in .html`, hint);
  }
  return {
    config: place("config"),
    home: place("home"),
    "admin-socket": place("admin-socket"),
    "loop-socket": place("loop-socket"),
    grants: place("grants"),
    out,
  };
}

/** A value from the command line, as a message names it. */
function shown(value: string): string {
  return value === "" ? '""' : display(value);
}
