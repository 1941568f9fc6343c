import assert from "node:assert/strict";
import {
  DATA_CLASSES,
  higherClass,
  isAbove,
  TOOL_ARGUMENTS,
  TOOL_NAMES,
} from "../../proto/tools.ts";

Deno.test("there are four tools", { permissions: "none" }, () => {
  assert.deepEqual(TOOL_NAMES, ["read_file", "write_file", "shell", "http_fetch"]);
  assert.deepEqual(Object.keys(TOOL_ARGUMENTS), TOOL_NAMES);
});

Deno.test("public is below private, private below secret", { permissions: "none" }, () => {
  const above: string[] = [];
  for (const a of DATA_CLASSES) {
    for (const b of DATA_CLASSES) {
      if (isAbove(a, b)) above.push(`${a} > ${b}`);
      assert.equal(higherClass(a, b), isAbove(b, a) ? b : a);
      assert.equal(higherClass(a, b), higherClass(b, a));
    }
  }
  assert.deepEqual(above, ["private > public", "secret > public", "secret > private"]);
});

const GOOD = [
  ["read_file", { path: "/n/a" }],
  ["write_file", { path: "/n/a", content: "" }],
  ["shell", { command: "ls" }],
  ["shell", { command: "ls", cwd: "/n" }],
  ["http_fetch", { url: "https://www.example.com/" }],
] as const;

const BAD = [
  ["read_file", {}, "no path"],
  ["read_file", { path: 1 }, "a number"],
  ["read_file", { path: null }, "null"],
  ["read_file", { path: "/n/\ud800" }, "a lone surrogate"],
  ["read_file", { path: "/n/a", content: "" }, "a key of another tool"],
  ["write_file", { path: "/n/a" }, "no content"],
  ["write_file", { content: "" }, "no path"],
  ["shell", { cwd: "/n" }, "no command"],
  ["shell", { command: "ls", cwd: null }, "cwd: null"],
  ["shell", { command: ["ls"] }, "a list"],
  ["http_fetch", { url: "https://www.example.com/", method: "GET" }, "an unknown key"],
  ["http_fetch", { URL: "https://www.example.com/" }, "a key in another case"],
  ["http_fetch", [], "a list for an object"],
  ["http_fetch", null, "null for an object"],
  ["http_fetch", "https://www.example.com/", "text for an object"],
] as const;

Deno.test("each tool takes its own arguments and no others", { permissions: "none" }, () => {
  for (const [tool, value] of GOOD) {
    assert.deepEqual(TOOL_ARGUMENTS[tool].parse(value), value);
  }
  for (const [tool, value, what] of BAD) {
    assert.ok(!TOOL_ARGUMENTS[tool].safeParse(value).success, `${tool}: ${what}`);
  }
  const proto: unknown = JSON.parse('{"path":"/n/a","__proto__":{}}');
  assert.ok(!TOOL_ARGUMENTS.read_file.safeParse(proto).success, "__proto__");
});
