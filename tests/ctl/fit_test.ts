/** Lines that fit a terminal: by themselves, and on one. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { check, checkLines, hangOfChecks } from "../../ctl/checks.ts";
import { cut, hangOf, widthOf, wrapped } from "../../ctl/fit.ts";
import { hangOfHelp, helpText } from "../../ctl/help.ts";
import { CtlHome, runCtl, Terminal } from "../support/ctl.ts";
import { FakeBroker, FakeLoop, pending, playing } from "../support/daemons.ts";
import { ALLOWED, decided, DecidedHome } from "../support/decided_log.ts";
import { runs } from "../support/long.ts";

const pure = { permissions: "none" } as const;

Deno.test("the width is what the terminal says, and never below 40", pure, () => {
  assert.equal(widthOf(0), null);
  assert.equal(widthOf(132), 132);
  assert.equal(widthOf(10), 40);
});

Deno.test("a line is cut where it does not fit, and says so", pure, () => {
  assert.equal(cut("abcdef", null), "abcdef");
  assert.equal(cut("abcdef", 6), "abcdef");
  assert.equal(cut("abcdef", 5), "abcd…");
  // Wide characters take two columns, combining ones none.
  assert.equal(cut("日本語", 6), "日本語");
  assert.equal(cut("日本語", 5), "日本…");
  assert.equal(cut("日本語", 4), "日…");
  assert.equal(cut("e\u0301e\u0301e\u0301", 3), "e\u0301e\u0301e\u0301");
  assert.equal(cut("😀😀", 3), "😀…");
});

Deno.test("a long line goes on indented, after a space where there is one", pure, () => {
  assert.deepEqual(wrapped("one two three four", null), ["one two three four"]);
  assert.deepEqual(wrapped("one two three four", 12), ["one two ", "    three ", "    four"]);
  assert.deepEqual(wrapped("  one two three four", 14), [
    "  one two ",
    "      three ",
    "      four",
  ]);
  assert.deepEqual(wrapped("abcdefghijklmnop", 10), ["abcdefghij", "    klmnop"]);
  assert.deepEqual(wrapped(`${" ".repeat(30)}abcdef`, 32), [
    `${" ".repeat(30)}ab`,
    `${" ".repeat(16)}cdef`,
  ]);
});

Deno.test("a broken line fits, and nothing of it is lost", () => {
  const character = fc.constantFrom("a", "b", " ", "-", "日", "😀", "\u0301", "é");
  const property = fc.property(
    fc.string({ unit: character, maxLength: 300 }),
    fc.integer({ min: 40, max: 100 }),
    (line, width) => {
      const [first = "", ...more] = wrapped(line, width);
      const indent = " ".repeat(Math.min(hangOf(line), Math.floor(width / 2)));
      for (const part of [first, ...more]) assert.equal(cut(part, width), part);
      for (const part of more) assert.ok(part.startsWith(indent));
      assert.equal([first, ...more.map((part) => part.slice(indent.length))].join(""), line);
    },
  );
  fc.assert(property, { numRuns: runs(300, 20_000) });
});

Deno.test("help goes on under what it says of an option", pure, () => {
  const [line = ""] = helpText("refuse").split("\n").filter((line) => line.includes("--json"));
  assert.deepEqual(wrapped(line, 60, hangOfHelp(line)), [
    "  --json               print JSON: one document; one a line ",
    "                       for the events of chat and for calls",
  ]);
});

Deno.test("a check goes on under its words, where no other check could stand", pure, () => {
  const said = `a daemon says${" ".repeat(60)}ok       home   right`;
  const checks = [check("grants", "wrong", said, `${"x".repeat(50)} and more`)];
  const hang = hangOfChecks(checks);
  const lines = checkLines(checks).flatMap((line) => wrapped(line, 60, hang(line)));
  const [first = "", ...more] = lines;
  assert.match(first, /^wrong {4}grants {2}a daemon says/);
  assert.equal(more.pop(), "1 wrong");
  for (const line of more) assert.match(line, /^ {17}/);
  for (const line of lines) assert.ok(line.length <= 60, line);
});

/** What `words` show on a terminal of so many columns. */
async function onTerminal(
  home: string,
  words: readonly string[],
  columns: number,
): Promise<string[]> {
  const shell = `stty cols ${columns} rows 24; exec $BXCTL`;
  await using terminal = new Terminal(home, words, { shell });
  assert.equal(await terminal.ends(), 0, terminal.screen);
  return terminal.screen.trimEnd().split("\r\n");
}

Deno.test("on a terminal a waiting call goes on indented, where it could pass for another one", async () => {
  using home = new CtlHome();
  using broker = new FakeBroker(home.layout.adminSocket);
  const item = { created: "2000-01-01T00:00:00.000Z", expires: "2000-01-01T00:15:00.000Z" };
  // Spaces up to the terminal's edge, and then what looks like a call that is harmless.
  const padded = `${"x".repeat(10)}${" ".repeat(40)}42  0 sec ago  session s1`;
  broker.items = [pending({ ...item, arguments: padded })];
  const words = ["approvals"];
  const lines = await onTerminal(home.layout.home, words, 60);
  assert.equal(lines.join("").replace(/ +/g, " ").includes("session chat-1"), true);
  for (const line of lines) assert.ok(line.length <= 60, line);
  assert.ok(lines[0]?.startsWith("41  "), lines[0]);
  assert.deepEqual(lines.slice(1).filter((line) => !line.startsWith("    ")), []);
  assert.ok(lines.some((line) => /^ {8}.*42 {2}0 sec ago/.test(line)), lines.join("\n"));
  // What has room is not broken, and 40 columns are the least.
  const wide = await onTerminal(home.layout.home, words, 300);
  assert.deepEqual(wide.length, 2);
  const narrow = await onTerminal(home.layout.home, words, 5);
  assert.equal(Math.max(...narrow.map((line) => line.length)), 40);
  // Elsewhere lines stay whole.
  const piped = await runCtl(home.layout.home, words);
  assert.equal(piped.stdout.split("\n").length, 3);
});

Deno.test("in a chat too", async () => {
  using home = new CtlHome();
  using broker = new FakeBroker(home.layout.adminSocket);
  const padded = `${"x".repeat(10)}${" ".repeat(40)}42  0 sec ago  session s1`;
  const item = pending({ arguments: padded });
  broker.items = [item];
  const { approval, tool, expires } = item;
  using _loop = new FakeLoop(
    home.layout.loopSocket,
    playing({ type: "approval_pending", approval, tool, expires }, { type: "done" }),
  );
  const lines = await onTerminal(home.layout.home, ["chat", "--say", "hello"], 60);
  assert.ok(lines.some((line) => /^ {8}.*42 {2}0 sec ago/.test(line)), lines.join("\n"));
  const block = lines.slice(lines.findIndex((line) => line.startsWith("41  ")) + 1);
  const own = block.filter((line) => !line.startsWith("    "));
  assert.deepEqual(own, ["bxctl: approval 41 waits: bxctl approve 41, or bxctl refuse 41"]);
});

Deno.test("on a terminal the list of calls has a line a call, cut at its width", async () => {
  using home = new DecidedHome();
  const long = { arguments: JSON.stringify({ path: `/n/${"a".repeat(200)}` }) };
  home.log.add(decided(ALLOWED, null, long)).add(decided(ALLOWED, null));
  home.write();
  const words = ["audit", "log"];
  const lines = await onTerminal(home.layout.home, words, 72);
  const whole = (await runCtl(home.layout.home, words)).stdout.trimEnd().split("\n");
  assert.equal(whole.length, 2);
  assert.ok(whole[0]?.endsWith(`${"a".repeat(200)}"`));
  assert.deepEqual(lines, whole.map((line) => cut(line, 72)));
  assert.equal(lines[0]?.length, 72);
});

Deno.test("status and doctor fit a terminal", async () => {
  using home = new CtlHome();
  for (const words of [["status"], ["doctor"]]) {
    const shell = "stty cols 50 rows 24; exec $BXCTL";
    await using terminal = new Terminal(home.layout.home, words, { shell });
    assert.equal(await terminal.ends(), 1, terminal.screen);
    for (const line of terminal.screen.trimEnd().split("\r\n")) {
      assert.ok(line.length <= 50, line);
      assert.match(line, /^(?:ok|warning|wrong|unknown) | {4}|^\d+ (?:wrong|to look at|unknown)\b/);
    }
  }
});
