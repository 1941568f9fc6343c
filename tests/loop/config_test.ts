/** loopd.toml: defaults, every key, and what is refused with its file, line and key (contracts 1 and 7). */
import assert from "node:assert/strict";
import { lockOf, readLoopConfig } from "../../loop/config.ts";
import { ConfigError } from "../../proto/io/config_file.ts";
import { layout } from "../../proto/layout.ts";

/** Reads a configuration with `content`; `home` is BOXMAKER_HOME. */
function read(content: string, home?: string) {
  const file = Deno.makeTempFileSync({ prefix: "boxmaker-", suffix: ".toml" });
  try {
    Deno.writeTextFileSync(file, content);
    return { file, ...readLoopConfig(file, home) };
  } finally {
    Deno.removeSync(file);
  }
}

function problem(content: string): string {
  try {
    read(content);
  } catch (error) {
    assert(error instanceof ConfigError);
    return error.message.replace(/^\S*\.toml:/, "");
  }
  throw new assert.AssertionError({ message: `taken: ${content}` });
}

Deno.test("an empty file gives the defaults, and BOXMAKER_HOME the home", () => {
  const config = read("");
  assert.deepEqual(config.layout, layout("/var/lib/boxmaker"));
  assert.equal(config.loopSocket, "/var/lib/boxmaker/run/owner-loop/loop.sock");
  assert.equal(config.brokerSocket, null);
  assert.deepEqual(config.llama, {
    url: "http://127.0.0.1:8080",
    model: null,
    timeoutMs: 300_000,
    maxToolCalls: 16,
  });
  assert.deepEqual(read("", "/srv/b").layout, layout("/srv/b"));
  assert.deepEqual(read("", "").layout, layout("/var/lib/boxmaker"));
  assert.deepEqual(read('[paths]\nhome = "/srv/c"', "/srv/b").layout, layout("/srv/c"));
});

Deno.test("every key is read, and the lock follows it", () => {
  const config = read(`
    [sockets]
    loop = "/run/l/loop.sock"
    [broker]
    socket = "/run/b/broker.sock"
    [llama]
    url = "http://localhost:9000/"
    model = "ornith"
    timeout_ms = 5
    max_tool_calls = 3`);
  assert.equal(config.loopSocket, "/run/l/loop.sock");
  assert.equal(config.brokerSocket, "/run/b/broker.sock");
  const llama = { url: "http://localhost:9000", model: "ornith", timeoutMs: 5, maxToolCalls: 3 };
  assert.deepEqual(config.llama, llama);
  assert.deepEqual(lockOf(config).net, [
    "unix:/run/b/broker.sock",
    "unix:/run/l/loop.sock",
    "localhost:9000",
  ]);
  const net = (url: string) => lockOf(read(`[llama]\nurl = "${url}"`)).net.at(-1);
  assert.equal(net("http://example.com"), "example.com:80");
  assert.equal(net("https://example.com"), "example.com:443");
  assert.equal(net("http://[::1]:8080"), "[::1]:8080");
});

Deno.test("what is no configuration is refused, and the message says where", () => {
  assert.equal(problem("[llama]\nurl = 7"), "2: llama.url: expected string, received number");
  assert.equal(problem("\n[brokers]\n"), "2: unknown key brokers");
  assert.match(problem("[llama]\ntimeout_ms = 0"), /^2: llama\.timeout_ms: /);
  assert.match(problem("[llama]\nmax_tool_calls = 1.5"), /^2: llama\.max_tool_calls: /);
  assert.match(problem("[llama"), /^1: not valid TOML/);
  for (
    const url of [
      ...["", "127.0.0.1:8080", "ftp://a", "http://a/v1", "http://a?x", "http://u:p@a"],
      ...["http://*:80", "http://a,b", "http://a#x"],
    ]
  ) {
    assert.match(problem(`[llama]\nurl = "${url}"`), /is not http\(s\):\/\/HOST:PORT$/, url);
  }
  for (const path of ["relative", "/a,b", "/a/../b", "/a\\nb"]) {
    assert.match(problem(`[paths]\nhome = "${path}"`), /^home: /);
    assert.match(problem(`[sockets]\nloop = "${path}"`), /^\[sockets\] loop: /);
    assert.match(problem(`[broker]\nsocket = "${path}"`), /^\[broker\] socket: /);
  }
});

Deno.test("a named configuration that is missing is refused", () => {
  assert.throws(() => readLoopConfig("/nowhere/loopd.toml", undefined), /no such file$/);
});
