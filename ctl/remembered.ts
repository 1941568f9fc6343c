/**
 * The grant that remembers an answer (decision 110): its text, and the proof that it does that and nothing
 * else, by the code that decides. Pure.
 */
import { explain, type LineOf } from "../broker/explain.ts";
import { type LoadedGrant, readGrant } from "../broker/grant_rules.ts";
import { urlHost } from "../broker/hosts.ts";
import { type Covered, decide } from "../broker/policy.ts";
import { displayToml } from "../proto/escape.ts";
import { type Timestamp, timestamp } from "../proto/ids.ts";
import type { PendingApproval } from "../proto/messages.ts";
import { assertNever, utf8 } from "../proto/text.ts";
import { type DataClass, higherClass } from "../proto/tools.ts";
import { explainedLines, placed } from "./explained.ts";

/** Valid grants with the lines of their files. */
export interface Grants {
  readonly grants: readonly LoadedGrant[];
  readonly lineOf: LineOf;
}

/** A grant to be written. */
export interface Proposal {
  /** Its id. */
  readonly id: string;
  /** The id of the `ask` grant that it answers for. */
  readonly asked: string;
  readonly expires: Timestamp;
  /** The whole text of its file. What does not show in it is escaped, so that it shows as it is. */
  readonly text: string;
}

/** Why an answer cannot be remembered: lines for the owner, escaped. */
export interface Refusal {
  readonly refused: readonly string[];
}

/** The grant that remembers the answer to `item` for `ms` milliseconds from `now`, which is in ms too. */
export function propose(
  item: PendingApproval,
  grants: Grants,
  now: number,
  ms: number,
): Proposal | Refusal {
  const situation = situationOf(item, grants.grants, now, item.taint);
  const decision = decide(situation);
  const { covered } = decision;
  if (decision.toRecord().outcome !== "ask" || covered === null) {
    const lines = explainedLines(explain(situation, grants.lineOf));
    return { refused: ["with the grants as they are now, this call is not asked about", ...lines] };
  }
  if (covered.args.tool === "shell" && covered.args.cwd === undefined) {
    return { refused: ["a shell call without a cwd names no place that a grant could be held to"] };
  }
  const id = `remembered-${item.approval}`;
  const end = timestamp(now + ms);
  const asked = covered.grant;
  // Never longer than the grant that asks.
  const expires = asked.expires !== null && asked.expires < end ? asked.expires : end;
  return { id, asked: asked.id, expires, text: textOf(id, item.approval, covered, expires) };
}

/**
 * Why `proposal` does not let the next call like `item` run, or null where it does, by itself and with all
 * other grants valid. The session's taint is taken as it is once this call has given its result.
 */
export function objection(
  item: PendingApproval,
  proposal: Proposal,
  { grants, lineOf }: Grants,
  now: number,
): Refusal | null {
  const file = `${proposal.id}.toml`;
  const loaded = readGrant(file, utf8(proposal.text));
  if (Array.isArray(loaded)) {
    return { refused: loaded.map(({ line, problem }) => placed(file, line, problem)) };
  }
  if (grants.some(({ id }) => id === loaded.id)) {
    return { refused: [`a grant ${loaded.id} is there already`] };
  }
  const taint = higherClass(item.taint, loaded.result_class);
  const explanation = explain(situationOf(item, [...grants, loaded], now, taint), lineOf);
  if (explanation.outcome.outcome === "allowed" && explanation.grant === loaded.id) return null;
  const words = `once this call has run, at taint ${taint}, another one like it would come out so:`;
  return { refused: [words, ...explainedLines(explanation)] };
}

function situationOf(
  { tool, arguments: args }: PendingApproval,
  grants: readonly LoadedGrant[],
  now: number,
  taint: DataClass,
) {
  const state = { taint, untrusted: false };
  return {
    now: timestamp(now),
    grants: { ok: true, grants },
    state,
    tool,
    arguments: args,
  } as const;
}

function textOf(
  id: string,
  approval: number,
  covered: Covered,
  expires: Timestamp,
): string {
  const { id: asked, tool, max_taint, result_class, untrusted, sha256 } = covered.grant;
  const { constraints, place } = narrowed(covered);
  return [
    `# Written by bxctl approve ${approval} --remember: it answers for you where ${asked} asks.`,
    `# To end it: bxctl grants revoke ${id}`,
    `tool = "${tool}"`,
    'mode = "auto"',
    `max_taint = "${max_taint}"`,
    `result_class = "${result_class}"`,
    `untrusted = ${untrusted}`,
    `expires = "${expires}"`,
    ...["", "[constraints]", constraints],
    ...["", "[remembered]", `grant = "${asked}"`, `sha256 = "${sha256}"`],
    ...place === null ? [] : [`path = ${displayToml(place)}`],
  ].map((line) => `${line}\n`).join("");
}

/**
 * What of the grant's constraints the call uses: of paths the mounted ones, so that the call runs as an
 * approved one does; of hosts the one of its URL. `place`: its path or cwd.
 */
function narrowed({ args, grant, matchedPath }: Covered) {
  const list = (values: readonly string[]) => `[${values.map(displayToml).join(", ")}]`;
  switch (args.tool) {
    case "read_file":
    case "write_file":
      return { constraints: `paths = ${list([matchedPath ?? ""])}`, place: args.path };
    case "shell":
      return { constraints: `paths = ${list(grant.constraints.paths)}`, place: args.cwd ?? "" };
    case "http_fetch":
      return { constraints: `hosts = ${list([urlHost(args.url) ?? ""])}`, place: null };
    default:
      return assertNever(args);
  }
}
