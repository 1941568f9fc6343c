/** One connection of `broker.sock`: one tool request from decision to answer (specification 6). */
import type { Exchange } from "../proto/io/server.ts";
import type { Message } from "../proto/messages.ts";
import type { Pipeline } from "./pipeline.ts";

/** Answers `request`, telling first where the owner is asked. */
export async function handleToolRequest(
  pipeline: Pipeline,
  request: Message<"tool_request">,
  exchange: Exchange,
): Promise<void> {
  const { pending, answer } = pipeline.begin(request.body);
  if (pending !== null) {
    const lost = () => pipeline.lost(pending.approval);
    const sent = await exchange.send({ kind: "tool_response", final: false, body: pending });
    if (sent) void exchange.whenGone().then(lost);
    else lost();
  }
  const body = await answer;
  if (body !== null) await exchange.send({ kind: "tool_response", final: true, body });
}
