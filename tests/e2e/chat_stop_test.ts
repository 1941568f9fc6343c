/** bxctl chat on a terminal, with the real daemons: what streams, and what Ctrl-C stops. */
import assert from "node:assert/strict";
import { forEach, until, within } from "../support/broker.ts";
import { ChatScene } from "../support/chat_scene.ts";
import { runCtl } from "../support/ctl.ts";
import { CONTENT } from "../support/decision_path.ts";
import { calling, chunk, ending, Held, saying, START } from "../support/llama.ts";

const READ = calling("read_file", { path: "/n/a" });
const WRITE = calling("write_file", { path: "/n/a", content: "x" });
const STOPPED = "bxctl: stopping the turn; Ctrl-C again ends the chat\r\n";
const WAS_STOPPED = "bxctl: the turn was stopped\r\n> ";
const HOSTILE = "\x1b[2J\x9b1m\u202e\r";
const SHOWN = "\\u001b[2J\\u009b1m\\u202e\\u000d";

/** How the log of the session says that its last turn ended. */
function lastEnd({ home, session }: ChatScene): unknown[] {
  const { type, outcome, message } = home.entries(session).at(-1) ?? {};
  return [type, outcome, message];
}

const INTERRUPTED = ["end", "interrupted", "stopped by the owner"];

Deno.test("thinking and text are on the screen before the turn ends, thinking dimmed or named, and both as data", async () => {
  const cases = {
    coloured: { env: {}, thinking: `\x1b[2mHm${SHOWN}.\x1b[22m\r\n` },
    NO_COLOR: { env: { NO_COLOR: "1" }, thinking: `[reasoning] Hm${SHOWN}.\r\n` },
    "TERM=dumb": { env: { TERM: "dumb" }, thinking: `[reasoning] Hm${SHOWN}.\r\n` },
  };
  await forEach<{ env: Record<string, string>; thinking: string }>(
    cases,
    async ({ env, thinking }, name) => {
      const held = new Held();
      await using scene = await ChatScene.start([() => held.response], { env });
      const { terminal } = scene;
      await terminal.type("hello\n");
      await held.send(START + chunk({ reasoning_content: `Hm${HOSTILE}.` }));
      await terminal.shows(thinking.trimEnd());
      await held.send(chunk({ content: `One ${HOSTILE}` }));
      await terminal.shows(`${thinking}One ${SHOWN}`);
      await held.send(chunk({ content: " two" }) + ending("stop"));
      await held.end();
      await terminal.shows(`${thinking}One ${SHOWN} two\r\n> `);
      const sequences = new Set(terminal.screen.match(/(?!\s)\p{Cc}[^a-zA-Z]*[a-zA-Z]/gu) ?? []);
      const drawn = name === "TERM=dumb" ? [] : ["\x1b[?2004h"];
      const dimmed = name === "coloured" ? ["\x1b[2m", "\x1b[22m"] : [];
      assert.deepEqual(sequences, new Set([...drawn, ...dimmed]));
    },
  );
});

Deno.test("Ctrl-C in the middle of text ends the model's request, and the chat goes on with what was said", async () => {
  const held = new Held();
  await using scene = await ChatScene.start([() => held.response, saying("Again.")]);
  const { terminal } = scene;
  await terminal.type("hello\n");
  await held.send(START + chunk({ content: "Half a" }));
  await terminal.shows("Half a");
  await terminal.type("ahead\x03");
  await terminal.shows(`Half a\r\n${STOPPED}${WAS_STOPPED}`);
  await within("end of the request", held.cancelled);
  assert.deepEqual(lastEnd(scene), INTERRUPTED);
  await terminal.type("more\n");
  await terminal.shows("> more\r\nAgain.\r\n> ");
  assert.deepEqual(scene.sent(), ["user: hello", "assistant: Half a", "user: more"]);
  await terminal.type("\x04");
  assert.equal(await terminal.ends(), 0);
});

Deno.test("Ctrl-C before the model's first word stops the turn too", async () => {
  const held = new Held();
  await using scene = await ChatScene.start([() => held.response, saying("Again.")]);
  const { terminal } = scene;
  await terminal.type("hello\n");
  await until("the request", () => scene.llama.requests.length === 1);
  await terminal.shows("session chat-");
  await terminal.type("\x03");
  await terminal.shows(STOPPED + WAS_STOPPED);
  await within("end of the request", held.cancelled);
  await terminal.type("more\n");
  await terminal.shows("Again.\r\n> ");
});

Deno.test("Ctrl-C in the middle of a tool call: the call runs to its end and is recorded, the chat goes on at once", async () => {
  await using scene = await ChatScene.start([READ, saying("Again."), READ, saying("Read.")]);
  const { terminal, runtime } = scene;
  await terminal.type("read\n");
  const run = await scene.run(0);
  await terminal.shows('[call] read_file {"path":"/n/a"}\r\n');
  await terminal.type("\x03");
  const where = () => `bxctl audit log --session ${scene.session}`;
  await terminal.shows("bxctl: the turn was stopped\r\n> ");
  const told = `${STOPPED}[stopped] read_file what came of it: ${where()}\r\n${WAS_STOPPED}`;
  assert.ok(terminal.screen.endsWith(told), terminal.screen);
  assert.deepEqual(lastEnd(scene), INTERRUPTED);
  assert.deepEqual(scene.events().map(({ type }) => type), ["decision"], "it runs");
  await terminal.type("go on\n");
  await terminal.shows("Again.\r\n> ");
  assert.match(scene.sent()[2] ?? "", /^tool: Unknown: the turn was interrupted before the result/);

  run.end(CONTENT);
  await until("its record", () => scene.events().length === 2);
  const words = ["audit", "log", "--session", scene.session];
  const listed = await runCtl(scene.home.layout.home, words);
  assert.match(listed.stdout, /^0 {2}.* {2}result {2}not asked {2}.* {2}read_file "\/n\/a"\n$/);
  // The same call, left alone, comes back.
  runtime.outcome = CONTENT;
  await terminal.type("read\n");
  await terminal.shows("[result] read_file the content\r\nRead.\r\n> ");
});

Deno.test("Ctrl-C at the question takes the call back: nobody can approve it, and nothing ran", async () => {
  await using scene = await ChatScene.start([WRITE, saying("Again."), WRITE, saying("Written.")]);
  const { terminal, runtime } = scene;
  runtime.outcome = CONTENT;
  await terminal.type("write\n");
  await terminal.shows("approve 0? [y/N] ");
  await terminal.type("y\x03");
  await terminal.shows(`approve 0? [y/N] \r\n${STOPPED}`);
  await terminal.shows(WAS_STOPPED);
  assert.ok(terminal.screen.includes("[stopped] write_file what came of it: "), terminal.screen);
  const { home } = scene.home.layout;
  await until(
    "the end of the wait",
    async () => JSON.parse((await runCtl(home, ["approvals", "--json"])).stdout).length === 0,
  );
  assert.equal((await runCtl(home, ["approve", "0"])).code, 1);
  assert.deepEqual(scene.events().map(({ type }) => type), ["decision"]);
  assert.deepEqual(runtime.runs, []);
  await terminal.type("go on\n");
  await terminal.shows("Again.\r\n> ");
  // The same call, approved, runs.
  await terminal.type("write\n");
  await terminal.shows("approve 1? [y/N] ");
  await terminal.type("y\n");
  await terminal.shows("approved 1: runs\r\n[result] write_file the content\r\nWritten.\r\n> ");
});

Deno.test("at the prompt Ctrl-C gives up the line, and ends the chat where there is none", async () => {
  await using scene = await ChatScene.start([saying("Yes.")]);
  const { terminal } = scene;
  await terminal.type("not this");
  await terminal.shows("> not this");
  await terminal.type("\x03");
  await terminal.shows("> not this^C\r\n> ");
  await terminal.type("this\n");
  await terminal.shows("Yes.\r\n> ");
  assert.deepEqual(scene.sent(), ["user: this"]);
  await terminal.type("\x03");
  assert.equal(await terminal.ends(), 130);
  assert.ok(terminal.screen.endsWith("> ^C\r\n\x1b[?2004l"), JSON.stringify(terminal.screen));
});

Deno.test("arrows, editing, pastes and wide characters make the messages that they show", async () => {
  const replies = Array.from({ length: 5 }, (_, n) => saying(`Answer ${n}.`));
  await using scene = await ChatScene.start(replies);
  const { terminal } = scene;
  const send = async (typed: string, answer: number) => {
    await terminal.type(typed);
    await terminal.shows(`Answer ${answer}.\r\n> `);
    return scene.sent().at(-1)?.replace(/^user: /, "");
  };
  assert.equal(await send("helo\x1b[Dl\x1b[H>\x1b[F!\r", 0), ">hello!");
  assert.equal(await send("\x1b[A\x17again\r", 1), "again");
  assert.equal(await send("\x1b[A\x1b[A\x1b[A\x1b[B\x1b[A 2\x01\x04\r", 2), "hello! 2");
  const pasted = "\x1b[200~one\r\ntwo\r\n\x1b[31m\ttab\x1b[201~";
  assert.equal(await send(`${pasted}\r`, 3), "one\ntwo\n\x1b[31m\ttab");
  assert.ok(terminal.screen.includes("> one\r\ntwo\r\n\\u001b[31m    tab\r\n"), terminal.screen);
  assert.equal(await send("漢字\x7f语\x02\x02🥛\r", 4), "🥛漢语");
});

Deno.test("a terminal that changes its size while a line is typed shows the line in its new width", async () => {
  const shell = "stty cols 60 rows 20; echo on $(tty).; exec $BXCTL";
  await using scene = await ChatScene.start([saying("Yes.")], { shell });
  const { terminal } = scene;
  const [, device = ""] = /on (\S+)\.\r\n/.exec(terminal.screen) ?? [];
  const text = "x".repeat(40);
  await terminal.type(text);
  await terminal.shows(`> ${text}`);
  const { success } = await new Deno.Command("stty", { args: ["-F", device, "cols", "30"] })
    .output();
  assert.ok(success);
  await terminal.shows(`\r\x1b[J> ${"x".repeat(27)}\r\n${"x".repeat(13)}`);
  await terminal.type("y\r");
  await terminal.shows("Yes.\r\n> ");
  assert.deepEqual(scene.sent(), [`user: ${text}y`]);
});
