/** The client of the model server, llama.cpp's OpenAI-compatible one (contracts 7). */
import * as z from "zod";
import type { LlamaConfig } from "./config.ts";
import type { ChatMessage } from "./conversation.ts";
import { Delivery } from "./delivery.ts";
import { type Answer, AnswerReader, joined, ModelError, type Piece, quoted } from "./stream.ts";
import { MODEL_TOOLS } from "./tools.ts";
import { type Request, type Response, send } from "./transport.ts";

/** The most that is read of an answer that is no stream, in bytes. */
const MAX_BODY_BYTES = 1024 * 1024;

/** An answer that is no stream. */
export interface Reply {
  readonly status: number;
  /** Null where it is longer than 1 MiB. */
  readonly body: string | null;
}

export class ModelServer {
  readonly #config: LlamaConfig;

  constructor(config: LlamaConfig) {
    this.#config = config;
  }

  /**
   * Asks for the model's next words in a conversation. Its text goes to `take` as it comes, one call at
   * a time. Throws `ModelError`, the reason of `signal`, or what `take` threw.
   */
  async answer(
    messages: readonly ChatMessage[],
    signal: AbortSignal,
    take: (pieces: Piece[]) => Promise<void>,
  ): Promise<Answer> {
    const { model } = this.#config;
    const request = { ...(model === null ? {} : { model }), stream: true, messages };
    const stop = new AbortController();
    const delivery = new Delivery<Piece>(
      (pieces) => take(joined(pieces)),
      (error) => stop.abort(error),
    );
    const reader = new AnswerReader();
    const body = JSON.stringify({ ...request, tools: MODEL_TOOLS });
    try {
      await this.#stream(body, reader, delivery, AbortSignal.any([signal, stop.signal]));
      for (const piece of reader.end()) delivery.add(piece);
    } finally {
      // Whatever else went wrong: what came before is handed on, and what `take` throws comes first.
      await delivery.finish();
    }
    return reader.answer;
  }

  /** Reads until the answer ends. Once the model has finished, it does not matter how (contracts 8). */
  async #stream(
    body: string,
    reader: AnswerReader,
    delivery: Delivery<Piece>,
    signal: AbortSignal,
  ): Promise<void> {
    const headers = { "content-type": "application/json", "accept": "text/event-stream" };
    const request = { method: "POST", headers, body } as const;
    try {
      await this.#exchange("/v1/chat/completions", request, signal, async (response) => {
        if (response.status !== 200) throw await refusal(response);
        await response.chunks((chunk) => {
          for (const piece of reader.push(chunk)) delivery.add(piece);
          return reader.done ? "enough" : "more";
        });
      });
    } catch (error) {
      if (signal.aborted || !(error instanceof ModelError) || !reader.finished) throw error;
    }
  }

  /** `GET path`, all of it within `timeoutMs`. Throws `ModelError`. */
  async get(path: string, timeoutMs: number): Promise<Reply> {
    const late = new AbortController();
    const error = new ModelError(`the model server did not answer GET ${path} in ${timeoutMs} ms`);
    const timer = setTimeout(() => late.abort(error), timeoutMs);
    const request = { method: "GET", headers: {}, body: "" } as const;
    try {
      return await this.#exchange(path, request, late.signal, async (response) => ({
        status: response.status,
        body: await wholeBody(response),
      }));
    } finally {
      clearTimeout(timer);
    }
  }

  /** One request and what `read` makes of its answer, with no silence longer than `timeout_ms`. */
  async #exchange<T>(
    path: string,
    request: Request,
    signal: AbortSignal,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    const silence = new Silence(this.#config.timeoutMs);
    const both = AbortSignal.any([signal, silence.signal]);
    let response: Response | null = null;
    try {
      response = await send(new URL(path, this.#config.url), request, both, () => silence.broken());
      const result = await read(response);
      // An answer that is given up may end like one that is whole.
      both.throwIfAborted();
      return result;
    } catch (error) {
      if (both.aborted) throw both.reason;
      if (error instanceof ModelError) throw error;
      throw new ModelError("the connection to the model server failed", { cause: error });
    } finally {
      silence.end();
      // Whatever is left of the answer is not wanted.
      await response?.end();
    }
  }
}

/** Aborts its signal after `ms` milliseconds in which nothing came. */
class Silence {
  readonly #controller = new AbortController();
  readonly #ms: number;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(ms: number) {
    this.#ms = ms;
    this.broken();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  broken(): void {
    clearTimeout(this.#timer);
    const error = new ModelError(`the model server was silent for ${this.#ms} ms`);
    this.#timer = setTimeout(() => this.#controller.abort(error), this.#ms);
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}

async function wholeBody({ chunks }: Response): Promise<string | null> {
  const decoder = new TextDecoder();
  let body = "";
  let size = 0;
  await chunks((chunk) => {
    size += chunk.length;
    body += decoder.decode(chunk, { stream: true });
    return size > MAX_BODY_BYTES ? "enough" : "more";
  });
  return size > MAX_BODY_BYTES ? null : body + decoder.decode();
}

const ErrorBody = z.object({ error: z.unknown() });

/** Why the server did not start an answer, with its own words where it gives any. */
async function refusal(response: Response): Promise<ModelError> {
  const { status } = response;
  if (status >= 300 && status < 400) {
    return new ModelError(`the model server answered ${status}; redirects are not followed`);
  }
  const answered = `the model server answered ${status}`;
  const body = await wholeBody(response) ?? "";
  let words: z.infer<typeof ErrorBody>;
  try {
    words = ErrorBody.parse(JSON.parse(body));
  } catch {
    return new ModelError(answered);
  }
  return new ModelError(`${answered}: ${quoted(words.error)}`);
}
