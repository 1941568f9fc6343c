/** Arguments as the model wrote them (specification 3; contracts 3 and 8): the vectors, and what they leave out. */
import assert from "node:assert/strict";
import { parseArguments } from "../../broker/args.ts";
import { decide } from "../../broker/policy.ts";
import type { DecisionRecord } from "../../proto/decisions.ts";
import { TOOL_NAMES, ToolName } from "../../proto/tools.ts";
import cases from "../../fixtures/vectors/arguments.json" with { type: "json" };
import { grantSet } from "../support/grants.ts";

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

/** Grants that cover every valid call. */
const EVERYTHING = grantSet({
  read: { tool: "read_file", constraints: { paths: ["/"] } },
  write: { tool: "write_file", constraints: { paths: ["/"] } },
  shell: { tool: "shell" },
  "shell-in": { tool: "shell", constraints: { paths: ["/"] } },
  fetch: { tool: "http_fetch", constraints: { hosts: ["*.example.com"] } },
});

function outcomeOf(tool: string, text: string): DecisionRecord {
  const state = { taint: "private", untrusted: false } as const;
  const now = "2026-12-01T10:00:00.000Z";
  return decide({ now, grants: EVERYTHING, state, tool, arguments: text }).toRecord();
}

for (const { name, tool, arguments: text, expect } of cases) {
  pure(`arguments: ${name}: ${expect}`, () => {
    const known = ToolName.safeParse(tool);
    switch (expect) {
      case "valid":
        assert.deepEqual(outcomeOf(tool, text), { outcome: "allowed" });
        assert.ok(known.success);
        assert.deepEqual(parseArguments(known.data, text), { tool, ...JSON.parse(text) });
        break;
      case "invalid_arguments":
        assert.deepEqual(outcomeOf(tool, text), { outcome: "denied", reason: expect });
        assert.ok(known.success);
        assert.equal(parseArguments(known.data, text), null);
        break;
      case "no_grant":
        assert.deepEqual(outcomeOf(tool, text), { outcome: "denied", reason: expect });
        assert.ok(!known.success);
        break;
      default:
        assert.fail(`an expectation that is not known: ${expect}`);
    }
  });
}

/** For each tool, arguments with every field that it takes. */
const FULL = {
  read_file: { path: "/n/a" },
  write_file: { path: "/n/a", content: "x" },
  shell: { command: "ls", cwd: "/n" },
  http_fetch: { url: "https://www.example.com/" },
} as const satisfies Record<ToolName, Record<string, string>>;
const OPTIONAL = ["cwd"];

pure("every field is needed but cwd, is text, and no other is taken", () => {
  for (const tool of TOOL_NAMES) {
    const full = Object.entries(FULL[tool]);
    const parse = (fields: unknown) => parseArguments(tool, JSON.stringify(fields));
    assert.deepEqual(parse(FULL[tool]), { tool, ...FULL[tool] });
    assert.equal(parse({ ...FULL[tool], tool }), null, `${tool}: the name of the tool`);
    assert.equal(parse({ ...FULL[tool], "": "" }), null, `${tool}: an empty name`);
    for (const [field] of full) {
      const without = Object.fromEntries(full.filter(([name]) => name !== field));
      assert.equal(parse(without) !== null, OPTIONAL.includes(field), `${tool} without ${field}`);
      for (const value of [null, 1, true, [], {}, ["/n/a"]]) {
        const what = `${tool}: ${field} is ${JSON.stringify(value)}`;
        assert.equal(parse({ ...FULL[tool], [field]: value }), null, what);
      }
    }
  }
});

pure("a path or URL of bad form is invalid in every tool that takes one", () => {
  const parse = (tool: ToolName, fields: unknown) => parseArguments(tool, JSON.stringify(fields));
  assert.equal(parse("read_file", { path: "/n/../a" }), null);
  assert.equal(parse("write_file", { path: "/n/../a", content: "" }), null);
  assert.equal(parse("shell", { command: "ls", cwd: "/n/../a" }), null);
  assert.equal(parse("http_fetch", { url: "https://127.0.0.1/" }), null);
  assert.notEqual(parse("read_file", { path: "/n/..a" }), null);
  assert.notEqual(parse("write_file", { path: "/n/..a", content: "" }), null);
  assert.notEqual(parse("shell", { command: "ls", cwd: "/n/..a" }), null);
  assert.notEqual(parse("http_fetch", { url: "https://127.0.0.1.example.com/" }), null);
});

pure("a duplicate key is invalid however it is written, a repeated value is not", () => {
  const content = (text: string) =>
    parseArguments("write_file", `{"path":"/n/a","content":${text}}`);
  assert.notEqual(content('"/n/a"'), null);
  assert.equal(content('"x","content":"x"'), null);
  assert.equal(content('"x","\\u0063ontent":"x"'), null);
  assert.notEqual(content('"\\",\\"content\\":\\"x"'), null, "a key within a text is text");
});

pure("no text of up to one frame is anything but read or refused", () => {
  const deep = "[".repeat(200_000) + "]".repeat(200_000);
  assert.equal(parseArguments("read_file", `{"path":${deep}}`), null);
  assert.equal(parseArguments("read_file", "[".repeat(1_000_000)), null);
  const escapes = "\\n".repeat(400_000);
  const args = parseArguments("write_file", `{"path":"/n/a","content":"${escapes}"}`);
  assert.equal(args?.tool === "write_file" && args.content.length, 400_000);
  const keys = Array.from({ length: 50_000 }, (_, n) => `"k${n}":0`).join(",");
  assert.equal(parseArguments("read_file", `{"path":"/n/a",${keys}}`), null);
});

pure("command and content are taken as they are", () => {
  for (const text of ["", " ", "\0", "rm -rf /", "$(id)\n\r\t", "\u202e\u200b", "😀", "../.."]) {
    assert.deepEqual(parseArguments("shell", JSON.stringify({ command: text })), {
      tool: "shell",
      command: text,
    });
    assert.deepEqual(
      parseArguments("write_file", JSON.stringify({ path: "/n/a", content: text })),
      { tool: "write_file", path: "/n/a", content: text },
    );
  }
});

pure("more brackets than any arguments have are refused, and in a string they are content", () => {
  const brackets = "[".repeat(500_000);
  const write = (content: string) => `{"path":"/n/a","content":${content}}`;
  const invalid = { outcome: "denied", reason: "invalid_arguments" };
  // Valid JSON, of the wrong type. That it is not read saves a second, which no test can show.
  assert.deepEqual(outcomeOf("write_file", write(brackets + "]".repeat(500_000))), invalid);
  assert.deepEqual(outcomeOf("write_file", write(`"${brackets}{,"`)), { outcome: "allowed" });
  assert.deepEqual(outcomeOf("write_file", write('"\\"[,{\\\\"')), { outcome: "allowed" });
});
