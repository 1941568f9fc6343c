/** How a command speaks: answers to stdout, messages to stderr. Tests hand in their own. */
import { displayJson } from "../proto/escape.ts";
import { say } from "../proto/io/log.ts";
import { hangOf, widthOf, wrapped } from "./fit.ts";
import type { Failed } from "./notices.ts";

export type Status = 0 | 1 | 2;

export interface Io {
  /** Writes to stdout. Everything that is not the program's own has been escaped. Throws `OutputGone`. */
  answer(text: string): void;
  /** Says `lines` on stderr, each with the program's name before it. */
  tell(...lines: readonly string[]): void;
  /** Writes a question to stderr, with nothing before or after it. */
  prompt(question: string): void;
  /** The present in milliseconds since 1970. */
  now(): number;
  /** stdout is a terminal. */
  readonly terminal: boolean;
  /** stdout takes colours. */
  readonly colours: boolean;
  /** The columns of the terminal that stdout is; null for none, and where nobody knows. */
  readonly width: number | null;
  /** The columns of the terminal that stderr is, where a line can be written over there; else null. */
  readonly statusWidth: number | null;
}

/** Nobody takes what is written to stdout. */
export class OutputGone extends Error {}

/** Answers with one JSON document on a line. */
export function answerJson(io: Io, value: object): void {
  io.answer(displayJson(value) + "\n");
}

/**
 * Answers with `lines`. On a terminal a long one goes on indented by `hang`, so that no text that came from
 * elsewhere stands where a line of its own would.
 */
export function answerLines(io: Io, lines: readonly string[], hang = hangOf): void {
  const all = lines.flatMap((line) => wrapped(line, io.width, hang(line)));
  io.answer(all.map((line) => `${line}\n`).join(""));
}

/** Tells why a command failed, with `json` on stdout too. */
export function reportFailure(io: Io, { code, lines }: Failed, json: boolean): void {
  io.tell(...lines);
  if (json) answerJson(io, { error: { code, message: lines.join("; ") } });
}

/** Of a terminal that does not say its width, in columns. */
const USUAL_WIDTH = 80;

const encoder = new TextEncoder();

/** What the owner's environment says of the terminal. */
export interface Looks {
  readonly colours: boolean;
  /** A terminal that can do nothing but go on: no line is written over. */
  readonly dumb: boolean;
}

/** What is known before the environment may be read. */
export const PLAIN: Looks = { colours: false, dumb: true };

/** The process's own streams. Colours are for a terminal alone, whatever `looks` says. */
export function realIo(looks: Looks): Io {
  const terminal = Deno.stdout.isTerminal();
  const width = widthOf(terminalColumns());
  return {
    terminal,
    colours: terminal && looks.colours,
    width: terminal ? width : null,
    statusWidth: Deno.stderr.isTerminal() && !looks.dumb ? width ?? USUAL_WIDTH : null,
    now: () => Date.now(),
    tell: (...lines) => say("bxctl", ...lines),
    answer(text) {
      const bytes = encoder.encode(text);
      try {
        for (let at = 0; at < bytes.length;) at += Deno.stdout.writeSync(bytes.subarray(at));
      } catch (error) {
        throw new OutputGone("stdout", { cause: error });
      }
    },
    prompt(question) {
      try {
        Deno.stderr.writeSync(encoder.encode(question));
      } catch {
        // nobody reads the question: its answer still counts
      }
    },
  };
}

/** The columns of the terminal that one of the streams is; 0 where it does not say, and for none. */
function terminalColumns(): number {
  try {
    return Deno.consoleSize().columns;
  } catch {
    return 0;
  }
}
