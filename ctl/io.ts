/** How a command speaks: answers to stdout, messages to stderr. Tests hand in their own. */
import { displayJson } from "../proto/escape.ts";
import { say } from "../proto/io/log.ts";
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
}

/** Nobody takes what is written to stdout. */
export class OutputGone extends Error {}

/** Answers with one JSON document on a line. */
export function answerJson(io: Io, value: object): void {
  io.answer(displayJson(value) + "\n");
}

/** Tells why a command failed, with `json` on stdout too. */
export function reportFailure(io: Io, { code, lines }: Failed, json: boolean): void {
  io.tell(...lines);
  if (json) answerJson(io, { error: { code, message: lines.join("; ") } });
}

const encoder = new TextEncoder();

/** The process's own streams. `plain`: no colours even on a terminal. */
export function realIo(plain: boolean): Io {
  const terminal = Deno.stdout.isTerminal();
  return {
    terminal,
    colours: terminal && !plain,
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
