/**
 * The model server's stream: server-sent events, and the answer put together from their deltas
 * (contracts 7). Read loosely, since unknown keys come with every release; bounded, since nothing that a
 * server sends may end loopd. Pure.
 */
import * as z from "zod";
import { LineSplitter } from "../proto/lines.ts";
import { utf8Length } from "../proto/text.ts";
import { shorten } from "./events.ts";

/** The longest line, and the most data of one event, in bytes. */
export const MAX_LINE_BYTES = 1024 * 1024;
/** Text, reasoning, tool names and arguments of one answer together, in bytes of UTF-8. */
export const MAX_TEXT_BYTES = 8 * 1024 * 1024;
/** All bytes of one answer, its wrapping and pings included: some 200,000 words in pieces of one each. */
export const MAX_STREAM_BYTES = 64 * 1024 * 1024;
/** Tool calls in one answer. */
export const MAX_CALLS = 64;
/** What the server says of itself is quoted up to this length, in UTF-16 units. */
const MAX_QUOTED = 300;

/** The model server failed this answer. The message is for the owner: it ends the turn as `failed`. */
export class ModelError extends Error {}

/** A piece of what the model says, well-formed. */
export interface Piece {
  readonly type: "reasoning" | "text";
  readonly text: string;
}

/** A tool call as the model asks for it: nothing about it has been checked but that it is well-formed. */
export interface AskedCall {
  readonly name: string;
  readonly arguments: string;
}

/** What is left of an answer once its text has been handed on. */
export interface Answer {
  readonly calls: readonly AskedCall[];
  /** The model ran into its length limit. */
  readonly cut: boolean;
}

const CallDelta = z.object({
  index: z.int().nullish(),
  function: z.object({ name: z.string().nullish(), arguments: z.string().nullish() }).nullish(),
});
type CallDelta = z.infer<typeof CallDelta>;

const Choice = z.object({
  finish_reason: z.string().nullish(),
  delta: z.object({
    reasoning_content: z.string().nullish(),
    reasoning: z.string().nullish(),
    content: z.string().nullish(),
    tool_calls: z.array(z.unknown()).nullish(),
  }).nullish(),
});
type Choice = z.infer<typeof Choice>;

// What an array holds is read one by one, as far as it is wanted: a list of all that is wrong with half a
// million elements takes seconds to make.
const Chunk = z.object({
  error: z.unknown().optional(),
  choices: z.array(z.unknown()).nullish(),
});

const ErrorObject = z.object({ message: z.string() });

/** What a server's `error` says, in its own words as far as they can be found. */
export function quoted(error: unknown): string {
  const object = ErrorObject.safeParse(error);
  const words = object.success ? object.data.message : JSON.stringify(error) ?? "";
  return shorten(words.toWellFormed(), MAX_QUOTED);
}

/** `d`, as in `data:`. */
const D = 0x64;

/** Splits a stream into the data of its events. Ends of lines are `\n` or `\r\n`. */
export class SseReader {
  readonly #lines = new LineSplitter();
  // Bytes that are no UTF-8 become U+FFFD: the model's text is shown as far as it goes.
  readonly #decoder = new TextDecoder();
  #data: string[] = [];
  #size = 0;

  /** The events that `chunk` completes. Throws `ModelError`. */
  *push(chunk: Uint8Array): Generator<string> {
    for (const { bytes } of this.#lines.push(chunk)) {
      const data = this.#line(bytes);
      if (data !== null) yield data;
    }
    if (this.#lines.pending > MAX_LINE_BYTES) throw tooLong();
  }

  /** The event that the stream broke off in, or null. It may be cut short. */
  end(): string | null {
    const rest = this.#lines.end();
    if (rest !== null) this.#line(rest.bytes);
    return this.#dispatch();
  }

  /** Takes a line; gives the event that it ends. */
  #line(bytes: Uint8Array): string | null {
    if (bytes.length > MAX_LINE_BYTES) throw tooLong();
    // A line that begins with ":" is a comment; other fields than data carry nothing for us.
    if (bytes[0] !== D && bytes.length > 1) return null;
    const line = this.#decoder.decode(bytes).replace(/\r$/, "");
    if (line === "") return this.#dispatch();
    const value = /^data: ?(.*)$/s.exec(line)?.[1];
    if (value === undefined) return null;
    this.#size += bytes.length;
    if (this.#size > MAX_LINE_BYTES) throw tooLong();
    this.#data.push(value);
    return null;
  }

  #dispatch(): string | null {
    if (this.#data.length === 0) return null;
    const data = this.#data.join("\n");
    this.#data = [];
    this.#size = 0;
    return data;
  }
}

function tooLong(): ModelError {
  return new ModelError("the model server sent a line that is too long");
}

/** Makes pieces well-formed: the first half of a pair of surrogates waits for its second. */
class Joint {
  #held = "";

  push(piece: string): string {
    const whole = this.#held + piece;
    const [half = ""] = /[\ud800-\udbff]$/.exec(whole) ?? [];
    this.#held = half;
    return whole.slice(0, whole.length - half.length).toWellFormed();
  }

  end(): string {
    const rest = this.#held.toWellFormed();
    this.#held = "";
    return rest;
  }
}

/** Reads one answer from the bytes of its stream, cut anywhere. */
export class AnswerReader {
  readonly #sse = new SseReader();
  readonly #joints = { reasoning: new Joint(), text: new Joint() };
  readonly #calls = new Map<number, { name: string; arguments: string }>();
  #lastIndex = -1;
  #bytes = 0;
  #textBytes = 0;
  #finish: string | null = null;
  #done = false;

  /** The stream has said that nothing more comes. */
  get done(): boolean {
    return this.#done;
  }

  /** The model has said that it has finished, whatever becomes of the stream (contracts 8). */
  get finished(): boolean {
    return this.#done || this.#finish !== null;
  }

  /** What `chunk` adds to the text. Throws `ModelError`; what was given before still counts. */
  *push(chunk: Uint8Array): Generator<Piece> {
    if (this.#done) return;
    this.#bytes += chunk.length;
    if (this.#bytes > MAX_STREAM_BYTES) throw new ModelError("the model's answer does not end");
    for (const data of this.#sse.push(chunk)) {
      yield* this.#event(data);
      if (this.#done) return;
    }
  }

  /** The last of the text. Throws `ModelError` where the stream ended before the answer did. */
  *end(): Generator<Piece> {
    try {
      const rest = this.#done ? null : this.#sse.end();
      if (rest !== null) yield* this.#event(rest);
    } catch (error) {
      // The stream broke off inside this event; whether that matters is decided below.
      if (!(error instanceof ModelError)) throw error;
    }
    for (const type of ["reasoning", "text"] as const) {
      const text = this.#joints[type].end();
      if (text !== "") yield { type, text };
    }
    if (!this.finished) throw new ModelError("the model server's stream ended before the answer");
  }

  /** The tool calls, in order of their index. */
  get answer(): Answer {
    const calls = [...this.#calls].sort(([a], [b]) => a - b).map(([, call]) => ({
      name: call.name.toWellFormed(),
      arguments: call.arguments.toWellFormed(),
    }));
    return { calls, cut: this.#finish === "length" };
  }

  *#event(data: string): Generator<Piece> {
    if (data.trim() === "[DONE]") {
      this.#done = true;
      return;
    }
    const { error, choices } = read(Chunk, parseChunk(data));
    if (error !== undefined && error !== null) {
      throw new ModelError(`the model server reports an error: ${quoted(error)}`);
    }
    const first = choices?.[0];
    const choice: Choice | undefined = first === undefined ? first : read(Choice, first);
    this.#finish = choice?.finish_reason ?? this.#finish;
    const { reasoning_content, reasoning, content, tool_calls } = choice?.delta ?? {};
    yield* this.#piece("reasoning", reasoning_content ?? reasoning ?? "");
    yield* this.#piece("text", content ?? "");
    for (const call of tool_calls ?? []) this.#call(read(CallDelta, call));
  }

  *#piece(type: Piece["type"], piece: string): Generator<Piece> {
    this.#count(piece);
    const text = this.#joints[type].push(piece);
    if (text !== "") yield { type, text };
  }

  #call(delta: CallDelta): void {
    const name = delta.function?.name ?? "";
    const piece = delta.function?.arguments ?? "";
    // Pieces belong together by index. Where it is missing, a name begins the next call.
    const index = delta.index ?? (name === "" ? Math.max(0, this.#lastIndex) : this.#nextIndex());
    if (index < 0 || index >= MAX_CALLS) {
      throw new ModelError(
        `the model server sent a tool call whose index is not 0 to ${MAX_CALLS - 1}`,
      );
    }
    this.#count(name);
    this.#count(piece);
    this.#lastIndex = index;
    const call = this.#calls.get(index) ?? { name: "", arguments: "" };
    this.#calls.set(index, {
      name: call.name === "" ? name : call.name,
      arguments: call.arguments + piece,
    });
  }

  #nextIndex(): number {
    return Math.max(-1, ...this.#calls.keys()) + 1;
  }

  #count(piece: string): void {
    this.#textBytes += utf8Length(piece);
    if (this.#textBytes > MAX_TEXT_BYTES) throw new ModelError("the model's answer is too long");
  }
}

function parseChunk(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch (cause) {
    throw new ModelError("the model server sent something that is not JSON", { cause });
  }
}

function read<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new ModelError("the model server sent something that is not a part of an answer");
}

/** `pieces` with neighbours of the same type made one. */
export function joined(pieces: readonly Piece[]): Piece[] {
  const result: { type: Piece["type"]; texts: string[] }[] = [];
  for (const { type, text } of pieces) {
    const last = result.at(-1);
    if (last?.type === type) last.texts.push(text);
    else result.push({ type, texts: [text] });
  }
  return result.map(({ type, texts }) => ({ type, text: texts.join("") }));
}
