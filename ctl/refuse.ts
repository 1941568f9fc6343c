/** `bxctl refuse ID [--reason TEXT]` (specification 9). */
import type { Admin } from "./admin.ts";
import { answerJson, type Io, type Status } from "./io.ts";

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
