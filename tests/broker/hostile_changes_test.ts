/**
 * Grants that somebody changes as fast as he can while the real brokerd decides: each decision is the one
 * of some content that stood there whole, or `grants_invalid`, and never another.
 */
import assert from "node:assert/strict";
import { DEADLINE_MS, until } from "../support/broker.ts";
import { AUTO, DENY, mkfifo, sparse, WatchedBroker, whole } from "../support/hostile.ts";
import { runs } from "../support/long.ts";

/** Calls that are made while the grants change. */
const CALLS = runs(150, 3000);

/** What is certain comes within this many milliseconds, on a busy machine too. */
const MOST_MS = 10 * DEADLINE_MS;

const AUTO_FILE = whole(AUTO);
const DENY_FILE = whole(DENY);
/** Of another size, so that a reading by the old size would be of half a file. */
const LONG_DENY_FILE = `${"# why\n".repeat(2000)}${DENY_FILE}`;

/** Runs `round`, statements over `directory` and `contents`, again and again in a process of its own. */
class Changer implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #count: string;

  constructor({ home }: WatchedBroker, round: string) {
    const contents = { auto: AUTO_FILE, deny: DENY_FILE, long: LONG_DENY_FILE };
    this.#count = `${home.root}/rounds`;
    const program = `
      const directory = ${JSON.stringify(home.layout.grants)};
      const { auto, deny, long } = ${JSON.stringify(contents)};
      const at = (name) => directory + "/" + name;
      const write = (name, text) => Deno.writeTextFileSync(at(name), text);
      const move = (from, to) => Deno.renameSync(at(from), at(to));
      for (let rounds = 1; ; rounds += 1) {
        ${round}
        if (rounds % 50 === 0) Deno.writeTextFileSync(${
      JSON.stringify(this.#count)
    }, "x".repeat(rounds / 50));
      }`;
    this.#child = new Deno.Command(Deno.execPath(), {
      args: ["eval", program],
      env: { NO_COLOR: "1" },
      stdin: "null",
      stdout: "null",
      stderr: "inherit",
    }).spawn();
  }

  /** Waits until it has changed things many times over. */
  async busy(): Promise<void> {
    await until("changes of the grants", () => {
      try {
        return Deno.statSync(this.#count).size > 0;
      } catch {
        return false;
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
  }
}

/**
 * Calls while `round` goes on. Every outcome is one of `possible`, and each of `certain` comes about. When
 * it is over and what it left is gone, calls are allowed again.
 */
async function race(
  prepare: (watched: WatchedBroker) => void,
  round: string,
  { possible, certain, calls = CALLS }: {
    possible: readonly string[];
    certain: readonly string[];
    calls?: number;
  },
): Promise<void> {
  await using watched = await WatchedBroker.start();
  prepare(watched);
  const seen = new Map<string, number>();
  {
    await using changer = new Changer(watched, round);
    await changer.busy();
    const enough = Date.now() + DEADLINE_MS;
    const end = Date.now() + MOST_MS;
    const isDone = (made: number) =>
      certain.every((outcome) => seen.has(outcome)) && (made >= calls || Date.now() > enough);
    for (let made = 0; !isDone(made); made += 1) {
      const outcome = await watched.call();
      assert(possible.includes(outcome), `${outcome} after ${JSON.stringify([...seen])}`);
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
      assert(Date.now() < end, `only ${JSON.stringify([...seen])}`);
    }
  }
  for (const { name } of Deno.readDirSync(watched.home.layout.grants)) {
    Deno.removeSync(watched.grantPath(name), { recursive: true });
  }
  watched.home.grant("good", AUTO);
  assert.equal(await watched.call(), "allowed");
  await watched.unharmed();
}

const nothing = () => {};

Deno.test("a grant exchanged by rename is the one or the other, or changes too often", async () => {
  await race(
    nothing,
    `write("new", deny); move("new", "good.toml"); write("new", auto); move("new", "good.toml");`,
    {
      possible: ["allowed", "denied_by_grant", "grants_invalid"],
      certain: ["allowed", "denied_by_grant"],
    },
  );
});

Deno.test("a grant rewritten in place, in two halves, is the one, the other or invalid", async () => {
  await race(
    nothing,
    `for (const text of [deny, auto]) {
      using file = Deno.openSync(at("good.toml"), { write: true, truncate: true });
      const bytes = new TextEncoder().encode(text);
      file.writeSync(bytes.subarray(0, bytes.length / 2));
      file.writeSync(bytes.subarray(bytes.length / 2));
    }`,
    {
      possible: ["allowed", "denied_by_grant", "grants_invalid"],
      certain: ["allowed", "denied_by_grant", "grants_invalid"],
    },
  );
});

Deno.test("a deny grant that is replaced by another, shorter or longer, denies at every call", async () => {
  await race(
    ({ home }) => home.grant("never", DENY),
    `write("new", long); move("new", "never.toml"); write("new", deny); move("new", "never.toml");`,
    { possible: ["denied_by_grant", "grants_invalid"], certain: ["denied_by_grant"] },
  );
});

Deno.test("a deny grant that keeps changing its name denies or is missed, and is never passed over", async () => {
  await race(
    ({ home }) => home.grant("never-a", DENY),
    `move("never-a.toml", "never-b.toml"); move("never-b.toml", "never-a.toml");`,
    { possible: ["denied_by_grant", "grants_invalid"], certain: ["grants_invalid"] },
  );
});

Deno.test("nor is it passed over among so many that listing them takes several steps", async () => {
  await race(
    ({ home }) => {
      for (let n = 0; n < 2000; n += 1) home.grant(`good-${n}`, AUTO);
      home.grant("never-0", DENY);
    },
    `move("never-" + (rounds - 1) + ".toml", "never-" + rounds + ".toml");`,
    {
      possible: ["denied_by_grant", "grants_invalid"],
      certain: ["grants_invalid"],
      calls: runs(40, 400),
    },
  );
});

Deno.test("a grant that comes and goes is there, not there or invalid", async () => {
  await race(
    nothing,
    `write("new", deny); move("new", "x.toml"); Deno.removeSync(at("x.toml"));`,
    {
      possible: ["allowed", "denied_by_grant", "grants_invalid"],
      certain: ["allowed", "denied_by_grant"],
    },
  );
});

Deno.test("a grant that grows over the limit and shrinks again is good or invalid", async () => {
  await race(
    nothing,
    `for (const size of [30_000, 66_000, 200_000, 66_000]) {
      Deno.writeTextFileSync(at("good.toml"), "#".repeat(size), { append: true });
    }
    Deno.truncateSync(at("good.toml"), auto.length);`,
    { possible: ["allowed", "grants_invalid"], certain: ["allowed", "grants_invalid"] },
  );
});

Deno.test("a grant that turns into a FIFO, a directory, a device or 10 GiB under brokerd's eyes blocks nothing", async () => {
  await race(
    ({ home }) => {
      mkfifo(`${home.root}/fifo`);
      sparse(`${home.root}/sparse`, 10 * 1024 ** 3);
    },
    `const put = () => move("new", "good.toml");
    for (const odd of ["fifo", "sparse"]) {
      Deno.linkSync(directory + "/../../" + odd, at("new")); put();
      write("new", auto); put();
    }
    for (const target of ["/dev/zero", ".", "/proc/kmsg", "good.toml"]) {
      Deno.symlinkSync(target, at("new")); put();
      write("new", auto); put();
    }`,
    { possible: ["allowed", "grants_invalid"], certain: ["allowed", "grants_invalid"] },
  );
});
