/** Frames: one line of JSON each (contracts 2). Pure. */
import * as z from "zod";
import { BODIES, type ErrorCode, type Kind, type Message } from "./messages.ts";
import { hasMoreMarks, parseExact } from "./json.ts";
import { fromUtf8, utf8 } from "./text.ts";

/** Limits in bytes, the newline included. */
export const MAX_REQUEST_BYTES = 1024 * 1024;
export const MAX_ANSWER_BYTES = 2 * 1024 * 1024;
/** A request is complete within this many milliseconds of its connection's opening. */
export const REQUEST_TIMEOUT_MS = 10_000;

/**
 * No request has more brackets and commas outside of its strings. A message that brokerd itself sends about
 * 128 approvals stays below, so that on the wrong socket it is `forbidden`.
 */
const MAX_REQUEST_MARKS = 4096;

const VERSION = 1;

const Envelope = z.strictObject({
  v: z.int(),
  kind: z.string(),
  final: z.boolean(),
  // Read by its kind's schema: a reading of just any JSON takes seconds for 1 MiB of brackets.
  body: z.unknown().refine((body) => body !== undefined, "missing"),
});

/** The frame of `message` with its newline. Throws where a field does not fit its type. */
export function encodeFrame(message: Message): Uint8Array<ArrayBuffer> {
  const body = BODIES[message.kind].parse(message.body);
  return utf8(
    JSON.stringify({ v: VERSION, kind: message.kind, final: message.final, body }) + "\n",
  );
}

export interface FrameError {
  readonly code: Extract<ErrorCode, "bad_frame" | "unsupported_version" | "forbidden">;
  /** Fixed words of this program: nothing that the other side sent. */
  readonly message: string;
  /** The kind that was sent, for `forbidden`. */
  readonly kind: Kind | null;
}

export type Decoded<K extends Kind> =
  | { readonly ok: true; readonly message: Message<K> }
  | { readonly ok: false; readonly error: FrameError };

function isKind(kind: string): kind is Kind {
  return Object.hasOwn(BODIES, kind);
}

function isOneOf<K extends Kind>(kind: Kind, accepted: readonly K[]): kind is K {
  return (accepted as readonly Kind[]).includes(kind);
}

/**
 * Reads the line of a frame (without its newline) as one of the kinds `accepted`. A known kind that is
 * not among them is `forbidden`, whatever its body.
 */
export function decodeFrame<K extends Kind>(line: Uint8Array, accepted: readonly K[]): Decoded<K> {
  const content = fromUtf8(line);
  return content === null ? bad("not UTF-8") : readFrame(content, accepted);
}

function bad(message: string): { readonly ok: false; readonly error: FrameError } {
  return { ok: false, error: { code: "bad_frame", message, kind: null } };
}

function readFrame<K extends Kind>(content: string, accepted: readonly K[]): Decoded<K> {
  const envelope = parseExact(Envelope, content);
  if (envelope === null) return bad("not a frame in its one form");
  if (envelope.v !== VERSION) {
    const error: FrameError = {
      code: "unsupported_version",
      message: "only version 1 is spoken",
      kind: null,
    };
    return { ok: false, error };
  }
  const { kind, final } = envelope;
  if (!isKind(kind)) return bad("unknown kind");
  if (!isOneOf(kind, accepted)) {
    return {
      ok: false,
      error: { code: "forbidden", message: "this socket does not take that kind", kind },
    };
  }
  const body = BODIES[kind].safeParse(envelope.body);
  // The envelope was in its one form, so the body is too unless the schema orders its keys otherwise.
  if (!body.success || JSON.stringify(body.data) !== JSON.stringify(envelope.body)) {
    return bad("the body does not fit its kind");
  }
  return { ok: true, message: { kind, final, body: body.data } as Message<K> };
}

/**
 * Reads a request: one of the kinds `accepted`, with `final` true. Costs little more than looking at each byte,
 * whatever the bytes are.
 */
export function decodeRequest<K extends Kind>(
  line: Uint8Array,
  accepted: readonly K[],
): Decoded<K> {
  const content = fromUtf8(line);
  if (content === null) return bad("not UTF-8");
  if (hasMoreMarks(content, MAX_REQUEST_MARKS)) {
    return bad("more brackets and commas than any request has");
  }
  const decoded = readFrame(content, accepted);
  return !decoded.ok || decoded.message.final ? decoded : bad("a request is final");
}
