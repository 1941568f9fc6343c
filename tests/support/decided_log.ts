/** A home with grants and a log of decisions, for the commands of bxctl that explain and replay. */
import type { AuditEvent } from "../../proto/audit.ts";
import { type DecisionRecord, denied } from "../../proto/decisions.ts";
import { sha256 } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";
import { decision, LogBuilder, result } from "./chain_log.ts";
import { CtlHome, Recorder } from "./ctl.ts";
import { type GrantFields, grantFile } from "./grants.ts";

type DecisionEvent = Extract<AuditEvent, { type: "decision" }>;

export class DecidedHome extends CtlHome {
  readonly io = new Recorder();
  readonly places = { audit: this.layout.audit, grants: this.layout.grants };
  readonly log = new LogBuilder().file("2026-12-01.jsonl");

  /** `grants`: the files of the grants directory, by stem. */
  constructor(grants: Readonly<Record<string, GrantFields>> = {}) {
    super();
    this.grantsAt(this.layout.grants, grants);
  }

  /** Makes a directory of grants. */
  grantsAt(directory: string, grants: Readonly<Record<string, GrantFields>>): string {
    Deno.mkdirSync(directory);
    for (const [id, fields] of Object.entries(grants)) {
      Deno.writeTextFileSync(`${directory}/${id}.toml`, grantFile(fields));
    }
    return directory;
  }

  /** Writes the log as it is so far. */
  write(): this {
    for (const { name, bytes } of this.log.files()) {
      Deno.writeFileSync(`${this.layout.audit}/${name}`, bytes);
    }
    return this;
  }

  /** What was said on stdout since the last look. */
  said(): string {
    const { out } = this.io;
    this.io.out = "";
    return out;
  }
}

/** A decision on `{"path":…}` for `read_file` by the grant `by`, unless `differs`. */
export function decided(
  outcome: DecisionRecord,
  by: Readonly<{ id: string; fields: GrantFields }> | null,
  differs: Partial<DecisionEvent> = {},
): AuditEvent {
  const event = decision("denied");
  if (event.type !== "decision") throw new Error("no decision");
  return {
    ...event,
    outcome,
    arguments: '{"path":"/n/a"}',
    grant: by?.id ?? null,
    grant_sha256: by === null ? null : sha256(utf8(grantFile(by.fields))),
    ...differs,
  };
}

export const ALLOWED: DecisionRecord = { outcome: "allowed" };
export const ASK: DecisionRecord = { outcome: "ask" };
export const NO_GRANT = denied("no_grant");

/** The result of the decision `seq` that leaves the session `s1` at `taint`. */
export function raised(seq: number, taint: "public" | "private" | "secret"): AuditEvent {
  const event = result(seq);
  if (event.type !== "result") throw new Error("no result");
  return { ...event, taint_after: taint };
}
