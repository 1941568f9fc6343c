/**
 * The least that loopd could be: each connection's chunks of a model server, each on disk before it goes on.
 */
const [path, url, log] = Deno.args;
if (path === undefined || url === undefined || log === undefined) {
  throw new Error("usage: relay.ts SOCKET URL LOG");
}
const listener = Deno.listen({ transport: "unix", path });
const file = await Deno.open(log, { append: true, create: true });

async function relay(conn: Deno.Conn): Promise<void> {
  const { body } = await fetch(url ?? "", { method: "POST", body: "{}" });
  for await (const chunk of body ?? []) {
    await file.write(chunk);
    await file.syncData();
    for (let at = 0; at < chunk.length;) at += await conn.write(chunk.subarray(at));
  }
  conn.close();
}

console.error("relay: ready");
for await (const conn of listener) void relay(conn);
