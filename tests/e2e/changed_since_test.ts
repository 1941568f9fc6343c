/** What has changed since the owner was asked, through the real three programs. */
import assert from "node:assert/strict";
import { prepareHome, TempHome } from "../../scripts/support/home.ts";
import { Stack } from "../../scripts/support/stack.ts";
import { recordsIn } from "../../scripts/support/story.ts";
import { runCtl, Terminal } from "../support/ctl.ts";
import { calling, FakeLlama, saying } from "../support/llama.ts";

Deno.test("a grant that is edited while the owner is asked: approvals says so, and the chat asks again", async () => {
  using temp = new TempHome("test", false);
  const home = prepareHome(temp.path);
  const reading = calling("read_file", { path: `${home.notes}/a.md` });
  await using llama = new FakeLlama(
    ...[reading, saying("First.")],
    ...[reading, saying("Second.")],
  );
  await using stack = new Stack({ home, llama: llama.url });
  await stack.start();
  await using terminal = new Terminal(home.path, ["chat"]);
  await terminal.shows("> ");

  await terminal.type("read the note\n");
  await terminal.shows("approve 0? [y/N] ");
  assert.ok(!(await runCtl(home.path, ["approvals"])).stdout.includes("changed since"));
  await terminal.type("y\n");
  await terminal.shows("approved 0: runs");
  assert.ok(!terminal.screen.includes("changed since"), "nothing has changed");
  await terminal.shows("First.");
  await terminal.shows("\n> ", 1);

  await terminal.type("again\n");
  await terminal.shows("approve 3? [y/N] ");
  Deno.writeTextFileSync(`${home.layout.grants}/notes-read.toml`, "# edited\n", { append: true });
  const line = "changed since: grant notes-read.toml was edited";
  for (const command of [["approvals"], ["approvals", "show", "3"]]) {
    const { stdout } = await runCtl(home.path, command);
    assert.ok(stdout.endsWith(`/a.md"}\n    ${line}\n`), stdout);
  }
  await terminal.type("y\n");
  await terminal.shows(`bxctl: ${line}\r\nbxctl: not approved yet: look again\r\n`);
  await terminal.shows("approve 3? [y/N] ", 2);
  await terminal.type("y\n");
  await terminal.shows("approved 3: runs");
  await terminal.shows("Second.");

  const answers = recordsIn(home.layout.audit).flatMap(({ event }) =>
    event.type === "approval" ? [`${event.answer} ${event.decision}`] : []
  );
  assert.deepEqual(answers, ["approved 0", "approved 3"]);
  temp.done();
});
