/** Links between the documents, and the commands they name. */
import assert from "node:assert/strict";
import { anchors, documents, links, PROJECT, read } from "../support/docs.ts";

/** What is wrong with `target` as a link in `document`, or null. */
function linkProblem(document: string, target: string): string | null {
  const [path = "", anchor] = target.split("#");
  const address = path === ""
    ? new URL(document, PROJECT)
    : new URL(path, new URL(document, PROJECT));
  try {
    Deno.statSync(address);
  } catch {
    return `${document}: ${target} is not there`;
  }
  if (anchor === undefined || anchors(Deno.readTextFileSync(address)).has(anchor)) return null;
  return `${document}: ${target} has no such heading`;
}

Deno.test("every relative link of a document leads to a file, and to a heading where it names one", () => {
  const all = documents().flatMap((document) =>
    links(read(document)).map((target) => linkProblem(document, target))
  );
  assert.ok(all.length > 10, "the documents have links");
  assert.deepEqual(all.filter((problem) => problem !== null), []);
});

Deno.test("a link to a missing file or heading is noticed", () => {
  assert.deepEqual(links("[a](b.md) and [c](https://example.com) and [d](#e)"), ["b.md", "#e"]);
  assert.match(linkProblem("README.md", "docs/absent.md") ?? "", /is not there/);
  assert.match(linkProblem("README.md", "docs/runbook.md#absent") ?? "", /no such heading/);
  assert.equal(linkProblem("README.md", "docs/runbook.md#grants-invalid"), null);
});

/** The names after `deno task` in `markdown`, options of the command left out. */
function tasksNamed(markdown: string): string[] {
  return [...markdown.matchAll(/\bdeno(?:@[\d.]+)? task (?:--[a-z-]+ )*([a-z][\w:-]*)/g)]
    .map(([, name]) => name ?? "");
}

Deno.test("every task that a document or a sample names is one of deno.json", () => {
  const tasks = Object.keys(JSON.parse(read("deno.json")).tasks);
  const samples = ["brokerd.toml", "loopd.toml", "bxctl.toml"].map((name) =>
    `docs/samples/${name}`
  );
  for (const document of [...documents(), ...samples]) {
    for (const name of tasksNamed(read(document))) {
      assert.ok(tasks.includes(name), `${document}: deno task ${name}`);
    }
  }
  assert.ok(tasksNamed(read("README.md")).includes("up"));
  assert.ok(tasksNamed(read("README.md")).includes("test"));
});
