/** loopd's home with something else in it than loopd left there, in front of the real loopd. */
import assert from "node:assert/strict";
import type { TurnEvent } from "../../proto/messages.ts";
import { IS_ROOT, mkfifo, run, sparse } from "../support/hostile.ts";
import { FakeLlama, saying } from "../support/llama.ts";
import { LoopHome, LoopProcess } from "../support/loop.ts";
import { leaveSocket } from "../support/sockets.ts";

type Put = (path: string) => void;

const link = (target: string): Put => (path) => Deno.symlinkSync(target, path);
const write = (content: string | Uint8Array): Put => (path) =>
  typeof content === "string"
    ? Deno.writeTextFileSync(path, content)
    : Deno.writeFileSync(path, content);

/** What stands in the place of a file and is none. */
const NO_FILE: Readonly<Record<string, Put>> = {
  "a link to nothing": (path) => link(`${path}.nothing`)(path),
  "a link to itself": (path) => link(path)(path),
  "a link to /dev/zero": link("/dev/zero"),
  "a link to the memory of loopd": link("/proc/self/mem"),
  "a FIFO": mkfifo,
  "a socket": leaveSocket,
  "a directory": (path) => Deno.mkdirSync(path),
  "10 GiB of nothing": (path) => sparse(path, 10 * 1024 ** 3),
  ...(IS_ROOT ? { "a device": (path: string) => run("mknod", path, "c", "1", "5") } : {}),
};

/** How a turn ended. */
async function endOf(loop: LoopProcess, session: string | null): Promise<string> {
  const last: TurnEvent | undefined = (await loop.chat(session, "hello")).at(-1);
  return last?.type === "failed" ? last.message : last?.type ?? "nothing";
}

Deno.test("whatever stands in the place of a session's log, that session fails, no other does, and it starts once that is gone", async () => {
  const cases: Readonly<Record<string, Put>> = {
    ...NO_FILE,
    "one line of 20 MB": write("x".repeat(20_000_000)),
    "a link to a log elsewhere": (path) => {
      write("untouched\n")(`${path}.target`);
      link(`${path}.target`)(path);
    },
  };
  await using llama = new FakeLlama(
    ...Object.keys(cases).flatMap(() => [saying("a"), saying("b")]),
  );
  using home = new LoopHome(llama.url);
  await using loop = await LoopProcess.start(home);
  let n = 0;
  for (const [name, put] of Object.entries(cases)) {
    const session = `s-${++n}`;
    const path = `${home.layout.loopSessions}/${session}.jsonl`;
    put(path);
    const { ino, size } = Deno.lstatSync(path);
    const end = await endOf(loop, session);
    assert.match(end, /^this session('s log is damaged| has become too long)/, name);
    const after = Deno.lstatSync(path);
    assert.deepEqual([after.ino, after.size], [ino, size], `${name} is left as it is`);
    assert.equal(await endOf(loop, null), "done", `beside ${name}`);
    assert(loop.stderr.includes(`${path}`), name);
    if (name.startsWith("a link to a log")) {
      assert.equal(Deno.readTextFileSync(`${path}.target`), "untouched\n");
    }
    Deno.removeSync(path, { recursive: true });
    assert.equal(await endOf(loop, session), "done", `without ${name}`);
  }
});

Deno.test("whatever stands in the place of memory/core.md, no session starts, those that were there go on, and new ones start once it is gone", async () => {
  const cases: Readonly<Record<string, Put>> = {
    ...NO_FILE,
    "bytes that are no UTF-8": write(new Uint8Array([0xff, 0xfe, 0x0a])),
    "256 KiB and a byte": write("x".repeat(256 * 1024 + 1)),
  };
  const turns = Object.keys(cases).length * 2 + 1;
  await using llama = new FakeLlama(...Array.from({ length: turns }, () => saying("a")));
  using home = new LoopHome(llama.url);
  Deno.mkdirSync(home.layout.memory, { recursive: true });
  await using loop = await LoopProcess.start(home);
  assert.equal(await endOf(loop, "old"), "done");
  for (const [name, put] of Object.entries(cases)) {
    put(home.layout.core);
    assert.equal(
      await endOf(loop, null),
      "memory/core.md cannot be read; the operator of loopd has been told",
      name,
    );
    assert.equal(await endOf(loop, "old"), "done", `beside ${name}`);
    Deno.removeSync(home.layout.core, { recursive: true });
    assert.equal(await endOf(loop, null), "done", `without ${name}`);
  }
  assert(loop.stderr.includes("see docs/runbook.md#core-memory-unreadable"), loop.stderr);
});
