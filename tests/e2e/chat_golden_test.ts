/** A whole chat on a terminal, as its owner sees it: fixtures/chat/session.txt. */
import assert from "node:assert/strict";
import { PROJECT } from "../support/broker.ts";
import { ChatScene } from "../support/chat_scene.ts";
import { CONTENT } from "../support/decision_path.ts";
import { calling, chunk, ending, Held, saying, START } from "../support/llama.ts";

/** What differs from run to run, under a name that does not. ESC is shown as ^[. */
function steady(screen: string, session: string): string {
  return screen.replaceAll("\r\n", "\n").replaceAll("\x1b", "^[").replaceAll(session, "SESSION")
    .replaceAll(/^(\d+) {2}.* ago {2}expires in \d+ min/gm, "$1  AGO  EXPIRES");
}

Deno.test("a whole chat: thinking, calls allowed, denied, approved, refused and stopped, and the next message", async () => {
  const held = new Held();
  const thinking = START + chunk({ reasoning_content: "The notes may know." });
  const write = calling("write_file", { path: "/n/a", content: "x" });
  await using scene = await ChatScene.start([
    thinking + calling("read_file", { path: "/n/a" }).slice(START.length),
    saying("They say: milk."),
    calling("read_file", { path: "/etc/passwd" }),
    saying("That is ", "denied."),
    write,
    saying("Written."),
    write,
    saying("You refused."),
    thinking + chunk({ content: "It is" }) + chunk({ content: " done." }) + ending("stop"),
    () => held.response,
    saying("Here I am."),
  ]);
  const { terminal, runtime } = scene;
  let turns = 0;
  let asked = 0;
  const send = async (message: string, ...answers: string[]) => {
    await terminal.type(`${message}\r`);
    for (const answer of answers) {
      await terminal.shows("[y/N] ", answers.indexOf(answer) + 1 + asked);
      await terminal.type(answer);
    }
    asked += answers.length;
    turns += 1;
    await terminal.shows("\n> ", turns);
  };
  const content = `milk\n${"and bread, ".repeat(200)}\x1b[2J`;
  runtime.outcome = { status: "result", content, truncated: false };
  await send("What do my notes say?");
  runtime.outcome = CONTENT;
  await send("And the passwords?");
  await send("Write it down.", "y\r");
  await send("Once more.", "\r");
  await send("\x1b[200~Is it\nall done?\x1b[201~");
  await terminal.type("Tell me a story.\r");
  await held.send(START + chunk({ content: "Once upon a time" }));
  await terminal.shows("Once upon a time");
  await terminal.type("\x03");
  turns += 1;
  await terminal.shows("\n> ", turns);
  await send("Are you there?");
  await terminal.type("\x04");
  assert.equal(await terminal.ends(), 0);
  const golden = new URL("fixtures/chat/session.txt", PROJECT);
  assert.equal(steady(terminal.screen, scene.session), Deno.readTextFileSync(golden));
});
