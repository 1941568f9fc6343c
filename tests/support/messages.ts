/** The messages of `fixtures/messages/`, as values. */
import { DENY_REASONS } from "../../proto/decisions.ts";
import { type Body, ERROR_CODES, type Kind, type Message } from "../../proto/messages.ts";

/** Bodies of messages that more messages follow, and of messages that are the last. */
interface Bodies<B> {
  readonly more?: readonly B[];
  readonly last: readonly B[];
}

const COMMON = { version: "m3a", deno: "2.9.6", since: "2026-12-01T09:00:00.000Z" } as const;

const BODIES: { readonly [K in Kind]: Bodies<Body<K>> } = {
  tool_request: {
    last: [
      { session: "s1", call: "c1", tool: "read_file", arguments: '{"path":"/n/a"}' },
      {
        session: `chat-1758-${"0".repeat(54)}`,
        call: "Call_0-ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz0123",
        tool: "no such tool",
        arguments: "",
      },
      {
        session: "-",
        call: "_",
        tool: "",
        arguments:
          'not JSON: \0\x1b[31m\b\t\n\f\r"\\/ \x7f\x85\u2028\u202e \xe9 \u{1f600} e\u0301\ufeff',
      },
    ],
  },
  tool_response: {
    more: [
      { status: "pending_approval", approval: 41, expires: "2026-12-01T10:00:00.000Z" },
      {
        status: "pending_approval",
        approval: Number.MAX_SAFE_INTEGER,
        expires: "2024-02-29T23:59:59.999Z",
      },
    ],
    last: [
      {
        status: "result",
        content: "# notes\n\ttext",
        class: "private",
        untrusted: false,
        truncated: false,
      },
      { status: "result", content: "", class: "public", untrusted: true, truncated: false },
      { status: "result", content: "…", class: "secret", untrusted: true, truncated: true },
      { status: "failed", message: "the result could not be recorded" },
      ...DENY_REASONS.map((reason) => ({ status: "denied" as const, reason })),
      { status: "denied", reason: "denied_by_grant", hint: 'Ask for "/n/public".\nIt is open.' },
    ],
  },
  chat: {
    last: [
      { session: null, text: "What is in my notes?" },
      { session: "chat-1758", text: "And\nthen?" },
    ],
  },
  turn_event: {
    more: [
      { type: "session", session: "chat-1758" },
      { type: "reasoning", text: "The owner wants" },
      { type: "text", text: "I will look.\n" },
      { type: "tool_call", call: "c1", tool: "read_file", arguments: '{"path":"/n/a"}' },
      {
        type: "approval_pending",
        approval: 41,
        tool: "read_file",
        expires: "2026-12-01T10:15:00.000Z",
      },
      { type: "tool_result", call: "c1", tool: "read_file", status: "result", content: "# notes" },
      {
        type: "tool_result",
        call: "c1",
        tool: "read_file",
        status: "failed",
        content: "no such file",
      },
      {
        type: "tool_result",
        call: "c1",
        tool: "read_file",
        status: "denied",
        content: "Denied: no grant allows this call.",
      },
    ],
    last: [{ type: "done" }, { type: "failed", message: "the model did not answer" }],
  },
  stop: { last: [{ session: "chat-1758" }] },
  approvals: { last: [{}] },
  approval_list: {
    more: [{
      items: [{
        approval: 41,
        session: "chat-1758",
        call: "c1",
        tool: "shell",
        arguments: '{"command":"ls"}',
        grant: "shell-scratch",
        taint: "private",
        created: "2026-12-01T10:00:00.000Z",
        expires: "2026-12-01T10:15:00.000Z",
      }],
    }],
    last: [{ items: [] }, {
      items: [{
        approval: 42,
        session: "s1",
        call: "c2",
        tool: "http_fetch",
        arguments: '{"url":"https://www.example.com/"}',
        grant: "web",
        taint: "public",
        created: "2026-12-01T10:00:00.001Z",
        expires: "2026-12-01T10:15:00.001Z",
      }, {
        approval: 43,
        session: "s2",
        call: "c3",
        tool: "read_file",
        arguments: '{"path":"/n/a"}',
        grant: "notes-read",
        taint: "secret",
        created: "2026-12-01T10:00:00.002Z",
        expires: "2026-12-01T10:15:00.002Z",
      }],
    }],
  },
  approve: { last: [{ approval: 41 }] },
  approve_result: {
    last: [
      { outcome: { outcome: "allowed" } },
      { outcome: { outcome: "ask" } },
      ...DENY_REASONS.map((reason) => ({ outcome: { outcome: "denied" as const, reason } })),
    ],
  },
  refuse: { last: [{ approval: 41, reason: null }, { approval: 0, reason: "not today" }] },
  ok: { last: [{}] },
  changes: { last: [{}] },
  change_list: {
    last: [{ items: [] }, {
      items: [
        { approval: 41, grant: null, taint: "secret", untrusted: false, unreadable: false },
        { approval: 42, grant: "edited", taint: null, untrusted: true, unreadable: false },
        { approval: 43, grant: "gone", taint: null, untrusted: false, unreadable: true },
        { approval: 44, grant: "invalid", taint: null, untrusted: false, unreadable: false },
      ],
    }],
  },
  check_grants: { last: [{}] },
  grants_report: {
    last: [{ problems: [] }, {
      problems: [
        { file: "web.toml", line: 3, problem: "unknown key hots" },
        {
          file: "Bad.toml",
          line: null,
          problem: "the name before .toml must be 1 to 64 of a-z, 0-9 and -",
        },
      ],
    }],
  },
  status: { last: [{}] },
  broker_status: {
    last: [{
      ...COMMON,
      lock: { too_wide: [], missing: [] },
      troubles: [],
      grants: { count: 2, problem_count: 0, problems: [] },
      audit: { state: "open", next_seq: 42, file: "2026-12-01.jsonl" },
      waiting: { count: 0, limit: 128, items: [] },
      running: { count: 0, items: [] },
      runner: { podman: null, oci_runtime: null, image: null, image_state: "none" },
    }, {
      ...COMMON,
      lock: { too_wide: ["run programs"], missing: ["read /h/grants"] },
      troubles: [{
        about: "audit",
        lines: [
          "audit: every call is denied until a restart: a sync failed",
          "see docs/runbook.md#audit-unavailable",
        ],
      }],
      grants: {
        count: 0,
        problem_count: 1,
        problems: [{ file: "web.toml", line: 3, problem: "unknown key hots" }],
      },
      audit: { state: "lost", next_seq: 0, file: null },
      waiting: {
        count: 1,
        limit: 128,
        items: [{
          approval: 41,
          session: "s1",
          tool: "shell",
          expires: "2026-12-01T10:15:00.000Z",
        }],
      },
      running: {
        count: 1,
        items: [{
          decision: 40,
          session: "s2",
          tool: "http_fetch",
          since: "2026-12-01T10:00:00.000Z",
        }],
      },
      runner: {
        podman: "/usr/bin/podman",
        oci_runtime: "runc",
        image: `sha256:${"0".repeat(64)}`,
        image_state: "missing",
      },
    }],
  },
  loop_status: {
    last: [{
      ...COMMON,
      lock: { too_wide: [], missing: [] },
      troubles: [],
      model: { url: "http://127.0.0.1:8080", state: "ok", problem: null },
      broker: "listening",
      turns: 0,
    }, {
      ...COMMON,
      lock: { too_wide: [], missing: ["read the variable BOXMAKER_HOME"] },
      troubles: [{ about: "core", lines: ["see docs/runbook.md#core-memory-unreadable"] }],
      model: {
        url: "http://127.0.0.1:8080",
        state: "failed",
        problem: "the connection to the model server failed",
      },
      broker: "unreachable",
      turns: 1,
    }],
  },
  error: { last: ERROR_CODES.map((code) => ({ code, message: "in words" })) },
};

/** Every kind with its messages, in the order of the lines of `fixtures/messages/<kind>.jsonl`. */
export function messagesOf<K extends Kind>(kind: K): Message<K>[] {
  const { more = [], last } = BODIES[kind];
  return [
    ...more.map((body) => message(kind, false, body)),
    ...last.map((body) => message(kind, true, body)),
  ];
}

function message<K extends Kind>(kind: K, final: boolean, body: Body<K>): Message<K> {
  return { kind, final, body } as Message<K>;
}
