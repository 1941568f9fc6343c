/**
 * What is valid in a set of grants and may still surprise their owner. Nothing here changes a decision.
 * Pure.
 */
import type { LineOf } from "../broker/explain.ts";
import { type LoadedGrant, quote } from "../broker/grant_rules.ts";
import { hostMatches } from "../broker/hosts.ts";
import { isInside } from "../broker/paths.ts";
import { goesBefore } from "../broker/policy.ts";
import { type Timestamp, timestamp } from "../proto/ids.ts";
import { assertNever } from "../proto/text.ts";
import { isAbove } from "../proto/tools.ts";

/** A warning, placed like a problem: the bare name of the file, and the line where there is one. */
export interface GrantWarning {
  readonly file: string;
  readonly line: number | null;
  readonly warning: string;
}

/** A grant that ends within this time is warned of, in milliseconds: a week. */
const SOON_MS = 7 * 24 * 3600 * 1000;

/** Second-level domains under which a country's registry gives names to anybody. */
const REGISTRY_LABELS = [
  ...["ac", "co", "com", "edu", "firm", "gen", "go", "gob", "gov", "govt", "gouv", "id", "ind"],
  ...["info", "ltd", "me", "mil", "name", "ne", "net", "nom", "or", "org", "plc", "sch", "web"],
];
/** Domains below which anybody may put up pages. */
const HOSTING = [
  ...["amazonaws.com", "appspot.com", "azurewebsites.net", "blogspot.com", "cloudfront.net"],
  ...["firebaseapp.com", "github.io", "gitlab.io", "herokuapp.com", "netlify.app", "ngrok.io"],
  ...["pages.dev", "trycloudflare.com", "vercel.app", "web.app", "workers.dev"],
];

/**
 * The warnings of valid `grants`, by file; `now` in milliseconds since 1970. `isMissing`: whether it is known
 * that nothing is at a path.
 */
export function grantWarnings(
  grants: readonly LoadedGrant[],
  now: number,
  lineOf: LineOf,
  isMissing: (path: string) => boolean,
): GrantWarning[] {
  return grants.flatMap((grant) => {
    const at = (key: readonly string[], warning: string | null): GrantWarning[] =>
      warning === null ? [] : [{ file: `${grant.id}.toml`, line: lineOf(grant, key), warning }];
    const { paths, hosts } = grant.constraints;
    return [
      ...at(["mode"], overridden(grant, grants)),
      ...at(["max_taint"], upToPublic(grant) ?? denyBelow(grant)),
      ...at(["expires"], ending(grant, now)),
      ...at(["constraints", "paths"], paths.includes("/") ? "its path / covers every file" : null),
      ...paths.filter(isMissing).flatMap((path) =>
        at(["constraints", "paths"], `its path ${quote(path)} does not exist`)
      ),
      ...hosts.filter(isPublic).flatMap((host) =>
        at(["constraints", "hosts"], `${host} covers names that anybody can get`)
      ),
    ];
  });
}

/** A session starts at `private` and its taint never goes down (specification 4). */
function upToPublic({ mode, max_taint }: LoadedGrant): string | null {
  if (max_taint !== "public") return null;
  const other = mode === "deny" ? ": another grant may let the call run" : "";
  return `it applies to no session: its max_taint is public, and each starts at private${other}`;
}

function denyBelow({ mode, max_taint }: LoadedGrant): string | null {
  if (mode !== "deny" || max_taint === "secret") return null;
  return `it denies only up to taint ${max_taint}: above that, another grant may let the call run`;
}

function ending({ mode, expires, remembered }: LoadedGrant, now: number): string | null {
  if (expires === null) return null;
  const after = mode === "deny" ? ": after that, another grant may let the call run" : "";
  if (expires <= timestamp(now)) return `it expired at ${expires}${after}`;
  if (remembered !== null) return null;
  if (Date.parse(expires) - now < SOON_MS) return `it expires within a week, at ${expires}${after}`;
  return mode === "deny" ? `it stops denying at ${expires}${after}` : null;
}

/** Whether `pattern` takes in every name below a registry's or a hosting company's own. */
function isPublic(pattern: string): boolean {
  if (!pattern.startsWith("*.")) return false;
  const domain = pattern.slice(2);
  const [label = "", country = "", ...more] = domain.split(".");
  const registry = more.length === 0 && country.length === 2 && REGISTRY_LABELS.includes(label);
  return registry || HOSTING.includes(domain);
}

/** Why `grant` never decides a call, or null where it may. A remembered one answers in an ask grant's place. */
function overridden(grant: LoadedGrant, grants: readonly LoadedGrant[]): string | null {
  if (grant.remembered !== null) return null;
  const other = grants.find((one) =>
    one.id !== grant.id && one.remembered === null && alwaysGoesBefore(one, grant)
  );
  if (other === undefined) return null;
  const why = other.mode === grant.mode
    ? "of two grants of one mode the one whose id is lower does"
    : `mode ${other.mode} goes before ${grant.mode}`;
  return `it never decides: grant ${other.id} covers all that it covers, and ${why}`;
}

/** Whether `a` decides wherever `b` would: it goes first, counts whenever `b` does, and covers as much. */
function alwaysGoesBefore(a: LoadedGrant, b: LoadedGrant): boolean {
  return a.tool === b.tool && goesBefore(a, b) && !isAbove(b.max_taint, a.max_taint) &&
    lastsAsLong(a.expires, b.expires) && coversAll(a, b);
}

function lastsAsLong(a: Timestamp | null, b: Timestamp | null): boolean {
  return a === null || (b !== null && a >= b);
}

/** Whether `a` covers every call that `b` covers; both are of one tool. */
function coversAll(a: LoadedGrant, b: LoadedGrant): boolean {
  const [ours, theirs] = [a.constraints, b.constraints];
  const pathsIn = theirs.paths.every((path) => ours.paths.some((outer) => isInside(outer, path)));
  switch (a.tool) {
    case "read_file":
      return pathsIn;
    case "write_file":
      // A path of `a` is one that it cannot write to itself, and `b` may.
      return pathsIn &&
        ours.paths.every((path) =>
          theirs.paths.includes(path) || !theirs.paths.some((outer) => isInside(outer, path))
        );
    case "shell":
      return theirs.paths.length === 0 ? ours.paths.length === 0 : pathsIn;
    case "http_fetch":
      return theirs.hosts.every((host) => ours.hosts.some((pattern) => takesIn(pattern, host)));
    default:
      return assertNever(a.tool);
  }
}

/** Whether the pattern `outer` covers every host that `inner` covers. */
function takesIn(outer: string, inner: string): boolean {
  if (outer === inner) return true;
  return outer.startsWith("*.") &&
    hostMatches(outer, inner.startsWith("*.") ? inner.slice(2) : inner);
}
