/**
 * The hosts that the tests of the egress proxy reach, or must not: run in a network of their own by
 * `tests/support/egress.ts`. Prints a line of JSON for what arrives at each address.
 */
import dgram from "node:dgram";
import { forEachConnection, SILENT, type Site, SITES } from "./egress_world.ts";

const fixture = (name: string) =>
  Deno.readTextFileSync(new URL(`../../fixtures/tls/${name}`, import.meta.url));

const report = (at: string, bytes: number | null) => console.log(JSON.stringify({ at, bytes }));

function serveSite({ hostname, port, kind }: Site): void {
  const at = `${hostname} ${port}`;
  if (kind === "page") {
    Deno.serve({
      hostname,
      port,
      cert: fixture("page.pem"),
      key: fixture("page.key"),
      onListen: () => {},
    }, (request) => {
      report(at, null);
      const { pathname } = new URL(request.url);
      const location = "https://evil.example/";
      return pathname === "/elsewhere"
        ? new Response(null, { status: 302, headers: { location } })
        : new Response(`this is ${request.headers.get("host")}${pathname}`);
    });
    return;
  }
  void forEachConnection(Deno.listen({ hostname, port }), async (conn) => {
    report(at, null);
    // Says nothing and takes nothing, for as long as it is connected.
    if (kind === "stone") return await new Promise(() => {});
    let bytes = 0;
    try {
      const chunk = new Uint8Array(16 * 1024);
      for (let count; (count = await conn.read(chunk)) !== null;) {
        bytes += count;
        for (let sent = 0; sent < count;) sent += await conn.write(chunk.subarray(sent, count));
      }
      await conn.write(new TextEncoder().encode("end"));
    } catch {
      // broken: what counts is told
    }
    report(at, bytes);
    conn.close();
  });
}

if (import.meta.main) {
  SITES.forEach(serveSite);
  dgram.createSocket("udp4").bind(53, SILENT, () => report("all", null));
}
