/**
 * The decision path without its sockets: the real log, states and grants in a temporary directory. The
 * test holds the clock, what the disk refuses, and how each tool ends.
 */
import { setImmediate } from "node:timers/promises";
import { AuditLog } from "../../broker/audit_log.ts";
import { type Files, type OpenFile, realFiles } from "../../broker/files.ts";
import { grantReader } from "../../broker/grants.ts";
import { makeNotices } from "../../broker/notices.ts";
import { type Call, Pipeline } from "../../broker/pipeline.ts";
import type { SessionState } from "../../broker/policy.ts";
import { isRunSpec, type RunOutcome, type RunSpec, type Runtime } from "../../broker/runner.ts";
import { SessionStates } from "../../broker/state.ts";
import { type AuditEvent, parseRecord } from "../../proto/audit.ts";
import type { DenyReason } from "../../proto/decisions.ts";
import type { ChainReport } from "../../proto/chain.ts";
import type { FinalToolResponse, ToolRequest } from "../../proto/messages.ts";
import { utf8 } from "../../proto/text.ts";
import { namesOf, within } from "./broker.ts";
import { type GrantFields, grantFile } from "./grants.ts";
import { filesIn, recordsIn, verifyDirectory } from "./log.ts";
import { WatchedFiles } from "./watched_files.ts";

/** One run that a runtime was asked for. */
export interface Run {
  readonly spec: RunSpec;
  /** Ends the run. */
  end(outcome: RunOutcome): void;
  /** Ends it as a runtime that breaks does. */
  fail(error: Error): void;
}

/** What a tool gives unless the test says otherwise. */
export const CONTENT: RunOutcome = { status: "result", content: "the content", truncated: false };

/** The answer to a call that gave that, under a grant with nothing said of classes. */
export const RAN: Extract<FinalToolResponse, { status: "result" }> = {
  status: "result",
  content: "the content",
  class: "private",
  untrusted: false,
  truncated: false,
};

/** The answer to a denied call. */
export function deny(reason: DenyReason): FinalToolResponse {
  return { status: "denied", reason };
}

/** A runtime that runs nothing: it notes what it is asked for, and ends as the test says. */
export class HeldRuntime implements Runtime {
  readonly runs: Run[] = [];
  /** How each run ends at once; null: it goes on until the test ends it. */
  outcome: RunOutcome | null = CONTENT;
  /** Called as a run starts. */
  started: (spec: RunSpec) => void = () => {};

  run(spec: RunSpec): Promise<RunOutcome> {
    if (!isRunSpec(spec)) throw new Error("handed something that the runner did not make");
    this.started(spec);
    const { promise, resolve, reject } = Promise.withResolvers<RunOutcome>();
    this.runs.push({ spec, end: resolve, fail: reject });
    if (this.outcome !== null) resolve(this.outcome);
    return promise;
  }
}

/** The real files, but that no sync waits for the disk: no test here pulls the plug. */
const hastyFiles: Files = {
  ...realFiles,
  openRead: (path) => hasty(realFiles.openRead(path)),
  openAppend: (path) => hasty(realFiles.openAppend(path)),
  create: (path) => hasty(realFiles.create(path)),
  syncDirectory: () => {},
};

function hasty(file: OpenFile): OpenFile {
  return { ...file, sync: () => {} };
}

/** A pipeline in a home of its own. Dispose of it. */
export class DecisionPath implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-path-" });
  readonly audit = `${this.root}/audit`;
  readonly sessions = `${this.root}/sessions`;
  readonly grants = `${this.root}/grants`;
  /** What the operator was told. */
  readonly said: string[] = [];
  readonly runtime = new HeldRuntime();
  /** Milliseconds since 1970. */
  now = Date.parse("2026-12-01T10:00:00.000Z");
  /** The seam that all files go through. */
  files: WatchedFiles;
  pipeline: Pipeline;

  readonly #ttlMs: number;

  /** `ttlMs`: how long an approval waits, in milliseconds. */
  constructor(ttlMs = 60_000) {
    this.#ttlMs = ttlMs;
    for (const directory of [this.audit, this.sessions, this.grants]) Deno.mkdirSync(directory);
    this.files = new WatchedFiles(hastyFiles);
    this.pipeline = this.restart();
  }

  /** A new brokerd over the same files, as after a restart. Throws where it does not start. */
  restart(): Pipeline {
    this.files[Symbol.dispose]();
    this.files = new WatchedFiles(hastyFiles);
    const notices = makeNotices((...lines) => void this.said.push(...lines));
    const audit = new AuditLog(this.files, this.audit, () => this.now, notices);
    const started = audit.start(false);
    if (started.status !== "open") throw new Error(`did not open: ${JSON.stringify(started)}`);
    return this.pipeline = new Pipeline({
      audit,
      states: new SessionStates(this.files, this.sessions),
      grants: grantReader(this.files, this.grants),
      runtime: this.runtime,
      notices,
      now: () => this.now,
      ttlMs: this.#ttlMs,
    });
  }

  /** Writes the grant `id`, for reading below `/n` unless `fields` say otherwise. */
  grant(id: string, fields: GrantFields = {}): void {
    const text = grantFile({ constraints: { paths: ["/n"] }, ...fields });
    Deno.writeTextFileSync(`${this.grants}/${id}.toml`, text);
  }

  removeGrant(id: string): void {
    Deno.removeSync(`${this.grants}/${id}.toml`);
  }

  /** The state of `session` on disk, read by nothing of the broker's; null where there is no file. */
  stateOf(session: string): SessionState | null {
    const name = `${session}.json`;
    if (!namesOf(this.sessions).includes(name)) return null;
    return JSON.parse(Deno.readTextFileSync(`${this.sessions}/${name}`));
  }

  /** The events on disk, in order. */
  events(): AuditEvent[] {
    return recordsIn(this.audit).map(({ event }) => event);
  }

  /** The events of the calls with this id on disk, in order. */
  eventsOf(call: string): AuditEvent[] {
    const lines = filesIn(this.audit)
      .flatMap(({ bytes }) => new TextDecoder().decode(bytes).split("\n"));
    return lines.filter((line) => line.includes(`"call":"${call}"`))
      .flatMap((line) => parseRecord(utf8(line))?.event ?? []);
  }

  /** What verifying the log gives. */
  report(): ChainReport {
    return verifyDirectory(this.audit);
  }

  /** Begins a call and gives its answer once it is there. */
  async call(request: ToolRequest): Promise<FinalToolResponse | null> {
    return await answerOf(this.pipeline.begin(request));
  }

  /** Begins a call that must be asked about, and gives its approval's number too. */
  ask(request: ToolRequest): Call & { readonly approval: number } {
    const call = this.pipeline.begin(request);
    if (call.pending === null) throw new Error("the owner was not asked");
    return { ...call, approval: call.pending.approval };
  }

  [Symbol.dispose](): void {
    this.files[Symbol.dispose]();
    Deno.removeSync(this.root, { recursive: true });
  }
}

/** How long an approval waits in a path that asks, in milliseconds. */
export const TTL_MS = 100;

/** A path with one grant, that asks for reading below `/n`. */
export function asking(): DecisionPath {
  const path = new DecisionPath(TTL_MS);
  path.grant("ask", { mode: "ask" });
  return path;
}

/** A path with one grant, that lets files below `/n` be read. */
export function allowing(): DecisionPath {
  const path = new DecisionPath();
  path.grant("read");
  return path;
}

/** The approval records on disk. */
export function approvalsOf(path: DecisionPath): Extract<AuditEvent, { type: "approval" }>[] {
  return path.events().filter((event) => event.type === "approval");
}

/** A call to read `path`. */
export function reading(session: string, call: string, path = "/n/a"): ToolRequest {
  return { session, call, tool: "read_file", arguments: JSON.stringify({ path }) };
}

/** The last answer of a call. */
export async function answerOf(call: Call): Promise<FinalToolResponse | null> {
  return await within("answer", call.answer);
}

/** One turn of the event loop: everything that waits for nothing has happened after it. */
export async function turn(): Promise<void> {
  await setImmediate();
}

/** Whether `promise` is still open after everything that waits for nothing has happened. */
export async function isOpen(promise: Promise<unknown>): Promise<boolean> {
  let open = true;
  const close = () => void (open = false);
  void promise.then(close, close);
  await turn();
  return open;
}
