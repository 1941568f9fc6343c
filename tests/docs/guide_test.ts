/** README.md and docs/guide.md are what their reader sees: every command in them is typed and run here. */
import assert from "node:assert/strict";
import { readCommandLine } from "../../ctl/args.ts";
import { toolTest } from "../support/containers.ts";
import { blocks, read } from "../support/docs.ts";
import { toolImage } from "../support/image.ts";
import { noneLeftWith } from "../support/scripts.ts";
import { exchanges, shows, Walkthrough } from "../support/walkthrough.ts";

/** Runs every check and every test, this one among them. */
const THE_TESTS = "npx --yes deno@2.9.6 task test";

for (const document of ["docs/guide.md", "README.md"]) {
  toolTest(
    `${document}, followed from its first command to its last, shows what is printed`,
    async () => {
      // A reader waits for the image of the first run; here it is there.
      await toolImage();
      let project: string;
      {
        await using reader = new Walkthrough();
        ({ project } = reader);
        await reader.follow(read(document), [THE_TESTS]);
        assert.equal(await reader.close(), 0);
      }
      await noneLeftWith(project);
    },
  );

  Deno.test(`${document} names only commands of bxctl that there are`, () => {
    const named = [...read(document).matchAll(/`(?:bxctl|deno task ctl) ([^`]*)`/g)]
      .map(([, line = ""]) => line);
    assert(named.length > 0);
    for (const line of named) {
      assert.notEqual(readCommandLine(line.split(" ")).kind, "usage", line);
    }
  });
}

Deno.test("every block of commands shows its output next, or prints nothing", () => {
  const languages = new Set(["sh", "console", "text"]);
  for (const document of ["docs/guide.md", "README.md"]) {
    const all = blocks(read(document));
    assert(all.length > 3);
    for (const [at, { language }] of all.entries()) {
      assert(languages.has(language), `${document}: a block of ${language || "nothing"}`);
      if (language === "text") assert.equal(all[at - 1]?.language, "sh", document);
    }
  }
});

Deno.test("what a document leaves out may be anything, and what it shows may not", () => {
  const printed = "one\ntwo\nthree\nfour";
  for (const right of [printed, "…", "one\n…", "…\nfour", "one\n…\nthree\n…", "one\n…\nfour"]) {
    assert(shows(right, printed), right);
  }
  for (
    const wrong of ["", "one", "two\n…", "…\nthree", "one\n…\ntwo\nfour", "…\nthree\n…\ntwo\n…"]
      .concat("…\nwo\n…", "…\nfou", "on\n…", "one\ntwo\nthree\nfour\nfive", "…\nfour\n…\nfour")
  ) assert(!shows(wrong, printed), wrong);
  const line = (time: string, hash: string) => `${time} head ${hash.repeat(64)}`;
  const shown = line("2026-12-01T10:00:00.000Z", "a");
  assert(shows(shown, line("2027-01-02T11:11:11.111Z", "b")));
  assert(!shows(shown, line("yesterday", "b")));
});

Deno.test("in a chat what follows the prompt is typed", () => {
  assert.deepEqual(exchanges(["> a b", "c", "> d"]), [
    { typed: "a b", shown: ["c"] },
    { typed: "d", shown: [] },
  ]);
  assert.throws(() => exchanges(["c"]), /begins with a line that is typed/);
});
