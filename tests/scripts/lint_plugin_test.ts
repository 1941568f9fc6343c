/** The rules of the lint plugin, each on a source that breaks it and on one beside it that does not. */
import assert from "node:assert/strict";
import plugin, { PURE } from "../../scripts/lint_plugin.ts";
import { ROOT, TempDir } from "../support/scripts.ts";

/** What the plugin says of `source`, standing at `path` of the project. */
function lint(path: string, source: string): string[] {
  return Deno.lint.runPlugin(plugin, `${ROOT}/${path}`, source)
    .map(({ id, message }) => `${id.replace("boxmaker/", "")}: ${message}`);
}

const PURE_HEADER = "/** Something. Pure. */\n";

/** Each bad source with what is said of it, and the same act where it is allowed. */
type Case = readonly [
  bad: readonly [path: string, source: string],
  says: string,
  good: readonly [path: string, source: string],
];

const CASES: Readonly<Record<string, Case>> = {
  "loop does not import broker": [
    ["loop/turn.ts", 'import { decide } from "../broker/policy.ts";'],
    "imports: loop/ may not import broker/policy.ts",
    ["broker/pipeline.ts", 'import { decide } from "../broker/policy.ts";'],
  ],
  "nor its types": [
    ["loop/turn.ts", 'import type { Decision } from "../broker/policy.ts";'],
    "imports: loop/ may not import broker/policy.ts",
    ["broker/state.ts", 'import type { Decision } from "./policy.ts";'],
  ],
  "ctl imports of broker the decision, and nothing else": [
    ["ctl/why.ts", 'import { readState } from "../broker/state.ts";'],
    "imports: ctl/ may not import broker/state.ts",
    ["ctl/why.ts", 'import { explain } from "../broker/explain.ts";'],
  ],
  "not even what reads the grants for it": [
    ["ctl/grants_files.ts", 'import { grantReader } from "../broker/grants.ts";'],
    "imports: ctl/ may not import broker/grants.ts",
    ["ctl/grants_files.ts", 'import { readGrant } from "../broker/grant_rules.ts";'],
  ],
  "loop does not import the decision that ctl may": [
    ["loop/turn.ts", 'import { explain } from "../broker/explain.ts";'],
    "imports: loop/ may not import broker/explain.ts",
    ["ctl/why.ts", 'import { explain } from "../broker/explain.ts";'],
  ],
  "a file that is no code is part of the one file that writes it": [
    [
      "ctl/init.ts",
      'import u from "../docs/samples/systemd/user/a.service" with { type: "text" };',
    ],
    "imports: ctl/ may not import docs/samples/systemd/user/a.service",
    [
      "ctl/init_units.ts",
      '/** Pure. */ import u from "../docs/samples/systemd/user/a.service" with { type: "text" };',
    ],
  ],
  "and no other file is": [
    ["ctl/init_units.ts", '/** Pure. */ import u from "../docs/samples/bxctl.toml";'],
    "imports: ctl/ may not import docs/samples/bxctl.toml",
    ["ctl/init_units.ts", '/** Pure. */ import u from "../docs/samples/systemd/user/a.service";'],
  ],
  "proto neither": [
    ["proto/io/client.ts", 'import { explain } from "../../broker/explain.ts";'],
    "imports: proto/ may not import broker/explain.ts",
    ["ctl/why.ts", 'import { explain } from "../broker/explain.ts";'],
  ],
  "ctl does not import loop": [
    ["ctl/chat.ts", 'export * from "../loop/turn.ts";'],
    "imports: ctl/ may not import loop/turn.ts",
    ["ctl/chat.ts", 'export * from "./turn.ts";'],
  ],
  "nor loop ctl, by a re-export": [
    ["loop/chat.ts", 'export { ask } from "../ctl/ask.ts";'],
    "imports: loop/ may not import ctl/ask.ts",
    ["loop/chat.ts", 'export { ask } from "./ask.ts";'],
  ],
  "broker does not import loop, when it runs": [
    ["broker/serve.ts", 'await import("../loop/serve.ts");'],
    "imports: broker/ may not import loop/serve.ts",
    ["broker/serve.ts", 'await import("./state.ts");'],
  ],
  "an import that runs names its module": [
    ["broker/serve.ts", "const name = './state.ts'; await import(name);"],
    "imports: what is imported must be named by a literal",
    ["broker/serve.ts", 'await import("./state.ts");'],
  ],
  "a type's import counts": [
    ["ctl/chat.ts", 'let turn: import("../loop/turn.ts").Turn;'],
    "imports: ctl/ may not import loop/turn.ts",
    ["ctl/chat.ts", 'let turn: import("./turn.ts").Turn;'],
  ],
  "the programs do not import tests": [
    ["broker/serve.ts", 'import "../tests/support/broker.ts";'],
    "imports: broker/ may not import tests/support/broker.ts",
    ["tests/broker/serve_test.ts", 'import "../support/broker.ts";'],
  ],
  "nor scripts": [
    ["ctl/main.ts", 'import "../scripts/support/cli.ts";'],
    "imports: ctl/ may not import scripts/support/cli.ts",
    ["scripts/up.ts", 'import "./support/cli.ts";'],
  ],
  "proto imports no program": [
    ["proto/io/client.ts", 'import "../../ctl/io.ts";'],
    "imports: proto/ may not import ctl/io.ts",
    ["ctl/admin.ts", 'import "./io.ts";'],
  ],
  "pure proto does not import what reads and writes": [
    ["proto/frames.ts", PURE_HEADER + 'import { say } from "./io/log.ts";'],
    "imports: proto/frames.ts is pure and may not import proto/io/log.ts",
    ["proto/io/client.ts", 'import { say } from "./log.ts";'],
  ],
  "a pure file imports pure files": [
    ["broker/policy.ts", PURE_HEADER + 'import { read } from "./grants.ts";'],
    "imports: broker/policy.ts is pure and may not import broker/grants.ts",
    ["broker/policy.ts", PURE_HEADER + 'import { within } from "./paths.ts";'],
  ],
  "of others it may import types, of which nothing runs": [
    ["ctl/args.ts", PURE_HEADER + 'import { type CtlOverrides } from "./config.ts";'],
    "imports: ctl/args.ts is pure and may not import ctl/config.ts",
    ["ctl/args.ts", PURE_HEADER + 'import type { CtlOverrides } from "./config.ts";'],
  ],
  "a pure file imports no module that reads and writes": [
    ["loop/stream.ts", PURE_HEADER + 'import { readFileSync } from "node:fs";'],
    "imports: loop/stream.ts may not import node:fs",
    ["loop/session_log.ts", 'import { readFileSync } from "node:fs";'],
  ],
  "no file starts programs through Node": [
    ["broker/runner_podman.ts", 'import { spawn } from "node:child_process";'],
    "imports: broker/runner_podman.ts may not import node:child_process",
    ["tests/support/x.ts", 'import { spawn } from "node:child_process";'],
  ],
  "only the file that talks to the model server has node:http": [
    ["loop/llama.ts", 'import http from "node:http";'],
    "imports: loop/llama.ts may not import node:http",
    ["loop/transport.ts", 'import http from "node:http";'],
  ],
  "nothing comes from elsewhere": [
    ["ctl/main.ts", 'import "https://example.com/x.ts";'],
    "imports: ctl/main.ts may not import https://example.com/x.ts",
    ["ctl/main.ts", 'import "zod";'],
  ],
  "nor is what tests use imported": [
    ["proto/chain.ts", PURE_HEADER + 'import fc from "fast-check";'],
    "imports: proto/chain.ts may not import fast-check",
    ["proto/toml.ts", PURE_HEADER + 'import { parse } from "smol-toml";'],
  ],
  "a pure file names no Deno": [
    ["broker/paths.ts", PURE_HEADER + "Deno.readTextFileSync('/a');"],
    "pure: broker/paths.ts is pure and may not use Deno",
    ["broker/files.ts", "Deno.readTextFileSync('/a');"],
  ],
  "not even a type of it": [
    ["broker/paths.ts", PURE_HEADER + "export let file: Deno.FsFile;"],
    "pure: broker/paths.ts is pure and may not use Deno",
    ["broker/files.ts", "export let file: Deno.FsFile;"],
  ],
  "it has no clock": [
    ["proto/ids.ts", PURE_HEADER + "export const now = Date.now();"],
    "pure: proto/ids.ts is pure and may not use Date.now",
    ["proto/ids.ts", PURE_HEADER + "export const at = Date.parse('2026-12-01');"],
  ],
  "nor by the function itself": [
    ["loop/tools.ts", PURE_HEADER + "export const clock = { now: Date.now };"],
    "pure: loop/tools.ts is pure and may not use Date.now",
    ["loop/turn.ts", "export const clock = { now: Date.now };"],
  ],
  "nor by a date without arguments": [
    ["proto/ids.ts", PURE_HEADER + "export const now = new Date();"],
    "pure: proto/ids.ts is pure and may not use new Date()",
    ["proto/ids.ts", PURE_HEADER + "export const at = (ms: number) => new Date(ms);"],
  ],
  "nor by a call of Date": [
    ["proto/ids.ts", PURE_HEADER + "export const now = Date();"],
    "pure: proto/ids.ts is pure and may not use Date()",
    ["proto/io/log.ts", "export const now = Date();"],
  ],
  "it throws no dice": [
    ["ctl/ago.ts", PURE_HEADER + "export const dice = Math.random();"],
    "pure: ctl/ago.ts is pure and may not use Math.random",
    ["ctl/ago.ts", PURE_HEADER + "export const most = Math.max(1, 2);"],
  ],
  "nor through crypto": [
    ["ctl/ago.ts", PURE_HEADER + "export const id = crypto.randomUUID();"],
    "pure: ctl/ago.ts is pure and may not use crypto",
    ["ctl/ago.ts", PURE_HEADER + 'import { hash as crypto } from "node:crypto";'],
  ],
  "it does not wait": [
    ["broker/approvals.ts", PURE_HEADER + "setTimeout(() => {}, 1);"],
    "pure: broker/approvals.ts is pure and may not use setTimeout",
    ["broker/pipeline.ts", "setTimeout(() => {}, 1);"],
  ],
  "it does not fetch": [
    ["loop/stream.ts", PURE_HEADER + "export const get = { fetch };"],
    "pure: loop/stream.ts is pure and may not use fetch",
    ["loop/stream.ts", PURE_HEADER + "export const get = (o: { fetch(): void }) => o.fetch();"],
  ],
  "it reaches nothing through the global object": [
    ["loop/stream.ts", PURE_HEADER + "globalThis['De' + 'no'];"],
    "pure: loop/stream.ts is pure and may not use globalThis",
    ["loop/main.ts", "globalThis.addEventListener('error', () => {});"],
  ],
  "a file that says it is pure is listed": [
    ["broker/new.ts", PURE_HEADER],
    "pure: broker/new.ts says that it is pure, and scripts/lint_plugin.ts does not list it",
    ["broker/new.ts", "/** Something. */\nexport const word = 'Pure';"],
  ],
  "and one that is listed says so": [
    ["broker/policy.ts", "/** The decision. */\n/** Pure. */"],
    "pure: broker/policy.ts is pure, and its first comment does not say so",
    ["broker/policy.ts", "/** The decision. Pure. */"],
  ],
  "only a main.ts reads the command line": [
    ["ctl/chat.ts", "console.log(Deno.args);"],
    "authority: only a main.ts uses Deno.args",
    ["ctl/main.ts", "console.log(Deno.args);"],
  ],
  "or the environment": [
    ["proto/io/log.ts", "Deno.env.get('NO_COLOR');"],
    "authority: only a main.ts uses Deno.env",
    ["loop/main.ts", "Deno.env.get('BOXMAKER_HOME');"],
  ],
  "or ends the process": [
    ["broker/serve.ts", "Deno.exit(1);"],
    "authority: only a main.ts uses Deno.exit",
    ["broker/main.ts", "Deno.exit(1);"],
  ],
  "a main.ts elsewhere is none": [
    ["broker/sub/main.ts", "Deno.exit(1);"],
    "authority: only a main.ts uses Deno.exit",
    ["broker/main.ts", "Deno.exit(1);"],
  ],
  "the egress proxy has a main.ts of its own": [
    ["broker/egress/proxy.ts", "Deno.exit(1);"],
    "authority: only a main.ts uses Deno.exit",
    ["broker/egress/main.ts", "Deno.exit(1);"],
  ],
  "and a serve.ts": [
    ["broker/egress/proxy.ts", "Deno.listen({ transport: 'unix', path: '/a' });"],
    "authority: only proto/io/socket.ts and a serve.ts use Deno.listen",
    ["broker/egress/serve.ts", "Deno.listen({ transport: 'unix', path: '/a' });"],
  ],
  "only two files start programs": [
    ["broker/serve.ts", "new Deno.Command('/bin/sh');"],
    "authority: only broker/podman/container.ts and broker/egress/child.ts use Deno.Command",
    ["broker/podman/container.ts", "new Deno.Command('/bin/sh');"],
  ],
  "no other name for Deno hides that": [
    ["broker/serve.ts", "const { exit } = Deno;"],
    "authority: Deno is used as Deno.name, so that what is used can be seen",
    ["broker/serve.ts", "const { pid } = { pid: Deno.pid };"],
  ],
  "nor a computed one": [
    ["broker/serve.ts", "Deno['exit'](1);"],
    "authority: Deno is used as Deno.name, so that what is used can be seen",
    ["broker/serve.ts", "Deno.removeSync('/a');"],
  ],
  "nor one through the global object": [
    ["broker/serve.ts", "globalThis.Deno.exit(1);"],
    "authority: Deno is used as Deno.name, so that what is used can be seen",
    ["broker/serve.ts", "globalThis.addEventListener('error', () => {});"],
  ],
  "only a serve.ts and the file that makes sockets listen": [
    ["broker/broker.ts", "Deno.listen({ transport: 'unix', path: '/a' });"],
    "authority: only proto/io/socket.ts and a serve.ts use Deno.listen",
    ["proto/io/socket.ts", "Deno.listen({ transport: 'unix', path: '/a' });"],
  ],
  "whatever they listen with": [
    ["ctl/io.ts", "Deno.serve(() => new Response());"],
    "authority: only proto/io/socket.ts and a serve.ts use Deno.serve",
    ["loop/serve.ts", "Deno.serve(() => new Response());"],
  ],
  "only a serve.ts imports the function that does": [
    ["loop/chat.ts", 'import { listen } from "../proto/io/socket.ts";'],
    "authority: only a serve.ts imports listen of proto/io/socket.ts",
    ["loop/serve.ts", 'import { listen } from "../proto/io/socket.ts";'],
  ],
  "by whatever name": [
    ["loop/chat.ts", 'import { listen as open } from "../proto/io/socket.ts";'],
    "authority: only a serve.ts imports listen of proto/io/socket.ts",
    ["loop/chat.ts", 'import { isListening as open } from "../proto/io/socket.ts";'],
  ],
  "or with all the others": [
    ["loop/chat.ts", 'import * as socket from "../proto/io/socket.ts";'],
    "authority: only a serve.ts imports listen of proto/io/socket.ts",
    ["loop/serve.ts", 'import * as socket from "../proto/io/socket.ts";'],
  ],
  "or when it runs": [
    ["loop/chat.ts", 'await import("../proto/io/socket.ts");'],
    "authority: only a serve.ts imports listen of proto/io/socket.ts",
    ["loop/serve.ts", 'await import("../proto/io/socket.ts");'],
  ],
  "or by handing on all of it": [
    ["proto/io/server.ts", 'export * from "./socket.ts";'],
    "authority: only a serve.ts imports listen of proto/io/socket.ts",
    ["proto/io/server.ts", 'export * from "./connection.ts";'],
  ],
  "or as a re-export": [
    ["proto/io/server.ts", 'export { listen } from "./socket.ts";'],
    "authority: only a serve.ts imports listen of proto/io/socket.ts",
    ["proto/io/server.ts", 'export { isListening } from "./socket.ts";'],
  ],
};

for (const [name, [bad, says, good]] of Object.entries(CASES)) {
  Deno.test(`${name}`, () => {
    assert.ok(lint(...bad).includes(says), JSON.stringify(lint(...bad)));
    assert.deepEqual(lint(...good), []);
  });
}

Deno.test("tests and scripts are free, and so is what lies elsewhere", () => {
  const source = 'import "../broker/policy.ts"; Deno.exit(Deno.args.length); Deno.serve(() => {});';
  for (const path of ["tests/x_test.ts", "scripts/x.ts", "docs/samples/x.ts", "brokers/x.ts"]) {
    assert.deepEqual(lint(path, source), [], path);
  }
  assert.deepEqual(Deno.lint.runPlugin(plugin, "/elsewhere/loop/x.ts", source), []);
  assert.ok(lint("loop/x.ts", source).length > 1);
});

Deno.test("the files that are listed as pure exist", () => {
  for (const [folder, names] of Object.entries(PURE)) {
    for (const name of names) assert.ok(Deno.statSync(`${ROOT}/${folder}/${name}.ts`).isFile, name);
  }
});

Deno.test("deno lint of the project uses the plugin", async () => {
  using place = new TempDir();
  const files = {
    "deno.json": Deno.readTextFileSync(`${ROOT}/deno.json`),
    "scripts/lint_plugin.ts": Deno.readTextFileSync(`${ROOT}/scripts/lint_plugin.ts`),
    "loop/turn.ts": 'export { decide } from "../broker/policy.ts";\n',
  };
  for (const [name, content] of Object.entries(files)) place.write(name, content);
  const lint = () =>
    new Deno.Command(Deno.execPath(), { args: ["lint"], cwd: place.path, env: { NO_COLOR: "1" } })
      .output();
  const bad = await lint();
  assert.equal(bad.code, 1);
  assert.match(new TextDecoder().decode(bad.stderr), /error\[boxmaker\/imports\]/);
  place.write("loop/turn.ts", 'export { decide } from "./policy.ts";\n');
  assert.equal((await lint()).code, 0);
});
