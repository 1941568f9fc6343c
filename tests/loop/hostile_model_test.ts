/**
 * A hostile model through the real three programs, each under its own flags: whatever it writes, its turn
 * ends, a chat beside it is served, and no byte that any program wrote can reach into a terminal.
 */
import assert from "node:assert/strict";
import { prepareHome, TempHome } from "../../scripts/support/home.ts";
import { Stack } from "../../scripts/support/stack.ts";
import { recordsIn } from "../../scripts/support/story.ts";
import { ask, namesOf, until } from "../support/broker.ts";
import { runCtl, Terminal } from "../support/ctl.ts";
import {
  besideGoodChats,
  HIDDEN_BUT_NEWLINE,
  HostileLlama,
  lastOf,
} from "../support/hostile_llama.ts";
import { OK } from "../support/hostile_answers.ts";
import { HIDDEN, modelCases, PAYLOADS } from "../support/hostile_words.ts";
import { calling, saying } from "../support/llama.ts";
import { runs } from "../support/long.ts";
import { OpenTurn } from "../support/loop.ts";

/** What a program wrote, as the bytes came to text: nothing in it hides, and all of it was UTF-8. */
function shows(what: string, written: string, layout = /\n/g): void {
  const rest = written.replace(layout, "");
  const [found] = HIDDEN_BUT_NEWLINE.exec(rest) ?? [];
  const place = found === undefined
    ? ""
    : rest.slice(Math.max(0, rest.indexOf(found) - 80)).slice(0, 160);
  assert.equal(
    found,
    undefined,
    `${what} wrote ${JSON.stringify(found)} in ${JSON.stringify(place)}`,
  );
}

const TEXT = /[\n\t]/g;

Deno.test("whatever a model writes, its turn ends, and nothing of it reaches a terminal or a log raw", async (t) => {
  using temp = new TempHome("test", false);
  const home = prepareHome(temp.path, ["notes-read"]);
  const cases = modelCases();
  const names = Object.keys(cases);
  // In the usual run each goes one of two ways out, and some go the third: the escaping is the same.
  const onPipes = names.filter((_, index) => index % runs(3, 1) !== 1);
  const asJson = names.filter((_, index) => index % runs(3, 1) === runs(1, 0));
  const onScreen = names.filter((_, index) => index % runs(5, 1) === 0);
  assert.equal(new Set([...onPipes, ...asJson]).size, names.length);
  await using llama = new HostileLlama(async (request, wire) => {
    const { role, content } = lastOf(request);
    const asked = role === "user" ? cases[content] : undefined;
    const waits = role === "user" ? PAYLOADS[content.replace("waits: ", "")] : undefined;
    if (asked !== undefined) await wire.send(OK + asked);
    else if (waits !== undefined) {
      // What a path may not have would be no call that waits.
      const name = waits.replaceAll(/[/\0]/g, "_");
      await wire.send(OK + calling("read_file", { path: `${home.notes}/${name}` }));
    } else await wire.send(OK + saying(role === "user" ? "good" : "the end"));
  });
  const heard: string[] = [];
  await using stack = new Stack({ home, llama: llama.url, heard: (line) => heard.push(line) });
  await stack.start();
  const { loopSocket, adminSocket } = home.layout;
  const ctl = async (...args: string[]) => {
    const ran = await runCtl(home.path, args);
    shows(`bxctl ${args.join(" ")}: stdout`, ran.stdout, TEXT);
    shows(`bxctl ${args.join(" ")}: stderr`, ran.stderr);
    return ran;
  };

  /** How many turns of `session` have ended. */
  const ended = (session: string) => {
    const directory = home.layout.loopSessions;
    if (!namesOf(directory).includes(`${session}.jsonl`)) return 0;
    const lines = Deno.readTextFileSync(`${directory}/${session}.jsonl`).split("\n");
    return lines.filter((line) => line.startsWith('{"type":"end",')).length;
  };

  await besideGoodChats(loopSocket, async () => {
    await t.step("in a chat on pipes", async () => {
      const { code, stdout, stderr } = await runCtl(home.path, ["chat", "--session=pipes"], {
        stdin: onPipes.join("\n") + "\ngood\n",
      });
      assert.equal(code, 0);
      shows("a chat: stdout", stdout, TEXT);
      shows("a chat: stderr", stderr);
      assert.equal(ended("pipes"), onPipes.length + 1);
      assert.match(stdout, /\ngood\n$/);
      for (
        const form of ["\\u001b]52;", "\\u009b", "\\u202e", "\\u{e0041}", "\\u2028", "\\u000d"]
      ) {
        assert(stdout.includes(form), form);
      }
    });

    await t.step("in a chat with --json", async () => {
      const { stdout, stderr } = await runCtl(home.path, ["chat", "--json", "--session=json"], {
        stdin: asJson.join("\n") + "\ngood\n",
      });
      shows("a chat: stdout", stdout);
      shows("a chat: stderr", stderr);
      const events = stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
      const ends = events.filter(({ type }) => type === "done" || type === "failed");
      assert.equal(ends.length, asJson.length + 1);
      assert.deepEqual(ends.at(-1), { type: "done" });
      // What the model wrote is in there, whole.
      const texts = new Set(Object.values(PAYLOADS));
      assert(events.some(({ type, text }) => type === "text" && texts.has(text)));
    });

    await t.step(
      "in a chat on a terminal, and nothing that looks like an answer is taken for one",
      async () => {
        await using terminal = new Terminal(home.path, ["chat", "--session=screen"], {
          options: { env: { NO_COLOR: "1" } },
        });
        await terminal.shows("> ");
        for (const [index, name] of onScreen.entries()) {
          await terminal.type(`${name}\n`);
          await until(`end of ${name}`, () => ended("screen") > index);
        }
        await terminal.type("good\n");
        await terminal.shows("> good\r\ngood\r\n> ");
        // bxctl's own: pastes are to come in marks.
        const written = terminal.screen.replace("\x1b[?2004h", "");
        shows("a chat on a terminal", written, /[\n\t]|\r(?=\n)/g);
      },
    );

    await t.step("with --say", async () => {
      for (const name of names.filter((_, index) => index % runs(40, 10) === 0)) {
        await ctl("chat", `--say=${name}`);
        await ctl("chat", `--say=${name}`, "--json");
      }
    });

    await t.step("while calls wait for the owner", async () => {
      using turns = new DisposableStack();
      for (const name of Object.keys(PAYLOADS)) {
        turns.use(await OpenTurn.start(loopSocket, null, `waits: ${name}`));
      }
      const waiting = async () => {
        const answers = await ask(adminSocket, "approvals", {});
        return answers.flatMap(({ kind, body }) => kind === "approval_list" ? body.items : []);
      };
      const all = Object.keys(PAYLOADS).length;
      await until(`${all} waiting calls`, async () => (await waiting()).length === all);
      await ctl("approvals");
      const { stdout } = await ctl("approvals", "--json");
      assert.match(stdout, HIDDEN);
      for (const { approval } of (await waiting()).slice(0, 3)) {
        await ctl("approvals", "show", String(approval));
        await ctl("approvals", "show", String(approval), "--json");
        await ctl("refuse", String(approval));
      }
    });
  });
  await ctl("audit", "verify");
  await ctl("audit", "verify", "--json");
  shows("a daemon", heard.join("\n"));
  assert.doesNotMatch(heard.join("\n"), /internal error/);
  assert.deepEqual(stack.daemons.map(({ name }) => name), ["brokerd", "loopd"]);
  const answers = recordsIn(home.layout.audit).flatMap(({ event }) =>
    event.type === "approval" ? [event.answer] : []
  );
  assert.deepEqual([...new Set(answers)], ["refused"]);
  temp.done();
});
