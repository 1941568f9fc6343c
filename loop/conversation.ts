/** The session log as the conversation that the model server is sent. Pure. */
import type { CallId } from "../proto/ids.ts";
import { assertNever } from "../proto/text.ts";
import type { LogEntry } from "./entries.ts";

export type ChatMessage =
  | { readonly role: "system" | "user"; readonly content: string }
  | AssistantMessage
  | { readonly role: "tool"; readonly tool_call_id: CallId; readonly content: string };

interface AssistantMessage {
  readonly role: "assistant";
  content: string;
  reasoning_content?: string;
  tool_calls?: {
    readonly id: CallId;
    readonly type: "function";
    readonly function: { readonly name: string; readonly arguments: string };
  }[];
}

/** In place of a result that never came: the turn was interrupted, and the call may have run. */
export const UNKNOWN_RESULT =
  "Unknown: the turn was interrupted before the result of this call came; it may or may not have run.";
/** In place of an answer that never came. */
export const NO_ANSWER = "(The turn ended before I gave an answer.)";

/**
 * The messages of `entries`, whatever interrupted their turns: every call has its result, and between
 * two messages of the user stands one of the assistant, as the templates of some models demand.
 */
export function conversation(entries: readonly LogEntry[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let assistant: AssistantMessage | null = null;
  let unanswered: CallId[] = [];
  /** Answers the first `count` calls that have no answer: results stand in the order of their calls. */
  const closeCalls = (count = unanswered.length) => {
    for (const call of unanswered.splice(0, count)) {
      messages.push({ role: "tool", tool_call_id: call, content: UNKNOWN_RESULT });
    }
  };
  /** The message that the model is writing. */
  const writing = (): AssistantMessage => {
    if (assistant !== null) return assistant;
    closeCalls();
    assistant = { role: "assistant", content: "" };
    messages.push(assistant);
    return assistant;
  };
  for (const entry of entries) {
    switch (entry.type) {
      case "start":
        messages.push({ role: "system", content: entry.system });
        break;
      case "user":
        closeCalls();
        assistant = null;
        endTurn(messages);
        messages.push({ role: "user", content: entry.text });
        break;
      case "reasoning": {
        const message = writing();
        message.reasoning_content = (message.reasoning_content ?? "") + entry.text;
        break;
      }
      case "text":
        writing().content += entry.text;
        break;
      case "calls":
        writing().tool_calls = entry.calls.map(({ call, name, arguments: given }) => ({
          id: call,
          type: "function",
          function: { name, arguments: asObject(given) },
        }));
        unanswered = entry.calls.map(({ call }) => call);
        assistant = null;
        break;
      case "result":
        // Calls are made one after the other: one that was left out before this one has no result.
        closeCalls(unanswered.indexOf(entry.call));
        messages.push({ role: "tool", tool_call_id: entry.call, content: entry.content });
        unanswered = unanswered.filter((call) => call !== entry.call);
        break;
      case "end":
      case "recovery":
        break;
      default:
        assertNever(entry);
    }
  }
  closeCalls();
  return messages;
}

/** Makes the last turn end in a message of the assistant that says something. */
function endTurn(messages: ChatMessage[]): void {
  const last = messages.at(-1);
  if (last === undefined || last.role === "system") return;
  const answered = last.role === "assistant" && last.tool_calls === undefined;
  if (!answered) messages.push({ role: "assistant", content: NO_ANSWER });
  else if (last.content === "") last.content = NO_ANSWER;
}

/** Arguments that are not a JSON object would make the server refuse the whole conversation. */
function asObject(given: string): string {
  try {
    const value: unknown = JSON.parse(given);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return given;
  } catch {
    // not JSON
  }
  return given.trim() === "" ? "{}" : JSON.stringify({ not_an_object: given });
}
