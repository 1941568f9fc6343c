/** A whole session on a terminal of its own, through the real three programs, each under its own flags. */
import assert from "node:assert/strict";
import { verifyLog } from "../../ctl/audit_files.ts";
import { prepareHome, TempHome } from "../../scripts/support/home.ts";
import { Stack } from "../../scripts/support/stack.ts";
import { recordsIn } from "../../scripts/support/story.ts";
import { Terminal } from "../support/ctl.ts";
import { calling, FakeLlama, saying } from "../support/llama.ts";

/** Clears the screen, recolours, renames the window, reorders and hides: and none of it may happen. */
const HOSTILE = "\u001b[2J\u001b[31m\u001b]0;owned\u0007\u202egpj.exe\u2066\u200b\u{e0041}\u009b1A";
const ESCAPED = "\\u001b[2J\\u001b[31m\\u001b]0;owned\\u0007\\u202egpj.exe\\u2066\\u200b";

Deno.test("a session on a terminal: denied, approved with y, refused with Enter, a line typed too early, hostile arguments", async () => {
  using temp = new TempHome("test", false);
  const home = prepareHome(temp.path);
  const note = `${home.notes}/a.md`;
  const reading = (path: string) => calling("read_file", { path });
  await using llama = new FakeLlama(
    ...[reading("/etc/passwd"), saying("That is denied.")],
    ...[reading(note), saying("Approved it was.")],
    ...[reading(note), saying("Refused it was.")],
    ...[reading(note), saying("Too early it was.")],
    ...[reading(`${home.notes}/${HOSTILE}`), saying(`I tried ${HOSTILE}.`)],
  );
  await using stack = new Stack({ home, llama: llama.url });
  await stack.start();
  await using terminal = new Terminal(home.path, ["chat"]);
  await terminal.shows("> ");

  await terminal.type("read the passwords\n");
  await terminal.shows("[denied] read_file Denied: no grant allows this call.");
  await terminal.shows("That is denied.");
  await terminal.shows("\n> ", 1);

  await terminal.type("read the note\n");
  await terminal.shows("approve 1? [y/N] ");
  await terminal.type("y\n");
  await terminal.shows("approved 1: runs");
  await terminal.shows("[failed] read_file the runner arrives in M3b");
  await terminal.shows("Approved it was.");
  await terminal.shows("\n> ", 2);

  await terminal.type("again\n");
  await terminal.shows("approve 4? [y/N] ");
  await terminal.type("\n");
  await terminal.shows("refused 4");
  await terminal.shows("Denied: the owner refused this call.");
  await terminal.shows("\n> ", 3);

  // Whoever types ahead has not seen what would be approved.
  await terminal.type("once more\ny\n");
  await terminal.shows("approve 6? [y/N] ");
  await terminal.type("n\n");
  await terminal.shows("refused 6");
  await terminal.shows("Too early it was.");
  await terminal.shows("\n> ", 4);

  await terminal.type("now the trap\n");
  await terminal.shows("approve 8? [y/N] ");
  assert(terminal.screen.includes(`${home.notes}/${ESCAPED}`), terminal.screen);
  await terminal.type("\n");
  await terminal.shows("I tried ");
  await terminal.shows("\n> ", 5);
  for (
    const hidden of [
      "\u001b[2J",
      "\u001b[31m",
      "\u001b]0;",
      "\u202e",
      "\u2066",
      "\u200b",
      "\u{e0041}",
      "\u009b",
    ]
  ) {
    assert(!terminal.screen.includes(hidden), `${JSON.stringify(hidden)} reached the terminal`);
  }
  await terminal.type("\u0004");
  assert.equal(await terminal.ends(), 0);

  const answers = recordsIn(home.layout.audit).flatMap(({ event }) =>
    event.type === "approval" ? [event.answer] : []
  );
  assert.deepEqual(answers, ["approved", "refused", "refused", "refused"]);
  assert.equal(verifyLog(home.layout.audit, null).failure, null);
  temp.done();
});
