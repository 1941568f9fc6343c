/** `bxctl approve ID --remember DURATION`: an approval, and a grant that gives the next ones (decision 110). */
import type { PendingApproval } from "../proto/messages.ts";
import { display } from "../proto/escape.ts";
import { utf8 } from "../proto/text.ts";
import type { Admin } from "./admin.ts";
import { approvedWords } from "./approve.ts";
import { approvalBlock } from "./block.ts";
import { type Asking, confirm } from "./confirm.ts";
import { removeGrant, writeGrant } from "./grant_writing.ts";
import { usableGrants } from "./grants_files.ts";
import { answerJson, answerLines, type Io, type Status } from "./io.ts";
import { Failed, noSuchApproval, notices, notRemembered } from "./notices.ts";
import { type Grants, objection, type Proposal, propose } from "./remembered.ts";
import { changedLine, changeOf, type Group, groupAround, notesOf } from "./waiting.ts";

/** What is to be remembered, and where. */
export interface ToRemember {
  readonly approval: number;
  /** For how long, in milliseconds. */
  readonly remember: number;
  /** The grants directory that brokerd reads. */
  readonly grants: string;
}

/**
 * Shows the call and the grant, asks, writes the grant and approves the call. The grant is taken back unless
 * brokerd then lets the call run by it, so that none is left that does not do what was shown.
 */
export async function approveAndRemember(
  admin: Admin,
  { approval, remember, grants: directory }: ToRemember,
  asking: Asking,
  io: Io,
): Promise<Status> {
  const { json } = asking;
  const found = groupAround(approval, await admin.approvals(), await admin.changes());
  if (found === null) throw noSuchApproval(approval);
  const { item } = found;
  const proposal = proposed(item, directory, io.now(), remember);
  if (!json) answerLines(io, shown(found, proposal, directory, io.now()));
  await confirm(`approve ${approval} and write it? [y/N] `, asking, io, [
    ...notices.leftPending(approval),
  ]);

  // The grants may be others by now.
  const refusal = objection(item, proposal, usable(approval, directory), io.now());
  if (refusal !== null) throw notRemembered(approval, refusal.refused);
  // And the session another: what is remembered is what the owner was told.
  const changed = changedLine(item, changeOf(approval, await admin.changes()));
  if (changed !== null && changed !== changedLine(item, found.change)) {
    throw notRemembered(approval, [changed]);
  }
  const { id, asked, expires, text } = proposal;
  try {
    writeGrant(directory, id, text, asked);
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    const [what = "", ...helps] = error.lines;
    throw new Failed(error.code, [what, ...notices.leftPending(approval), ...helps], error);
  }
  const takeBack = () => removeGrant(directory, id, utf8(text));
  let outcome: Awaited<ReturnType<Admin["approve"]>>;
  try {
    outcome = await admin.approve(approval);
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    throw new Failed(error.code, [...error.lines, ...takenBack(id, takeBack)], error);
  }
  const stays = outcome.outcome === "allowed";
  const remembered = stays ? { grant: id, expires, text } : null;
  if (json) answerJson(io, { approval, answer: "approved", outcome, remembered });
  else io.answer(`approved ${approval}: ${approvedWords(outcome)}\n`);
  if (!stays) {
    const ran = outcome.outcome === "ask";
    io.tell(...notices.notTakenUp(ran, directory), ...takenBack(id, takeBack));
    return 1;
  }
  if (!json) io.answer(`remembered until ${expires}; to end it: bxctl grants revoke ${id}\n`);
  return 0;
}

/** Takes the grant back, and says whether that was done. */
function takenBack(id: string, takeBack: () => boolean): string[] {
  try {
    return takeBack() ? notices.takenBack(id) : notices.notTakenBack(id, []);
  } catch (error) {
    if (!(error instanceof Failed)) throw error;
    return notices.notTakenBack(id, error.lines);
  }
}

/** The grant to be written, shown to do what it is for. Throws `Failed`. */
function proposed(item: PendingApproval, directory: string, now: number, ms: number): Proposal {
  const grants = usable(item.approval, directory);
  const proposal = propose(item, grants, now, ms);
  const refusal = "refused" in proposal ? proposal : objection(item, proposal, grants, now);
  if (refusal !== null) throw notRemembered(item.approval, refusal.refused);
  if ("refused" in proposal) throw new Error("a refusal without an objection");
  return proposal;
}

function usable(approval: number, directory: string): Grants {
  const found = usableGrants(directory);
  if ("problem" in found) throw notRemembered(approval, [found.problem]);
  return found;
}

function shown(found: Group, proposal: Proposal, directory: string, now: number): string[] {
  const { item } = found;
  const lines = proposal.text.trimEnd().split("\n").map((line) => `    ${display(line)}`.trimEnd());
  const any = item.tool === "shell"
    ? ["any command with that cwd will run without asking, not this one alone"]
    : item.tool === "write_file"
    ? ["any content will be written there without asking, not this one alone"]
    : item.tool === "http_fetch"
    ? ["any page of that host will be fetched without asking, not this one alone"]
    : [];
  return [
    ...approvalBlock(item, now, true, null, notesOf(found)).trimEnd().split("\n"),
    `a new grant, ${display(`${directory}/${proposal.id}.toml`)}:`,
    ...lines,
    ...any,
  ];
}
