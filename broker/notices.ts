/** Everything that brokerd says to its operator, each state that refuses with its runbook entry. */
import type { ChainFailure, Location } from "../proto/chain.ts";
import { display } from "../proto/escape.ts";
import { causes, runbook, SaidOnce, say } from "../proto/io/log.ts";
import type { GrantProblem, SocketName, ToolRequest } from "../proto/messages.ts";

export type Notices = ReturnType<typeof makeNotices>;

/** `tell` writes lines to the operator; by default to stderr. */
export function makeNotices(
  tell: (...lines: string[]) => void = (...lines) => say("brokerd", ...lines),
) {
  const said = new SaidOnce(tell);
  const once = said.say.bind(said);
  const withCause = (what: string, error: unknown) =>
    error === null ? what : `${what}: ${causes(error)}`;
  const place = ({ file, line }: Location) => `${display(file)}:${line}`;

  return {
    ready: (brokerSocket: string, adminSocket: string) =>
      tell(`ready, serving ${display(brokerSocket)} and ${display(adminSocket)}`),
    stopped: () => tell("stopped"),

    grantsInvalid(problems: readonly GrantProblem[]): void {
      const lines = problems.map(({ file, line, problem }) =>
        `grants: ${display(file)}:${line === null ? "" : `${line}:`} ${display(problem)}`
      );
      const pointer = `every call is denied until this is fixed; ${runbook("grants-invalid")}`;
      once("grants", [...lines, pointer]);
    },
    grantsValid: () => {
      if (said.forget("grants")) tell("grants: valid again");
    },
    stateUnreadable: (session: string, error: unknown) =>
      once(`state ${session}`, [
        `every call of session ${display(session)} is denied: ${causes(error)}`,
        runbook("broker-state-damaged"),
      ]),
    stateReadable: (session: string) => {
      if (said.forget(`state ${session}`)) {
        tell(`the state of session ${display(session)} can be read again`);
      }
    },
    resultNotRecorded: (error: unknown) =>
      tell(
        withCause("a result could not be recorded, and its content was not given out", error),
        runbook("result-not-recorded"),
      ),

    auditUnavailable(what: string, error: unknown): void {
      once("audit", [
        `audit: every call is denied: ${withCause(what, error)}`,
        `each call tries again; ${runbook("audit-unavailable")}`,
      ]);
    },
    auditLost: (error: unknown) =>
      once("audit", [
        `audit: every call is denied until a restart: ${causes(error)}`,
        runbook("audit-unavailable"),
      ]),
    auditWritten: () => {
      if (said.forget("audit")) tell("audit: written again");
    },
    chainBroken: (failure: ChainFailure) =>
      once("audit", [
        `audit: ${place(failure)}: ${display(failure.what)}`,
        `every call is denied; ${runbook("audit-chain-broken")}`,
      ]),
    recovered: (at: Location) =>
      tell(`audit: recovered a torn final line at ${place(at)}`, runbook("audit-recovered")),
    breakAccepted: (failure: ChainFailure) =>
      tell(`audit: accepted the break at ${place(failure)}: ${display(failure.what)}`),
    notAnchored: () =>
      tell(
        "audit: not anchored: no head.json that can be read tells whether the log lost its end",
        runbook("audit-not-anchored"),
      ),
    headUnwritable: (error: unknown) =>
      tell(
        `audit: head.json cannot be written, so a log that loses its end will not show it: ${
          causes(error)
        }`,
        runbook("audit-head-unwritable"),
      ),

    otherGrant: (approval: number, then: string | null, now: string) =>
      tell(
        `approval ${approval}: asked under grant ${display(then ?? "-")}, approved under grant ${
          display(now)
        }`,
      ),
    waiting: (approval: number, { session, tool }: ToolRequest) =>
      tell(
        `approval ${approval}: session ${display(session)} asks to run ${
          display(tool)
        }; see bxctl approvals`,
      ),
    forbidden: (kind: string, socket: SocketName) =>
      tell(
        `a request of kind ${display(kind)} came in on ${socket} and was refused`,
        runbook("socket-forbidden"),
      ),
    internal: (error: unknown) =>
      tell(`an internal error: ${causes(error)}`, runbook("internal-error")),
  };
}
