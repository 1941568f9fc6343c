/**
 * The audit log on a disk that may lose things, as far as no crash can take it away: read by nothing of
 * the broker's, line by line as it grows.
 */
import assert from "node:assert/strict";
import type { AuditEvent, AuditRecord } from "../../proto/audit.ts";
import { isAuditFileName, parseHead } from "../../proto/audit.ts";
import type { ChainReport } from "../../proto/chain.ts";
import { sha256, ZERO_HASH } from "../../proto/ids.ts";
import { fromUtf8 } from "../../proto/text.ts";
import { verify } from "./audit_case.ts";
import type { LosingFiles } from "./losing_files.ts";

/** A record, and the hash of its line. */
export interface Settled {
  readonly record: AuditRecord;
  readonly hash: string;
}

export class SettledLog {
  /** The records, in order; a recovered line is none. */
  readonly settled: Settled[] = [];
  /** The events of each call, in order. */
  readonly #byCall = new Map<string, AuditRecord[]>();
  /** Bytes read of each file. */
  readonly #read = new Map<string, number>();
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Reads on, and gives the records that came to be settled since. Fails where they do not chain. */
  read(files: LosingFiles): AuditRecord[] {
    const from = this.settled.length;
    for (const name of files.names(this.#directory).filter(isAuditFileName)) {
      const [bytes, ...others] = files.survivors(`${this.#directory}/${name}`);
      if (bytes === null || bytes === undefined || others.length > 0) continue;
      let at = this.#read.get(name) ?? 0;
      for (let end = bytes.indexOf(0x0a, at); end >= 0; end = bytes.indexOf(0x0a, at)) {
        this.#take(bytes.subarray(at, end));
        at = end + 1;
      }
      this.#read.set(name, at);
    }
    return this.settled.slice(from).map(({ record }) => record);
  }

  #take(line: Uint8Array): void {
    const record = parsed(line);
    if (record === null) return; // torn: the verifier says whether it is recovered
    if (record.event.type === "recovery" && this.settled.at(-1)?.record.seq === record.seq) {
      // The line before was whole, but without its newline.
      const torn = this.settled.pop()?.record;
      if (torn !== undefined && "call" in torn.event) this.#byCall.get(torn.event.call)?.pop();
    }
    const before = this.settled.at(-1);
    assert.equal(record.seq, before === undefined ? 0 : before.record.seq + 1, "seq");
    assert.equal(record.prev, before?.hash ?? ZERO_HASH, "prev");
    this.settled.push({ record, hash: sha256(line) });
    if (!("call" in record.event)) return;
    const own = this.#byCall.get(record.event.call) ?? [];
    this.#byCall.set(record.event.call, [...own, record]);
  }

  /** The records of a call, in order. */
  of(call: string): readonly AuditRecord[] {
    return this.#byCall.get(call) ?? [];
  }

  /** The call's record of this type, or undefined. */
  event<T extends AuditEvent["type"]>(
    call: string,
    type: T,
  ): Extract<AuditEvent, { type: T }> | undefined {
    const is = (event: AuditEvent): event is Extract<AuditEvent, { type: T }> =>
      event.type === type;
    return this.of(call).map(({ event }) => event).find(is);
  }
}

function parsed(line: Uint8Array): AuditRecord | null {
  try {
    return JSON.parse(fromUtf8(line) ?? "");
  } catch {
    return null;
  }
}

/** What verifying the log gives that the next process would find, against its `head.json` too. */
export function verifyLog(files: LosingFiles, directory: string): ChainReport {
  const logs = files.names(directory).filter(isAuditFileName).map((name) => ({
    name,
    bytes: files.content(`${directory}/${name}`) ?? new Uint8Array(),
  }));
  const head = files.content(`${directory}/head.json`);
  return verify(logs, { head: head === null ? null : parseHead(head), expected: null });
}

/** The files of the log that hold what a crash may still take away. */
export function unsettled(files: LosingFiles, directory: string): string[] {
  return files.names(directory).filter(isAuditFileName).filter((name) => {
    const path = `${directory}/${name}`;
    const size = files.content(path)?.length;
    return files.survivors(path).some((bytes) => bytes?.length !== size);
  });
}
