/** What somebody may put where a daemon reads files, and a brokerd that is watched while it meets it. */
import assert from "node:assert/strict";
import type { FinalToolResponse } from "../../proto/messages.ts";
import { ask, Broker, namesOf, readFile, startBroker, TempHome, until } from "./broker.ts";
import { verifyDirectory } from "./log.ts";

/** Lines that make an `auto` grant of `read_file` beside what `TempHome.grant` adds. */
export const AUTO = 'tool = "read_file"\nmode = "auto"\n[constraints]\npaths = ["/n"]\n';
/** And a `deny` grant of the same. */
export const DENY = AUTO.replace('"auto"', '"deny"');
/** The whole text of such a file. */
export const whole = (fields: string) =>
  `max_taint = "secret"\nresult_class = "private"\n${fields}`;

/** Making devices and mounts takes the superuser. */
export const IS_ROOT = Deno.uid() === 0;

/** No daemon may need this much more memory for anything that lies in its directories, in KiB. */
const MAX_GROWTH_KIB = 192 * 1024;

/** Runs a program of the system, which must end well. Words may be anything but bytes that are no UTF-8. */
export function run(program: string, ...args: string[]): void {
  const { success, stderr } = new Deno.Command(program, { args }).outputSync();
  assert(success, `${program} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}

/** An empty directory that can be made read-only. Dispose of it before the directory is removed. */
export class ReadOnlyDirectory implements Disposable {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
    if (IS_ROOT) run("mount", "-t", "tmpfs", "none", path);
  }

  set(readOnly: boolean): void {
    if (IS_ROOT) run("mount", "-o", `remount,${readOnly ? "ro" : "rw"}`, this.#path);
    else Deno.chmodSync(this.#path, readOnly ? 0o500 : 0o700);
  }

  [Symbol.dispose](): void {
    if (IS_ROOT) run("umount", this.#path);
    else this.set(false);
  }
}

/** Whether this user can be kept from writing at all: the superuser only by a mount of his own. */
export function canBeReadOnly(): boolean {
  if (!IS_ROOT) return true;
  const path = Deno.makeTempDirSync({ prefix: "boxmaker-" });
  const mounted = new Deno.Command("mount", { args: ["-t", "tmpfs", "none", path] }).outputSync();
  if (mounted.success) run("umount", path);
  Deno.removeSync(path);
  return mounted.success;
}

export const mkfifo = (path: string) => run("mkfifo", path);

/** A file of `size` bytes that takes no room on the disk. */
export function sparse(path: string, size: number): void {
  using file = Deno.openSync(path, { write: true, createNew: true });
  file.truncateSync(size);
}

/** What a process holds: open files, and the most memory that it ever had, in KiB. */
export function holding(pid: number): { fds: number; peakKiB: number } {
  const [, peak] = /^VmHWM:\s*(\d+) kB$/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`)) ?? [];
  return { fds: namesOf(`/proc/${pid}/fd`).length, peakKiB: Number(peak) };
}

/** The real brokerd in a home of its own, with one `auto` grant for `/n`. Dispose of it. */
export class WatchedBroker implements AsyncDisposable {
  readonly home: TempHome;
  readonly broker: Broker;
  #calls = 0;
  /** Calls whose decision must be on record. */
  #recorded = 0;
  #before = { fds: 0, peakKiB: 0 };

  private constructor(home: TempHome, broker: Broker) {
    this.home = home;
    this.broker = broker;
  }

  /** `prepare`: what is done to the home before the start. */
  static async start(prepare: (home: TempHome) => void = () => {}): Promise<WatchedBroker> {
    const home = new TempHome();
    try {
      home.grant("good", AUTO);
      prepare(home);
      const watched = new WatchedBroker(home, await startBroker(home));
      // The first call opens the log and fills what is kept between calls.
      assert.equal(await watched.call(), "allowed");
      assert.deepEqual(await watched.problems(), []);
      await watched.#settled();
      watched.#before = holding(watched.broker.pid);
      return watched;
    } catch (error) {
      home[Symbol.dispose]();
      throw error;
    }
  }

  /** The path of `name` in the grants directory. */
  grantPath(name: string): string {
    return `${this.home.layout.grants}/${name}`;
  }

  /** How one call came out: `allowed`, the reason of its denial, or the message of its failure. */
  async call(session = "s1", path = "/n/a"): Promise<string> {
    this.#calls += 1;
    const body = readFile(session, `c${this.#calls}`, path);
    const [answer, ...more] = await ask(this.home.layout.brokerSocket, "tool_request", body);
    assert(answer?.kind === "tool_response" && answer.final, JSON.stringify(answer));
    assert.deepEqual(more, []);
    const outcome = outcomeOf(answer.body as FinalToolResponse);
    if (outcome !== "audit_unavailable") this.#recorded += 1;
    return outcome;
  }

  /** What `bxctl grants check` would show, as `file: problem`. */
  async problems(): Promise<string[]> {
    const [answer] = await ask(this.home.layout.adminSocket, "check_grants", {});
    assert(answer?.kind === "grants_report");
    return answer.body.problems.map(({ file, problem }) => `${file}: ${problem}`);
  }

  /** Waits until it has said `text` so many times, and fails when it is more. */
  async said(text: string, times: number): Promise<void> {
    const count = () => this.broker.stderr.split(text).length - 1;
    await until(`"${text}" ${times} times from brokerd`, () => count() >= times);
    assert.equal(count(), times, text);
  }

  /** Waits until the connections so far have gone. */
  async #settled(): Promise<void> {
    let last = -1;
    await until("rest of brokerd's open files", () => {
      const before = last;
      last = holding(this.broker.pid).fds;
      return before === last;
    });
  }

  /**
   * It runs, holds no more files than at first and has kept within its memory; its log verifies, with one
   * decision for each call, and what it said cannot reach into a terminal. Stops it.
   */
  async unharmed(): Promise<void> {
    assert.equal(await this.call("at-the-end"), "allowed");
    const { fds, peakKiB } = this.#before;
    await until("end of the files that it opened", () => holding(this.broker.pid).fds <= fds);
    const now = holding(this.broker.pid);
    assert(now.peakKiB - peakKiB < MAX_GROWTH_KIB, `${peakKiB} KiB became ${now.peakKiB}`);
    await this.broker.stop();
    // deno-lint-ignore no-control-regex
    assert.doesNotMatch(this.broker.stderr, /(?!\n)[\x00-\x1f\x7f-\x9f\u202e]/);
    assert.doesNotMatch(this.broker.stderr, /internal error/);
    const { failure, records } = verifyDirectory(this.home.layout.audit);
    assert.equal(failure, null);
    assert(records >= this.#recorded, `${records} records of ${this.#recorded} calls`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.broker[Symbol.asyncDispose]();
    this.home[Symbol.dispose]();
  }
}

/** `allowed` is what the runner that refuses makes of a call that may run. */
export function outcomeOf(answer: FinalToolResponse): string {
  switch (answer.status) {
    case "denied":
      return answer.reason;
    case "failed":
      return answer.message === "the runner arrives in M3b" ? "allowed" : answer.message;
    case "result":
      return "result";
  }
}
