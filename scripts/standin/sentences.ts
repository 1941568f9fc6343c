/**
 * What the stand-in says and asks for: a table of five sentences in a model's place. It shows the way
 * of a call through Boxmaker where no model is at hand, and is plainly none. Pure.
 */
import type { ToolName } from "../../proto/tools.ts";

/** A message of the conversation as loopd sends it, as far as it matters here. */
export interface Message {
  readonly role: string;
  readonly content: string;
  /** The names of the tools that the model asked for in it. */
  readonly calls: readonly string[];
}

export interface AskedTool {
  readonly name: "clock" | "find_tool" | "call_tool";
  readonly arguments: Readonly<Record<string, unknown>>;
}

/** What a model would say: some thinking, then words or a call. */
export type Reply =
  | { readonly reasoning: string; readonly text: string; readonly call: null }
  | { readonly reasoning: string; readonly text: null; readonly call: AskedTool };

export const HELP_TEXT = `I am a stand-in and no model. I know five sentences:

  read PATH         reads a file
  write PATH TEXT   writes TEXT to a file; a PATH with spaces goes between double quotes
  run COMMAND       runs a command
  fetch URL         fetches a page
  time              tells the time

Each becomes the tool call that a model would make, and I tell you what came of it.`;

/** What a sentence asks for. */
type Wish =
  | { readonly kind: "time" }
  | {
    readonly kind: "tool";
    readonly tool: ToolName;
    /** The word that a model would look for. */
    readonly query: string;
    readonly arguments: Readonly<Record<string, string>>;
  };

/** Each sentence's form, and the wish that its parts make. */
const SENTENCES: readonly (readonly [RegExp, (first: string, second: string) => Wish])[] = [
  [/^time$/i, () => ({ kind: "time" })],
  [
    /^read\s+(.+)$/is,
    (path) => ({
      kind: "tool",
      tool: "read_file",
      query: "read",
      arguments: { path: unquoted(path) },
    }),
  ],
  [
    /^write\s+("[^"]+"|\S+)\s+(.+)$/is,
    (path, content) => ({
      kind: "tool",
      tool: "write_file",
      query: "write",
      arguments: { path: unquoted(path), content },
    }),
  ],
  [
    /^run\s+(.+)$/is,
    (command) => ({ kind: "tool", tool: "shell", query: "command", arguments: { command } }),
  ],
  [
    /^fetch\s+(\S+)$/i,
    (url) => ({ kind: "tool", tool: "http_fetch", query: "page", arguments: { url } }),
  ],
];

function unquoted(words: string): string {
  return /^"([^"]+)"$/.exec(words)?.[1] ?? words;
}

function wishOf(sentence: string): Wish | null {
  for (const [form, wish] of SENTENCES) {
    const match = form.exec(sentence.trim());
    if (match !== null) return wish(match[1] ?? "", match[2] ?? "");
  }
  return null;
}

/** The reply to a conversation. Of an earlier turn it only matters whether the tools were looked up. */
export function replyTo(messages: readonly Message[]): Reply {
  const last = messages.at(-1);
  const asked = messages.findLast(({ calls }) => calls.length > 0)?.calls.at(-1);
  const wish = wishOf(messages.findLast(({ role }) => role === "user")?.content ?? "");
  if (last?.role === "tool" && asked !== "find_tool") return tell(asked ?? "a tool", last.content);
  if (wish === null) {
    return { reasoning: "That is none of my sentences.", text: HELP_TEXT, call: null };
  }
  if (wish.kind === "time") return ask("I look at the clock.", "clock", {});
  // As a model, which knows no other tools until it has looked for them once.
  const looked = messages.some(({ calls }) => calls.includes("find_tool"));
  if (!looked) {
    return ask("I look for a tool that can do that.", "find_tool", { query: wish.query });
  }
  const call = { tool: wish.tool, arguments: wish.arguments };
  return ask(`${wish.tool} can do that, if it is allowed.`, "call_tool", call);
}

function ask(reasoning: string, name: AskedTool["name"], args: AskedTool["arguments"]): Reply {
  return { reasoning, text: null, call: { name, arguments: args } };
}

function tell(tool: string, content: string): Reply {
  const called = tool === "clock" ? "The clock" : "The tool";
  return {
    reasoning: `${tool} has answered.`,
    text: `${called} said: ${content}`,
    call: null,
  };
}
