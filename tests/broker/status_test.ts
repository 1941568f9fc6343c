/** What brokerd says of itself: the states of its log, its runner's image, and never more than a frame holds. */
import assert from "node:assert/strict";
import { readRunner } from "../../broker/config.ts";
import { makeNotices } from "../../broker/notices.ts";
import { PodmanRuntime } from "../../broker/podman/runtime.ts";
import { encodeFrame, MAX_ANSWER_BYTES } from "../../proto/frames.ts";
import type { Body } from "../../proto/messages.ts";
import { MAX_ITEMS, MAX_UNITS, statusText, troublesOf } from "../../proto/status.ts";
import { ask, startBroker, TempHome, until } from "../support/broker.ts";
import { AuditBench, event } from "../support/log.ts";
import { diskFull, ioError } from "../support/watched_files.ts";

const FIRST = "2026-12-01.jsonl";

Deno.test("the log's state is told as it is, and telling tries nothing", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  assert.deepEqual(audit.status(), { state: "open", next_seq: 0, file: null });
  audit.append(event(0));
  const open = { state: "open", next_seq: 1, file: FIRST };
  assert.deepEqual(audit.status(), open);

  const whole = bench.read(FIRST);
  Deno.writeTextFileSync(bench.path(FIRST), "torn", { append: true });
  assert.deepEqual(audit.status(), { ...open, state: "disturbed" });
  Deno.truncateSync(bench.path(FIRST), whole.length);
  assert.deepEqual(audit.status(), open);

  bench.files.fault = ({ what }) => what === "write" || what === "list" ? diskFull() : null;
  assert.equal(audit.append(event(1)), null);
  assert.deepEqual(audit.status(), { ...open, state: "latched" });
  bench.files.fault = () => null;
  // A call tries again, and a status does not.
  assert.deepEqual(audit.status(), { ...open, state: "latched" });
  assert.equal(audit.append(event(1)), 1);
  assert.deepEqual(audit.status(), { ...open, next_seq: 2 });

  bench.files.fault = ({ what, name }) => what === "sync" && name === FIRST ? ioError() : null;
  assert.equal(audit.append(event(2)), null);
  assert.deepEqual(audit.status(), { state: "lost", next_seq: 2, file: FIRST });
});

/**
 * A program in Podman's place that notes each question and answers none while `hangs` stands there. Podman
 * itself cannot be made to hang.
 */
class SlowPodman implements Disposable {
  readonly directory = Deno.makeTempDirSync({ prefix: "boxmaker-" });
  readonly path = `${this.directory}/podman`;
  readonly #hangs = `${this.directory}/hangs`;

  constructor() {
    Deno.writeTextFileSync(this.#hangs, "");
    Deno.writeTextFileSync(
      this.path,
      `#!/bin/sh\necho "$@" >> ${this.directory}/asked\n` +
        `while [ -e ${this.#hangs} ]; do sleep 0.05; done\n`,
      { mode: 0o700 },
    );
  }

  /** The questions about the image so far. */
  get asked(): number {
    const text = Deno.readTextFileSync(`${this.directory}/asked`);
    return text.split("\n").filter((line) => line.includes("image exists")).length;
  }

  /** From now on it says yes to everything. */
  answer(): void {
    Deno.removeSync(this.#hangs);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.directory, { recursive: true });
  }
}

const IMAGE = `sha256:${"0".repeat(64)}`;

Deno.test("a Podman that does not answer holds no status up, is asked once, and never where it is known", async () => {
  using podman = new SlowPodman();
  const settings = readRunner({ runtime: "podman", podman: podman.path, image: IMAGE });
  assert(settings !== null);
  const places = { egress: "/e", seccomp: "/s", label: "l", asRoot: false };
  const egress = { table: {}, private: [], caFile: null, deno: null };
  const runtime = new PodmanRuntime(settings, egress, places, makeNotices(() => {}));
  const known = { podman: podman.path, oci_runtime: null, image: IMAGE };
  const unknown = { ...known, image_state: "unknown" };
  assert.deepEqual(
    await Promise.all(Array.from({ length: 5 }, () => runtime.status())),
    Array(5).fill(unknown),
  );
  assert.equal(podman.asked, 1);
  podman.answer();
  await until("the image", async () => (await runtime.status()).image_state === "there");
  const { asked } = podman;
  assert.deepEqual(await runtime.status(), { ...known, image_state: "there" });
  assert.equal(podman.asked, asked);
});

Deno.test("an image that was missing and is made is told, and no trouble any more", async () => {
  using place = new TempHome();
  const podman = `${place.root}/podman`;
  const flag = `${place.root}/made`;
  Deno.writeTextFileSync(
    podman,
    `#!/bin/sh\ncase "$*" in *"image exists"*) test -e ${flag} ;; esac\n`,
    { mode: 0o700 },
  );
  using home = new TempHome(
    `[runner]\nruntime = "podman"\npodman = "${podman}"\nimage = "${IMAGE}"\n`,
  );
  await using broker = await startBroker(home);
  const status = async (): Promise<Body<"broker_status">> => {
    const [answer] = await ask(home.layout.adminSocket, "status", {});
    assert(answer?.kind === "broker_status" && answer.final);
    return answer.body;
  };
  const before = await status();
  assert.equal(before.runner.image_state, "missing");
  assert.deepEqual(before.troubles, [{
    about: "runner",
    lines: [
      `allowed calls cannot run: there is no image ${IMAGE}`,
      "see docs/runbook.md#image-missing",
    ],
  }]);
  Deno.writeTextFileSync(flag, "");
  const after = await status();
  assert.equal(after.runner.image_state, "there");
  assert.deepEqual(after.troubles, []);
  await broker.said("brokerd: the image of the tools is there now\n");
  await broker.stop();
});

Deno.test("a status fits its frame, whatever was said and whatever a model called", {
  permissions: "none",
}, () => {
  assert.equal(statusText("x".repeat(MAX_UNITS)), "x".repeat(MAX_UNITS));
  assert.equal(statusText("\ud800"), "\ufffd");
  const longest = statusText("\u0001".repeat(MAX_UNITS + 1));
  assert.equal(longest.length, MAX_UNITS + 1);
  // What was said has been through `display`, which leaves no control character.
  const line = "\uffe6".repeat(100_000);
  const said = Array.from({ length: 100 }, () => [line, [...Array(99).fill(line), "the end"]]);
  const troubles = troublesOf(said as [string, string[]][]);
  assert.equal(troubles.length, MAX_ITEMS);
  for (const { lines } of troubles) {
    assert.equal(lines.length, MAX_ITEMS + 1);
    assert.equal(lines.at(-1), "the end");
  }
  const many = <T>(item: T): T[] => Array(MAX_ITEMS).fill(item);
  const time = "2026-12-01T10:00:00.000Z";
  const session = "s".repeat(64);
  const seq = Number.MAX_SAFE_INTEGER;
  const frame = encodeFrame({
    kind: "broker_status",
    final: true,
    body: {
      ...{ version: longest, deno: longest, since: time },
      lock: { too_wide: many(longest), missing: many(longest) },
      troubles,
      grants: {
        ...{ count: seq, problem_count: seq },
        problems: many({ file: longest, line: seq, problem: longest }),
      },
      audit: { state: "disturbed", next_seq: seq, file: longest },
      waiting: {
        ...{ count: seq, limit: seq },
        items: many({ approval: seq, session, tool: longest, expires: time }),
      },
      running: {
        count: seq,
        items: many({ decision: seq, session, tool: longest, since: time }),
      },
      runner: {
        ...{ podman: longest, oci_runtime: longest, image: longest, image_state: "unknown" },
      },
    },
  });
  assert.ok(frame.length < MAX_ANSWER_BYTES, `${frame.length} bytes`);
});
