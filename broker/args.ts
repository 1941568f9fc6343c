/** A call's arguments into typed values, with the form of paths and URLs checked (specification 3). Pure. */
import { hasMoreMarks, parseStrict } from "../proto/json.ts";
import { TOOL_ARGUMENTS, type ToolArgs, type ToolName } from "../proto/tools.ts";
import { assertNever } from "../proto/text.ts";
import { urlHost } from "./hosts.ts";
import { pathProblem } from "./paths.ts";

/**
 * No arguments of a tool have more brackets and commas outside of their strings: what has is invalid, and
 * reading it would hold up the other calls.
 */
const MAX_MARKS = 16;

/** The arguments of a call to `tool` as the model wrote them, or null for `invalid_arguments`. */
export function parseArguments(tool: ToolName, text: string): ToolArgs | null {
  if (hasMoreMarks(text, MAX_MARKS)) return null;
  const args = readShape(tool, parseStrict(text));
  return args !== null && hasValidForm(args) ? args : null;
}

function readShape(tool: ToolName, value: unknown): ToolArgs | null {
  switch (tool) {
    case "read_file": {
      const { data } = TOOL_ARGUMENTS.read_file.safeParse(value);
      return data === undefined ? null : { tool, ...data };
    }
    case "write_file": {
      const { data } = TOOL_ARGUMENTS.write_file.safeParse(value);
      return data === undefined ? null : { tool, ...data };
    }
    case "shell": {
      const { data } = TOOL_ARGUMENTS.shell.safeParse(value);
      return data === undefined ? null : { tool, ...data };
    }
    case "http_fetch": {
      const { data } = TOOL_ARGUMENTS.http_fetch.safeParse(value);
      return data === undefined ? null : { tool, ...data };
    }
    default:
      return assertNever(tool);
  }
}

function hasValidForm(args: ToolArgs): boolean {
  switch (args.tool) {
    case "read_file":
    case "write_file":
      return pathProblem(args.path) === null;
    case "shell":
      return args.cwd === undefined || pathProblem(args.cwd) === null;
    case "http_fetch":
      return urlHost(args.url) !== null;
    default:
      return assertNever(args);
  }
}
