/** What a hostile model server may answer, and how the turn must end. The silence limit is 8,000 ms. */
import { gzipSync } from "node:zlib";
import { head, type Wire } from "./hostile_llama.ts";
import { chunk, DONE, ending, event, saying, START } from "./llama.ts";
import { runs } from "./long.ts";

const MIB = 1024 * 1024;
/** The head of an answer like any other. */
export const OK = head();
/** A piece of text. */
export const text = (content: string) => chunk({ content });
const calls = (...deltas: unknown[]) => chunk({ tool_calls: deltas });
/** A call of the clock. */
const clock = { index: 0, function: { name: "clock", arguments: "{}" } };

export type Play = string | Uint8Array | ((wire: Wire) => Promise<void>);
export interface Case {
  readonly play: Play;
  /** Why the turn fails, or `done`. */
  readonly ends: RegExp | "done";
  /** All text that the owner sees of it, where that matters. */
  readonly shows?: string;
}

/** A whole answer whose body is `parts`. */
const answers = (ends: RegExp | "done", ...parts: string[]): Case => ({
  play: OK + parts.join(""),
  ends,
});

const NOT_JSON = /^the model server sent something that is not JSON: /;
const NO_PART = /^the model server sent something that is not a part of an answer$/;
const NO_END = /^the model's answer does not end$/;
const TOO_LONG_LINE = /^the model server sent a line that is too long$/;
const TOO_LONG = /^the model's answer is too long$/;
const TOO_LONG_SESSION = /^this session has become too long; start a new one$/;
const BROKEN = /^the connection to the model server failed: /;
const ENDED = /^the model server's stream ended before the answer$/;
/** A reset looks like an end where nothing else says how long the answer is. */
const CUT =
  /^the (?:connection to the model server failed|model server's stream ended before the answer)/;
/** What takes as long as the silence that is allowed. */
export const SILENT = /^the model server was silent for 8000 ms$/;
const INDEX = /^the model server sent a tool call whose index is not 0 to 63$/;
const redirect = (status: string, to: string): Case => ({
  play: `${head(status, `location: ${to}`)}moved`,
  ends: new RegExp(`^the model server answered ${status.slice(0, 3)}; redirects are not followed$`),
});

/** Answers by their names; some lead to `elsewhere`, where nobody may follow. */
export function casesFor(elsewhere: string): Record<string, Case> {
  const endless = (ends: RegExp, data: string | Uint8Array): Case => ({
    play: async (wire) => {
      await wire.send(OK);
      await wire.forever(data);
    },
    ends,
  });
  return {
    // Endless.
    "a line without an end": endless(TOO_LONG_LINE, "x".repeat(64 * 1024)),
    "pings without an end": endless(NO_END, ": ping\n\n".repeat(8 * 1024)),
    "empty data without an end": endless(NOT_JSON, "data:\n\n".repeat(1024)),
    "data lines without an end of the event": endless(TOO_LONG_LINE, "data: {\n".repeat(8 * 1024)),
    "text without an end": endless(TOO_LONG, text("x".repeat(32 * 1024))),
    "text that the log writes six times as long": endless(
      TOO_LONG_SESSION,
      text("\u0001".repeat(32 * 1024)),
    ),
    "pieces of one letter without an end": endless(NO_END, text("x").repeat(256)),
    "roles without an end": endless(NO_END, START.repeat(256)),
    "arguments without an end": endless(
      TOO_LONG,
      calls({ index: 0, function: { name: "clock", arguments: "x".repeat(32 * 1024) } }),
    ),
    "names without an end": endless(
      TOO_LONG,
      calls({ index: 0, function: { name: "x".repeat(32 * 1024) } }),
    ),
    // Its client gets every piece as an event: half a minute.
    ...runs(0, 1) === 0 ? {} : {
      "text and reasoning in turn without an end": endless(
        NO_END,
        (text("x") + chunk({ reasoning: "x" })).repeat(256),
      ),
    },
    "header lines without an end": {
      play: async (wire) => {
        await wire.send("HTTP/1.1 200 OK\r\n");
        await wire.forever("x-more: y\r\n".repeat(1024));
      },
      ends: BROKEN,
    },
    "one header without an end": {
      play: async (wire) => {
        await wire.send("HTTP/1.1 200 OK\r\nx-more: ");
        await wire.forever("y".repeat(16 * 1024));
      },
      ends: BROKEN,
    },
    "100 Continue without an end": {
      play: (wire) => wire.forever("HTTP/1.1 100 Continue\r\n\r\n", 1),
      ends: SILENT,
    },
    "early hints without an end": {
      play: (wire) => wire.forever("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n", 1),
      ends: SILENT,
    },
    "a status line without an end": {
      play: async (wire) => {
        await wire.send("HTTP/1.1 200 ");
        await wire.forever("O".repeat(16 * 1024));
      },
      ends: BROKEN,
    },

    // Large.
    "a line of 100 MiB": { play: `${OK}data: ${"x".repeat(100 * MIB)}\n\n`, ends: TOO_LONG_LINE },
    "a hundred thousand headers": {
      play: `${head("200 OK", ...Array(100_000).fill("x-more: y"))}${saying("a")}`,
      ends: BROKEN,
    },
    "a hundred thousand tool calls in one message": {
      play: OK + calls(...Array.from({ length: 7000 }, (_, index) => ({ ...clock, index }))),
      ends: INDEX,
    },
    "a hundred thousand tool calls, one after the other": {
      play: async (wire) => {
        await wire.send(OK + START);
        for (let index = 0; index < 100_000; index++) await wire.send(calls({ ...clock, index }));
      },
      ends: INDEX,
    },
    "a hundred thousand tool calls without an index": {
      play: OK + START + calls({ function: { name: "clock" } }).repeat(100_000),
      ends: INDEX,
    },
    "arguments in a hundred thousand pieces": {
      play: OK + calls({ ...clock, function: { name: "clock", arguments: '{"a":"' } }) +
        calls({ index: 0, function: { arguments: "x" } }).repeat(100_000) +
        calls({ index: 0, function: { arguments: '"}' } }) + ending("tool_calls"),
      ends: "done",
    },
    "half a million choices": answers(NO_PART, event(`{"choices":[${"1,".repeat(500_000)}1]}`)),
    "half a million calls that are none": answers(
      NO_PART,
      event(`{"choices":[{"delta":{"tool_calls":[${"1,".repeat(500_000)}1]}}]}`),
    ),
    "half a million calls that say nothing": answers(
      ENDED,
      event(`{"choices":[{"delta":{"tool_calls":[${"{},".repeat(300_000)}{}]}}]}`),
    ),
    "gzip that unpacks to a gibibyte": {
      play: async (wire) => {
        await wire.send(head("200 OK", "content-encoding: gzip"));
        await wire.send(gzipSync(new Uint8Array(64 * MIB).fill(0x3a)));
      },
      ends: ENDED,
    },
    "a body of 100 MiB with a refusal": {
      play: `${head("500 No")}{"error":"${"x".repeat(100 * MIB)}"}`,
      ends: /^the model server answered 500$/,
    },

    // Not UTF-8, or cut inside a character.
    "bytes that are no UTF-8": {
      play: bytes(
        OK,
        'data: {"choices":[{"delta":{"content":"a',
        [0xff, 0xc0, 0x80, 0x9b],
        'z"}}]}\n\n',
        ending("stop"),
      ),
      ends: "done",
      shows: "a\ufffd\ufffd\ufffd\ufffdz",
    },
    "a character whose bytes come one by one": {
      play: async (wire) => {
        await wire.send(OK);
        for (const byte of new TextEncoder().encode(text("🥛"))) {
          await wire.send(new Uint8Array([byte]));
        }
        await wire.send(ending("stop"));
      },
      ends: "done",
      shows: "🥛",
    },
    "a character cut in two by pieces": {
      play: OK + event('{"choices":[{"delta":{"content":"\\ud83e"}}]}') +
        event('{"choices":[{"delta":{"content":"\\udd5b"}}]}') + ending("stop"),
      ends: "done",
      shows: "🥛",
    },
    "UTF-16": {
      play: bytes(OK, [...saying("a")].flatMap((c) => [c.charCodeAt(0), 0])),
      ends: ENDED,
    },

    // Indexes.
    "an index of -1": answers(INDEX, calls({ ...clock, index: -1 })),
    "an index of 64": answers(INDEX, calls({ ...clock, index: 64 })),
    "an index of 2^53": answers(NO_PART, calls({ ...clock, index: 2 ** 53 })),
    "an index of 1e300": answers(NO_PART, calls({ ...clock, index: 1e300 })),
    "an index of a half": answers(NO_PART, calls({ ...clock, index: 0.5 })),
    "an index in words": answers(NO_PART, calls({ ...clock, index: "__proto__" })),
    "no index": answers("done", calls({ function: clock.function }), ending("tool_calls")),
    "a null index": answers("done", calls({ ...clock, index: null }), ending("tool_calls")),

    // Of other types than they should be.
    "choices that are no list": answers(NO_PART, event({ choices: { 0: 1 } })),
    "a choice that is no object": answers(NO_PART, event({ choices: [7] })),
    "text that is a number": answers(NO_PART, text("").replace('""', "7")),
    "text that is a list": answers(NO_PART, text("").replace('""', '["a"]')),
    "null everywhere": answers(
      "done",
      event("null").replace("null", "{}"),
      event({ error: null, choices: null }),
      event({ choices: [{ finish_reason: null, delta: null }] }),
      event({ choices: [{ delta: { content: null, reasoning: null, tool_calls: null } }] }),
      event({ choices: [{ delta: { tool_calls: [{ index: null, function: null }] } }] }),
      ending("tool_calls"),
    ),
    "null itself": answers(NO_PART, event("null")),
    "a null choice": answers(NO_PART, event({ choices: [null] })),
    "a null call": answers(NO_PART, calls(null)),
    "a list in place of an object": answers(NO_PART, event("[]")),
    "not JSON": answers(NOT_JSON, event("{")),
    "two values": answers(NOT_JSON, event("{} {}")),
    "half a million open brackets": answers(NOT_JSON, event("[".repeat(500_000))),
    "half a million brackets": answers(
      NO_PART,
      event(`{"choices":${"[".repeat(200_000)}${"]".repeat(200_000)}}`),
    ),
    "an error as deep as that": answers(
      /^the model server reports an error: \[/,
      event(`{"error":${"[".repeat(200_000)}${"]".repeat(200_000)}}`),
    ),
    "an error with status 200": answers(
      /^the model server reports an error: broken$/,
      event({ error: { message: "broken" } }),
    ),
    "an error with status 200 and no event": {
      play: `${OK}{"error":{"message":"broken"}}`,
      ends: ENDED,
    },
    "keys of a prototype": answers(
      ENDED,
      event('{"__proto__":{"choices":[{"finish_reason":"stop"}]}}'),
      event('{"constructor":{"prototype":{"choices":[{"finish_reason":"stop"}]}}}'),
    ),

    // Endings.
    "nothing at all": { play: "", ends: BROKEN },
    "an empty body": answers(ENDED),
    "[DONE] at once": answers("done", DONE),
    "[DONE], and then more": { ...answers("done", text("a"), DONE, text("b")), shows: "a" },
    "[DONE], and then no end": {
      play: async (wire) => {
        await wire.send(OK + text("a") + DONE);
        await wire.forever(text("b"));
      },
      ends: "done",
      shows: "a",
    },
    "two finish reasons": {
      ...answers("done", text("a"), chunk({}, "stop"), text("b"), chunk({}, "tool_calls"), DONE),
      shows: "ab",
    },
    "a finish reason that says calls, and none": answers("done", ending("tool_calls")),
    "a finish reason nobody knows": answers("done", chunk({}, "\u001b[2J\u202e"), DONE),
    "no finish reason": answers(ENDED, text("a")),

    // HTTP.
    "301 to elsewhere": redirect("301 Moved Permanently", `${elsewhere}/v1/chat/completions`),
    "302 to elsewhere": redirect("302 Found", `${elsewhere}/v1/chat/completions`),
    "303 to elsewhere": redirect("303 See Other", `${elsewhere}/v1/chat/completions`),
    "307 to elsewhere": redirect("307 Temporary Redirect", `${elsewhere}/v1/chat/completions`),
    "308 to elsewhere": redirect("308 Permanent Redirect", `${elsewhere}/v1/chat/completions`),
    "302 to a file": redirect("302 Found", "file:///etc/passwd"),
    "302 to itself": redirect("302 Found", "/v1/chat/completions"),
    "another content type": {
      play: `${OK.replace("text/event-stream", "text/html")}<p>${saying("a")}`,
      ends: "done",
    },
    "101 with another protocol": {
      play: "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
      ends: BROKEN,
    },
    "204": { play: head("204 No Content"), ends: /^the model server answered 204$/ },
    "a status of 999": { play: head("999 What"), ends: /^the model server answered 999$/ },
    "a status that is none": { play: "HTTP/1.1 abc OK\r\n\r\n", ends: BROKEN },
    "no HTTP": { play: "\u001b[2J\u0000\u0001SSH-2.0\r\n", ends: BROKEN },
    "HTTP/0.9": { play: "<p>hello", ends: BROKEN },
    "a NUL in a header": { play: `${OK.slice(0, -2)}x-more: a\0b\r\n\r\n`, ends: BROKEN },
    "escapes in a refusal": {
      play: `${head("418 \u001b[2J")}{"error":{"message":"\\u001b[2J\\u202e${"a".repeat(1000)}"}}`,
      ends: /^the model server answered 418: \\u001b\[2J\\u202ea+… \d+ more characters$/,
    },
    "a refusal that is deep": {
      play: `${head("500 No")}{"error":${"[".repeat(200_000)}${"]".repeat(200_000)}}`,
      ends: /^the model server answered 500: \[/,
    },
    "a refusal that is no JSON": {
      play: `${head("503 No")}<p>`,
      ends: /^the model server answered 503$/,
    },
    "chunks whose length is none": {
      play: `${head("200 OK", "transfer-encoding: chunked")}zz\r\nabc\r\n`,
      ends: BROKEN,
    },
    "a chunk of 2^64 bytes": {
      play: `${head("200 OK", "transfer-encoding: chunked")}ffffffffffffffffff\r\nabc\r\n`,
      ends: BROKEN,
    },
    "a chunk that is cut off": {
      play: `${head("200 OK", "transfer-encoding: chunked")}ff\r\n${text("a")}`,
      ends: BROKEN,
    },
    "a length that is too large": {
      play: head("200 OK", "content-length: 1000000") + text("a"),
      ends: BROKEN,
    },
    "a length that is too small": {
      play: head("200 OK", "content-length: 10") + saying("a"),
      ends: ENDED,
    },
    "a negative length": { play: head("200 OK", "content-length: -1") + saying("a"), ends: BROKEN },
    "two lengths": {
      play: head("200 OK", "content-length: 1", "content-length: 2") + saying("a"),
      ends: BROKEN,
    },
    "a connection that is reset": {
      play: async (wire) => {
        await wire.send(OK + text("a"));
        wire.reset();
      },
      ends: CUT,
    },
    "a connection that is reset before any answer": { play: (wire) => wire.reset(), ends: BROKEN },
    "silence": { play: (wire) => wire.silence(), ends: SILENT },
    "silence after the head": {
      play: async (wire) => {
        await wire.send(OK + text("a"));
        await wire.silence();
      },
      ends: SILENT,
      shows: "a",
    },
  };
}

function bytes(...parts: (string | number[])[]): Uint8Array {
  const all = parts.map((part) =>
    typeof part === "string" ? new TextEncoder().encode(part) : new Uint8Array(part)
  );
  const whole = new Uint8Array(all.reduce((size, { length }) => size + length, 0));
  let at = 0;
  for (const part of all) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
