/** What stands in the writer's way, and what it says and keeps open meanwhile (contracts 5.3 and 5.8). */
import assert from "node:assert/strict";
import { AuditBench, event } from "../support/log.ts";
import { ioError } from "../support/watched_files.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const FIRST = "2026-12-01.jsonl";
const SECOND = "2026-12-02.jsonl";

Deno.test("a FIFO in the place of a new day's file is not written to, and does not end the log", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  audit.append(event(0));
  bench.now += DAY_MS;
  assert(new Deno.Command("mkfifo", { args: [bench.path(SECOND)] }).outputSync().success);
  for (let n = 0; n < 2; n += 1) assert.equal(audit.append(event(1)), null);
  Deno.removeSync(bench.path(SECOND));
  assert.equal(audit.append(event(1)), 1);
  assert.equal(bench.files.open, 2, "the log and head.json");
});

Deno.test("a file of a new day that somebody else made is named, and closed", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  audit.append(event(0));
  bench.now += DAY_MS;
  bench.write(SECOND, "x");
  assert.equal(audit.append(event(1)), null);
  const said = bench.said.filter((line) => line.includes(SECOND));
  assert.deepEqual(said, [
    "audit: every call is denied: a record could not be written: " +
    `${SECOND} is not a file that this broker made`,
  ]);
  assert.notEqual(audit.append(event(1)), null);
  assert.equal(bench.files.open, 2, "the log and head.json");
});

Deno.test("a newest file that cannot be looked at is not written to", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  audit.append(event(0));
  bench.files.fault = ({ what, name }) => what === "stat" && name === FIRST ? ioError() : null;
  assert.equal(audit.append(event(1)), null);
  bench.files.fault = () => null;
  assert.equal(audit.append(event(1)), 1);
});

Deno.test("a log of one record is not anchored either where there is no head.json", () => {
  using bench = new AuditBench();
  bench.open().append(event(0));
  Deno.removeSync(bench.path("head.json"));
  bench.said.length = 0;
  bench.open();
  assert(bench.said.some((line) => line.startsWith("audit: not anchored")), bench.said.join("\n"));
});

Deno.test("a log that cannot be opened again is told, with why", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  audit.append(event(0));
  Deno.writeTextFileSync(bench.path(FIRST), "torn", { append: true });
  bench.files.fault = ({ what }) => what === "list" ? ioError() : null;
  assert.equal(audit.append(event(1)), null);
  const told = "audit: every call is denied: the log cannot be opened: i/o error";
  assert(bench.said.includes(told), bench.said.join("\n"));
});

Deno.test("a FIFO in the place of head.json is told as what it is, and closed", () => {
  using bench = new AuditBench();
  const audit = bench.open();
  audit.append(event(0));
  Deno.removeSync(bench.path("head.json"));
  assert(new Deno.Command("mkfifo", { args: [bench.path("head.json")] }).outputSync().success);
  assert.equal(audit.append(event(1)), 1);
  const told =
    "audit: head.json cannot be written, so a log that loses its end will not show it: " +
    "head.json is not a regular file";
  assert(bench.said.includes(told), bench.said.join("\n"));
  assert.equal(bench.files.open, 1, "the one that records go to");
});
