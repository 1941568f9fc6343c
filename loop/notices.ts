/** Everything that loopd says to its operator, each state that refuses with its runbook entry. */
import { display } from "../proto/escape.ts";
import type { SessionId } from "../proto/ids.ts";
import { ClientError, type ClientFailure } from "../proto/io/client.ts";
import { causes, runbook, SaidOnce, say } from "../proto/io/log.ts";
import type { ErrorCode } from "../proto/messages.ts";

export type Notices = ReturnType<typeof makeNotices>;

const BROKER_FAILURES = {
  unreachable: "nobody listens there",
  no_permission: "this process may not connect to it",
  request_too_large: "the request was too large",
  closed: "it ended the connection without an answer",
  timeout: "it did not answer in time",
  bad_answer: "it answered something that is not an answer",
} as const satisfies Record<ClientFailure, string>;

/** `tell` writes lines to the operator; by default to stderr. */
export function makeNotices(
  tell: (...lines: string[]) => void = (...lines) => say("loopd", ...lines),
) {
  const said = new SaidOnce(tell);
  const once = said.say.bind(said);

  return {
    /** What the operator was told of and has not ended. */
    troubles: () => said.all(),
    ready: (socket: string) => tell(`ready, serving ${display(socket)}`),
    stopped: () => tell("stopped"),
    modelLoading: (ms: number) =>
      tell(
        `the model server is still loading its model; waiting for at most ${
          Math.ceil(ms / 1000)
        } s`,
        runbook("loopd-selftest-failed"),
      ),

    sessionRecovered: (session: SessionId, bytes: number) =>
      tell(
        `session ${session}: its log ends in ${bytes} bytes that a crash cut off; they are left out`,
        runbook("session-log-torn"),
      ),
    sessionDamaged: (session: SessionId, error: unknown) =>
      once(`session ${session}`, [
        `every turn of session ${session} fails: its log is damaged: ${causes(error)}`,
        runbook("session-log-damaged"),
      ]),
    sessionUnavailable: (session: SessionId, error: unknown) =>
      tell(
        `a turn of session ${session} failed: its log cannot be used: ${causes(error)}`,
        runbook("session-log-unavailable"),
      ),
    sessionGood: (session: SessionId) => {
      if (said.forget(`session ${session}`)) tell(`session ${session}: its log is read again`);
    },
    coreUnreadable: (error: unknown) =>
      once("core", [`no new session starts: ${causes(error)}`, runbook("core-memory-unreadable")]),
    coreRead: () => {
      if (said.forget("core")) tell("memory/core.md is read again");
    },

    brokerUnavailable: (path: string, error: ClientError) =>
      once("broker", [
        `the tool broker at ${display(path)} is unavailable: ${BROKER_FAILURES[error.failure]}`,
        runbook("broker-unavailable"),
      ]),
    brokerRefused: (path: string, code: ErrorCode) =>
      once("broker", [
        `the tool broker at ${display(path)} refused a tool request: ${code}`,
        runbook("broker-unavailable"),
      ]),
    brokerAnswers: () => {
      if (said.forget("broker")) tell("the tool broker answers again");
    },

    forbidden: (kind: string) =>
      tell(
        `a request of kind ${display(kind)} came in on loop.sock and was refused`,
        runbook("socket-forbidden"),
      ),
    internal: (error: unknown) =>
      tell(`an internal error: ${causes(error)}`, runbook("internal-error")),
  };
}
