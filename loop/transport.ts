/**
 * One HTTP request to the model server. No redirect is followed, and no proxy of the environment hears
 * the conversation: loopd reaches one host and port, and nothing else.
 */
import http from "node:http";

export interface Request {
  readonly method: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The beginning of an answer. */
export interface Response {
  readonly status: number;
  /** Hands each chunk of its body to `take`, until there are no more or `take` has enough. */
  chunks(take: (chunk: Uint8Array) => "more" | "enough"): Promise<void>;
  /** Ends the request, whatever is left of it. Call it once, in any case. */
  end(): Promise<void>;
}

/**
 * Sends `request` to `url`, `http:` or `https:`, and waits for the beginning of its answer. `heard` is
 * called whenever something came. Throws where the connection fails or `signal` is aborted.
 */
export async function send(
  url: URL,
  request: Request,
  signal: AbortSignal,
  heard: () => void,
): Promise<Response> {
  const response =
    await (url.protocol === "https:"
      ? overHttps(url, request, signal)
      : overHttp(url, request, signal));
  heard();
  return {
    ...response,
    chunks: (take) =>
      response.chunks((chunk) => {
        heard();
        return take(chunk);
      }),
  };
}

/**
 * Not by `fetch`: that hands every word to the proxy that an `http_proxy` variable names, and
 * `--allow-net` does not hold it back. Each request has a connection of its own.
 */
function overHttp(
  url: URL,
  { method, headers, body }: Request,
  signal: AbortSignal,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const sent = http.request(url, { method, headers, agent: false, signal });
    sent.on("response", (message) => resolve(responseOf(message)));
    sent.on("error", reject);
    sent.on("upgrade", (_, socket) => {
      socket.destroy();
      reject(new Error("it answered in another protocol"));
    });
    sent.end(body);
  });
}

function responseOf(message: http.IncomingMessage): Response {
  return {
    status: message.statusCode ?? 0,
    // By its events, since what has arrived right before a break would be lost to an iterator.
    chunks: (take) =>
      new Promise((resolve, reject) => {
        message.on("data", (chunk: Uint8Array) => {
          try {
            if (take(chunk) === "enough") resolve();
          } catch (error) {
            reject(error);
          }
        });
        message.on("end", resolve);
        message.on("error", reject);
      }),
    end() {
      message.destroy();
      return Promise.resolve();
    },
  };
}

/**
 * By `fetch`, since `node:https` needs `--allow-sys` for its certificates. A proxy of the environment
 * sees encrypted bytes only.
 */
async function overHttps(
  url: URL,
  { method, headers, body }: Request,
  signal: AbortSignal,
): Promise<Response> {
  const answer = await fetch(url, {
    method,
    headers,
    body: method === "GET" ? null : body,
    redirect: "manual",
    signal,
  });
  return {
    status: answer.status,
    async chunks(take) {
      for await (const chunk of answer.body ?? []) if (take(chunk) === "enough") return;
    },
    async end() {
      await answer.body?.cancel().catch(() => {});
    },
  };
}
