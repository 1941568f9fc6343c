/** The parts of docs/man/bxctl.1 that come from the table of commands, as man(7) source. Pure. */
import {
  type CommandName,
  COMMANDS,
  type CommandSpec,
  type OptionName,
  OPTIONS,
} from "../../ctl/commands.ts";

/** What stands between these lines of the page is written here; NAME is one of `PARTS`. */
const BEGIN = (name: string) => `.\\" Generated: ${name}; change ctl/args.ts, then deno task man\n`;
const END = `.\\" End of what is generated\n`;

const PARTS = { commands: commandEntries, options: optionEntries } as const;

/** `page` with the parts that come from the table as they are now. Throws where it has no place for one. */
export function regenerated(page: string): string {
  let text = page;
  for (const [name, entries] of Object.entries(PARTS)) {
    const begin = text.indexOf(BEGIN(name));
    const end = text.indexOf(END, begin);
    if (begin < 0 || end < 0) throw new Error(`the page has no place for its ${name}`);
    text = text.slice(0, begin) + BEGIN(name) + entries() + text.slice(end);
  }
  return text;
}

/** `text` so that groff and mandoc print it as it is, wherever in a line it stands. */
export function roff(text: string): string {
  const special: Readonly<Record<string, string>> = {
    "\\": "\\e",
    "'": "\\(aq",
    '"': "\\(dq",
    "`": "\\(ga",
    "^": "\\(ha",
    "~": "\\(ti",
    // A minus, not a hyphen: what is copied from the page must work.
    "-": "\\-",
  };
  return text.replace(/[\\'"`^~-]/g, (character) => special[character] ?? character)
    .replace(/^\./, "\\&.");
}

function commandEntries(): string {
  const names = Object.keys(COMMANDS) as CommandName[];
  return names.map((name) => {
    const { operand, needed = [], options, about }: CommandSpec = COMMANDS[name];
    const words = [
      `\\fB${roff(name)}\\fR`,
      ...operand === null ? [] : [`\\fI${operand}\\fR`],
      ...needed.map(optionWords),
      ...options.map((option) => `[${optionWords(option)}]`),
    ];
    return `.TP\n${words.join(" ")}\n${sentence(about)}\n`;
  }).join("");
}

function optionEntries(): string {
  const names = Object.keys(OPTIONS) as OptionName[];
  return names.map((name) => `.TP\n${optionWords(name)}\n${sentence(OPTIONS[name].about)}\n`).join(
    "",
  );
}

function optionWords(name: OptionName): string {
  const { value } = OPTIONS[name];
  const flag = `\\fB${roff(`--${name}`)}\\fR`;
  return value === null ? flag : `${flag} \\fI${roff(value)}\\fR`;
}

/** `about` as the table has it, with a full stop. */
function sentence(about: string): string {
  return `${roff(about)}.`;
}
