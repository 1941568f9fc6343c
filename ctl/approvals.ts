/** `bxctl approvals` and `bxctl approvals show ID` (specification 9; docs/decisions.md, 100 and 101). */
import type { ApprovalChange, PendingApproval } from "../proto/messages.ts";
import type { Admin } from "./admin.ts";
import { approvalBlock } from "./block.ts";
import { answerJson, type Io, type Status } from "./io.ts";
import { noSuchApproval } from "./notices.ts";
import { changeOf, groupAround, groupsOf, notesOf } from "./waiting.ts";

/** Lists the calls that wait: identical ones of a session once, and with `json` every one. */
export async function listApprovals(admin: Admin, io: Io, json: boolean): Promise<Status> {
  const items = await admin.approvals();
  const changes = await admin.changes();
  const now = io.now();
  if (json) answerJson(io, items.map((item) => withChange(item, changes)));
  else if (items.length === 0) io.answer("no approvals are pending\n");
  else {
    const groups = groupsOf(items, changes);
    io.answer(
      groups.map((group) => approvalBlock(group.item, now, false, io.width, notesOf(group)))
        .join(""),
    );
  }
  return 0;
}

/** Prints one of them in full. */
export async function showApproval(
  admin: Admin,
  io: Io,
  json: boolean,
  approval: number,
): Promise<Status> {
  const items = await admin.approvals();
  const changes = await admin.changes();
  const found = groupAround(approval, items, changes);
  if (found === null) throw noSuchApproval(approval);
  if (json) answerJson(io, withChange(found.item, changes));
  else io.answer(approvalBlock(found.item, io.now(), true, io.width, notesOf(found)));
  return 0;
}

/** `item` as brokerd sent it, with what has changed since where anything has. */
function withChange(item: PendingApproval, changes: readonly ApprovalChange[]): object {
  const change = changeOf(item.approval, changes);
  if (change === null) return item;
  const { approval: _, ...changed } = change;
  return { ...item, changed };
}
