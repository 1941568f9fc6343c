/** The egress proxy's socket: accepting the connections of one call. */
import { pause } from "../../proto/io/pace.ts";
import type { EgressEvent } from "./events.ts";
import { EgressProxy } from "./proxy.ts";
import { close } from "./relay.ts";
import type { EgressSettings } from "./settings.ts";

/** Pause after a failed accept, in milliseconds, as when file descriptors have run out. */
const ACCEPT_PAUSE_MS = 100;

/** Listens, tells `ready`, and serves the connections that come, until there is one too many. */
async function acceptAll(
  { socket, limits }: EgressSettings,
  proxy: EgressProxy,
  ready: () => void,
): Promise<void> {
  using listener = Deno.listen({ transport: "unix", path: socket });
  // The container's user is another one. The directory, which its maker keeps, holds others off.
  Deno.chmodSync(socket, 0o666);
  ready();
  for (let accepted = 0; accepted <= limits.connections;) {
    try {
      const client = await listener.accept();
      accepted += 1;
      if (accepted > limits.connections) close(client);
      else void proxy.serve(client);
    } catch {
      await pause(ACCEPT_PAUSE_MS);
    }
  }
}

/**
 * Serves one call on the settings' socket. The first connection beyond the limit is refused, and then nobody
 * listens any more: whoever opens connections without end costs nothing. Resolves when that is so. Throws where the socket cannot be
 * made, as when something stands at its place.
 */
export async function serveEgress(
  settings: EgressSettings,
  tell: (event: EgressEvent) => void,
): Promise<void> {
  const proxy = new EgressProxy(settings, tell);
  await acceptAll(settings, proxy, () => tell({ event: "ready" }));
  const why = `too many connections: ${settings.limits.connections} were made`;
  tell({ event: "refused", host: null, port: null, why });
}
