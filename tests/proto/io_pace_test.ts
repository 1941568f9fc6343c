import assert from "node:assert/strict";
import { ReadingShare, Turnstile } from "../../proto/io/pace.ts";

/** Whether `promise` is settled before anything that waits for a timer. */
async function isAtOnce(promise: Promise<void>): Promise<boolean> {
  let settled = false;
  void promise.then(() => settled = true);
  for (let n = 0; n < 10; n += 1) await Promise.resolve();
  return settled;
}

Deno.test("so many readings are free, the next ones wait, and time makes others free", async () => {
  const share = new ReadingShare();
  for (let n = 0; n < 64; n += 1) assert(await isAtOnce(share.next(1000)), `reading ${n}`);
  const late = share.next(1000);
  assert(!await isAtOnce(late));
  assert(await isAtOnce(share.next(1001)), "5 in a millisecond");
  await late;
  // What is not used is not saved up beyond that.
  for (let n = 0; n < 64; n += 1) assert(await isAtOnce(share.next(100_000)));
  const waiting = share.next(100_000);
  assert(!await isAtOnce(waiting));
  await waiting;
});

Deno.test("a turnstile lets through in order, the first one at once and the others one by one", async () => {
  const turnstile = new Turnstile();
  const order: number[] = [];
  const passes = [0, 1, 2].map((n) => turnstile.pass(1).then(() => void order.push(n)));
  assert.equal(turnstile.length, 3);
  const [first, second] = passes;
  assert(first && second);
  assert(await isAtOnce(first));
  assert(!await isAtOnce(second));
  await Promise.all(passes);
  assert.deepEqual(order, [0, 1, 2]);
  assert(turnstile.length >= 1, "the last one's pause is not over");
  const next = turnstile.pass(0);
  assert(!await isAtOnce(next));
  await next;
});
