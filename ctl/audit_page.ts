/**
 * The page of `bxctl audit report`: one document without scripts that loads nothing. Everything that did
 * not come from the program itself is escaped twice: as data (contracts 6), then for HTML. Pure.
 */
import { createHash } from "node:crypto";
import type { ChainFailure } from "../proto/chain.ts";
import { display } from "../proto/escape.ts";
import type { Timestamp } from "../proto/ids.ts";
import { duration } from "./ago.ts";
import { answerOf, type Call, CALL_OUTCOMES, outcomeOf } from "./audit_calls.ts";
import { type AuditSummary, type SessionSummary, waitOf } from "./audit_summary.ts";

/** The sessions that have a heading of their own; the others are counted. */
export const SESSIONS_ON_PAGE = 500;

/** The grants as they are now: their ids, or why they cannot be used, as data. */
export type GrantsFound =
  | { readonly ids: readonly string[] }
  | { readonly problem: string };

export interface PageContent {
  readonly summary: AuditSummary;
  /** Null for the whole log. */
  readonly since: Timestamp | null;
  readonly made: Timestamp;
  /** Why the log is not whole; null where it is. */
  readonly failure: ChainFailure | null;
  readonly grants: GrantsFound;
}

const STYLE = `
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0;
  border-bottom: 1px solid #8886; overflow-wrap: anywhere; }
th { font-weight: 600; white-space: nowrap; }
td.data { font-family: ui-monospace, monospace; min-width: 7rem; }
td.fixed { white-space: nowrap; overflow-wrap: normal; font-variant-numeric: tabular-nums; }
summary { cursor: pointer; padding: .3rem 0; overflow-wrap: anywhere; }
.warning { border-left: .3rem solid #c33; padding: .5rem 1rem; background: #c332; }
.denied, .failed { color: #c33; }
.pending, .unfinished { color: #a60; }
.rise { font-weight: 600; color: #a60; }
`;

/** Nothing may be loaded, sent, framed or run; the one style is named by its hash. */
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`,
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** `text` for the content of an element or for an attribute in quotes. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}

/** The page, piece by piece. */
export function* reportPage(content: PageContent): Generator<string> {
  const { summary, since, made, failure } = content;
  const period = since === null ? "the whole log" : `calls since ${since}`;
  yield `<!DOCTYPE html>
<html lang="en" dir="ltr">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${escapeHtml(POLICY)}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width">
<title>Boxmaker: what happened</title>
<style>${STYLE}</style>
</head>
<body>
<h1>What happened</h1>
<p>Made ${made} from the audit log: ${period}. ${plural(summary.calls, "call")} in ${
    plural(summary.sessions.size, "session")
  }. All times are UTC.</p>
`;
  if (failure !== null) yield warning(failure);
  yield* rises(summary);
  yield* denials(summary);
  yield* approvals(summary);
  yield* grants(content);
  yield* timelines(summary);
  yield "</body>\n</html>\n";
}

function warning({ file, line, what }: ChainFailure): string {
  const place = escapeHtml(display(`${file}:${line}: ${what}`));
  return `<p class="warning"><strong>The audit log is not whole.</strong> ${place}. What this page says ` +
    `may not be what happened; see docs/runbook.md#audit-chain-broken.</p>\n`;
}

function* rises({ rises, riseCount }: AuditSummary): Generator<string> {
  yield "<h2>Where taint rose</h2>\n";
  if (riseCount === 0) {
    yield "<p>Nowhere.</p>\n";
    return;
  }
  if (riseCount > rises.length) yield note(riseCount - rises.length, "earlier rise");
  yield* table(
    ["Call", "Time", "Session", "Taint", "Tool", "What for"],
    rises.map(({ call, from, to }) => [
      ...[fixed(String(call.seq)), fixed(call.time), cell(call.session)],
      `<td class="fixed rise">${from} to ${to}</td>`,
      ...[data(call.tool), data(call.what)],
    ]),
  );
}

function* denials({ denials }: AuditSummary): Generator<string> {
  yield "<h2>Denials by reason</h2>\n";
  if (denials.size === 0) yield "<p>None.</p>\n";
  else {yield* table(
      ["Reason", "Calls"],
      mostFirst(denials).map(([name, n]) => [cell(name), number(n)]),
    );}
}

function* approvals({ waits }: AuditSummary): Generator<string> {
  yield "<h2>Approvals and how long they took</h2>\n";
  if (waits.size === 0) {
    yield "<p>No call was answered.</p>\n";
    return;
  }
  yield* table(
    ["Answer", "Calls", "Shortest", "Mean", "Longest"],
    [...waits].map(([answer, { count, total, shortest, longest }]) => [
      ...[cell(answer), number(count)],
      ...[shortest, total / count, longest].map((ms) => fixed(duration(ms))),
    ]),
  );
}

function* grants({ summary, grants }: PageContent): Generator<string> {
  yield "<h2>Grants</h2>\n";
  if ("problem" in grants) {
    yield `<p class="warning">Which grants were never used is not known: ${
      escapeHtml(grants.problem)
    }.</p>\n`;
  } else {
    const unused = grants.ids.filter((id) => !summary.grants.has(id));
    yield "<h3>Never used</h3>\n";
    if (grants.ids.length === 0) yield "<p>No grant is in the directory.</p>\n";
    else if (unused.length === 0) {
      yield "<p>None: every grant in the directory decided some call.</p>\n";
    } else yield `<ul>\n${unused.map((id) => `<li>${escapeHtml(id)}</li>\n`).join("")}</ul>\n`;
  }
  if (summary.grants.size === 0) return;
  yield "<h3>Used</h3>\n";
  const isGone = (id: string) => "ids" in grants && !grants.ids.includes(id);
  yield* table(
    ["Grant", "Calls", ""],
    mostFirst(summary.grants).map(([id, n]) => [
      ...[data(id), number(n), cell(isGone(id) ? "not in the directory any more" : "")],
    ]),
  );
}

function* timelines(summary: AuditSummary): Generator<string> {
  yield "<h2>Sessions</h2>\n";
  const latestFirst = [...summary.sessions.values()].reverse();
  for (const session of latestFirst.slice(0, SESSIONS_ON_PAGE)) yield* timeline(session, summary);
  const more = latestFirst.length - SESSIONS_ON_PAGE;
  if (more > 0) yield note(more, "more session");
}

function* timeline(session: SessionSummary, summary: AuditSummary): Generator<string> {
  const { calls, first, last, outcomes, taint } = session;
  const id = escapeHtml(display(session.session));
  const counts = CALL_OUTCOMES.filter((name) => outcomes.has(name))
    .map((name) => `${outcomes.get(name)} ${name}`);
  yield `<details>\n<summary><strong>${id}</strong>: ${plural(calls, "call")} (${
    counts.join(", ")
  }), ` +
    `${first} to ${last}, taint ${taint}</summary>\n`;
  const recent = summary.recent(session.session);
  const earlier = calls - recent.length;
  if (earlier > 0) yield note(earlier, "earlier call", ` --session ${id}`);
  if (recent.length > 0) {
    const names = ["Call", "Time", "Tool", "What for", "Outcome", "Approval", "Taint"];
    yield* table(names, recent.map(callRow));
  }
  yield "</details>\n";
}

function callRow(call: Call): string[] {
  const { outcome, reason } = outcomeOf(call);
  const { taint, untrusted, result } = call;
  const wait = waitOf(call);
  const answer = wait === null ? answerOf(call) : `${answerOf(call)} after ${duration(wait)}`;
  const state = untrusted ? `${taint}, untrusted` : taint;
  const rose = result !== null && result.taint !== taint;
  return [
    ...[fixed(String(call.seq)), fixed(call.time), data(call.tool), data(call.what)],
    `<td class="${outcome}">${reason === null ? outcome : `${outcome}: ${reason}`}</td>`,
    cell(answer),
    rose ? `<td class="rise">${state} to ${result.taint}</td>` : cell(state),
  ];
}

function* table(
  names: readonly string[],
  rows: readonly (readonly string[])[],
): Generator<string> {
  yield `<table>\n<tr>${names.map((name) => `<th>${name}</th>`).join("")}</tr>\n`;
  for (const cells of rows) yield `<tr>${cells.join("")}</tr>\n`;
  yield "</table>\n";
}

const cell = (text: string) => `<td>${escapeHtml(text)}</td>`;
const data = (text: string) => `<td class="data">${escapeHtml(text)}</td>`;
const fixed = (text: string) => `<td class="fixed">${escapeHtml(text)}</td>`;
const number = (value: number) => fixed(String(value));

/** That `count` of something are left out, and where they are. `filter` has been escaped. */
function note(count: number, what: string, filter = ""): string {
  return `<p>${plural(count, what)} not shown here: see bxctl audit log${filter}.</p>\n`;
}

function plural(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}

function mostFirst<K extends string>(counts: ReadonlyMap<K, number>): [K, number][] {
  return [...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
}
