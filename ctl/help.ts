/** The help texts, from the table of commands. Pure. */
import {
  type CommandName,
  COMMANDS,
  type CommandSpec,
  COMMON_OPTIONS,
  type OptionName,
  OPTIONS,
} from "./commands.ts";

/** No line of help is longer, in characters. */
const WIDTH = 100;
const STATUS = `0 done, 1 refused or failed, 2 wrong usage`;
const ENVIRONMENT = `environment: BOXMAKER_HOME, and NO_COLOR and TERM on a terminal`;

/** The help of `command`, or with null of all commands. Ends in a newline. */
export function helpText(command: CommandName | null): string {
  return command === null ? helpOfAll() : helpOfOne(command);
}

/** Where a line of help goes on that a narrow terminal breaks: under what it says of an option or command. */
export function hangOfHelp(line: string): number {
  return (/^ {2}\S.*? {2,}(?=\S)/.exec(line)?.[0] ?? "    ").length;
}

function helpOfAll(): string {
  const names = Object.keys(COMMANDS) as CommandName[];
  return paragraphs([
    ["bxctl: the owner's client of Boxmaker"],
    ["usage: bxctl COMMAND [OPTIONS]"],
    ["commands:", ...columns(names.map((name) => [shortOf(name), COMMANDS[name].about]))],
    ["options of every command:", ...optionLines(COMMON_OPTIONS)],
    [
      "bxctl COMMAND --help tells more; bxctl --version prints the version",
      ENVIRONMENT,
      `exit status: ${STATUS}`,
    ],
  ]);
}

function helpOfOne(name: CommandName): string {
  const { about, needed = [], options, exits = STATUS }: CommandSpec = COMMANDS[name];
  return paragraphs([
    [`bxctl ${name}: ${about}`],
    wrapped(["usage: bxctl", ...usageOf(name), "[OPTIONS]"]),
    ["options:", ...optionLines([...needed, ...options, ...COMMON_OPTIONS])],
    [`exit status: ${exits}`],
  ]);
}

function shortOf(name: CommandName): string {
  const { operand }: CommandSpec = COMMANDS[name];
  return operand === null ? name : `${name} ${operand}`;
}

function usageOf(name: CommandName): string[] {
  const { needed = [], options }: CommandSpec = COMMANDS[name];
  return [shortOf(name), ...needed.map(flag), ...options.map((option) => `[${flag(option)}]`)];
}

/** `parts` with a space between them, on as many lines as they need. */
function wrapped(parts: readonly string[]): string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const last = lines.at(-1);
    if (last === undefined) lines.push(part);
    else if (last.length + 1 + part.length > WIDTH) lines.push(`    ${part}`);
    else lines[lines.length - 1] = `${last} ${part}`;
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
