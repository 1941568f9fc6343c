/**
 * Generated calls, grants, states and times, and an oracle that says how each is decided (specification
 * 12, "Property test"). The oracle is written from specification 3 and contracts 3 alone, naively, rule by
 * rule in the order of their text, and uses nothing of the broker: what the generator has made stands
 * before it in parts, not as text to parse. Pure.
 */
import assert from "node:assert/strict";
import fc from "fast-check";
import { type LoadedGrant, readGrant } from "../../broker/grant_rules.ts";
import type { Situation } from "../../broker/policy.ts";
import { grantFile } from "./grants.ts";

type Class = "public" | "private" | "secret";
type Mode = "deny" | "ask" | "auto";

/** A grant file in parts. `flaw`: what is wrong with it, none where it is valid. */
export interface AGrant {
  readonly id: string;
  readonly tool: string;
  readonly mode: Mode;
  readonly maxTaint: Class;
  readonly resultClass: Class;
  readonly untrusted: boolean;
  readonly expires: string | null;
  readonly paths: readonly string[];
  readonly hosts: readonly string[];
  readonly flaw: Flaw;
}

/** A URL in parts. */
interface AUrl {
  readonly scheme: string;
  readonly host: string;
  readonly port: string;
  readonly rest: string;
}

export interface ACall {
  readonly tool: string;
  /** The arguments' keys and values as written; a URL in its parts. */
  readonly entries: readonly (readonly [key: string, value: unknown])[];
  /** What else is wrong with the text. */
  readonly damage: "none" | "trailing comma" | "a list" | "text after it" | "empty";
}

export interface Case {
  readonly now: string;
  readonly grants: readonly AGrant[];
  readonly state: { readonly taint: Class; readonly untrusted: boolean } | null;
  readonly call: ACall;
}

// ── The oracle ──────────────────────────────────────────────────────────────────────────────────

export interface Verdict {
  readonly outcome: "allowed" | "ask" | "denied";
  readonly reason: string | null;
  readonly grant: string | null;
  readonly matchedPath: string | null;
}

const no = (reason: string): Verdict =>
  ({ outcome: "denied", reason, grant: null, matchedPath: null }) as const;

/** How the case is decided. */
export function oracle({ now, grants, state, call }: Case): Verdict {
  // Contracts 3: grants_invalid, state_unreadable, (an unknown tool,) invalid_arguments, matching.
  for (const grant of grants) if (grant.flaw !== "none") return no("grants_invalid");
  if (state === null) return no("state_unreadable");
  if (!["read_file", "write_file", "shell", "http_fetch"].includes(call.tool)) {
    return no("no_grant");
  }
  if (!argumentsAreValid(call)) return no("invalid_arguments");

  // Specification 3, "Matching", 1: candidates.
  const candidates = grants.filter((grant) => grant.tool === call.tool);
  // 2: ruled out by the first that holds.
  const left: AGrant[] = [];
  const onlyByExpiry: AGrant[] = [];
  const onlyByTaint: AGrant[] = [];
  for (const grant of candidates) {
    const { expired, tooHigh, covers } = ruledOutBy(grant, { now, call }, state.taint);
    if (!expired && !tooHigh && covers) left.push(grant);
    if (expired && !tooHigh && covers) onlyByExpiry.push(grant);
    if (!expired && tooHigh && covers) onlyByTaint.push(grant);
  }
  // 4: none is left.
  if (left.length === 0) {
    if (onlyByExpiry.length > 0) return no("grant_expired");
    if (onlyByTaint.length > 0) return no("taint_too_high");
    return no("no_grant");
  }
  // 3: the most restrictive mode, then the lowest id in byte order.
  for (const mode of ["deny", "ask", "auto"]) {
    const ids = left.filter((grant) => grant.mode === mode).map(({ id }) => id).sort(byBytes);
    const [lowest] = ids;
    if (lowest === undefined) continue;
    const winner = left.filter(({ id }) => id === lowest)[0];
    assert.ok(winner !== undefined);
    return {
      outcome: mode === "deny" ? "denied" : mode === "ask" ? "ask" : "allowed",
      reason: mode === "deny" ? "denied_by_grant" : null,
      grant: lowest,
      matchedPath: coversCall(winner, call).matchedPath,
    };
  }
  throw new Error("a grant without a mode");
}

/** Which of the three rules of specification 3, "Matching", 2, hold for a candidate. */
export function ruledOutBy(
  grant: AGrant,
  { now, call }: Pick<Case, "now" | "call">,
  taint: Class,
): { expired: boolean; tooHigh: boolean; covers: boolean } {
  return {
    expired: grant.expires !== null && Date.parse(now) >= Date.parse(grant.expires),
    tooHigh: rank(taint) > rank(grant.maxTaint),
    covers: coversCall(grant, call).covers,
  };
}

function rank(taint: Class): number {
  return taint === "public" ? 0 : taint === "private" ? 1 : 2;
}

function byBytes(a: string, b: string): number {
  const [x, y] = [new TextEncoder().encode(a), new TextEncoder().encode(b)];
  for (let at = 0; at < Math.min(x.length, y.length); at += 1) {
    if (x[at] !== y[at]) return (x[at] ?? 0) - (y[at] ?? 0);
  }
  return x.length - y.length;
}

function isUrl(value: unknown): value is AUrl {
  return typeof value === "object" && value !== null && "scheme" in value;
}

function argumentsAreValid({ tool, entries, damage }: ACall): boolean {
  if (damage !== "none") return false;
  const keys = entries.map(([key]) => key);
  if (new Set(keys).size !== keys.length) return false;
  const wanted = {
    read_file: [["path"]],
    write_file: [["content", "path"]],
    shell: [["command"], ["command", "cwd"]],
    http_fetch: [["url"]],
  }[tool] ?? [];
  if (!wanted.some((names) => String(names) === String(keys.toSorted()))) return false;
  for (const [key, value] of entries) {
    if (key === "url") {
      if (!isUrl(value) || !urlIsValid(value)) return false;
    } else {
      if (typeof value !== "string") return false;
      if ((key === "path" || key === "cwd") && !pathIsValid(value)) return false;
    }
  }
  return true;
}

function pathIsValid(path: string): boolean {
  if (!path.startsWith("/") || path.includes("\0")) return false;
  if (new TextEncoder().encode(path).length > 4096) return false;
  return path === "/" || componentsOf(path).every((one) => !["", ".", ".."].includes(one));
}

/** What stands between the slashes: of `/` nothing. */
function componentsOf(path: string): string[] {
  return path === "/" ? [] : path.split("/").slice(1);
}

function isIn(grantPath: string, path: string): boolean {
  const outer = componentsOf(grantPath);
  const inner = componentsOf(path);
  return outer.length <= inner.length && outer.every((one, at) => inner[at] === one);
}

function urlIsValid({ scheme, host, port, rest }: AUrl): boolean {
  const length = scheme.length + host.length + port.length + rest.length;
  if (scheme !== "https://" || !hostIsValid(host) || !["", ":443"].includes(port)) return false;
  if (rest !== "" && rest[0] !== "/") return false;
  for (const char of rest) if (char <= " " || char > "~") return false;
  return length <= 2048;
}

function hostIsValid(host: string): boolean {
  const labels = host.split(".");
  if (host.length > 253 || labels.length < 2) return false;
  for (const label of labels) {
    if (label.length < 1 || label.length > 63) return false;
    if (label.startsWith("-") || label.endsWith("-")) return false;
    for (const char of label) {
      if (!"abcdefghijklmnopqrstuvwxyz0123456789-".includes(char)) return false;
    }
  }
  const last = labels[labels.length - 1] ?? "";
  const isAll = (text: string, digits: string) => [...text].every((char) => digits.includes(char));
  if (isAll(last, "0123456789")) return false;
  return !(last.startsWith("0x") && isAll(last.slice(2), "0123456789abcdef"));
}

function hostIsCovered(pattern: string, host: string): boolean {
  const labels = host.split(".");
  const wanted = pattern.split(".");
  if (wanted[0] !== "*") return pattern === host;
  const suffix = wanted.slice(1);
  return labels.length > suffix.length && String(labels.slice(-suffix.length)) === String(suffix);
}

function coversCall(
  { tool, paths, hosts }: AGrant,
  { entries }: ACall,
): { covers: boolean; matchedPath: string | null } {
  const given = (key: string) =>
    entries.filter(([name]) => name === key).map(([, value]) => value)[0];
  const longest = (path: unknown): string | null => {
    const around = paths.filter((grantPath) => isIn(grantPath, String(path)));
    around.sort((a, b) => b.length - a.length);
    return around[0] ?? null;
  };
  if (tool === "http_fetch") {
    const url = given("url");
    const covers = isUrl(url) && hosts.some((pattern) => hostIsCovered(pattern, url.host));
    return { covers, matchedPath: null };
  }
  if (tool === "shell") {
    const cwd = given("cwd");
    if (cwd === undefined) return { covers: paths.length === 0, matchedPath: null };
    return { covers: longest(cwd) !== null, matchedPath: longest(cwd) };
  }
  const path = given("path");
  const matchedPath = longest(path);
  if (tool === "write_file" && matchedPath === path) return { covers: false, matchedPath: null };
  return { covers: matchedPath !== null, matchedPath };
}

// ── The generator ───────────────────────────────────────────────────────────────────────────────

const FLAWS = {
  none: (text) => text,
  "a secret": (text) => `secret = false\n${text}`,
  "an unknown key": (text) => `note = 1\n${text}`,
  "a key twice": (text) => `mode = "deny"\n${text}`,
  "no mode": (text) => text.replace(/^mode = .*\n/m, ""),
  "an unknown mode": (text) => text.replace(/^mode = .*\n/m, 'mode = "allow"\n'),
  "an unknown class": (text) => text.replace(/^max_taint = .*\n/m, 'max_taint = "top"\n'),
  "an unknown tool": (text) => text.replace(/^tool = .*\n/m, 'tool = "clock"\n'),
  "a bad time": (text) => text.replace(/^(expires = .*\n)?/, 'expires = "2026-12-01"\n'),
  patterns: (text) => `constraints.patterns = ["*"]\n${inOneTable(text)}`,
  "a bad path": (text) => `constraints.paths = ["/a/"]\n${inOneTable(text)}`,
  "a bad host": (text) => `constraints.hosts = ["10.0.0.1"]\n${inOneTable(text)}`,
  "a byte-order mark": (text) => `\ufeff${text}`,
  "one byte too many": (text) => text + "#".repeat(65_537 - new TextEncoder().encode(text).length),
} as const satisfies Record<string, (text: string) => string>;
type Flaw = keyof typeof FLAWS;

/** A grant's file without its constraints, so that a flaw can give others. */
function inOneTable(text: string): string {
  return text.replace(/^\[constraints\]\n[^]*/m, "");
}

const CLASSES = ["public", "private", "secret"] as const;
const TOOLS = ["read_file", "write_file", "shell", "http_fetch"] as const;
const time = fc.constantFrom(0, 1, 2, 1_000).map((ms) =>
  new Date(Date.parse("2026-12-01T10:00:00.000Z") + ms).toISOString()
);
const component = fc.constantFrom("a", "a", "a", "b", "ab", "ü", "...");
const path = fc.array(component, { maxLength: 3 }).map((parts) => `/${parts.join("/")}`);
const grantPath = fc.array(component, { maxLength: 2 }).map((parts) => `/${parts.join("/")}`);
const badPath = fc.tuple(
  path,
  fc.constantFrom("/", "/.", "/..", "//a", "\0", "/a/../b", "/a".repeat(2048)),
)
  .map(([start, end]) => start + end);
const anyPath = fc.oneof(
  { weight: 50, arbitrary: path },
  { weight: 1, arbitrary: badPath },
  { weight: 1, arbitrary: path.map((one) => one.slice(1)).filter((one) => one !== "") },
);
const host = fc.array(fc.constantFrom("a", "a", "a", "b-c"), { minLength: 1, maxLength: 3 })
  .map((labels) => [...labels, "example"].join("."));
const badHost = fc.tuple(host, fc.constantFrom(".1", ".0x1f", ".0x", ".", "-", "..a", "_", "A"))
  .map(([start, end]) => start + end);
const pattern = fc.tuple(fc.boolean(), host).map(([wild, one]) => wild ? `*.${one}` : one);
const url: fc.Arbitrary<AUrl> = fc.record({
  scheme: fc.oneof({ weight: 50, arbitrary: fc.constant("https://") }, {
    weight: 1,
    arbitrary: fc.constantFrom("http://", "HTTPS://", "https:/", " https://", ""),
  }),
  host: fc.oneof({ weight: 50, arbitrary: host }, { weight: 1, arbitrary: badHost }),
  port: fc.oneof({ weight: 50, arbitrary: fc.constantFrom("", ":443") }, {
    weight: 1,
    arbitrary: fc.constantFrom(":", ":80", ":0443", ":443:443"),
  }),
  rest: fc.oneof({ weight: 50, arbitrary: fc.constantFrom("", "/", "/a?b=c#d", "/@x/..\\") }, {
    weight: 1,
    arbitrary: fc.constantFrom(
      "?a",
      "#a",
      "@a.example",
      "/ ",
      "/ü",
      "/\x7f",
      `/${"a".repeat(2048)}`,
    ),
  }),
});

const text = fc.constantFrom("", "x", "a\nb", "😀");
const entriesOf: Readonly<Record<(typeof TOOLS)[number], fc.Arbitrary<ACall["entries"]>>> = {
  read_file: anyPath.map((value) => [["path", value]] as const),
  write_file: fc.tuple(anyPath, text, fc.boolean()).map(([value, content, first]) =>
    first
      ? [["content", content], ["path", value]] as const
      : [["path", value], ["content", content]] as const
  ),
  shell: fc.tuple(text, fc.option(anyPath, { freq: 2 })).map(([command, cwd]) =>
    cwd === null ? [["command", command]] as const : [["command", command], ["cwd", cwd]] as const
  ),
  http_fetch: url.map((value) => [["url", value]] as const),
};
/** What is added to the entries, mostly nothing. */
const extra: fc.Arbitrary<ACall["entries"]> = fc.oneof(
  { weight: 40, arbitrary: fc.constant([]) },
  {
    weight: 1,
    arbitrary: fc.constantFrom("path", "content", "cwd", "url", "__proto__", "")
      .map((key) => [[key, "/a"]] as const),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(null, 1, true).map((value) => [["cwd", value]] as const),
  },
);
const damage = fc.oneof(
  { weight: 60, arbitrary: fc.constant("none" as const) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      ...(["trailing comma", "a list", "text after it", "empty"] as const),
    ),
  },
);
const call: fc.Arbitrary<ACall> = fc.oneof(
  ...TOOLS.map((tool) => ({
    weight: 8,
    arbitrary: fc.record({
      tool: fc.constant<string>(tool),
      entries: fc.tuple(entriesOf[tool], extra).map(([own, more]) => [...own, ...more]),
      damage,
    }),
  })),
  {
    weight: 1,
    arbitrary: fc.record({
      tool: fc.constantFrom("clock", "", "Shell", "constructor"),
      entries: entriesOf.read_file,
      damage,
    }),
  },
);

/** A grant for the call's tool, or with `other` for the one that many places further. */
const grantFor = fc.record({
  id: fc.constantFrom("-", "0", "10", "2", "a", "a-", "a0", "aa", "b", "z"),
  other: fc.constantFrom(0, 0, 0, 1, 2),
  mode: fc.constantFrom<Mode>("deny", "ask", "ask", "auto", "auto"),
  maxTaint: fc.constantFrom(...CLASSES, "secret"),
  resultClass: fc.constantFrom(...CLASSES),
  untrusted: fc.boolean(),
  expires: fc.option(time, { freq: 2 }),
  paths: fc.array(grantPath, { minLength: 1, maxLength: 3 }),
  hosts: fc.array(pattern, { minLength: 1, maxLength: 3 }),
  withPaths: fc.boolean(),
  flaw: fc.oneof({ weight: 40, arbitrary: fc.constant<Flaw>("none") }, {
    weight: 1,
    arbitrary: fc.constantFrom(...Object.keys(FLAWS) as Flaw[]),
  }),
});

/** Any case. */
export const aCase: fc.Arbitrary<Case> = fc.record({
  now: time,
  call,
  state: fc.option(
    fc.record(
      { taint: fc.constantFrom(...CLASSES), untrusted: fc.boolean() },
      { noNullPrototype: true },
    ),
    { freq: 20 },
  ),
  drawn: fc.uniqueArray(grantFor, { maxLength: 6, size: "max", selector: ({ id }) => id }),
}).map(({ drawn, ...rest }) => {
  const own = TOOLS.findIndex((tool) => tool === rest.call.tool);
  const grants = drawn.map(({ other, withPaths, paths, hosts, ...fields }) => {
    const tool = TOOLS[(own + other + TOOLS.length) % TOOLS.length] ?? "shell";
    return {
      ...fields,
      tool,
      paths: tool === "http_fetch" || (tool === "shell" && !withPaths) ? [] : paths,
      hosts: tool === "http_fetch" ? hosts : [],
    };
  });
  return { ...rest, grants };
});

// ── As the broker takes them ──────────────────────────────────────────────────────────────────────────────

function fileOf(grant: AGrant): string {
  const { tool, mode, untrusted, expires, paths, hosts } = grant;
  return FLAWS[grant.flaw](grantFile({
    ...{ tool, mode, untrusted },
    ...(expires === null ? {} : { expires }),
    max_taint: grant.maxTaint,
    result_class: grant.resultClass,
    constraints: {
      ...(paths.length === 0 ? {} : { paths }),
      ...(hosts.length === 0 ? {} : { hosts }),
    },
  }));
}

function textOf({ entries, damage }: ACall): string {
  const written = entries.map(([key, value]) => {
    const plain = isUrl(value) ? value.scheme + value.host + value.port + value.rest : value;
    return `${JSON.stringify(key)}: ${JSON.stringify(plain)}`;
  });
  const object = `{${written.join(", ")}}`;
  switch (damage) {
    case "none":
      return object;
    case "trailing comma":
      return object.replace(/\}$/, ",}");
    case "a list":
      return `[${object}]`;
    case "text after it":
      return `${object}x`;
    case "empty":
      return "";
  }
}

/** The case as the broker is asked, its grant files read as the broker reads them. */
export function situationOf({ now, grants, state, call }: Case): Situation {
  const loaded: LoadedGrant[] = [];
  let valid = true;
  for (const grant of grants) {
    const read = readGrant(`${grant.id}.toml`, new TextEncoder().encode(fileOf(grant)));
    if (Array.isArray(read)) valid = false;
    else loaded.push(read);
  }
  return {
    now,
    grants: valid ? { ok: true, grants: loaded } : { ok: false, problems: [] },
    state,
    tool: call.tool,
    arguments: textOf(call),
  };
}

/** Everything that one decision can come to. */
export const EACH = [
  ...["allowed", "ask", "denied_by_grant", "no_grant", "grant_expired", "taint_too_high"],
  ...["invalid_arguments", "grants_invalid", "state_unreadable"],
];
