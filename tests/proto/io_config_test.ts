import assert from "node:assert/strict";
import * as z from "zod";
import { checkPath, ConfigError, readConfigFile } from "../../proto/io/config_file.ts";
import { causes, runbook } from "../../proto/io/log.ts";
import { text } from "../../proto/text.ts";

const Schema = z.strictObject({
  paths: z.strictObject({ home: text.optional() }).default({}),
  n: z.int().optional(),
});

/** Runs `use` with the path of a configuration file, which holds `content` unless that is null. */
function withFile(content: string | Uint8Array | null, use: (file: string) => void): void {
  const root = Deno.makeTempDirSync({ prefix: "boxmaker-io-" });
  try {
    const file = `${root}/role.toml`;
    if (typeof content === "string") Deno.writeTextFileSync(file, content);
    else if (content !== null) Deno.writeFileSync(file, content);
    use(file);
  } finally {
    Deno.removeSync(root, { recursive: true });
  }
}

function messageOf(file: string, named = true): string {
  try {
    readConfigFile(Schema, file, named);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.message;
  }
  assert.fail("was read");
}

Deno.test("a configuration is read", () => {
  withFile('n = 1\n[paths]\nhome = "/h"\n', (file) => {
    const value = { paths: { home: "/h" }, n: 1 };
    assert.deepEqual(readConfigFile(Schema, file, true), value);
    assert.deepEqual(readConfigFile(Schema, file, false), value);
  });
});

Deno.test("a missing configuration is an error where it was named, else none", () => {
  withFile(null, (file) => {
    assert.equal(readConfigFile(Schema, file, false), null);
    assert.equal(messageOf(file), `${file}: no such file`);
  });
});

Deno.test("an unknown key is named with its file and line", () => {
  withFile('n = 1\n[paths]\nhom = "/h"\n', (file) => {
    assert.equal(messageOf(file), `${file}:3: unknown key paths.hom`);
    assert.equal(messageOf(file, false), `${file}:3: unknown key paths.hom`);
  });
});

Deno.test("every problem stands on its own line", () => {
  withFile('m = 1\nn = "x"\n', (file) => {
    assert.deepEqual(messageOf(file).split("\n").sort(), [
      `${file}:1: unknown key m`,
      `${file}:2: n: expected number, received string`,
    ]);
  });
});

Deno.test("what is not TOML is named with its line", () => {
  withFile("n = 1\nn = 2\n", (file) => {
    assert.match(messageOf(file), /role\.toml:2: not valid TOML: /);
  });
});

Deno.test("a configuration that cannot be read is an error, named or not", () => {
  withFile(new Uint8Array([0x6e, 0x3d, 0xff]), (file) => {
    assert.equal(messageOf(file), `${file}: not UTF-8`);
    assert.equal(messageOf(file, false), `${file}: not UTF-8`);
  });
  withFile(new Uint8Array([0xef, 0xbb, 0xbf, 0x6e, 0x3d, 0x31]), (file) => {
    assert.equal(messageOf(file, false), `${file}:1: starts with a byte-order mark`);
  });
  withFile(null, (file) => {
    Deno.mkdirSync(file);
    assert.equal(messageOf(file, false), `${file}: not a regular file`);
  });
  withFile(null, (file) => {
    Deno.symlinkSync(file, file);
    assert.equal(messageOf(file, false), `${file}: cannot be read`);
  });
});

Deno.test("what is no file of a bearable size is not waited for, nor read", () => {
  const largest = "n = 1\n".padEnd(64 * 1024, "#");
  withFile(largest, (file) => assert.equal(readConfigFile(Schema, file, true)?.n, 1));
  withFile(`${largest}#`, (file) => assert.equal(messageOf(file), `${file}: larger than 64 KiB`));
  withFile(null, (file) => {
    assert(new Deno.Command("mkfifo", { args: [file] }).outputSync().success);
    assert.equal(messageOf(file), `${file}: not a regular file`);
  });
  withFile(null, (file) => {
    Deno.symlinkSync("/dev/zero", file);
    assert.equal(messageOf(file), `${file}: not a regular file`);
  });
});

Deno.test(
  "without permission to read it a configuration cannot be read",
  { permissions: "none" },
  () => {
    assert.equal(
      messageOf("/etc/boxmaker/none.toml", false),
      "/etc/boxmaker/none.toml: cannot be read",
    );
  },
);

Deno.test(
  "a path that the permission table cannot express is refused",
  { permissions: "none" },
  () => {
    for (const path of ["a.toml", "/a,b.toml", "/a\n.toml", "/a/../b.toml"]) {
      assert.match(messageOf(path), /^--config: /);
      assert.throws(() => checkPath("home", path), /^ConfigError|home: /);
    }
    assert.throws(() => checkPath("home", "/a\x1b,b"), { message: /^home: \/a\\u001b,b / });
    checkPath("home", "/a b/ü");
  },
);

Deno.test("a key is shown as data", () => {
  withFile('"\\u001b[31m\\u202e" = 1', (file) => {
    assert.equal(messageOf(file), `${file}:1: unknown key \\u001b[31m\\u202e`);
  });
});

Deno.test(
  "an error is told with what caused it, as data on one line",
  { permissions: "none" },
  () => {
    const inner = new Error("inner\x1b[31m\nline");
    assert.equal(
      causes(new Error("outer", { cause: inner })),
      "outer: inner\\u001b[31m\\u000aline",
    );
    assert.equal(causes("text"), "text");
    const loop = new Error("loop");
    loop.cause = loop;
    assert.equal(causes(loop).split("loop").length - 1, 5, "a circle ends");
    assert.equal(runbook("a-b"), "see docs/runbook.md#a-b");
  },
);
