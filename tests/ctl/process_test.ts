/** The program as its owner starts it: exit statuses, streams and locks. */
import { ctlFlagsOf } from "../../scripts/support/roles.ts";
import assert from "node:assert/strict";
import { helpText } from "../../ctl/help.ts";
import { DENO_VERSION } from "../../proto/io/start.ts";
import { forEach, within } from "../support/broker.ts";
import { CtlHome, flagsFor, runCtl, type RunOptions, startCtl } from "../support/ctl.ts";
import { decided, DecidedHome } from "../support/decided_log.ts";
import { denied } from "../../proto/decisions.ts";
import { FakeBroker, pending } from "../support/daemons.ts";

interface Case extends RunOptions {
  readonly args: readonly string[];
  readonly code: number;
  readonly stdout?: string | RegExp;
  readonly stderr?: string | RegExp;
}

/** Runs each case; what is not named must be empty. No case may end in a stack trace. */
async function check(home: string, cases: Readonly<Record<string, Case>>): Promise<void> {
  await forEach(cases, async ({ args, code, stdout = "", stderr = "", ...options }) => {
    const ran = await runCtl(home, args, options);
    const said = JSON.stringify(ran, null, 1);
    assert.equal(ran.code, code, said);
    for (const [found, expected] of [[ran.stdout, stdout], [ran.stderr, stderr]] as const) {
      if (typeof expected === "string") assert.equal(found, expected, said);
      else assert.match(found, expected, said);
    }
    assert.doesNotMatch(ran.stderr, /^\s+at |Uncaught/m);
  });
}

Deno.test("help, the version and wrong usage have their streams and exit statuses", async () => {
  using home = new CtlHome();
  await check(home.layout.home, {
    "nothing": { args: [], code: 2, stdout: helpText(null) },
    "help": { args: ["--help"], code: 0, stdout: helpText(null) },
    "help of a command": { args: ["approve", "--help"], code: 0, stdout: helpText("approve") },
    "version": { args: ["--version"], code: 0, stdout: `bxctl m3a (deno ${DENO_VERSION})\n` },
    "wrong usage": {
      args: ["approve", "\x1b[2J"],
      code: 2,
      stderr: "bxctl: \\u001b[2J is not the ID of an approval\nbxctl: see bxctl approve --help\n",
    },
  });
});

Deno.test("a daemon that is not running is told with how to start it", async () => {
  using home = new CtlHome();
  const { adminSocket, loopSocket } = home.layout;
  const broker = `bxctl: brokerd is not running: nobody listens on ${adminSocket}\n` +
    "bxctl: start it with `brokerd serve`, or from the sources with `deno task broker`; " +
    "see docs/runbook.md#broker-unavailable\n";
  const loop = `bxctl: loopd is not running: nobody listens on ${loopSocket}\n` +
    "bxctl: start it with `loopd serve`, or from the sources with `deno task loop`; " +
    "see docs/runbook.md#loopd-unavailable\n";
  await check(home.layout.home, {
    "approvals": { args: ["approvals"], code: 1, stderr: broker },
    "grants check": { args: ["grants", "check"], code: 1, stderr: broker },
    "chat --say": { args: ["chat", "--say", "hello"], code: 1, stderr: loop },
    "chat": { args: ["chat"], stdin: "hello\nhello\n", code: 1, stderr: loop },
    "json": {
      args: ["approve", "41", "--json"],
      code: 1,
      stdout: /^\{"error":\{"code":"unreachable","message":"brokerd is not running: /,
      stderr: broker,
    },
  });
});

Deno.test("a configuration that cannot be used is refused", async () => {
  using home = new CtlHome();
  using _broker = new FakeBroker(home.layout.adminSocket);
  const file = `${home.root}/bxctl.toml`;
  const other = new CtlHome();
  const flags = flagsFor(home.layout.home).map((flag) =>
    flag.replace("--allow-read=", `--allow-read=${file},`)
  );
  const named = ["approvals", "--config", file];
  const pointer = "bxctl: see docs/runbook.md#config-invalid\n";
  await check(home.layout.home, {
    "missing": { args: named, flags, code: 1, stderr: `bxctl: ${file}: no such file\n${pointer}` },
    "not among what may be read": {
      args: named,
      code: 1,
      stderr: "bxctl: started without leave to read its configuration\n" +
        "bxctl: start bxctl with the flags that `deno task permissions bxctl` prints; " +
        "see docs/runbook.md#permissions-too-wide\n",
    },
    "a home that cannot be": {
      args: ["approvals"],
      env: { BOXMAKER_HOME: "notes" },
      code: 1,
      stderr: `bxctl: home: notes is not an absolute path\n${pointer}`,
    },
  });
  Deno.writeTextFileSync(file, `[paths]\nhome = "/nowhere"\nhouse = "\x7f"\n`);
  await check(home.layout.home, {
    "not TOML": { args: named, flags, code: 1, stderr: /bxctl\.toml:3: not valid TOML/ },
  });
  Deno.writeTextFileSync(file, `[paths]\nhome = "/nowhere"\nhouse = ""\n`);
  await check(home.layout.home, {
    "an unknown key": {
      args: named,
      flags,
      code: 1,
      stderr: `bxctl: ${file}:3: unknown key paths.house\n${pointer}`,
    },
  });
  // The command line wins over the file, and the file over the environment.
  Deno.writeTextFileSync(file, `[paths]\nhome = "${home.layout.home}"\n`);
  const env = { BOXMAKER_HOME: other.layout.home };
  const none = "no approvals are pending\n";
  await check(home.layout.home, {
    "the file": { args: named, flags, env, code: 0, stdout: none },
    "--home": {
      args: ["approvals", "--home", home.layout.home],
      env,
      code: 0,
      stdout: none,
    },
    "--admin-socket": {
      args: ["approvals", "--admin-socket", home.layout.adminSocket],
      env: { BOXMAKER_HOME: home.layout.home },
      code: 0,
      stdout: none,
    },
  });
  other[Symbol.dispose]();
});

Deno.test("bxctl that may do more than its row refuses to run, and less is told", async () => {
  using home = new CtlHome();
  using _broker = new FakeBroker(home.layout.adminSocket);
  const flags = flagsFor(home.layout.home);
  const args = ["approvals"];
  const wide = (what: string) =>
    `bxctl: this process may ${what}, which it must not\n` +
    "bxctl: see docs/runbook.md#permissions-too-wide\n";
  const without = (start: string) => flags.filter((flag) => !flag.startsWith(start));
  const only = (start: string, list: string) => [...without(start), `${start}=${list}`];
  const { adminSocket, loopSocket, brokerSocket } = home.layout;
  const anchor = "see docs/runbook.md#broker-unavailable\n";
  await check(home.layout.home, {
    "its row": { args, flags, code: 0, stdout: "no approvals are pending\n" },
    "programs": { args, flags: [...flags, "--allow-run"], code: 1, stderr: wide("run programs") },
    "broker.sock": {
      args,
      flags: only(
        "--allow-net",
        [adminSocket, loopSocket, brokerSocket].map((path) => `unix:${path}`).join(","),
      ),
      code: 1,
      stderr: wide(`connect to unix:${brokerSocket}`),
    },
    "remote code": {
      args,
      flags: without("--deny-import"),
      code: 1,
      stderr: wide("import remote code"),
    },
    "no socket": {
      args,
      flags: without("--allow-net"),
      code: 1,
      stderr: `bxctl: started without leave to use ${adminSocket}\n` +
        `bxctl: start bxctl with the flags that \`deno task permissions bxctl\` prints; ${anchor}`,
    },
    "no environment": {
      args,
      flags: without("--allow-env"),
      code: 1,
      stderr: /^bxctl: started without leave to read the variable BOXMAKER_HOME\n/,
    },
    "no audit directory": {
      args: ["audit", "verify"],
      flags: only("--allow-read", `${adminSocket},${loopSocket},/etc/boxmaker/bxctl.toml`),
      code: 1,
      stderr: /^bxctl: started without leave to read .*\/audit/,
    },
  });
});

Deno.test("a command that reads the grants may, and no other one", async () => {
  using home = new DecidedHome({ a: { mode: "deny", constraints: { paths: ["/n"] } } });
  using _broker = new FakeBroker(home.layout.adminSocket);
  home.log.add(decided(denied("denied_by_grant"), null));
  home.write();
  const others = home.grantsAt(`${home.root}/others`, { b: { constraints: { paths: ["/n"] } } });
  const usual = flagsFor(home.layout.home);
  const why = ["why", "0"];
  const grantsCheck = ["grants", "check"];
  const replay = ["grants", "replay", "--grants", others];
  const call = ["--tool", "read_file", "--arguments", '{"path":"/n"}'];
  const test = ["grants", "test", ...call];
  const wide = (what: string) =>
    `bxctl: this process may read ${what}, which it must not\n` +
    "bxctl: see docs/runbook.md#permissions-too-wide\n";
  const { grants } = home.layout;
  const missing = (directory: string) =>
    `bxctl: started without leave to read the grants in ${directory}\n` +
    "bxctl: start bxctl with the flags that `deno task permissions bxctl --with-grants` prints; " +
    "see docs/runbook.md#permissions-too-wide\n";
  const elsewhere = flagsFor(home.layout.home, replay);
  await check(home.layout.home, {
    "why": { args: why, code: 0, stdout: /\n {2}a\.toml:2: decides: mode deny, / },
    "why, without": { args: why, flags: usual, code: 1, stderr: missing(grants) },
    "grants test": { args: test, code: 0, stdout: /\ndenied \(denied_by_grant\): / },
    "grants test, without": { args: test, flags: usual, code: 1, stderr: missing(grants) },
    "grants test elsewhere": {
      args: [...test, "--grants", others],
      code: 0,
      stdout: /\nallowed: grant b lets it run\n/,
    },
    "grants replay": {
      args: replay,
      code: 0,
      stdout: /\ngrant b: 1\n {2}0 .* denied \(denied_by_grant\) -> allowed by b\n/,
    },
    "grants replay, without": { args: replay, flags: usual, code: 1, stderr: missing(others) },
    "grants check": { args: grantsCheck, code: 0, stdout: "grants: ok\n" },
    "grants check, as the launcher starts it": {
      args: grantsCheck,
      flags: ctlFlagsOf(grantsCheck, home.layout.home) ?? [],
      code: 0,
      stdout: /^grants: ok\na\.toml:\d+: warning: its path "\/n" does not exist\n$/,
    },
    "grants check, without": {
      args: grantsCheck,
      flags: usual,
      code: 0,
      stdout: "grants: ok\n",
      stderr: /^bxctl: no warnings: the grants in .* could not be used: started without leave /,
    },
    "another command with the usual flags": {
      args: ["approvals"],
      code: 0,
      stdout: "no approvals are pending\n",
    },
    "another command with the grants": {
      args: ["approvals"],
      flags: flagsFor(home.layout.home, why),
      code: 1,
      stderr: wide(grants),
    },
    "the verifier with the grants": {
      args: ["audit", "verify"],
      flags: flagsFor(home.layout.home, why),
      code: 1,
      stderr: wide(grants),
    },
    "a replay that could read the grants in force too": {
      args: replay,
      flags: elsewhere.map((flag) => flag.replace("--allow-read=", `--allow-read=${grants},`)),
      code: 1,
      stderr: wide(grants),
    },
    "the home as grants": {
      args: [...test, "--grants", home.layout.home],
      flags: usual,
      code: 1,
      stderr: `bxctl: grants: ${home.layout.home} is not a directory of grants alone\n` +
        "bxctl: see docs/runbook.md#config-invalid\n",
    },
    "another role's place as grants": {
      args: [...test, "--grants", `${home.layout.loop}//sessions`],
      flags: usual,
      code: 1,
      stderr: `bxctl: grants: ${home.layout.loop}//sessions is not a directory of grants alone\n` +
        "bxctl: see docs/runbook.md#config-invalid\n",
    },
  });
});

Deno.test("nobody to read the answer is no cause for a stack trace", async () => {
  using home = new CtlHome();
  using broker = new FakeBroker(home.layout.adminSocket);
  broker.items = [pending({ arguments: "x".repeat(900_000) })];
  const child = startCtl(home.layout.home, ["approvals", "show", "41"]);
  const stderr = new Response(child.stderr).text();
  await child.stdin.close();
  await child.stdout.cancel();
  const { code } = await within("end of bxctl", child.status);
  assert.deepEqual([code, await stderr], [1, ""]);
});

Deno.test("what approvals prints is the same on its way through the program", async () => {
  using home = new CtlHome();
  using broker = new FakeBroker(home.layout.adminSocket);
  const now = Date.now();
  broker.items = [
    pending({
      arguments: '{"command":"\x1b[2J\u202e"}',
      created: new Date(now - 120_000).toISOString(),
      expires: new Date(now + 780_000).toISOString(),
    }),
  ];
  await check(home.layout.home, {
    "approvals": {
      args: ["approvals"],
      code: 0,
      stdout:
        "41  2 min ago  expires in 13 min  session chat-1  grant shell-scratch  taint private\n" +
        '    shell {"command":"\\u001b[2J\\u202e"}\n',
    },
    "approvals show": {
      args: ["approvals", "show", "42"],
      code: 1,
      stderr: "bxctl: no approval 42 is pending\n" +
        "bxctl: it was answered, or expired, or its call went away; see bxctl approvals\n",
    },
  });
  await check(home.layout.home, {
    "refuse": { args: ["refuse", "41", "--reason", "no"], code: 0, stdout: "refused 41\n" },
  });
  assert.deepEqual(broker.answers.map(({ body }) => body), [{ approval: 41, reason: "no" }]);
});
