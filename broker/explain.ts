/**
 * Why a decision comes out as it does, in words for the owner (specification 3, "Matching"). The decision
 * is made by `decide` itself and the words are put beside what its walk over the grants found, so that an
 * explanation cannot differ from the decision. Pure.
 */
import type { DecisionRecord, DenyReason } from "../proto/decisions.ts";
import type { GrantMode } from "../proto/grants.ts";
import type { GrantId, Hash32 } from "../proto/ids.ts";
import type { GrantProblem } from "../proto/messages.ts";
import { assertNever } from "../proto/text.ts";
import { TOOL_NAMES, type ToolArgs, ToolName } from "../proto/tools.ts";
import { type LoadedGrant, quote } from "./grant_rules.ts";
import { urlHost } from "./hosts.ts";
import { type Covered, decide, type Gap, type Judged, type Situation } from "./policy.ts";

/** One statement about a grant; `line` is that of its file, null where the file has no such line. */
export interface Clause {
  readonly line: number | null;
  readonly words: string;
}

/** What became of one grant of the call's tool. */
export interface Candidate {
  readonly grant: GrantId;
  /** The bare name of its file. */
  readonly file: string;
  readonly mode: GrantMode;
  readonly verdict: "decides" | "loses" | "ruled_out";
  /** At least one. Of a grant that is ruled out, the first rules it out, the others would as well. */
  readonly clauses: readonly Clause[];
}

/** A decision with its reasons. Texts hold what the model and the owner wrote: they are data. */
export interface Explanation {
  readonly outcome: DecisionRecord;
  /** The grant that decides and the hash of its file; null where none does. */
  readonly grant: GrantId | null;
  readonly grant_sha256: Hash32 | null;
  readonly why: string;
  /** What the owner's grant tells the model of a denial; null where there is nothing. */
  readonly hint: string | null;
  /** The one that decides, then those that lose to it, then those that are ruled out. */
  readonly candidates: readonly Candidate[];
  /** How many grants are of other tools. */
  readonly other_tools: number;
  /** What makes the grants invalid; empty where they are valid. */
  readonly problems: readonly GrantProblem[];
}

/** The line of a key in a grant's file, or null where it has none. */
export type LineOf = (grant: LoadedGrant, key: readonly string[]) => number | null;

const VERDICTS = ["decides", "loses", "ruled_out"] as const;
/** So many paths or hosts of a grant are named. */
const MOST_NAMED = 3;

/** Decides the call of `situation`, and says why it comes out so. */
export function explain(situation: Situation, lineOf: LineOf): Explanation {
  const judged: Judged[] = [];
  const decision = decide(situation, (one) => judged.push(one));
  const outcome = decision.toRecord();
  const { covered } = decision;
  const { grants } = situation;
  const taint = decision.state.taint;
  const rank = ({ verdict }: Candidate) => VERDICTS.indexOf(verdict);
  return {
    outcome,
    grant: covered?.grant.id ?? null,
    grant_sha256: covered?.grant.sha256 ?? null,
    why: covered === null ? whyNone(situation, outcome) : whyGrant(covered.grant),
    hint: decision.hint,
    candidates: judged.map((one) => candidateOf(one, covered, taint, lineOf))
      .sort((a, b) => rank(a) - rank(b)),
    other_tools: grants.ok ? grants.grants.filter(({ tool }) => tool !== situation.tool).length : 0,
    problems: grants.ok ? [] : grants.problems,
  };
}

function whyGrant({ id, mode, remembered }: LoadedGrant): string {
  if (remembered !== null) return `grant ${id} remembers the owner's answer to ${remembered.grant}`;
  switch (mode) {
    case "auto":
      return `grant ${id} lets it run`;
    case "ask":
      return `grant ${id} lets it run once the owner approves`;
    case "deny":
      return `grant ${id} denies it`;
    default:
      return assertNever(mode);
  }
}

/** Why no grant decides. */
function whyNone({ tool }: Situation, outcome: DecisionRecord): string {
  const reason = outcome.outcome === "denied" ? outcome.reason : null;
  const known = ToolName.safeParse(tool).success;
  const words: Partial<Record<DenyReason, string>> = {
    grants_invalid: "a grant file is invalid, and then every call is denied",
    state_unreadable: "the session's state cannot be read",
    invalid_arguments:
      `the arguments are not those of ${tool}, or a path or URL in them is malformed`,
    grant_expired: "a grant would cover it, but has expired",
    taint_too_high: "a grant would cover it, but not at this taint",
    no_grant: known
      ? "no grant covers it"
      : `${quote(tool)} is no tool; the tools are ${TOOL_NAMES.join(", ")}`,
  };
  return (reason === null ? undefined : words[reason]) ?? "no grant decides";
}

function candidateOf(
  { args, grant, expired, tainted, coverage }: Judged,
  chosen: Covered | null,
  taint: string,
  lineOf: LineOf,
): Candidate {
  const { id, mode, expires, max_taint } = grant;
  const of = (verdict: Candidate["verdict"], clauses: readonly Clause[]): Candidate => ({
    ...{ grant: id, file: `${id}.toml`, mode, verdict },
    clauses,
  });
  // In the order in which specification 3 rules out.
  const against: Clause[] = [];
  if (expired) {
    against.push({ line: lineOf(grant, ["expires"]), words: `it expired at ${expires}` });
  }
  if (tainted) {
    const words = `its max_taint is ${max_taint}, and the taint is ${taint}`;
    against.push({ line: lineOf(grant, ["max_taint"]), words });
  }
  if (typeof coverage === "string") against.push(gapOf(grant, args, coverage, lineOf));
  if (against.length > 0 || typeof coverage === "string") return of("ruled_out", against);

  const line = lineOf(grant, ["mode"]);
  if (chosen !== null && chosen.grant !== grant) {
    const { id: winner, mode: first, remembered } = chosen.grant;
    if (remembered?.grant === id) {
      return of("loses", [{ line, words: `mode ${mode}, which ${winner} answers for the owner` }]);
    }
    if (grant.remembered !== null) return of("loses", [standsAside(grant, chosen, lineOf)]);
    const words = first === mode
      ? `grant ${winner} goes before it: of two grants of mode ${mode} the one whose id is lower`
      : `grant ${winner} goes before it: mode ${first} goes before ${mode}`;
    return of("loses", [{ line, words }]);
  }
  // A remembered grant decides nothing by itself.
  if (chosen === null) return of("loses", [standsAside(grant, null, lineOf)]);
  return of("decides", [{ line, words: `mode ${mode}, ${coverOf(coverage)}` }]);
}

/** Why a remembered grant that covers the call does not answer for the owner. */
function standsAside(
  grant: LoadedGrant,
  chosen: Covered | null,
  lineOf: LineOf,
): Clause {
  const asked = grant.remembered?.grant ?? "";
  if (chosen === null || chosen.grant.id !== asked) {
    const words = chosen?.grant.remembered?.grant === asked
      ? `grant ${chosen.grant.id}, whose id is lower, answers in its place`
      : `it answers for ${asked} alone, which does not decide here`;
    return { line: lineOf(grant, ["remembered", "grant"]), words };
  }
  return {
    line: lineOf(grant, ["remembered", "sha256"]),
    words: chosen.grant.mode === "ask"
      ? `the file of ${asked} has been changed since`
      : `${asked} does not ask any more`,
  };
}

/** What lets a grant cover the call. */
function coverOf({ args, matchedPath }: Covered): string {
  switch (args.tool) {
    case "read_file":
    case "write_file":
      return `its path ${quote(matchedPath ?? "")} contains ${quote(args.path)}`;
    case "shell":
      return args.cwd === undefined
        ? "it has no paths and the call has no cwd"
        : `its path ${quote(matchedPath ?? "")} contains ${quote(args.cwd)}`;
    case "http_fetch":
      return `one of its hosts covers ${urlHost(args.url)}`;
    default:
      return assertNever(args);
  }
}

/** What keeps a grant from covering the call. */
function gapOf(grant: LoadedGrant, args: ToolArgs, gap: Gap, lineOf: LineOf): Clause {
  const { paths, hosts } = grant.constraints;
  const atPaths = (words: string) => ({ line: lineOf(grant, ["constraints", "paths"]), words });
  const place = args.tool === "shell" ? args.cwd : "path" in args ? args.path : undefined;
  const called = quote(place ?? "");
  switch (gap) {
    case "path":
      return atPaths(`${named("path", paths)} ${contain(paths)} ${called}`);
    case "own_path":
      return atPaths(`${called} is one of its paths itself, which no write may replace`);
    case "no_cwd":
      return atPaths("it has paths, and the call has no cwd");
    case "cwd":
      return paths.length === 0
        ? atPaths(`it has no paths, so it covers only calls without a cwd, not ${called}`)
        : atPaths(`${named("path", paths)} ${contain(paths)} ${called}`);
    case "host": {
      const host = args.tool === "http_fetch" ? urlHost(args.url) : null;
      return {
        line: lineOf(grant, ["constraints", "hosts"]),
        words: `${named("host", hosts)} ${hosts.length === 1 ? "does" : "do"} not cover ${host}`,
      };
    }
    case "not_remembered":
      return {
        line: lineOf(grant, ["remembered", "path"]),
        words: `it remembers ${quote(grant.remembered?.path ?? "")} alone, not ${called}`,
      };
    default:
      return assertNever(gap);
  }
}

const contain = (paths: readonly string[]) =>
  paths.length === 1 ? "does not contain" : "do not contain";

/** `its path "/a"`, or `its paths "/a", "/b" and 7 more`. */
function named(what: string, values: readonly string[]): string {
  const shown = values.slice(0, MOST_NAMED).map(quote).join(", ");
  const more = values.length - MOST_NAMED;
  return `its ${what}${values.length === 1 ? "" : "s"} ${shown}${
    more > 0 ? ` and ${more} more` : ""
  }`;
}
