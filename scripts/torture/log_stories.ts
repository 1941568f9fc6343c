/**
 * The records of the log by the call that they tell of, and whether they can stand together (specification
 * 5 and 6; contracts 3 to 5). Written from the specification alone; nothing here is the programs'.
 */
import type { LogRecord } from "./log_reader.ts";

/** What the log holds of one decision. */
export interface Story {
  readonly at: string;
  readonly seq: number;
  readonly decision: LogRecord["event"];
  approval: LogRecord | null;
  result: LogRecord | null;
}

/** `value` for a look at its fields; none where it is no object. */
export const object = (value: unknown) => (value ?? {}) as Readonly<Record<string, unknown>>;

/** `session call` of a record. */
export const keyOf = ({ session, call }: LogRecord["event"]) => `${session} ${call}`;

/** The word of the outcome of a decision or an approval. */
export const outcomeOf = (event: LogRecord["event"]) => String(object(event.outcome).outcome);
/** Why it was denied; undefined where it was not. */
export const reasonOf = (event: LogRecord["event"]) => object(event.outcome).reason;

/** The decisions by number, each with its approval and its result. */
export function tell(
  records: readonly LogRecord[],
  find: (what: string) => void,
): Map<number, Story> {
  const stories = new Map<number, Story>();
  const calls = new Set<string>();
  for (const record of records) {
    const { at, seq, event } = record;
    const nonsense = nonsenseIn(event);
    if (nonsense !== null) find(`${at}: ${nonsense}`);
    if (event.type === "decision") {
      if (calls.has(keyOf(event))) find(`${at}: a second decision of call ${keyOf(event)}`);
      calls.add(keyOf(event));
      stories.set(seq, { at, seq, decision: event, approval: null, result: null });
      continue;
    }
    if (event.type !== "approval" && event.type !== "result") continue;
    const story = stories.get(Number(event.decision));
    if (story === undefined || keyOf(story.decision) !== keyOf(event)) {
      find(`${at}: belongs to no decision of its call`);
    } else if (event.type === "approval") {
      if (outcomeOf(story.decision) !== "ask") find(`${at}: nobody was asked`);
      if (story.approval !== null || story.result !== null) find(`${at}: comes too late`);
      story.approval ??= record;
    } else {
      if (!mayRun(story)) find(`${at}: a result of a call that was not let run`);
      if (story.result !== null) find(`${at}: a second result`);
      story.result ??= record;
    }
  }
  return stories;
}

/** Whether the records let the call run: allowed, or asked and approved. */
export function mayRun({ decision, approval }: Story): boolean {
  if (outcomeOf(decision) === "allowed") return true;
  return approval?.event.answer === "approved" &&
    ["ask", "allowed"].includes(outcomeOf(approval.event));
}

/** Whether the run that `result` tells of never began: `Unavailable` leaves no mark on the session (contracts 3). */
export function neverBegan(result: LogRecord["event"]): boolean {
  return result.status === "failed" && result.class === "public" && result.untrusted === false;
}

/** What can only come from an approval, or is never written since nothing can be. */
const NO_DECISION: readonly unknown[] = [
  ...["approval_refused", "approval_expired", "audit_unavailable"],
];

/** Why the fields of `event` cannot stand together, or null. */
function nonsenseIn(event: LogRecord["event"]): string | null {
  const reason = reasonOf(event);
  if (event.type === "decision") {
    const { grant, grant_sha256: hash } = event;
    if (NO_DECISION.includes(reason)) return `no decision can be ${reason}`;
    if ((grant === null) !== (hash === null)) return "has a grant or its hash, and not both";
    const matched = reason === undefined || reason === "denied_by_grant";
    if (matched && grant === null) return "names no grant, and one must have matched";
    return !matched && grant !== null ? "names a grant, and none matched" : null;
  }
  if (event.type !== "approval") return null;
  const { answer } = event;
  const fits = answer === "approved" ? !NO_DECISION.includes(reason) : reason ===
    (answer === "refused" ? "approval_refused" : "approval_expired");
  if (!fits) return `was ${answer}, and its outcome is ${JSON.stringify(event.outcome)}`;
  if ((answer === "expired") !== (event.by === null)) return `was ${answer} by ${event.by}`;
  return event.reason !== null && answer !== "refused" ? `was ${answer} for a reason` : null;
}
