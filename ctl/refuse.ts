/** `bxctl refuse ID [--reason TEXT]`, and with `--session ID --all` (specification 9; decision 112). */
import type { SessionId } from "../proto/ids.ts";
import type { Admin } from "./admin.ts";
import { answerJson, type Io, type Status } from "./io.ts";
import { Failed, notices } from "./notices.ts";

/** Refuses; `reason` goes to the audit log and nowhere else. */
export async function refuse(
  admin: Admin,
  io: Io,
  json: boolean,
  approval: number,
  reason: string | null,
): Promise<Status> {
  await admin.refuse(approval, reason);
  if (json) answerJson(io, { approval, answer: "refused" });
  else io.answer(`refused ${approval}\n`);
  return 0;
}

/**
 * Refuses every call of `session` that waits now, one after another, and says each. One that has ended
 * meanwhile is passed over; at any other failure those before it stay refused, and have been said.
 */
export async function refuseSession(
  admin: Admin,
  io: Io,
  json: boolean,
  session: SessionId,
  reason: string | null,
): Promise<Status> {
  const waiting = (await admin.approvals()).filter((item) => item.session === session);
  const refused: number[] = [];
  for (const { approval } of waiting) {
    try {
      await admin.refuse(approval, reason);
    } catch (error) {
      if (!(error instanceof Failed) || error.code !== "no_such_approval") throw error;
      io.tell(...notices.withdrawn(approval));
      continue;
    }
    refused.push(approval);
    if (!json) io.answer(`refused ${approval}\n`);
  }
  if (json) answerJson(io, { session, answer: "refused", approvals: refused });
  else if (waiting.length === 0) io.answer(`no approvals of session ${session} are pending\n`);
  return 0;
}
