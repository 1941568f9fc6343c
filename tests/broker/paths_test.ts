/** Paths in grants and arguments (specification 3, "Paths"; contracts 3): the vectors, and what they leave out. */
import assert from "node:assert/strict";
import { parseArguments } from "../../broker/args.ts";
import { readGrant } from "../../broker/grant_rules.ts";
import { isInside, longestContaining, MAX_PATH_BYTES, pathProblem } from "../../broker/paths.ts";
import { utf8 } from "../../proto/text.ts";
import cases from "../../fixtures/vectors/paths.json" with { type: "json" };
import { grantFile } from "../support/grants.ts";

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

/** Whether `path` is accepted in each place where one can stand. */
function accepted(path: string): Record<string, boolean> {
  const file = (tool: string) => utf8(grantFile({ tool, constraints: { paths: [path] } }));
  const grants = ["read_file", "write_file", "shell"].map((tool) =>
    [`a grant of ${tool}`, !Array.isArray(readGrant("g.toml", file(tool)))] as const
  );
  return {
    "its form": pathProblem(path) === null,
    ...Object.fromEntries(grants),
    "read_file": parseArguments("read_file", JSON.stringify({ path })) !== null,
    "write_file": parseArguments("write_file", JSON.stringify({ path, content: "" })) !== null,
    "shell": parseArguments("shell", JSON.stringify({ command: "ls", cwd: path })) !== null,
  };
}

for (const { name, path, grant, expect } of cases) {
  if (grant === undefined) {
    assert.ok(expect === "valid" || expect === "invalid");
    pure(`a path's form, in a grant and in an argument: ${name}: ${expect}`, () => {
      const everywhere = Object.keys(accepted("/")).map((place) => [place, expect === "valid"]);
      assert.deepEqual(accepted(path), Object.fromEntries(everywhere));
    });
  } else {
    assert.ok(expect === "inside" || expect === "not_inside");
    pure(`a path and a grant's path: ${name}: ${expect}`, () => {
      assert.equal(pathProblem(grant), null, "the grant's path is valid");
      assert.equal(pathProblem(path), null, "the path is valid");
      assert.equal(isInside(grant, path), expect === "inside");
      assert.equal(longestContaining([grant], path), expect === "inside" ? grant : null);
    });
  }
}

pure("a path's limit counts bytes of UTF-8, wherever they stand", () => {
  for (const letter of ["a", "ä", "€", "😀"]) {
    const size = utf8(letter).length;
    const count = Math.floor((MAX_PATH_BYTES - 1) / size);
    const longest = "/" + "b".repeat(MAX_PATH_BYTES - 1 - count * size) + letter.repeat(count);
    assert.equal(pathProblem(longest), null, letter);
    assert.match(pathProblem(`${longest}b`) ?? "", /longer than 4096 bytes/, letter);
  }
});

pure("each thing that is wrong with a path has its own words", () => {
  const words = {
    "": "is not absolute",
    "a/b": "is not absolute",
    "~/a": "is not absolute",
    "/a\0": "has a NUL in it",
    "//a": "has an empty component (// or a trailing /)",
    "/a/": "has an empty component (// or a trailing /)",
    "/./a": "has a . component",
    "/a/..": "has a .. component",
  };
  for (const [path, problem] of Object.entries(words)) {
    assert.equal(pathProblem(path), problem, JSON.stringify(path));
  }
});

pure("names that only look special are names", () => {
  for (
    const path of ["/...", "/.a", "/a.", "/..a", "/a..", "/ ", "/~", "/*", "/a\\..\\b", "/%2e"]
  ) {
    assert.equal(pathProblem(path), null, path);
    assert.equal(isInside("/", path), true, path);
    assert.equal(isInside("/a", path), false, path);
  }
});

pure("paths are compared as they are: two forms of one letter are two names", () => {
  assert.equal(isInside("/caf\u00e9", "/caf\u00e9/a"), true);
  assert.equal(isInside("/caf\u00e9", "/cafe\u0301/a"), false);
  assert.equal(isInside("/a", "/A/b"), false);
});

pure("of several that contain a path the longest is the matched one, in any order", () => {
  const directories = ["/n/a", "/", "/n/a/b", "/n", "/n/a/bc", "/m"];
  for (let turn = 0; turn < directories.length; turn += 1) {
    const turned = [...directories.slice(turn), ...directories.slice(0, turn)];
    assert.equal(longestContaining(turned, "/n/a/b/c"), "/n/a/b");
    assert.equal(longestContaining(turned, "/n/a/b"), "/n/a/b");
    assert.equal(longestContaining(turned, "/n/a/d"), "/n/a");
    assert.equal(longestContaining(turned, "/x"), "/");
  }
  assert.equal(longestContaining(["/n", "/m"], "/x"), null);
  assert.equal(longestContaining([], "/x"), null);
});
