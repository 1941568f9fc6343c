/** Turn events that fit their frames (contracts 2: an answer frame is at most 2 MiB). Pure. */
import { encodeFrame, MAX_ANSWER_BYTES } from "../proto/frames.ts";
import type { Message, TurnEvent } from "../proto/messages.ts";

/** A UTF-16 unit takes at most 6 bytes in JSON, so that a text of this many always fits a frame. */
export const MAX_UNITS = 256 * 1024;
/** No tool has a longer name: a longer one is only words of the model. */
const MAX_NAME_UNITS = 200;

/** Where to cut `text` at `units` or right before, so that no pair of surrogates is cut in two. */
function cutAt(text: string, units: number): number {
  return /[\ud800-\udbff]/.test(text.charAt(units - 1)) ? units - 1 : units;
}

/** `text`, well-formed, or its first `units` UTF-16 units and how much is left out. */
export function shorten(text: string, units: number): string {
  if (text.length <= units) return text;
  const cut = cutAt(text, units);
  return `${text.slice(0, cut)}… ${text.length - cut} more characters`;
}

/** The parts of `text`, well-formed, that each fit a frame. */
export function* parts(text: string): Generator<string> {
  for (let at = 0; at < text.length;) {
    const rest = text.slice(at, at + MAX_UNITS);
    const part = rest.length < MAX_UNITS ? rest : rest.slice(0, cutAt(rest, MAX_UNITS));
    yield part;
    at += part.length;
  }
}

/** The message of `event`. What is too large for its frame is cut, and says so. */
export function messageOf(event: TurnEvent): Message<"turn_event"> {
  const named = "tool" in event ? { ...event, tool: shorten(event.tool, MAX_NAME_UNITS) } : event;
  const message = wrap(named);
  if (encodeFrame(message).length <= MAX_ANSWER_BYTES) return message;
  switch (named.type) {
    case "tool_call":
      return wrap({ ...named, arguments: shorten(named.arguments, MAX_UNITS) });
    case "tool_result":
      return wrap({ ...named, content: shorten(named.content, MAX_UNITS) });
    default:
      throw new Error(`a ${named.type} event that is too large for its frame`);
  }
}

function wrap(body: TurnEvent): Message<"turn_event"> {
  return { kind: "turn_event", final: body.type === "done" || body.type === "failed", body };
}
