/** The stand-in as a server: llama.cpp's `GET /health` and `POST /v1/chat/completions`, and no more. */
import * as z from "zod";
import { streamOf } from "./chunks.ts";
import { type Message, replyTo } from "./sentences.ts";

/** Of a request only this matters. */
const ChatRequest = z.object({
  stream: z.literal(true),
  messages: z.array(z.object({
    role: z.string(),
    content: z.string().nullish(),
    tool_calls: z.array(z.object({ function: z.object({ name: z.string() }) })).nullish(),
  })),
});

function problem(status: number, message: string): Response {
  return Response.json({ error: { code: status, message } }, { status });
}

async function readMessages(request: Request): Promise<Message[] | null> {
  const body = await request.json().catch(() => null);
  const read = ChatRequest.safeParse(body);
  if (!read.success) return null;
  return read.data.messages.map(({ role, content, tool_calls }) => ({
    role,
    content: content ?? "",
    calls: (tool_calls ?? []).map((call) => call.function.name),
  }));
}

/** Sends `parts` one by one, as a model that thinks would. */
function streaming(parts: readonly string[]): Response {
  const encoder = new TextEncoder();
  const left = parts.values();
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const { value, done } = left.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    },
  });
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

export async function answer(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (request.method === "GET" && pathname === "/health") return Response.json({ status: "ok" });
  if (request.method === "POST" && pathname === "/v1/chat/completions") {
    const messages = await readMessages(request);
    if (messages === null) return problem(400, "a streamed chat with messages is what I answer");
    return streaming(streamOf(replyTo(messages), Math.floor(Date.now() / 1000)));
  }
  await request.body?.cancel();
  return problem(404, "not found");
}
