import assert from "node:assert/strict";
import { type CommandName, COMMANDS, OPTIONS, readCommandLine } from "../../ctl/args.ts";
import { helpText } from "../../ctl/help.ts";

const pure = { permissions: "none" } as const;
const names = Object.keys(COMMANDS) as CommandName[];

Deno.test("the help of one command reads as it should", pure, () => {
  assert.equal(
    helpText("refuse"),
    `bxctl refuse: deny a waiting call

usage: bxctl refuse ID [--reason TEXT] [OPTIONS]

options:
  --reason TEXT        why, for the audit log only; at most 1 KiB
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

Deno.test("the usage names what a command cannot do without", pure, () => {
  const usage = "\nusage: bxctl audit report --out FILE [--since DATE] [--grants DIR] [OPTIONS]\n";
  assert.ok(helpText("audit report").includes(usage));
  assert.ok(helpText("audit show").includes("\nusage: bxctl audit show SEQ [OPTIONS]\n"));
});

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
    TOOL: "shell",
    OUTCOME: "denied",
    DATE: "2026-12-01",
    FILE: "/page.html",
    DIR: "/grants",
    "SEQ:HASH": `1:${"0".repeat(64)}`,
  };
  for (const name of names) {
    const listed = [...helpText(name).matchAll(/^ {2}--([a-z-]+)(?: ([A-Z:]+))?/gm)];
    assert.ok(listed.length >= 6, name);
    for (const [, option, value] of listed) {
      if (option === "help") continue;
      const operand = COMMANDS[name].operand === null ? [] : ["1"];
      const needed = name === "audit report" && option !== "out" ? ["--out=/page.html"] : [];
      const flag = value === undefined ? `--${option}` : `--${option}=${values[value]}`;
      const words = [...name.split(" "), ...operand, ...needed, flag];
      assert.equal(readCommandLine(words).kind, "run", flag);
    }
  }
});
