/** `bxctl approvals --watch` in this process: what is left of the terminal where something goes wrong. */
import assert from "node:assert/strict";
import { Admin } from "../../ctl/admin.ts";
import { OutputGone } from "../../ctl/io.ts";
import type { Source } from "../../ctl/keyboard.ts";
import { watchApprovals } from "../../ctl/watch.ts";
import { STALE_MS } from "../../ctl/watch_state.ts";
import { until } from "../support/broker.ts";
import { CtlHome, Recorder } from "../support/ctl.ts";
import { FakeBroker, pending } from "../support/daemons.ts";

const GIVEN_BACK = "\x1b[?2004l\x1b[?25h\x1b[?1049l";

/** A keyboard on which the test types. */
class Keys implements Source {
  /** Whether the terminal gives out each key, after each change. */
  readonly raw: boolean[] = [];
  #next = Promise.withResolvers<string | null>();

  async read(buffer: Uint8Array): Promise<number | null> {
    const typed = await this.#next.promise;
    this.#next = Promise.withResolvers();
    return typed === null ? null : new TextEncoder().encodeInto(typed, buffer).written;
  }

  isTerminal(): boolean {
    return true;
  }

  setRaw(on: boolean): void {
    this.raw.push(on);
  }

  /** null: the terminal goes away. */
  type(text: string | null): void {
    this.#next.resolve(text);
  }
}

/** A terminal whose output breaks once `broken` is set. */
class Output extends Recorder {
  broken: Error | null = null;

  constructor() {
    super({ terminal: true });
  }

  override answer(text: string): void {
    if (this.broken !== null) throw this.broken;
    super.answer(text);
  }
}

class Bench implements Disposable {
  readonly #home = new CtlHome();
  readonly broker = new FakeBroker(this.#home.layout.adminSocket);
  readonly io = new Output();
  readonly keys = new Keys();
  readonly stop = new AbortController();
  readonly admin = new Admin(this.#home.layout.adminSocket);

  watch(): Promise<number> {
    return watchApprovals(this.admin, this.io, this.keys, false, this.stop.signal);
  }

  [Symbol.dispose](): void {
    this.broker[Symbol.dispose]();
    this.#home[Symbol.dispose]();
  }
}

Deno.test("a terminal that goes away, and a stop, end the watch", async () => {
  const ends: Readonly<Record<string, (bench: Bench) => void>> = {
    "the end of its input": ({ keys }) => keys.type(null),
    "a stop": ({ stop }) => stop.abort(),
    q: ({ keys }) => keys.type("q"),
  };
  for (const [name, end] of Object.entries(ends)) {
    using bench = new Bench();
    bench.broker.items = [pending()];
    const watching = bench.watch();
    await until("the list", () => bench.io.out.includes("> 41"));
    end(bench);
    assert.equal(await watching, 0, name);
    assert.deepEqual(bench.keys.raw, [true, false], name);
    assert.ok(bench.io.out.endsWith(GIVEN_BACK), name);
    assert.equal(bench.io.err, "", name);
    assert.deepEqual(bench.broker.answers, [], name);
  }
});

Deno.test("a key that comes with others answers nothing: it was pasted, or the terminal's own", async () => {
  using bench = new Bench();
  bench.broker.items = [pending()];
  const watching = bench.watch();
  await until("the second is over", () => bench.io.out.includes("a: approve"));
  bench.keys.type("ab");
  // More than brokerd is given to be asked once more and answered.
  await new Promise((resolve) => setTimeout(resolve, 700));
  assert.deepEqual(bench.broker.answers, []);
  assert.ok(bench.io.out.includes("several keys at once"));
  await new Promise((resolve) => setTimeout(resolve, 500));
  bench.keys.type("a");
  await until("the answer", () => bench.broker.answers.length > 0);
  bench.keys.type("q");
  await watching;
});

Deno.test("after an answer that took long brokerd is asked again before its list is too old", async () => {
  using bench = new Bench();
  const asked: number[] = [];
  bench.admin.waiting = async () => {
    asked.push(performance.now());
    if (asked.length === 1) await new Promise((resolve) => setTimeout(resolve, 1500));
    return [];
  };
  const watching = bench.watch();
  await until("the next question", () => asked.length > 1);
  const [first = 0, second = 0] = asked;
  assert.ok(second - first - 1500 < STALE_MS, `after ${second - first} ms`);
  bench.keys.type("q");
  await watching;
});

Deno.test("an error that nobody thought of gives the terminal back, and is told by the caller", async () => {
  using bench = new Bench();
  const error = new Error("unthought of");
  bench.admin.waiting = () => Promise.reject(error);
  await assert.rejects(bench.watch(), error);
  assert.deepEqual(bench.keys.raw, [true, false]);
  assert.ok(bench.io.out.endsWith(GIVEN_BACK));
});

Deno.test("an output that breaks ends the watch, and the keys are given back", async () => {
  using bench = new Bench();
  const watching = bench.watch();
  await until("the list", () => bench.io.out.includes("no approvals are pending"));
  bench.io.broken = new OutputGone("stdout");
  bench.broker.items = [pending()];
  await assert.rejects(watching, OutputGone);
  assert.deepEqual(bench.keys.raw, [true, false]);
});

Deno.test("who ends it while an answer is under way is told where to look", async () => {
  using bench = new Bench();
  bench.broker.items = [pending()];
  const sent = Promise.withResolvers<void>();
  bench.admin.approve = () => {
    sent.resolve();
    return new Promise(() => {});
  };
  const watching = bench.watch();
  await until("a call that may be approved", () => bench.io.out.includes("a: approve"));
  bench.keys.type("a");
  await sent.promise;
  await until("a word on it", () => bench.io.out.includes("approving 41"));
  bench.keys.type("q");
  assert.equal(await watching, 0);
  assert.equal(
    bench.io.err,
    "bxctl: approval 41 was being answered, and its outcome is not known\n" +
      "bxctl: see bxctl audit show 41\n",
  );
});

Deno.test("a denial at the approval is said in a line, and the watch goes on", async () => {
  using bench = new Bench();
  bench.broker.items = [pending(), pending({ approval: 42, session: "s2" })];
  bench.broker.outcome = { outcome: "denied", reason: "taint_too_high" };
  const watching = bench.watch();
  await until("a call that may be approved", () => bench.io.out.includes("a: approve"));
  bench.keys.type("a");
  await until(
    "what came of it",
    () => bench.io.out.includes("approved 41: denied (taint_too_high)"),
  );
  await until("the next one", () => bench.io.out.includes("> 42"));
  bench.keys.type("q");
  assert.equal(await watching, 0);
  assert.deepEqual(bench.broker.answers.map(({ body }) => body), [{ approval: 41 }]);
});
