/**
 * What happens to the places that brokerd writes to: a disk that is full, a write that is cut short, a
 * directory that is gone, no file descriptors, a clock that jumps, and a second broker.
 */
import { layout } from "../../proto/layout.ts";
import { Failure } from "../support/cli.ts";
import { Daemon } from "../support/daemon.ts";
import { inWords, READY_MS, Stand } from "./stand.ts";
import type { Round } from "./tally.ts";
import { pick, type Random, runFixed, SESSIONS } from "./workload.ts";

/** One part: gives each round, named, or with `every` each of so many. */
export type Part = (next: Random, every: number) => AsyncGenerator<readonly [string, Round]>;

const DAY_MS = 86_400_000;
const AFTER = { session: "after", path: "/auto", owner: "wait" } as const;

/** Runs a command of the system. Throws `Failure` where it does not end well. */
async function command(program: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args }).output();
  if (success) return;
  throw new Failure(`${program} ${args.join(" ")}: ${new TextDecoder().decode(stderr).trim()}`);
}

/** What a round has found so far, and how it ends: stopped, checked, started again, checked. */
class Watch {
  readonly findings: string[] = [];
  readonly stand: Stand;
  hit = false;

  constructor(stand: Stand) {
    this.stand = stand;
  }

  /** One call that must come out as `wanted`, or as one of them. */
  async expect(when: string, ...wanted: string[]): Promise<string> {
    const answer = inWords(await this.stand.call(AFTER));
    if (!wanted.includes(answer)) this.findings.push(`${when}: ${answer}`);
    return answer;
  }

  check(mayBeTorn: boolean): ReturnType<Stand["check"]> {
    const checked = this.stand.check(mayBeTorn);
    this.findings.push(...checked.findings.map(({ kind, what }) => `${kind}: ${what}`));
    return checked;
  }

  /** Ends the round: `daemon` still runs. */
  async end(daemon: Daemon): Promise<Round> {
    await daemon.stop();
    const { code } = await daemon.ended;
    if (code !== 0) this.findings.push(...daemon.obituary(await daemon.ended));
    this.check(false);
    await using again = this.stand.start();
    await again.ready(READY_MS);
    await this.expect("after a restart", "result");
    await again.stop();
    const { counts, records } = this.check(false);
    return { findings: this.findings, hit: this.hit, answers: counts, records };
  }
}

/** Waits until `holds`, for 30 s at most. */
async function until(holds: () => boolean): Promise<boolean> {
  for (let tries = 0; tries < 3000; tries += 1) {
    if (holds()) return true;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return false;
}

/** A file system of 256 KiB that fills up, at another byte each round, and is freed. */
const full: Part = async function* (_, every) {
  for (let round = 0; round < 20; round += every) {
    const disk = Deno.makeTempDirSync({ prefix: "boxmaker-disk-" });
    await command("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk);
    try {
      using stand = new Stand({ base: disk });
      const watch = new Watch(stand);
      await using daemon = stand.start();
      await daemon.ready(READY_MS);
      await runFixed(stand);
      const fillers = [0, 1, 2].map((n) => `${disk}/filler-${n}`);
      for (const filler of fillers) {
        Deno.writeFileSync(filler, new Uint8Array(8192 + 1024 * round));
      }
      for (const filler of fillers) {
        let answer = "";
        for (let calls = 0; calls < 2000 && answer !== "denied: audit_unavailable"; calls += 1) {
          answer = await watch.expect(
            "while the disk fills up",
            ...["result", "denied: audit_unavailable", "failed: the result could not be recorded"],
          );
        }
        watch.hit ||= answer === "denied: audit_unavailable";
        watch.check(true);
        Deno.removeSync(filler);
        await watch.expect("once the disk has room again", "result");
      }
      yield [`full ${round}`, await watch.end(daemon)];
    } finally {
      await command("umount", "--lazy", disk);
      Deno.removeSync(disk);
    }
  }
};

/** Real short writes: no file may grow past a limit, which is moved through a record. */
const short: Part = async function* (_, every) {
  for (let cut = 0; cut < 420; cut += 14 * every) {
    using stand = new Stand();
    const watch = new Watch(stand);
    await using daemon = stand.start(["sh", "-c", `trap '' XFSZ; exec "$@"`, "sh"]);
    await daemon.ready(READY_MS);
    await runFixed(stand);
    const { audit } = layout(stand.home);
    const [log = ""] = [...Deno.readDirSync(audit)].map(({ name }) => name)
      .filter((name) => name.endsWith(".jsonl"));
    const limit = Deno.statSync(`${audit}/${log}`).size + cut;
    await command("prlimit", "--pid", String(daemon.pid), `--fsize=${limit}:`);
    const refused = ["denied: audit_unavailable", "failed: the result could not be recorded"];
    const first = await watch.expect("with the limit", "result", ...refused);
    watch.hit = refused.includes(first);
    const second = await watch.expect("again with the limit", "result", ...refused);
    watch.hit ||= refused.includes(second);
    watch.check(true);
    await command("prlimit", "--pid", String(daemon.pid), "--fsize=unlimited:");
    await watch.expect("without the limit", "result");
    yield [`short ${cut}`, await watch.end(daemon)];
  }
};

/** Connections that hold every file descriptor but a few, or want more than there are. */
const descriptors: Part = async function* (_, every) {
  for (let left = -2; left < 5; left += every) {
    using stand = new Stand();
    const watch = new Watch(stand);
    await using daemon = stand.start(["prlimit", "--nofile=96"]);
    await daemon.ready(READY_MS);
    await runFixed(stand);
    const open = () => [...Deno.readDirSync(`/proc/${daemon.pid}/fd`)].length;
    const before = open();
    const idle: Deno.Conn[] = [];
    while (idle.length < 96 - before - left) {
      idle.push(
        await Deno.connect({ transport: "unix", path: layout(stand.home).brokerSocket }),
      );
    }
    const taken = await until(() => open() >= Math.min(96, before + idle.length) - 1);
    if (!taken) watch.findings.push(`${left} left: only ${open()} descriptors were taken`);
    // With none left the connection is accepted only once one is free.
    const call = stand.call(AFTER);
    const early = await Promise.race([
      call.then(inWords),
      new Promise<null>((resolve) => setTimeout(resolve, 1000, null)),
    ]);
    watch.hit = early !== "result";
    for (const conn of idle) conn.close();
    await call;
    if (!await until(() => open() <= before)) {
      watch.findings.push(`${open() - before} descriptors were not given back`);
    }
    await watch.expect("with descriptors again", "result");
    yield [`descriptors ${left}`, await watch.end(daemon)];
  }
};

/** The audit directory taken away, replaced, and made read-only, while brokerd runs. */
const directory: Part = async function* () {
  const replaced: Readonly<Record<string, (path: string) => void>> = {
    "nothing": () => {},
    "an empty directory": (path) => Deno.mkdirSync(path),
    "a file": (path) => Deno.writeTextFileSync(path, "x"),
    "a link to nothing": (path) => Deno.symlinkSync("/nonexistent", path),
    "a copy of it": (path) => copy(`${path}.away`, path),
  };
  for (const [what, put] of Object.entries(replaced)) {
    using stand = new Stand();
    const watch = new Watch(stand);
    await using daemon = stand.start();
    await daemon.ready(READY_MS);
    await runFixed(stand);
    const { audit } = layout(stand.home);
    Deno.renameSync(audit, `${audit}.away`);
    put(audit);
    // A copy holds every record that was synced, so brokerd may go on in it; it is then put back whole.
    if (what === "a copy of it") {
      await watch.expect(`with ${what}`, "result", "denied: audit_unavailable");
      watch.hit = true;
    } else {
      watch.hit = await watch.expect(`with ${what}`, "denied: audit_unavailable") !== "result";
      if (what !== "nothing") Deno.removeSync(audit, { recursive: true });
      Deno.renameSync(`${audit}.away`, audit);
    }
    await watch.expect("put back", "result");
    yield [`directory, ${what}`, await watch.end(daemon)];
  }
  using stand = new Stand();
  const watch = new Watch(stand);
  // Root may write everywhere unless it gives that up.
  const under = Deno.uid() === 0
    ? ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    : [];
  await using daemon = stand.start(under);
  await daemon.ready(READY_MS);
  await runFixed(stand);
  const { audit } = layout(stand.home);
  Deno.chmodSync(audit, 0o500);
  await watch.expect("read-only, in the file that is there", "result");
  stand.shiftClock(DAY_MS);
  const answer = await watch.expect("read-only, on a new day", "denied: audit_unavailable");
  watch.hit = answer === "denied: audit_unavailable";
  Deno.chmodSync(audit, 0o700);
  await watch.expect("writable again", "result");
  stand.shiftClock(0);
  yield ["directory, read-only", await watch.end(daemon)];
};

function copy(from: string, to: string): void {
  Deno.mkdirSync(to);
  for (const { name } of Deno.readDirSync(from)) {
    Deno.copyFileSync(`${from}/${name}`, `${to}/${name}`);
  }
}

/** The clock jumps over midnight, forwards and back, between any two calls. */
const clock: Part = async function* (next, every) {
  for (let round = 0; round < 10; round += every) {
    using stand = new Stand();
    const watch = new Watch(stand);
    await using daemon = stand.start();
    await daemon.ready(READY_MS);
    const days = new Set<number>();
    for (let times = 0; times < 30; times += 1) {
      const day = pick(next, [-3, -2, -1, 0, 1, 2, 3]);
      days.add(day);
      stand.shiftClock(day * DAY_MS);
      await stand.call({
        session: pick(next, SESSIONS.slice(0, -1)),
        path: pick(next, ["/auto", "/none", "/ask", "/secret"]),
        owner: "approve",
      });
    }
    watch.hit = days.size > 1;
    stand.shiftClock(0);
    yield [`clock ${round}`, await watch.end(daemon)];
  }
};

const PAIRS = 200;

/** Two brokers started at once on one home: one serves, the other says why not. */
const twice: Part = async function* (_, every) {
  using stand = new Stand();
  const watch = new Watch(stand);
  const pairs = Math.ceil(PAIRS / every);
  for (let pair = 0; pair < pairs; pair += 1) {
    const daemons = [stand.start(), stand.start()];
    const ready = await Promise.allSettled(daemons.map((daemon) => daemon.ready(READY_MS)));
    const serving = ready.filter(({ status }) => status === "fulfilled").length;
    const refused = daemons.filter(({ lines }) =>
      lines.join("\n").includes("see docs/runbook.md#brokerd-already-running")
    ).length;
    if (serving !== 1 || refused !== 1) {
      watch.findings.push(
        `pair ${pair}: ${serving} serve and ${refused} say that one runs already`,
      );
    }
    await watch.expect(`pair ${pair}`, "result");
    await Promise.all(daemons.map((daemon) =>
      daemon.stop()
    ));
    watch.hit = true;
  }
  await using daemon = stand.start();
  await daemon.ready(READY_MS);
  yield [`${pairs} pairs`, await watch.end(daemon)];
};

export const PLACES = { full, short, descriptors, directory, clock, twice } as const;
