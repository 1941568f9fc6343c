/** One call of the model from what the owner types to the audit log, and what must come of it. */
import { type AuditEvent, type AuditRecord, parseRecord } from "../../proto/audit.ts";
import { display } from "../../proto/escape.ts";
import { LineSplitter } from "../../proto/lines.ts";
import type { TurnEvent } from "../../proto/messages.ts";
import { assertNever } from "../../proto/text.ts";
import type { ToolName } from "../../proto/tools.ts";
import { Failure } from "./cli.ts";
import { runCtl, SaidTurn } from "./ctl.ts";
import type { Stack } from "./stack.ts";

/** A step of a story: what is typed, how the owner answers, and what must come of it. */
export interface Step {
  readonly title: string;
  readonly say: string;
  /** What the owner does about the approval; `wait`: nothing; null: there must be none. */
  readonly answer: "approve" | "refuse" | "wait" | null;
  readonly tool: ToolName;
  readonly result: { readonly status: string; readonly content: string | RegExp };
  /** What the log must gain, as `inWords` has it. */
  readonly records: readonly string[];
}

/** What came of a step. */
export interface Outcome {
  readonly approval: number | null;
  /** What bxctl said to the owner's answer. */
  readonly answered: string | null;
  /** The result of the last call of a tool that `find_tool` lists. */
  readonly result: Extract<TurnEvent, { type: "tool_result" }> | null;
  /** The model's words. */
  readonly text: string;
  /** Whether the turn came to its end, and bxctl to its own. */
  readonly done: boolean;
  /** What the log gained. */
  readonly records: readonly AuditRecord[];
}

/** The records of the log in the directory `audit`. Throws `Failure` for a line that is none. */
export function recordsIn(audit: string): AuditRecord[] {
  const names = [...Deno.readDirSync(audit)].map(({ name }) => name)
    .filter((name) => name.endsWith(".jsonl")).sort();
  return names.flatMap((name) => {
    const splitter = new LineSplitter();
    const lines = [...splitter.push(Deno.readFileSync(`${audit}/${name}`))];
    return lines.map(({ bytes }, index) => {
      const record = parseRecord(bytes);
      if (record === null) throw new Failure(`${name}:${index + 1} is no record`);
      return record;
    });
  });
}

/** What of a record a story is about, such as `approval 3 approved: ask`. */
export function inWords(event: AuditEvent): string {
  switch (event.type) {
    case "decision": {
      const { tool, outcome, grant } = event;
      return `decision on ${tool}: ${outcomeInWords(outcome)}, grant ${grant ?? "-"}`;
    }
    case "approval":
      return `approval ${event.answer}: ${outcomeInWords(event.outcome)}`;
    case "result":
      return `result: ${event.status}`;
    case "recovery":
    case "accepted_break":
      return event.type;
    default:
      return assertNever(event);
  }
}

function outcomeInWords(outcome: Extract<AuditEvent, { type: "decision" }>["outcome"]): string {
  return outcome.outcome === "denied" ? `denied ${outcome.reason}` : outcome.outcome;
}

/** Plays `step` with the real bxctl. */
export async function play(stack: Stack, step: Step): Promise<Outcome> {
  const { audit } = stack.home.layout;
  const before = recordsIn(audit).length;
  let approval: number | null = null;
  let answered: string | null = null;
  let result: Outcome["result"] = null;
  let text = "";
  let done = false;
  await using turn = new SaidTurn(stack.places, step.say);
  for (let event = await turn.next(); event !== null; event = await turn.next()) {
    if (event.type === "text") text += event.text;
    if (event.type === "tool_result" && event.tool !== "find_tool") result = event;
    if (event.type === "done") done = true;
    if (event.type !== "approval_pending") continue;
    approval = event.approval;
    if (step.answer !== "approve" && step.answer !== "refuse") continue;
    const { stdout, stderr } = await runCtl(stack.places, step.answer, String(approval));
    answered = (stdout + stderr).trim();
  }
  const { code } = await turn.ended();
  const records = recordsIn(audit).slice(before);
  return { approval, answered, result, text, done: done && code === 0, records };
}

/** What of `outcome` is not as `step` wants it, in words. Empty when everything is. */
export function problemsOf(step: Step, outcome: Outcome): string[] {
  const problems: string[] = [];
  const must = (holds: boolean, problem: string) => {
    if (!holds) problems.push(problem);
  };
  const { approval, answered, result, records } = outcome;
  const first = records[0];
  if (step.answer === null) must(approval === null, "the owner was asked");
  else must(approval !== null, "the owner was not asked");
  if (approval !== null) {
    const number = first?.seq;
    must(approval === number, `approval ${approval} is of the decision ${number}`);
  }
  const said = { approve: `approved ${approval}: runs`, refuse: `refused ${approval}` };
  if (step.answer === "approve" || step.answer === "refuse") {
    const expected = said[step.answer];
    must(answered === expected, `bxctl said "${answered}", not "${expected}"`);
  }
  must(result?.tool === step.tool, `the call was of ${result?.tool}, not of ${step.tool}`);
  const { status, content } = step.result;
  must(result?.status === status, `the call was ${result?.status}, not ${status}`);
  const told = result?.content ?? "";
  const right = typeof content === "string" ? told === content : content.test(told);
  must(right, `the model was told "${result?.content}", not "${content}"`);
  must(outcome.done, "the turn did not come to its end");
  const words = records.map(({ event }) => inWords(event));
  must(
    words.join("; ") === step.records.join("; "),
    `the log gained [${words.join("; ")}], not [${step.records.join("; ")}]`,
  );
  for (const { event } of records.slice(1)) {
    const of = "decision" in event ? event.decision : null;
    must(of === first?.seq, `a record belongs to ${of} and not to the decision ${first?.seq}`);
  }
  return problems;
}

/** What came of a step, for whoever watches. */
export function outcomeLines({ say }: Step, outcome: Outcome): string[] {
  const { approval, answered, result, text, records } = outcome;
  return [
    `> ${say}`,
    ...approval === null ? [] : [`[approval ${approval}] ${answered ?? "left unanswered"}`],
    ...result === null ? [] : [`[${result.status}] ${result.tool}: ${result.content}`],
    ...text.split("\n").map((line) => `model: ${line}`),
    ...records.map(({ seq, event }) => `log ${seq}: ${inWords(event)}`),
  ].map(display);
}
