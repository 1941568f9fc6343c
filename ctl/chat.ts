/** `bxctl chat` (specification 9; contracts 4 and 6). */
import type { SessionId } from "../proto/ids.ts";
import {
  type ApprovalChange,
  type Body,
  type PendingApproval,
  STOPPED,
  type TurnEvent,
} from "../proto/messages.ts";
import { assertNever } from "../proto/text.ts";
import type { Admin } from "./admin.ts";
import { approve } from "./approve.ts";
import { askToApprove } from "./ask.ts";
import { approvalBlock } from "./block.ts";
import { answerJson, type Io, reportFailure, type Status } from "./io.ts";
import type { Lines } from "./lines.ts";
import { Failed, notices } from "./notices.ts";
import { Printer } from "./printer.ts";
import { refuse } from "./refuse.ts";
import { Stopper } from "./stop.ts";
import { Turn } from "./turn.ts";
import { changedLine, changeOf, type Group, groupAround, notesOf } from "./waiting.ts";

export interface ChatOptions {
  readonly loopSocket: string;
  /** To go on with; null for a new one. */
  readonly session: SessionId | null;
  /** The one message to send; null for a chat. */
  readonly say: string | null;
  readonly json: boolean;
  /** How wide the terminal is that the turns are shown on, in columns; null where lines may be longer. */
  readonly columns: (() => number) | null;
  /** Ends the program as Ctrl-C does. */
  readonly leave: () => never;
}

type ApprovalPending = Extract<TurnEvent, { type: "approval_pending" }>;

/** Talks with the model. Throws `Failed` where loopd cannot be reached. */
export async function chat(
  options: ChatOptions,
  admin: Admin,
  lines: Lines,
  io: Io,
): Promise<Status> {
  const conversation = new Conversation(options, admin, lines, io);
  return options.say === null
    ? await conversation.run()
    : await conversation.turn(options.say)
    ? 0
    : 1;
}

class Conversation {
  readonly #options: ChatOptions;
  readonly #admin: Admin;
  readonly #lines: Lines;
  readonly #io: Io;
  readonly #printer: Printer;
  /** The session of the turns so far; every further turn goes on with it. */
  #session: SessionId | null;
  #sessionTold = false;
  /** The last call that has no result yet. */
  #call: Extract<TurnEvent, { type: "tool_call" }> | null = null;
  /** The question of an approval is on the screen. */
  #asking = false;

  constructor(options: ChatOptions, admin: Admin, lines: Lines, io: Io) {
    this.#options = options;
    this.#admin = admin;
    this.#lines = lines;
    this.#io = io;
    this.#printer = new Printer(io, options.columns);
    this.#session = options.session;
  }

  /** A turn for each message, until the input ends. */
  async run(): Promise<Status> {
    while (true) {
      const input = await this.#lines.message();
      switch (input.kind) {
        case "line":
          if (input.text.trim() !== "") await this.#turnOfMany(input.text);
          break;
        case "not_utf8":
          this.#io.tell(...notices.notUtf8());
          break;
        case "interrupted":
          return this.#options.leave();
        default:
          return 0;
      }
    }
  }

  /** A turn that went wrong does not end the chat, unless the next one cannot go better. */
  async #turnOfMany(text: string): Promise<void> {
    try {
      await this.turn(text);
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      // Who sits before it can start loopd, or wait for it, and send the message again.
      const away = error.code === "unreachable" && !this.#lines.isTerminal;
      if (away || error.code === "no_permission") throw error;
      reportFailure(this.#io, error, this.#options.json);
    }
  }

  /** Sends `text` and prints the turn; whether that came to its end. Ctrl-C stops it. */
  async turn(text: string): Promise<boolean> {
    const { loopSocket: path, leave } = this.#options;
    let turn: Turn | null = null;
    const stopper = new Stopper({
      path,
      leave,
      hangUp: () => turn?.close(),
      stopping: () => {
        if (!this.#asking) this.#tellStopping();
      },
    });
    this.#call = null;
    this.#lines.interrupted = () => stopper.press();
    try {
      turn = await Turn.start(path, this.#session, text);
      return await this.#follow(turn, stopper);
    } catch (error) {
      // Hanging up was what was left to do.
      if (!(error instanceof Failed) || !stopper.signal.aborted) throw error;
      this.#printer.endLine();
      this.#io.tell(...notices.hungUp());
      return false;
    } finally {
      turn?.close();
      this.#printer.endLine();
      await stopper.settled();
      this.#lines.interrupted = () => {};
    }
  }

  async #follow(turn: Turn, stopper: Stopper): Promise<boolean> {
    let last: TurnEvent | null = null;
    for (let event = await turn.next(); event !== null; event = await turn.next()) {
      if (event.type === "session") {
        this.#session = event.session;
        stopper.known(event.session);
      }
      if (event.type === "tool_call") this.#call = event;
      if (event.type === "tool_result") this.#call = null;
      if (this.#options.json) answerJson(this.#io, event);
      else await this.#show(event, turn, stopper.signal);
      last = event;
    }
    return last?.type === "done";
  }

  #tellStopping(): void {
    this.#printer.endLine();
    this.#io.tell(...notices.stopping());
  }

  async #show(event: Body<"turn_event">, turn: Turn, stopped: AbortSignal): Promise<void> {
    switch (event.type) {
      case "session":
        if (!this.#sessionTold) this.#io.tell(...notices.session(event.session));
        this.#sessionTold = true;
        return;
      case "text":
      case "reasoning":
        return this.#printer.prose(event);
      case "tool_call":
        return this.#printer.call(event);
      case "tool_result":
        return this.#printer.result(event);
      case "approval_pending":
        return await this.#showApproval(event, turn, stopped);
      case "done":
        return this.#printer.endLine();
      case "failed":
        this.#printer.endLine();
        if (event.message !== STOPPED) return this.#io.tell(...notices.turnFailed(event.message));
        if (this.#call !== null && this.#session !== null) {
          this.#printer.stopped(this.#call, this.#session);
        }
        return this.#io.tell(...notices.stopped());
      default:
        return assertNever(event);
    }
  }

  /** Prints the waiting call as brokerd has it, since loopd's word is not enough to approve on. */
  async #showApproval(event: ApprovalPending, turn: Turn, stopped: AbortSignal): Promise<void> {
    const { approval } = event;
    let found: Group | null;
    try {
      found = groupAround(approval, await this.#admin.approvals(), await this.#admin.changes());
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      this.#printer.pending(event);
      return this.#io.tell(...error.lines, ...notices.leftPending(approval));
    }
    if (found === null) {
      this.#printer.pending(event);
      return this.#io.tell(...notices.notPending(approval));
    }
    const block = approvalBlock(found.item, this.#io.now(), true, this.#io.width, notesOf(found));
    this.#printer.lines(block);
    if (stopped.aborted) return;
    const asks = this.#lines.isTerminal && this.#options.say === null;
    if (!asks) return this.#io.tell(...notices.leftPending(approval));
    // Where stdout goes elsewhere, the owner must still see what is asked about.
    if (!this.#io.terminal) this.#io.prompt(block);
    await this.#ask(found.item, found.change, turn, stopped);
  }

  /** Asks, and again where something has changed that was not `shown` when the owner said yes. */
  async #ask(
    item: PendingApproval,
    shown: ApprovalChange | null,
    turn: Turn,
    stopped: AbortSignal,
  ): Promise<void> {
    const { approval, call } = item;
    const ended = AbortSignal.any([turn.endOf(call), stopped]);
    this.#asking = true;
    const answer = await askToApprove(approval, this.#lines, this.#io, ended)
      .finally(() => this.#asking = false);
    if (stopped.aborted) this.#tellStopping();
    try {
      if (answer === "yes") {
        const change = changeOf(approval, await this.#admin.changes());
        const line = changedLine(item, change);
        if (line !== null && line !== changedLine(item, shown)) {
          this.#io.tell(...notices.changedMeanwhile(line));
          return await this.#ask(item, change, turn, stopped);
        }
        await approve(this.#admin, this.#io, false, approval);
      } else if (answer === "no") await refuse(this.#admin, this.#io, false, approval, null);
      else this.#io.tell(...notices.withdrawn(approval));
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      this.#io.tell(...error.lines);
    }
  }
}
