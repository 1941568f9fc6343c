/** Everything that brokerd says to its operator, each state that refuses with its runbook entry. */
import type { ChainFailure, Location } from "../proto/chain.ts";
import { display } from "../proto/escape.ts";
import { causes, runbook, SaidOnce, say } from "../proto/io/log.ts";
import type { GrantProblem, SocketName, ToolRequest } from "../proto/messages.ts";

/** Nothing tells when that is over: it is about one call, and the next may be about other grants. */
const UNENDING = "mounts";

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
    /** What the operator was told of and has not ended. */
    troubles: () => said.all().filter(([subject]) => subject !== UNENDING),
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

    noRunner: () =>
      tell(
        "no tool runs: brokerd.toml names no runner, and allowed calls fail",
        runbook("runner-off"),
      ),
    runnerUnavailable: (error: unknown) =>
      once("runner", [
        `allowed calls cannot run: ${causes(error)}`,
        `each call tries again; ${runbook("runner-unavailable")}`,
      ]),
    imageMissing: (image: string) =>
      once("runner", [
        `allowed calls cannot run: there is no image ${display(image)}`,
        runbook("image-missing"),
      ]),
    imageThere: () => {
      if (said.forget("runner")) tell("the image of the tools is there now");
    },
    runnerWorks: () => {
      if (said.forget("runner")) tell("tools run again");
    },
    notMounted: (problem: string) =>
      once(UNENDING, [`a call cannot run: ${problem}`, runbook("grant-not-mounted")]),
    leftoversRemoved: (count: number) =>
      tell(
        `removed ${count === 1 ? "a container" : `${count} containers`} of an earlier brokerd`,
      ),
    egressUnavailable: (error: unknown) =>
      once("egress", [
        // Each call has a directory of its own; the same problem is said once.
        `http_fetch cannot run: the egress proxy does not start: ${
          causes(error).replace(/\/egress\/[0-9a-f]{8}\//, "/egress/…/")
        }`,
        `each call tries again; ${runbook("egress-cannot-start")}`,
      ]),
    egressWorks: () => {
      if (said.forget("egress")) tell("the egress proxy starts again");
    },
    egressRefused: (count: number, reasons: readonly string[]) =>
      tell(`egress: ${count} connections refused: ${reasons.join("; ")}`),

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
