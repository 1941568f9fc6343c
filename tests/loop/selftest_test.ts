/** The self-test of the model server: it answers, and it runs no tools of its own. */
import assert from "node:assert/strict";
import { ModelServer } from "../../loop/llama.ts";
import { type SelfTest, selfTest } from "../../loop/selftest.ts";
import { FakeLlama } from "../support/llama.ts";

async function test(url: string, loadingMs = 10_000, loading = () => {}): Promise<SelfTest> {
  const server = new ModelServer({ url, model: null, timeoutMs: 10_000, maxToolCalls: 1 });
  return await selfTest(server, { loadingMs, loading });
}

const failed = (problem: string): SelfTest => ({ status: "selftest_failed", problem });
const answering = (status: number, body = "") => () => new Response(body, { status });

Deno.test("a server that answers and lists no tools passes", async () => {
  await using llama = new FakeLlama();
  for (
    const tools of [
      answering(404, "not found"),
      answering(403, '{"error":{"type":"feature_disabled"}}'),
      answering(200, "[]"),
      answering(200, "{}"),
      answering(200, '{"tools":[]}'),
      answering(200, '{"object":"list","data":[]}'),
    ]
  ) {
    llama.tools = tools;
    assert.deepEqual(await test(llama.url), { status: "ok" });
  }
  assert.deepEqual(llama.asked.slice(0, 2), ["GET /health", "GET /tools"]);
});

Deno.test("a server that lists tools is refused, with their names in whatever form", async () => {
  await using llama = new FakeLlama();
  const forms: readonly [body: unknown, tools: string[]][] = [
    [[{ type: "builtin", tool: "read_file" }, { tool: "shell" }], ["read_file", "shell"]],
    [[{ display_name: "X", function: { name: "exec_shell_command" } }], ["exec_shell_command"]],
    [{ tools: [{ name: "write_file" }] }, ["write_file"]],
    [{ more: [], data: [{ name: "a\ud800" }] }, ["a\ufffd"]],
    [["a string", null], ["a tool without a name", "a tool without a name"]],
  ];
  for (const [body, tools] of forms) {
    llama.tools = answering(200, JSON.stringify(body));
    assert.deepEqual(await test(llama.url), { status: "runs_tools", tools });
  }
});

Deno.test("a list that cannot be read is not taken for an empty one", async () => {
  await using llama = new FakeLlama();
  const words = "GET /tools answered something that is not a list of tools";
  for (const body of ["", "<html>", "7", "null", '{"read_file":{}}', "[" + " ".repeat(2 ** 20)]) {
    llama.tools = answering(200, body);
    assert.deepEqual(await test(llama.url), failed(words), body.slice(0, 20));
  }
  for (const status of [302, 401, 500]) {
    llama.tools = answering(status, "[]");
    assert.deepEqual(await test(llama.url), failed(`GET /tools answered ${status}`));
  }
});

Deno.test("a server that is loading is waited for, and said to be loading once", async () => {
  await using llama = new FakeLlama();
  let looks = 0;
  let told = 0;
  llama.health = () => new Response(null, { status: ++looks <= 2 ? 503 : 200 });
  const loading = () => {
    told += 1;
  };
  assert.deepEqual(await test(llama.url, 10_000, loading), { status: "ok" });
  assert.equal(looks, 3);
  assert.equal(told, 1);
  looks = -100;
  assert.deepEqual(await test(llama.url, 1), failed("GET /health answered 503"));
});

Deno.test("a server that answers otherwise, or not at all, fails", async () => {
  await using llama = new FakeLlama();
  for (const status of [301, 404, 500]) {
    llama.health = answering(status);
    assert.deepEqual(await test(llama.url), failed(`GET /health answered ${status}`));
  }
  const { url } = llama;
  const nobody = new FakeLlama();
  await nobody[Symbol.asyncDispose]();
  const gone = await test(nobody.url);
  assert(gone.status === "selftest_failed");
  assert.match(gone.problem, /^the connection to the model server failed: .*refused/i);
  assert.notEqual(nobody.url, url);
});
