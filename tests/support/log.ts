/** Audit logs in a directory of a test, and the broker's own log over them, as after a start. */
import { AuditLog, type Started } from "../../broker/audit_log.ts";
import { makeNotices } from "../../broker/notices.ts";
import {
  type AuditEvent,
  type AuditRecord,
  encodeHead,
  encodeRecord,
  isAuditFileName,
  parseHead,
  parseRecord,
} from "../../proto/audit.ts";
import type { ChainReport } from "../../proto/chain.ts";
import { sha256, ZERO_HASH } from "../../proto/ids.ts";
import { type LogFile, verify } from "./audit_case.ts";
import { namesOf, snapshot } from "./broker.ts";
import { WatchedFiles } from "./watched_files.ts";

/** A denied call, told from others by `n`. */
export function event(n: number): Extract<AuditEvent, { type: "decision" }> {
  return {
    type: "decision",
    session: "s1",
    call: `c${n}`,
    tool: "read_file",
    arguments: `{"path":"/n/${n}"}`,
    outcome: { outcome: "denied", reason: "no_grant" },
    grant: null,
    grant_sha256: null,
    taint: "private",
    untrusted: false,
  };
}

/** The files of the log in `directory`. */
export function filesIn(directory: string): LogFile[] {
  return namesOf(directory).filter(isAuditFileName).map((name) => ({
    name,
    bytes: Deno.readFileSync(`${directory}/${name}`),
  }));
}

/** What verifying the whole log in `directory` gives, against its `head.json` too. */
export function verifyDirectory(directory: string): ChainReport {
  const head = namesOf(directory).includes("head.json")
    ? parseHead(Deno.readFileSync(`${directory}/head.json`))
    : null;
  return verify(filesIn(directory), { head, expected: null });
}

/** The records of the log in `directory` that parse, in order. */
export function recordsIn(directory: string): AuditRecord[] {
  return filesIn(directory).flatMap(({ bytes }) =>
    new TextDecoder().decode(bytes).split("\n")
      .flatMap((line) => parseRecord(new TextEncoder().encode(line)) ?? [])
  );
}

/** A temporary audit directory, and brokerd's log over it. */
export class AuditBench implements Disposable {
  readonly directory = Deno.makeTempDirSync({ prefix: "boxmaker-audit-" });
  /** What the operator was told. */
  readonly said: string[] = [];
  /** The seam of the log that was opened last. */
  files = new WatchedFiles();
  now = Date.parse("2026-12-01T10:00:00.000Z");

  /** `from`: a directory whose files are copied here. */
  constructor(from?: string) {
    if (from === undefined) return;
    for (const name of namesOf(from)) Deno.copyFileSync(`${from}/${name}`, this.path(name));
  }

  /** What was done since the last look, the audit directory named `audit`. */
  done(): string[] {
    const directory = this.directory.slice(this.directory.lastIndexOf("/") + 1);
    return this.files.done.splice(0).map((one) => one.replace(directory, "audit"));
  }

  path(name: string): string {
    return `${this.directory}/${name}`;
  }

  has(name: string): boolean {
    return namesOf(this.directory).includes(name);
  }

  read(name: string): Uint8Array<ArrayBuffer> {
    return Deno.readFileSync(this.path(name));
  }

  write(name: string, content: Uint8Array | string): void {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    Deno.writeFileSync(this.path(name), bytes);
  }

  /** Lines of a file, without the newline of the last one. */
  lines(name: string): string[] {
    return new TextDecoder().decode(this.read(name)).replace(/\n$/, "").split("\n");
  }

  /** Replaces a file by `lines`, each with its newline. */
  writeLines(name: string, lines: readonly string[]): void {
    this.write(name, lines.map((line) => `${line}\n`).join(""));
  }

  /** Appends `count` records of the day `date` (in a file of that name), and lets `head.json` follow. */
  fill(date: string, count: number): void {
    const name = `${date}.jsonl`;
    const last = recordsIn(this.directory).at(-1);
    let seq = last === undefined ? 0 : last.seq + 1;
    let prev = last === undefined ? ZERO_HASH : sha256(encodeRecord(last));
    const lines = this.has(name) ? this.lines(name) : [];
    for (let n = 0; n < count; n += 1, seq += 1) {
      const time = `${date}T10:00:00.000Z`;
      const line = encodeRecord({ seq, time, prev, event: event(seq) });
      prev = sha256(line);
      lines.push(new TextDecoder().decode(line));
    }
    this.writeLines(name, lines);
    this.write("head.json", encodeHead({ seq: seq - 1, hash: prev }));
  }

  /** A new brokerd's log, as after a restart: the one before has ended. `prepare` gets its seam first. */
  restart(
    acceptBreak = false,
    prepare: (files: WatchedFiles) => void = () => {},
  ): { audit: AuditLog; started: Started } {
    this.files[Symbol.dispose]();
    const files = this.files = new WatchedFiles();
    prepare(files);
    const tell = (...lines: string[]) => this.said.push(...lines);
    const audit = new AuditLog(this.files, this.directory, () => this.now, makeNotices(tell));
    return { audit, started: audit.start(acceptBreak) };
  }

  /** As `restart`, for a log that must open. */
  open(acceptBreak = false): AuditLog {
    const { audit, started } = this.restart(acceptBreak);
    if (started.status !== "open") throw new Error(`did not open: ${JSON.stringify(started)}`);
    return audit;
  }

  report(): ChainReport {
    return verifyDirectory(this.directory);
  }

  /** Everything in the directory but the lock, which is no part of the log. */
  snapshot(): Record<string, string> {
    const { "/.lock": _lock, ...rest } = snapshot(this.directory);
    return rest;
  }

  [Symbol.dispose](): void {
    this.files[Symbol.dispose]();
    Deno.removeSync(this.directory, { recursive: true });
  }
}
