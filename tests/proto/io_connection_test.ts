import assert from "node:assert/strict";
import { FrameConnection, type Received } from "../../proto/io/connection.ts";
import { utf8 } from "../../proto/text.ts";
import { DEADLINE_MS, within } from "../support/broker.ts";

const MOST = 10;

/** Both ends of a connection: plain bytes on one, lines of at most `MOST` bytes on the other. */
class Pair implements Disposable {
  private constructor(
    readonly root: string,
    readonly far: Deno.UnixConn,
    readonly near: FrameConnection,
  ) {}

  static async open(): Promise<Pair> {
    const root = Deno.makeTempDirSync({ prefix: "boxmaker-io-" });
    const path = `${root}/a.sock`;
    using listener = Deno.listen({ transport: "unix", path });
    const [far, accepted] = await Promise.all([
      Deno.connect({ transport: "unix", path }),
      listener.accept(),
    ]);
    return new Pair(root, far, new FrameConnection(accepted, MOST));
  }

  async write(text: string): Promise<void> {
    const bytes = utf8(text);
    for (let at = 0; at < bytes.length;) at += await this.far.write(bytes.subarray(at));
  }

  [Symbol.dispose](): void {
    this.near.close();
    this.far.close();
    Deno.removeSync(this.root, { recursive: true });
  }
}

function shown(received: Received): string {
  return received.status === "line" ? new TextDecoder().decode(received.bytes) : received.status;
}

/** Status words and lines, in turn, of `count` readings. */
async function readings(pair: Pair, count: number): Promise<string[]> {
  const found: string[] = [];
  for (let n = 0; n < count; n += 1) found.push(shown(await pair.near.receive(DEADLINE_MS)));
  return found;
}

Deno.test("lines come one by one, however they were sent", async () => {
  using pair = await Pair.open();
  await pair.write("a\n\nbc\nd");
  assert.deepEqual(await readings(pair, 3), ["a", "", "bc"]);
  await pair.write("e\n");
  assert.deepEqual(await readings(pair, 1), ["de"]);
});

Deno.test("the limit counts the newline", async () => {
  for (const [line, answer] of [["123456789", "123456789"], ["1234567890", "too_large"]]) {
    using pair = await Pair.open();
    await pair.write(`${line}\n`);
    assert.deepEqual(await readings(pair, 1), [answer]);
  }
});

Deno.test("an unfinished line is too large once its newline would not fit", async () => {
  using fits = await Pair.open();
  await fits.write("123456789");
  assert.deepEqual(await fits.near.receive(50), { status: "timeout" });
  using full = await Pair.open();
  await full.write("1234567890");
  assert.deepEqual(await readings(full, 1), ["too_large"]);
});

Deno.test("a connection that ended is gone, with an unfinished line too", async () => {
  for (const part of ["", "abc"]) {
    using pair = await Pair.open();
    await pair.write(part);
    await pair.far.closeWrite();
    assert.deepEqual(await readings(pair, 2), ["gone", "gone"]);
  }
});

Deno.test("a line that stands there before the end is read first", async () => {
  using pair = await Pair.open();
  await pair.write("a\nb\nc");
  await pair.far.closeWrite();
  assert.deepEqual(await readings(pair, 3), ["a", "b", "gone"]);
});

Deno.test("closing ends a reading that waits, and may be done twice", async () => {
  using pair = await Pair.open();
  const waiting = pair.near.receive(DEADLINE_MS);
  pair.near.close();
  pair.near.close();
  assert.deepEqual(await within("end of the reading", waiting), { status: "gone" });
  assert.equal(await pair.near.sendBytes(utf8("a\n"), DEADLINE_MS), false);
});

Deno.test("whenGone waits for the end, whatever is sent before it", async () => {
  using pair = await Pair.open();
  let gone = false;
  const end = pair.near.whenGone().then(() => gone = true);
  await pair.write("a\nb".repeat(100));
  await Promise.resolve();
  assert.equal(gone, false);
  await pair.far.closeWrite();
  await within("end of the connection", end);
});

Deno.test("what nobody reads is given up in time, and the connection with it", async () => {
  using pair = await Pair.open();
  assert.equal(await pair.near.sendBytes(new Uint8Array(4_000_000), 50), false);
  assert.deepEqual(await within("end of the reading", pair.near.receive(DEADLINE_MS)), {
    status: "gone",
  });
});

Deno.test("a time to wait longer than a timer can hold is long, not over at once", async () => {
  using pair = await Pair.open();
  const line = pair.near.receive(2 ** 31 + 30_000);
  assert.deepEqual(await pair.near.receive(20), { status: "timeout" }, "meanwhile the first waits");
  await pair.far.closeWrite();
  assert.deepEqual(await within("end of the reading", line), { status: "gone" });
});
