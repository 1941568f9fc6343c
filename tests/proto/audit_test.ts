import assert from "node:assert/strict";
import {
  type Anchor,
  APPROVAL_ANSWERS,
  type AuditEvent,
  auditFileName,
  type AuditRecord,
  encodeHead,
  encodeRecord,
  HEAD_BYTES,
  isAuditFileName,
  parseHead,
  parseRecord,
} from "../../proto/audit.ts";
import { denied, DENY_REASONS } from "../../proto/decisions.ts";
import { ZERO_HASH } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";
import { badForms } from "../support/json_forms.ts";

const HASH_A = "0123456789abcdef".repeat(4);
const HASH_B = "fedcba9876543210".repeat(4);
const TIME = "2026-12-01T10:00:00.000Z";

const record = (seq: number, event: AuditEvent, prev = HASH_A, time = TIME): AuditRecord => ({
  seq,
  time,
  prev,
  event,
});

const decision = (more: Partial<Extract<AuditEvent, { type: "decision" }>>): AuditEvent => ({
  type: "decision",
  session: "s1",
  call: "c1",
  tool: "read_file",
  arguments: '{"path":"/n/a"}',
  outcome: denied("no_grant"),
  grant: null,
  grant_sha256: null,
  taint: "private",
  untrusted: false,
  ...more,
});

const approval = (more: Partial<Extract<AuditEvent, { type: "approval" }>>): AuditEvent => ({
  type: "approval",
  session: "s1",
  call: "c1",
  decision: 1,
  answer: "approved",
  by: "bxctl",
  post: null,
  reason: null,
  outcome: { outcome: "ask" },
  ...more,
});

const result = (more: Partial<Extract<AuditEvent, { type: "result" }>>): AuditEvent => ({
  type: "result",
  session: "s1",
  call: "c1",
  decision: 1,
  status: "result",
  class: "private",
  untrusted: false,
  truncated: false,
  bytes: 7,
  sha256: HASH_B,
  taint_after: "private",
  ...more,
});

const GRANT = { grant: "notes-read", grant_sha256: HASH_B };

/** The records of `fixtures/records/<type>.jsonl`, line by line. */
const RECORDS = {
  decision: [
    record(0, decision({ outcome: { outcome: "allowed" }, ...GRANT, taint: "public" }), ZERO_HASH),
    record(
      1,
      decision({ outcome: { outcome: "ask" }, ...GRANT, taint: "secret", untrusted: true }),
    ),
    record(
      Number.MAX_SAFE_INTEGER,
      decision({
        session: "-",
        call: "_",
        tool: "",
        arguments:
          'not JSON: \0\x1b[31m\b\t\n\f\r"\\/ \x7f\x85\u2028\u202e \xe9 \u{1f600} e\u0301\ufeff',
      }),
      HASH_A,
      "2024-02-29T23:59:59.999Z",
    ),
    ...DENY_REASONS.map((reason) => record(2, decision({ outcome: denied(reason) }))),
  ],
  approval: [
    record(3, approval({})),
    record(3, approval({ outcome: { outcome: "allowed" } })),
    record(
      3,
      approval({ answer: "refused", reason: "not today", outcome: denied("approval_refused") }),
    ),
    record(3, approval({ answer: "refused", outcome: denied("approval_refused") })),
    record(3, approval({ answer: "expired", by: null, outcome: denied("approval_expired") })),
    record(3, approval({ by: "u26", post: "p1", outcome: denied("taint_too_high") })),
  ],
  result: [
    record(4, result({})),
    record(
      4,
      result({
        class: "secret",
        untrusted: true,
        truncated: true,
        bytes: Number.MAX_SAFE_INTEGER,
        taint_after: "secret",
      }),
    ),
    record(4, result({ status: "failed", class: "public", bytes: 0 })),
  ],
  recovery: [record(5, { type: "recovery", torn_bytes: 259, torn_sha256: HASH_B })],
  accepted_break: [
    record(6, { type: "accepted_break", file: "2026-11-30.jsonl", line: 3, last_good: HASH_B }),
    record(
      0,
      { type: "accepted_break", file: "2026-12-01.jsonl", line: 1, last_good: ZERO_HASH },
      ZERO_HASH,
    ),
  ],
} as const satisfies Record<AuditEvent["type"], readonly AuditRecord[]>;

const TYPES = Object.keys(RECORDS) as AuditEvent["type"][];
const fixture = (name: string) =>
  Deno.readFileSync(new URL(`../../fixtures/records/${name}`, import.meta.url));
const FIXTURES = Object.fromEntries(
  TYPES.map((type) => [type, new TextDecoder().decode(fixture(`${type}.jsonl`)).split("\n")]),
);
const HEAD = fixture("head.json");
const LARGEST_HEAD = fixture("head-largest.json");

for (const type of TYPES) {
  const lines = FIXTURES[type]?.slice(0, -1) ?? [];

  Deno.test(`${type}: the bytes of the fixtures`, { permissions: "none" }, () => {
    assert.equal(FIXTURES[type]?.at(-1), "");
    assert.equal(lines.length, RECORDS[type].length);
    for (const [at, line] of lines.entries()) {
      const value = RECORDS[type][at] ?? assert.fail();
      assert.deepEqual(encodeRecord(value), utf8(line), "from a value");
      const parsed = parseRecord(utf8(line)) ?? assert.fail(line);
      assert.deepEqual(parsed, value);
      assert.deepEqual(encodeRecord(parsed), utf8(line), "read and written again");
      const { seq, time, prev, event } = value;
      const event2 = Object.fromEntries(Object.entries(event).toReversed());
      const reversed = { event: event2, prev, time, seq } as AuditRecord;
      assert.deepEqual(encodeRecord(reversed), utf8(line), "keys in the specification's order");
    }
  });

  Deno.test(`${type}: every other form of a line is refused`, { permissions: "none" }, () => {
    for (const line of lines) {
      for (const { what, json } of badForms(line)) {
        assert.notEqual(json, line, what);
        assert.equal(parseRecord(utf8(json)), null, what);
      }
    }
  });

  Deno.test(`${type}: what does not fit cannot be written`, { permissions: "none" }, () => {
    const [value = assert.fail()] = RECORDS[type];
    const refused = (bad: Record<string, unknown>, what: string) =>
      assert.throws(() => encodeRecord({ ...value, ...bad } as AuditRecord), what);
    for (const seq of [-1, 0.5, 2 ** 53, NaN, Infinity]) refused({ seq }, `seq ${seq}`);
    refused({ time: "2026-12-01T10:00:60.000Z" }, "no time");
    refused({ prev: HASH_A.toUpperCase() }, "no hash");
    refused({ x: 1 }, "an unknown key");
    refused({ event: { ...value.event, x: 1 } }, "an unknown key of the event");
    for (const [key, field] of Object.entries(value.event)) {
      const bad = typeof field === "string" ? `${field}\ud800` : typeof field === "number" ? -1 : 7;
      refused({ event: { ...value.event, [key]: bad } }, key);
    }
  });
}

Deno.test("the fixtures hold every answer and every reason", { permissions: "none" }, () => {
  const approvals = FIXTURES.approval?.join("\n") ?? "";
  for (const answer of APPROVAL_ANSWERS) assert.ok(approvals.includes(`"answer":"${answer}"`));
  const decisions = FIXTURES.decision?.join("\n") ?? "";
  for (const reason of DENY_REASONS) assert.ok(decisions.includes(`"reason":"${reason}"`));
});

const TIMES = [
  ...["2026-12-01T24:00:00.000Z", "2026-12-01T10:00:60.000Z", "2016-12-31T23:59:60.000Z"],
  ...["2026-02-30T10:00:00.000Z", "2025-02-29T10:00:00.000Z", "2026-04-31T10:00:00.000Z"],
  ...["26-12-01T10:00:00.000Z", "+002026-12-01T10:00:00.000Z", "12026-12-01T10:00:00.000Z"],
  ...["-000001-12-01T10:00:00.000Z", "2026-12-01T10:00:00Z", "2026-12-01T10:00:00.0000Z"],
  ...["2026-12-01T10:00:00.000z", "2026-12-01t10:00:00.000Z", "2026-12-01 10:00:00.000Z"],
  ...["2026-12-01T10:00:00.000+00:00", "2026-13-01T10:00:00.000Z", "2026-12-00T10:00:00.000Z"],
];

for (const time of TIMES) {
  Deno.test(`no record has the time ${time}`, { permissions: "none" }, () => {
    const [line = ""] = FIXTURES.recovery ?? [];
    assert.equal(parseRecord(utf8(line.replace(TIME, time))), null);
  });
}

// One change each to the first line of a type's fixtures.
const VALUES = {
  "a session in capitals": ["decision", '"s1"', '"S1"'],
  "a session of 65": ["decision", '"s1"', `"${"s".repeat(65)}"`],
  "a call with a dot": ["decision", '"c1"', '"c.1"'],
  "an empty call": ["decision", '"c1"', '""'],
  "another outcome": ["decision", '{"outcome":"allowed"}', '{"outcome":"approved"}'],
  "an empty outcome": ["decision", '{"outcome":"allowed"}', "{}"],
  "an outcome as text": ["decision", '{"outcome":"allowed"}', '"allowed"'],
  "a denial without a reason": ["decision", '{"outcome":"allowed"}', '{"outcome":"denied"}'],
  "a denial for another reason": [
    ...["decision", '{"outcome":"allowed"}', '{"outcome":"denied","reason":"NoGrant"}'],
  ],
  "a reason for what is allowed": [
    ...["decision", '{"outcome":"allowed"}', '{"outcome":"allowed","reason":null}'],
  ],
  "a taint in capitals": ["decision", '"public"', '"Public"'],
  "a grant's hash in capitals": ["decision", HASH_B, HASH_B.toUpperCase()],
  "a grant's hash too short": ["decision", HASH_B, HASH_B.slice(1)],
  "another answer": ["approval", '"approved"', '"yes"'],
  "another status": ["result", '"result","class"', '"ok","class"'],
  "another type": ["recovery", '"recovery"', '"Recovery"'],
  "prev too long": ["recovery", HASH_A, `${HASH_A}0`],
  "prev null": ["recovery", `"${HASH_A}"`, "null"],
  "a line that is null": ["accepted_break", '"line":3', '"line":null'],
} as const;

for (const [what, [type, from, to]] of Object.entries(VALUES)) {
  Deno.test(`a value that does not fit: ${what}`, { permissions: "none" }, () => {
    const [line = ""] = FIXTURES[type ?? ""] ?? [];
    const bad = line.replace(from ?? "", to ?? "");
    assert.notEqual(parseRecord(utf8(line)), null);
    assert.notEqual(bad, line);
    assert.equal(parseRecord(utf8(bad)), null);
  });
}

Deno.test("bytes that are not UTF-8 are no record", { permissions: "none" }, () => {
  const line = utf8(FIXTURES.decision?.[0] ?? "");
  const at = line.indexOf(0x2f); // the slash of a path
  assert.notEqual(parseRecord(line), null);
  for (const bad of [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xe9]]) {
    const bytes = new Uint8Array([...line.slice(0, at), ...bad, ...line.slice(at)]);
    assert.equal(parseRecord(bytes), null);
  }
});

Deno.test("what is nested too deeply or too long is no record", { permissions: "none" }, () => {
  for (const open of ["[", '{"a":', '{"event":', '"', "\\", " "]) {
    assert.equal(parseRecord(utf8(open.repeat(200_000))), null);
  }
  assert.equal(parseRecord(utf8("[".repeat(100_000) + "]".repeat(100_000))), null);
});

Deno.test("a line has no length limit", { permissions: "none" }, () => {
  const large = record(1, decision({ arguments: "\\".repeat(3 * 1024 * 1024) }));
  assert.deepEqual(parseRecord(encodeRecord(large)), large);
});

Deno.test("a file is named for the date of its first record", { permissions: "none" }, () => {
  assert.equal(auditFileName("2024-02-29T23:59:59.999Z"), "2024-02-29.jsonl");
  assert.ok(isAuditFileName(auditFileName(TIME)));
});

Deno.test(
  "only YYYY-MM-DD.jsonl with a real date is a file of the log",
  { permissions: "none" },
  () => {
    for (
      const name of ["2026-12-01.jsonl", "2024-02-29.jsonl", "0001-01-01.jsonl", "9999-12-31.jsonl"]
    ) {
      assert.ok(isAuditFileName(name), name);
    }
    const others = [
      ...["2026-12-01.json", "2026-12-01.jsonl.bak", "2026-12-01.jsonl~", ".2026-12-01.jsonl"],
      ...[
        "2026-12-01",
        "2026-12-01.JSONL",
        "2026-02-30.jsonl",
        "2025-02-29.jsonl",
        "2100-02-29.jsonl",
      ],
      ...[
        "2026-13-01.jsonl",
        "2026-00-01.jsonl",
        "2026-12-00.jsonl",
        "26-12-01.jsonl",
        "2026-1-01.jsonl",
      ],
      ...["12026-12-01.jsonl", "+2026-12-01.jsonl", "2026_12_01.jsonl", "2026-12-01 .jsonl", ""],
      ...["2026-12-01.jsonl\n", "\n2026-12-01.jsonl", "a/2026-12-01.jsonl", ".lock", "head.json"],
      ...["２026-12-01.jsonl", "2026-12-01.jsonlx", "2026-12-01xjsonl"],
    ];
    for (const name of others) assert.ok(!isAuditFileName(name), JSON.stringify(name));
  },
);

const HEADS: readonly (readonly [Anchor, Uint8Array])[] = [
  [{ seq: 41, hash: HASH_A }, HEAD],
  [{ seq: Number.MAX_SAFE_INTEGER, hash: HASH_B }, LARGEST_HEAD],
];

Deno.test("head.json is exactly 128 bytes", { permissions: "none" }, () => {
  assert.equal(HEAD_BYTES, 128);
  for (const [anchor, bytes] of HEADS) {
    assert.equal(bytes.length, HEAD_BYTES);
    assert.deepEqual(encodeHead(anchor), new Uint8Array(bytes));
    assert.deepEqual(parseHead(bytes), anchor);
  }
  assert.throws(() => encodeHead({ seq: -1, hash: HASH_A }));
  assert.throws(() => encodeHead({ seq: 2 ** 53, hash: HASH_A }));
  assert.throws(() => encodeHead({ seq: 1, hash: HASH_A.slice(1) }));
});

Deno.test("any other form of head.json is unreadable", { permissions: "none" }, () => {
  const text = new TextDecoder().decode(HEAD);
  const json = text.trimEnd();
  const padded = (content: string) => `${content.padEnd(127)}\n`;
  const bad = {
    "nothing": "",
    "127 bytes": text.slice(1),
    "127 bytes, a space less": `${text.slice(0, -2)}\n`,
    "129 bytes": ` ${text}`,
    "129 bytes, a space more": text.replace("\n", " \n"),
    "129 bytes, a newline more": `${text}\n`,
    "no newline": `${text.slice(0, -1)} `,
    "spaces": padded(""),
    "NUL": "\0".repeat(128),
    "space before": padded(` ${json}`),
    "a tab in the padding": `${text.slice(0, -2)}\t\n`,
    "a newline in the padding": `${text.slice(0, -2)}\n\n`,
    "CR LF": `${text.slice(0, -2)}\r\n`,
    "the padding before": `${json.padStart(127)}\n`,
    "null": padded("null"),
    "a list": padded(`[${json}]`),
    "no seq": padded(`{"hash":"${HASH_A}"}`),
    "no hash": padded('{"seq":41}'),
    "an unknown key": padded(json.replace("{", '{"v":1,')),
    "a key more at the end": padded(json.replace("}", ',"v":1}')),
    "the other order": padded(`{"hash":"${HASH_A}","seq":41}`),
    "seq twice": padded(json.replace("{", '{"seq":41,')),
    "seq as text": padded(json.replace("41", '"41"')),
    "seq 41.0": padded(json.replace("41", "41.0")),
    "seq 041": padded(json.replace("41", "041")),
    "seq negative": padded(json.replace("41", "-41")),
    "seq 2^53": padded(json.replace("41", "9007199254740992")),
    "a hash in capitals": padded(json.replace(HASH_A, HASH_A.toUpperCase())),
    "a short hash": padded(json.replace(HASH_A, HASH_A.slice(1))),
    "text after it": `${text.slice(0, -2)}x\n`,
    "white space in it": padded(json.replace(",", ", ")),
  };
  for (const [what, content] of Object.entries(bad)) {
    assert.equal(parseHead(utf8(content)), null, what);
  }
  const latin = HEAD.slice();
  latin[100] = 0xe9;
  assert.equal(parseHead(latin), null, "not UTF-8");
  const mark = new Uint8Array([0xef, 0xbb, 0xbf, ...HEAD.slice(0, 124), 0x0a]);
  assert.equal(parseHead(mark), null, "a byte-order mark");
});
