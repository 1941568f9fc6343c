/** `bxctl audit verify` (specification 9; contracts 5, its end). Needs no daemon. */
import type { Anchor } from "../proto/audit.ts";
import type { ChainReport, Location } from "../proto/chain.ts";
import { display } from "../proto/escape.ts";
import { answerJson, type Io, type Status } from "./io.ts";
import { verifyWatched } from "./log_progress.ts";
import { notices } from "./notices.ts";

/** Verifies the log in `directory`; `expect`: a record that the owner kept elsewhere. */
export function verifyAudit(
  directory: string,
  io: Io,
  json: boolean,
  expect: Anchor | null,
): Status {
  const report = verifyWatched(io, directory, expect);
  if (json) answerJson(io, report);
  else io.answer(reportLines(report).map((line) => `${line}\n`).join(""));
  if (report.failure === null) return 0;
  io.tell(...notices.chainBroken());
  return 1;
}

/** The report as the owner reads it: the verdict, then what there is to know beside it. */
export function reportLines(report: ChainReport): string[] {
  const { failure, records, head, torn_tail, anchored } = report;
  const at = ({ file, line }: Location) => `${display(file)}:${line}`;
  return [
    failure === null
      ? `audit: ok, ${records} records, head ${head ?? "-"}`
      : `${at(failure)}: ${display(failure.what)}`,
    ...report.recoveries.map((place) => `recovered ${at(place)}`),
    ...report.accepted_breaks.map((place) => `accepted break ${at(place)}`),
    ...report.abandoned.map((seq) => `abandoned ${seq}`),
    ...report.unfinished.map((seq) => `unfinished ${seq}`),
    ...report.clock_warnings.map((place) => `clock went backwards ${at(place)}`),
    ...torn_tail === null ? [] : [`torn tail ${at(torn_tail)}`],
    anchored === null ? "not anchored" : `anchored at ${anchored}`,
  ];
}
