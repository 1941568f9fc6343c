/** One connection of `admin.sock`: one request of the owner (specification 6, "Admin messages"). */
import { MAX_ANSWER_BYTES } from "../proto/frames.ts";
import type { Exchange } from "../proto/io/server.ts";
import type {
  Body,
  ErrorCode,
  GrantProblem,
  Message,
  PendingApproval,
  RequestKind,
} from "../proto/messages.ts";
import { assertNever, utf8Length } from "../proto/text.ts";
import type { Pipeline } from "./pipeline.ts";

/** Answers `request`. `status` gives what brokerd says of itself. */
export async function handleAdminRequest(
  pipeline: Pipeline,
  status: () => Promise<Body<"broker_status">>,
  request: Message<RequestKind<"admin.sock">>,
  exchange: Exchange,
): Promise<void> {
  if (request.kind === "status") {
    await exchange.send({ kind: "broker_status", final: true, body: await status() });
    return;
  }
  for (const answer of answers(pipeline, request)) {
    if (!await exchange.send(answer)) return;
  }
}

function answers(
  pipeline: Pipeline,
  request: Message<Exclude<RequestKind<"admin.sock">, "status">>,
): Iterable<Message> {
  switch (request.kind) {
    case "approvals":
      return paginate(pipeline.pending());
    case "approve": {
      const outcome = pipeline.approve(request.body.approval);
      if (outcome === "no_such_approval") return [error(outcome, NO_SUCH_APPROVAL)];
      return [{ kind: "approve_result", final: true, body: { outcome } }];
    }
    case "refuse": {
      const refused = pipeline.refuse(request.body.approval, request.body.reason);
      if (refused === "ok") return [{ kind: "ok", final: true, body: {} }];
      return [
        error(refused, refused === "no_such_approval" ? NO_SUCH_APPROVAL : AUDIT_UNAVAILABLE),
      ];
    }
    case "check_grants": {
      const problems = fitting(pipeline.checkGrants());
      return [{ kind: "grants_report", final: true, body: { problems } }];
    }
    case "changes":
      // One frame: as many calls as may wait fit it many times over.
      return [{ kind: "change_list", final: true, body: { items: pipeline.changes() } }];
    default:
      return assertNever(request);
  }
}

const NO_SUCH_APPROVAL = "no such approval is pending";
const AUDIT_UNAVAILABLE = "the audit log cannot be written";

function error(code: ErrorCode, message: string): Message {
  return { kind: "error", final: true, body: { code, message } };
}

/** Room for what stands around the items of a frame. */
const ENVELOPE_BYTES = 4096;

/**
 * `items` in frames that are not too large; one without items where there are none. Each is made when it is asked
 * for: a client that does not read costs no more than one.
 */
function* paginate(items: readonly PendingApproval[]): Generator<Message<"approval_list">> {
  let page: PendingApproval[] = [];
  let size = ENVELOPE_BYTES;
  for (const item of items) {
    const itemSize = utf8Length(JSON.stringify(item)) + 1;
    if (size + itemSize > MAX_ANSWER_BYTES) {
      yield { kind: "approval_list", final: false, body: { items: page } };
      page = [];
      size = ENVELOPE_BYTES;
    }
    page.push(item);
    size += itemSize;
  }
  yield { kind: "approval_list", final: true, body: { items: page } };
}

/** As many of `problems` as fit one frame, and how many more there are. */
function fitting(problems: readonly GrantProblem[]): GrantProblem[] {
  const shown: GrantProblem[] = [];
  let size = ENVELOPE_BYTES;
  for (const problem of problems) {
    size += utf8Length(JSON.stringify(problem)) + 1;
    if (size > MAX_ANSWER_BYTES) {
      const more = `${problems.length - shown.length} more problems are not shown`;
      return [...shown, { file: problem.file, line: null, problem: more }];
    }
    shown.push(problem);
  }
  return shown;
}
