/**
 * The calls that wait, as their owner is shown them: identical ones of a session together, each with what
 * has changed since it was asked about (docs/decisions.md, 100 and 101). Pure.
 */
import { display } from "../proto/escape.ts";
import type { ApprovalChange, PendingApproval } from "../proto/messages.ts";
import { isAbove } from "../proto/tools.ts";

/** Calls of one session with the same tool and the same arguments, to the byte. */
export interface Group {
  /** The first of them: an answer is for this one alone. */
  readonly item: PendingApproval;
  /** What has changed since that one was asked about; null: nothing. */
  readonly change: ApprovalChange | null;
  /** The numbers of all of them, ascending; the first is that of `item`. */
  readonly approvals: readonly number[];
}

/** `items`, which are in the order of their numbers, in groups in the order of the first of each. */
export function groupsOf(
  items: readonly PendingApproval[],
  changes: readonly ApprovalChange[],
): Group[] {
  const groups = new Map<string, PendingApproval[]>();
  for (const item of items) {
    const key = JSON.stringify([item.session, item.tool, item.arguments]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return [...groups.values()].flatMap((group) => {
    const [item] = group;
    if (item === undefined) return [];
    const change = changeOf(item.approval, changes);
    return [{ item, change, approvals: group.map(({ approval }) => approval) }];
  });
}

/** The call `approval` with what has changed since it was asked about, and the numbers of all like it. */
export function groupAround(
  approval: number,
  items: readonly PendingApproval[],
  changes: readonly ApprovalChange[],
): Group | null {
  const item = items.find((item) => item.approval === approval);
  const group = groupsOf(items, changes).find(({ approvals }) => approvals.includes(approval));
  if (item === undefined || group === undefined) return null;
  return { ...group, item, change: changeOf(approval, changes) };
}

/** What has changed for the call `approval`. */
export function changeOf(
  approval: number,
  changes: readonly ApprovalChange[],
): ApprovalChange | null {
  return changes.find((change) => change.approval === approval) ?? null;
}

/** `changed since: …`, or null where nothing is. */
export function changedLine(item: PendingApproval, change: ApprovalChange | null): string | null {
  if (change === null) return null;
  const { taint, untrusted, unreadable, grant } = change;
  const facts: string[] = [];
  if (taint !== null) {
    const rose = isAbove(taint, item.taint);
    facts.push(`the taint ${rose ? "rose" : "went"} from ${item.taint} to ${taint}`);
  }
  if (untrusted) facts.push("the session has seen untrusted content");
  if (unreadable) facts.push("the session's state cannot be read");
  const file = `grant ${display(item.grant)}.toml`;
  if (grant === "edited") facts.push(`${file} was edited`);
  if (grant === "gone") facts.push(`${file} is gone`);
  if (grant === "invalid") facts.push("the grants are not valid");
  return `changed since: ${facts.join("; ")}`;
}

/** That there are more calls like this one, or null where there are none. */
export function identicalLine(approvals: readonly number[]): string | null {
  if (approvals.length < 2) return null;
  return `${approvals.length} identical calls: ${
    approvals.join(", ")
  }; an answer is for one of them`;
}

/** What is said below a waiting call, in the order of its lines. */
export function notesOf({ item, change, approvals }: Group): string[] {
  const lines = [identicalLine(approvals), changedLine(item, change)];
  return lines.filter((line) => line !== null);
}
