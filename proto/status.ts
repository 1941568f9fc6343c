/**
 * What a daemon says of itself when its owner asks (protocol, `status`): limited in size whatever the daemon
 * has seen, and with nothing in it that the owner may not see. Pure.
 */
import * as z from "zod";
import { MAX_ITEMS, MAX_UNITS, statusText } from "./cut.ts";
import { GrantProblem } from "./grants.ts";
import { SessionId, Timestamp } from "./ids.ts";
import { text, u64 } from "./text.ts";

export { MAX_ITEMS, MAX_UNITS, statusText };

/** Whoever sends more has not sent a status. */
const short = text.max(MAX_UNITS + 1);

/** A state that the daemon has told its operator of and that has not ended. */
export const Trouble = z.strictObject({
  /** What it is about: `audit`, `runner`, `state s1`. */
  about: short,
  /** As the operator was told, without the program's name; one of them names the runbook's entry. */
  lines: z.array(short).max(MAX_ITEMS + 1),
});
export type Trouble = z.infer<typeof Trouble>;

/** How a process differs from its row of the permission table, in words; both empty where it does not. */
export const LockReport = z.strictObject({
  /** What it may do beyond its row. */
  too_wide: z.array(short).max(MAX_ITEMS + 1),
  /** What of its row it may not do. */
  missing: z.array(short).max(MAX_ITEMS + 1),
});
export type LockReport = z.infer<typeof LockReport>;

/** What both daemons say. */
const common = {
  version: short,
  deno: short,
  /** When it began to serve. */
  since: Timestamp,
  lock: LockReport,
  troubles: z.array(Trouble).max(MAX_ITEMS + 1),
};

const WaitingItem = z.strictObject({
  approval: u64,
  session: SessionId,
  tool: short,
  expires: Timestamp,
});
const RunningItem = z.strictObject({
  /** `seq` of the call's decision record. */
  decision: u64,
  session: SessionId,
  tool: short,
  since: Timestamp,
});
export type RunningItem = z.infer<typeof RunningItem>;

/**
 * Whether records are written. `disturbed`: the newest file is not as brokerd left it, and the next call will
 * look into that. `latched`: a write failed, and each call tries again. `lost`: a sync failed, and only a
 * restart can tell what is on disk.
 */
export const AuditState = z.enum(["open", "disturbed", "latched", "lost"]);
export type AuditState = z.infer<typeof AuditState>;

/** `there` and `missing` are what Podman said last; `none`: no runner is configured. */
export const ImageState = z.enum(["none", "there", "missing", "unknown"]);
export type ImageState = z.infer<typeof ImageState>;

export const BrokerStatus = z.strictObject({
  ...common,
  grants: z.strictObject({
    /** The valid grants; 0 where one file is invalid, since then none counts. */
    count: u64,
    problem_count: u64,
    problems: z.array(GrantProblem).max(MAX_ITEMS + 1),
  }),
  audit: z.strictObject({
    state: AuditState,
    /** The number of the next record; 0 for an empty log. */
    next_seq: u64,
    /** The newest file; null for none. */
    file: short.nullable(),
  }),
  waiting: z.strictObject({
    count: u64,
    limit: u64,
    items: z.array(WaitingItem).max(MAX_ITEMS + 1),
  }),
  running: z.strictObject({ count: u64, items: z.array(RunningItem).max(MAX_ITEMS + 1) }),
  runner: z.strictObject({
    /** The path of Podman; null where no tool runs. */
    podman: short.nullable(),
    /** Null for Podman's own choice. */
    oci_runtime: short.nullable(),
    image: short.nullable(),
    image_state: ImageState,
  }),
});
export type BrokerStatus = z.infer<typeof BrokerStatus>;

/** What the model server came to when it was asked just now. */
export const ModelState = z.enum(["ok", "loading", "failed", "runs_tools"]);

export const LoopStatus = z.strictObject({
  ...common,
  model: z.strictObject({
    url: short,
    state: ModelState,
    /** Why it is not `ok`; null where it is. */
    problem: short.nullable(),
  }),
  /** Whether somebody listens on the tool broker's socket; `none`: no broker is configured. */
  broker: z.enum(["none", "listening", "unreachable"]),
  /** The turns that are running. */
  turns: u64,
});
export type LoopStatus = z.infer<typeof LoopStatus>;

/** What was said of each subject, as a status holds it. The last line stays: it says where help is. */
export function troublesOf(said: Iterable<readonly [about: string, lines: string[]]>): Trouble[] {
  return [...said].slice(0, MAX_ITEMS).map(([about, lines]) => ({
    about: statusText(about),
    lines: [...lines.slice(0, -1).slice(0, MAX_ITEMS), ...lines.slice(-1)].map(statusText),
  }));
}
