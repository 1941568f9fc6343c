import assert from "node:assert/strict";
import {
  decodeFrame,
  decodeRequest,
  encodeFrame,
  type FrameError,
  MAX_ANSWER_BYTES,
  MAX_REQUEST_BYTES,
  REQUEST_TIMEOUT_MS,
} from "../../proto/frames.ts";
import { DENY_REASONS } from "../../proto/decisions.ts";
import {
  BODIES,
  ERROR_CODES,
  type Kind,
  type Message,
  REQUESTS,
  type SocketName,
} from "../../proto/messages.ts";
import { utf8 } from "../../proto/text.ts";
import { badForms } from "../support/json_forms.ts";
import { messagesOf } from "../support/messages.ts";

const KINDS = Object.keys(BODIES) as Kind[];
const SOCKETS = Object.keys(REQUESTS) as SocketName[];

/** The frames of each kind as the fixtures hold them: bytes without the newline, and as text. */
const FIXTURES = Object.fromEntries(KINDS.map((kind) => {
  const file = new URL(`../../fixtures/messages/${kind}.jsonl`, import.meta.url);
  return [kind, Deno.readTextFileSync(file).split("\n")];
}));

function frames(kind: Kind): string[] {
  return FIXTURES[kind]?.slice(0, -1) ?? [];
}

function errorOf(line: Uint8Array | string, accepted: readonly Kind[] = KINDS): FrameError {
  const decoded = decodeFrame(typeof line === "string" ? utf8(line) : line, accepted);
  assert.ok(!decoded.ok, "was read");
  return decoded.error;
}

Deno.test(
  "the kinds, codes and reasons are those of the specification",
  { permissions: "none" },
  () => {
    assert.deepEqual(KINDS, [
      ...["tool_request", "tool_response", "chat", "turn_event", "stop"],
      ...["approvals", "approval_list", "approve", "approve_result", "refuse", "ok"],
      ...["check_grants", "grants_report", "changes", "change_list"],
      ...["status", "broker_status", "loop_status", "error"],
    ]);
    assert.deepEqual(ERROR_CODES, [
      ...["bad_frame", "too_large", "unsupported_version", "forbidden", "no_such_approval"],
      ...["timeout", "audit_unavailable", "internal"],
    ]);
    assert.deepEqual(DENY_REASONS, [
      ...["no_grant", "grant_expired", "taint_too_high", "denied_by_grant", "approval_refused"],
      ...["approval_expired", "grants_invalid", "audit_unavailable", "invalid_arguments"],
      "state_unreadable",
    ]);
  },
);

Deno.test("the limits are those of contracts 2", { permissions: "none" }, () => {
  assert.equal(MAX_REQUEST_BYTES, 1_048_576);
  assert.equal(MAX_ANSWER_BYTES, 2_097_152);
  assert.equal(REQUEST_TIMEOUT_MS, 10_000);
});

for (const kind of KINDS) {
  Deno.test(`${kind}: the bytes of the fixtures`, { permissions: "none" }, () => {
    const values = messagesOf(kind);
    assert.equal(FIXTURES[kind]?.at(-1), "", "the last frame ends in a newline");
    assert.equal(values.length, frames(kind).length);
    for (const [at, frame] of frames(kind).entries()) {
      const value = values[at] ?? assert.fail();
      assert.deepEqual(encodeFrame(value), utf8(`${frame}\n`), "from a value");
      const decoded = decodeFrame(utf8(frame), [kind]);
      assert.ok(decoded.ok, frame);
      assert.deepEqual(decoded.message, value);
      assert.deepEqual(encodeFrame(decoded.message), utf8(`${frame}\n`), "read and written again");
    }
  });

  Deno.test(`${kind}: every other form of a frame is refused`, { permissions: "none" }, () => {
    const seen = new Set<string>();
    for (const frame of frames(kind)) {
      for (const { what, json } of badForms(frame)) {
        if (/\.line: (null for a number|a number for null)$/.test(what)) continue; // that is its type
        if (what === 'body: "hint" missing') continue; // a denial has one or none
        assert.notEqual(json, frame, what);
        const { code, kind: sent, message } = errorOf(json);
        // A version that is an integer in its one form is one that this program does not speak.
        assert.equal(
          code,
          what === "v: a negative number" ? "unsupported_version" : "bad_frame",
          what,
        );
        assert.equal(sent, null);
        seen.add(message);
      }
    }
    const known = ["not a frame in its one form", "only version 1 is spoken", "unknown kind"];
    seen.delete("the body does not fit its kind");
    for (const message of seen) assert.ok(known.includes(message), `not our words: ${message}`);
  });

  Deno.test(`${kind}: what does not fit cannot be written`, { permissions: "none" }, () => {
    for (const value of messagesOf(kind)) {
      const body = { ...value.body, x: 1 };
      assert.throws(() => encodeFrame({ ...value, body } as Message), "an unknown key");
      for (const [key, field] of Object.entries(value.body)) {
        const bad = typeof field === "string"
          ? `${field}\ud800`
          : typeof field === "number"
          ? -1
          : 7;
        const wrong = { ...value.body, [key]: bad };
        assert.throws(() => encodeFrame({ ...value, body: wrong } as Message), key);
      }
      const reversed = Object.fromEntries(Object.entries(value.body).toReversed());
      const same = encodeFrame({ ...value, body: reversed } as Message);
      assert.deepEqual(same, encodeFrame(value), "the order of keys is that of the specification");
    }
  });
}

const VALUES = {
  "a session in capitals": ["tool_request", '"s1"', '"S1"'],
  "a session with _": ["tool_request", '"s1"', '"s_1"'],
  "an empty session": ["tool_request", '"s1"', '""'],
  "a session of 65": ["tool_request", '"s1"', `"${"s".repeat(65)}"`],
  "a session with a newline": ["tool_request", '"s1"', '"s1\\n"'],
  "a session that is a path": ["tool_request", '"s1"', '"../s1"'],
  "null for a session": ["tool_request", '"s1"', "null"],
  "a call with a dot": ["tool_request", '"c1"', '"c.1"'],
  "a call of 65": ["tool_request", '"c1"', `"${"c".repeat(65)}"`],
  "arguments as an object": ["tool_request", '"{\\"path\\":\\"/n/a\\"}"', '{"path":"/n/a"}'],
  "another status": ["tool_response", '"pending_approval"', '"pending"'],
  "an expiry at 24:00": ["tool_response", "T10:00:00.000Z", "T24:00:00.000Z"],
  "an expiry on 30 February": ["tool_response", "2026-12-01", "2026-02-30"],
  "an empty session to chat in": ["chat", "null", '""'],
  "null for a session to stop": ["stop", '"chat-1758"', "null"],
  "another turn event": ["turn_event", '"session"', '"sessions"'],
  "a kind of another case": ["approve", '"approve"', '"Approve"'],
  "an approval as text": ["approve", "41", '"41"'],
  "another outcome": ["approve_result", '"allowed"', '"approved"'],
  "a reason where there is none": ["approve_result", '"allowed"', '"allowed","reason":"no_grant"'],
  "null for a reason to deny": ["approve_result", '"allowed"', '"denied","reason":null'],
  "no reason to deny": ["approve_result", '"allowed"', '"denied"'],
  "another reason to deny": ["approve_result", '"allowed"', '"denied","reason":"No_grant"'],
  "another code": ["error", '"bad_frame"', '"bad-frame"'],
} as const;

for (const [what, [kind, from, to]] of Object.entries(VALUES)) {
  Deno.test(`a value that does not fit: ${what}`, { permissions: "none" }, () => {
    const [frame = ""] = frames(kind);
    const bad = frame.replace(from, to);
    assert.notEqual(bad, frame);
    assert.equal(errorOf(bad).code, "bad_frame");
  });
}

Deno.test("a refusal's reason is at most 1 KiB of UTF-8", { permissions: "none" }, () => {
  const refusal = (reason: string) =>
    decodeFrame(
      utf8(JSON.stringify({ v: 1, kind: "refuse", final: true, body: { approval: 1, reason } })),
      ["refuse"],
    ).ok;
  for (const [character, bytes] of [["a", 1], ["é", 2], ["\n", 1], ["😀", 4]] as const) {
    const longest = character.repeat(1024 / bytes);
    assert.ok(refusal(longest));
    assert.ok(!refusal(`${longest}a`));
  }
  const frame: Message = {
    kind: "refuse",
    final: true,
    body: { approval: 1, reason: "a".repeat(1025) },
  };
  assert.throws(() => encodeFrame(frame));
});

Deno.test("the version comes first: v 2 is not spoken, whatever else is wrong", {
  permissions: "none",
}, () => {
  const [frame = ""] = frames("approve");
  assert.equal(errorOf(frame.replace('"v":1', '"v":2')).code, "unsupported_version");
  assert.equal(errorOf(frame.replace('"v":1', '"v":0')).code, "unsupported_version");
  assert.equal(errorOf('{"v":2,"kind":"new","final":true,"body":[]}').code, "unsupported_version");
  for (const v of ["1.0", '"1"', "null", "true", "[1]", "1e0", "01", "9007199254740992"]) {
    assert.equal(errorOf(frame.replace('"v":1', `"v":${v}`)).code, "bad_frame", v);
  }
  assert.equal(errorOf(frame.replace('"v":1,', "")).code, "bad_frame", "no v");
});

Deno.test("an unknown kind is a bad frame", { permissions: "none" }, () => {
  for (
    const kind of ["", "approved", "__proto__", "constructor", "toString", "Approve", "approve "]
  ) {
    assert.equal(errorOf(JSON.stringify({ v: 1, kind, final: true, body: {} })).code, "bad_frame");
  }
});

for (const socket of SOCKETS) {
  Deno.test(
    `${socket} takes its own kinds, and forbids the others`,
    { permissions: "none" },
    () => {
      const accepted: readonly Kind[] = REQUESTS[socket];
      for (const kind of KINDS) {
        const frame = frames(kind).find((frame) => frame.includes('"final":true')) ?? assert.fail();
        const decoded = decodeRequest(utf8(frame), accepted);
        if (accepted.includes(kind)) {
          assert.ok(decoded.ok && decoded.message.kind === kind, kind);
          const more = decodeRequest(utf8(frame.replace("true", "false")), accepted);
          assert.ok(!more.ok && more.error.code === "bad_frame", `${kind} with final false`);
          continue;
        }
        assert.ok(!decoded.ok, kind);
        assert.equal(decoded.error.code, "forbidden");
        assert.equal(decoded.error.kind, kind);
        const body = frame.replace(/"body":.*$/, '"body":{"anything":[1]}}');
        assert.equal(errorOf(body, accepted).code, "forbidden", "whatever its body");
        assert.equal(errorOf(`${body} `, accepted).code, "bad_frame", "but in the one form");
      }
    },
  );
}

Deno.test("each socket's requests are those of the specification", { permissions: "none" }, () => {
  assert.deepEqual(REQUESTS, {
    "broker.sock": ["tool_request"],
    "admin.sock": ["approvals", "approve", "refuse", "check_grants", "changes", "status"],
    "loop.sock": ["chat", "stop", "status"],
  });
});

Deno.test("bytes that are not UTF-8 are a bad frame", { permissions: "none" }, () => {
  const [frame = ""] = frames("chat");
  const bytes = utf8(frame);
  const at = frame.indexOf("notes");
  assert.ok(decodeFrame(bytes, KINDS).ok);
  for (const bad of [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xc3], [0x80]]) {
    const line = new Uint8Array([...bytes.slice(0, at), ...bad, ...bytes.slice(at)]);
    assert.equal(errorOf(line).message, "not UTF-8");
  }
  const utf16 = new Uint8Array(new Uint16Array([...frame].map((c) => c.charCodeAt(0))).buffer);
  assert.equal(errorOf(utf16).code, "bad_frame");
});

// Each is refused or read at once; a reading that goes back over its input would not end.
const MIB = 1024 * 1024;
const deep = (open: string, close: string, count: number) =>
  open.repeat(count) + close.repeat(count);
const HEAVY = {
  "100,000 brackets": deep("[", "]", 100_000),
  "100,000 objects": deep('{"a":', "}", 100_000).replace("}", "1}"),
  "2,000 brackets": deep("[", "]", 2_000),
  "open brackets": "[".repeat(MIB / 4),
  "quotes": '"'.repeat(MIB),
  "backslashes": "\\".repeat(MIB),
  "an open string of escapes": `"${"\\\\".repeat(MIB / 2)}`,
  "white space": " ".repeat(MIB),
  "digits": "9".repeat(MIB),
  "many keys": `{${Array.from({ length: 50_000 }, (_, n) => `"${n}":0`).join(",")}}`,
  "many __proto__ keys": `{${'"__proto__":{},'.repeat(60_000)}"a":1}`,
} as const;

for (const [what, json] of Object.entries(HEAVY)) {
  Deno.test(`much to choke on is a bad frame: ${what}`, { permissions: "none" }, () => {
    assert.equal(errorOf(json).code, "bad_frame");
    for (const kind of ["approve", "tool_request", "chat"]) {
      const frame = `{"v":1,"kind":"${kind}","final":true,"body":${json}}`;
      assert.equal(errorOf(frame).code, "bad_frame", "as a body");
    }
    assert.equal(
      errorOf(`{"v":1,"kind":"ok","final":true,"body":{"a":${json}}}`).code,
      "bad_frame",
    );
  });
}

Deno.test("a request with more brackets and commas than any has is refused before it is read", {
  permissions: "none",
}, () => {
  const read = (json: string) => decodeRequest(utf8(json), ["tool_request"]);
  const refused = (json: string) => {
    const decoded = read(json);
    return !decoded.ok && decoded.error.message.startsWith("more brackets");
  };
  for (const [mark, end] of [["[", ""], ["{", ""], ["0,", "0"]] as const) {
    assert.ok(!refused(mark.repeat(4096) + end), mark);
    assert.ok(refused(mark.repeat(4097) + end), mark);
  }
  // In a string they are text, whatever escapes stand beside them.
  const many = '[{,\\"'.repeat(4000);
  const body = { session: "s", call: "c", tool: many, arguments: many };
  const frame = { v: 1, kind: "tool_request", final: true, body };
  assert.ok(read(JSON.stringify(frame)).ok);
  assert.ok(refused(JSON.stringify({ ...frame, body: [body, "0,".repeat(5000).split(",")] })));
  // All that may wait for the owner in one list is still a known kind on the wrong socket.
  const [list] = messagesOf("approval_list").filter(({ final }) => final === false);
  assert.ok(list?.kind === "approval_list");
  const items = Array.from({ length: 128 }, () => list.body.items).flat();
  const decoded = decodeRequest(
    encodeFrame({ ...list, body: { items } }).slice(0, -1),
    ["tool_request"],
  );
  assert.ok(!decoded.ok && decoded.error.code === "forbidden");
});

Deno.test("1 MiB of escapes in a string is read", { permissions: "none" }, () => {
  for (const part of ["\\", '"', "\n", "\0", "😀", "\u2028"]) {
    const message: Message<"chat"> = {
      kind: "chat",
      final: true,
      body: { session: null, text: part.repeat(MIB / 8) },
    };
    const decoded = decodeFrame(encodeFrame(message).slice(0, -1), ["chat"]);
    assert.ok(decoded.ok);
    assert.deepEqual(decoded.message, message);
  }
});
