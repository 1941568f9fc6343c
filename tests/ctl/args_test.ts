import assert from "node:assert/strict";
import { examines, readCommandLine, readsGrants, writesGrants } from "../../ctl/args.ts";
import { type CommandName, COMMANDS } from "../../ctl/commands.ts";

const pure = { permissions: "none" } as const;
const names = Object.keys(COMMANDS) as CommandName[];
const HASH = "0123456789abcdef".repeat(4);
const nowhere = {
  config: undefined,
  home: undefined,
  "admin-socket": undefined,
  "loop-socket": undefined,
  grants: undefined,
  out: undefined,
};
/** What a command needs beside its operand, as words. */
const NEEDED: Readonly<Record<string, string>> = {
  "grants test": " --tool shell --arguments {}",
  "grants replay": " --grants /g",
  "audit report": " --out=/r.html",
};

const ALL = { session: null, tool: null, outcome: null, since: null };

/** A command line as one would type it; `'…'` for a word with spaces. */
const words = (line: string) =>
  (line.match(/'[^']*'|\S+/g) ?? []).map((w) => w.replaceAll("'", ""));

Deno.test("every command is read with its values", pure, () => {
  const cases: Record<string, unknown> = {
    "chat": { name: "chat", session: null, say: null },
    "chat --session chat-1": { name: "chat", session: "chat-1", say: null },
    "chat --say=-1": { name: "chat", session: null, say: "-1" },
    "approvals": { name: "approvals", watch: false },
    "approvals --watch": { name: "approvals", watch: true },
    "approvals show 41": { name: "approvals show", approval: 41 },
    "approve 0": { name: "approve", approval: 0, remember: null, yes: false },
    "approve 9007199254740991": {
      ...{ name: "approve", approval: Number.MAX_SAFE_INTEGER, remember: null, yes: false },
    },
    "approve 41 --remember 30m": {
      ...{ name: "approve", approval: 41, remember: 1_800_000, yes: false },
    },
    "approve 41 --remember=1h --yes": {
      ...{ name: "approve", approval: 41, remember: 3_600_000, yes: true },
    },
    "approve 41 --remember 30d": {
      ...{ name: "approve", approval: 41, remember: 2_592_000_000, yes: false },
    },
    "refuse --session s1 --all": { name: "refuse", session: "s1", reason: null },
    "refuse --all --session s1 --reason no": { name: "refuse", session: "s1", reason: "no" },
    "grants list": { name: "grants list" },
    "grants revoke remembered-41": { name: "grants revoke", grant: "remembered-41", yes: false },
    "grants revoke a --yes": { name: "grants revoke", grant: "a", yes: true },
    "refuse 41": { name: "refuse", approval: 41, reason: null },
    "refuse --reason 'not now' 41": { name: "refuse", approval: 41, reason: "not now" },
    "refuse 41 --reason=": { name: "refuse", approval: 41, reason: "" },
    "status": { name: "status" },
    "doctor": { name: "doctor" },
    "why 41": { name: "why", seq: 41 },
    "grants check": { name: "grants check" },
    [`grants test --tool read_file --arguments '{"path":"/a b"}'`]: {
      ...{ name: "grants test", tool: "read_file", arguments: '{"path":"/a b"}' },
      ...{ session: null, taint: null },
    },
    "grants test --tool= --arguments=-1 --session s-1": {
      ...{ name: "grants test", tool: "", arguments: "-1", session: "s-1", taint: null },
    },
    "grants test --tool x --arguments y --taint secret": {
      ...{ name: "grants test", tool: "x", arguments: "y", session: null, taint: "secret" },
    },
    "audit verify": { name: "audit verify", expect: null },
    "audit log": { name: "audit log", filter: ALL, follow: false },
    "audit log --session s1 --tool 'a b' --outcome no_grant --since 2026-12-01 --follow": {
      name: "audit log",
      filter: {
        ...{ session: "s1", tool: "a b", outcome: "no_grant" },
        since: "2026-12-01T00:00:00.000Z",
      },
      follow: true,
    },
    "audit log --since 2026-12-01T10:00:00.123Z": {
      name: "audit log",
      filter: { ...ALL, since: "2026-12-01T10:00:00.123Z" },
      follow: false,
    },
    "audit show 0": { name: "audit show", seq: 0 },
    [`audit verify --expect 7:${HASH}`]: { name: "audit verify", expect: { seq: 7, hash: HASH } },
    [`audit verify --expect=0:${HASH}`]: { name: "audit verify", expect: { seq: 0, hash: HASH } },
  };
  for (const [line, command] of Object.entries(cases)) {
    const read = readCommandLine(words(line));
    assert.deepEqual(read, { kind: "run", command, json: false, places: nowhere }, line);
  }
});

Deno.test(
  "the commands that read grants take a directory of them, and only those read any",
  pure,
  () => {
    const since = { "2026-12-01": "2026-12-01T00:00:00.000Z", "2026-12-01T09:30:00.000Z": null };
    for (const [given, meant] of Object.entries(since)) {
      const read = readCommandLine(["grants", "replay", "--grants", "/g", "--since", given]);
      const command = { name: "grants replay", since: meant ?? given };
      assert.deepEqual(read, {
        ...{ kind: "run", command, json: false, places: { ...nowhere, grants: "/g" } },
      });
    }
    const named = names.filter((name) => {
      const operand = COMMANDS[name].operand === null ? "" : " 1";
      const line = `${name}${operand}${NEEDED[name] ?? ""}`;
      const given = line.includes("--grants") ? line : `${line} --grants /g`;
      return readCommandLine(words(given)).kind === "run";
    });
    assert.deepEqual(named, ["why", "grants test", "grants replay", "audit report"]);
    assert.deepEqual(names.filter(examines), ["doctor"]);
    assert.deepEqual(names.filter(readsGrants), [
      "why",
      "grants check",
      "grants list",
      "grants revoke",
      "grants test",
      "grants replay",
      "audit report",
    ]);
  },
);

Deno.test(
  "approve --remember and grants revoke write the grants, and nothing else does",
  pure,
  () => {
    const writes = (line: string) => {
      const read = readCommandLine(words(line));
      assert.ok(read.kind === "run", line);
      return writesGrants(read.command);
    };
    // `completion` runs no command at all.
    const plain = names.filter((name) => name !== "completion").filter((name) =>
      writes(`${name}${COMMANDS[name].operand === null ? "" : " 1"}${NEEDED[name] ?? ""}`)
    );
    assert.deepEqual(plain, ["grants revoke"]);
    assert.ok(writes("approve 1 --remember 1h"));
  },
);

Deno.test("every command takes the common options, before or after its words", pure, () => {
  const places = {
    config: "/c.toml",
    home: "/h",
    "admin-socket": "/a.sock",
    "loop-socket": "/l.sock",
  };
  const common = "--json --config /c.toml --home=/h --admin-socket /a.sock --loop-socket=/l.sock";
  for (const [name, { operand: needed }] of Object.entries(COMMANDS)) {
    const operand = (needed === null ? "" : needed === "SHELL" ? " bash" : " 1") +
      (NEEDED[name] ?? "");
    for (const line of [`${name}${operand} ${common}`, `${common} ${name}${operand}`]) {
      const read = readCommandLine(words(line));
      if (name === "completion") {
        assert.deepEqual(read, { kind: "completion", shell: "bash", json: true }, line);
        continue;
      }
      assert.equal(read.kind, "run", line);
      assert.ok(read.kind === "run" && read.json && read.command.name === name, line);
      const grants = name === "grants replay" ? "/g" : undefined;
      const out = name === "audit report" ? "/r.html" : undefined;
      assert.deepEqual(read.places, { ...places, grants, out }, line);
    }
  }
});

Deno.test(
  "a report names its file and, where it is another one, the grants directory",
  pure,
  () => {
    const cases: Record<string, object> = {
      "audit report --out /r.html": { since: null, grants: undefined, out: "/r.html" },
      "audit report --since 2026-12-01 --grants=/g --out=/r/s t.html": {
        ...{ since: "2026-12-01T00:00:00.000Z", grants: "/g", out: "/r/s t.html" },
      },
    };
    for (const [line, { since, ...places }] of Object.entries<{ since?: unknown }>(cases)) {
      assert.deepEqual(readCommandLine(line.split(/ (?!t)/)), {
        kind: "run",
        command: { name: "audit report", since },
        json: false,
        places: { ...nowhere, ...places },
      });
    }
  },
);

Deno.test("help and the version are asked for with any command or with none", pure, () => {
  assert.deepEqual(readCommandLine([]), { kind: "nothing" });
  assert.deepEqual(readCommandLine(["--help"]), { kind: "help", command: null });
  assert.deepEqual(readCommandLine(["-h"]), { kind: "help", command: null });
  assert.deepEqual(readCommandLine(["--version"]), { kind: "version" });
  for (const name of Object.keys(COMMANDS)) {
    const help = { kind: "help", command: name };
    assert.deepEqual(readCommandLine([...name.split(" "), "--help"]), help, name);
    assert.deepEqual(readCommandLine(["--help", ...name.split(" ")]), help, name);
  }
});

Deno.test("a wrong command line is told with what is wrong and what helps", pure, () => {
  const id = "is not the ID of an approval";
  const form = "is not SEQ:HASH, a number and 64 lowercase hex digits";
  const cases: Record<string, [problem: string, hint: string]> = {
    "foo": ["unknown command foo", "see bxctl --help"],
    "--json": ["no command is given", "see bxctl --help"],
    "grants": ["unknown command grants", "did you mean bxctl grants check?"],
    "audit check": ["unknown command audit check", "did you mean bxctl audit verify?"],
    "audit show": ["bxctl audit show needs the SEQ of a record", "see bxctl audit show --help"],
    "audit show 1.5": ["1.5 is not the SEQ of a record", "see bxctl audit show --help"],
    "audit log --session S": [
      "--session: S is not 1 to 64 of a-z, 0-9 and -",
      "see bxctl audit log --help",
    ],
    "audit log --outcome gone": [
      "--outcome: gone is none of result, failed, denied, pending, unfinished, no_grant, " +
      "grant_expired, taint_too_high, denied_by_grant, approval_refused, approval_expired, " +
      "grants_invalid, audit_unavailable, invalid_arguments, state_unreadable",
      "see bxctl audit log --help",
    ],
    "audit log --since 2026-02-30": [
      "--since: 2026-02-30 is not YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS.mmmZ",
      "see bxctl audit log --help",
    ],
    "audit log --since yesterday": [
      "--since: yesterday is not YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS.mmmZ",
      "see bxctl audit log --help",
    ],
    "audit log --out /r.html": ["bxctl audit log takes no --out", "see bxctl audit log --help"],
    "audit report": ["bxctl audit report needs --out FILE", "see bxctl audit report --help"],
    "audit report --out r.html": [
      "--out: r.html is not an absolute path",
      "see bxctl audit report --help",
    ],
    "audit report --out /r,/etc.html": [
      "--out: /r,/etc.html has a comma in it, which Deno's permission flags cannot express",
      "see bxctl audit report --help",
    ],
    "audit report --out /g/x.toml": [
      "--out: /g/x.toml does not end in .html",
      "see bxctl audit report --help",
    ],
    "--frobnicate chat": ["unknown option --frobnicate", "see bxctl --help"],
    "chat -x": ["unknown option -x", "see bxctl --help"],
    "approve -5": ["unknown option -5", "see bxctl --help"],
    "foo --help": ["unknown command foo", "see bxctl --help"],
    "chat hello": ["bxctl chat takes no further argument hello", "see bxctl chat --help"],
    "approvals 41": [
      "bxctl approvals takes no further argument 41",
      "see bxctl approvals --help",
    ],
    "approve 41 42": ["bxctl approve takes no further argument 42", "see bxctl approve --help"],
    "why x": ["x is not the SEQ of a record", "see bxctl why --help"],
    "why": ["bxctl why needs the SEQ of a record", "see bxctl why --help"],
    "why 1 --taint public": ["bxctl why takes no --taint", "see bxctl why --help"],
    "grants check --grants /g": [
      "bxctl grants check takes no --grants",
      "see bxctl grants check --help",
    ],
    "grants test --tool shell": [
      "bxctl grants test needs --arguments JSON",
      "see bxctl grants test --help",
    ],
    "grants test --tool x --arguments y --taint top": [
      "--taint: top is not one of public, private, secret",
      "see bxctl grants test --help",
    ],
    "grants test --tool x --arguments y --taint public --session s": [
      "--taint and --session: one of them says what the taint is",
      "see bxctl grants test --help",
    ],
    "grants replay": ["bxctl grants replay needs --grants DIR", "see bxctl grants replay --help"],
    "grants replay --grants g": [
      "--grants: g is not an absolute path",
      "see bxctl grants replay --help",
    ],
    "grants replay --grants /g --since 2026-02-30": [
      "--since: 2026-02-30 is not YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS.mmmZ",
      "see bxctl grants replay --help",
    ],
    "approve": ["bxctl approve needs the ID of an approval", "see bxctl approve --help"],
    "approvals show": [
      "bxctl approvals show needs the ID of an approval",
      "see bxctl approvals show --help",
    ],
    "approve 041": [`041 ${id}`, "see bxctl approve --help"],
    "approve 1e3": [`1e3 ${id}`, "see bxctl approve --help"],
    "refuse x": [`x ${id}`, "see bxctl refuse --help"],
    "refuse ''": [`"" ${id}`, "see bxctl refuse --help"],
    "approve 9007199254740992": [`9007199254740992 ${id}`, "see bxctl approve --help"],
    ...Object.fromEntries(
      ["", "1", "0h", "1w", "1.5h", "-1h", "31d", "721h", "43201m", "999999999d", "1h ", "１h"].map(
        (
          value,
        ) => [
          `approve 41 '--remember=${value}'`,
          [
            `--remember: ${value || '""'} is not a duration such as 30m, 1h or 7d, at most 30d`,
            "see bxctl approve --help",
          ],
        ],
      ),
    ),
    "approve 41 --yes": ["--yes is for --remember", "see bxctl approve --help"],
    "refuse --all": ["--session and --all go together", "see bxctl refuse --help"],
    "refuse 41 --session s1": ["--session and --all go together", "see bxctl refuse --help"],
    "refuse 41 --session s1 --all": [
      "bxctl refuse takes no further argument 41",
      "see bxctl refuse --help",
    ],
    "grants revoke ../x": [
      "../x is not the GRANT, the name of its file without .toml",
      "see bxctl grants revoke --help",
    ],
    "approve 1 --reason x": ["bxctl approve takes no --reason", "see bxctl approve --help"],
    "approvals --say x": ["bxctl approvals takes no --say", "see bxctl approvals --help"],
    "approvals --json=yes": ["--json takes no value", "see bxctl --help"],
    "chat --say": ["--say needs a value: TEXT", "see bxctl --help"],
    "chat --say --json": ["--say needs a value", "if --json is it: --say=--json"],
    "chat --say=": ["--say: the text is empty", "see bxctl chat --help"],
    "chat --say a --say b": ["--say is given twice", "see bxctl --help"],
    "chat --session A": ["--session: A is not 1 to 64 of a-z, 0-9 and -", "see bxctl chat --help"],
    "chat --session=": ['--session: "" is not 1 to 64 of a-z, 0-9 and -', "see bxctl chat --help"],
    "audit log --since=": [
      '--since: "" is not YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS.mmmZ',
      "see bxctl audit log --help",
    ],
    "''": ['unknown command ""', "see bxctl --help"],
    "audit verify --expect 7": [`--expect: 7 ${form}`, "see bxctl audit verify --help"],
    [`audit verify --expect 9007199254740992:${HASH}`]: [
      `--expect: 9007199254740992:${HASH} ${form}`,
      "see bxctl audit verify --help",
    ],
    [`audit verify --expect 7:${HASH.toUpperCase()}`]: [
      `--expect: 7:${HASH.toUpperCase()} ${form}`,
      "see bxctl audit verify --help",
    ],
    "approvals --home notes": [
      "--home: notes is not an absolute path",
      "see bxctl approvals --help",
    ],
    "approvals --home=": ['--home: "" is not an absolute path', "see bxctl approvals --help"],
    "approvals --admin-socket /a,b": [
      "--admin-socket: /a,b has a comma in it, which Deno's permission flags cannot express",
      "see bxctl approvals --help",
    ],
    "approvals --config /../x": [
      "--config: /../x has a . or .. in it",
      "see bxctl approvals --help",
    ],
  };
  for (const [line, [problem, hint]] of Object.entries(cases)) {
    const read = readCommandLine(words(line));
    assert.deepEqual(read, { kind: "usage", problem, hint }, line);
  }
});

Deno.test("what was typed is escaped in the message", pure, () => {
  const read = readCommandLine(["\x1b[31mred", "--json"]);
  assert.equal(read.kind === "usage" && read.problem, "unknown command \\u001b[31mred");
  const option = readCommandLine(["chat", "--\u202eyas"]);
  assert.equal(option.kind === "usage" && option.problem, "unknown option --\\u202eyas");
});

Deno.test("a reason is at most 1 KiB, counted in bytes", pure, () => {
  const reason = "é".repeat(512);
  const whole = readCommandLine(["refuse", "1", "--reason", reason]);
  assert.ok(whole.kind === "run" && whole.command.name === "refuse");
  assert.equal(whole.command.reason, reason);
  const over = readCommandLine(["refuse", "1", "--reason", `${reason}!`]);
  assert.deepEqual(over, {
    kind: "usage",
    problem: "--reason: over 1024 bytes",
    hint: "see bxctl refuse --help",
  });
});
