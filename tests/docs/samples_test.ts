/** The samples of docs/samples/ are what the real readers take. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { readBrokerConfig } from "../../broker/config.ts";
import { type LoadedGrant, readGrant } from "../../broker/grant_rules.ts";
import { decide, redecide } from "../../broker/policy.ts";
import { readCtlConfig } from "../../ctl/config.ts";
import { readLoopConfig } from "../../loop/config.ts";
import { PROJECT } from "../support/docs.ts";

const samples = new URL("docs/samples/", PROJECT);
const file = (name: string) => fileURLToPath(new URL(name, samples));

Deno.test("the sample configurations are read, and fit each other", () => {
  const broker = readBrokerConfig(file("brokerd.toml"), undefined);
  const loop = readLoopConfig(file("loopd.toml"), undefined);
  const ctl = readCtlConfig({ config: file("bxctl.toml") }, undefined);
  assert.equal(loop.brokerSocket, broker.brokerSocket);
  assert.equal(ctl.adminSocket, broker.adminSocket);
  assert.equal(ctl.loopSocket, loop.loopSocket);
  assert.equal(ctl.grants, broker.grants);
  for (const { layout } of [broker, loop, ctl]) assert.deepEqual(layout, broker.layout);
});

function sampleGrants(): LoadedGrant[] {
  const directory = new URL("grants/", samples);
  return [...Deno.readDirSync(directory)].filter(({ name }) => name.endsWith(".toml")).map(
    ({ name }) => {
      const grant = readGrant(name, Deno.readFileSync(new URL(name, directory)));
      assert.ok(!Array.isArray(grant), JSON.stringify(grant));
      return grant;
    },
  );
}

Deno.test("the sample grants are valid, of every tool and every mode", () => {
  const grants = sampleGrants();
  const tools = new Set(grants.map(({ tool }) => tool));
  assert.deepEqual([...tools].sort(), ["http_fetch", "read_file", "shell", "write_file"]);
  assert.deepEqual([...new Set(grants.map(({ mode }) => mode))].sort(), ["ask", "auto", "deny"]);
});

Deno.test("the sample grants decide what their comments say", () => {
  const call = (tool: string, args: unknown, taint: "private" | "secret" = "private") => ({
    now: "2026-12-01T10:00:00.000Z",
    grants: { ok: true, grants: sampleGrants() } as const,
    state: { taint, untrusted: false },
    tool,
    arguments: JSON.stringify(args),
  });
  const outcome = (...args: Parameters<typeof call>) => {
    const record = decide(call(...args)).toRecord();
    return record.outcome === "denied" ? record.reason : record.outcome;
  };
  const notes = { path: "/home/kyle/notes/a.md" };
  assert.equal(outcome("read_file", notes), "allowed");
  assert.equal(outcome("read_file", notes, "secret"), "taint_too_high");
  assert.equal(outcome("read_file", { path: "/home/kyle/notes/keys/id" }), "denied_by_grant");
  assert.equal(outcome("read_file", { path: "/home/kyle/.ssh/id" }, "secret"), "denied_by_grant");
  assert.equal(outcome("read_file", { path: "/home/kyle/journal/1.md" }, "secret"), "ask");
  const draft = { path: "/home/kyle/drafts/a.md", content: "" };
  assert.equal(outcome("write_file", draft), "allowed");
  assert.equal(outcome("write_file", { ...draft, path: "/home/kyle/drafts" }), "no_grant");
  assert.equal(outcome("shell", { command: "ls", cwd: "/home/kyle/scratch" }), "ask");
  assert.equal(outcome("shell", { command: "ls" }), "no_grant");
  assert.equal(outcome("http_fetch", { url: "https://de.wikipedia.org/wiki/Milch" }), "ask");
  assert.equal(outcome("http_fetch", { url: "https://wikipedia.org/" }), "no_grant");
  assert.ok(redecide(call("shell", { command: "ls", cwd: "/home/kyle/scratch" })).mayRun);
});
