/**
 * What brokerd tells its owner of itself (protocol, `status`). It looks at what is known already, reads the
 * grants once as any call does, and asks Podman about the image only where that was not there. Changes nothing.
 */
import type { Timestamp } from "../proto/ids.ts";
import type { Body } from "../proto/messages.ts";
import {
  type LockReport,
  MAX_ITEMS,
  type RunningItem,
  statusText,
  troublesOf,
} from "../proto/status.ts";
import { VERSION } from "../proto/version.ts";
import { MAX_PENDING } from "./approvals.ts";
import type { AuditLog } from "./audit_log.ts";
import type { Notices } from "./notices.ts";
import type { Pipeline } from "./pipeline.ts";
import type { PodmanRuntime } from "./podman/runtime.ts";

export interface StatusSources {
  readonly pipeline: Pipeline;
  readonly audit: AuditLog;
  /** Null where no tool runs. */
  readonly podman: PodmanRuntime | null;
  readonly notices: Notices;
  /** Holds this process against its row. */
  readonly lock: () => LockReport;
  readonly since: Timestamp;
}

const NO_RUNNER = {
  podman: null,
  oci_runtime: null,
  image: null,
  image_state: "none",
} as const;

/** The status of brokerd as it is now. */
export async function brokerStatus(sources: StatusSources): Promise<Body<"broker_status">> {
  const { pipeline, audit, podman, notices, lock, since } = sources;
  // The only thing to wait for, so it comes first: what follows is of one moment.
  const runner = podman === null ? NO_RUNNER : await podman.status();
  const cut = (value: string | null) => value === null ? null : statusText(value);
  const waiting = pipeline.pending();
  const running = pipeline.running();
  return {
    version: VERSION,
    deno: Deno.version.deno,
    since,
    lock: lock(),
    troubles: troublesOf(notices.troubles()),
    grants: grantsOf(pipeline),
    audit: audit.status(),
    waiting: {
      count: waiting.length,
      limit: MAX_PENDING,
      items: waiting.slice(0, MAX_ITEMS).map(({ approval, session, tool, expires }) => ({
        ...{ approval, session, tool: statusText(tool), expires },
      })),
    },
    running: {
      count: running.length,
      items: running.slice(0, MAX_ITEMS).map((item): RunningItem => ({
        ...item,
        tool: statusText(item.tool),
      })),
    },
    runner: {
      podman: cut(runner.podman),
      oci_runtime: cut(runner.oci_runtime),
      image: cut(runner.image),
      image_state: runner.image_state,
    },
  };
}

function grantsOf(pipeline: Pipeline): Body<"broker_status">["grants"] {
  const { count, problems } = pipeline.grantsNow();
  return {
    count,
    problem_count: problems.length,
    problems: problems.slice(0, MAX_ITEMS).map(({ file, line, problem }) => ({
      ...{ file: statusText(file), line, problem: statusText(problem) },
    })),
  };
}
