/**
 * The least that a broker could be under brokerd's locks: it reads the grants for each call, appends a record and
 * syncs it, and gives all the same answer. `queued`: the syncs are done beside the event loop, one by one.
 */
import { encodeFrame } from "../../proto/frames.ts";

const [home, bytes, how] = Deno.args;
if (home === undefined || bytes === undefined) {
  throw new Error("usage: floor.ts HOME RECORD_BYTES [queued]");
}
const grants = `${home}/grants`;
const log = Deno.openSync(`${home}/audit/floor.log`, { append: true, create: true });
const record = new Uint8Array(Number(bytes));
const answer = encodeFrame({
  kind: "tool_response",
  final: true,
  body: { status: "denied", reason: "no_grant" },
});
let synced = Promise.resolve();

async function call(conn: Deno.Conn): Promise<void> {
  await conn.read(new Uint8Array(16 * 1024));
  for (const { name } of Deno.readDirSync(grants)) Deno.readFileSync(`${grants}/${name}`);
  log.writeSync(record);
  if (how === "queued") await (synced = synced.then(() => log.sync()));
  else log.syncSync();
  await conn.write(answer);
  conn.close();
}

const path = `${home}/run/loop-broker/broker.sock`;
const listener = Deno.listen({ transport: "unix", path });
console.error("floor: ready");
for await (const conn of listener) void call(conn);
