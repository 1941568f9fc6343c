/**
 * What brokerd and its clients leave behind, made by hand from the specification (5; contracts 2, 4 and 5) with its
 * own hashes: for the tests of the torture harness's checker.
 */
import { createHash } from "node:crypto";
import {
  type CallSeen,
  check,
  type Checked,
  type Evidence,
} from "../../scripts/torture/checker.ts";

export const hashOf = (text: string | Uint8Array) =>
  createHash("sha256").update(text).digest("hex");
export const ZEROS = "0".repeat(64);
export const FILE = "2026-12-01.jsonl";
export const NEXT = "2026-12-02.jsonl";

export type Json = Readonly<Record<string, unknown>>;

export const argumentsOf = (call: string) => JSON.stringify({ path: `/x/${call}` });

export function decision(session: string, call: string, outcome: Json, more: Json = {}): Json {
  return {
    ...{
      type: "decision",
      session,
      call,
      tool: "read_file",
      arguments: argumentsOf(call),
      outcome,
    },
    ...{ grant: "g", grant_sha256: hashOf("g"), taint: "private", untrusted: false, ...more },
  };
}

export function approval(
  session: string,
  call: string,
  seq: number,
  answer: string,
  outcome: Json,
): Json {
  const by = answer === "expired" ? null : "bxctl";
  return {
    ...{ type: "approval", session, call, decision: seq, answer, by, post: null, reason: null },
    outcome,
  };
}

export function result(
  session: string,
  call: string,
  seq: number,
  content: string,
  more: Json = {},
): Json {
  return {
    ...{ type: "result", session, call, decision: seq, status: "result", class: "private" },
    ...{ untrusted: false, truncated: false, bytes: content.length, sha256: hashOf(content) },
    ...{ taint_after: "private", ...more },
  };
}

export const ALLOWED = { outcome: "allowed" };
export const ASK = { outcome: "ask" };
export const denied = (reason: string) => ({ outcome: "denied", reason });
/** The frame of `body`. */
export const answer = (body: Json) => ({
  ...{ v: 1, kind: "tool_response", final: body.status !== "pending_approval" },
  body,
});

/** A story in a temporary place, as it should be. A case spoils it before it is checked. */
export class Scene implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-checker-" });
  readonly audit = `${this.root}/audit`;
  readonly sessions = `${this.root}/sessions`;
  /** The log by file, an event a line. */
  events: Record<string, Json[]> = {
    [FILE]: [
      decision("s1", "c0", denied("no_grant"), { grant: null, grant_sha256: null }),
      decision("s1", "c1", ALLOWED),
      result("s1", "c1", 1, "one"),
      decision("s1", "c2", ASK),
      approval("s1", "c2", 3, "approved", ASK),
      result("s1", "c2", 3, "two"),
    ],
    [NEXT]: [
      decision("s2", "c3", ASK),
      approval("s2", "c3", 6, "refused", denied("approval_refused")),
      decision("s2", "c4", ALLOWED),
      result("s2", "c4", 8, "sad", {
        ...{ status: "failed", class: "secret", untrusted: true, taint_after: "secret" },
      }),
      decision("s2", "c5", ASK, { taint: "secret", untrusted: true }),
    ],
  };
  calls: CallSeen[] = [
    this.call("s1", "c0", { status: "denied", reason: "no_grant" }),
    this.call("s1", "c1", this.content("one")),
    this.call(
      "s1",
      "c2",
      { status: "pending_approval", approval: 3, expires: "x" },
      this.content("two"),
    ),
    this.call("s2", "c3", { status: "denied", reason: "approval_refused" }),
    this.call("s2", "c4", { status: "failed", message: "sad" }),
    this.call("s2", "c5", { status: "pending_approval", approval: 10, expires: "x" }),
    // What has no record: a writer that was latched, and a connection that ended.
    this.call("s2", "c6", { status: "denied", reason: "audit_unavailable" }),
    this.call("s2", "c7"),
  ];
  owner: Evidence["owner"] = [
    { kind: "approve", approval: 3, answer: { kind: "approve_result", body: { outcome: ASK } } },
    { kind: "refuse", approval: 6, answer: { kind: "ok", body: {} } },
    { kind: "approve", approval: 10, answer: null },
  ];
  runs = ["c1", "c2", "c4"].map((call) => ({ tool: "read_file", arguments: argumentsOf(call) }));
  states: Record<string, string> = {
    s1: '{"taint":"private","untrusted":false}',
    s2: '{"taint":"secret","untrusted":true}',
  };
  before: [string, { taint: string; untrusted: boolean }][] = [];
  mayBeTorn = false;
  /** Changes the text of a file, or what `head.json` says, before it is written. */
  spoil: (texts: Record<string, string>) => void = () => {};
  /** Changes what is on disk, after it is written. */
  afterwards: () => void = () => {};

  call(session: string, call: string, ...bodies: Json[]): CallSeen {
    const answers = bodies.map(answer);
    return { session, call, tool: "read_file", arguments: argumentsOf(call), answers };
  }

  content(content: string): Json {
    return { status: "result", content, class: "private", untrusted: false, truncated: false };
  }

  check(): Checked {
    const texts: Record<string, string> = {};
    let prev = ZEROS;
    let seq = 0;
    for (const [name, events] of Object.entries(this.events)) {
      texts[name] = "";
      for (const event of events) {
        const line = JSON.stringify({ seq, time: "2026-12-01T10:00:00.000Z", prev, event });
        texts[name] += `${line}\n`;
        prev = hashOf(line);
        seq += 1;
      }
    }
    texts["head.json"] = `${JSON.stringify({ seq: seq - 1, hash: prev }).padEnd(127)}\n`;
    this.spoil(texts);
    for (const directory of [this.audit, this.sessions]) Deno.mkdirSync(directory);
    for (const [name, text] of Object.entries(texts)) {
      Deno.writeTextFileSync(`${this.audit}/${name}`, text);
    }
    for (const [session, text] of Object.entries(this.states)) {
      Deno.writeTextFileSync(`${this.sessions}/${session}.json`, text);
    }
    this.afterwards();
    const { audit, sessions, calls, owner, runs, mayBeTorn } = this;
    const before = new Map(this.before);
    return check({ audit, sessions, calls, owner, runs, before, mayBeTorn });
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}
