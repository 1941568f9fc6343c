/** `bxctl doctor`: what of the machine around Boxmaker is not as it should be, and what to do. */
import { DENO_VERSION, lockReport } from "../proto/io/start.ts";
import { MAX_SOCKET_PATH_BYTES } from "../proto/io/socket.ts";
import { allRight, checkLines, hangOfChecks } from "./checks.ts";
import { type CtlConfig, lockOf } from "./config.ts";
import { askStatus } from "./daemon_status.ts";
import { doctorChecks, type DoctorFacts } from "./doctor_checks.ts";
import { answerJson, answerLines, type Io, type Status } from "./io.ts";
import { lookAround } from "./machine.ts";
import { newestRecord } from "./newest_record.ts";

/** Looks, and prints what was found. Exit status 1 where something is wrong. */
export async function doctor(config: CtlConfig, io: Io, json: boolean): Promise<Status> {
  const [brokerd, loopd] = await Promise.all([
    askStatus("brokerd", config.adminSocket),
    askStatus("loopd", config.loopSocket),
  ]);
  return report(
    {
      machine: lookAround(config),
      lock: lockReport(lockOf(config), config.layout),
      ...{ brokerd, loopd, newest: newestRecord(config.layout.audit), now: io.now() },
    },
    io,
    json,
  );
}

/** Prints what `facts` come to. */
export function report(facts: DoctorFacts, io: Io, json: boolean): Status {
  const limits = { deno: DENO_VERSION, socketPath: MAX_SOCKET_PATH_BYTES };
  const checks = doctorChecks(facts, limits);
  const ok = allRight(checks);
  if (json) answerJson(io, { ok, checks });
  else answerLines(io, checkLines(checks), hangOfChecks(checks));
  return ok ? 0 : 1;
}
