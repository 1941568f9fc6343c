/** `bxctl status` (protocol, `status`): is it all right, and what helps where it is not. */
import { allRight, checkLines, hangOfChecks } from "./checks.ts";
import { askStatus } from "./daemon_status.ts";
import { answerJson, answerLines, type Io, type Status } from "./io.ts";
import { newestRecord } from "./newest_record.ts";
import { statusChecks } from "./status_checks.ts";

export interface StatusPlaces {
  readonly adminSocket: string;
  readonly loopSocket: string;
  /** `<home>/audit`. */
  readonly audit: string;
}

/** Prints what the daemons say of themselves. Exit status 1 where something is wrong. */
export async function showStatus(places: StatusPlaces, io: Io, json: boolean): Promise<Status> {
  const [brokerd, loopd] = await Promise.all([
    askStatus("brokerd", places.adminSocket),
    askStatus("loopd", places.loopSocket),
  ]);
  const newest = newestRecord(places.audit);
  const checks = statusChecks({ brokerd, loopd, newest, now: io.now() });
  const ok = allRight(checks);
  if (json) {
    const said = (asked: typeof brokerd | typeof loopd) => asked.ok ? asked.status : null;
    answerJson(io, {
      ...{ ok, checks, brokerd: said(brokerd), loopd: said(loopd) },
      newest: newest.ok ? newest.record : null,
    });
  } else answerLines(io, checkLines(checks), hangOfChecks(checks));
  return ok ? 0 : 1;
}
