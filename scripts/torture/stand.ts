/** A home to torture brokerd in, the calls that its clients make there, and all that they were told. */
import { layout } from "../../proto/layout.ts";
import { Daemon } from "../support/daemon.ts";
import { flagsFor, PROJECT } from "../support/roles.ts";
import { type CallSeen, check, type Checked, type OwnerSeen, type RunSeen } from "./checker.ts";
import { converse } from "./client.ts";

/** How long brokerd may take until it is ready, in milliseconds: it is watched, and not alone. */
export const READY_MS = 60_000;

/** Longer than any round. */
export const LONG_TTL_MS = 600_000;

/** What the owner does with a call that asks; `leave`: the client hangs up; `wait`: nothing, until it expires. */
export type Owner = "approve" | "refuse" | "leave" | "wait";

/** One call of a workload: whose, below which grant's path, and what the owner does where it asks. */
export interface Step {
  readonly session: string;
  readonly path: "/auto" | "/ask" | "/deny" | "/fail" | "/none" | "/secret";
  readonly owner: Owner;
}

const GRANTS = {
  auto: { mode: "auto", max: "private", gives: "private", untrusted: false },
  ask: { mode: "ask", max: "secret", gives: "private", untrusted: false },
  deny: { mode: "deny", max: "secret", gives: "private", untrusted: false },
  fail: { mode: "auto", max: "secret", gives: "private", untrusted: true },
  secret: { mode: "auto", max: "secret", gives: "secret", untrusted: true },
} as const;

/** Names of places in the home, for `strace -P`, which takes whole paths only. */
export interface Watched {
  readonly audit: readonly string[];
  readonly broker: readonly string[];
  readonly grants: readonly string[];
}

export class Stand implements Disposable {
  readonly root: string;
  readonly home: string;
  readonly config: string;
  readonly journal: string;
  readonly clock: string;
  readonly calls: CallSeen[] = [];
  readonly owner: OwnerSeen[] = [];
  #states: Checked["states"] = new Map();
  #count = 0;

  /** `base`: where the home is made, such as a small file system; `ttlMs`: how long a call waits. */
  constructor(
    { base, ttlMs = LONG_TTL_MS }: { readonly base?: string; readonly ttlMs?: number } = {},
  ) {
    this.root = Deno.makeTempDirSync({ prefix: "boxmaker-torture-" });
    this.home = base === undefined ? `${this.root}/home` : `${base}/home`;
    this.config = `${this.root}/brokerd.toml`;
    this.journal = `${this.root}/journal`;
    this.clock = `${this.root}/clock`;
    const { grants } = layout(this.home);
    Deno.mkdirSync(grants, { recursive: true });
    for (const [id, { mode, max, gives, untrusted }] of Object.entries(GRANTS)) {
      Deno.writeTextFileSync(
        `${grants}/${id}.toml`,
        `tool = "read_file"\nmode = "${mode}"\nmax_taint = "${max}"\nresult_class = "${gives}"\n` +
          `untrusted = ${untrusted}\n[constraints]\npaths = ["/${id}"]\n`,
      );
    }
    this.setTtl(ttlMs);
    Deno.writeTextFileSync(this.journal, "");
    this.shiftClock(0);
  }

  /** Sets how long a call waits for its owner, from the next start on. */
  setTtl(ms: number): void {
    const paths = `[paths]\nhome = "${this.home}"\n`;
    Deno.writeTextFileSync(this.config, `${paths}[approvals]\nttl_ms = ${ms}\n`);
  }

  /** Steps brokerd's clock to `ms` milliseconds after the real one. */
  shiftClock(ms: number): void {
    Deno.writeTextFileSync(`${this.clock}.new`, String(ms));
    Deno.renameSync(`${this.clock}.new`, this.clock);
  }

  /** Starts brokerd under its own flags and two more files, as `under` says. */
  start(under: readonly string[] = []): Daemon {
    const { journal, clock, config } = this;
    const flags = flagsFor("brokerd", { config }, undefined).map((flag) => {
      if (flag.startsWith("--allow-read=")) return `${flag},${journal},${clock}`;
      return flag.startsWith("--allow-write=") ? `${flag},${journal}` : flag;
    });
    const program = [`${PROJECT}/scripts/torture/brokerd.ts`, journal, clock];
    const args = [...flags, ...program, "serve", "--config", config];
    return new Daemon({ name: "brokerd", args, under, env: { BOXMAKER_HOME: "" } });
  }

  /** The paths that brokerd may touch in the steps of `sessions`. */
  watched(sessions: readonly string[]): Watched {
    const { audit, broker, brokerSessions, grants } = layout(this.home);
    const days = [0, 1].map((day) =>
      new Date(Date.now() + day * 86_400_000).toISOString().slice(0, 10)
    );
    const files = [...days.map((day) => `${day}.jsonl`), "head.json", ".lock"];
    const states = sessions.flatMap((session) => [`${session}.json`, `${session}.json.tmp`]);
    return {
      audit: [audit, ...files.map((name) => `${audit}/${name}`)],
      broker: [broker, brokerSessions, ...states.map((name) => `${brokerSessions}/${name}`)],
      grants: [grants, ...Object.keys(GRANTS).map((id) => `${grants}/${id}.toml`)],
    };
  }

  /** Makes one call and gives its last answer's body, or null where none came. */
  async call({ session, path, owner }: Step): Promise<Answer | null> {
    const { brokerSocket } = layout(this.home);
    const call = `c${this.#count}`;
    this.#count += 1;
    const request = {
      ...{ session, call, tool: "read_file" },
      arguments: JSON.stringify({ path: `${path}/${call}` }),
    };
    const answers: unknown[] = [];
    this.calls.push({ ...request, answers });
    await converse(brokerSocket, "tool_request", request, async (answer) => {
      answers.push(answer);
      const { status, approval } = bodyOf(answer);
      if (status !== "pending_approval" || owner === "wait") return "go on";
      if (owner === "leave") return "stop";
      await this.#answer(owner, Number(approval));
      return "go on";
    });
    const last = answers.at(-1);
    return last === undefined ? null : bodyOf(last);
  }

  /** The owner's answer; where nothing comes of it, as where its connection broke, they try once more. */
  async #answer(kind: "approve" | "refuse", approval: number): Promise<void> {
    const body = kind === "approve" ? { approval } : { approval, reason: null };
    for (let tries = 0, answered = false; tries < 2 && !answered; tries += 1) {
      const seen = { kind, approval, answer: null as unknown };
      this.owner.push(seen);
      await converse(layout(this.home).adminSocket, kind, body, (given) => {
        seen.answer = given;
        answered = true;
        return "go on";
      });
    }
  }

  /** Holds what is on disk against everything that was told so far. */
  check(mayBeTorn: boolean): Checked {
    const { audit, brokerSessions: sessions } = layout(this.home);
    const runs = Deno.readTextFileSync(this.journal).split("\n").filter((line) => line !== "")
      .map((line): RunSeen => JSON.parse(line));
    const { calls, owner } = this;
    const before = this.#states;
    const checked = check({ audit, sessions, calls, owner, runs, before, mayBeTorn });
    this.#states = checked.states;
    return checked;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

/** The parts of an answer's body that the harness itself looks at. */
export interface Answer {
  readonly status?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly approval?: number;
}

function bodyOf(answer: unknown): Answer {
  return (answer as { readonly body: Answer }).body;
}

/** `status`, with the reason of a denial or the message of a failure. */
export function inWords(answer: Answer | null): string {
  if (answer === null) return "no answer";
  const { status = "an error", reason, message } = answer;
  return [status, reason, message].filter((word) => word !== undefined).join(": ");
}
