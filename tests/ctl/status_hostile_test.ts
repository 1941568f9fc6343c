/** `bxctl status` and `doctor` before sockets that say nothing, garbage, or texts that would move the cursor. */
import assert from "node:assert/strict";
import { encodeFrame } from "../../proto/frames.ts";
import type { Body, Message } from "../../proto/messages.ts";
import { forEach } from "../support/broker.ts";
import { CtlHome, type Ran, runCtl } from "../support/ctl.ts";
import { messagesOf } from "../support/messages.ts";
import { entriesIn } from "../support/status_home.ts";

/** A socket at `path` that takes what comes, answers with `bytes`, and then closes; null: says nothing. */
function answering(path: string, bytes: Uint8Array | null): Disposable {
  const listener = Deno.listen({ transport: "unix", path });
  const silent: Deno.Conn[] = [];
  (async () => {
    for await (const conn of listener) {
      if (bytes === null) {
        silent.push(conn);
        continue;
      }
      await conn.read(new Uint8Array(4096)).catch(() => null);
      for (let at = 0; at < bytes.length;) {
        const count = await conn.write(bytes.subarray(at)).catch(() => null);
        if (count === null) break;
        at += count;
      }
      conn.close();
    }
  })();
  return {
    [Symbol.dispose]() {
      listener.close();
      for (const conn of silent) conn.close();
    },
  };
}

const bytesOf = (text: string) => new TextEncoder().encode(text);

function first<K extends "broker_status" | "loop_status">(kind: K): Message<K> {
  const [message] = messagesOf(kind);
  assert(message !== undefined);
  return message;
}
const BROKER = encodeFrame(first("broker_status"));
const LOOP = encodeFrame(first("loop_status"));

/** What a command of bxctl says where the two daemons answer so. */
async function run(
  command: "status" | "doctor",
  broker: Uint8Array | null,
  loop: Uint8Array | null,
): Promise<Ran> {
  using home = new CtlHome();
  for (const path of [home.layout.home, home.layout.audit]) Deno.chmodSync(path, 0o700);
  using _broker = answering(home.layout.adminSocket, broker);
  using _loop = answering(home.layout.loopSocket, loop);
  return await runCtl(home.layout.home, [command]);
}

const line = (stdout: string, name: string) =>
  stdout.split("\n").find((line) => line.slice(9).startsWith(`${name} `)) ?? "";

Deno.test("daemons that accept and say nothing are named, both at once, and waited for no longer", async () => {
  const { code, stdout, stderr } = await run("status", null, null);
  assert.match(line(stdout, "brokerd"), /^wrong .*brokerd did not answer in time$/);
  assert.match(line(stdout, "loopd"), /^wrong .*loopd did not answer in time$/);
  assert.deepEqual([code, stderr], [1, ""]);
  assert.deepEqual(entriesIn(stdout.split("\n")), ["broker-unavailable", "loopd-unavailable"]);
  // The same with an answer.
  const answered = await run("status", BROKER, LOOP);
  assert.match(line(answered.stdout, "brokerd"), /^ok /);
  assert.match(line(answered.stdout, "loopd"), /^ok /);
  assert.equal(answered.code, 0);
});

Deno.test("what is no answer is told apart, and named with what helps", async () => {
  const error = (body: Body<"error">) => encodeFrame({ kind: "error", final: true, body });
  const cases: Record<string, { bytes: Uint8Array; said: RegExp }> = {
    "nothing": { bytes: bytesOf(""), said: /brokerd ended the connection before its answer/ },
    "half a frame": {
      bytes: BROKER.subarray(0, 40),
      said: /brokerd ended the connection before its answer/,
    },
    "another protocol": {
      bytes: bytesOf("HTTP/1.1 400 Bad Request\r\n\r\n"),
      said: /an answer that bxctl does not understand/,
    },
    "the other daemon's answer": { bytes: LOOP, said: /an answer that bxctl does not understand/ },
    "an answer that is not the last": {
      bytes: bytesOf(new TextDecoder().decode(BROKER).replace('"final":true', '"final":false')),
      said: /an answer that bxctl does not understand/,
    },
    "a field too many": {
      bytes: bytesOf(new TextDecoder().decode(BROKER).replace('"version"', '"x":1,"version"')),
      said: /an answer that bxctl does not understand/,
    },
    "3 MiB without an end": {
      bytes: new Uint8Array(3 * 1024 * 1024).fill(0x20),
      said: /an answer that bxctl does not understand/,
    },
    "an older brokerd": {
      bytes: error({ code: "bad_frame", message: "unknown kind" }),
      said: /brokerd answers, and knows no status: it is older than this bxctl/,
    },
    "a refusal": {
      bytes: error({ code: "internal", message: "\x1b[31mred\u202e" }),
      said: /brokerd refused the request \(internal\): \\u001b\[31mred\\u202e/,
    },
  };
  await forEach(cases, async ({ bytes, said }) => {
    for (const command of ["status", "doctor"] as const) {
      const { code, stdout, stderr } = await run(command, bytes, LOOP);
      assert.match(stdout, said);
      assert.equal(stderr, "");
      assert.match(line(stdout, command === "status" ? "loopd" : "lock of loopd"), /^ok /);
      if (command === "status") assert.equal(code, 1);
      assert.ok(entriesIn(stdout.split("\n")).includes("broker-unavailable"), stdout);
    }
  });
});

Deno.test("without a daemon, a newest file that cannot be read is told with what helps", async () => {
  using home = new CtlHome();
  Deno.mkdirSync(`${home.layout.audit}/2026-12-01.jsonl`, { recursive: true });
  const { stdout } = await runCtl(home.layout.home, ["status"]);
  const lines = stdout.split("\n");
  const at = lines.findIndex((line) => line.includes("  audit log  "));
  assert.match(lines[at] ?? "", /^unknown .*2026-12-01\.jsonl cannot be read: not a regular file$/);
  const help = "bxctl audit verify; see docs/runbook.md#audit-chain-broken";
  assert.equal(lines[at + 1]?.trim(), help);
});

Deno.test("no text of a daemon reaches the terminal as it is", async () => {
  const evil = "\x1b]0;t\x07\r\x9b2J\u202e\u200b\n";
  const broker: Message<"broker_status"> = {
    kind: "broker_status",
    final: true,
    body: {
      ...first("broker_status").body,
      version: evil,
      deno: evil,
      lock: { too_wide: [evil], missing: [evil] },
      troubles: [{ about: evil, lines: [evil, evil] }, { about: "runner", lines: [evil] }],
      grants: { count: 0, problem_count: 1, problems: [{ file: evil, line: 1, problem: evil }] },
      audit: { state: "latched", next_seq: 1, file: evil },
      waiting: {
        ...{ count: 1, limit: 1 },
        items: [{ approval: 1, session: "s1", tool: evil, expires: "2026-12-01T10:00:00.000Z" }],
      },
      running: {
        count: 1,
        items: [{ decision: 1, session: "s1", tool: evil, since: "2026-12-01T10:00:00.000Z" }],
      },
      runner: { podman: evil, oci_runtime: evil, image: evil, image_state: "there" },
    },
  };
  const loop: Message<"loop_status"> = {
    kind: "loop_status",
    final: true,
    body: {
      ...first("loop_status").body,
      troubles: [{ about: evil, lines: [] }],
      model: { url: evil, state: "failed", problem: evil },
    },
  };
  for (const command of ["status", "doctor"] as const) {
    const { code, stdout } = await run(command, encodeFrame(broker), encodeFrame(loop));
    assert.equal(code, 1);
    // deno-lint-ignore no-control-regex
    assert.doesNotMatch(stdout, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200b]/);
    assert.ok(stdout.includes("\\u001b]0;t\\u0007\\u000d\\u009b2J\\u202e\\u200b\\u000a"), stdout);
    entriesIn(stdout.split("\n"));
  }
});

Deno.test("a status that is longer than any is no answer, and the longest there is is one", async () => {
  const body = first("loop_status").body;
  const withLines = (count: number, length: number) => {
    const troubles = Array(count).fill({ about: "core", lines: ["x".repeat(length)] });
    return bytesOf(
      JSON.stringify({ v: 1, kind: "loop_status", final: true, body: { ...body, troubles } }) +
        "\n",
    );
  };
  const cases = [[17, 1001, true], [18, 1, false], [1, 1002, false]] as const;
  for (const [count, length, taken] of cases) {
    const { stdout } = await run("status", BROKER, withLines(count, length));
    assert.match(line(stdout, "loopd"), taken ? /^ok / : /does not understand$/);
  }
});
