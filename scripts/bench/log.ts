/** An audit log of any size, of real records in the order of real calls. */
import { type AuditEvent, auditFileName, encodeRecord } from "../../proto/audit.ts";
import { sha256, timestamp, ZERO_HASH } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";

const START = Date.UTC(2025, 0, 1);
const DAY_MS = 24 * 60 * 60 * 1000;
/** Between two records of a file, in milliseconds. */
const STEP_MS = 7;
const BUFFER_BYTES = 1024 * 1024;
const NEWLINE = 0x0a;

/** The events of one call. `seq`: of its decision. */
export type EventsOf = (seq: number) => AuditEvent[];

/** Of a call that has run: half decisions, half results. */
function ran(seq: number): AuditEvent[] {
  const session = `chat-17961213${seq % 97}-2d1418e9`;
  const call = `call${seq}`;
  const path = `/srv/notes/2026/project-${seq % 1000}/a file with a longer name ${seq}.md`;
  return [
    {
      type: "decision",
      ...{ session, call, tool: "read_file", arguments: JSON.stringify({ path }) },
      outcome: { outcome: "allowed" },
      grant: "notes-read",
      grant_sha256: sha256(utf8(`grant ${seq % 10}`)),
      ...{ taint: "private", untrusted: false },
    },
    {
      type: "result",
      ...{ session, call, decision: seq, status: "result", class: "private" },
      ...{ untrusted: false, truncated: false, bytes: 1234 + seq % 1000 },
      sha256: sha256(utf8(`result ${seq}`)),
      taint_after: "private",
    },
  ];
}

/** Of a call that no grant covered: a decision and nothing else. */
export function denied(seq: number): AuditEvent[] {
  return [{
    ...{ type: "decision", session: "s1", call: `c${seq}`, tool: "read_file" },
    arguments: `{"path":"/srv/notes/${seq}/a.md"}`,
    ...{ outcome: { outcome: "denied", reason: "no_grant" }, grant: null, grant_sha256: null },
    ...{ taint: "private", untrusted: false },
  }];
}

/** Collects small pieces, and writes them when there are many. */
class Writer implements Disposable {
  readonly #file: Deno.FsFile;
  readonly #buffer = new Uint8Array(BUFFER_BYTES);
  #size = 0;

  constructor(path: string) {
    this.#file = Deno.openSync(path, { write: true, createNew: true, mode: 0o600 });
  }

  line(bytes: Uint8Array): void {
    if (this.#size + bytes.length >= BUFFER_BYTES) this.#flush();
    this.#buffer.set(bytes, this.#size);
    this.#buffer[this.#size + bytes.length] = NEWLINE;
    this.#size += bytes.length + 1;
  }

  #flush(): void {
    for (let at = 0; at < this.#size;) {
      at += this.#file.writeSync(this.#buffer.subarray(at, this.#size));
    }
    this.#size = 0;
  }

  [Symbol.dispose](): void {
    this.#flush();
    this.#file.close();
  }
}

/**
 * Writes a whole log into `directory`, which is made: one file a day, with `files[n]` records on day `n`.
 * Returns the paths of its files.
 */
export function writeLog(
  directory: string,
  files: readonly number[],
  eventsOf: EventsOf = ran,
): string[] {
  Deno.mkdirSync(directory, { mode: 0o700 });
  let seq = 0;
  let prev = ZERO_HASH;
  let waiting: AuditEvent[] = [];
  return files.map((records, day) => {
    const start = START + day * DAY_MS;
    const path = `${directory}/${auditFileName(timestamp(start))}`;
    using writer = new Writer(path);
    for (let n = 0; n < records; n += 1) {
      if (waiting.length === 0) waiting = eventsOf(seq);
      const event = waiting.shift();
      if (event === undefined) throw new Error("a call has events");
      const line = encodeRecord({ seq, time: timestamp(start + n * STEP_MS), prev, event });
      writer.line(line);
      prev = sha256(line);
      seq += 1;
    }
    return path;
  });
}
