/** An egress proxy as `brokerd` starts it beside a call's container, and ends it with the call. */
import { fileURLToPath } from "node:url";
import { display } from "../../proto/escape.ts";
import { LineSplitter } from "../../proto/lines.ts";
import { readEvent } from "./events.ts";
import { egressFlags, type EgressSettings } from "./settings.ts";

/** The proxy's main module. */
const MAIN = fileURLToPath(new URL("./main.ts", import.meta.url));
/** The most reasons that are kept of one call, and the most characters of each. */
const MAX_REASONS = 20;
const MAX_REASON_CHARACTERS = 200;
/** No event is as long, in bytes. Whatever writes such a line is not the proxy any more. */
const MAX_LINE_BYTES = 16 * 1024;
/** So much is kept of what a proxy that cannot start says, in bytes. */
const MAX_WORDS_BYTES = 4096;

export interface EgressChild {
  /** Resolves once clients can connect. Rejects, with its last words, where it ends before. */
  readonly ready: Promise<void>;
  /** What was refused or cut off so far; whole after `stop`. The reasons are safe to print. */
  refused(): { count: number; reasons: string[] };
  /** Ends the proxy and every connection through it. Resolves when it is gone. */
  stop(): Promise<void>;
}

/** What a proxy has told so far. */
class Told {
  readonly reasons: string[] = [];
  count = 0;
  readonly #ready: () => void;

  constructor(ready: () => void) {
    this.#ready = ready;
  }

  line(bytes: Uint8Array): void {
    const event = readEvent(new TextDecoder().decode(bytes));
    if (event?.event === "ready") this.#ready();
    if (event?.event !== "refused") return;
    this.count += 1;
    if (this.reasons.length >= MAX_REASONS) return;
    this.reasons.push(display(event.why).slice(0, MAX_REASON_CHARACTERS));
  }

  /** Reads events to the end of `stdout`, or to a line that none of them can be. */
  async readAll(stdout: ReadableStream<Uint8Array>): Promise<void> {
    const lines = new LineSplitter();
    for await (const chunk of stdout) {
      for (const { bytes } of lines.push(chunk)) this.line(bytes);
      if (lines.pending > MAX_LINE_BYTES) return;
    }
  }
}

/** The first bytes of `stderr` as text. Reads on to its end, so that writing there holds nobody up. */
async function firstWords(stderr: ReadableStream<Uint8Array>): Promise<string> {
  let words = "";
  const decoder = new TextDecoder();
  for await (const chunk of stderr) {
    if (words.length < MAX_WORDS_BYTES) words += decoder.decode(chunk, { stream: true });
  }
  return display(words.trim().slice(0, MAX_WORDS_BYTES));
}

/**
 * Starts a proxy for one call by `deno`, the path of the runtime. It inherits nothing. Throws where the
 * settings have a problem or the runtime cannot be started.
 */
export function startEgress(deno: string, settings: EgressSettings): EgressChild {
  const child = new Deno.Command(deno, {
    args: ["run", "--quiet", ...egressFlags(settings), MAIN, JSON.stringify(settings)],
    clearEnv: true,
    env: { DENO_NO_UPDATE_CHECK: "1", NO_COLOR: "1" },
    // Its end is how the proxy learns that this process is gone.
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>();
  // Whoever stops it before it was ready need not wait for that.
  ready.catch(() => {});
  const told = new Told(resolve);
  const kill = () => {
    try {
      child.kill("SIGKILL");
    } catch {
      // gone already
    }
  };
  const ended = Promise.all([
    told.readAll(child.stdout).finally(kill),
    firstWords(child.stderr),
    child.status,
  ]).then(([, words]) => {
    reject(new Error(`the egress proxy ended before it was ready: ${words || "it said nothing"}`));
  }, reject);
  return {
    ready,
    refused: () => ({ count: told.count, reasons: [...told.reasons] }),
    async stop() {
      kill();
      await ended;
      // A pipe whose reader is gone cannot be closed in any other way that matters.
      await child.stdin.abort().catch(() => {});
    },
  };
}
