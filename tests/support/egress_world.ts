/** The places in the network that the tests of the egress proxy run in. */

/** `page`: https for the names of fixtures/tls. `echo`: sends back what it gets, and `end` at its end. */
export interface Site {
  readonly hostname: string;
  readonly port: number;
  readonly kind: "page" | "echo" | "stone";
}

/** Addresses that are not special. */
export const PAGE = "93.184.215.14";
export const ECHO = "93.184.215.15";
export const STONE = "93.184.215.16";
/** A name server that hears every question and answers none. */
export const SILENT = "127.0.0.99";
export const ECHO6 = "2606:4700::5";

/** Addresses that are. */
export const SPECIAL = [
  ...["127.0.0.1", "127.8.9.1", "10.1.2.3", "10.1.2.4", "172.16.0.9", "192.168.1.1", "100.64.0.9"],
  ...["169.254.169.254", "192.0.0.192", "198.18.0.9", "203.0.113.9", "::1", "fd00::5", "fd00::6"],
];

export const SITES: readonly Site[] = [
  { hostname: PAGE, port: 443, kind: "page" },
  { hostname: PAGE, port: 80, kind: "echo" },
  { hostname: STONE, port: 443, kind: "stone" },
  ...[ECHO, ECHO6, ...SPECIAL].map((hostname) => ({ hostname, port: 443, kind: "echo" as const })),
];

/** Serves the connections of `listener` side by side, until it is closed. */
export async function forEachConnection(
  listener: Deno.Listener,
  serve: (conn: Deno.Conn) => Promise<unknown>,
): Promise<void> {
  for await (const conn of listener) void serve(conn);
}
