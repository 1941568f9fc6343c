/** `bxctl approve ID` (specification 9). */
import type { DecisionRecord } from "../proto/decisions.ts";
import type { Admin } from "./admin.ts";
import { answerJson, type Io, type Status } from "./io.ts";
import { notices } from "./notices.ts";
import { groupAround } from "./waiting.ts";

/** Approves; a call that is denied all the same was still answered: status 0. */
export async function approve(
  admin: Admin,
  io: Io,
  json: boolean,
  approval: number,
): Promise<Status> {
  const alike = groupAround(approval, await admin.approvals(), []);
  const outcome = await admin.approve(approval);
  if (json) answerJson(io, { approval, answer: "approved", outcome });
  else io.answer(`approved ${approval}: ${approvedWords(outcome)}\n`);
  const others = alike?.approvals.filter((other) => other !== approval) ?? [];
  if (others.length > 0) io.tell(...notices.identicalWait(others));
  return 0;
}

/** What became of an approved call. */
export function approvedWords(outcome: DecisionRecord): string {
  return outcome.outcome === "denied" ? `denied (${outcome.reason})` : "runs";
}
