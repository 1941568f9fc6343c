/**
 * The calls of a log: what a decision, its approval and its result say together (specification 5,
 * "Records"). Takes records as they come, verified or not. Holds the calls that have not ended, each in a
 * few kilobytes, and nothing else. Pure.
 */
import type { ApprovalAnswer, AuditRecord, ResultStatus } from "../proto/audit.ts";
import { type DecisionRecord, DENY_REASONS, type DenyReason } from "../proto/decisions.ts";
import { display } from "../proto/escape.ts";
import type { Timestamp } from "../proto/ids.ts";
import { hasMoreMarks, parseStrict } from "../proto/json.ts";
import { assertNever } from "../proto/text.ts";
import { type DataClass, TOOL_ARGUMENTS, ToolName } from "../proto/tools.ts";
import { shortened } from "./block.ts";

/**
 * How a call came out. `pending`: no answer to its question is in the log, since it waits or a restart
 * lost it. `unfinished`: it may run, and its result is not in the log, since it runs or was cut off.
 */
export const CALL_OUTCOMES = ["result", "failed", "denied", "pending", "unfinished"] as const;
export type CallOutcome = (typeof CALL_OUTCOMES)[number];

/** What a list can be limited to: an outcome, or the reason of a denial. */
export const OUTCOME_WORDS = [...CALL_OUTCOMES, ...DENY_REASONS] as const;
export type OutcomeWord = (typeof OUTCOME_WORDS)[number];

/** One call. Its texts are as they are shown: escaped, and long ones without their middle. */
export interface Call {
  /** `seq` and time of the decision. */
  readonly seq: number;
  readonly time: Timestamp;
  readonly session: string;
  readonly call: string;
  readonly tool: string;
  /** The path, the command or the URL, in quotes as in JSON; for anything else the arguments as they came. */
  readonly what: string;
  readonly decided: DecisionRecord;
  readonly grant: string | null;
  /** The session's state when decided. */
  readonly taint: DataClass;
  readonly untrusted: boolean;
  readonly approval: Approval | null;
  readonly result: Result | null;
}

export interface Approval {
  readonly time: Timestamp;
  readonly answer: ApprovalAnswer;
  /** Who answered; null for an expiry. */
  readonly by: string | null;
  /** The decision after the answer. */
  readonly outcome: DecisionRecord;
}

export interface Result {
  readonly time: Timestamp;
  readonly status: ResultStatus;
  /** The session's taint after it. */
  readonly taint: DataClass;
}

/** Which calls are meant; null means all. */
export interface CallFilter {
  readonly session: string | null;
  readonly tool: string | null;
  readonly outcome: OutcomeWord | null;
  /** Calls that were decided then or later. */
  readonly since: Timestamp | null;
}

/** Puts records together to calls. */
export class CallBook {
  readonly #open = new Map<number, Call>();

  /** The calls that end with `record`, the next one of the log. */
  take({ seq, time, event }: AuditRecord): Call[] {
    switch (event.type) {
      case "decision": {
        const ended: Call[] = [];
        // In a log that is not whole a number may stand twice: both calls are shown.
        const before = this.#open.get(seq);
        if (before !== undefined) ended.push(before);
        this.#open.delete(seq);
        const { session, call, outcome: decided, taint, untrusted } = event;
        const tool = shownText(event.tool, seq);
        const grant = event.grant === null ? null : shownText(event.grant, seq);
        const what = shownArguments(event.tool, event.arguments, seq);
        const state = { taint, untrusted, approval: null, result: null };
        return [
          ...ended,
          ...this.#put({ seq, time, session, call, tool, what, decided, grant, ...state }),
        ];
      }
      case "approval": {
        const call = this.#open.get(event.decision);
        if (call === undefined) return [];
        const { answer, outcome } = event;
        const by = event.by === null ? null : shownText(event.by, event.decision);
        return this.#put({ ...call, approval: { time, answer, by, outcome } });
      }
      case "result": {
        const call = this.#open.get(event.decision);
        if (call === undefined) return [];
        return this.#put({
          ...call,
          result: { time, status: event.status, taint: event.taint_after },
        });
      }
      case "recovery":
      case "accepted_break":
        return [];
      default:
        return assertNever(event);
    }
  }

  /** The calls that have not ended, in order. */
  open(): Call[] {
    return [...this.#open.values()].sort((a, b) => a.seq - b.seq);
  }

  /** Keeps `call` while it has not ended; else gives it. */
  #put(call: Call): Call[] {
    const { outcome } = outcomeOf(call);
    if (outcome === "pending" || outcome === "unfinished") {
      this.#open.set(call.seq, call);
      return [];
    }
    this.#open.delete(call.seq);
    return [call];
  }
}

/** How `call` came out, with the reason of a denial. */
export function outcomeOf(
  { decided, approval, result }: Call,
): { readonly outcome: CallOutcome; readonly reason: DenyReason | null } {
  if (result !== null) return { outcome: result.status, reason: null };
  const decision = approval?.outcome ?? decided;
  if (decision.outcome === "denied") return { outcome: "denied", reason: decision.reason };
  const waits = decision.outcome === "ask" && approval === null;
  return { outcome: waits ? "pending" : "unfinished", reason: null };
}

/** Whether `filter` means `call`. */
export function matches(call: Call, { session, tool, outcome, since }: CallFilter): boolean {
  const came = outcomeOf(call);
  return (session === null || call.session === session) &&
    (tool === null || call.tool === shownText(tool, call.seq)) &&
    (outcome === null || outcome === came.outcome || outcome === came.reason) &&
    (since === null || call.time >= since);
}

/** Text of the log on one line; `seq` is where its whole stands. */
function shownText(text: string, seq: number): string {
  return shortened(text, `bxctl audit show ${seq}`);
}

/** More bytes and more brackets and commas than any tool's arguments have are not looked through. */
const MAX_ARGUMENT_BYTES = 1024 * 1024;
const MAX_MARKS = 16;

function shownArguments(tool: string, args: string, seq: number): string {
  const purpose = purposeOf(tool, args);
  // In quotes, so that where it ends can be seen and a backslash is no escape.
  return shownText(purpose === null ? args : JSON.stringify(purpose), seq);
}

/** The argument that says what a call is for; null where the arguments are not those of one of the tools. */
function purposeOf(name: string, args: string): string | null {
  const tool = ToolName.safeParse(name).data;
  if (tool === undefined || args.length > MAX_ARGUMENT_BYTES) return null;
  if (hasMoreMarks(args, MAX_MARKS)) return null;
  const value = parseStrict(args);
  switch (tool) {
    case "read_file":
    case "write_file":
      return TOOL_ARGUMENTS[tool].safeParse(value).data?.path ?? null;
    case "shell":
      return TOOL_ARGUMENTS[tool].safeParse(value).data?.command ?? null;
    case "http_fetch":
      return TOOL_ARGUMENTS[tool].safeParse(value).data?.url ?? null;
    default:
      return assertNever(tool);
  }
}

/** `call` on one line, without its newline. What a model wrote stands last, where it can forge nothing. */
export function callLine(call: Call): string {
  const { outcome, reason } = outcomeOf(call);
  const { seq, time, session, tool, what, taint, result } = call;
  const after = result === null || result.taint === taint ? "" : ` -> ${result.taint}`;
  return [
    String(seq),
    time,
    `session ${display(session)}`,
    reason === null ? outcome : `${outcome} ${reason}`,
    answerOf(call),
    `taint ${taint}${after}`,
    `${tool} ${what}`,
  ].join("  ");
}

/** Who answered, and what: `approved by bxctl`, `expired`, `not asked`; `no answer` where none is known. */
export function answerOf({ decided, approval }: Call): string {
  if (approval === null) return decided.outcome === "ask" ? "no answer" : "not asked";
  const { answer, by } = approval;
  return by === null ? answer : `${answer} by ${by}`;
}

/** `call` as `--json` gives it. */
export function callJson(call: Call): object {
  const { seq, time, session, tool, what, grant, taint, untrusted, approval, result } = call;
  return {
    ...{ seq, time, session, call: call.call, tool, what, ...outcomeOf(call), grant },
    answer: approval?.answer ?? null,
    answered: approval?.time ?? null,
    by: approval?.by ?? null,
    ...{ taint, untrusted, taint_after: result?.taint ?? null },
  };
}
