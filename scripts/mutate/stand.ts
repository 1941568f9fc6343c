/** A copy of the project, in which one file at a time is broken: the project itself is never touched. */
import type { Mutant } from "./mutants.ts";

/** What is no part of the project, or of no use to its tests. */
const LEFT_BEHIND = [".git", ".boxmaker", "node_modules", "dist", "coverage"];

/** For tests that a mutant keeps from ending: at least this long, in milliseconds, and */
const LEAST_PATIENCE = 30_000;
/** so many times as long as they take without it. */
const PATIENCE = 8;

/** How the tests came out with a mutant. Too slow counts as noticed: some tests would never end. */
export type Outcome = "killed" | "timeout" | "survived";

function copyDirectory(from: string, to: string): void {
  Deno.mkdirSync(to);
  for (const { name, isDirectory, isFile } of Deno.readDirSync(from)) {
    if (LEFT_BEHIND.includes(name)) continue;
    if (isDirectory) copyDirectory(`${from}/${name}`, `${to}/${name}`);
    if (isFile) Deno.copyFileSync(`${from}/${name}`, `${to}/${name}`);
  }
}

export class Stand implements Disposable {
  readonly #directory = Deno.makeTempDirSync({ prefix: "boxmaker-mutate-" });
  /** The copy's folder. */
  readonly copy = `${this.#directory}/project`;
  #child: Deno.ChildProcess | null = null;
  #abandoned = false;

  readonly #leastPatience: number;

  /** `root`: the project's folder. */
  constructor(root: string, leastPatience: number = LEAST_PATIENCE) {
    this.#leastPatience = leastPatience;
    copyDirectory(root, this.copy);
  }

  /** How long `tests` take without a mutant, in milliseconds; null where they fail. */
  async baseline(tests: readonly string[]): Promise<number | null> {
    const start = performance.now();
    const outcome = await this.#test(tests, 10 * 60_000);
    return outcome === "survived" ? performance.now() - start : null;
  }

  /** Runs `tests`, the first ones first, with `mutant`. `usual`: what `baseline` gave for them. */
  async run(mutant: Mutant, tests: readonly string[], usual: number): Promise<Outcome> {
    const path = `${this.copy}/${mutant.file}`;
    const source = Deno.readTextFileSync(path);
    Deno.writeTextFileSync(path, mutant.source);
    try {
      return await this.#test(tests, Math.max(this.#leastPatience, PATIENCE * usual));
    } finally {
      Deno.writeTextFileSync(path, source);
    }
  }

  async #test(tests: readonly string[], patience: number): Promise<Outcome> {
    const child = this.#child = new Deno.Command(Deno.execPath(), {
      // The types are not checked: a mutant is to be found by what it does.
      args: [
        ...["test", "--quiet", "--no-check", "--frozen", "--cached-only", "--allow-all"],
        // A mutant may gather things for ever.
        ...["--fail-fast", "--v8-flags=--max-old-space-size=1024", ...tests],
      ],
      cwd: this.copy,
      env: { BOXMAKER_LONG: "", NO_COLOR: "1" },
      stdin: "null",
      stdout: "null",
      stderr: "null",
      // A group of its own, so that what its tests have started ends with it.
      detached: true,
    }).spawn();
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      this.#stop();
    }, patience);
    const { success } = await child.status;
    clearTimeout(timer);
    if (this.#abandoned) return await new Promise(() => {});
    this.#stop();
    this.#child = null;
    if (late) return "timeout";
    return success ? "survived" : "killed";
  }

  /** Ends whatever runs, and takes the copy away. What waits for a result gets none. */
  async abandon(): Promise<void> {
    this.#abandoned = true;
    this.#stop();
    await this.#child?.status;
    this[Symbol.dispose]();
  }

  #stop(): void {
    try {
      if (this.#child !== null) Deno.kill(-this.#child.pid, "SIGKILL");
    } catch {
      // it has ended, and all that it started
    }
  }

  [Symbol.dispose](): void {
    this.#stop();
    Deno.removeSync(this.#directory, { recursive: true });
  }
}
