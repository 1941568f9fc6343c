/**
 * The decision (specification 3, "Matching"; contracts 3). The only place where a `Decision` is made:
 * nothing runs without one, and no other module can make one, by a cast, a copy or a subclass. Pure.
 */
import { type DecisionRecord, denied, type DenyReason } from "../proto/decisions.ts";
import { GRANT_MODES, type GrantMode } from "../proto/grants.ts";
import type { Timestamp } from "../proto/ids.ts";
import { assertNever } from "../proto/text.ts";
import { type DataClass, isAbove, type ToolArgs, ToolName } from "../proto/tools.ts";
import { parseArguments } from "./args.ts";
import type { GrantSet, LoadedGrant } from "./grant_rules.ts";
import { hostMatches, urlHost } from "./hosts.ts";
import { longestContaining } from "./paths.ts";

/** What a session has seen so far (specification 4). */
export interface SessionState {
  readonly taint: DataClass;
  readonly untrusted: boolean;
}

/** Everything a decision depends on. */
export interface Situation {
  readonly now: Timestamp;
  readonly grants: GrantSet;
  /** Null: the session's state cannot be read. */
  readonly state: SessionState | null;
  readonly tool: string;
  /** The model's JSON object as received. */
  readonly arguments: string;
}

/** What a call asks for and the grant that covers it. */
export interface Covered {
  readonly args: ToolArgs;
  readonly grant: LoadedGrant;
  /** The directory that the call is let into: the longest that contains its path. Null for other tools. */
  readonly matchedPath: string | null;
}

/** The part of a grant's constraints that does not cover a call. */
export type Gap =
  /** The call's path is in none of the grant's. */
  | "path"
  /** The path of a `write_file` is one of the grant's own, which no write may replace. */
  | "own_path"
  /** A `shell` call names no directory, and the grant has paths. */
  | "no_cwd"
  /** A `shell` call's directory is in none of the grant's paths, of which it may have none. */
  | "cwd"
  /** The URL's host is none of the grant's. */
  | "host"
  /** The path or cwd is in the grant's, and is not the one that it remembers. */
  | "not_remembered";

/** What the walk over the grants found of one candidate (specification 3, "Matching", 1 and 2). */
export interface Judged {
  readonly args: ToolArgs;
  readonly grant: LoadedGrant;
  /** `now` is at its `expires` or after it. */
  readonly expired: boolean;
  /** The session's taint is above its `max_taint`. */
  readonly tainted: boolean;
  readonly coverage: Covered | Gap;
}

/** Is told of each candidate, in the order of the grants. */
export type Observer = (judged: Judged) => void;

/** What stands for the state in a record when it cannot be read (contracts 3). */
export const UNREADABLE: SessionState = { taint: "secret", untrusted: true };

interface Fields {
  readonly record: DecisionRecord;
  readonly state: SessionState;
  readonly covered: Covered | null;
  readonly hint: string | null;
  readonly mayRun: boolean;
}

const KEY = Symbol("made by policy");

class SealedDecision {
  readonly #fields: Fields;

  constructor(key: symbol, { record, state, covered, hint, mayRun }: Fields) {
    if (key !== KEY) throw new TypeError("only policy makes a Decision");
    if (covered !== null) {
      Object.freeze(covered.args);
      Object.freeze(covered);
    }
    this.#fields = {
      record: Object.freeze(record),
      // The caller may go on with its own.
      state: Object.freeze({ ...state }),
      covered,
      hint,
      mayRun,
    };
    Object.freeze(this);
  }

  /** Whether `value` was made here: a look-alike has no `#fields`. */
  static made(value: unknown): value is SealedDecision {
    return typeof value === "object" && value !== null && #fields in value;
  }

  /** The outcome as the audit log and the answers carry it. */
  toRecord(): DecisionRecord {
    return this.#fields.record;
  }

  /** The session's state that was decided on. */
  get state(): SessionState {
    return this.#fields.state;
  }

  /** The grant that decided and what it covers; null where none did. */
  get covered(): Covered | null {
    return this.#fields.covered;
  }

  /** The owner's words for the model, of the grant that made a denial; null where there are none. */
  get hint(): string | null {
    return this.#fields.hint;
  }

  /** Whether this decision lets the call run: allowed, or approved by the owner. */
  get mayRun(): boolean {
    return this.#fields.mayRun;
  }
}
// The class too: any decision leads to it, and another `made` would let any look-alike run.
Object.freeze(SealedDecision);
Object.freeze(SealedDecision.prototype);

export type Decision = SealedDecision;

/** Whether `value` is a decision that policy made. */
export function isDecision(value: unknown): value is Decision {
  return SealedDecision.made(value);
}

/**
 * Decides a call as it comes in: allowed, denied, or for the owner to answer. `observe` changes nothing of
 * that: it sees the same walk over the grants, so that what explains a decision cannot differ from it.
 */
export function decide(situation: Situation, observe?: Observer): Decision {
  return settle(situation, ["auto"], observe);
}

/**
 * Decides a call again when the owner approves it, with the grants and the state as they are now
 * (specification 6, "Approve"). An `ask` grant lets it run as well as an `auto` one.
 */
export function redecide(situation: Situation): Decision {
  return settle(situation, ["auto", "ask"]);
}

/** `running`: the modes that let the call run. */
function settle(
  situation: Situation,
  running: readonly GrantMode[],
  observe?: Observer,
): Decision {
  const { grants, now, tool: name } = situation;
  const state = situation.state ?? UNREADABLE;
  const deny = (reason: DenyReason, covered: Covered | null = null, hint: string | null = null) =>
    new SealedDecision(KEY, { record: denied(reason), state, covered, hint, mayRun: false });

  if (!grants.ok) return deny("grants_invalid");
  if (situation.state === null) return deny("state_unreadable");
  const tool = ToolName.safeParse(name);
  if (!tool.success) return deny("no_grant");
  const args = parseArguments(tool.data, situation.arguments);
  if (args === null) return deny("invalid_arguments");

  const { chosen, reason, missed } = match(grants.grants, args, state.taint, now, observe);
  if (chosen === null) return deny(reason, null, missed?.hint ?? null);
  const { mode } = chosen.grant;
  switch (mode) {
    case "deny":
      return deny("denied_by_grant", chosen, chosen.grant.hint);
    case "ask":
    case "auto":
      return new SealedDecision(KEY, {
        record: { outcome: mode === "auto" ? "allowed" : "ask" },
        state,
        covered: chosen,
        hint: null,
        mayRun: running.includes(mode),
      });
    default:
      return assertNever(mode);
  }
}

type Match =
  | { readonly chosen: Covered; readonly reason: null; readonly missed: null }
  | {
    readonly chosen: null;
    readonly reason: "no_grant" | "grant_expired" | "taint_too_high";
    /** The grant that was ruled out by `reason` alone; of several the one that goes before the others. */
    readonly missed: LoadedGrant | null;
  };

/** The grant that decides, or why there is none. One walk over the grants. */
function match(
  grants: readonly LoadedGrant[],
  args: ToolArgs,
  taint: DataClass,
  now: Timestamp,
  observe: Observer | undefined,
): Match {
  let chosen: Covered | null = null;
  let onlyExpired: LoadedGrant | null = null;
  let onlyTainted: LoadedGrant | null = null;
  const standIns: Covered[] = [];
  for (const grant of grants) {
    if (grant.tool !== args.tool) continue;
    const coverage = cover(grant, args);
    const expired = grant.expires !== null && now >= grant.expires;
    const tainted = isAbove(taint, grant.max_taint);
    observe?.({ args, grant, expired, tainted, coverage });
    if (typeof coverage === "string") continue;
    if (grant.remembered !== null) {
      // No candidate of its own: it neither lets a call run by itself nor gives a denial its reason.
      if (!expired && !tainted) standIns.push(coverage);
    } else if (!expired && !tainted) {
      if (chosen === null || goesBefore(grant, chosen.grant)) chosen = coverage;
    } else if (!tainted) {
      if (onlyExpired === null || goesBefore(grant, onlyExpired)) onlyExpired = grant;
    } else if (!expired) {
      if (onlyTainted === null || goesBefore(grant, onlyTainted)) onlyTainted = grant;
    }
  }
  if (chosen !== null) {
    return { chosen: standInFor(chosen, standIns) ?? chosen, reason: null, missed: null };
  }
  if (onlyExpired !== null) return { chosen, reason: "grant_expired", missed: onlyExpired };
  const reason = onlyTainted === null ? "no_grant" : "taint_too_high";
  return { chosen, reason, missed: onlyTainted };
}

/**
 * The remembered grant that answers in the owner's place where the `ask` grant `chosen` decides, or null
 * (decision 110). It names that grant and the hash of its file, so that none takes the place of any other
 * grant, or of this one once it was edited. Of several the one whose id is lowest.
 */
function standInFor({ grant: { id, mode, sha256 } }: Covered, standIns: readonly Covered[]) {
  if (mode !== "ask") return null;
  let found: Covered | null = null;
  for (const standIn of standIns) {
    const { remembered } = standIn.grant;
    if (remembered?.grant !== id || remembered.sha256 !== sha256) continue;
    if (found === null || goesBefore(standIn.grant, found.grant)) found = standIn;
  }
  return found;
}

/**
 * Whether `a` decides where both grants cover a call: the most restrictive mode first, then the lowest id
 * in byte order (ids are ASCII).
 */
export function goesBefore(a: LoadedGrant, b: LoadedGrant): boolean {
  const byMode = GRANT_MODES.indexOf(a.mode) - GRANT_MODES.indexOf(b.mode);
  return byMode < 0 || (byMode === 0 && a.id < b.id);
}

/** What `grant`'s constraints cover of `args`, or what of them does not (specification 3, "Covered when"). */
function cover(grant: LoadedGrant, args: ToolArgs): Covered | Gap {
  const coverage = coverByConstraints(grant, args);
  if (typeof coverage === "string" || grant.remembered === null) return coverage;
  // Exactly the place that it remembers; of http_fetch its constraints name the one host.
  const place = args.tool === "shell" ? args.cwd : "path" in args ? args.path : undefined;
  return place === grant.remembered.path ? coverage : "not_remembered";
}

function coverByConstraints(grant: LoadedGrant, args: ToolArgs): Covered | Gap {
  const { paths, hosts } = grant.constraints;
  switch (args.tool) {
    case "read_file": {
      const matchedPath = longestContaining(paths, args.path);
      return matchedPath === null ? "path" : { args, grant, matchedPath };
    }
    case "write_file": {
      const matchedPath = longestContaining(paths, args.path);
      if (matchedPath === null) return "path";
      // A grant's own directory cannot be written over, whatever else the grant covers.
      return matchedPath === args.path ? "own_path" : { args, grant, matchedPath };
    }
    case "shell": {
      const { cwd } = args;
      if (cwd === undefined) {
        return paths.length === 0 ? { args, grant, matchedPath: null } : "no_cwd";
      }
      const matchedPath = longestContaining(paths, cwd);
      return matchedPath === null ? "cwd" : { args, grant, matchedPath };
    }
    case "http_fetch": {
      const host = urlHost(args.url);
      const covers = host !== null && hosts.some((pattern) => hostMatches(pattern, host));
      return covers ? { args, grant, matchedPath: null } : "host";
    }
    default:
      return assertNever(args);
  }
}
