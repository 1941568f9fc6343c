/**
 * What a container's output and end mean (specification 7: `Unavailable` and `Failed`). The tool in the image
 * prints one byte before anything that a call can influence runs; without it nothing has run, unless Podman
 * lost it (`mayHaveRun`). What a command or a page says goes into JSON strings, so it cannot pass for what is
 * said about it. Pure.
 */
import { display } from "../../proto/escape.ts";
import { assertNever, fromUtf8 } from "../../proto/text.ts";
import type { ToolArgs } from "../../proto/tools.ts";
import type { RunOutcome } from "../runner.ts";

/** How a container ended. */
export interface Ended {
  /**
   * `exited`: by itself. `late`: its time was up. `cut`: its output was larger than what is kept. `stopped`:
   * brokerd stops, or the egress proxy is gone. `lost`: somebody else ended Podman.
   */
  readonly how: "exited" | "late" | "cut" | "stopped" | "lost";
  /** Podman's exit status, which is the tool's where that has run. */
  readonly code: number;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
}

/** The tool's mark that it has started, and that of `shell` that the command itself runs. */
const STARTED = "S".charCodeAt(0);
const COMMAND = "C".charCodeAt(0);
/** The mark of `shell` on stderr: what stands before it are warnings of Podman, and not the command's. */
const COMMAND_STDERR = 0;
/** How many bytes the marks and the head of a page take beside the output that is kept. */
export const HEAD_BYTES = 16 * 1024;
/** The longest message of a tool, in characters. */
const MAX_MESSAGE = 1000;

/** Whether the tool began its work. */
export function hasStarted({ stdout }: Ended): boolean {
  return stdout[0] === STARTED;
}

/** The status of `tool` where a granted path is not what is mounted in its place. */
const NOT_MOUNTED = 70;
/** What Podman ends with where it could not start a container, or the program in it. */
const NOT_RUN = [125, 126, 127];

/**
 * Whether a container that ended by itself may have run though its mark did not come: Podman has been seen to
 * lose all that a container said, and to give its status.
 */
export function mayHaveRun(ended: Ended): boolean {
  const { how, code } = ended;
  return how === "exited" && !hasStarted(ended) && ![...NOT_RUN, NOT_MOUNTED].includes(code);
}

/** What the container or Podman said last: before the tool has started, nobody else can speak there. */
export function lastWords({ stderr }: Ended): string {
  const lines = lossy(stderr).trim().split("\n");
  return display(lines.at(-1) ?? "").slice(0, MAX_MESSAGE);
}

/**
 * Where a tool did not start since a granted path is not there, or leads elsewhere: what is wrong. Null
 * where it is something else.
 */
export function mountFailure(ended: Ended): string | null {
  const words = lastWords(ended);
  if (ended.code === NOT_MOUNTED) return words;
  const [, path] = /^Error: statfs (.*): no such file or directory$/.exec(words) ?? [];
  return path === undefined ? null : `the granted path ${path} does not exist`;
}

/** The outcome of a tool that has started. `limit`: how many bytes of output are kept. */
export function outcomeOf(
  args: ToolArgs,
  ended: Ended,
  limit: number,
  timeoutMs: number,
): RunOutcome {
  const output = ended.stdout.subarray(1);
  switch (args.tool) {
    case "read_file":
      return ifDone(ended, timeoutMs, () => fileContent(output, limit));
    case "write_file":
      return ifDone(ended, timeoutMs, () => result(`wrote ${display(args.path)}`, false));
    case "shell":
      return commandOutcome(ended, limit, timeoutMs);
    case "http_fetch":
      return ifDone(ended, timeoutMs, () => pageContent(output, limit));
    default:
      return assertNever(args);
  }
}

function result(content: string, truncated: boolean): RunOutcome {
  return { status: "result", content, truncated };
}

function failed(message: string): RunOutcome {
  return { status: "failed", message };
}

/** How an end that was not the tool's own is told. */
function brokenOff(how: "late" | "stopped" | "lost", timeoutMs: number): string {
  switch (how) {
    case "late":
      return `it was stopped after ${timeoutMs} ms`;
    case "stopped":
      return "it was stopped with brokerd";
    case "lost":
      return "podman was ended from outside";
    default:
      return assertNever(how);
  }
}

/** The outcome `done` of a tool that ended well, and its own words where it did not. */
function ifDone(ended: Ended, timeoutMs: number, done: () => RunOutcome): RunOutcome {
  const { how, code } = ended;
  if (how === "late" || how === "stopped" || how === "lost") {
    return failed(brokenOff(how, timeoutMs));
  }
  if (how === "cut" || code === 0) return done();
  // A tool that the kernel ended, for its memory above all, says nothing.
  return failed(lastWords(ended) || `the tool ended with status ${code}`);
}

/** A file's bytes as text. What was cut off in the middle of a character goes back to before it. */
function fileContent(bytes: Uint8Array, limit: number): RunOutcome {
  const truncated = bytes.length > limit;
  const kept = truncated ? bytes.subarray(0, endOfCharacter(bytes, limit)) : bytes;
  const content = fromUtf8(kept);
  return content === null ? failed("the file is not UTF-8 text") : result(content, truncated);
}

/** The largest index up to `limit` that no character of UTF-8 crosses. */
function endOfCharacter(bytes: Uint8Array, limit: number): number {
  const isContinuation = (at: number) => ((bytes[at] ?? 0) & 0xc0) === 0x80;
  let at = limit;
  while (at > limit - 3 && isContinuation(at)) at -= 1;
  return at;
}

function lossy(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

/** A command's status and output. Both streams together are kept up to the limit. */
function commandOutcome(ended: Ended, limit: number, timeoutMs: number): RunOutcome {
  const { how, code, stdout, stderr } = ended;
  if (stdout[1] !== COMMAND) {
    if (how !== "exited" && how !== "cut") return failed(brokenOff(how, timeoutMs));
    return failed(lastWords(ended) || `the shell ended with status ${code}`);
  }
  const out = stdout.subarray(2, 2 + limit);
  const rest = limit - out.length;
  const mark = stderr.indexOf(COMMAND_STDERR);
  const err = mark < 0 ? new Uint8Array() : stderr.subarray(mark + 1);
  const content = JSON.stringify({
    exit: how === "exited" ? code : null,
    stdout: lossy(out),
    stderr: lossy(err.subarray(0, rest)),
  });
  if (how === "exited" || how === "cut") {
    return result(content, stdout.length - 2 > limit || err.length > rest);
  }
  return failed(`${brokenOff(how, timeoutMs)}; until then: ${content}`);
}

/** A page: its status line and a few headers, an empty line, and the body. */
function pageContent(bytes: Uint8Array, limit: number): RunOutcome {
  const end = indexOfEmptyLine(bytes);
  if (end === null) return failed("the answer of the server has no end of its headers");
  const [status = "", ...lines] = lossy(bytes.subarray(0, end)).split("\n");
  const headers = lines.map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1).trim()];
  });
  const body = bytes.subarray(end + 2);
  const content = JSON.stringify({
    status: status.trimEnd(),
    headers: Object.fromEntries(headers),
    body: lossy(body.subarray(0, endOfCharacter(body, Math.min(limit, body.length)))),
  });
  return result(content, body.length > limit);
}

function indexOfEmptyLine(bytes: Uint8Array): number | null {
  const newline = "\n".charCodeAt(0);
  for (let at = 0; at + 1 < bytes.length; at += 1) {
    if (bytes[at] === newline && bytes[at + 1] === newline) return at;
  }
  return null;
}
