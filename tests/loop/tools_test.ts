/** The core tools, and the registry of the others (specification 8). */
import assert from "node:assert/strict";
import { DISCOVERABLE, MODEL_TOOLS, readCall } from "../../loop/tools.ts";
import { TOOL_ARGUMENTS, TOOL_NAMES } from "../../proto/tools.ts";

const NOW = "2026-12-01T10:00:00.000Z";

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

/** A call that is answered without the broker: its status and content. */
function answer(name: string, given: string): string {
  const use = readCall(name, given, NOW);
  assert(use.kind === "answered", JSON.stringify(use));
  assert.equal(use.tool, name);
  assert.equal(use.arguments, given);
  return `${use.status}: ${use.content}`;
}

pure("the model is given the three core tools, in the form of the OpenAI API", () => {
  assert.deepEqual(
    MODEL_TOOLS.map(({ type, function: { name } }) => `${type} ${name}`),
    ["function clock", "function find_tool", "function call_tool"],
  );
  for (const { function: { description, parameters } } of MODEL_TOOLS) {
    assert.notEqual(description, "");
    assert.equal(parameters.type, "object");
    assert(!("$schema" in parameters));
  }
  // llama.cpp makes a grammar of a schema, and this is the one that lets any object be written.
  const parameters = JSON.stringify(MODEL_TOOLS[2]?.function.parameters);
  assert(parameters.includes('"arguments":{"type":"object","description":'), parameters);
});

pure("the registry has the four tools with the arguments that the broker takes", () => {
  assert.deepEqual(DISCOVERABLE.map(({ name }) => name), [...TOOL_NAMES]);
  const shapes = DISCOVERABLE.map(({ name, parameters: { required, properties, ...more } }) => ({
    name,
    required,
    properties: Object.keys(Object(properties)),
    additional: more.additionalProperties,
  }));
  const additional = false;
  assert.deepEqual(shapes, [
    { name: "read_file", required: ["path"], properties: ["path"], additional },
    {
      name: "write_file",
      required: ["path", "content"],
      properties: ["path", "content"],
      additional,
    },
    { name: "shell", required: ["command"], properties: ["command", "cwd"], additional },
    { name: "http_fetch", required: ["url"], properties: ["url"], additional },
  ]);
  for (const name of TOOL_NAMES) assert(TOOL_ARGUMENTS[name].description);
});

pure("clock answers the time in UTC, whatever it is given", () => {
  for (const given of ["{}", "", " ", '{"zone":"local"}']) {
    assert.equal(answer("clock", given), `result: ${NOW}`);
  }
});

pure("find_tool gives what matches a word, and everything when nothing does", () => {
  const found = (given: string) => {
    const text = answer("find_tool", given);
    assert(text.startsWith("result: "), text);
    const tools: { name: string; parameters: unknown }[] = JSON.parse(
      text.slice("result: ".length),
    );
    for (const { parameters } of tools) assert.notEqual(parameters, undefined);
    return tools.map(({ name }) => name);
  };
  const all = [...TOOL_NAMES];
  assert.deepEqual(found('{"query":"https"}'), ["http_fetch"]);
  assert.deepEqual(found('{"query":"SHELL command"}'), ["shell"]);
  assert.deepEqual(found('{"query":"file"}'), ["read_file", "write_file"]);
  assert.deepEqual(found('{"query":"read_file"}'), ["read_file"]);
  assert.deepEqual(found('{"query":"telephone"}'), all);
  assert.deepEqual(found('{"query":""}'), all);
  assert.deepEqual(found('{"query":" .*("}'), all);
  assert.deepEqual(found("{}"), all);
  assert.equal(
    answer("find_tool", '{"query":7}'),
    'failed: find_tool takes {"query": "words to look for"}',
  );
});

pure("call_tool passes one of the four on, with arguments as an object or as JSON text", () => {
  const passed = (given: unknown) => {
    const use = readCall("call_tool", JSON.stringify(given), NOW);
    return use.kind === "broker" ? [use.tool, use.arguments] : use.content;
  };
  for (const tool of TOOL_NAMES) {
    assert.deepEqual(passed({ tool, arguments: { a: ["é", null] } }), [tool, '{"a":["é",null]}']);
  }
  assert.deepEqual(passed({ tool: "shell", arguments: ' {"x" : 1, "x": 2}' }), [
    "shell",
    ' {"x" : 1, "x": 2}',
  ]);
  assert.deepEqual(passed({ tool: "shell", arguments: "" }), ["shell", ""]);
  const proto = readCall("call_tool", '{"tool":"shell","arguments":{"__proto__":1}}', NOW);
  assert.equal(proto.arguments, '{"__proto__":1}', "nothing is dropped on the way");
});

pure("what call_tool cannot use is told to the model", () => {
  const usage = 'failed: call_tool takes {"tool": "name", "arguments": {…}} and nothing else';
  for (
    const given of [
      "{}",
      '{"tool":"shell"}',
      '{"arguments":{}}',
      '{"tool":7,"arguments":{}}',
      '{"tool":"shell","arguments":[]}',
      '{"tool":"shell","arguments":null}',
      '{"tool":"shell","arguments":{},"command":"ls"}',
      '{"tool":"shell","arguments":{},"__proto__":{}}',
    ]
  ) {
    assert.equal(answer("call_tool", given), usage, given);
  }
  assert.equal(
    answer("call_tool", '{"tool":"rm\\u0000","arguments":{}}'),
    "failed: no such tool: rm\0; find_tool lists read_file, write_file, shell, http_fetch",
  );
  assert.match(
    answer("call_tool", JSON.stringify({ tool: "x".repeat(9999), arguments: {} })),
    /^failed: no such tool: x{100}… 9899 more characters; /,
  );
});

pure("arguments that are not one JSON object, or not strictly, are told to the model", () => {
  for (
    const given of [
      "{",
      "[]",
      "null",
      "7",
      '"text"',
      '{"query":"a","query":"b"}',
      '{"tool":"shell","arguments":{"cwd":"/a","cwd":"/b"}}',
      '{"query":"\\ud800"}',
      "{} {}",
      "[".repeat(4000),
    ]
  ) {
    for (const name of ["clock", "find_tool", "call_tool"]) {
      const expected = "failed: the arguments are not one JSON object without repeated keys";
      assert.equal(answer(name, given), expected, given.slice(0, 50));
    }
  }
});

pure("arguments over 1 MiB are not read, whatever the tool; shorter ones are", () => {
  // Four million escapes are more than a regular expression of the runtime takes.
  const whole = (size: number) => `{"query":"${"\\n".repeat(size / 2)}"}`;
  for (const name of ["clock", "find_tool", "call_tool"]) {
    const expected = "failed: the call is too large: with its arguments it is at most 1 MiB";
    for (const size of [1024 * 1024, 8_000_000]) assert.equal(answer(name, whole(size)), expected);
  }
  assert.match(answer("find_tool", whole(1_000_000)), /^result: /);
});

pure("a nesting is passed on or, where it would take long to read, told", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  const given = (depth: number) => `{"tool":"shell","arguments":{"a":${nested(depth)}}}`;
  const use = readCall("call_tool", given(4000), NOW);
  assert.equal(use.kind, "broker");
  assert.equal(use.arguments, `{"a":${nested(4000)}}`);
  for (const depth of [4100, 200_000]) {
    assert.equal(
      answer("call_tool", given(depth)),
      "failed: the arguments have more brackets and commas than any tool takes",
    );
  }
});

pure("a function that is none of the three is no such tool, or is called through call_tool", () => {
  const three = "clock, find_tool, call_tool";
  assert.equal(answer("python", "{}"), `failed: no such tool: python; there are ${three}`);
  assert.equal(answer("", ""), `failed: no such tool: ; there are ${three}`);
  for (const name of ["toString", "__proto__", "constructor"]) {
    assert.equal(answer(name, "{}"), `failed: no such tool: ${name}; there are ${three}`);
  }
  assert.equal(
    answer("shell", '{"command":"ls"}'),
    'failed: shell is called through call_tool: {"tool": "shell", "arguments": {…}}',
  );
});
