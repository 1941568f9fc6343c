import assert from "node:assert/strict";
import { Keyboard, type Source } from "../../ctl/keyboard.ts";

const pure = { permissions: "none" } as const;

/**
 * A terminal's input as the kernel keeps it: a line is there to be read after its Enter, or at once when
 * raw. `null` in what is typed is Ctrl-D.
 */
class FakeTerminal implements Source {
  raw = false;
  /** Every change of the mode. */
  readonly modes: boolean[] = [];
  /** Runs when the mode is set to raw, as what is typed meanwhile. */
  whileRaw: () => void = () => {};
  #typed: (number | null)[] = [];
  #wake: () => void = () => {};
  readonly #terminal: boolean;

  constructor(terminal = true) {
    this.#terminal = terminal;
  }

  type(...typed: (string | null | Uint8Array)[]): void {
    for (const part of typed) {
      if (part === null) this.#typed.push(null);
      else this.#typed.push(...typeof part === "string" ? new TextEncoder().encode(part) : part);
    }
    this.#wake();
  }

  isTerminal(): boolean {
    return this.#terminal;
  }

  setRaw(on: boolean): void {
    this.raw = on;
    this.modes.push(on);
    if (on) this.whileRaw();
    this.#wake();
  }

  async read(buffer: Uint8Array): Promise<number | null> {
    while (true) {
      const end = this.raw
        ? this.#typed.length
        : this.#typed.findIndex((byte) => byte === null || byte === 0x0a) + 1;
      if (end > 0) {
        const bytes = this.#typed.splice(0, end).filter((byte) => byte !== null);
        buffer.set(bytes);
        return bytes.length === 0 ? null : bytes.length;
      }
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }
}

const line = (text: string) => ({ kind: "line", text });

Deno.test(
  "lines come one by one, the last one without its newline, then the end for good",
  pure,
  async () => {
    const source = new FakeTerminal(false);
    const keyboard = new Keyboard(source);
    source.type("one\ntwo\n", "", "three", null, null, null);
    assert.deepEqual(await keyboard.line(), line("one"));
    assert.deepEqual(await keyboard.line(), line("two"));
    assert.deepEqual(await keyboard.line(), line("three"));
    assert.deepEqual(await keyboard.line(), { kind: "end" });
    source.type("more\n");
    assert.deepEqual(await keyboard.line(), { kind: "end" });
  },
);

Deno.test("a terminal goes on after Ctrl-D", pure, async () => {
  const source = new FakeTerminal();
  const keyboard = new Keyboard(source);
  source.type(null, "more\n");
  assert.deepEqual(await keyboard.line(), { kind: "end" });
  assert.deepEqual(await keyboard.line(), line("more"));
});

Deno.test("a line that is not UTF-8 is told apart", pure, async () => {
  const source = new FakeTerminal(false);
  source.type(new Uint8Array([0xff, 0x0a]), "é\n");
  const keyboard = new Keyboard(source);
  assert.deepEqual(await keyboard.line(), { kind: "not_utf8" });
  assert.deepEqual(await keyboard.line(), line("é"));
});

Deno.test("what was typed before is forgotten: lines, the begun one and Ctrl-D", pure, async () => {
  for (const early of [["y\n"], ["y"], ["y\ny\ny"], [null], ["a\n", null, null, "y\n"]]) {
    const source = new FakeTerminal();
    const keyboard = new Keyboard(source, 1);
    source.type(...early);
    assert.equal(await keyboard.discard(), early[0] !== null || early.length > 1);
    assert.deepEqual([source.modes.includes(true), source.raw], [true, false]);
    source.type("n\n");
    assert.deepEqual(await keyboard.line(), line("n"), JSON.stringify(early));
  }
});

Deno.test(
  "more ends than anybody types are the end, and what comes after them no answer",
  pure,
  async () => {
    const source = new FakeTerminal();
    const keyboard = new Keyboard(source, 1);
    source.type(...new Array(16).fill(null), "y\n");
    await keyboard.discard();
    assert.deepEqual(await keyboard.line(), { kind: "end" });
  },
);

Deno.test("a line that was read but not used yet is forgotten too", pure, async () => {
  const source = new FakeTerminal(false);
  source.type("one\ntwo\n");
  const keyboard = new Keyboard(source, 1);
  source.raw = true; // one read takes both
  assert.deepEqual(await keyboard.line(), line("one"));
  source.raw = false;
  assert.equal(await keyboard.discard(), true);
  source.type("three\n");
  assert.deepEqual(await keyboard.line(), line("three"));
});

Deno.test("nothing typed is nothing forgotten, and what follows is kept", pure, async () => {
  const source = new FakeTerminal();
  const keyboard = new Keyboard(source, 1);
  assert.equal(await keyboard.discard(), false);
  source.type("y\n");
  assert.deepEqual(await keyboard.line(), line("y"));
});

Deno.test("what is typed while it is being quiet counts as too early", pure, async () => {
  const source = new FakeTerminal();
  const keyboard = new Keyboard(source, 1);
  source.whileRaw = () => {
    source.whileRaw = () => {};
    source.type("y\r");
  };
  assert.equal(await keyboard.discard(), true);
  source.type("n\n");
  assert.deepEqual(await keyboard.line(), line("n"));
});

Deno.test(
  "waiting for a line can be given up, and the line then goes to whoever waits next",
  pure,
  async () => {
    const source = new FakeTerminal();
    const keyboard = new Keyboard(source, 1);
    const until = new AbortController();
    const waiting = keyboard.line(until.signal);
    until.abort();
    assert.deepEqual(await waiting, { kind: "withdrawn" });
    assert.deepEqual(await keyboard.line(until.signal), { kind: "withdrawn" });
    source.type("next\n");
    assert.deepEqual(await keyboard.line(), line("next"));
  },
);

Deno.test(
  "a terminal that fails is at its end, and its mode is left alone",
  pure,
  async () => {
    const modes: boolean[] = [];
    const source: Source = {
      read: () => Promise.reject(new Error("input/output error")),
      isTerminal: () => true,
      setRaw: (on) => modes.push(on),
    };
    const keyboard = new Keyboard(source, 1);
    assert.deepEqual(await keyboard.line(), { kind: "end" });
    assert.equal(await keyboard.discard(), false);
    assert.deepEqual(await keyboard.line(), { kind: "end" });
    assert.deepEqual(modes, []);
  },
);
