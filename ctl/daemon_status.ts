/** What the daemons say of themselves (protocol, `status`), within a deadline that nobody can stretch. */
import { Call, ClientError } from "../proto/io/client.ts";
import { runbook } from "../proto/io/log.ts";
import type { Body, Message } from "../proto/messages.ts";
import { type Daemon, Failed, noAnswer, refused } from "./notices.ts";

/**
 * How long a daemon may take, in milliseconds, with all that belongs to it. It waits itself some six seconds
 * at most for others, as loopd for the model server.
 */
const DEADLINE_MS = 10_000;

const ANSWERS = { brokerd: "broker_status", loopd: "loop_status" } as const;
type StatusOf = {
  brokerd: Body<"broker_status">;
  loopd: Body<"loop_status">;
};

/** A daemon's status, or in words why there is none. */
export type Asked<D extends Daemon> =
  | { readonly ok: true; readonly status: StatusOf[D] }
  | { readonly ok: false; readonly code: string; readonly lines: readonly string[] };

/** Asks `daemon` at the socket `path`. Never throws for what the other side does, and never hangs. */
export async function askStatus<D extends Daemon>(daemon: D, path: string): Promise<Asked<D>> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new ClientError("timeout")), DEADLINE_MS);
  });
  try {
    const message = await Promise.race([exchange(daemon, path), late]);
    if (message.kind === "error") throw refusedStatus(daemon, message.body);
    // Each daemon was asked for its own kind, and any other is a bad answer.
    return { ok: true, status: message.body as StatusOf[D] };
  } catch (error) {
    const failed = error instanceof ClientError ? noAnswer(daemon, path, error) : error;
    if (!(failed instanceof Failed)) throw failed;
    return { ok: false, code: failed.code, lines: failed.lines };
  } finally {
    clearTimeout(timer);
  }
}

type StatusMessage = Message<"broker_status" | "loop_status" | "error">;

async function exchange(daemon: Daemon, path: string): Promise<StatusMessage> {
  const request: Message = { kind: "status", final: true, body: {} };
  const call = await Call.open<StatusMessage["kind"]>(path, request, [ANSWERS[daemon], "error"]);
  try {
    const message = await call.next(DEADLINE_MS);
    if (!message.final) throw new ClientError("bad_answer");
    return message;
  } finally {
    call.close();
  }
}

/** A daemon that does not know the request is one of before there was a status. */
function refusedStatus(daemon: Daemon, error: Body<"error">): Failed {
  if (error.code !== "bad_frame") return refused(daemon, error, null);
  const entry = daemon === "brokerd" ? runbook("broker-unavailable") : runbook("loopd-unavailable");
  return new Failed("older_daemon", [
    `${daemon} answers, and knows no status: it is older than this bxctl`,
    `start it again, so that both are of one version; ${entry}`,
  ]);
}
