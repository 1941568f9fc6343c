/**
 * Bytes that no client of ours sends: a corpus of single cases with the answer that each must get, and every
 * kind of damage at every place of a good request. The same at each run. Pure.
 */
import { type Expected, expectedOf, type Socket } from "./frame_oracle.ts";
import { badForms } from "./json_forms.ts";

export interface BadFrame {
  /** The place, and what is wrong there. */
  readonly what: string;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly expected: Expected;
}

const MIB = 1024 * 1024;
const encoder = new TextEncoder();

function request(kind: string, body: unknown): string {
  return JSON.stringify({ v: 1, kind, final: true, body });
}

/** Good requests of each socket, without their newline: what is damaged. */
export const GOOD: Readonly<Record<Socket, readonly string[]>> = {
  "broker.sock": [
    request("tool_request", {
      session: "s-1",
      call: "c_1",
      tool: "no tool",
      arguments: '{"path":"/n/é\\n\u0001\u{1f600}"}',
    }),
  ],
  "admin.sock": [
    request("approvals", {}),
    request("approve", { approval: 4100 }),
    request("refuse", { approval: 4100, reason: 'not "today"\t' }),
    request("refuse", { approval: 4100, reason: null }),
    request("check_grants", {}),
    request("changes", {}),
    request("status", {}),
  ],
  "loop.sock": [
    request("chat", { session: null, text: 'h\u00e9 "\\' }),
    request("stop", { session: "s-1" }),
    request("status", {}),
  ],
};

function joined(...parts: readonly (Uint8Array | readonly number[])[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

const NEWLINE = [0x0a];

/** What is put between two bytes. */
const INSERTED: Readonly<Record<string, readonly number[]>> = {
  "a space": [0x20],
  "a tab": [0x09],
  "a carriage return": [0x0d],
  "a newline": NEWLINE,
  "NUL": [0],
  "a control character": [0x1b],
  "a byte-order mark": [0xef, 0xbb, 0xbf],
  "a line separator": [0xe2, 0x80, 0xa8],
  "a no-break space": [0xc2, 0xa0],
  "a byte that is never UTF-8": [0xff],
  "an overlong slash": [0xc0, 0xaf],
  "a surrogate in UTF-8": [0xed, 0xa0, 0x80],
  "a quote": [0x22],
  "a backslash": [0x5c],
  "a comma": [0x2c],
  "a bracket": [0x5b],
};

/** What is done to one byte. */
const CHANGED: Readonly<Record<string, (byte: number) => readonly number[]>> = {
  "its lowest bit changed": (byte) => [byte ^ 0x01],
  "its case changed": (byte) => [byte ^ 0x20],
  "its highest bit changed": (byte) => [byte ^ 0x80],
  "left out": () => [],
  "twice": (byte) => [byte, byte],
};

/** Every damage to the bytes of `good` at every place, as parts to join. */
function* damages(good: Uint8Array): Generator<readonly [what: string, bytes: Uint8Array]> {
  for (let at = 0; at <= good.length; at += 1) {
    const [before, after] = [good.subarray(0, at), good.subarray(at)];
    yield [`cut at ${at}, and a newline`, joined(before, NEWLINE)];
    yield [`cut at ${at}`, before];
    for (const [what, bytes] of Object.entries(INSERTED)) {
      yield [`at ${at} ${what}`, joined(before, bytes, after, NEWLINE)];
    }
    const [byte] = after;
    if (byte === undefined) continue;
    for (const [what, change] of Object.entries(CHANGED)) {
      yield [`byte ${at} ${what}`, joined(before, change(byte), after.subarray(1), NEWLINE)];
    }
  }
}

function nameOf(good: string): string {
  const { kind, body } = JSON.parse(good);
  return body.reason === null ? `${kind} without a reason` : kind;
}

/**
 * Every damage to every good request of `socket`, in order: the wrong forms of its JSON at each value and key,
 * then those of its bytes at each place.
 */
export function* badFrames(socket: Socket): Generator<BadFrame> {
  for (const good of GOOD[socket]) {
    const name = nameOf(good);
    const damaged = [
      ...badForms(good).map(({ what, json }) => [what, encoder.encode(`${json}\n`)] as const),
      ...damages(encoder.encode(good)),
    ];
    for (const [what, bytes] of damaged) {
      yield { what: `${name}: ${what}`, bytes: joined(bytes), expected: expectedOf(socket, bytes) };
    }
  }
}

function sized(bytes: number): string {
  const empty = request("tool_request", { session: "s", call: "c", tool: "t", arguments: "" });
  return request("tool_request", {
    session: "s",
    call: "c",
    tool: "t",
    arguments: "a".repeat(bytes - empty.length),
  });
}

const withBody = (body: string) => `{"v":1,"kind":"tool_request","final":true,"body":${body}}`;
const call = (fields: string) => withBody(`{"session":"s","call":"c",${fields}}`);
const deep = (open: string, close: string, count: number) =>
  open.repeat(count) + close.repeat(count);
const keys = (count: number) => Array.from({ length: count }, (_, n) => `"k${n}":0`).join(",");

/** Single cases for broker.sock, each a line that gets its newline, with what it must get. */
const LINES: readonly (readonly [what: string, line: string, Expected])[] = [
  ["nothing", "", "bad_frame"],
  ["white space", " \t", "bad_frame"],
  ["a carriage return", "\r", "bad_frame"],
  ["a word", "hello", "bad_frame"],
  ["null", "null", "bad_frame"],
  ["a string", '"tool_request"', "bad_frame"],
  ["a list", "[]", "bad_frame"],
  ["an empty object", "{}", "bad_frame"],
  ["HTTP", "GET / HTTP/1.1\r", "bad_frame"],
  ["a shell's line", "$(reboot); `reboot`", "bad_frame"],
  ["escape sequences", "\x1b[2J\x1b]0;title\x07\x9b31m", "bad_frame"],
  ["version 2", withBody("{}").replace("1", "2"), "unsupported_version"],
  [
    "version 0 with a body of anything",
    withBody("[[],{}]").replace("1", "0"),
    "unsupported_version",
  ],
  ["version -1", withBody("{}").replace("1", "-1"), "unsupported_version"],
  ["version 2^53", withBody("{}").replace("1", "9007199254740992"), "bad_frame"],
  ["version 1e0", withBody("{}").replace("1", "1e0"), "bad_frame"],
  ["version 1.0", withBody("{}").replace("1", "1.0"), "bad_frame"],
  ["version as text", withBody("{}").replace("1", '"1"'), "bad_frame"],
  ["no version", withBody("{}").replace('"v":1,', ""), "bad_frame"],
  ["an unknown kind", withBody("{}").replace("tool_request", "approve_all"), "bad_frame"],
  ["the kind __proto__", withBody("{}").replace("tool_request", "__proto__"), "bad_frame"],
  ["the kind constructor", withBody("{}").replace("tool_request", "constructor"), "bad_frame"],
  ["a list as body", withBody("[]"), "bad_frame"],
  ["no body", '{"v":1,"kind":"tool_request","final":true}', "bad_frame"],
  ["not final", sized(200).replace("true", "false"), "bad_frame"],
  ["100,000 brackets", "[".repeat(100_000), "bad_frame"],
  ["100,000 brackets, closed, as body", withBody(deep("[", "]", 100_000)), "bad_frame"],
  ["100,000 objects as body", withBody(deep('{"a":', "}", 100_000)), "bad_frame"],
  ["1 MiB of objects in a list", withBody(`[${"{},".repeat(349_000)}{}]`), "bad_frame"],
  [
    "1 MiB of lists, each 100 deep",
    withBody(`[${`${deep("[", "]", 100)},`.repeat(5_200)}0]`),
    "bad_frame",
  ],
  ["70,000 keys", `{${keys(70_000)}}`, "bad_frame"],
  ["70,000 keys in the body", withBody(`{${keys(70_000)}}`), "bad_frame"],
  ["__proto__ 40,000 times", withBody(`{${'"__proto__":{},'.repeat(40_000)}"a":0}`), "bad_frame"],
  ["a key of 1 MiB", withBody(`{"${"k".repeat(MIB - 100)}":0}`), "bad_frame"],
  ["a number of 1 MiB", withBody("9".repeat(MIB - 100)), "bad_frame"],
  ["1 MiB of escapes", withBody(`"${"\\u0000".repeat(170_000)}"`), "bad_frame"],
  ["1 MiB of escaped quotes", withBody(`"${'\\"'.repeat(500_000)}`), "bad_frame"],
  ["1 MiB of quotes", '"'.repeat(MIB - 1), "bad_frame"],
  ["1 MiB of backslashes", "\\".repeat(MIB - 1), "bad_frame"],
  ["1 MiB of white space", " ".repeat(MIB - 1), "bad_frame"],
  ["1 MiB of NUL", "\0".repeat(MIB - 1), "bad_frame"],
  ["a lone surrogate", call(String.raw`"tool":"\ud800","arguments":""`), "bad_frame"],
  [
    "a pair of surrogates as escapes",
    call(String.raw`"tool":"\ud83d\ude00","arguments":""`),
    "bad_frame",
  ],
  ["an escaped letter", call(String.raw`"tool":"\u0061","arguments":""`), "bad_frame"],
  ["an escaped slash", call(String.raw`"tool":"\/","arguments":""`), "bad_frame"],
  ["hex in capitals", call(String.raw`"tool":"\u001B","arguments":""`), "bad_frame"],
  ["a newline by number", call(String.raw`"tool":"\u000a","arguments":""`), "bad_frame"],
  ["an escape in its one form", call(String.raw`"tool":"\u001b","arguments":"\n"`), "taken"],
  ["a line separator", call('"tool":"\u2028\u2029\u0085\ufeff","arguments":""'), "taken"],
  ["keys in another order", call('"arguments":"","tool":"t"'), "bad_frame"],
  ["a key twice", call('"tool":"t","tool":"t","arguments":""'), "bad_frame"],
  ["a key in capitals", call('"Tool":"t","arguments":""'), "bad_frame"],
  ["an empty session", call('"tool":"t","arguments":""').replace('"s"', '""'), "bad_frame"],
  [
    "a session that is a path",
    call('"tool":"t","arguments":""').replace('"s"', '"../s"'),
    "bad_frame",
  ],
  [
    "a session of 65",
    call('"tool":"t","arguments":""').replace('"s"', `"${"s".repeat(65)}"`),
    "bad_frame",
  ],
  [
    "a session of 64",
    call('"tool":"t","arguments":""').replace('"s"', `"${"s".repeat(64)}"`),
    "taken",
  ],
  ["1 MiB with its newline", sized(MIB - 1), "taken"],
  ["1 MiB without it", sized(MIB), "too_large"],
  ["1 MiB and one byte of junk", "x".repeat(MIB), "too_large"],
  ["2 MiB of brackets", "[".repeat(2 * MIB), "too_large"],
];

/** Single cases for broker.sock in bytes, and what must come of them. */
const BYTES: readonly (readonly [what: string, Uint8Array, Expected])[] = [
  ["no byte", new Uint8Array(0), "closed"],
  ["half a frame", encoder.encode(sized(200)).subarray(0, 100), "closed"],
  ["a frame without its newline", encoder.encode(sized(200)), "closed"],
  ["1 MiB without a newline", new Uint8Array(MIB).fill(0x78), "too_large"],
  ["1 MiB less one byte without a newline", new Uint8Array(MIB - 1).fill(0x78), "closed"],
  ["10 empty lines", new Uint8Array(10).fill(0x0a), "bad_frame"],
  ["two frames", encoder.encode(`${sized(200)}\n${sized(200)}\n`), "taken"],
  ["a frame and junk", encoder.encode(`${sized(200)}\n\0\xff{`), "taken"],
  ["an empty line and a frame", encoder.encode(`\n${sized(200)}\n`), "bad_frame"],
  ["a byte-order mark and a frame", encoder.encode(`\ufeff${sized(200)}\n`), "bad_frame"],
  ["CR and newline", encoder.encode(`${sized(200)}\r\n`), "bad_frame"],
  [
    "UTF-16",
    new Uint8Array([...sized(200), "\n"].flatMap((c) => [c.charCodeAt(0), 0])),
    "bad_frame",
  ],
  ["the start of TLS", new Uint8Array([0x16, 3, 1, 0, 0xff, 1, 0x0a]), "bad_frame"],
  ["every byte", joined(Uint8Array.from({ length: 256 }, (_, n) => n), NEWLINE), "bad_frame"],
];

/** The corpus: single cases for broker.sock, the hand-written answer beside each. */
export const CORPUS: readonly BadFrame[] = [
  ...LINES.map(([what, line, expected]) => ({
    what,
    bytes: encoder.encode(`${line}\n`),
    expected,
  })),
  ...BYTES.map(([what, bytes, expected]) => ({ what, bytes: joined(bytes), expected })),
];
