/** The bare socket round trip: a server that sends one line back on each connection and closes it. */
const path = Deno.args[0];
if (path === undefined) throw new Error("usage: echo.ts SOCKET");
const listener = Deno.listen({ transport: "unix", path });
console.error("echo: ready");
for await (const conn of listener) {
  void (async () => {
    const buffer = new Uint8Array(64 * 1024);
    const count = await conn.read(buffer);
    if (count !== null) await conn.write(buffer.subarray(0, count));
    conn.close();
  })();
}
