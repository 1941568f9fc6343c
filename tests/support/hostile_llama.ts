/** A model server of plain bytes that answers each request as its route says, well or badly. */
import assert from "node:assert/strict";
import { within } from "./broker.ts";
import type { ModelRequest } from "./llama.ts";
import { chat, textOf } from "./loop.ts";

/**
 * What must not reach a terminal or a log, by its category in Unicode: controls, formats, separators of
 * lines, halves of pairs, private and unassigned ones, and whatever shows nothing. But for newlines.
 */
export const HIDDEN_BUT_NEWLINE =
  /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\p{Default_Ignorable_Code_Point}]/u;

const encoder = new TextEncoder();

/** The head of an answer that ends with its connection; `more`: further lines of it. */
export function head(status = "200 OK", ...more: readonly string[]): string {
  const lines = ["content-type: text/event-stream", "connection: close", ...more];
  return `HTTP/1.1 ${status}\r\n${lines.map((line) => `${line}\r\n`).join("")}\r\n`;
}

/** One side of a connection whose request has been read. */
export class Wire {
  readonly #conn: Deno.TcpConn;

  constructor(conn: Deno.TcpConn) {
    this.#conn = conn;
  }

  /** Sends `data`. Throws once the client has gone. */
  async send(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === "string" ? encoder.encode(data) : data;
    for (let at = 0; at < bytes.length;) at += await this.#conn.write(bytes.subarray(at));
  }

  /** Sends `data` again and again, until the client has gone. */
  async forever(data: string | Uint8Array, pauseMs = 0): Promise<never> {
    const bytes = typeof data === "string" ? encoder.encode(data) : data;
    while (true) {
      await this.send(bytes);
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  /** Says nothing until the client has gone. */
  async silence(): Promise<void> {
    const buffer = new Uint8Array(1024);
    while (await this.#conn.read(buffer) !== null);
  }

  /** Breaks the connection off: with a byte of the request unread, closing it sends a reset. */
  reset(): never {
    throw new Reset();
  }
}

class Reset extends Error {}

/** How a request of the model's next words is answered; then the connection is closed. */
export type Route = (request: ModelRequest, wire: Wire) => Promise<void>;

/** What is sent for each `GET`, whole. */
export interface Plain {
  health: string;
  tools: string;
}

export class HostileLlama implements AsyncDisposable {
  readonly plain: Plain = {
    health: `${head()}{}`,
    tools: `${head("403 Forbidden")}{}`,
  };
  /** Connections that are open. */
  open = 0;
  /** The first line of each request. */
  readonly asked: string[] = [];
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #serving: Promise<void>;
  readonly #route: Route;

  constructor(route: Route) {
    this.#route = route;
    this.#serving = this.#accept();
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listener.addr.port}`;
  }

  async #accept(): Promise<void> {
    const all = new Set<Promise<void>>();
    for await (const conn of this.#listener) {
      const one = this.#converse(conn).finally(() => all.delete(one));
      all.add(one);
    }
    await Promise.all(all);
  }

  async #converse(conn: Deno.TcpConn): Promise<void> {
    this.open += 1;
    try {
      const asked = await readHead(conn);
      const [line = ""] = asked.split("\r\n");
      this.asked.push(line);
      const wire = new Wire(conn);
      if (line.startsWith("GET")) {
        return await wire.send(line.includes("/health") ? this.plain.health : this.plain.tools);
      }
      const size = Number(/^content-length: (\d+)$/im.exec(asked)?.[1]);
      // All but the last byte, which is the closing brace: so the connection can be reset.
      const body = new TextDecoder().decode(await readExactly(conn, size - 1));
      const request: ModelRequest = JSON.parse(`${body}}`);
      await this.#route(request, wire);
      await readExactly(conn, 1);
    } catch {
      // The client has gone, or the connection is to be reset.
    } finally {
      conn.close();
      this.open -= 1;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await this.#serving;
  }
}

/** Reads up to the empty line, byte by byte: what follows is left to the connection. */
async function readHead(conn: Deno.Conn): Promise<string> {
  let read = "";
  while (!read.endsWith("\r\n\r\n")) {
    read += String.fromCharCode(...await readExactly(conn, 1));
  }
  return read;
}

async function readExactly(conn: Deno.Conn, size: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(size);
  for (let at = 0; at < size;) {
    const count = await conn.read(bytes.subarray(at));
    if (count === null) throw new Error("the client has gone");
    at += count;
  }
  return bytes;
}

/** The last message of a request, which says what the test wants to be answered. */
export function lastOf(request: ModelRequest): { readonly role: string; readonly content: string } {
  const last = request.messages.at(-1);
  if (last === undefined) throw new Error("a request without messages");
  return last;
}

/**
 * Does `act` while one chat after the other is had at the socket `path`, in each of which the owner says
 * "good". Throws where one of them is not answered with that, and what `act` throws.
 */
export async function besideGoodChats(path: string, act: () => Promise<void>): Promise<void> {
  let running = true;
  const serve = async () => {
    do {
      const events = await within("good chat", chat(path, null, "good"));
      assert.equal(textOf(events), "good", JSON.stringify(events.at(-1)));
      assert.deepEqual(events.at(-1), { type: "done" });
      // With room for what else runs.
      await new Promise((resolve) => setTimeout(resolve, 50));
    } while (running);
  };
  const ended = await Promise.allSettled([act().finally(() => void (running = false)), serve()]);
  for (const end of ended) if (end.status === "rejected") throw end.reason;
}
