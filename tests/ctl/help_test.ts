import assert from "node:assert/strict";
import { readCommandLine } from "../../ctl/args.ts";
import { type CommandName, COMMANDS, type CommandSpec, OPTIONS } from "../../ctl/commands.ts";
import { helpText } from "../../ctl/help.ts";

const pure = { permissions: "none" } as const;
const names = Object.keys(COMMANDS) as CommandName[];

Deno.test("the help of one command reads as it should", pure, () => {
  assert.equal(
    helpText("refuse"),
    `bxctl refuse: deny a waiting call, or with --session and --all those of a session

usage: bxctl refuse ID [--reason TEXT] [--session ID] [--all] [OPTIONS]

options:
  --reason TEXT        why, for the audit log only; at most 1 KiB
  --session ID         the session (default for chat and grants test: a new one)
  --all                every call of the session of --session that waits
  --json               print JSON: one document; one a line for the events of chat and for calls
  --home PATH          Boxmaker's home (default BOXMAKER_HOME, then /var/lib/boxmaker)
  --config PATH        the configuration (default /etc/boxmaker/bxctl.toml)
  --admin-socket PATH  brokerd's socket for its owner
  --loop-socket PATH   loopd's socket for its owner
  --help               print help and end

exit status: 0 done, 1 refused or failed, 2 wrong usage
`,
  );
});

Deno.test("the help says what the exit statuses of status and doctor mean", pure, () => {
  assert.ok(
    helpText("status").endsWith(
      "\nexit status: 0 all right, 1 something is wrong, 2 wrong usage\n",
    ),
  );
  assert.ok(
    helpText("doctor").includes("\nexit status: 0 nothing is wrong, 1 something is wrong,"),
  );
  assert.ok(helpText(null).includes("\nexit status: 0 done, 1 refused or failed, 2 wrong usage\n"));
});

Deno.test("the usage names what a command cannot do without", pure, () => {
  const usage = "\nusage: bxctl audit report --out FILE [--since DATE] [--grants DIR] [OPTIONS]\n";
  assert.ok(helpText("audit report").includes(usage));
  assert.ok(helpText("audit show").includes("\nusage: bxctl audit show SEQ [OPTIONS]\n"));
});

Deno.test(
  "a long usage goes on in a second line, and what must be given has no brackets",
  pure,
  () => {
    assert.equal(
      helpText("grants test").split("\n\n")[1],
      `usage: bxctl grants test --tool TOOL --arguments JSON [--session ID] [--taint CLASS] [--grants DIR]
    [OPTIONS]`,
    );
  },
);

Deno.test("the help names every command and every option, within 100 columns", pure, () => {
  const all = [null, ...names].map(helpText).join("");
  for (const name of names) assert.ok(helpText(null).includes(`\n  ${name} `), name);
  for (const option of Object.keys(OPTIONS)) assert.ok(all.includes(`--${option}`), option);
  for (const line of all.split("\n")) assert.ok(line.length <= 100, line);
});

Deno.test("every option that the help of a command names is taken by that command", pure, () => {
  const values: Record<string, string> = {
    ID: "s1",
    TEXT: "text",
    PATH: "/path",
    JSON: "{}",
    TOOL: "shell",
    CLASS: "private",
    OUTCOME: "denied",
    DATE: "2026-12-01",
    FILE: "/page.html",
    DIR: "/grants",
    DURATION: "1h",
    "SEQ:HASH": `1:${"0".repeat(64)}`,
  };
  /** What an option goes with; with `--all` there is no operand. */
  const beside: Readonly<Record<string, string[]>> = {
    "approve --yes": ["--remember=1h"],
    "refuse --session": ["--all"],
    "refuse --all": ["--session=s1"],
  };
  for (const name of names) {
    const listed = [...helpText(name).matchAll(/^ {2}--([a-z-]+)(?: ([A-Z:]+))?/gm)];
    assert.ok(listed.length >= 6, name);
    for (const [, option, value] of listed) {
      if (option === "help") continue;
      const more = beside[`${name} --${option}`] ?? [];
      const spared = name === "refuse" && more.length > 0;
      const operands = { ID: ["1"], SEQ: ["1"], GRANT: ["1"], SHELL: ["bash"] } as const;
      const { operand: kind }: CommandSpec = COMMANDS[name];
      const operand = kind === null || spared ? [] : operands[kind];
      const flag = value === undefined ? `--${option}` : `--${option}=${values[value]}`;
      const { needed = [] }: CommandSpec = COMMANDS[name];
      const others = needed.filter((one) => one !== option)
        .map((one) => `--${one}=${values[OPTIONS[one].value ?? ""]}`);
      const line = [...name.split(" "), ...operand, ...others, ...more, flag];
      const asked = name === "completion" ? "completion" : "run";
      assert.equal(readCommandLine(line).kind, asked, line.join(" "));
    }
  }
});
