/**
 * The tools as the model sees them: the core tools clock, find_tool and call_tool, and the four that
 * find_tool tells of and call_tool passes to the tool broker (specification 8). Pure.
 */
import * as z from "zod";
import { MAX_REQUEST_BYTES } from "../proto/frames.ts";
import type { Timestamp } from "../proto/ids.ts";
import { hasMoreMarks, parseStrict } from "../proto/json.ts";
import { assertNever } from "../proto/text.ts";
import { TOOL_ARGUMENTS, TOOL_NAMES, ToolName } from "../proto/tools.ts";
import { shorten } from "./events.ts";

/** A tool in words and JSON schema. */
export interface ToolDescription {
  readonly name: string;
  readonly description: string;
  readonly parameters: Readonly<Record<string, unknown>>;
}

function describeTool(name: string, schema: z.ZodType): ToolDescription {
  const { $schema: _, description = "", ...parameters } = z.toJSONSchema(schema, { io: "input" });
  return { name, description, parameters };
}

/** What find_tool finds. */
export const DISCOVERABLE: readonly ToolDescription[] = TOOL_NAMES.map((name) =>
  describeTool(name, TOOL_ARGUMENTS[name])
);

const FindTool = z.object({
  query: z.string().default("").describe("Words to look for; leave empty to list every tool"),
});

const CallTool = z.strictObject({
  tool: z.string().describe("The tool's name, as find_tool gives it"),
  // llama.cpp makes a grammar of this: only a bare `object` lets the model write any object.
  arguments: z.unknown().meta({
    type: "object",
    description: "The tool's arguments, as find_tool gives their schema",
  }),
});

const CORE = {
  clock: z.object({}).describe("Tell the current date and time in UTC"),
  find_tool: FindTool.describe(
    "List tools for files, commands and web pages, with their arguments",
  ),
  call_tool: CallTool.describe("Call a tool that find_tool lists; the owner decides what may run"),
} as const satisfies Record<string, z.ZodType>;
type CoreName = keyof typeof CORE;
const CORE_NAMES = Object.keys(CORE).join(", ");

/** The `tools` of every request to the model server. */
export const MODEL_TOOLS = Object.entries(CORE).map(([name, schema]) => ({
  type: "function",
  function: describeTool(name, schema),
}));

/** What becomes of one call of the model. `tool` and `arguments` are what the owner sees of it. */
export type ToolUse =
  & { readonly arguments: string }
  & (
    | { readonly kind: "broker"; readonly tool: ToolName }
    | { readonly kind: "answered"; readonly tool: string } & ToolAnswer
  );

/** An answer that needs no broker. */
export interface ToolAnswer {
  readonly status: "result" | "failed";
  readonly content: string;
}

/** Brackets and commas outside of strings that arguments may have: more take long to read. */
const MAX_MARKS = 4096;
const TOO_MANY_PARTS = "the arguments have more brackets and commas than any tool takes";

/** For a call that no frame to the broker holds (contracts 2). */
export const TOO_LARGE = "the call is too large: with its arguments it is at most 1 MiB";

const failed = (content: string): ToolAnswer => ({ status: "failed", content });

function isCore(name: string): name is CoreName {
  return Object.hasOwn(CORE, name);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Reads a call of the model: `given` are its arguments as it wrote them. */
export function readCall(name: string, given: string, now: Timestamp): ToolUse {
  const answered = (answer: ToolAnswer): ToolUse => ({
    kind: "answered",
    tool: name,
    arguments: given,
    ...answer,
  });
  if (!isCore(name)) return answered(noSuchTool(name));
  // Reading a longer one would hold up every other turn, and no tool takes it.
  if (given.length > MAX_REQUEST_BYTES) return answered(failed(TOO_LARGE));
  if (hasMoreMarks(given, MAX_MARKS)) return answered(failed(TOO_MANY_PARTS));
  // Some models leave the arguments of a tool without arguments empty.
  const value = parseStrict(given.trim() === "" ? "{}" : given);
  if (!isObject(value)) {
    return answered(failed("the arguments are not one JSON object without repeated keys"));
  }
  switch (name) {
    case "clock":
      return answered({ status: "result", content: now });
    case "find_tool":
      return answered(findTool(value));
    case "call_tool":
      return callTool(value, answered);
    default:
      return assertNever(name);
  }
}

function noSuchTool(name: string): ToolAnswer {
  const known = ToolName.safeParse(name).success;
  const words = shorten(name, 100);
  return failed(
    known
      ? `${words} is called through call_tool: {"tool": "${words}", "arguments": {…}}`
      : `no such tool: ${words}; there are ${CORE_NAMES}`,
  );
}

function findTool(value: object): ToolAnswer {
  const read = FindTool.safeParse(value);
  if (!read.success) return failed('find_tool takes {"query": "words to look for"}');
  const words = read.data.query.toLowerCase().split(/\W+/).filter((word) => word !== "");
  const found = DISCOVERABLE.filter((tool) => {
    const text = JSON.stringify(tool).toLowerCase();
    return words.some((word) => text.includes(word));
  });
  const tools = found.length === 0 ? DISCOVERABLE : found;
  return { status: "result", content: JSON.stringify(tools) };
}

function callTool(value: object, answered: (answer: ToolAnswer) => ToolUse): ToolUse {
  const usage = 'call_tool takes {"tool": "name", "arguments": {…}} and nothing else';
  const { tool, arguments: given, ...more } = { tool: null, arguments: null, ...value };
  if (typeof tool !== "string" || Object.keys(more).length > 0) return answered(failed(usage));
  const name = ToolName.safeParse(tool);
  if (!name.success) {
    const tools = TOOL_NAMES.join(", ");
    return answered(failed(`no such tool: ${shorten(tool, 100)}; find_tool lists ${tools}`));
  }
  if (typeof given === "string") return { kind: "broker", tool: name.data, arguments: given };
  if (!isObject(given)) return answered(failed(usage));
  return { kind: "broker", tool: name.data, arguments: JSON.stringify(given) };
}
