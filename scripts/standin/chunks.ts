/** A reply of the stand-in in the form in which llama.cpp streams an answer. Pure. */
import type { Reply } from "./sentences.ts";

/** A stream says that it is alive while a model thinks; readers pass over it. */
export const PING = ": ping\n\n";
export const DONE = "data: [DONE]\n\n";
/** Characters in one piece of text or of arguments. */
const PIECE = 12;

/** `text` in pieces of a few characters, never within one. */
function pieces(text: string): string[] {
  const characters = [...text];
  const count = Math.ceil(characters.length / PIECE);
  return Array.from(
    { length: count },
    (_, index) => characters.slice(index * PIECE, (index + 1) * PIECE).join(""),
  );
}

/** One choice with what `delta` adds, and the keys that llama.cpp sends around it. */
export function chunk(delta: object, created: number, finish: string | null = null): string {
  const choices = [{ finish_reason: finish, index: 0, delta }];
  return event({ choices, ...around(created) });
}

function around(created: number) {
  return { created, id: "chatcmpl-standin", model: "standin", object: "chat.completion.chunk" };
}

function event(data: object): string {
  return `data: ${JSON.stringify(data)}\n\n`;
}

/** The deltas of a tool call: its name first, then its arguments as text, piece by piece. */
function callDeltas({ name, arguments: args }: NonNullable<Reply["call"]>): object[] {
  const start = { index: 0, id: "call-standin", type: "function" };
  return [
    { tool_calls: [{ ...start, function: { name, arguments: "" } }] },
    ...pieces(JSON.stringify(args)).map((piece) => ({
      tool_calls: [{ index: 0, function: { arguments: piece } }],
    })),
  ];
}

/** The parts of the stream of `reply`, in order. `created` is the time in seconds since 1970. */
export function streamOf(reply: Reply, created: number): string[] {
  const deltas: object[] = [
    { role: "assistant", content: null },
    ...pieces(reply.reasoning).map((piece) => ({ reasoning_content: piece })),
  ];
  const said = reply.call === null
    ? pieces(reply.text).map((piece) => ({ content: piece }))
    : callDeltas(reply.call);
  const usage = { choices: [], ...around(created), usage: { total_tokens: 0 }, timings: {} };
  return [
    ...deltas.map((delta) => chunk(delta, created)),
    PING,
    ...said.map((delta) => chunk(delta, created)),
    chunk({}, created, reply.call === null ? "stop" : "tool_calls"),
    event(usage),
    DONE,
  ];
}
