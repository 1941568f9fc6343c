/** `bxctl approvals --watch` without its terminal, for tests: its state, drawn at once whatever happens. */
import type { Key } from "../../ctl/watch_keys.ts";
import { groupsOf } from "../../ctl/waiting.ts";
import { Composer, type Size } from "../../ctl/watch_screen.ts";
import {
  next,
  type Shown,
  START,
  type WatchEvent,
  type WatchState,
} from "../../ctl/watch_state.ts";
import type { ApprovalChange, PendingApproval } from "../../proto/messages.ts";
import { pending } from "./daemons.ts";

/** A call for which nothing has changed. */
export const SAME = { grant: null, taint: null, untrusted: false, unreadable: false } as const;
const SIZE: Size = { columns: 80, rows: 24 };

/** A watch with its screen: whatever happens is drawn at once, as the program does. */
export class Bench {
  state: WatchState = START;
  /** In milliseconds. */
  now = 0;
  size = SIZE;
  /** What the screen shows of the selected call. */
  shown: Shown | null = null;
  readonly #composer = new Composer();

  take(event: WatchEvent): void {
    this.state = next(this.state, event, this.now);
    this.draw();
  }

  draw(): void {
    this.shown = this.#composer.compose(this.state, this.size, this.now, 0).shown;
    this.state = next(this.state, { kind: "drawn", shown: this.shown }, this.now);
  }

  list(items: readonly PendingApproval[], changes: readonly ApprovalChange[] = []): void {
    this.take({ kind: "list", groups: groupsOf(items, changes) });
  }

  /** Presses `key`; the answer that is to be sent then, such as `approve 41`. */
  key(key: Key): string | null {
    this.take({ kind: "key", key });
    const { answer } = this.state;
    return answer === null ? null : `${answer.kind} ${answer.approval}`;
  }
}

/** Three calls, each of its own session. */
export const [A, B, C] = [41, 42, 43].map((approval) =>
  pending({ approval, session: `s${approval}` })
) as [
  PendingApproval,
  PendingApproval,
  PendingApproval,
];
