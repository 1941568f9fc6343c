/** What has changed for a waiting call since its owner was asked (docs/protocol.md, `changes`). Pure. */
import type { Hash32 } from "../proto/ids.ts";
import type { ApprovalChange } from "../proto/messages.ts";
import type { GrantSet } from "./grant_rules.ts";
import type { SessionState } from "./policy.ts";

/** What a call was asked about with. */
export interface Basis {
  /** The grant that asks, and the hash of its file. */
  readonly grant: string;
  readonly sha256: Hash32;
  /** What the session had seen. */
  readonly state: SessionState;
}

/** The same things now. */
export interface Present {
  readonly grants: GrantSet;
  /** Null: the session's state cannot be read. */
  readonly state: SessionState | null;
}

/** What is another than when the call `approval` was asked about; null where nothing is. */
export function changeSince(
  approval: number,
  then: Basis,
  { grants, state }: Present,
): ApprovalChange | null {
  const grant = grantChange(then, grants);
  const taint = state === null || state.taint === then.state.taint ? null : state.taint;
  const untrusted = state !== null && state.untrusted && !then.state.untrusted;
  const unreadable = state === null;
  const same = grant === null && taint === null && !untrusted && !unreadable;
  return same ? null : { approval, grant, taint, untrusted, unreadable };
}

function grantChange({ grant, sha256 }: Basis, grants: GrantSet): ApprovalChange["grant"] {
  // One bad file makes every grant unusable, whichever it is.
  if (!grants.ok) return "invalid";
  const now = grants.grants.find(({ id }) => id === grant);
  if (now === undefined) return "gone";
  return now.sha256 === sha256 ? null : "edited";
}
