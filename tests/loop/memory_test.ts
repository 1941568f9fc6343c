/** memory/core.md: text, nothing, or unreadable. */
import assert from "node:assert/strict";
import { CoreUnreadable, MAX_CORE_BYTES, readCore } from "../../loop/memory.ts";
import { systemPrompt } from "../../loop/prompt.ts";

/** A directory that stands for `memory/`; `put` makes what is at the path it is given. */
function withCore(put: (path: string) => void, check: (path: string) => void): void {
  const directory = Deno.makeTempDirSync({ prefix: "boxmaker-" });
  try {
    const path = `${directory}/core.md`;
    put(path);
    check(path);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

const write = (content: string | Uint8Array) => (path: string) =>
  typeof content === "string"
    ? Deno.writeTextFileSync(path, content)
    : Deno.writeFileSync(path, content);

Deno.test("a text is read, also through a link, up to its limit; a missing file is none", () => {
  withCore(write("Kyle 🥛\n"), (path) => assert.equal(readCore(path), "Kyle 🥛\n"));
  withCore(write(""), (path) => assert.equal(readCore(path), ""));
  const longest = "x".repeat(MAX_CORE_BYTES);
  withCore(write(longest), (path) => assert.equal(readCore(path), longest));
  withCore((path) => {
    write("elsewhere")(`${path}.other`);
    Deno.symlinkSync(`${path}.other`, path);
  }, (path) => assert.equal(readCore(path), "elsewhere"));
  withCore(() => {}, (path) => {
    assert.equal(readCore(path), null);
    assert.equal(readCore(`${path}/in/a/missing/directory`), null);
  });
});

const UNREADABLE: Readonly<Record<string, readonly [(path: string) => void, string]>> = {
  "not UTF-8": [write(new Uint8Array([0x61, 0xff])), "is not UTF-8"],
  "too large": [write("x".repeat(MAX_CORE_BYTES + 1)), "is larger than 262144 bytes"],
  "a directory": [(path) => Deno.mkdirSync(path), "is not a regular file"],
  "a FIFO": [
    (path) => assert(new Deno.Command("mkfifo", { args: [path] }).outputSync().success),
    "is not a regular file",
  ],
  "a device": [(path) => Deno.symlinkSync("/dev/zero", path), "is not a regular file"],
  "a link to nothing": [(path) => Deno.symlinkSync(`${path}.none`, path), "cannot be read"],
  "a link to itself": [(path) => Deno.symlinkSync(path, path), "cannot be read"],
};

Deno.test("what is there and no text of a bearable size is unreadable, and never blocks", () => {
  for (const [name, [put, why]] of Object.entries(UNREADABLE)) {
    withCore(put, (path) => {
      assert.throws(() => readCore(path), (error) => {
        assert(error instanceof CoreUnreadable, name);
        assert.equal(error.message, `${path} ${why}`);
        return true;
      });
    });
  }
});

Deno.test("a file in place of memory/, and a file that may not be read, are unreadable", () => {
  withCore(write("x"), (path) => {
    assert.throws(() => readCore(`${path}/core.md`), CoreUnreadable);
  });
  withCore(write("x"), (path) => {
    Deno.chmodSync(path, 0);
    // The superuser may read it all the same.
    if (Deno.uid() === 0) assert.equal(readCore(path), "x");
    else assert.throws(() => readCore(path), CoreUnreadable);
  });
});

Deno.test({
  name: "what the owner wants the model to know stands in the system prompt, and no empty words",
  permissions: "none",
  fn() {
    const base = systemPrompt(null);
    assert.equal(systemPrompt(" \n"), base);
    assert.equal(
      systemPrompt("Likes milk.\n"),
      `${base}\n\nYour owner wants you to know:\n\nLikes milk.`,
    );
    for (const tool of ["clock", "find_tool", "call_tool"]) assert(base.includes(tool));
  },
});
