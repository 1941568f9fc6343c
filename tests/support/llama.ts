/** A model server on 127.0.0.1 that answers by script, in the forms of llama.cpp. */
import type { ChatMessage } from "../../loop/conversation.ts";

/** A request as the server got it. */
export interface ModelRequest {
  readonly model?: string;
  readonly stream: boolean;
  readonly messages: ChatMessage[];
  readonly tools: { readonly function: { readonly name: string } }[];
}

/** Answers one request. */
export type Reply = (request: ModelRequest) => Response | Promise<Response>;

const encoder = new TextEncoder();

/** One server-sent event. */
export function event(data: unknown): string {
  return `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
}

/** A chunk with one choice, and the keys around it that llama.cpp sends. */
export function chunk(delta: object, finish: string | null = null): string {
  return event({
    choices: [{ finish_reason: finish, index: 0, delta }],
    created: 1764583200,
    id: "chatcmpl-x",
    model: "m",
    object: "chat.completion.chunk",
  });
}

export const START = chunk({ role: "assistant", content: null });
export const DONE = event("[DONE]");

/** The end of an answer, with the statistics that have no choice. */
export function ending(finish: string): string {
  return chunk({}, finish) + event({ choices: [], usage: { total_tokens: 3 }, timings: {} }) + DONE;
}

/** A whole answer of text. */
export function saying(...pieces: string[]): string {
  return START + pieces.map((content) => chunk({ content })).join("") + ending("stop");
}

/** A whole answer that asks for tools. Arguments that are no string are written as JSON. */
export function asking(...calls: readonly (readonly [name: string, given: unknown])[]): string {
  const deltas = calls.flatMap(([name, given], index) => {
    const text = typeof given === "string" ? given : JSON.stringify(given);
    const half = Math.ceil(text.length / 2);
    const piece = (part: object) => chunk({ tool_calls: [{ index, ...part }] });
    return [
      piece({ id: `id${index}`, type: "function", function: { name, arguments: "" } }),
      piece({ function: { arguments: text.slice(0, half) } }),
      piece({ function: { arguments: text.slice(half) } }),
    ];
  });
  return START + deltas.join("") + ending("tool_calls");
}

/** Asks for a discoverable tool, as a model does. */
export function calling(tool: string, given: unknown): string {
  return asking(["call_tool", { tool, arguments: given }]);
}

/** A response that streams `parts`; `null` last leaves it open. */
export function streaming(...parts: readonly (string | Uint8Array | null)[]): Response {
  return new Response(
    new ReadableStream({
      start(controller) {
        for (const part of parts) {
          if (part === null) return;
          controller.enqueue(typeof part === "string" ? encoder.encode(part) : part);
        }
        controller.close();
      },
    }),
    { headers: { "content-type": "text/event-stream" } },
  );
}

/** A response whose parts the test sends, one by one. */
export class Held {
  readonly #controller = Promise.withResolvers<ReadableStreamDefaultController<Uint8Array>>();
  /** Resolves once the client has ended the request. */
  readonly cancelled: Promise<void>;
  readonly response: Response;

  constructor() {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.cancelled = promise;
    this.response = new Response(
      new ReadableStream<Uint8Array>({
        start: (controller) => this.#controller.resolve(controller),
        cancel: () => resolve(),
      }),
      { headers: { "content-type": "text/event-stream" } },
    );
  }

  async send(text: string): Promise<void> {
    (await this.#controller.promise).enqueue(encoder.encode(text));
  }

  async end(): Promise<void> {
    (await this.#controller.promise).close();
  }

  /** Ends it the hard way: the connection breaks. What the client has not read yet is lost. */
  async breakOff(): Promise<void> {
    (await this.#controller.promise).error(new Error("broken off by the test"));
  }
}

/** Plays `replies` one after the other; a string is a whole stream. What comes too much is a 500. */
export class FakeLlama implements AsyncDisposable {
  readonly requests: ModelRequest[] = [];
  readonly replies: (Reply | string)[];
  /** What else was asked for, as `GET /health`. */
  readonly asked: string[] = [];
  health: () => Response = () => Response.json({ status: "ok" });
  tools: () => Response = () =>
    Response.json({ error: { message: "this feature is disabled" } }, { status: 403 });
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor(...replies: readonly (Reply | string)[]) {
    this.replies = [...replies];
    this.#server = Deno.serve({
      hostname: "127.0.0.1",
      port: 0,
      onListen: () => {},
      onError: () => new Response("the script failed", { status: 500 }),
    }, (request) => this.handle(request));
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  get port(): number {
    return this.#server.addr.port;
  }

  /** The messages of the request `index`, counted from the end where negative. */
  messages(index = -1): ChatMessage[] {
    return this.requests.at(index)?.messages ?? [];
  }

  /** Answers a request, of whatever server. */
  async handle(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname !== "/v1/chat/completions") {
      this.asked.push(`${request.method} ${pathname}`);
      await request.body?.cancel();
      if (pathname === "/health") return this.health();
      if (pathname === "/tools") return this.tools();
      return new Response("not found", { status: 404 });
    }
    const body: ModelRequest = await request.json();
    this.requests.push(body);
    const reply = this.replies.shift();
    if (reply === undefined) {
      return Response.json({ error: { message: "the script is over" } }, { status: 500 });
    }
    return typeof reply === "string" ? streaming(reply) : await reply(body);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

/** A model server of plain bytes: plays one of `scripts` for each connection, then closes it. */
export class RawLlama implements AsyncDisposable {
  /** What each connection sent, up to its first pause. */
  readonly requests: string[] = [];
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #serving: Promise<void>;

  /** A script ends with `hold` where the connection stays open until the client closes it. */
  constructor(...scripts: readonly (readonly string[])[]) {
    this.#serving = this.#serve(scripts);
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listener.addr.port}`;
  }

  async #serve(scripts: readonly (readonly string[])[]): Promise<void> {
    const left = [...scripts];
    for await (const conn of this.#listener) {
      const buffer = new Uint8Array(64 * 1024);
      const count = await conn.read(buffer) ?? 0;
      this.requests.push(new TextDecoder().decode(buffer.subarray(0, count)));
      try {
        for (const part of left.shift() ?? []) {
          if (part === "hold") { while (await conn.read(buffer) !== null); }
          else await conn.write(encoder.encode(part));
        }
      } catch {
        // the client has gone
      }
      conn.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await this.#serving;
  }
}
