/** Builds audit logs in memory, as brokerd would write them and as somebody may have left them. Pure. */
import { type AuditEvent, encodeRecord } from "../../proto/audit.ts";
import type { Location } from "../../proto/chain.ts";
import { denied } from "../../proto/decisions.ts";
import { type Hash32, sha256, ZERO_HASH } from "../../proto/ids.ts";
import type { LogFile } from "./audit_case.ts";

const NEWLINE = 0x0a;

/** The lines of a file, each without its newline; `ended`: the last one has it. */
export interface FileLines {
  readonly name: string;
  readonly lines: readonly Uint8Array[];
  readonly ended: boolean;
}

/** Lines with the newlines between them. */
export function joined(lines: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(lines.flatMap((line) => [NEWLINE, ...line]).slice(1));
}

export function toFile({ name, lines, ended }: FileLines): LogFile {
  const bytes = [...joined(lines)];
  if (lines.length > 0 && ended) bytes.push(NEWLINE);
  return { name, bytes: new Uint8Array(bytes) };
}

export function decision(outcome: "allowed" | "ask" | "denied", n = 0): AuditEvent {
  const grant = outcome === "denied"
    ? { grant: null, grant_sha256: null }
    : { grant: "notes-read", grant_sha256: sha256(new Uint8Array()) };
  return {
    type: "decision",
    session: "s1",
    call: `c${n}`,
    tool: "read_file",
    arguments: `{"path":"/n/${n}"}`,
    outcome: outcome === "denied" ? denied("no_grant") : { outcome },
    ...grant,
    taint: "private",
    untrusted: false,
  };
}

/** The answer to the decision `seq`. */
export function approval(
  seq: number,
  answer: "approved" | "refused" | "expired",
  outcome: "allowed" | "ask" = "ask",
): AuditEvent {
  const denials = { refused: "approval_refused", expired: "approval_expired" } as const;
  return {
    type: "approval",
    session: "s1",
    call: "c0",
    decision: seq,
    answer,
    by: answer === "expired" ? null : "bxctl",
    post: null,
    reason: answer === "refused" ? "no" : null,
    outcome: answer === "approved" ? { outcome } : denied(denials[answer]),
  };
}

/** The result of the decision `seq`. */
export function result(seq: number): AuditEvent {
  return {
    type: "result",
    session: "s1",
    call: "c0",
    decision: seq,
    status: "result",
    class: "private",
    untrusted: false,
    truncated: false,
    bytes: 7,
    sha256: sha256(new Uint8Array(7)),
    taint_after: "private",
  };
}

/** The recovery of `lines`. */
export function recovery(lines: readonly Uint8Array[]): AuditEvent {
  const torn = joined(lines);
  return { type: "recovery", torn_bytes: torn.length, torn_sha256: sha256(torn) };
}

export function acceptedBreak({ file, line }: Location, lastGood: Hash32): AuditEvent {
  return { type: "accepted_break", file, line, last_good: lastGood };
}

/** What a record's header says, where it is not what follows. */
export interface Header {
  readonly seq?: number;
  readonly prev?: Hash32;
  readonly time?: string;
}

/** A log that grows record by record. */
export class LogBuilder {
  readonly #files: { name: string; lines: Uint8Array[]; ended: boolean }[] = [];
  #nextSeq = 0;
  #head = ZERO_HASH;

  /** Hash of the last record. */
  get head(): Hash32 {
    return this.#head;
  }

  get nextSeq(): number {
    return this.#nextSeq;
  }

  /** Goes on in a new file. */
  file(name: string): this {
    this.#files.push({ name, lines: [], ended: true });
    return this;
  }

  /** Writes a record in order, or as `header` says; the next one follows it. */
  add(event: AuditEvent, header: Header = {}): this {
    const seq = header.seq ?? this.#nextSeq;
    const day = this.#last.name.slice(0, 10);
    const line = encodeRecord({
      seq,
      time: header.time ?? `${day}T10:00:00.000Z`,
      prev: header.prev ?? this.#head,
      event,
    });
    this.#nextSeq = seq + 1;
    this.#head = sha256(line);
    return this.raw(line);
  }

  /** Writes a line that nothing follows. */
  raw(line: Uint8Array): this {
    this.#last.lines.push(line);
    return this;
  }

  /** Takes the newline of the last line away. */
  unended(): this {
    this.#last.ended = false;
    return this;
  }

  /** The log so far, as lines. */
  lines(): FileLines[] {
    return this.#files.map(({ name, lines, ended }) => ({ name, lines: [...lines], ended }));
  }

  /** The log so far, as files. */
  files(): LogFile[] {
    return this.#files.map(toFile);
  }

  get #last(): { name: string; lines: Uint8Array[]; ended: boolean } {
    const last = this.#files.at(-1);
    if (last === undefined) throw new Error("no file yet");
    return last;
  }
}
