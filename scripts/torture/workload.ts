/** What clients and owner do while brokerd is tortured. */
import type { Owner, Stand, Step } from "./stand.ts";

/** Every kind of answer once, in an order that never changes: a fault's place is a number in it. */
export const FIXED: readonly Step[] = [
  { session: "s1", path: "/none", owner: "wait" },
  { session: "s1", path: "/auto", owner: "wait" },
  { session: "s1", path: "/ask", owner: "approve" },
  { session: "s2", path: "/ask", owner: "refuse" },
  { session: "s2", path: "/secret", owner: "wait" },
  { session: "s2", path: "/auto", owner: "wait" },
  { session: "s3", path: "/ask", owner: "leave" },
  { session: "s3", path: "/fail", owner: "wait" },
  { session: "s3", path: "/deny", owner: "wait" },
];
/** The sessions of all workloads, and the one of the calls that come after a fault. */
export const SESSIONS = ["s1", "s2", "s3", "s4", "s5", "s6", "after"] as const;

/** Numbers from 0 to 1 (mulberry32); the same for the same seed. */
export type Random = () => number;

export function random(seed: number): Random {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** One of `values`. */
export function pick<T>(next: Random, values: readonly T[]): T {
  const value = values[Math.floor(next() * values.length)];
  if (value === undefined) throw new Error("nothing to pick from");
  return value;
}

/** The fixed steps one after another. */
export async function runFixed(stand: Stand): Promise<void> {
  for (const step of FIXED) await stand.call(step);
}

const CLIENTS = 6;
const STEPS_A_CLIENT = 8;

/** Random steps of six clients at once, over all sessions. */
export async function runRandom(stand: Stand, next: Random): Promise<void> {
  const paths = ["/auto", "/ask", "/ask", "/deny", "/fail", "/none", "/secret"] as const;
  const owners: readonly Owner[] = ["approve", "approve", "refuse", "leave", "wait"];
  const clients = Array.from({ length: CLIENTS }, async () => {
    for (let n = 0; n < STEPS_A_CLIENT; n += 1) {
      const session = pick(next, SESSIONS.slice(0, -1));
      await stand.call({ session, path: pick(next, paths), owner: pick(next, owners) });
    }
  });
  await Promise.all(clients);
}
