/**
 * What brokerd left behind, held against what its clients saw. Written from the specification alone
 * (specification 4, 5 and 6; contracts 2 to 5); nothing here is the programs'.
 */
import { createHash } from "node:crypto";
import { type LogRecord, readLog } from "./log_reader.ts";
import {
  keyOf,
  mayRun,
  neverBegan,
  object,
  outcomeOf,
  reasonOf,
  type Story,
  tell,
} from "./log_stories.ts";
import { checkTaint, readStates } from "./taint.ts";

/** One client's call, as the client saw it. */
export interface CallSeen {
  readonly session: string;
  readonly call: string;
  readonly tool: string;
  readonly arguments: string;
  /** The frames that came back, in order, as plain JSON. The connection may have ended after any of them. */
  readonly answers: readonly unknown[];
}

/** One request of the owner. */
export interface OwnerSeen {
  readonly kind: "approve" | "refuse";
  readonly approval: number;
  /** Null: the connection ended without. */
  readonly answer: unknown;
}

/** One run of a tool, from the runtime's own journal. */
export interface RunSeen {
  readonly tool: string;
  readonly arguments: string;
}

export interface State {
  readonly taint: string;
  readonly untrusted: boolean;
}

export interface Evidence {
  /** The audit directory, and the one of the sessions' states. */
  readonly audit: string;
  readonly sessions: string;
  /** No two calls have the same session and id, nor the same arguments. */
  readonly calls: readonly CallSeen[];
  readonly owner: readonly OwnerSeen[];
  readonly runs: readonly RunSeen[];
  /** The states at the last look: they can only have risen. */
  readonly before: ReadonlyMap<string, State>;
  /** Whether brokerd may have been stopped in the middle of a write. */
  readonly mayBeTorn: boolean;
}

export interface Finding {
  /** Of the log itself, an answer without its record, a run without its decision, a taint. */
  readonly kind: "log" | "unrecorded" | "ran" | "taint";
  readonly what: string;
}

export interface Checked {
  readonly findings: readonly Finding[];
  readonly records: number;
  readonly states: ReadonlyMap<string, State>;
  /** How many calls came to which last answer. */
  readonly counts: Readonly<Record<string, number>>;
}

/** Answers that say that something could not be recorded or was one too many (specification 5; contracts 4). */
const NOT_RECORDED = "the result could not be recorded";
const TOO_MANY = "too many approvals are pending";

type Body = Readonly<Record<string, unknown>>;

const bodyOf = (answer: unknown): Body => object(object(answer).body);
const wordsOf = (body: Body) =>
  [body.status ?? body.code, body.reason ?? body.message].filter((word) => word !== undefined)
    .join(" ");

export function check(evidence: Evidence): Checked {
  const findings: Finding[] = [];
  const find = (kind: Finding["kind"]) => (what: string) => void findings.push({ kind, what });
  const { records, problems } = readLog(evidence.audit, evidence.mayBeTorn);
  problems.forEach(find("log"));
  const stories = tell(records, find("log"));
  checkMakers(evidence, stories, find("log"));
  const byCall = new Map([...stories.values()].map((story) => [keyOf(story.decision), story]));
  const counts: Record<string, number> = {};
  for (const call of evidence.calls) {
    const story = byCall.get(`${call.session} ${call.call}`);
    const told = [
      orderProblem(call),
      ...call.answers.map((one) => answerProblem(call, one, story)),
    ];
    for (const problem of told) {
      if (problem !== null) find("unrecorded")(`${placed(story)}call ${call.call}: ${problem}`);
    }
    const last = call.answers.at(-1);
    const words = last === undefined ? "no answer" : wordsOf(bodyOf(last)).replace(/\/\S*$/, "…");
    counts[words] = (counts[words] ?? 0) + 1;
  }
  for (const request of evidence.owner) {
    const story = stories.get(request.approval);
    const problem = ownerProblem(request, story);
    if (problem === null) continue;
    find("unrecorded")(`${placed(story)}approval ${request.approval}: ${problem}`);
  }
  checkRuns(evidence, [...stories.values()], find("ran"));
  const states = readStates(evidence.sessions, find("taint"));
  checkTaint(evidence, records, states, find("taint"));
  return { findings, records: records.length, states, counts };
}

/** The place of the decision, for the beginning of a finding. */
const placed = (story: Story | undefined) => story === undefined ? "" : `${story.at}: `;

/** Every decision is of a call that a client made, every answer of the owner one that the owner gave. */
function checkMakers(
  { calls, owner }: Evidence,
  stories: ReadonlyMap<number, Story>,
  find: (what: string) => void,
): void {
  const made = new Map(calls.map((call) => [`${call.session} ${call.call}`, call]));
  for (const { at, seq, decision, approval } of stories.values()) {
    const call = made.get(keyOf(decision));
    if (call === undefined) find(`${at}: nobody made this call`);
    else if (decision.tool !== call.tool || decision.arguments !== call.arguments) {
      find(`${at}: has another tool or other arguments than its call`);
    }
    const kind = { approved: "approve", refused: "refuse" }[String(approval?.event.answer)];
    if (kind === undefined) continue;
    const asked = owner.some((request) => request.kind === kind && request.approval === seq);
    if (!asked) find(`${approval?.at}: the owner was never asked to ${kind} ${seq}`);
  }
}

/** What is wrong with the frames of a call as frames, or null (contracts 2; specification 6). */
function orderProblem({ answers }: CallSeen): string | null {
  for (const [at, answer] of answers.entries()) {
    const { v, kind, final } = object(answer);
    const waits = bodyOf(answer).status === "pending_approval";
    const isAnswer = v === 1 && (kind === "tool_response" || kind === "error");
    const inPlace = waits ? at === 0 : at === answers.length - 1;
    if (!isAnswer || final === waits || typeof final !== "boolean" || !inPlace) {
      return `answer ${at + 1} of ${answers.length} is out of place: ${JSON.stringify(answer)}`;
    }
  }
  return null;
}

/** Why `answer` is not in the log, or null. */
function answerProblem(call: CallSeen, answer: unknown, story: Story | undefined): string | null {
  const body = bodyOf(answer);
  const words = wordsOf(body);
  if (object(answer).kind === "error") {
    // A request that was not complete in time is no call yet. Nothing else is wrong with those made here.
    return body.code === "timeout" && story === undefined ? null : `told ${words}`;
  }
  if (words === "denied audit_unavailable") {
    return story?.result ? `told ${words}, and ${story.result.at} is its result` : null;
  }
  if (story === undefined) return `told ${words}, and there is no decision`;
  const { decision, approval, result } = story;
  if (decision.tool !== call.tool || decision.arguments !== call.arguments) {
    return "has another tool or other arguments";
  }
  switch (body.status) {
    case "pending_approval":
      return outcomeOf(decision) === "ask" && body.approval === story.seq
        ? null
        : `told to wait for ${body.approval}, and record ${story.seq} says ${outcomeOf(decision)}`;
    case "denied": {
      const event = approval?.event ?? decision;
      return reasonOf(event) === body.reason
        ? null
        : `told ${words}, and the log says ${JSON.stringify(event.outcome)}`;
    }
    case "failed":
      if (body.message === NOT_RECORDED) {
        return mayRun(story) ? null : `told ${words}, and nothing let it run`;
      }
      if (body.message === TOO_MANY) {
        const waited = outcomeOf(decision) === "ask" && approval === null && result === null;
        return waited ? null : `told ${words}, and more than its ask is recorded`;
      }
      return contentProblem(body, result);
    case "result":
      return contentProblem(body, result);
    default:
      return `told ${JSON.stringify(answer)}`;
  }
}

function contentProblem(body: Body, result: LogRecord | null): string | null {
  if (result === null) return `told ${wordsOf(body)}, and no result is recorded`;
  const { at, event } = result;
  const content = new TextEncoder().encode(String(body.content ?? body.message));
  const same = event.status === body.status && event.bytes === content.length &&
    event.sha256 === createHash("sha256").update(content).digest("hex") &&
    (body.status === "failed" ||
      event.class === body.class && event.untrusted === body.untrusted &&
        event.truncated === body.truncated);
  return same ? null : `the result that ${at} has is another: ${JSON.stringify(event)}`;
}

/** Why what the owner was told is not in the log, or null. */
function ownerProblem(request: OwnerSeen, story: Story | undefined): string | null {
  if (request.answer === null) return null;
  const { kind } = object(request.answer);
  const { code, outcome } = bodyOf(request.answer);
  const approves = request.kind === "approve";
  if (kind === "error") {
    const known = code === "no_such_approval" || code === "audit_unavailable";
    return known ? null : `told error ${code}`;
  }
  if (kind !== (approves ? "approve_result" : "ok")) return `${request.kind} was told ${kind}`;
  const told = JSON.stringify(outcome);
  if (told === '{"outcome":"denied","reason":"audit_unavailable"}') return null;
  const recorded = story?.approval?.event;
  if (recorded === undefined) return `${request.kind} was answered, and not recorded`;
  if (recorded.answer !== (approves ? "approved" : "refused")) {
    return `${request.kind} was answered, and ${recorded.answer} recorded`;
  }
  return !approves || told === JSON.stringify(recorded.outcome)
    ? null
    : `told ${told}, and another outcome is recorded`;
}

/** Every run has the records that let it, and no call ran twice. */
function checkRuns(
  { runs, calls }: Evidence,
  stories: readonly Story[],
  find: (what: string) => void,
): void {
  const made = new Map(calls.map((call) => [call.arguments, call]));
  const decided = new Map(stories.map((story) => [String(story.decision.arguments), story]));
  const seen = new Set<string>();
  for (const { tool, arguments: args } of runs) {
    const story = decided.get(args);
    const ran = `${placed(story)}${tool} ${args} ran`;
    const call = made.get(args);
    if (call === undefined) find(`${ran}, and nobody called it`);
    if (story === undefined || story.decision.tool !== tool || !mayRun(story)) {
      find(`${ran}, and no record lets it`);
    }
    // Whoever was told so may count on it, even where the record came to be on disk (contracts 5.10).
    if (bodyOf(call?.answers.at(-1)).status === "denied") find(`${ran}, and its client was denied`);
    if (seen.has(args)) find(`${ran} twice`);
    seen.add(args);
  }
  for (const { result, decision } of stories) {
    if (result === null || neverBegan(result.event) || seen.has(String(decision.arguments))) {
      continue;
    }
    find(`${result.at}: is a result, and nothing ran`);
  }
}
