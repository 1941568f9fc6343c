/**
 * The egress proxy's part in one connection (specification 13): who may be reached, and for how long.
 *
 * Each rule is held twice. The checks here are one time; the other is Deno's, which holds the host
 * against `--allow-net` and each address that it leads to against `--deny-net` before it connects.
 */
import { hostProblem } from "../hosts.ts";
import {
  type Address,
  allowed,
  type Cidr,
  formatAddress,
  isAddress,
  parseAddress,
  specialWords,
} from "./addresses.ts";
import type { EgressEvent } from "./events.ts";
import { close, type Passed, Refusal, relay, within, writeAll } from "./relay.ts";
import { type EgressSettings, isGranted, PORT, privateRanges, tableAddress } from "./settings.ts";
import {
  NO_COMMON_METHOD,
  type Read,
  readGreeting,
  readRequest,
  replyBytes,
  type Target,
  USE_NO_AUTHENTICATION,
} from "./socks.ts";

/** A greeting or a request is at most 262 bytes. */
const READ_BYTES = 1024;

/** What a client sends before it is connected. */
class ClientBytes {
  readonly #conn: Deno.Conn;
  #bytes = new Uint8Array();

  constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  /** The next thing that `read` reads; null where the client ended before it was whole. */
  async next<T>(read: (bytes: Uint8Array) => Read<T>): Promise<T | null> {
    while (true) {
      const result = read(this.#bytes);
      if (result.status === "bad") throw new Refusal(result.why, result.reply);
      if (result.status === "read") {
        this.#bytes = this.#bytes.subarray(result.used);
        return result.value;
      }
      const chunk = new Uint8Array(READ_BYTES);
      const count = await this.#conn.read(chunk);
      if (count === null) return null;
      this.#bytes = new Uint8Array([...this.#bytes, ...chunk.subarray(0, count)]);
    }
  }

  /** What came behind all that was read. */
  get rest(): Uint8Array {
    return this.#bytes;
  }
}

/** The proxy for the connections of one call. */
export class EgressProxy {
  readonly #settings: EgressSettings;
  readonly #private: readonly Cidr[];
  readonly #tell: (event: EgressEvent) => void;
  #open = 0;
  #bytes = 0;

  /** `settings` have no problem. `tell` is told of a refusal before the client is. */
  constructor(settings: EgressSettings, tell: (event: EgressEvent) => void) {
    this.#settings = settings;
    this.#private = privateRanges(settings);
    this.#tell = tell;
  }

  /** Serves `client` until its connection is over, and closes it. Nothing that comes of it is thrown. */
  async serve(client: Deno.Conn): Promise<void> {
    let target: Target | null = null;
    this.#open += 1;
    try {
      const { atOnce } = this.#settings.limits;
      if (this.#open > atOnce) throw new Refusal(`too many connections: ${atOnce} are open`);
      const bytes = new ClientBytes(client);
      target = await this.#handshake(client, bytes);
      if (target !== null) await this.#forward(client, bytes, target);
    } catch (error) {
      // Anything else is a connection that broke: there is nobody left to tell.
      if (error instanceof Refusal) await this.#refuse(client, target, error);
    } finally {
      this.#open -= 1;
      close(client);
    }
  }

  async #refuse(client: Deno.Conn, target: Target | null, refusal: Refusal): Promise<void> {
    const { host = null, port = null } = target ?? {};
    this.#tell({ event: "refused", host, port, why: refusal.message });
    if (refusal.reply === null) return;
    // Whoever does not take its answer goes without one.
    await writeAll(client, replyBytes(refusal.reply)).catch(() => {});
  }

  /** What the client asks for; null where it ended before it had asked. */
  async #handshake(client: Deno.Conn, bytes: ClientBytes): Promise<Target | null> {
    const { handshakeMs } = this.#settings.limits;
    const late = new Refusal(`nothing was asked for within ${handshakeMs} ms`);
    return await within(handshakeMs, () => close(client), late, async () => {
      const canGoWithout = await bytes.next(readGreeting);
      if (canGoWithout === null) return null;
      await writeAll(client, canGoWithout ? USE_NO_AUTHENTICATION : NO_COMMON_METHOD);
      if (!canGoWithout) throw new Refusal("the client wants to authenticate, and nobody may");
      return await bytes.next(readRequest);
    });
  }

  async #forward(client: Deno.Conn, bytes: ClientBytes, target: Target): Promise<void> {
    const fixed = this.#check(target);
    const { host } = target;
    using server = await this.#connect(host, fixed);
    this.#checkReached(host, fixed, server.remoteAddr);
    const passed: Passed = { sent: 0, received: 0 };
    const { wholeMs } = this.#settings.limits;
    const late = new Refusal(`the connection to ${host} was cut off after ${wholeMs} ms`);
    const closeBoth = () => {
      close(client);
      close(server);
    };
    try {
      await within(wholeMs, closeBoth, late, async () => {
        await writeAll(client, replyBytes("succeeded"));
        await relay(client, server, bytes.rest, passed, (count) => this.#spend(host, count));
      });
    } finally {
      this.#tell({ event: "closed", host, ...passed });
    }
  }

  /**
   * Holds what the client asks for against the grant. Returns the address that the static table has for it;
   * null where it is to be looked up.
   */
  #check({ host, isName, port }: Target): Address | null {
    const refuse = (why: string) => new Refusal(why, "notAllowed");
    if (!isName || isAddress(host)) throw refuse(`${host} is an address, not a name`);
    const problem = hostProblem(host);
    if (problem !== null) throw refuse(`${host} ${problem}`);
    if (!isGranted(this.#settings, host)) throw refuse(`${host} is not a host of the grant`);
    if (port !== PORT) throw refuse(`port ${port} is not ${PORT}`);
    const fixed = tableAddress(this.#settings, host);
    if (fixed !== null) this.#checkAddress(host, fixed, formatAddress(fixed));
    return fixed;
  }

  #checkAddress(host: string, address: Address, words: string): void {
    if (allowed(address, this.#private)) return;
    throw new Refusal(`${host} leads to ${words}, ${specialWords(address)}`, "notAllowed");
  }

  /** Connects by name, so that the runtime looks it up once and holds name and addresses against its flags. */
  async #connect(host: string, fixed: Address | null): Promise<Deno.TcpConn> {
    const { connectMs } = this.#settings.limits;
    const late = new Refusal(`${host} was not reached within ${connectMs} ms`, "hostUnreachable");
    const hostname = fixed === null ? host : formatAddress(fixed);
    const ending = new AbortController();
    const { signal } = ending;
    try {
      return await within(
        connectMs,
        () => ending.abort(),
        late,
        () => Deno.connect({ hostname, port: PORT, signal }),
      );
    } catch (error) {
      throw error instanceof Refusal ? error : this.#unreached(host, error);
    }
  }

  /** Why the runtime did not connect to `host`. */
  #unreached(host: string, error: unknown): Refusal {
    if (error instanceof Deno.errors.NotCapable) {
      const [, words = ""] = /"\[?([0-9a-f:.]+)\]?:[0-9]+"/.exec(error.message) ?? [];
      const address = parseAddress(words);
      if (address !== null) this.#checkAddress(host, address, words);
      return new Refusal(`the lock of the proxy keeps ${host} out`, "notAllowed");
    }
    // The runtime has an error with a code for a connection that failed, and one without for a name.
    const what = error instanceof Error && "code" in error ? "reached" : "looked up";
    return new Refusal(`${host} could not be ${what}`, "hostUnreachable");
  }

  /** Holds the address that was reached against the rules, before any byte passes. */
  #checkReached(host: string, fixed: Address | null, { hostname, port }: Deno.NetAddr): void {
    const address = parseAddress(hostname);
    const isOther = fixed !== null && address?.value !== fixed.value;
    if (address === null || isOther || port !== PORT) {
      throw new Refusal(`${host} leads to ${hostname}, which was not asked for`, "notAllowed");
    }
    this.#checkAddress(host, address, hostname);
  }

  #spend(host: string, count: number): void {
    const { bytes } = this.#settings.limits;
    this.#bytes += count;
    if (this.#bytes <= bytes) return;
    throw new Refusal(`the connection to ${host} was cut off: more than ${bytes} bytes passed`);
  }
}
