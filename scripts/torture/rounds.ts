/** One round: brokerd under one fault, what its clients were told held against what is on disk, and a restart. */
import { type Daemon, NotReady } from "../support/daemon.ts";
import { Hang } from "./client.ts";
import {
  counted,
  counting,
  type Fault,
  injecting,
  kills,
  type Span,
  type Target,
} from "./points.ts";
import { inWords, LONG_TTL_MS, READY_MS, Stand } from "./stand.ts";
import type { Round } from "./tally.ts";
import { SESSIONS } from "./workload.ts";

/** What the clients do while the fault is there, and how long their calls wait for the owner, in milliseconds. */
export interface Work {
  readonly run: (stand: Stand) => Promise<void>;
  readonly ttlMs: number;
}

/** The system calls on `target` that are made while `work` is done and nothing fails. */
export async function census(target: Target, work: Work): Promise<Record<string, Span>> {
  using stand = new Stand({ ttlMs: work.ttlMs });
  const trace = `${stand.root}/trace`;
  await using daemon = stand.start(counting(stand, target, SESSIONS, trace));
  await daemon.ready(READY_MS);
  await work.run(stand);
  await daemon.stop();
  return counted(await traceAt(trace), daemon.pid);
}

/** strace may end a moment after what it follows. */
async function traceAt(path: string): Promise<string> {
  for (let tries = 0; tries < 200; tries += 1) {
    const text = Deno.readTextFileSync(path);
    if (/^\d+ +\+\+\+ .* \+\+\+\n$/m.test(text)) return text;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  throw new Error(`${path} has no end`);
}

/** Does `work` on a new home with `fault` in it. */
export async function roundOf(fault: Fault, work: Work): Promise<Round> {
  using stand = new Stand({ ttlMs: work.ttlMs });
  const trace = `${stand.root}/trace`;
  const findings: string[] = [];
  await using daemon = stand.start(injecting(stand, fault, SESSIONS, trace));
  try {
    await daemon.ready(READY_MS);
    await work.run(stand);
    if (!fault.onwards && !kills(fault)) await worksAgain(stand, fault, findings);
  } catch (error) {
    if (error instanceof NotReady) await refusedWell(daemon, fault, findings);
    else if (error instanceof Hang) findings.push(`brokerd hangs: ${error.message}`);
    else throw error;
  }
  await daemon.stop();
  endedWell(await daemon.ended, fault, daemon, findings);
  const text = await traceAt(trace);
  const hit = kills(fault) ? text.includes("killed by SIGKILL") : text.includes("(INJECTED)");
  findings.push(...stand.check(true).findings.map(({ kind, what }) => `${kind}: ${what}`));
  await restarts(stand, findings);
  const { findings: last, counts, records } = stand.check(false);
  findings.push(...last.map(({ kind, what }) => `after the restart, ${kind}: ${what}`));
  return { findings, hit, answers: counts, records };
}

/** The fault came once: brokerd goes on without a restart, but where a sync failed (contracts 5.3). */
async function worksAgain(stand: Stand, { syscall, target }: Fault, findings: string[]) {
  const answer = await stand.call({ session: "after", path: "/auto", owner: "wait" });
  const lost = syscall === "fsync" && target === "audit";
  const words = inWords(answer);
  if (answer?.status === "result") return;
  if (lost && words === "denied: audit_unavailable") return;
  // The fault may come as late as in this very call.
  const second = inWords(await stand.call({ session: "after", path: "/auto", owner: "wait" }));
  if (second === "result" || lost && second === "denied: audit_unavailable") return;
  findings.push(`does not work again once the fault is gone: ${words}, then ${second}`);
}

async function refusedWell(daemon: Daemon, fault: Fault, findings: string[]): Promise<void> {
  if (kills(fault) && (await daemon.ended).signal === "SIGKILL") return;
  const said = daemon.lines.join("\n");
  if (said.includes("see docs/runbook.md#")) return;
  findings.push(`the start was refused without a runbook entry: ${said}`);
}

function endedWell(
  { code, signal }: Deno.CommandStatus,
  fault: Fault,
  daemon: Daemon,
  findings: string[],
): void {
  if (code === 0 || kills(fault) && signal === "SIGKILL") return;
  if (code === 1 && !daemon.lines.some((line) => line.startsWith("brokerd: ready"))) return;
  findings.push(`brokerd ended with ${code}, ${signal}: ${daemon.lines.slice(-10).join("\n")}`);
}

/** Without a fault it starts, every kind of call comes out as it must, and nothing has been forgotten. */
async function restarts(stand: Stand, findings: string[]): Promise<void> {
  stand.setTtl(LONG_TTL_MS);
  await using daemon = stand.start();
  try {
    await daemon.ready(READY_MS);
    await expect(stand, "/none", "denied: no_grant", findings);
    await expect(stand, "/auto", "result", findings);
    await expect(stand, "/ask", "result", findings);
  } catch (error) {
    if (!(error instanceof NotReady || error instanceof Hang)) throw error;
    findings.push(`does not start again: ${error.message}`);
  }
  await daemon.stop();
}

async function expect(
  stand: Stand,
  path: "/none" | "/auto" | "/ask",
  wanted: string,
  findings: string[],
): Promise<void> {
  const answer = inWords(await stand.call({ session: "after", path, owner: "approve" }));
  if (answer !== wanted) findings.push(`after the restart, ${path} gives ${answer}`);
}
