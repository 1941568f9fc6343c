/** A call's way through brokerd without its sockets: real log, real state files, a clock and tools of the test. */
import { AuditLog } from "../../broker/audit_log.ts";
import { grantReader } from "../../broker/grants.ts";
import { makeNotices } from "../../broker/notices.ts";
import { type Call, Pipeline } from "../../broker/pipeline.ts";
import type { RunOutcome, RunSpec, Runtime } from "../../broker/runner.ts";
import { SessionStates } from "../../broker/state.ts";
import type { AuditEvent } from "../../proto/audit.ts";
import type { ChainReport } from "../../proto/chain.ts";
import type { FinalToolResponse } from "../../proto/messages.ts";
import { type GrantFields, grantFile } from "./grants.ts";
import { recordsIn, verifyDirectory } from "./log.ts";
import { WatchedFiles } from "./watched_files.ts";

/** Tools that run until the test ends them. */
export class GatedRuntime implements Runtime {
  readonly started: { readonly spec: RunSpec; readonly end: (outcome: RunOutcome) => void }[] = [];

  run(spec: RunSpec): Promise<RunOutcome> {
    return new Promise((end) => this.started.push({ spec, end }));
  }
}

export const CONTENT = "the content of the note";
export const RESULT: RunOutcome = { status: "result", content: CONTENT, truncated: false };

export class PipelineBench implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-calls-" });
  readonly files = new WatchedFiles();
  readonly runtime = new GatedRuntime();
  readonly said: string[] = [];
  readonly pipeline: Pipeline;
  readonly states: SessionStates;
  now = Date.parse("2026-12-01T10:00:00.000Z");
  #calls = 0;

  constructor(ttlMs = 60_000) {
    for (const name of ["audit", "grants", "sessions"]) Deno.mkdirSync(`${this.root}/${name}`);
    const notices = makeNotices((...lines) => this.said.push(...lines));
    const now = () => this.now;
    const audit = new AuditLog(this.files, `${this.root}/audit`, now, notices);
    if (audit.start(false).status !== "open") throw new Error("the log did not open");
    this.states = new SessionStates(this.files, `${this.root}/sessions`);
    const grants = grantReader(this.files, `${this.root}/grants`);
    const { states, runtime } = this;
    this.pipeline = new Pipeline({ audit, states, grants, runtime, notices, now, ttlMs });
  }

  grant(id: string, fields: GrantFields): void {
    const covered = { constraints: { paths: ["/n"] }, ...fields };
    Deno.writeTextFileSync(`${this.root}/grants/${id}.toml`, grantFile(covered));
  }

  removeGrant(id: string): void {
    Deno.removeSync(`${this.root}/grants/${id}.toml`);
  }

  /** A call of `session` to read `/n/a`. */
  begin(session = "s1", path = "/n/a"): Call {
    this.#calls += 1;
    const args = JSON.stringify({ path });
    return this.pipeline.begin({
      session,
      call: `c${this.#calls}`,
      tool: "read_file",
      arguments: args,
    });
  }

  /** A call that the owner is asked about, with the number of its approval. */
  ask(session = "s1"): { readonly approval: number; readonly answer: Call["answer"] } {
    const { pending, answer } = this.begin(session);
    if (pending === null) throw new Error("the owner is not asked");
    return { approval: pending.approval, answer };
  }

  /** The events of the log, in order. */
  events(): AuditEvent[] {
    return recordsIn(`${this.root}/audit`).map(({ event }) => event);
  }

  report(): ChainReport {
    return verifyDirectory(`${this.root}/audit`);
  }

  [Symbol.dispose](): void {
    this.files[Symbol.dispose]();
    Deno.removeSync(this.root, { recursive: true });
  }
}

/** What `promise` has come to already, or null. */
export async function settledNow(
  promise: Promise<FinalToolResponse | null>,
): Promise<{ readonly value: FinalToolResponse | null } | null> {
  // Longer than any chain of promises in the pipeline.
  for (let i = 0; i < 20; i++) await Promise.resolve();
  return await Promise.race([promise.then((value) => ({ value })), Promise.resolve(null)]);
}
