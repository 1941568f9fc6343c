/**
 * An https site on an address of this machine for `http_fetch` to reach, with the certificate of fixtures/tls
 * for page.example, www.page.example and other.example. It answers every host name alike, on port 443, and
 * hears on port 80 who wants to talk to it without TLS. Needs root for both ports.
 */
import { gzipSync } from "node:zlib";
import { utf8 } from "../../proto/text.ts";
import { forEachConnection } from "./egress_world.ts";

/** The authority that the certificate is of: what `[egress] ca_file` names. */
export const CA_FILE = new URL("../../fixtures/tls/ca.pem", import.meta.url).pathname;

const fixture = (name: string) =>
  Deno.readTextFileSync(new URL(`../../fixtures/tls/${name}`, import.meta.url));

/** What is asked for. */
interface Question {
  readonly host: string;
  readonly path: string;
  readonly query: URLSearchParams;
  /** The request up to its empty line. */
  readonly head: string;
}

/** All bytes of an answer, which ends with the connection. */
type Answer = (question: Question) => string | Uint8Array;

/** A whole response. What `headers` holds is sent as it is, so that it may be none of a good server. */
export function response(
  status: string,
  headers: Readonly<Record<string, string>>,
  body: string,
): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status}\r\n${lines.join("")}\r\n${body}`;
}

const TEXT = { "Content-Type": "text/plain" };
const MIB = 1024 * 1024;
/** The size of the bodies of /big and, unpacked, of /bomb, in bytes. */
const BIG_BYTES = 16 * MIB;

/** A response that is small on the way and `BIG_BYTES` when it is unpacked. */
function bomb(): Uint8Array {
  const head = response("200 OK", { ...TEXT, "Content-Encoding": "gzip" }, "");
  return new Uint8Array([...utf8(head), ...gzipSync(new Uint8Array(BIG_BYTES).fill(0x30))]);
}

const ANSWERS: Readonly<Record<string, Answer>> = {
  "/": ({ host }) => response("200 OK", TEXT, `this is ${host}\n`),
  "/headers": ({ head }) => response("200 OK", TEXT, head),
  "/redirect": ({ query }) =>
    response("302 Found", { Location: query.get("to") ?? "" }, "it has moved"),
  "/loop": () => response("302 Found", { Location: "/loop" }, ""),
  "/big": () => response("200 OK", TEXT, "0".repeat(BIG_BYTES)),
  "/bomb": bomb,
};

/** Paths of which the answer goes on until the client has gone. */
const ENDLESS: Readonly<Record<string, readonly [head: string, more: string, pauseMs: number]>> = {
  "/slow": [response("200 OK", TEXT, ""), ".", 50],
  "/endless": [response("200 OK", TEXT, ""), "0".repeat(16_384), 0],
  "/endless-headers": ["HTTP/1.1 200 OK\r\n", `X-More: ${"x".repeat(1000)}\r\n`.repeat(16), 0],
};

async function writeAll(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

/** A request's head; null where the client ended before it was whole. */
async function readHead(conn: Deno.Conn): Promise<string | null> {
  const chunk = new Uint8Array(16_384);
  const decoder = new TextDecoder();
  let head = "";
  while (!head.includes("\r\n\r\n")) {
    const count = await conn.read(chunk);
    if (count === null) return null;
    head += decoder.decode(chunk.subarray(0, count), { stream: true });
  }
  return head.slice(0, head.indexOf("\r\n\r\n"));
}

export class HttpsSite implements AsyncDisposable {
  readonly address: string;
  /** Host and path of each request, in order. */
  readonly asked: string[] = [];
  /** How many connections came to port 443, and how many to port 80. */
  connections = 0;
  plainConnections = 0;
  readonly #answers: Readonly<Record<string, Answer>>;
  readonly #listeners: readonly Deno.Listener[];
  readonly #open = new Set<Deno.Conn>();
  readonly #serving: Promise<void>[];
  readonly #held = Promise.withResolvers<void>();

  /** `answers`: what other paths give, beside those that every site has and /held. */
  constructor(address: string, answers: Readonly<Record<string, Answer>> = {}) {
    this.address = address;
    this.#answers = { ...ANSWERS, ...answers };
    const secure = Deno.listenTls({
      ...{ hostname: address, port: 443 },
      cert: fixture("page.pem"),
      key: fixture("page.key"),
    });
    const plain = Deno.listen({ hostname: address, port: 80 });
    this.#listeners = [secure, plain];
    this.#serving = [
      forEachConnection(secure, async (conn) => {
        this.connections += 1;
        await this.#during(conn, () => this.#serve(conn));
      }),
      forEachConnection(plain, async (conn) => {
        this.plainConnections += 1;
        await this.#during(conn, () => writeAll(conn, utf8(response("200 OK", {}, "no TLS"))));
      }),
    ];
  }

  async #during(conn: Deno.Conn, work: () => Promise<void>): Promise<void> {
    this.#open.add(conn);
    try {
      await work();
    } catch {
      // A client that goes away, or does not trust the certificate, is what many tests are about.
    } finally {
      if (this.#open.delete(conn)) conn.close();
    }
  }

  async #serve(conn: Deno.Conn): Promise<void> {
    const head = await readHead(conn);
    if (head === null) return;
    const [, target = "/"] = head.split(" ");
    const [, host = ""] = /^host: (.*)$/im.exec(head) ?? [];
    const { pathname: path, searchParams: query } = new URL(target, "https://any.example");
    this.asked.push(host + path);
    if (path === "/held") await this.#held.promise;
    const endless = ENDLESS[path];
    if (endless !== undefined) return await this.#sendWithoutEnd(conn, ...endless);
    const [, status] = /^\/status\/(\d+)$/.exec(path) ?? [];
    const answer = status === undefined
      ? (this.#answers[path] ?? this.#answers["/"])?.({ host, path, query, head })
      : response(`${status} So It Is`, TEXT, `${status}\n`);
    if (answer === undefined) return;
    await writeAll(conn, typeof answer === "string" ? utf8(answer) : answer);
    await conn.closeWrite();
  }

  async #sendWithoutEnd(
    conn: Deno.Conn,
    head: string,
    more: string,
    pauseMs: number,
  ): Promise<void> {
    await writeAll(conn, utf8(head));
    const bytes = utf8(more);
    while (this.#open.has(conn)) {
      await writeAll(conn, bytes);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  /** Lets everybody who asked for /held have the page, from now on. */
  release(): void {
    this.#held.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.release();
    for (const listener of this.#listeners) listener.close();
    for (const conn of this.#open) {
      this.#open.delete(conn);
      conn.close();
    }
    await Promise.all(this.#serving);
  }
}
