/**
 * What loopd tells its owner of itself (protocol, `status`). The model server is asked as at the start, within
 * a few seconds, and for all who ask at the same time once.
 */
import type { Timestamp } from "../proto/ids.ts";
import { isListening } from "../proto/io/socket.ts";
import type { Body } from "../proto/messages.ts";
import { type LockReport, statusText, troublesOf } from "../proto/status.ts";
import { VERSION } from "../proto/version.ts";
import type { Notices } from "./notices.ts";
import type { ModelServer } from "./llama.ts";
import { type SelfTest, selfTest } from "./selftest.ts";

/** How long each of two answers of the model server, and the tool broker's socket, may take, in milliseconds. */
const ANSWER_MS = 3000;

export interface StatusSources {
  readonly model: ModelServer;
  /** The model server's address. */
  readonly url: string;
  /** Null where no tool broker is configured. */
  readonly brokerSocket: string | null;
  readonly turns: () => number;
  readonly notices: Notices;
  /** Holds this process against its row. */
  readonly lock: () => LockReport;
  readonly since: Timestamp;
}

type LoopStatus = Body<"loop_status">;

export class LoopStatuses {
  readonly #sources: StatusSources;
  /** The question that is under way. */
  #asked: Promise<readonly [LoopStatus["model"], LoopStatus["broker"]]> | null = null;

  constructor(sources: StatusSources) {
    this.#sources = sources;
  }

  /** The status of loopd as it is now. */
  async now(): Promise<LoopStatus> {
    this.#asked ??= Promise.all([this.#model(), this.#broker()])
      .finally(() => this.#asked = null);
    const [model, broker] = await this.#asked;
    const { turns, notices, lock, since } = this.#sources;
    return {
      ...{ version: VERSION, deno: Deno.version.deno, since, lock: lock() },
      troubles: troublesOf(notices.troubles()),
      ...{ model, broker, turns: turns() },
    };
  }

  async #model(): Promise<LoopStatus["model"]> {
    const { model } = this.#sources;
    const url = statusText(this.#sources.url);
    let loading = false;
    const tested = await selfTest(model, {
      loadingMs: 0,
      loading: () => loading = true,
      answerMs: ANSWER_MS,
    });
    if (loading) return { url, state: "loading", problem: "it is still loading its model" };
    return { url, ...inWords(tested) };
  }

  async #broker(): Promise<LoopStatus["broker"]> {
    const { brokerSocket } = this.#sources;
    if (brokerSocket === null) return "none";
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), ANSWER_MS);
    });
    const listens = await Promise.race([isListening(brokerSocket), late]);
    clearTimeout(timer);
    return listens ? "listening" : "unreachable";
  }
}

function inWords(tested: SelfTest): Pick<LoopStatus["model"], "state" | "problem"> {
  switch (tested.status) {
    case "ok":
      return { state: "ok", problem: null };
    case "runs_tools":
      return { state: "runs_tools", problem: statusText(tested.tools.join(", ")) };
    case "selftest_failed":
      return { state: "failed", problem: statusText(tested.problem) };
  }
}
