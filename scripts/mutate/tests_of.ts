/**
 * The files that are broken on purpose, each with the tests that must notice: the nearest and quickest
 * first, since the first red one ends the run.
 */

const broker = (...names: string[]) => names.map((name) => `tests/broker/${name}_test.ts`);
const proto = (...names: string[]) => names.map((name) => `tests/proto/${name}_test.ts`);
const ctl = (...names: string[]) => names.map((name) => `tests/ctl/${name}_test.ts`);

export const TESTS_OF: Readonly<Record<string, readonly string[]>> = {
  "broker/paths.ts": broker("paths", "args", "grant_rules", "policy"),
  "broker/hosts.ts": broker("hosts", "args", "grant_rules", "policy"),
  "broker/args.ts": broker("args", "policy", "policy_property"),
  "broker/grant_rules.ts": broker(
    "grant_rules",
    "remembered",
    "hints",
    "grants",
    "policy_property",
  ),
  "broker/approvals.ts": broker("approvals", "pipeline"),
  "broker/explain.ts": broker("explain", "remembered", "explain_property"),
  "broker/changes.ts": broker("changes"),
  "broker/policy.ts": broker(
    "policy",
    "remembered",
    "hints",
    "explain",
    "policy_property",
    "runner",
    "pipeline",
  ),
  "broker/runner.ts": broker("runner", "pipeline", "pipeline_results"),
  "broker/state.ts": broker("state", "pipeline_results"),
  "broker/audit_files.ts": broker("audit_files", "audit_log"),
  "broker/audit_startup.ts": broker("audit_startup", "audit_accept", "audit_log"),
  "broker/audit_log.ts": broker(
    "audit_log",
    "audit_head",
    "audit_obstacles",
    "audit_startup",
    "audit_accept",
    "status",
  ),
  "proto/escape.ts": ctl("display", "prose"),
  "proto/audit.ts": proto("audit", "chain"),
  "proto/audit_scan.ts": proto("audit_scan", "audit"),
  "proto/chain.ts": proto("chain", "chain_unreadable", "chain_resume", "chain_property"),
  "proto/decisions.ts": proto("decisions", "audit", "messages"),
  "proto/json.ts": proto("json"),
  "proto/lines.ts": proto("lines"),
};
