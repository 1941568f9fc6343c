/** The turns of calls that run side by side. */
import assert from "node:assert/strict";
import { Slots } from "../../broker/podman/slots.ts";

Deno.test("no more run at once than may, and the rest come in their order", {
  permissions: "none",
}, async () => {
  const slots = new Slots(2, 2);
  const order: number[] = [];
  const turns = [0, 1, 2, 3].map(async (who) => {
    const turn = slots.take();
    assert(turn !== null);
    await turn;
    order.push(who);
  });
  // A fifth is one too many.
  assert.equal(slots.take(), null);
  await Promise.all(turns.slice(0, 2));
  assert.deepEqual(order, [0, 1]);
  slots.give();
  await turns[2];
  assert.deepEqual(order, [0, 1, 2]);
  slots.give();
  await turns[3];
  assert.deepEqual(order, [0, 1, 2, 3]);
  slots.give();
  slots.give();
  // All turns are free again, and no more of them than before.
  const again = [slots.take(), slots.take()];
  assert(again.every((turn) => turn !== null));
  await Promise.all(again);
  let third = false;
  slots.take()?.then(() => third = true);
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.equal(third, false);
});
