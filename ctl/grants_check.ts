/** `bxctl grants check` (specification 9). */
import { display } from "../proto/escape.ts";
import type { GrantProblem } from "../proto/messages.ts";
import type { Admin } from "./admin.ts";
import { answerJson, type Io, type Status } from "./io.ts";
import { notices } from "./notices.ts";

/** Prints what is wrong with the grant files, as brokerd reads them now. */
export async function checkGrants(admin: Admin, io: Io, json: boolean): Promise<Status> {
  const problems = await admin.checkGrants();
  if (json) answerJson(io, { problems });
  else io.answer(problems.length === 0 ? "grants: ok\n" : problems.map(lineOf).join(""));
  if (problems.length === 0) return 0;
  io.tell(...notices.grantProblems());
  return 1;
}

function lineOf({ file, line, problem }: GrantProblem): string {
  const place = line === null ? display(file) : `${display(file)}:${line}`;
  return `${place}: ${display(problem)}\n`;
}
