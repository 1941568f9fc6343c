/** Audit logs that tell of calls: events of any session at any time, in a home of their own. */
import { type AuditEvent, auditFileName, encodeHead, encodeRecord } from "../../proto/audit.ts";
import { type Hash32, sha256, type Timestamp, ZERO_HASH } from "../../proto/ids.ts";

type EventOf<T extends AuditEvent["type"]> = Extract<AuditEvent, { type: T }>;
type Fields<T extends AuditEvent["type"]> = Partial<Omit<EventOf<T>, "type">>;

/** An allowed call of `read_file` unless `fields` say otherwise. */
export function decided(fields: Fields<"decision"> = {}): AuditEvent {
  return {
    type: "decision",
    session: "chat-1",
    call: "c1",
    tool: "read_file",
    arguments: '{"path":"/home/o/notes.md"}',
    outcome: { outcome: "allowed" },
    grant: "notes-read",
    grant_sha256: ZERO_HASH,
    taint: "public",
    untrusted: false,
    ...fields,
  };
}

/** The owner's yes to the decision `decision`. */
export function answered(decision: number, fields: Fields<"approval"> = {}): AuditEvent {
  return {
    type: "approval",
    session: "chat-1",
    call: "c1",
    decision,
    answer: "approved",
    by: "bxctl",
    post: null,
    reason: null,
    outcome: { outcome: "ask" },
    ...fields,
  };
}

/** A result of the decision `decision`. */
export function ended(decision: number, fields: Fields<"result"> = {}): AuditEvent {
  return {
    type: "result",
    session: "chat-1",
    call: "c1",
    decision,
    status: "result",
    class: "public",
    untrusted: false,
    truncated: false,
    bytes: 5,
    sha256: ZERO_HASH,
    taint_after: "public",
    ...fields,
  };
}

/** A home whose log a test writes. */
export class CallsHome implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-" });
  readonly audit = `${this.root}/audit`;
  #seq = 0;
  #prev: Hash32 = ZERO_HASH;

  constructor() {
    Deno.mkdirSync(this.audit);
    Deno.mkdirSync(`${this.root}/grants`);
  }

  /** Appends `event`, and gives its number. */
  add(time: Timestamp, event: AuditEvent): number {
    return this.addAll([[time, event]]);
  }

  /** Appends many at once to the file of the first one, and gives the number of the last. */
  addAll(events: readonly (readonly [Timestamp, AuditEvent])[]): number {
    const [[first] = [""]] = events;
    const decoder = new TextDecoder();
    const lines = events.map(([time, event]) => {
      const line = encodeRecord({ seq: this.#seq, time, prev: this.#prev, event });
      this.#seq += 1;
      this.#prev = sha256(line);
      return `${decoder.decode(line)}\n`;
    });
    Deno.writeTextFileSync(this.path(first), lines.join(""), { append: true });
    const seq = this.#seq - 1;
    Deno.writeFileSync(`${this.audit}/head.json`, encodeHead({ seq, hash: this.#prev }));
    return seq;
  }

  /** The file that a record of `time` starts. */
  path(time: Timestamp): string {
    return `${this.audit}/${auditFileName(time)}`;
  }

  /** Bytes in no form of a record, without a newline unless they have one. */
  append(time: Timestamp, text: string): void {
    Deno.writeTextFileSync(this.path(time), text, { append: true });
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

/** The time of 1 December 2026 that is `clock`, such as `10:00:00`. */
export function at(clock: string): Timestamp {
  return `2026-12-01T${clock}.000Z`;
}

/**
 * A day of two sessions with every way in which a call comes out. Numbers: 0 and 1 allowed, 2 denied, 3 to
 * 5 approved, 6 and 7 refused, 8 and 9 expired, 10 and 11 failed, 12 pending, 13 unfinished.
 */
export function aDay(home: CallsHome): void {
  const chat2 = { session: "chat-2" };
  const shell = { tool: "shell", grant: "shell-ask", outcome: { outcome: "ask" } } as const;
  const command = (text: string) => ({ arguments: JSON.stringify({ command: text }) });
  home.add(at("09:00:00"), decided());
  home.add(at("09:00:01"), ended(0, { class: "private", taint_after: "private" }));
  home.add(
    at("09:01:00"),
    decided({
      ...{ call: "c2", tool: "write_file", arguments: '{"path":"/etc/passwd","content":"x"}' },
      ...{ outcome: { outcome: "denied", reason: "no_grant" }, grant: null, grant_sha256: null },
      taint: "private",
    }),
  );
  home.add(
    at("09:02:00"),
    decided({ ...shell, ...command("ls -l"), call: "c3", taint: "private" }),
  );
  home.add(at("09:02:30"), answered(3, { call: "c3" }));
  home.add(at("09:02:31"), ended(3, { call: "c3", taint_after: "secret" }));
  home.add(at("09:10:00"), decided({ ...chat2, ...shell, ...command("rm -rf /") }));
  home.add(
    at("09:12:00"),
    answered(6, {
      ...chat2,
      ...{ answer: "refused", reason: "not that" },
      outcome: { outcome: "denied", reason: "approval_refused" },
    }),
  );
  home.add(at("09:20:00"), decided({ ...chat2, ...shell, ...command("make"), call: "c2" }));
  home.add(
    at("09:35:00"),
    answered(8, {
      ...{ ...chat2, call: "c2", answer: "expired", by: null },
      outcome: { outcome: "denied", reason: "approval_expired" },
    }),
  );
  home.add(
    at("09:40:00"),
    decided({
      ...{ ...chat2, call: "c3", tool: "http_fetch", grant: "web" },
      arguments: '{"url":"https://example.com/a"}',
    }),
  );
  home.add(at("09:40:02"), ended(10, { ...chat2, call: "c3", status: "failed" }));
  home.add(at("09:50:00"), decided({ ...chat2, ...shell, ...command("date"), call: "c4" }));
  home.add(at("09:51:00"), decided({ call: "c4", taint: "secret" }));
}
