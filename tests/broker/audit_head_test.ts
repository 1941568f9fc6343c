/** `head.json` as the writer of the audit log keeps it (contracts 5.8). */
import assert from "node:assert/strict";
import { encodeHead } from "../../proto/audit.ts";
import { sha256 } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";
import { AuditBench, event } from "../support/log.ts";
import { diskFull, ioError } from "../support/watched_files.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const FIRST = "2026-12-01.jsonl";

Deno.test("head.json names the last record after each one, in 128 bytes and one write", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  for (let seq = 0; seq < 3; seq += 1) {
    audit.append(event(seq));
    const hash = sha256(utf8(bench.lines(FIRST).at(-1) ?? ""));
    assert.deepEqual(bench.read("head.json"), encodeHead({ seq, hash }));
    const json = new TextDecoder().decode(bench.read("head.json"));
    assert.equal(json, `{"seq":${seq},"hash":"${hash}"}`.padEnd(127) + "\n");
    assert.equal(bench.done().filter((one) => one === "write head.json").length, 1);
  }
  assert.equal(bench.report().anchored, 2);
});

Deno.test("a head.json that cannot be written is said once, and records go on", async (t) => {
  const outside = Deno.makeTempFileSync();
  const spoiled: Readonly<Record<string, (path: string) => void>> = {
    "a directory": (path) => Deno.mkdirSync(path),
    "a link to a file": (path) => Deno.symlinkSync(outside, path),
    "a link to nothing": (path) => Deno.symlinkSync(`${outside}.none`, path),
    "a FIFO": (path) => assert(new Deno.Command("mkfifo", { args: [path] }).outputSync().success),
  };
  for (const [what, spoil] of Object.entries(spoiled)) {
    await t.step(what, () => {
      using bench = new AuditBench();
      const audit = bench.open();
      audit.append(event(0));
      const notices = () => bench.said.filter((line) => line.startsWith("audit: head.json")).length;
      for (const times of [1, 2]) {
        Deno.removeSync(bench.path("head.json"));
        spoil(bench.path("head.json"));
        assert.notEqual(audit.append(event(1)), null);
        assert.notEqual(audit.append(event(2)), null);
        assert.equal(notices(), times);
        // Once it can be written it is, with nobody's help.
        Deno.removeSync(bench.path("head.json"));
        assert.notEqual(audit.append(event(3)), null);
        assert.equal(bench.report().anchored, times * 3);
      }
      assert(bench.said.includes("see docs/runbook.md#audit-head-unwritable"));
      assert.equal(bench.report().failure, null);
    });
  }
  assert.equal(Deno.readTextFileSync(outside), "", "a link is not followed");
  assert.throws(() => Deno.lstatSync(`${outside}.none`), Deno.errors.NotFound);
  Deno.removeSync(outside);
});

Deno.test("only the newest file and head.json stay open, over a change of day and after a failure too", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  for (let day = 0; day < 3; day += 1) {
    assert.notEqual(audit.append(event(day)), null);
    assert.equal(bench.files.open, 2);
    bench.now += DAY_MS;
  }
  for (const what of ["write", "openAppend", "list", "openRead"]) {
    bench.files.fault = (done) =>
      done.what === what || done.what === "write" && done.name !== "head.json" ? diskFull() : null;
    assert.equal(audit.append(event(3)), null, what);
    bench.files.fault = () => null;
    assert.notEqual(audit.append(event(3)), null, what);
    assert.equal(bench.files.open, 2, what);
    bench.now += DAY_MS;
  }
});

Deno.test("a head.json that cannot be written from the first record on is said", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  bench.files.fault = ({ what, name }) =>
    what === "openUpdate" && name === "head.json" ? ioError() : null;
  assert.equal(audit.append(event(0)), 0);
  assert.equal(bench.said.filter((line) => line.startsWith("audit: head.json")).length, 1);
});

/** What the owner may do to `head.json`, away from it and to `aside`, while this writer holds it open. */
const EXCHANGED: Readonly<Record<string, (head: string, aside: string) => void>> = {
  "moved away": (head, aside) => Deno.renameSync(head, aside),
  "moved away, and a copy in its place": (head, aside) => {
    Deno.renameSync(head, aside);
    Deno.copyFileSync(aside, head);
  },
  "moved away, and another one moved there": (head, aside) => {
    Deno.writeTextFileSync(`${aside}-other`, "{}");
    Deno.renameSync(head, aside);
    Deno.renameSync(`${aside}-other`, head);
  },
};

Deno.test("a head.json that was moved is left as it is, and what stands there now is written", () => {
  for (const [what, exchange] of Object.entries(EXCHANGED)) {
    using bench = new AuditBench();
    const audit = bench.open();
    audit.append(event(0));
    const before = bench.read("head.json");
    exchange(bench.path("head.json"), bench.path("aside"));
    audit.append(event(1));
    assert.deepEqual(bench.read("aside"), before, what);
    const hash = sha256(utf8(bench.lines(FIRST).at(-1) ?? ""));
    assert.deepEqual(bench.read("head.json"), encodeHead({ seq: 1, hash }), what);
    assert.equal(bench.files.open, 2, what);
  }
});

Deno.test("a link to the old head.json in its place is not written through", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  audit.append(event(0));
  const before = bench.read("head.json");
  Deno.renameSync(bench.path("head.json"), bench.path("aside"));
  Deno.symlinkSync("aside", bench.path("head.json"));
  audit.append(event(1));
  assert.deepEqual(bench.read("aside"), before);
  assert.equal(bench.said.filter((line) => line.startsWith("audit: head.json")).length, 1);
  Deno.removeSync(bench.path("head.json"));
  audit.append(event(2));
  assert.equal(bench.read("head.json").length, 128);
});

Deno.test("a head.json that was longer, or written short, is whole again after the next record", () => {
  using bench = new AuditBench();
  bench.write("head.json", "x".repeat(1000));
  const audit = bench.open();
  audit.append(event(0));
  assert.equal(bench.report().anchored, 0);
  // While it is open, too.
  Deno.writeTextFileSync(bench.path("head.json"), "more", { append: true });
  audit.append(event(1));
  assert.equal(bench.report().anchored, 1);
  bench.files.fault = ({ what, name }) => what === "write" && name === "head.json" ? 40 : null;
  assert.equal(audit.append(event(2)), 2);
  bench.files.fault = () => null;
  assert.equal(bench.read("head.json").length, 0, "no mixture of two heads");
  assert.equal(bench.files.open, 1, "it is opened anew for the next one");
  assert.equal(bench.said.filter((line) => line.includes("head.json")).length, 1);
  assert.equal(audit.append(event(3)), 3);
  assert.equal(bench.report().anchored, 3);
  assert.equal(bench.read("head.json").length, 128);
});

/** What is done to the newest file behind the writer's back, and whether it goes on. */
