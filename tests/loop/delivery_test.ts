/** Handing on what arrives. */
import assert from "node:assert/strict";
import { Delivery } from "../../loop/delivery.ts";

function pure(name: string, fn: () => Promise<void>): void {
  Deno.test({ name, permissions: "none", fn });
}

pure("what arrives while something is handed on goes together, in order", async () => {
  const taken: number[][] = [];
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const begun = Promise.withResolvers<void>();
  const delivery = new Delivery<number>(async (items) => {
    const gate = gates[taken.push(items) - 1];
    begun.resolve();
    await gate?.promise;
  }, () => assert.fail());
  delivery.add(1);
  delivery.add(2);
  await begun.promise;
  delivery.add(3);
  delivery.add(4);
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(taken, [[1, 2]]);
  for (const { resolve } of gates) resolve();
  await delivery.finish();
  assert.deepEqual(taken, [[1, 2], [3, 4]]);
  delivery.add(5);
  await delivery.finish();
  assert.deepEqual(taken.at(-1), [5]);
});

pure("a failure is told once, ends the delivery, and comes out at the end", async () => {
  const broken = new Error("broken");
  const told: unknown[] = [];
  let taken = 0;
  const delivery = new Delivery<number>(() => {
    taken += 1;
    return Promise.reject(broken);
  }, (error) => told.push(error));
  delivery.add(1);
  await assert.rejects(delivery.finish(), broken);
  delivery.add(2);
  await assert.rejects(delivery.finish(), broken);
  assert.equal(taken, 1);
  assert.deepEqual(told, [broken]);
});

pure("nothing to hand on is nothing to wait for", async () => {
  await new Delivery(() => Promise.reject(new Error()), () => assert.fail()).finish();
});

pure("however much has arrived, a thousand items at most go together, in order", async () => {
  const taken: number[][] = [];
  const delivery = new Delivery<number>(async (items) => {
    await Promise.resolve(taken.push(items));
  }, () => assert.fail());
  for (let item = 0; item < 2500; item++) delivery.add(item);
  await delivery.finish();
  assert.deepEqual(taken.map(({ length }) => length), [1000, 1000, 500]);
  assert.deepEqual(taken.flat(), Array.from({ length: 2500 }, (_, item) => item));
});
