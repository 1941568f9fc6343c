/** One home with brokerd, loopd and a model server in it, and what bxctl says of them in a form to compare. */
import { FakeLlama } from "./llama.ts";
import { type Ran, runCtl } from "./ctl.ts";
import { type Broker, PROJECT, startBroker, TempHome } from "./broker.ts";
import { LoopHome, LoopProcess } from "./loop.ts";

/** A home with the modes that are asked for, and both configurations. */
export class StatusHome extends TempHome {
  /** Only its configuration counts: it names this home. */
  readonly loop: LoopHome;

  /** `url`: the model server's. `more`: TOML of brokerd.toml. */
  constructor(url: string, more = "") {
    super(more);
    for (const path of [this.home, this.layout.grants]) Deno.chmodSync(path, 0o700);
    this.loop = new LoopHome(url);
    Deno.writeTextFileSync(
      this.loop.configFile,
      `[paths]\nhome = "${this.home}"\n[broker]\nsocket = "${this.layout.brokerSocket}"\n` +
        `[llama]\nurl = "${url}"\n`,
    );
  }

  override grant(id: string, fields: string): void {
    super.grant(id, fields);
    Deno.chmodSync(`${this.layout.grants}/${id}.toml`, 0o600);
  }

  override [Symbol.dispose](): void {
    this.loop[Symbol.dispose]();
    super[Symbol.dispose]();
  }
}

/** All of it running. Dispose of it: then everything is gone. */
export class Daemons implements AsyncDisposable {
  readonly llama: FakeLlama;
  readonly home: StatusHome;
  broker: Broker | null = null;
  loop: LoopProcess | null = null;

  private constructor(llama: FakeLlama, home: StatusHome) {
    this.llama = llama;
    this.home = home;
  }

  /** `prepare`: what is done to the home before anything is started. */
  static async start(
    { more = "", prepare = () => {} }: { more?: string; prepare?: (home: StatusHome) => void } = {},
  ): Promise<Daemons> {
    const llama = new FakeLlama();
    const daemons = new Daemons(llama, new StatusHome(llama.url, more));
    try {
      prepare(daemons.home);
      daemons.broker = await startBroker(daemons.home);
      daemons.loop = await LoopProcess.start(daemons.home.loop);
      return daemons;
    } catch (error) {
      await daemons[Symbol.asyncDispose]();
      throw error;
    }
  }

  async ctl(...args: string[]): Promise<Ran> {
    return await runCtl(this.home.home, args);
  }

  /** What `bxctl status` says, with the texts of this run made plain. */
  async status(): Promise<{ code: number; lines: string[]; stderr: string }> {
    const { code, stdout, stderr } = await this.ctl("status");
    return { code, lines: plain(stdout, this.home, this.llama.url), stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.loop?.[Symbol.asyncDispose]();
    await this.broker?.[Symbol.asyncDispose]();
    await this.llama[Symbol.asyncDispose]();
    this.home[Symbol.dispose]();
  }
}

/** `text` in lines, with what differs from run to run replaced. */
export function plain(text: string, { home }: TempHome, url: string): string[] {
  return text.replaceAll(home, "HOME").replaceAll(url, "URL")
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME").replace(/\d{4}-\d\d-\d\d\.jsonl/g, "FILE")
    .replace(/\d+ (?:sec|min|hr)s? ago/g, "AGO").replace(/expires in \d+ \w+/g, "expires soon")
    .split("\n").slice(0, -1);
}

/** The runbook's entries that `lines` name; fails on one that does not exist. */
export function entriesIn(lines: readonly string[]): string[] {
  const runbook = Deno.readTextFileSync(new URL("docs/runbook.md", PROJECT));
  const named = lines.flatMap((line) =>
    [...line.matchAll(/docs\/runbook\.md#([a-z-]+)/g)].map(([, entry]) => entry ?? "")
  );
  for (const entry of named) {
    if (!runbook.includes(`\n## ${entry}\n`)) throw new Error(`the runbook has no ${entry}`);
  }
  return named;
}
