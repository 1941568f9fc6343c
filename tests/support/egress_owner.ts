/**
 * Starts an egress proxy as brokerd does, from a process that may do nothing but run Deno. Prints `ready`,
 * and, once its input has ended, stops it and prints what was refused.
 */
import { startEgress } from "../../broker/egress/child.ts";

const [deno = "", settings = ""] = Deno.args;
const egress = startEgress(deno, JSON.parse(settings));
await egress.ready;
console.log("ready");
for await (const _ of Deno.stdin.readable);
await egress.stop();
console.log(JSON.stringify(egress.refused()));
