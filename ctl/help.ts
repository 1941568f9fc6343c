/** The help texts, from the table of commands. Pure. */
import {
  type CommandName,
  COMMANDS,
  type CommandSpec,
  COMMON_OPTIONS,
  type OptionName,
  OPTIONS,
} from "./args.ts";

/** No line of help is longer, in characters. */
const WIDTH = 100;
const STATUS = `exit status: 0 done, 1 refused or failed, 2 wrong usage`;
const ENVIRONMENT = `environment: BOXMAKER_HOME, and NO_COLOR and TERM on a terminal`;

/** The help of `command`, or with null of all commands. Ends in a newline. */
export function helpText(command: CommandName | null): string {
  return command === null ? helpOfAll() : helpOfOne(command);
}

function helpOfAll(): string {
  const names = Object.keys(COMMANDS) as CommandName[];
  return paragraphs([
    ["bxctl: the owner's client of Boxmaker"],
    ["usage: bxctl COMMAND [OPTIONS]"],
    ["commands:", ...columns(names.map((name) => [neededOf(name), COMMANDS[name].about]))],
    ["options of every command:", ...optionLines(COMMON_OPTIONS)],
    ["bxctl COMMAND --help tells more; bxctl --version prints the version", ENVIRONMENT, STATUS],
  ]);
}

function helpOfOne(name: CommandName): string {
  const { about, needed = [], options }: CommandSpec = COMMANDS[name];
  return paragraphs([
    [`bxctl ${name}: ${about}`],
    usageLines(name),
    ["options:", ...optionLines([...needed, ...options, ...COMMON_OPTIONS])],
    [STATUS],
  ]);
}

/** What a command cannot be given without. */
function neededOf(name: CommandName): string {
  const { operand, needed = [] }: CommandSpec = COMMANDS[name];
  return [name, ...operand === null ? [] : [operand], ...needed.map(flag)].join(" ");
}

/** The usage of a command, on further lines where one is too narrow. */
function usageLines(name: CommandName): string[] {
  const { options }: CommandSpec = COMMANDS[name];
  const lines = [`usage: bxctl ${neededOf(name)}`];
  for (const part of [...options.map((option) => `[${flag(option)}]`), "[OPTIONS]"]) {
    const line = `${lines.at(-1)} ${part}`;
    if (line.length <= WIDTH) lines.splice(-1, 1, line);
    else lines.push(`      ${part}`);
  }
  return lines;
}

function flag(name: OptionName): string {
  const { value } = OPTIONS[name];
  return value === null ? `--${name}` : `--${name} ${value}`;
}

function optionLines(names: readonly OptionName[]): string[] {
  return columns(names.map((name) => [flag(name), OPTIONS[name].about]));
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}

function paragraphs(parts: readonly (readonly string[])[]): string {
  return parts.map((lines) => lines.join("\n")).join("\n\n") + "\n";
}
