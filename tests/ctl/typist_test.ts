/** Lines that are edited here: prompts, questions, what is typed ahead, and Ctrl-C. */
import assert from "node:assert/strict";
import { type Tty, Typist } from "../../ctl/typist.ts";
import { until } from "../support/broker.ts";

/** A terminal in raw mode: everything typed can be read at once. */
class FakeTty implements Tty {
  written = "";
  columns = 80;
  readonly modes: boolean[] = [];
  #typed: Uint8Array[] = [];
  #ended = false;
  #wake: () => void = () => {};
  /** Reads that were begun: when it grows, what came before has been taken. */
  reads = 0;

  type(text: string): void {
    this.#typed.push(new TextEncoder().encode(text));
    this.#wake();
  }

  hangUp(): void {
    this.#ended = true;
    this.#wake();
  }

  /** Types `text`, and waits until it was read. */
  async typed(text: string): Promise<void> {
    const before = this.reads;
    this.type(text);
    await until("a reading", () => this.reads > before);
  }

  async read(buffer: Uint8Array): Promise<number | null> {
    this.reads += 1;
    while (this.#typed.length === 0 && !this.#ended) {
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
    const bytes = this.#typed.shift();
    if (bytes === undefined) throw new Error("input/output error");
    buffer.set(bytes);
    return bytes.length;
  }

  setRaw(on: boolean): void {
    this.modes.push(on);
  }

  write(text: string): void {
    this.written += text;
  }

  size() {
    return { columns: this.columns, rows: 24 };
  }
}

function opened(): { tty: FakeTty; typist: Typist } {
  const tty = new FakeTty();
  const typist = new Typist(tty, 1);
  typist.open();
  tty.written = "";
  return { tty, typist };
}

const line = (text: string) => ({ kind: "line", text });
const never = new AbortController().signal;

Deno.test("a chat takes the terminal over and gives it back", () => {
  const tty = new FakeTty();
  const typist = new Typist(tty, 1);
  typist.open();
  assert.deepEqual([tty.modes, tty.written], [[true], "\x1b[?2004h"]);
  typist.close();
  assert.deepEqual([tty.modes, tty.written], [[true, false], "\x1b[?2004h\x1b[?2004l"]);
  typist.resumed();
  assert.deepEqual(tty.modes, [true, false, true]);
});

Deno.test("messages are typed after a prompt, in keys or in one paste, and the arrows bring them back", async () => {
  const { tty, typist } = opened();
  tty.type("helo\x1b[Dl\r");
  assert.deepEqual(await typist.message(), line("hello"));
  tty.type("\x1b[200~a\r\nb\r\x1b[201~\r");
  assert.deepEqual(await typist.message(), line("a\nb\n"));
  tty.type("  \r");
  assert.deepEqual(await typist.message(), line("  "), "nothing to keep");
  tty.type("\x1b[A\x1b[A\x1b[A!\r");
  assert.deepEqual(await typist.message(), line("hello!"));
  tty.type("draft\x1b[A\x1b[B?\r");
  assert.deepEqual(await typist.message(), line("draft?"));
});

Deno.test("what is typed as it comes is shown as it comes", async () => {
  const { tty, typist } = opened();
  const message = typist.message();
  await until("a prompt", () => tty.written === "> ");
  await tty.typed("h");
  await until("its echo", () => tty.written === "> h");
  await tty.typed("i\r");
  assert.deepEqual(await message, line("hi"));
  assert.equal(tty.written, "> hi\n");
});

Deno.test("Ctrl-C gives up a line that has something, and on an empty one it is told", async () => {
  const { tty, typist } = opened();
  let interrupts = 0;
  typist.interrupted = () => interrupts += 1;
  tty.type("not this");
  const message = typist.message();
  await until("the line", () => tty.written.endsWith("not this"));
  tty.type("\x03");
  await until("a new prompt", () => tty.written.endsWith("not this^C\n> "));
  tty.type("this\r");
  assert.deepEqual(await message, line("this"));
  const empty = typist.message();
  tty.type("\x03");
  assert.deepEqual(await empty, { kind: "interrupted" });
  assert.equal(interrupts, 0, "nobody else is told");
});

Deno.test("Ctrl-C while nothing is typed is told at once, and what was typed ahead is forgotten", async () => {
  const { tty, typist } = opened();
  let interrupts = 0;
  typist.interrupted = () => interrupts += 1;
  await tty.typed("ahead\r");
  await tty.typed("more\x03after\r");
  assert.equal(interrupts, 1);
  assert.deepEqual(await typist.message(), line("after"));
});

Deno.test("a Ctrl-C right behind the Enter is for the turn that the Enter began", async () => {
  const { tty, typist } = opened();
  tty.type("go\r\x03");
  const message = typist.message();
  assert.deepEqual(await message, line("go"));
  let interrupts = 0;
  typist.interrupted = () => interrupts += 1;
  assert.equal(interrupts, 1);
  tty.type("next\r");
  assert.deepEqual(await typist.message(), line("next"));
});

Deno.test("Ctrl-D ends the input on an empty line only, and a terminal that is gone ends it too", async () => {
  const { tty, typist } = opened();
  tty.type("ab\x01\x04\r");
  assert.deepEqual(await typist.message(), line("b"));
  tty.type("\x04");
  assert.deepEqual(await typist.message(), { kind: "end" });
  tty.type("on\r");
  assert.deepEqual(await typist.message(), line("on"), "a terminal goes on after Ctrl-D");
  tty.hangUp();
  assert.deepEqual(await typist.message(), { kind: "end" });
  assert.deepEqual(await typist.answer("? ", never), { kind: "end" });
  assert.equal(await typist.discard(), false);
});

Deno.test("a question has no history, takes no paste, and its Ctrl-C is the turn's", async () => {
  const { tty, typist } = opened();
  tty.type("y\r");
  assert.deepEqual(await typist.message(), line("y"));
  const withdrawn = new AbortController();
  typist.interrupted = () => withdrawn.abort();
  tty.written = "";
  tty.type("\x1b[A\x1b[200~y\n\x1b[201~n\x7fn\r");
  assert.deepEqual(await typist.answer("sure? ", withdrawn.signal), line("n"));
  assert.ok(tty.written.startsWith("sure? "), tty.written);
  const answer = typist.answer("sure? ", withdrawn.signal);
  tty.type("y\x03");
  assert.deepEqual(await answer, { kind: "withdrawn" });
  assert.deepEqual(await typist.answer("sure? ", withdrawn.signal), { kind: "withdrawn" });
});

Deno.test("what was typed too early is forgotten: lines, a begun one, a begun key, and more behind it", async () => {
  for (const early of ["y\r", "y", "y\ry\ry", "\x04", "\x1b[", "\x1b[200~y\r\x1b[201~y\r"]) {
    const { tty, typist } = opened();
    await tty.typed(early);
    tty.type(early);
    assert.equal(await typist.discard(), true, JSON.stringify(early));
    tty.type("n\r");
    assert.deepEqual(await typist.answer("? ", never), line("n"), JSON.stringify(early));
  }
  const { tty, typist } = opened();
  assert.equal(await typist.discard(), false);
  tty.type("y\r");
  assert.deepEqual(await typist.answer("? ", never), line("y"), "and what comes later is not");
});

Deno.test("a change of size draws the line again", async () => {
  const { tty, typist } = opened();
  const message = typist.message();
  tty.type("hello");
  await until("the line", () => tty.written.endsWith("hello"));
  tty.columns = 6;
  typist.resized();
  assert.ok(tty.written.endsWith("\x1b[1A\r\x1b[J> hel\nlo\r\x1b[2C"), JSON.stringify(tty.written));
  tty.type("\r");
  assert.deepEqual(await message, line("hello"));
  typist.resized();
});
