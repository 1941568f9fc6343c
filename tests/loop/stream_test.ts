/** The model server's stream, cut anywhere, and what a hostile one may send (contracts 7 and 8). */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import {
  type Answer,
  AnswerReader,
  joined,
  MAX_CALLS,
  MAX_LINE_BYTES,
  MAX_STREAM_BYTES,
  MAX_TEXT_BYTES,
  ModelError,
  type Piece,
} from "../../loop/stream.ts";
import { asking, chunk, DONE, ending, event, saying, START } from "../support/llama.ts";
import { utf8 } from "../../proto/text.ts";

const RECORDED = new URL("../../fixtures/streams/tools.sse", import.meta.url);

interface Read extends Answer {
  readonly reasoning: string;
  readonly text: string;
}

function readAll(chunks: Iterable<Uint8Array>): Read {
  const reader = new AnswerReader();
  const pieces: Piece[] = [];
  for (const bytes of chunks) {
    // What comes after the end is not read.
    if (reader.done) break;
    pieces.push(...reader.push(bytes));
  }
  pieces.push(...reader.end());
  for (const { text } of pieces) assert(text.isWellFormed() && text !== "");
  const all = (type: Piece["type"]) =>
    pieces.filter((piece) => piece.type === type).map(({ text }) => text).join("");
  return { reasoning: all("reasoning"), text: all("text"), ...reader.answer };
}

const read = (...parts: readonly (string | Uint8Array)[]) =>
  readAll(parts.map((part) => typeof part === "string" ? utf8(part) : part));

/** A pure test: it runs without any permission. */
function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

Deno.test({
  name: "a recorded stream gives the same answer wherever it is cut, at every byte",
  permissions: { read: [RECORDED] },
  fn() {
    const bytes = Deno.readFileSync(RECORDED);
    const expected: Read = {
      reasoning: "Die Notizen wissen es – vielleicht 🥛.",
      text: 'Ich sehe nach … 日本語\n\t"ja"',
      calls: [
        {
          name: "call_tool",
          arguments: '{"tool":"read_file","arguments":{"path":"/n/milch-🥛"}}',
        },
        { name: "clock", arguments: "{}" },
      ],
      cut: false,
    };
    assert.deepEqual(readAll([bytes]), expected);
    for (let at = 0; at <= bytes.length; at++) {
      assert.deepEqual(readAll([bytes.subarray(0, at), bytes.subarray(at)]), expected, `${at}`);
    }
    assert.deepEqual(readAll([...bytes].map((byte) => new Uint8Array([byte]))), expected);
    const carriage = utf8(new TextDecoder().decode(bytes).replaceAll("\n", "\r\n"));
    for (let at = 0; at <= carriage.length; at += 7) {
      assert.deepEqual(readAll([carriage.subarray(0, at), carriage.subarray(at)]), expected);
    }
  },
});

pure("any pieces come out whole, in any cut, with any end of line", () => {
  const piece = fc.record({
    key: fc.constantFrom("content", "reasoning_content", "reasoning"),
    value: fc.string({ unit: "binary" }),
    newline: fc.constantFrom("\n", "\r\n"),
    between: fc.constantFrom("", ": ping\n\n", "event: x\nid: 7\n\n", "\n"),
  });
  fc.assert(fc.property(
    fc.array(piece),
    fc.infiniteStream(fc.integer({ min: 1, max: 40 })),
    (pieces, sizes) => {
      const lines = pieces.map(({ key, value, newline, between }) =>
        between + chunk({ [key]: value }).replaceAll("\n", newline)
      );
      const bytes = utf8(lines.join("") + ending("stop"));
      const chunks: Uint8Array[] = [];
      for (let at = 0; at < bytes.length; at += chunks.at(-1)?.length ?? 0) {
        chunks.push(bytes.subarray(at, at + (sizes.next().value ?? 1)));
      }
      const { text, reasoning } = readAll(chunks);
      const wanted = (isText: boolean) =>
        pieces.filter(({ key }) => (key === "content") === isText).map(({ value }) => value);
      assert.equal(text, wanted(true).join("").toWellFormed());
      assert.equal(reasoning, wanted(false).join("").toWellFormed());
    },
  ));
});

pure(
  "no bytes at all end the reader otherwise than with a ModelError or a well-formed answer",
  () => {
    const fragment = fc.oneof(
      fc.uint8Array({ maxLength: 20 }),
      fc.constantFrom(...[
        saying("x"),
        asking(["clock", {}]),
        "data: ",
        "[DONE]",
        "{",
        "\n\n",
        "\r",
      ])
        .map(utf8),
      fc.json().map((json) => utf8(event(json))),
    );
    fc.assert(fc.property(fc.array(fragment), (chunks) => {
      try {
        for (const { name, arguments: given } of readAll(chunks).calls) {
          assert((name + given).isWellFormed());
        }
      } catch (error) {
        if (!(error instanceof ModelError)) throw error;
        assert(error.message.isWellFormed());
      }
    }));
  },
);

pure("data of several lines is one event, and other fields are passed over", () => {
  const [line = ""] = chunk({ content: "x" }).split("\n");
  const json = line.slice("data: ".length);
  const at = json.indexOf(",");
  const split = `event: message\ndata:${json.slice(0, at)}\nretry: 5\ndata: ${json.slice(at)}\n\n`;
  assert.equal(read(split, ending("stop")).text, "x");
});

pure(
  "bytes that are no UTF-8 and lone surrogates become U+FFFD; a pair in two pieces stays one",
  () => {
    const [before = "", after = ""] = chunk({ content: "a|z" }).split("|");
    const broken = read(before, new Uint8Array([0xff, 0xf0, 0x9f]), after, ending("stop"));
    assert.equal(broken.text, "a\ufffd\ufffdz");
    const lone = (content: string) => read(chunk({ content }), ending("stop")).text;
    assert.equal(lone("a\ud83dz"), "a\ufffdz");
    assert.equal(lone("\udca9"), "\ufffd");
    assert.equal(lone("a\ud83d"), "a\ufffd");
    const halves = read(
      chunk({ content: "a\ud83d" }),
      chunk({ content: "" }),
      chunk({ content: "\udca9z" }),
      ending("stop"),
    );
    assert.equal(halves.text, "a💩z");
    const [call] = read(asking(["no\ud83dname", '{"a":"\udca9"}'])).calls;
    assert.deepEqual(call, { name: "no\ufffdname", arguments: '{"a":"\ufffd"}' });
  },
);

pure("after a finish_reason a stream is whole without [DONE]; before one it is not", () => {
  const text = chunk({ content: "x" });
  assert.equal(read(text, chunk({}, "stop")).text, "x");
  assert.equal(read(text, chunk({}, "stop").trimEnd()).text, "x", "not even a last newline");
  assert.equal(read(text, chunk({}, "stop"), 'data: {"cho').text, "x", "broken off after it");
  assert.equal(read(text, DONE).text, "x", "[DONE] says it too");
  assert.throws(() => read(text), /stream ended before the answer/);
  assert.throws(() => read(text, 'data: {"cho'), /stream ended before the answer/);
  assert.throws(() => read(), /stream ended before the answer/);
});

pure("what stands behind [DONE] does not count", () => {
  assert.equal(read(saying("x") + chunk({ content: "y" }) + event("not JSON")).text, "x");
  const reader = new AnswerReader();
  assert.equal([...reader.push(utf8(saying("x")))].length, 1);
  assert.deepEqual([...reader.push(utf8(chunk({ content: "y" })))], []);
});

pure("only the length limit makes an answer cut", () => {
  for (const finish of ["stop", "tool_calls", "length", "content_filter"]) {
    const { cut } = read(chunk({ content: "x" }), ending(finish));
    assert.equal(cut, finish === "length", finish);
  }
});

pure("tool calls are joined by index, and stand in its order", () => {
  const piece = (index: number | undefined, name: string | null, text: string) =>
    chunk({ tool_calls: [{ index, id: "same", function: { name, arguments: text } }] });
  const calls = (...pieces: string[]) => read(...pieces, ending("tool_calls")).calls;
  assert.deepEqual(
    calls(piece(1, "b", "{"), piece(0, "a", "["), piece(1, null, "}"), piece(0, "ignored", "]")),
    [{ name: "a", arguments: "[]" }, { name: "b", arguments: "{}" }],
  );
  assert.deepEqual(
    calls(piece(undefined, "a", "1"), piece(undefined, null, "2"), piece(undefined, "b", "3")),
    [{ name: "a", arguments: "12" }, { name: "b", arguments: "3" }],
    "without an index, a name begins a call",
  );
  assert.deepEqual(calls(piece(MAX_CALLS - 1, "last", "")), [{ name: "last", arguments: "" }]);
  assert.deepEqual(calls(piece(undefined, null, "{}")), [{ name: "", arguments: "{}" }]);
  for (const index of [-1, MAX_CALLS, 2 ** 40, 0.5, 1e300]) {
    assert.throws(() => calls(piece(index, "a", "")), ModelError, `${index}`);
  }
});

pure("what is not a part of an answer is an error, and unknown keys are none", () => {
  const bad = {
    "no JSON": event("no JSON"),
    "a number": event(7),
    "null": event("null"),
    "choices that are no list": event({ choices: {} }),
    "content that is no text": chunk({ content: 7 }),
    "calls that are no list": chunk({ tool_calls: {} }),
    "arguments that are no text": chunk({
      tool_calls: [{ index: 0, function: { arguments: {} } }],
    }),
  };
  for (const [name, stream] of Object.entries(bad)) {
    assert.throws(() => read(START, stream, ending("stop")), ModelError, name);
  }
  const unknown = event({
    choices: [{ delta: { content: "x", annotations: [{}], audio: 1 }, logprobs: null, seed: "s" }],
    __proto__: null,
    more: [[[]]],
  });
  assert.equal(read(unknown, event({}), event({ choices: null }), ending("stop")).text, "x");
});

pure("an error of the server is told in its words, cut and well-formed", () => {
  const words = (error: unknown) => {
    try {
      return read(START, event({ error }), ending("stop")).text;
    } catch (thrown) {
      assert(thrown instanceof ModelError);
      return thrown.message;
    }
  };
  assert.equal(
    words({ code: 500, message: "context is full", type: "server_error" }),
    "the model server reports an error: context is full",
  );
  assert.equal(words("as text"), 'the model server reports an error: "as text"');
  assert.match(words({ message: "x".repeat(10_000) + "\ud800" }), /x… \d+ more characters$/);
  assert.equal(words({ message: "a\ud800" }), "the model server reports an error: a\ufffd");
  assert.equal(words(null), "", "null is no error");
});

pure("a line, an event, a text, a number of calls and a stream have limits", () => {
  const long = "x".repeat(MAX_LINE_BYTES - 400);
  assert.equal(read(chunk({ content: long }), ending("stop")).text, long);
  const endless = new AnswerReader();
  assert.throws(() => {
    // No newline ever comes.
    for (let count = 0; count < 100; count++) [...endless.push(utf8(long))];
  }, /line that is too long/);
  assert.throws(() => read(": " + "x".repeat(MAX_LINE_BYTES) + "\n"), /line that is too long/);
  assert.throws(() => read(`data: ${long}\ndata: ${long}\n`), /line that is too long/);

  const many = Math.ceil(MAX_TEXT_BYTES / long.length) + 1;
  for (
    const delta of [
      { content: long },
      { reasoning: long },
      { tool_calls: [{ index: 0, function: { arguments: long } }] },
      { tool_calls: [{ index: 0, function: { name: long } }] },
      { content: "é".repeat(long.length / 2) },
    ]
  ) {
    const one = utf8(chunk(delta));
    const reader = new AnswerReader();
    assert.throws(() => {
      for (let count = 0; count < many; count++) [...reader.push(one)];
    }, /answer is too long/);
  }
  const calls = Array.from({ length: MAX_CALLS + 1 }, () => ["clock", {}] as const);
  assert.equal(read(asking(...calls.slice(1))).calls.length, MAX_CALLS);
  assert.throws(() => read(asking(...calls)), /index/);

  const pings = utf8((":" + " ".repeat(1022) + "\n").repeat(1024));
  const silent = new AnswerReader();
  assert.throws(() => {
    for (let size = 0; size <= MAX_STREAM_BYTES; size += pings.length) [...silent.push(pings)];
  }, /does not end/);
});

pure("pieces of one type that follow each other become one", () => {
  const pieces: Piece[] = [
    { type: "reasoning", text: "a" },
    { type: "reasoning", text: "b" },
    { type: "text", text: "c" },
    { type: "reasoning", text: "d" },
  ];
  assert.deepEqual(joined(pieces), [
    { type: "reasoning", text: "ab" },
    { type: "text", text: "c" },
    { type: "reasoning", text: "d" },
  ]);
  assert.deepEqual(joined([]), []);
});
