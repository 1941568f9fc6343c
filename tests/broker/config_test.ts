/** `brokerd.toml` (specification 2, "Configuration"; contracts 1 and 8). */
import assert from "node:assert/strict";
import { type BrokerConfig, lockOf, readBrokerConfig } from "../../broker/config.ts";
import { ConfigError } from "../../proto/io/config_file.ts";
import { layout } from "../../proto/layout.ts";
import { flagsFor, refusedStart, snapshot, TempHome } from "../support/broker.ts";

const IMAGE = `sha256:${"0123456789abcdef".repeat(4)}`;

/** Reads `content` as a configuration, with its file's name. */
function readTogether(content: string): BrokerConfig {
  return { ...read(content, "/h"), configFile: "/e/brokerd.toml" };
}

/** Reads `content` as a configuration, with `BOXMAKER_HOME` set to `home`. */
function read(content: string | Uint8Array, home?: string) {
  const file = Deno.makeTempFileSync({ suffix: ".toml" });
  try {
    if (typeof content === "string") Deno.writeTextFileSync(file, content);
    else Deno.writeFileSync(file, content);
    const { configFile, ...rest } = readBrokerConfig(file, home);
    assert.equal(configFile, file);
    return rest;
  } catch (error) {
    if (error instanceof Error) error.message = error.message.replaceAll(file, "brokerd.toml");
    throw error;
  } finally {
    Deno.removeSync(file);
  }
}

/** The message for `content`, or null where it is a configuration. */
function problem(content: string | Uint8Array, home?: string): string | null {
  try {
    read(content, home);
    return null;
  } catch (error) {
    assert(error instanceof ConfigError, String(error));
    return error.message;
  }
}

Deno.test("an empty configuration gives the defaults, under BOXMAKER_HOME where that is set", () => {
  for (
    const [home, root] of [
      ["/srv/box", "/srv/box"],
      [undefined, "/var/lib/boxmaker"],
      ["", "/var/lib/boxmaker"],
    ] as const
  ) {
    assert.deepEqual(read("", home), {
      layout: layout(root),
      grants: `${root}/grants`,
      brokerSocket: `${root}/run/loop-broker/broker.sock`,
      adminSocket: `${root}/run/owner-broker/admin.sock`,
      ttlMs: 900_000,
      runner: null,
      egress: { table: {}, private: [], caFile: null },
    });
  }
});

Deno.test("every key is read, and the configured home wins over BOXMAKER_HOME", () => {
  const content = `
    [paths]
    home = "/h"
    grants = "/etc/boxmaker/grants"
    [sockets]
    broker = "/r/b/broker.sock"
    admin = "/r/a/admin.sock"
    [approvals]
    ttl_ms = 100
    [runner]
    runtime = "podman"
    podman = "/opt/podman"
    oci_runtime = "runc"
    image = "${IMAGE}"
    user = "1000:1001"
    memory_mb = 16
    processes = 4
    timeout_ms = 100
    output_bytes = 1
    parallel = 1
    [egress]
    private = ["10.0.0.0/8", "::1"]
    ca_file = "/etc/ca.pem"
    [egress.hosts]
    "page.example" = "10.1.2.3"`;
  assert.deepEqual(read(content, "/elsewhere"), {
    layout: layout("/h"),
    grants: "/etc/boxmaker/grants",
    brokerSocket: "/r/b/broker.sock",
    adminSocket: "/r/a/admin.sock",
    ttlMs: 100,
    runner: {
      podman: "/opt/podman",
      ociRuntime: "runc",
      image: IMAGE,
      user: "1000:1001",
      memoryMb: 16,
      processes: 4,
      timeoutMs: 100,
      outputBytes: 1,
      parallel: 1,
    },
    egress: {
      table: { "page.example": "10.1.2.3" },
      private: ["10.0.0.0/8", "::1"],
      caFile: "/etc/ca.pem",
    },
  });
  assert.equal(read('[paths]\nhome = "/h"').grants, "/h/grants");
});

Deno.test("a runner needs no more than an image, and is a program in brokerd's row", () => {
  const config = readTogether(`[runner]\nruntime = "podman"\nimage = "${IMAGE}"`);
  assert.deepEqual(config.runner, {
    podman: "/usr/bin/podman",
    ociRuntime: null,
    image: IMAGE,
    user: "65534:65534",
    memoryMb: 512,
    processes: 128,
    timeoutMs: 60_000,
    outputBytes: 262_144,
    parallel: 4,
  });
  assert.deepEqual(lockOf(config, "/opt/deno").run, ["/usr/bin/podman", "/opt/deno"]);
  assert.deepEqual(lockOf(config, null).run, ["/usr/bin/podman"]);
  assert.deepEqual(lockOf(readTogether(""), "/opt/deno").run, []);
  assert.deepEqual(readTogether(`[runner]\nimage = "${IMAGE}"`).runner, null);
});

/** What is wrong, and how the message for it begins. */
const WRONG: Readonly<Record<string, readonly [content: string | Uint8Array, message: string]>> = {
  "an unknown key in a table": [
    '[paths]\nhome = "/h"\nhoem = "/h"',
    "brokerd.toml:3: unknown key paths.hoem",
  ],
  "an unknown key at the top": ["\nttl = 1", "brokerd.toml:2: unknown key ttl"],
  "an unknown table": ["[path]\nhome = '/h'", "brokerd.toml:1: unknown key path"],
  "a dotted unknown key": ["sockets.loop = '/h'", "brokerd.toml:1: unknown key sockets.loop"],
  "a key of another type": ["[paths]\n\nhome = 1", "brokerd.toml:3: paths.home: "],
  "a table that is a value": ["paths = '/h'", "brokerd.toml:1: paths: "],
  "a time that is none": ["[approvals]\nttl_ms = 0", "brokerd.toml:2: approvals.ttl_ms: "],
  "a negative time": ["[approvals]\nttl_ms = -1", "brokerd.toml:2: approvals.ttl_ms: "],
  "a fraction": ["[approvals]\nttl_ms = 1.5", "brokerd.toml:2: approvals.ttl_ms: "],
  "a time that no timer holds": [
    "[approvals]\nttl_ms = 2147483648",
    "brokerd.toml:2: approvals.ttl_ms: ",
  ],
  "a text for a time": ["[approvals]\nttl_ms = '1'", "brokerd.toml:2: approvals.ttl_ms: "],
  "a duplicate key": ["[paths]\nhome = '/h'\nhome = '/i'", "brokerd.toml:3: not valid TOML: "],
  "a duplicate table": ["[paths]\n[paths]", "brokerd.toml:2: not valid TOML: "],
  "no TOML": ["[paths]\nhome = /h", "brokerd.toml:2: not valid TOML: "],
  "a byte-order mark": ["\ufeff[paths]", "brokerd.toml:1: starts with a byte-order mark"],
  "bytes that are not UTF-8": [new Uint8Array([0x23, 0xff, 0x0a]), "brokerd.toml: not UTF-8"],
  "a runtime that is none": ["[runner]\nruntime = 'docker'", "brokerd.toml:2: runner.runtime: "],
  "Podman without an image": [
    "[runner]\nruntime = 'podman'",
    "[runner] image: missing; deno task image makes one and prints its id",
  ],
  "an image by a name": ["[runner]\nimage = 'debian:12'", "brokerd.toml:2: runner.image: "],
  "root for a user": ["[runner]\nuser = '0:0'", "brokerd.toml:2: runner.user: "],
  "a user's name": ["[runner]\nuser = 'nobody'", "brokerd.toml:2: runner.user: "],
  "no memory": ["[runner]\nmemory_mb = 0", "brokerd.toml:2: runner.memory_mb: "],
  "no process": ["[runner]\nprocesses = 0", "brokerd.toml:2: runner.processes: "],
  "an hour and more": ["[runner]\ntimeout_ms = 3600001", "brokerd.toml:2: runner.timeout_ms: "],
  "no output": ["[runner]\noutput_bytes = 0", "brokerd.toml:2: runner.output_bytes: "],
  "more output than an answer holds": [
    "[runner]\noutput_bytes = 1048577",
    "brokerd.toml:2: runner.output_bytes: ",
  ],
  "a Podman that is looked for": [
    `[runner]\nruntime = "podman"\npodman = "podman"\nimage = "${IMAGE}"`,
    "[runner] podman: podman is not an absolute path",
  ],
  "an OCI runtime with options": [
    `[runner]\nruntime = "podman"\noci_runtime = "runc --debug"\nimage = "${IMAGE}"`,
    "[runner] oci_runtime: runc --debug is no program's name or path",
  ],
  "a host that is no name": [
    "[egress.hosts]\n'10.0.0.1' = '10.0.0.1'",
    "[egress.hosts] 10.0.0.1: is an IP address in disguise",
  ],
  "a host that leads to a name": [
    "[egress.hosts]\n'a.example' = 'b.example'",
    "[egress.hosts] a.example: b.example is no IPv4 or IPv6 address",
  ],
  "a private range that is none": [
    "[egress]\nprivate = ['10.0.0.0/33']",
    "[egress] private: 10.0.0.0/33 is no address, nor a range as 10.0.0.0/8",
  ],
  "certificates that cannot be mounted": [
    "[egress]\nca_file = '/etc/a\"b.pem'",
    '[egress] ca_file: /etc/a"b.pem has a comma',
  ],
  "the same path for both sockets": [
    "[sockets]\nbroker = '/r/s'\nadmin = '/r/s'",
    "[sockets]: broker and admin are the same path",
  ],
};

Deno.test("whatever is wrong with a configuration is named with its file, line and key", () => {
  for (const [what, [content, message]] of Object.entries(WRONG)) {
    const said = problem(content);
    assert(said?.startsWith(message), `${what}: ${said}`);
  }
  assert.equal(problem("[approvals]\nttl_ms = 2147483647"), null);
  assert.equal(problem("[approvals]\nttl_ms = 1"), null);
  assert.equal(problem("[sockets]\nbroker = '/r/s'\nadmin = '/r/t'"), null);
});

Deno.test("every problem of a configuration is named, not only the first", () => {
  assert.deepEqual(problem("a = 1\n[paths]\nb = 1\n")?.split("\n"), [
    "brokerd.toml:3: unknown key paths.b",
    "brokerd.toml:1: unknown key a",
  ]);
});

const KEYS = {
  home: (path: string) => `[paths]\nhome = "${path}"`,
  "[paths] grants": (path: string) => `[paths]\ngrants = "${path}"`,
  "[sockets] broker": (path: string) => `[sockets]\nbroker = "${path}"`,
  "[sockets] admin": (path: string) => `[sockets]\nadmin = "${path}"`,
} as const;

/** In TOML's escapes, and what the message says of it. */
const PATHS = {
  "/a,b": "/a,b has a comma in it",
  "/a\\nb": "/a\\u000ab has a newline or another control character in it",
  "/a\\u007fb": "/a\\u007fb has a newline or another control character in it",
  "a/b": "a/b is not an absolute path",
  "": " is not an absolute path",
  "/a/../b": "/a/../b has a . or .. in it",
  "/a/./b": "/a/./b has a . or .. in it",
} as const;

Deno.test("a path that a permission flag cannot express is refused, wherever it stands", () => {
  for (const [key, content] of Object.entries(KEYS)) {
    for (const [path, says] of Object.entries(PATHS)) {
      const said = problem(content(path));
      assert(said?.startsWith(`${key}: ${says}`), `${key} ${path}: ${said}`);
    }
    assert.equal(problem(content("/a b/c")), null);
  }
  assert(problem("", "/a,b")?.startsWith("home: /a,b has a comma in it"));
  assert.throws(
    () => readBrokerConfig("/a,b.toml", undefined),
    /--config: \/a,b\.toml has a comma/,
  );
  assert.throws(
    () => readBrokerConfig("b.toml", undefined),
    /--config: b\.toml is not an absolute/,
  );
});

Deno.test("a named configuration that is missing or cannot be read is an error", () => {
  const directory = Deno.makeTempDirSync();
  const missing = `${directory}/none.toml`;
  assert.throws(
    () => readBrokerConfig(missing, undefined),
    new ConfigError(`${missing}: no such file`),
  );
  assert.throws(
    () => readBrokerConfig(directory, undefined),
    new ConfigError(`${directory}: not a regular file`),
  );
  Deno.removeSync(directory);
});

Deno.test("brokerd refuses a bad configuration with 1, and makes nothing", async (t) => {
  const spoiled: Readonly<Record<string, [(home: TempHome) => void, string]>> = {
    "an unknown key": [
      (home) => Deno.writeTextFileSync(home.configFile, "[paths]\nhoem = '/h'\n"),
      ":2: unknown key paths.hoem\n",
    ],
    "missing": [(home) => Deno.removeSync(home.configFile), ": no such file\n"],
  };
  for (const [what, [spoil, says]] of Object.entries(spoiled)) {
    await t.step(what, async () => {
      using home = new TempHome();
      // The flags are those of the configuration as it was.
      const flags = flagsFor(home);
      spoil(home);
      const before = snapshot(home.root);
      const { code, stderr } = await refusedStart(home, { flags });
      assert.equal(code, 1);
      const end = "brokerd: see docs/runbook.md#config-invalid\n";
      assert.equal(stderr, `brokerd: ${home.configFile}${says}${end}`);
      assert.deepEqual(snapshot(home.root), before);
    });
  }
});
