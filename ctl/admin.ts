/** What `bxctl` asks of brokerd (specification 6, "Admin messages"). Every failure is a `Failed`. */
import type { DecisionRecord } from "../proto/decisions.ts";
import { Call, ClientError } from "../proto/io/client.ts";
import type {
  ApprovalChange,
  GrantProblem,
  Kind,
  Message,
  PendingApproval,
} from "../proto/messages.ts";
import { noAnswer, refused } from "./notices.ts";
import { type Group, groupsOf } from "./waiting.ts";

/** How long brokerd may take for one frame, in milliseconds: it may have to sync a slow disk. */
const ANSWER_TIMEOUT_MS = 60_000;

type Request = Extract<
  Message,
  { kind: "approvals" | "approve" | "refuse" | "check_grants" | "changes" }
>;

/** brokerd, as reached through the socket at `path`. */
export class Admin {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /** The calls that wait, by number. */
  async approvals(): Promise<PendingApproval[]> {
    const items: PendingApproval[] = [];
    const request = { kind: "approvals", final: true, body: {} } as const;
    for await (const { body } of this.#ask(request, "approval_list", null)) {
      items.push(...body.items);
    }
    return items.sort((a, b) => a.approval - b.approval);
  }

  /** The calls that wait, in their groups. */
  async waiting(): Promise<Group[]> {
    return groupsOf(await this.approvals(), await this.changes());
  }

  /** Approves a call; gives the re-decision. */
  async approve(approval: number): Promise<DecisionRecord> {
    const request = { kind: "approve", final: true, body: { approval } } as const;
    return (await this.#askOnce(request, "approve_result", approval)).body.outcome;
  }

  async refuse(approval: number, reason: string | null): Promise<void> {
    const request = { kind: "refuse", final: true, body: { approval, reason } } as const;
    await this.#askOnce(request, "ok", approval);
  }

  async checkGrants(): Promise<readonly GrantProblem[]> {
    const request = { kind: "check_grants", final: true, body: {} } as const;
    return (await this.#askOnce(request, "grants_report", null)).body.problems;
  }

  /** What has changed for the waiting calls since each was asked about; the others are left out. */
  async changes(): Promise<readonly ApprovalChange[]> {
    const request = { kind: "changes", final: true, body: {} } as const;
    return (await this.#askOnce(request, "change_list", null)).body.items;
  }

  async #askOnce<K extends Kind>(
    request: Request,
    answer: K,
    approval: number | null,
  ): Promise<Message<K>> {
    for await (const message of this.#ask(request, answer, approval)) return message;
    throw new Error("an exchange without an answer");
  }

  /** The answers to `request`, up to the final one. `approval`: the one that it is about. */
  async *#ask<K extends Kind>(
    request: Request,
    answer: K,
    approval: number | null,
  ): AsyncGenerator<Message<K>, void> {
    let call: Call<Kind> | null = null;
    try {
      call = await Call.open<Kind>(this.#path, request, [answer, "error"]);
      for (let last = false; !last;) {
        const message = await call.next(ANSWER_TIMEOUT_MS);
        if (message.kind === "error") throw refused("brokerd", message.body, approval);
        if (!isOf(message, answer)) throw new ClientError("bad_answer");
        last = message.final;
        yield message;
      }
    } catch (error) {
      throw error instanceof ClientError ? noAnswer("brokerd", this.#path, error) : error;
    } finally {
      call?.close();
    }
  }
}

function isOf<K extends Kind>(message: Message, kind: K): message is Extract<Message, Message<K>> {
  return message.kind === kind;
}
