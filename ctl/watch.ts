/** `bxctl approvals --watch` (docs/decisions.md, 102): its clock, its terminal and brokerd. */
import type { Admin } from "./admin.ts";
import { approve } from "./approve.ts";
import type { Io, Status } from "./io.ts";
import type { Source } from "./keyboard.ts";
import { KeyReader } from "./watch_keys.ts";
import { Failed, notices } from "./notices.ts";
import { refuse } from "./refuse.ts";
import { FullScreen } from "./terminal.ts";
import { terminalSize } from "./tty.ts";
import { Composer } from "./watch_screen.ts";
import {
  type Answer,
  next,
  STALE_MS,
  START,
  type WatchEvent,
  type WatchState,
} from "./watch_state.ts";

/** Between two questions to brokerd, in milliseconds. */
const POLL_MS = 500;
/** A question that took long is asked less often: brokerd answers calls too. */
const REST = 4;
/** But before the list is too old for an answer: a brokerd that was slow once may be well again. */
const LONGEST_REST_MS = STALE_MS - 2 * POLL_MS;
const CHUNK_BYTES = 1024;

/** Shows what waits, until `q` or until `stop` is aborted. `dumb`: the terminal cannot be drawn on. */
export async function watchApprovals(
  admin: Admin,
  io: Io,
  source: Source,
  dumb: boolean,
  stop: AbortSignal,
): Promise<Status> {
  if (dumb || !io.terminal || !source.isTerminal()) {
    io.tell(...notices.noScreen(dumb));
    return 2;
  }
  let left: Answer | null;
  {
    using screen = new FullScreen(io, source);
    left = await new Watch(admin, io, source, screen).run(stop);
  }
  if (left !== null) io.tell(...notices.answerLeft(left.approval));
  return 0;
}

class Watch {
  readonly #admin: Admin;
  readonly #io: Io;
  readonly #source: Source;
  readonly #screen: FullScreen;
  readonly #composer = new Composer();
  readonly #ended = Promise.withResolvers<void>();
  #state: WatchState = START;
  /** Ends the waiting between two questions. */
  #wake: () => void = () => {};
  #over = false;

  constructor(admin: Admin, io: Io, source: Source, screen: FullScreen) {
    this.#admin = admin;
    this.#io = io;
    this.#source = source;
    this.#screen = screen;
  }

  /** Runs to its end. What was being answered then, whose outcome is not known. */
  async run(stop: AbortSignal): Promise<Answer | null> {
    const end = () => this.#ended.resolve();
    const resized = () => {
      this.#screen.forget();
      this.#guarded(() => this.#draw());
    };
    stop.addEventListener("abort", end);
    Deno.addSignalListener("SIGWINCH", resized);
    // Times go by on the screen, too.
    const ticks = setInterval(() => this.#guarded(() => this.#draw()), POLL_MS);
    try {
      if (stop.aborted) return null;
      this.#draw();
      await Promise.race([this.#readKeys(), this.#askBroker(), this.#ended.promise]);
      return this.#state.answer;
    } finally {
      this.#over = true;
      clearInterval(ticks);
      Deno.removeSignalListener("SIGWINCH", resized);
      stop.removeEventListener("abort", end);
      this.#wake();
    }
  }

  async #readKeys(): Promise<void> {
    const keys = new KeyReader();
    const chunk = new Uint8Array(CHUNK_BYTES);
    while (!this.#state.quit) {
      // A terminal that has gone away fails; that is its end.
      const count = await this.#source.read(chunk).catch(() => null);
      if (count === null || this.#over) return;
      for (const key of keys.push(chunk.subarray(0, count))) {
        if (key === "redraw") this.#screen.forget();
        // A finger's letter comes alone. Several bytes at once may be a paste that the terminal does not
        // mark, or a report of a kind that `KeyReader` does not know.
        const crowded = count > 1 && (key === "approve" || key === "refuse");
        this.#take({ kind: "key", key: crowded ? "together" : key });
      }
    }
  }

  /** Asks brokerd for its list over and over, and sends what the owner answers, one thing at a time. */
  async #askBroker(): Promise<void> {
    while (!this.#over) {
      const began = performance.now();
      await this.#list();
      if (this.#over) return;
      const took = performance.now() - began;
      const { answer } = this.#state;
      // What is answered is what a list of this moment still has as it was seen.
      if (answer !== null && this.#state.away === null) await this.#send(answer);
      else await this.#wait(Math.min(LONGEST_REST_MS, Math.max(POLL_MS, REST * took)));
    }
  }

  async #list(): Promise<void> {
    try {
      this.#take({ kind: "list", groups: await this.#admin.waiting() });
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      this.#take({ kind: "away", lines: error.lines });
    }
  }

  /** Answers by the same code as `bxctl approve` and `bxctl refuse`. */
  async #send({ kind, approval }: Answer): Promise<void> {
    const said: string[] = [];
    const answer = (text: string) => void said.push(text.trimEnd());
    const tell = (...lines: readonly string[]) => void said.push(...lines);
    const io: Io = { ...this.#io, now: this.#io.now, answer, tell, prompt: answer };
    try {
      if (kind === "approve") await approve(this.#admin, io, false, approval);
      else await refuse(this.#admin, io, false, approval, null);
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      said.push(...error.lines);
    }
    this.#take({ kind: "answered", line: said.join("; ") });
  }

  /** Waits `ms` milliseconds, or until there is something to send or the end. */
  async #wait(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, ms);
    this.#wake = resolve;
    if (this.#over || this.#state.answer !== null) resolve();
    await promise;
    clearTimeout(timer);
  }

  /** Takes one event and draws what comes of it, so that the screen and the state are never apart. */
  #take(event: WatchEvent): void {
    if (this.#over) return;
    this.#state = next(this.#state, event, performance.now());
    this.#draw();
    if (this.#state.quit) this.#ended.resolve();
    if (this.#state.answer !== null) this.#wake();
  }

  #draw(): void {
    const { rows, shown } = this.#composer.compose(
      this.#state,
      terminalSize(),
      performance.now(),
      this.#io.now(),
    );
    this.#screen.draw(rows);
    this.#state = next(this.#state, { kind: "drawn", shown }, performance.now());
  }

  /** For what no caller waits for: a failure ends the watch. */
  #guarded(act: () => void): void {
    if (this.#over) return;
    try {
      act();
    } catch (error) {
      this.#ended.reject(error);
    }
  }
}
