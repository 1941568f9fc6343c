/** Events that fit their frames, with nothing lost unsaid. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { MAX_UNITS, messageOf, parts, shorten } from "../../loop/events.ts";
import { encodeFrame, MAX_ANSWER_BYTES } from "../../proto/frames.ts";
import type { TurnEvent } from "../../proto/messages.ts";

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

const size = (event: TurnEvent) => encodeFrame(messageOf(event)).length;

pure("a text of any length goes out in parts that fit, and together are the text", () => {
  for (const unit of ["x", "\0", "é", "💩"]) {
    for (const length of [0, 1, MAX_UNITS - 1, MAX_UNITS, MAX_UNITS + 1, 4 * MAX_UNITS + 3]) {
      const text = ("a" + unit.repeat(length)).slice(0, length).toWellFormed();
      const all = [...parts(text)];
      assert.equal(all.join(""), text);
      for (const part of all) {
        assert(part !== "" && part.isWellFormed());
        assert(size({ type: "text", text: part }) <= MAX_ANSWER_BYTES);
      }
    }
  }
});

pure("a text that is too long is cut between characters, and says by how much", () => {
  assert.equal(shorten("abc", 3), "abc");
  assert.equal(shorten("abcd", 3), "abc… 1 more characters");
  assert.equal(shorten("ab💩d", 3), "ab… 3 more characters");
  fc.assert(fc.property(fc.string({ unit: "grapheme" }), fc.nat(50), (text, units) => {
    const short = shorten(text, units + 1);
    assert(short.isWellFormed());
    assert(short === text || /… \d+ more characters$/.test(short));
  }));
});

pure("only what does not fit a frame is cut", () => {
  const base = { call: "c1", tool: "shell" };
  const fits = "x".repeat(MAX_ANSWER_BYTES - 200);
  for (const content of ["", fits, "\0".repeat(300_000)]) {
    const event: TurnEvent = { type: "tool_result", status: "result", content, ...base };
    assert.deepEqual(messageOf(event).body, event);
  }
  for (const content of ["x".repeat(MAX_ANSWER_BYTES), "\0".repeat(400_000)]) {
    const result: TurnEvent = { type: "tool_result", status: "result", content, ...base };
    const call: TurnEvent = { type: "tool_call", arguments: content, ...base };
    for (const event of [result, call]) {
      const { body } = messageOf(event);
      assert(size(event) <= MAX_ANSWER_BYTES);
      const left = content.length - MAX_UNITS;
      assert(JSON.stringify(body).includes(`… ${left} more characters"`));
    }
  }
});

pure("a tool's name is cut too, since it may be anything that the model wrote", () => {
  const event: TurnEvent = { type: "tool_call", call: "c1", tool: "\0".repeat(3e6), arguments: "" };
  assert(size(event) < 10_000);
});

pure("done and failed are final, and nothing else is", () => {
  assert.equal(messageOf({ type: "done" }).final, true);
  assert.equal(messageOf({ type: "failed", message: "x" }).final, true);
  assert.equal(messageOf({ type: "session", session: "s" }).final, false);
  assert.equal(messageOf({ type: "text", text: "x" }).final, false);
});
