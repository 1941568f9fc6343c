/**
 * What a daemon must make of the bytes on a new connection (contracts 2), written from the contract alone: no
 * schema, no JSON parser of the runtime and nothing of proto's frames. Slow and plain. Pure.
 */

/** `taken`: a request. `closed`: no answer at all. Anything else: the code of the one error. */
export type Expected =
  | "taken"
  | "closed"
  | "bad_frame"
  | "too_large"
  | "unsupported_version"
  | "forbidden";

const MIB = 1024 * 1024;
/** Deeper than any message of ours; a stack of this program's takes it. */
const DEEPEST = 50;

type Json = null | boolean | number | string | Json[] | Map<string, Json>;

/** What a request's bytes would be written as, character by character, or `undefined`. */
class Reader {
  #at = 0;
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  whole(): Json | undefined {
    const value = this.#value(0);
    return this.#at === this.#text.length ? value : undefined;
  }

  #take(expected: string): boolean {
    if (!this.#text.startsWith(expected, this.#at)) return false;
    this.#at += expected.length;
    return true;
  }

  #value(depth: number): Json | undefined {
    if (depth > DEEPEST) return undefined;
    if (this.#take("null")) return null;
    if (this.#take("true")) return true;
    if (this.#take("false")) return false;
    if (this.#text[this.#at] === '"') return this.#string();
    if (this.#take("[")) return this.#list(depth);
    if (this.#take("{")) return this.#object(depth);
    return this.#number();
  }

  #list(depth: number): Json | undefined {
    const items: Json[] = [];
    if (this.#take("]")) return items;
    do {
      const item = this.#value(depth + 1);
      if (item === undefined) return undefined;
      items.push(item);
    } while (this.#take(","));
    return this.#take("]") ? items : undefined;
  }

  #object(depth: number): Json | undefined {
    const entries = new Map<string, Json>();
    if (this.#take("}")) return entries;
    do {
      const key = this.#string();
      if (key === undefined || entries.has(key) || !this.#take(":")) return undefined;
      const value = this.#value(depth + 1);
      if (value === undefined) return undefined;
      entries.set(key, value);
    } while (this.#take(","));
    return this.#take("}") ? entries : undefined;
  }

  /** Whole numbers that hold, in digits: no message of ours has others. */
  #number(): number | undefined {
    const [digits] = /^(?:0|-?[1-9][0-9]{0,15})/.exec(this.#text.slice(this.#at, this.#at + 20)) ??
      [];
    if (digits === undefined || Math.abs(Number(digits)) > 2 ** 53 - 1) return undefined;
    this.#at += digits.length;
    return Number(digits);
  }

  /** Escaped is what must be, in its shortest form; nothing else is. */
  #string(): string | undefined {
    if (!this.#take('"')) return undefined;
    let value = "";
    while (this.#at < this.#text.length) {
      const character = String.fromCodePoint(this.#text.codePointAt(this.#at) ?? 0);
      this.#at += character.length;
      if (character === '"') return value;
      if (character < " ") return undefined;
      const escape = character === "\\" ? this.#escape() : character;
      if (escape === undefined) return undefined;
      value += escape;
    }
    return undefined;
  }

  #escape(): string | undefined {
    const short: Readonly<Record<string, string>> = {
      '"': '"',
      "\\": "\\",
      b: "\b",
      f: "\f",
      n: "\n",
      r: "\r",
      t: "\t",
    };
    const letter = this.#text[this.#at] ?? "";
    this.#at += 1;
    if (Object.hasOwn(short, letter)) return short[letter];
    if (letter !== "u") return undefined;
    const hex = this.#text.slice(this.#at, this.#at + 4);
    this.#at += 4;
    // Those that have no short form. A lone surrogate is no text.
    if (!/^00(?:0[0-7bef]|1[0-9a-f])$/.test(hex)) return undefined;
    return String.fromCharCode(Number.parseInt(hex, 16));
  }
}

const KINDS = [
  ...["tool_request", "tool_response", "chat", "turn_event", "stop"],
  ...["approvals", "approval_list", "approve", "approve_result", "refuse", "ok"],
  ...["check_grants", "grants_report", "changes", "change_list"],
  ...["status", "broker_status", "loop_status", "error"],
];

type Check = (value: Json | undefined) => boolean;
const text: Check = (value) => typeof value === "string";
const id: Check = (value) => typeof value === "string" && /^[a-z0-9-]{1,64}$/.test(value);
const call: Check = (value) => typeof value === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(value);
const count: Check = (value) => typeof value === "number" && value >= 0;
const reason: Check = (value) =>
  value === null || typeof value === "string" && new TextEncoder().encode(value).length <= 1024;

const BODIES: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
  tool_request: { session: id, call, tool: text, arguments: text },
  chat: { session: (value) => value === null || id(value), text },
  stop: { session: id },
  approvals: {},
  approve: { approval: count },
  refuse: { approval: count, reason },
  check_grants: {},
  status: {},
  changes: {},
};

export const SOCKETS = {
  "broker.sock": ["tool_request"],
  "admin.sock": ["approvals", "approve", "refuse", "check_grants", "changes", "status"],
  "loop.sock": ["chat", "stop", "status"],
} as const satisfies Readonly<Record<string, readonly string[]>>;
export type Socket = keyof typeof SOCKETS;

const ENVELOPE = ["v", "kind", "final", "body"];

/** Whether the keys of `object` are `keys`, in their order. */
function hasKeys(object: Map<string, Json>, keys: readonly string[]): boolean {
  return object.size === keys.length && [...object.keys()].every((key, at) => key === keys[at]);
}

function decoded(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** What `socket` makes of a connection that sends `bytes` and then no more. */
export function expectedOf(socket: Socket, bytes: Uint8Array): Expected {
  const end = bytes.indexOf(0x0a);
  if ((end < 0 ? bytes.length : end) >= MIB) return "too_large";
  if (end < 0) return "closed";
  const line = decoded(bytes.subarray(0, end));
  const frame = line === null ? undefined : new Reader(line).whole();
  if (!(frame instanceof Map) || !hasKeys(frame, ENVELOPE)) {
    return "bad_frame";
  }
  const [v, kind, final, body] = frame.values();
  if (typeof v !== "number" || typeof kind !== "string" || typeof final !== "boolean") {
    return "bad_frame";
  }
  if (v !== 1) return "unsupported_version";
  if (!KINDS.includes(kind)) return "bad_frame";
  const taken: readonly string[] = SOCKETS[socket];
  if (!taken.includes(kind)) return "forbidden";
  const fields = BODIES[kind] ?? {};
  const fits = body instanceof Map && final && hasKeys(body, Object.keys(fields)) &&
    Object.entries(fields).every(([key, check]) => check(body.get(key)));
  return fits ? "taken" : "bad_frame";
}
