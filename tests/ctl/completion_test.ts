/** `bxctl completion`: what the real shells offer with its scripts. */
import assert from "node:assert/strict";
import {
  type CommandName,
  COMMANDS,
  type CommandSpec,
  COMMON_OPTIONS,
  OPTIONS,
  type Shell,
  SHELLS,
} from "../../ctl/commands.ts";
import { OUTCOME_WORDS } from "../../ctl/audit_calls.ts";
import { completionScript } from "../../ctl/completion.ts";
import { DATA_CLASSES, TOOL_NAMES } from "../../proto/tools.ts";
import { CtlHome, runCtl } from "../support/ctl.ts";
import { TempDir } from "../support/scripts.ts";
import { hasShell, offered } from "../support/shells.ts";

const names = Object.keys(COMMANDS) as CommandName[];
const pure = { permissions: "none" } as const;

/** A test with each of the shells. */
function eachShell(name: string, fn: (shell: Shell) => Promise<void>): void {
  for (const shell of SHELLS) {
    Deno.test({
      name: `${shell}: ${name}`,
      // The shell is not there; Debian has it in a package of its name.
      ignore: !hasShell(shell),
      fn: () => fn(shell),
    });
  }
}

/** Holds what `shell` offers at the end of each line against the words that it should. */
async function check(
  shell: Shell,
  expected: Readonly<Record<string, readonly string[]>>,
  cwd?: string,
): Promise<void> {
  const lines = Object.keys(expected);
  const answers = await offered(shell, completionScript(shell), lines, cwd);
  const found = lines.map((line, index) => [line, answers[index]]);
  const sorted = Object.entries(expected).map(([line, words]) => [line, [...words].sort()]);
  assert.deepEqual(Object.fromEntries(found), Object.fromEntries(sorted));
}

eachShell("every command is offered word by word, and nothing else", async (shell) => {
  const expected: Record<string, string[]> = {};
  for (const name of names) {
    const words = name.split(" ");
    for (let count = 0; count < words.length; count += 1) {
      const line = `${["bxctl", ...words.slice(0, count)].join(" ")} `;
      expected[line] = [...new Set([...expected[line] ?? [], words[count] ?? ""])];
    }
    const operands = COMMANDS[name].operand === "SHELL" ? SHELLS : [];
    const line = `bxctl ${name} `;
    expected[line] = [...expected[line] ?? [], ...operands];
  }
  assert.deepEqual(expected["bxctl audit "], ["verify", "log", "show", "report"]);
  await check(shell, expected);
});

eachShell("every option of a command is offered, and no other", async (shell) => {
  const expected = Object.fromEntries(names.map((name) => {
    const { needed = [], options }: CommandSpec = COMMANDS[name];
    const all = [...needed, ...options, ...COMMON_OPTIONS].map((option) => `--${option}`);
    return [`bxctl ${name} --`, all];
  }));
  assert.ok(expected["bxctl audit log --"]?.includes("--outcome"));
  assert.ok(!expected["bxctl audit show --"]?.includes("--outcome"));
  await check(shell, expected);
});

eachShell("values are offered where they are fixed words", async (shell) => {
  await check(shell, {
    "bxctl grants test --taint ": DATA_CLASSES,
    "bxctl grants test --tool ": TOOL_NAMES,
    "bxctl audit log --outcome ": OUTCOME_WORDS,
    "bxctl audit log --outcome deni": ["denied", "denied_by_grant"],
    "bxctl audit log --since ": [],
    "bxctl refuse --reason ": [],
    "bxctl completion ": SHELLS,
    "bxctl completion z": ["zsh"],
  });
});

eachShell(
  "what stands before counts: values are no commands, and options may come first",
  async (shell) => {
    await check(shell, {
      "bxctl au": ["audit"],
      "bxctl --json audit v": ["verify"],
      "bxctl --session chat ap": ["approvals", "approve"],
      "bxctl audit log --session show --fo": ["--follow"],
      "bxctl audit log --tool=shell --ou": ["--outcome"],
      "bxctl approvals show 41 --adm": ["--admin-socket"],
      "bxctl approve 41 ": [],
      "bxctl nothing ": [],
    });
  },
);

eachShell("a value after = is completed too", async (shell) => {
  const [words] = await offered(shell, completionScript(shell), ["bxctl audit log --tool=s"]);
  // fish gives the word with the option before it, which is what it puts in its place.
  assert.deepEqual(words, [shell === "fish" ? "--tool=shell" : "shell"]);
});

eachShell(
  "files are offered where a file is named, and directories for directories",
  async (shell) => {
    using place = new TempDir();
    place.write("grants-new/a.toml", "");
    place.write("grants.toml", "");
    const slash = shell === "fish" ? "/" : "";
    await check(shell, {
      "bxctl grants replay --grants gr": [`grants-new${slash}`],
      "bxctl chat --config gr": [`grants-new${slash}`, "grants.toml"],
      "bxctl audit report --out gr": [`grants-new${slash}`, "grants.toml"],
    }, place.path);
  },
);

Deno.test("the program prints the script, without any configuration or leave to read", async () => {
  using home = new CtlHome();
  for (const shell of SHELLS) {
    const ran = await runCtl(home.layout.home, ["completion", shell], { flags: ["--no-prompt"] });
    assert.deepEqual(ran, { code: 0, stdout: completionScript(shell), stderr: "" });
  }
  const json = await runCtl(home.layout.home, ["completion", "fish", "--json"]);
  assert.deepEqual(JSON.parse(json.stdout), { shell: "fish", script: completionScript("fish") });
  const other = await runCtl(home.layout.home, ["completion", "csh"]);
  assert.deepEqual(other, {
    code: 2,
    stdout: "",
    stderr: "bxctl: csh is not the SHELL: bash, zsh or fish\nbxctl: see bxctl completion --help\n",
  });
});

Deno.test(
  "a script says what every command and option does, where the shell shows it",
  pure,
  () => {
    const fish = completionScript("fish");
    for (const { about } of [...Object.values(COMMANDS), ...Object.values(OPTIONS)]) {
      assert.ok(fish.includes(about.replaceAll("'", "\\'")), about);
      assert.ok(completionScript("zsh").includes(about.replaceAll("'", `'\\''`)), about);
    }
  },
);
