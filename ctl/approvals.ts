/** `bxctl approvals` and `bxctl approvals show ID` (specification 9). */
import type { Admin } from "./admin.ts";
import { approvalBlock } from "./block.ts";
import { answerJson, type Io, type Status } from "./io.ts";
import { noSuchApproval } from "./notices.ts";

/** Lists the calls that wait. */
export async function listApprovals(admin: Admin, io: Io, json: boolean): Promise<Status> {
  const items = await admin.approvals();
  const now = io.now();
  if (json) answerJson(io, items);
  else if (items.length === 0) io.answer("no approvals are pending\n");
  else io.answer(items.map((item) => approvalBlock(item, now, false, io.width)).join(""));
  return 0;
}

/** Prints one of them in full. */
export async function showApproval(
  admin: Admin,
  io: Io,
  json: boolean,
  approval: number,
): Promise<Status> {
  const item = (await admin.approvals()).find((item) => item.approval === approval);
  if (item === undefined) throw noSuchApproval(approval);
  if (json) answerJson(io, item);
  else io.answer(approvalBlock(item, io.now(), true, io.width));
  return 0;
}
