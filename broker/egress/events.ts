/** What an egress proxy tells `brokerd`: a line of JSON on its stdout for each event. Pure. */

export type EgressEvent =
  /** Clients can connect. */
  | { readonly event: "ready" }
  /**
   * A connection was refused or cut off. `host` and `port`: what was asked for, null where that is not
   * known. `why`: a short sentence for the model and the owner, with the host as the client wrote it.
   */
  | {
    readonly event: "refused";
    readonly host: string | null;
    readonly port: number | null;
    readonly why: string;
  }
  /** A connection that was made is over. The bytes are those passed on to the host, and from it. */
  | {
    readonly event: "closed";
    readonly host: string;
    readonly sent: number;
    readonly received: number;
  };

export function eventLine(event: EgressEvent): string {
  return `${JSON.stringify(event)}\n`;
}

/** The event of `line`, as far as `brokerd` needs it; null for anything else. */
export function readEvent(
  line: string,
): { event: "ready" } | { event: "refused"; why: string } | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null || !("event" in value)) return null;
  if (value.event === "ready") return { event: "ready" };
  if (value.event !== "refused" || !("why" in value) || typeof value.why !== "string") return null;
  return { event: "refused", why: value.why };
}
