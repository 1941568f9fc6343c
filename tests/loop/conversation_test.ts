/** The conversation that a session log stands for, whatever interrupted it. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import {
  type ChatMessage,
  conversation,
  NO_ANSWER,
  UNKNOWN_RESULT,
} from "../../loop/conversation.ts";
import type { LogEntry } from "../../loop/entries.ts";

const TIME = "2026-12-01T10:00:00.000Z";
const start: LogEntry = { type: "start", time: TIME, session: "s1", system: "Be kind." };
const user = (text: string): LogEntry => ({ type: "user", time: TIME, text });
const text = (piece: string): LogEntry => ({ type: "text", text: piece });
const reasoning = (piece: string): LogEntry => ({ type: "reasoning", text: piece });
const end: LogEntry = { type: "end", time: TIME, outcome: "done", message: null };

function calls(...asked: readonly [call: string, given: string][]): LogEntry {
  const all = asked.map(([call, given]) => ({ call, name: "call_tool", arguments: given }));
  return { type: "calls", calls: all };
}

function result(call: string, content: string): LogEntry {
  return { type: "result", call, status: "result", content, class: "public", untrusted: false };
}

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

pure("a turn with reasoning, tools and an answer becomes its messages, pieces joined", () => {
  assert.deepEqual(
    conversation([
      start,
      user("Milk?"),
      reasoning("I "),
      reasoning("look."),
      text("Let me"),
      text(" see."),
      calls(["call00001", '{"a":1}'], ["call00002", "{}"]),
      result("call00001", "one"),
      result("call00002", "two"),
      text("Yes."),
      end,
      user("Thanks."),
    ]),
    [
      { role: "system", content: "Be kind." },
      { role: "user", content: "Milk?" },
      {
        role: "assistant",
        content: "Let me see.",
        reasoning_content: "I look.",
        tool_calls: [
          {
            id: "call00001",
            type: "function",
            function: { name: "call_tool", arguments: '{"a":1}' },
          },
          { id: "call00002", type: "function", function: { name: "call_tool", arguments: "{}" } },
        ],
      },
      { role: "tool", tool_call_id: "call00001", content: "one" },
      { role: "tool", tool_call_id: "call00002", content: "two" },
      { role: "assistant", content: "Yes." },
      { role: "user", content: "Thanks." },
    ],
  );
});

pure(
  "a result that never came is unknown, and an answer that never came is said to be missing",
  () => {
    const asked = calls(["call00001", "{}"], ["call00002", "{}"]);
    const shape = (...entries: LogEntry[]) =>
      conversation([start, user("a"), ...entries, user("b")]).slice(2, -1)
        .map(({ role, content }) => `${role}: ${content}`);
    const none = `assistant: ${NO_ANSWER}`;
    const unknown = `tool: ${UNKNOWN_RESULT}`;
    assert.deepEqual(shape(), [none]);
    assert.deepEqual(shape(end), [none]);
    assert.deepEqual(shape(text("half")), ["assistant: half"]);
    assert.deepEqual(shape(reasoning("hm")), [none]);
    assert.deepEqual(shape(asked), ["assistant: ", unknown, unknown, none]);
    assert.deepEqual(shape(asked, result("call00001", "x")), [
      "assistant: ",
      "tool: x",
      unknown,
      none,
    ]);
    assert.deepEqual(shape(asked, result("call00001", "x"), result("call00002", "y"), text("z")), [
      "assistant: ",
      "tool: x",
      "tool: y",
      "assistant: z",
    ]);
  },
);

pure(
  "arguments that are no JSON object go back as an object, or the server refuses them all",
  () => {
    const sent = (given: string) => {
      const message = conversation([start, user("a"), calls(["call00001", given])]).at(2);
      assert(message?.role === "assistant");
      return message.tool_calls?.[0]?.function.arguments;
    };
    for (const fine of ["{}", '{"a":1,"a":2}', ' {"a": [1]} ']) assert.equal(sent(fine), fine);
    for (const empty of ["", " \n"]) assert.equal(sent(empty), "{}");
    for (const bad of ["{", "[]", "null", "7", '"x"', "rm -rf"]) {
      assert.equal(sent(bad), JSON.stringify({ not_an_object: bad }));
    }
  },
);

/** What servers and the templates of models want of a conversation. */
function checkForm(messages: readonly ChatMessage[]): void {
  assert.equal(messages[0]?.role, "system");
  let asked: string[] = [];
  let last = "assistant";
  for (const message of messages.slice(1)) {
    if (message.role === "tool") {
      assert.equal(message.tool_call_id, asked.shift());
      continue;
    }
    assert.deepEqual(asked, [], "every call is answered before anything else is said");
    if (message.role === "assistant") {
      asked = (message.tool_calls ?? []).map(({ id }) => id);
      for (const { function: { arguments: given } } of message.tool_calls ?? []) {
        assert.equal(typeof JSON.parse(given), "object");
      }
      if (asked.length > 0) continue;
    }
    assert.notEqual(message.role, last, "the owner and the model take turns");
    assert.notEqual(message.role, "system");
    last = message.role;
  }
  assert.deepEqual(asked, []);
}

pure(
  "a session that was interrupted anywhere, any number of times, goes on in the right form",
  () => {
    const answer = fc.constantFrom<LogEntry[]>([text("x")], [reasoning("y"), text("z")], []);
    const turn = fc.tuple(fc.array(fc.nat(3), { maxLength: 3 }), answer, fc.nat(20));
    fc.assert(fc.property(fc.array(turn), (turns) => {
      let next = 1;
      const entries = turns.flatMap(([rounds, answered, cut]) => {
        const whole: LogEntry[] = [user("u")];
        for (const count of rounds) {
          const ids = Array.from({ length: count + 1 }, () => `call${next++}`);
          whole.push(text("t"), calls(...ids.map((id) => [id, "{"] as [string, string])));
          whole.push(...ids.map((id) => result(id, "r")));
        }
        whole.push(...answered, end);
        return whole.slice(0, cut + 1);
      });
      checkForm(conversation([start, ...entries, user("last")]));
    }));
  },
);
