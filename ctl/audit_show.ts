/** `bxctl audit show SEQ`: everything that the log holds of one call. Needs no daemon. */
import type { AuditEvent, AuditRecord } from "../proto/audit.ts";
import { display } from "../proto/escape.ts";
import { LogReader } from "./audit_reader.ts";
import { wrapped } from "./fit.ts";
import { answerJson, type Io, type Status } from "./io.ts";
import { verifyWatched } from "./log_progress.ts";
import { noSuchRecord, notices } from "./notices.ts";

/** Prints the records of the call that the record `seq` belongs to. Throws `Failed` where there is none. */
export function showCall(directory: string, seq: number, io: Io, json: boolean): Status {
  const { failure } = verifyWatched(io, directory, null);
  if (failure !== null) io.tell(...notices.shownBroken(failure));
  const decision = decisionOf(directory, seq);
  if (decision === null) throw noSuchRecord(seq);
  const records: AuditRecord[] = [];
  using reader = new LogReader(directory);
  for (const record of reader.more()) {
    if (callOf(record) === decision) records.push(record);
  }
  if (json) answerJson(io, records);
  else io.answer(records.map((record) => recordBlock(record, io.width)).join("\n"));
  return failure === null ? 0 : 1;
}

/** The number of the decision that the record `seq` belongs to; null where there is no such record. */
function decisionOf(directory: string, seq: number): number | null {
  using reader = new LogReader(directory);
  for (const record of reader.more()) {
    if (record.seq === seq) return callOf(record);
  }
  return null;
}

/** The number of the decision that `record` belongs to; its own for a decision, and where there is none. */
function callOf({ seq, event }: AuditRecord): number {
  return event.type === "approval" || event.type === "result" ? event.decision : seq;
}

/** `record` in full: its type and number, then a line for each field. */
function recordBlock({ seq, time, prev, event }: AuditRecord, columns: number | null): string {
  const { type, ...fields } = event;
  const rows = Object.entries({ time, ...fields, prev }).map(([name, value]) =>
    [name, valueOf(value)] as const
  );
  const width = Math.max(...rows.map(([name]) => name.length));
  const hang = width + "    ".length;
  const lines = rows.flatMap(([name, value]) =>
    wrapped(`  ${name.padEnd(width)}  ${value}`, columns, hang)
  );
  return [`${type} ${seq}`, ...lines].map((line) => `${line}\n`).join("");
}

/** Every kind of value that a field of a record has. */
type Value = { [E in AuditEvent as E["type"]]: E[keyof E] }[AuditEvent["type"]];

function valueOf(value: Value): string {
  if (value === null) return "(none)";
  if (typeof value !== "object") return display(String(value));
  return value.outcome === "denied" ? `denied ${value.reason}` : value.outcome;
}
