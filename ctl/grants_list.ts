/** `bxctl grants list`: each grant in words. */
import type { LoadedGrant } from "../broker/grant_rules.ts";
import { display } from "../proto/escape.ts";
import { timestamp } from "../proto/ids.ts";
import { expiry } from "./ago.ts";
import { placed } from "./explained.ts";
import { readGrantFiles } from "./grants_files.ts";
import { answerJson, answerLines, type Io, type Status } from "./io.ts";
import { notices } from "./notices.ts";

/** Prints the valid grants of `directory`, by id, and what is wrong with the others: status 1. */
export function listGrants(directory: string, io: Io, json: boolean): Status {
  const { set, valid } = readGrantFiles(directory);
  const problems = set.ok ? [] : set.problems;
  const grants = valid.toSorted((a, b) => a.id < b.id ? -1 : 1);
  const now = io.now();
  if (json) {
    answerJson(io, {
      problems,
      grants: grants.map((grant) => {
        const expired = grant.expires !== null && grant.expires <= timestamp(now);
        return { ...grant, expired, in_effect: !expired && answers(grant, valid) };
      }),
    });
  } else {
    const lines = [
      ...grants.length === 0 && problems.length === 0 ? ["no grants"] : [],
      ...grants.flatMap((grant) => linesOf(grant, valid, now)),
      ...problems.map(({ file, line, problem }) => placed(file, line, problem)),
    ];
    answerLines(io, lines);
  }
  if (problems.length === 0) return 0;
  io.tell(...notices.grantProblemsThere());
  return 1;
}

/** Whether a remembered grant still has its `ask` grant, unedited; every other grant has no need of one. */
function answers({ remembered }: LoadedGrant, grants: readonly LoadedGrant[]): boolean {
  return remembered === null ||
    grants.some(({ id, mode, sha256 }) =>
      id === remembered.grant && mode === "ask" && sha256 === remembered.sha256
    );
}

function linesOf(grant: LoadedGrant, grants: readonly LoadedGrant[], now: number): string[] {
  const { id, mode, tool, expires, max_taint, result_class, untrusted, hint, remembered } = grant;
  const facts = [
    ...[id, mode, tool, expires === null ? "no expiry" : expiry(expires, now)],
    ...remembered === null ? [] : [`by approve --remember, for ${remembered.grant}`],
  ];
  const rules = [
    coverage(grant),
    `up to taint ${max_taint}`,
    `results are ${result_class}${untrusted ? " and untrusted" : ""}`,
  ];
  const gone = `without effect: ${remembered?.grant} is gone, or was changed since`;
  return [
    facts.join("  "),
    `    ${rules.join("; ")}`,
    ...hint === null ? [] : [`    tells the model: ${display(hint)}`],
    ...answers(grant, grants) ? [] : [`    ${gone}`],
  ];
}

/** What its constraints cover, in words. */
function coverage({ tool, constraints: { paths, hosts }, remembered }: LoadedGrant): string {
  const listed = (values: readonly string[]) =>
    values.map((value) => display(JSON.stringify(value))).join(", ");
  const place = tool === "shell" ? "cwd" : "path";
  if (remembered?.path !== undefined) {
    return `the ${place} ${listed([remembered.path])} alone, with ${listed(paths)} mounted`;
  }
  if (tool === "http_fetch") return `hosts ${listed(hosts)}`;
  return paths.length === 0 ? "only without a cwd" : `a ${place} in ${listed(paths)}`;
}
