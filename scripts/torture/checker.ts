/**
 * What brokerd left behind, held against what its clients saw. Written from the specification alone
 * (specification 4, 5 and 6; contracts 2 to 5); nothing here is the programs'.
 */
import { createHash } from "node:crypto";
import { type LogRecord, namesIn, readLog } from "./log_reader.ts";

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

type Event = LogRecord["event"];

/** What the log holds of one decision. */
interface Story {
  readonly at: string;
  readonly seq: number;
  readonly decision: Event;
  approval: Event | null;
  result: Event | null;
}

const CLASSES = ["public", "private", "secret"];
const height = (name: unknown) => CLASSES.indexOf(String(name));

/** Answers that no record stands behind (specification 5; contracts 4). */
const UNRECORDED = [
  "denied audit_unavailable",
  "failed the result could not be recorded",
  "failed too many approvals are pending",
];

const object = (value: unknown) => (value ?? {}) as Readonly<Record<string, unknown>>;
const bodyOf = (answer: unknown) => object(object(answer).body);
const wordsOf = (body: Readonly<Record<string, unknown>>) =>
  [body.status ?? body.code, body.reason ?? body.message].filter((word) => word !== undefined)
    .join(" ");

export function check(evidence: Evidence): Checked {
  const findings: Finding[] = [];
  const find = (kind: Finding["kind"], what: string) => void findings.push({ kind, what });
  const { records, problems } = readLog(evidence.audit, evidence.mayBeTorn);
  for (const problem of problems) find("log", problem);
  const stories = tell(records, (what) => find("log", what));
  const byCall = new Map<string, Story>();
  for (const story of stories.values()) {
    const key = `${story.decision.session} ${story.decision.call}`;
    if (byCall.has(key)) find("log", `${story.at}: a second decision of call ${key}`);
    byCall.set(key, story);
  }
  const counts: Record<string, number> = {};
  for (const call of evidence.calls) {
    const story = byCall.get(`${call.session} ${call.call}`);
    for (const answer of call.answers) {
      const problem = answerProblem(call, answer, story);
      if (problem !== null) find("unrecorded", `call ${call.call}: ${problem}`);
    }
    const last = call.answers.at(-1);
    const words = last === undefined ? "no answer" : wordsOf(bodyOf(last)).replace(/\/\S*$/, "…");
    counts[words] = (counts[words] ?? 0) + 1;
  }
  for (const request of evidence.owner) {
    const problem = ownerProblem(request, stories.get(request.approval));
    if (problem !== null) find("unrecorded", `approval ${request.approval}: ${problem}`);
  }
  checkRuns(evidence, [...stories.values()], (what) => find("ran", what));
  const states = readStates(evidence.sessions, (what) => find("taint", what));
  checkTaint(evidence, records, states, (what) => find("taint", what));
  return { findings, records: records.length, states, counts };
}

/** The decisions by number, each with its approval and its result. */
function tell(records: readonly LogRecord[], find: (what: string) => void): Map<number, Story> {
  const stories = new Map<number, Story>();
  for (const { at, seq, event } of records) {
    if (event.type === "decision") {
      stories.set(seq, { at, seq, decision: event, approval: null, result: null });
      continue;
    }
    if (event.type !== "approval" && event.type !== "result") continue;
    const story = stories.get(Number(event.decision));
    const of = story?.decision;
    if (story === undefined || of?.session !== event.session || of?.call !== event.call) {
      find(`${at}: belongs to no decision of its call`);
    } else if (event.type === "approval") {
      if (outcomeOf(story.decision) !== "ask") find(`${at}: nobody was asked`);
      if (story.approval !== null || story.result !== null) find(`${at}: comes too late`);
      story.approval = event;
    } else {
      if (!mayRun(story)) find(`${at}: a result of a call that was not let run`);
      if (story.result !== null) find(`${at}: a second result`);
      story.result = event;
    }
  }
  return stories;
}

const outcomeOf = (event: Event) => String(object(event.outcome).outcome);

/** Whether the records let the call run: allowed, or asked and approved. */
function mayRun({ decision, approval }: Story): boolean {
  if (outcomeOf(decision) === "allowed") return true;
  return approval?.answer === "approved" && ["ask", "allowed"].includes(outcomeOf(approval));
}

/** Why `answer` is not in the log, or null. */
function answerProblem(call: CallSeen, answer: unknown, story: Story | undefined): string | null {
  const body = bodyOf(answer);
  const words = wordsOf(body);
  if (object(answer).kind === "error" || UNRECORDED.includes(words)) return null;
  if (story === undefined) return `told ${words}, and there is no decision`;
  const { decision, approval, result } = story;
  if (decision.tool !== call.tool || decision.arguments !== call.arguments) {
    return `${story.at}: has another tool or other arguments`;
  }
  switch (body.status) {
    case "pending_approval":
      return outcomeOf(decision) === "ask" && body.approval === story.seq
        ? null
        : `told to wait for ${body.approval}, and ${story.at} says ${outcomeOf(decision)}`;
    case "denied": {
      const { outcome } = approval ?? decision;
      return object(outcome).reason === body.reason
        ? null
        : `told ${words}, and the log says ${JSON.stringify(outcome)}`;
    }
    case "result":
    case "failed":
      return result === null
        ? `told ${words}, and no result is recorded`
        : contentProblem(body, result);
    default:
      return `told ${JSON.stringify(answer)}`;
  }
}

function contentProblem(body: Readonly<Record<string, unknown>>, result: Event): string | null {
  const content = new TextEncoder().encode(String(body.content ?? body.message));
  const same = result.status === body.status && result.bytes === content.length &&
    result.sha256 === createHash("sha256").update(content).digest("hex") &&
    (body.status === "failed" ||
      result.class === body.class && result.untrusted === body.untrusted &&
        result.truncated === body.truncated);
  return same ? null : `the result that is recorded is another: ${JSON.stringify(result)}`;
}

/** Why what the owner was told is not in the log, or null. */
function ownerProblem({ kind, answer }: OwnerSeen, story: Story | undefined): string | null {
  if (answer === null || object(answer).kind === "error") return null;
  const { approval } = story ?? {};
  const outcome = bodyOf(answer).outcome;
  if (JSON.stringify(outcome) === '{"outcome":"denied","reason":"audit_unavailable"}') return null;
  if (approval === undefined || approval === null) return `${kind} was answered, and not recorded`;
  const wanted = kind === "approve" ? "approved" : "refused";
  if (approval.answer !== wanted) return `${kind} was answered, and ${approval.answer} recorded`;
  if (kind === "refuse") return null;
  return JSON.stringify(outcome) === JSON.stringify(approval.outcome)
    ? null
    : `told ${JSON.stringify(outcome)}, and another outcome is recorded`;
}

/** Every run has the records that let it, and no call ran twice. */
function checkRuns(
  { runs }: Evidence,
  stories: readonly Story[],
  find: (what: string) => void,
): void {
  const seen = new Set<string>();
  for (const run of runs) {
    const story = stories.find(({ decision }) => decision.arguments === run.arguments);
    if (story === undefined || story.decision.tool !== run.tool || !mayRun(story)) {
      find(`${run.tool} ${run.arguments} ran, and no record lets it`);
    }
    if (seen.has(run.arguments)) find(`${run.tool} ${run.arguments} ran twice`);
    seen.add(run.arguments);
  }
  for (const { at, result, decision } of stories) {
    if (result !== null && !seen.has(String(decision.arguments))) {
      find(`${at}: has a result, and nothing ran`);
    }
  }
}

function readStates(directory: string, find: (what: string) => void): Map<string, State> {
  const states = new Map<string, State>();
  for (const name of namesIn(directory)) {
    const [, session] = /^(.*)\.json$/.exec(name) ?? [];
    if (session === undefined) continue;
    const text = Deno.readTextFileSync(`${directory}/${name}`);
    const [, taint, untrusted] =
      /^\{"taint":"(private|secret)","untrusted":(true|false)\}$/.exec(text) ?? [];
    if (taint === undefined) find(`${name}: is no state that a session can be in: ${text}`);
    else states.set(session, { taint, untrusted: untrusted === "true" });
  }
  return states;
}

/** Nothing was lowered, and nothing was given out whose taint is not on disk. */
function checkTaint(
  { before, calls }: Evidence,
  records: readonly LogRecord[],
  states: ReadonlyMap<string, State>,
  find: (what: string) => void,
): void {
  const reached = new Map<string, State>();
  const rise = (session: string, taint: unknown, untrusted: unknown) => {
    const { taint: old = "public", untrusted: was = false } = reached.get(session) ?? {};
    const higher = height(taint) > height(old) ? String(taint) : old;
    reached.set(session, { taint: higher, untrusted: was || untrusted === true });
  };
  for (const { at, event } of records) {
    const session = String(event.session);
    const { taint = "public", untrusted = false } = reached.get(session) ?? {};
    if (event.type === "decision") {
      // An unreadable state stands as the highest, and lasts only as long as it cannot be read.
      if (object(event.outcome).reason === "state_unreadable") continue;
      const lower = height(event.taint) < height(taint) || untrusted && event.untrusted !== true;
      if (lower) find(`${at}: was decided on less than the session had seen`);
    }
    if (event.type === "result") {
      if (height(event.taint_after) < height(taint)) find(`${at}: the taint went down`);
      if (height(event.taint_after) < height(event.class)) find(`${at}: the taint did not rise`);
      rise(session, event.taint_after, event.untrusted);
    }
  }
  for (const { session, answers } of calls) {
    const body = bodyOf(answers.at(-1));
    if (body.status === "result") rise(session, body.class, body.untrusted);
  }
  for (const [session, { taint, untrusted }] of before) rise(session, taint, untrusted);
  for (const [session, { taint, untrusted }] of reached) {
    const state = states.get(session);
    if (state === undefined) find(`${session}: has seen content, and has no state on disk`);
    else if (height(state.taint) < height(taint) || untrusted && !state.untrusted) {
      find(`${session}: has seen ${taint}, ${untrusted}, and on disk is ${JSON.stringify(state)}`);
    }
  }
}
