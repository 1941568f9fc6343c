/**
 * What a broker should say, worked out naively: a few grants and calls of fixed kinds, and who covers
 * whom as a table. Shares nothing with the broker but the words. Pure.
 */
import type { DecisionRecord } from "../../proto/decisions.ts";
import type { DataClass } from "../../proto/tools.ts";
import { type GrantFields, grantFile } from "./grants.ts";

export const SESSIONS = ["s0", "s1"] as const;
export type Session = (typeof SESSIONS)[number];

const RANK = { public: 0, private: 1, secret: 2 } as const;

/** What a session has seen. */
export interface Seen {
  readonly taint: DataClass;
  readonly untrusted: boolean;
}

export const FRESH: Seen = { taint: "private", untrusted: false };

/** Both of what two saw. */
export function join(a: Seen, b: Seen): Seen {
  return {
    taint: RANK[a.taint] >= RANK[b.taint] ? a.taint : b.taint,
    untrusted: a.untrusted || b.untrusted,
  };
}

/** Whether `a` has seen all that `b` has. */
export function covers(a: Seen, b: Seen): boolean {
  return RANK[a.taint] >= RANK[b.taint] && (a.untrusted || !b.untrusted);
}

/** What a model knows of a session. */
export interface State {
  /** What the state file says now. */
  now: Seen;
  /** What a client was told of, or a record that no crash can take away: it never goes below that. */
  floor: Seen;
  /** All that was ever to be written: it never goes above that. */
  reach: Seen;
  damaged: boolean;
}

/** The state in a file, or that of a session without one. */
export function seenIn(bytes: Uint8Array | null): Seen {
  return bytes === null ? FRESH : JSON.parse(new TextDecoder().decode(bytes));
}

/** What each grant is for, in the order of their ids. Only what can change is generated. */
const SLOTS = [
  { id: "g0", tool: "read_file", constraints: { paths: ["/a"] } },
  { id: "g1", tool: "read_file", constraints: { paths: ["/a/in", "/b"] } },
  { id: "g2", tool: "write_file", constraints: { paths: ["/a"] } },
  { id: "g3", tool: "shell", constraints: {} },
  { id: "g4", tool: "http_fetch", constraints: { hosts: ["example.com"] } },
] as const;
export const SLOT_COUNT = SLOTS.length;

/** What can change of a grant. */
export interface Terms {
  readonly mode: "auto" | "ask" | "deny";
  readonly max_taint: DataClass;
  readonly result_class: DataClass;
  readonly untrusted: boolean;
  /** Milliseconds since 1970, or null. */
  readonly expires: number | null;
}

/** A grant's file: whole, of no use, or not there. */
export type Slot = Terms | "invalid" | "absent";

/** The name of a grant's file. */
export function slotFile(slot: number): string {
  return `${SLOTS[slot]?.id}.toml`;
}

/** The text of a grant's file; null where there is none. */
export function slotText(slot: number, state: Slot): string | null {
  if (state === "absent") return null;
  if (state === "invalid") return `tool = "read_file"\nmode = "perhaps"\n`;
  const { expires, ...terms } = state;
  const { tool = "", constraints = {} } = SLOTS[slot] ?? {};
  const fields: GrantFields = { tool, ...terms, constraints };
  return grantFile(
    expires === null ? fields : { ...fields, expires: new Date(expires).toISOString() },
  );
}

/** The calls that are made: what they ask for, and the grants that cover it. */
export const TARGETS = [
  { tool: "read_file", arguments: '{"path":"/a/x"}', covered: [0], form: "good" },
  { tool: "read_file", arguments: '{"path":"/a/in/x"}', covered: [0, 1], form: "good" },
  { tool: "read_file", arguments: '{"path":"/b"}', covered: [1], form: "good" },
  { tool: "write_file", arguments: '{"path":"/a/x","content":"y"}', covered: [2], form: "good" },
  { tool: "shell", arguments: '{"command":"ls"}', covered: [3], form: "good" },
  { tool: "http_fetch", arguments: '{"url":"https://example.com/"}', covered: [4], form: "good" },
  { tool: "read_file", arguments: '{"path":"/c"}', covered: [], form: "good" },
  { tool: "write_file", arguments: '{"path":"/a","content":"y"}', covered: [], form: "good" },
  { tool: "shell", arguments: '{"command":"ls","cwd":"/a"}', covered: [], form: "good" },
  { tool: "read_file", arguments: '{"path":"a"}', covered: [0], form: "bad" },
  { tool: "mail", arguments: '{"path":"/a/x"}', covered: [], form: "good" },
] as const;

/** What is decided, and by which grant. */
export interface Expected {
  readonly outcome: DecisionRecord;
  readonly grant: string | null;
  /** The grant as it is now, where one decided. */
  readonly terms: Terms | null;
}

const denied = (reason: Extract<DecisionRecord, { outcome: "denied" }>["reason"]): Expected => ({
  outcome: { outcome: "denied", reason },
  grant: null,
  terms: null,
});

/** What a call of `TARGETS` comes to. `seen`: null where the session's state is damaged. */
export function expected(
  slots: readonly Slot[],
  seen: Seen | null,
  target: number,
  now: number,
): Expected {
  const { covered, form } = TARGETS[target] ?? { covered: [], form: "bad" };
  if (slots.includes("invalid")) return denied("grants_invalid");
  if (seen === null) return denied("state_unreadable");
  if (form === "bad") return denied("invalid_arguments");

  const standing = covered.flatMap((slot) => {
    const terms = slots[slot];
    if (terms === undefined || typeof terms === "string") return [];
    return [{
      ...{ id: SLOTS[slot]?.id ?? "", terms },
      expired: terms.expires !== null && now >= terms.expires,
      tainted: RANK[seen.taint] > RANK[terms.max_taint],
    }];
  });
  const fit = standing.filter(({ expired, tainted }) => !expired && !tainted);
  for (const mode of ["deny", "ask", "auto"] as const) {
    const first = fit.filter(({ terms }) => terms.mode === mode).at(0);
    if (first === undefined) continue;
    const outcome = {
      deny: { outcome: "denied", reason: "denied_by_grant" },
      ask: { outcome: "ask" },
      auto: { outcome: "allowed" },
    } as const;
    return { outcome: outcome[mode], grant: first.id, terms: first.terms };
  }
  if (standing.some(({ expired, tainted }) => expired && !tainted)) return denied("grant_expired");
  if (standing.some(({ expired, tainted }) => tainted && !expired)) return denied("taint_too_high");
  return denied("no_grant");
}
