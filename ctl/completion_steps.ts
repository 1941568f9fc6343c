/**
 * What may come next on bxctl's command line, from the table of commands: all that a script of a shell
 * has to know. Commands and options that are added there need no change here. Pure.
 */
import { DATA_CLASSES, TOOL_NAMES } from "../proto/tools.ts";
import {
  type CommandName,
  COMMANDS,
  type CommandSpec,
  COMMON_OPTIONS,
  type OptionName,
  OPTIONS,
  SHELLS,
} from "./commands.ts";
import { OUTCOME_WORDS } from "./audit_calls.ts";

/** What may stand for a value or an operand: one of these words, or the name of a file or a directory. */
export type Values = readonly string[] | "files" | "directories";

/** A word that may come next, with what it does. */
export interface Choice {
  readonly word: string;
  readonly about: string;
}

/** An option, without its dashes. */
export interface OptionChoice extends Choice {
  /** Null for a switch; no words where the shell knows none. */
  readonly values: Values | null;
}

/** What may follow on some words of the command line. */
export interface Step {
  /** The words so far, as `audit` or `audit log`; "" at the beginning. */
  readonly path: string;
  readonly next: readonly Choice[];
  /** The values of the operand that may come next. */
  readonly operand: Values;
  readonly options: readonly OptionChoice[];
}

/** No values that a shell could know. */
const UNKNOWN: Values = [];

/** The values that a placeholder of the table stands for; one that is not here has none that are known. */
const VALUES: Readonly<Record<string, Values>> = {
  CLASS: DATA_CLASSES,
  OUTCOME: OUTCOME_WORDS,
  SHELL: SHELLS,
  TOOL: TOOL_NAMES,
  FILE: "files",
  PATH: "files",
  DIR: "directories",
};

/** A step for each command, and for each beginning of one. */
export function steps(): Step[] {
  const names = Object.keys(COMMANDS) as CommandName[];
  const paths = new Set(names.flatMap((name) => {
    const words = name.split(" ");
    return words.map((_, count) => words.slice(0, count).join(" ")).concat(name);
  }));
  return [...paths].map((path) => stepAt(path, names));
}

function stepAt(path: string, names: readonly CommandName[]): Step {
  const depth = path === "" ? 0 : path.split(" ").length;
  const below = names.filter((name) => path === "" || name.startsWith(`${path} `));
  const words = [...new Set(below.map((name) => name.split(" ")[depth] ?? ""))];
  const command = names.find((name) => name === path);
  const spec: CommandSpec | null = command === undefined ? null : COMMANDS[command];
  const { operand = null, needed = [], options = [] } = spec ?? {};
  const own = path === "" ? ["version" as const] : [];
  return {
    path,
    next: words.map((word) => ({ word, about: aboutOf(path === "" ? word : `${path} ${word}`) })),
    operand: operand === null ? UNKNOWN : VALUES[operand] ?? UNKNOWN,
    options: [...needed, ...options, ...COMMON_OPTIONS, ...own].map(optionChoice),
  };
}

/** What the command `path` does; of the beginning of several, what they are. */
function aboutOf(path: string): string {
  const names = Object.keys(COMMANDS) as CommandName[];
  const command = names.find((name) => name === path);
  if (command !== undefined) return COMMANDS[command].about;
  return names.filter((name) => name.startsWith(`${path} `))
    .map((name) => name.slice(path.length + 1)).join(", ");
}

function optionChoice(name: OptionName): OptionChoice {
  const { value, about } = OPTIONS[name];
  return { word: name, about, values: value === null ? null : VALUES[value] ?? UNKNOWN };
}

/** The options of all steps that take a value, each once, as groups of the same values. */
export function valueGroups(steps: readonly Step[]): Map<Values, string[]> {
  const groups = new Map<Values, Set<string>>();
  for (const { word, values } of steps.flatMap(({ options }) => options)) {
    if (values !== null) groups.set(values, (groups.get(values) ?? new Set()).add(`--${word}`));
  }
  return new Map([...groups].map(([values, words]) => [values, [...words]]));
}

/** `text` as one word of bash and zsh. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
