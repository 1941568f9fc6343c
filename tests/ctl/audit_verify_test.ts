import assert from "node:assert/strict";
import { readCommandLine } from "../../ctl/args.ts";
import { settled } from "../../ctl/audit_files.ts";
import { reportLines, verifyAudit } from "../../ctl/audit_verify.ts";
import { type AuditEvent, encodeHead, encodeRecord } from "../../proto/audit.ts";
import type { ChainFailure, ChainReport } from "../../proto/chain.ts";
import { sha256 } from "../../proto/ids.ts";
import { layout } from "../../proto/layout.ts";
import { differences } from "../support/audit_case.ts";
import { forEach, until } from "../support/broker.ts";
import { type Ran, Recorder, runCtl } from "../support/ctl.ts";
import { AuditBench, event, recordsIn } from "../support/log.ts";

const pure = { permissions: "none" } as const;
const VECTORS = new URL("../../fixtures/vectors/audit/", import.meta.url);

interface Expected {
  readonly arguments?: readonly string[];
  readonly exit: number;
  readonly report: Readonly<Record<string, unknown>>;
}

interface Vector extends Expected {
  readonly name: string;
  readonly home: string;
}

function directoriesIn(directory: URL): string[] {
  return [...Deno.readDirSync(directory)].filter((entry) => entry.isDirectory)
    .map((entry) => entry.name).sort();
}

const vectors: Vector[] = directoriesIn(VECTORS).flatMap((group) =>
  directoriesIn(new URL(`${group}/`, VECTORS)).map((name) => {
    const home = new URL(`${group}/${name}`, VECTORS);
    const expected: Expected = JSON.parse(Deno.readTextFileSync(`${home.pathname}/expected.json`));
    return { ...expected, name: `${group}/${name}`, home: home.pathname };
  })
);

/** `bxctl` with these arguments, in this process; for `audit verify` only. */
function run(args: readonly string[]): Ran {
  const io = new Recorder();
  const read = readCommandLine(args);
  if (read.kind === "usage") return { code: 2, stdout: "", stderr: read.problem };
  assert.ok(read.kind === "run" && read.command.name === "audit verify");
  const { audit } = layout(read.places.home ?? "");
  const code = verifyAudit(audit, io, read.json, read.command.expect);
  return { code, stdout: io.out, stderr: io.err };
}

/** What is not as the vector has it. */
function wrongIn({ name, exit, report }: Vector, ran: Ran): string[] {
  const wrong = ran.code === exit ? [] : [`exit ${ran.code}, not ${exit}`];
  const found = ran.stdout === "" ? {} : JSON.parse(ran.stdout);
  if (exit === 2 && ran.stdout !== "") wrong.push("an answer to wrong usage");
  if (found.failure !== undefined && (found.failure !== null) !== (exit === 1)) {
    wrong.push(`failure: ${JSON.stringify(found.failure)}`);
  }
  if (found.failure && !found.failure.what) wrong.push("a failure without words");
  return [...wrong, ...differences(found, report)].map((what) => `${name}: ${what}`);
}

Deno.test("audit verify gives the verdict of every vector", () => {
  assert.equal(vectors.length, 377);
  const wrong = vectors.flatMap((vector) => {
    const args = ["--home", vector.home, "--json", ...vector.arguments ?? []];
    return wrongIn(vector, run(["audit", "verify", ...args]));
  });
  assert.deepEqual(wrong, []);
});

Deno.test("the program itself gives them too, under its own locks", async () => {
  const names = [
    ...["break/", "changed/", "cut/", "deleted/", "empty/", "expect/", "files/", "head/"],
    ...["moved/", "others/", "recovered/", "seq/", "time/", "torn/", "usage/"],
  ];
  const some = names.map((group) => vectors.find(({ name }) => name.startsWith(group)))
    .flatMap((vector) => vector === undefined ? [] : [[vector.name, vector] as const]);
  assert.equal(some.length, 15);
  await forEach(Object.fromEntries(some), async (vector) => {
    const args = ["audit", "verify", "--json", ...vector.arguments ?? []];
    assert.deepEqual(wrongIn(vector, await runCtl(vector.home, args)), []);
  });
});

const HASH = "ab".repeat(32);
const WHOLE: ChainReport = {
  records: 8,
  head: HASH,
  next_seq: 8,
  failure: null,
  recoveries: [],
  accepted_breaks: [],
  abandoned: [],
  unfinished: [],
  clock_warnings: [],
  torn_tail: null,
  anchored: null,
};

Deno.test("a report reads: the verdict, then one line for each thing to know", pure, () => {
  assert.deepEqual(reportLines(WHOLE), [`audit: ok, 8 records, head ${HASH}`, "not anchored"]);
  assert.deepEqual(reportLines({ ...WHOLE, records: 0, head: null }), [
    "audit: ok, 0 records, head -",
    "not anchored",
  ]);
  const file = "2026-12-01.jsonl";
  const all: ChainReport = {
    ...WHOLE,
    recoveries: [{ file, line: 2 }, { file, line: 5 }],
    accepted_breaks: [{ file, line: 7 }],
    abandoned: [1, 4],
    unfinished: [3],
    clock_warnings: [{ file, line: 8 }],
    torn_tail: { file, line: 9 },
    anchored: 7,
  };
  const rest = [
    "recovered 2026-12-01.jsonl:2",
    "recovered 2026-12-01.jsonl:5",
    "accepted break 2026-12-01.jsonl:7",
    "abandoned 1",
    "abandoned 4",
    "unfinished 3",
    "clock went backwards 2026-12-01.jsonl:8",
  ];
  assert.deepEqual(reportLines(all), [
    `audit: ok, 8 records, head ${HASH}`,
    ...rest,
    "torn tail 2026-12-01.jsonl:9",
    "anchored at 7",
  ]);
  const failure = { file, line: 9, what: "seq is 9,\x1b[2J not 8" };
  assert.deepEqual(reportLines({ ...all, torn_tail: null, failure }), [
    "2026-12-01.jsonl:9: seq is 9,\\u001b[2J not 8",
    ...rest,
    "anchored at 7",
  ]);
});

/** A home whose log has two days of three records, with `bench` over its `audit/`. */
class Home implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "boxmaker-" });
  readonly bench = new AuditBench();
  readonly audit = `${this.root}/audit`;

  constructor() {
    this.bench.fill("2026-11-30", 3);
    this.bench.fill("2026-12-01", 3);
    // The log may lie elsewhere.
    Deno.symlinkSync(this.bench.directory, this.audit);
  }

  /** The first line of the answer, with the exit status. */
  verdict(...args: string[]): string {
    const { code, stdout } = run(["audit", "verify", "--home", this.root, ...args]);
    return `${code} ${stdout.split("\n")[0]}`;
  }

  lines(): string[] {
    return run(["audit", "verify", "--home", this.root]).stdout.split("\n");
  }

  [Symbol.dispose](): void {
    this.bench[Symbol.dispose]();
    Deno.removeSync(this.root, { recursive: true });
  }
}

const OK = /^0 audit: ok, 6 records, head [0-9a-f]{64}$/;

function makeFifo(path: string): void {
  const { success } = new Deno.Command("mkfifo", { args: [path] }).outputSync();
  assert.ok(success);
}

Deno.test("a log file that is no readable file is a failure that has no line", () => {
  const makers: Record<string, (path: string) => void> = {
    "directory": (path) => Deno.mkdirSync(path),
    "FIFO": makeFifo,
    "link to nothing": (path) => Deno.symlinkSync("nothing", path),
    "link to a directory": (path) => Deno.symlinkSync("/", path),
    "link to itself": (path) => Deno.symlinkSync(path, path),
  };
  for (const [what, make] of Object.entries(makers)) {
    // First, in the middle and last.
    for (const date of ["2026-11-01", "2026-12-01", "2026-12-31"]) {
      using home = new Home();
      assert.match(home.verdict(), OK);
      const path = home.bench.path(`${date}.jsonl`);
      if (date === "2026-12-01") Deno.removeSync(path);
      make(path);
      assert.match(home.verdict(), new RegExp(`^1 ${date}\\.jsonl:0: cannot be read: `), what);
    }
  }
});

Deno.test("links to files are read, and what lies beside the log is not", () => {
  using home = new Home();
  const { bench } = home;
  Deno.renameSync(bench.path("2026-11-30.jsonl"), `${home.root}/elsewhere`);
  Deno.symlinkSync(`${home.root}/elsewhere`, bench.path("2026-11-30.jsonl"));
  Deno.mkdirSync(bench.path("2026-02-30.jsonl"));
  makeFifo(bench.path("notes.jsonl"));
  assert.match(home.verdict(), OK);
});

Deno.test("a failure before a file that cannot be read is the one reported", () => {
  using home = new Home();
  const { bench } = home;
  Deno.mkdirSync(bench.path("2026-12-02.jsonl"));
  assert.match(home.verdict(), /^1 2026-12-02\.jsonl:0: /);
  const [first = "", second = "", third = ""] = bench.lines("2026-11-30.jsonl");
  bench.writeLines("2026-11-30.jsonl", [first, second.replace("private", "public"), third]);
  assert.match(home.verdict(), /^1 2026-11-30\.jsonl:3: prev is not the hash/);
});

Deno.test("what a crash left before a file that cannot be read stays undecided", () => {
  using home = new Home();
  const { bench } = home;
  const whole = new TextDecoder().decode(bench.read("2026-12-01.jsonl"));
  for (const end of ["torn", "torn\n", "torn\ntorn"]) {
    bench.write("2026-12-01.jsonl", whole + end);
    assert.match(home.verdict(), OK);
    Deno.mkdirSync(bench.path("2026-12-02.jsonl"));
    const [verdict, anchored] = home.lines();
    assert.match(verdict ?? "", /^2026-12-02\.jsonl:0: cannot be read: not a regular file$/);
    assert.equal(anchored, "anchored at 5");
    Deno.removeSync(bench.path("2026-12-02.jsonl"));
  }
});

Deno.test("a failure that has no line cannot be accepted", () => {
  using home = new Home();
  const { bench } = home;
  const last = recordsIn(bench.directory).at(-1) ?? assert.fail("no record");
  const prev = sha256(encodeRecord(last));
  const file = "2026-12-02.jsonl";
  const accepting: AuditEvent = { type: "accepted_break", file, line: 0, last_good: prev };
  const line = encodeRecord({ ...last, seq: last.seq + 1, prev, event: accepting });
  Deno.mkdirSync(bench.path(file));
  const before = bench.read("2026-12-01.jsonl");
  for (const end of [[], [0x0a]]) {
    bench.write("2026-12-01.jsonl", new Uint8Array([...before, ...line, ...end]));
    assert.match(home.verdict(), /^1 2026-12-0[12]\.jsonl:[04]: /);
  }
});

Deno.test("an audit directory that is missing or none is a failure that has no line", () => {
  using home = new Home();
  assert.match(home.verdict(), OK);
  Deno.removeSync(home.audit);
  assert.match(home.verdict(), /^1 audit:0: cannot be read: /);
  assert.equal(home.lines()[1], "not anchored");
  const { failure } = JSON.parse(
    run(["audit", "verify", "--json", "--home", home.root]).stdout,
  );
  assert.deepEqual([failure.file, failure.line], ["audit", 0]);
  Deno.writeTextFileSync(home.audit, "");
  assert.match(home.verdict(), /^1 audit:0: cannot be read: /);
  Deno.removeSync(home.audit);
  Deno.mkdirSync(home.audit);
  assert.equal(home.verdict(), "0 audit: ok, 0 records, head -");
});

Deno.test("a head.json that is not exactly what brokerd writes is no check, and says so", () => {
  using home = new Home();
  const { bench } = home;
  const whole = bench.read("head.json");
  assert.equal(home.lines()[1], "anchored at 5");
  const others: Record<string, () => void> = {
    "directory": () => Deno.mkdirSync(bench.path("head.json")),
    "FIFO": () => makeFifo(bench.path("head.json")),
    "too long": () => bench.write("head.json", new Uint8Array([...whole, 0x0a])),
    "too short": () => bench.write("head.json", whole.subarray(0, -1)),
    "empty": () => bench.write("head.json", ""),
    "as it was": () => bench.write("head.json", whole),
  };
  for (const [what, make] of Object.entries(others)) {
    Deno.removeSync(bench.path("head.json"), { recursive: true });
    assert.match(home.verdict(), OK);
    assert.equal(home.lines()[1], "not anchored");
    make();
    assert.match(home.verdict(), OK, what);
    assert.equal(home.lines()[1], what === "as it was" ? "anchored at 5" : "not anchored", what);
  }
});

Deno.test("a log that lost its end fails against head.json, and against what the owner kept", () => {
  using home = new Home();
  const { bench } = home;
  const lines = bench.lines("2026-12-01.jsonl");
  const hash = JSON.parse(new TextDecoder().decode(bench.read("head.json"))).hash;
  assert.match(home.verdict("--expect", `5:${hash}`), OK);
  bench.writeLines("2026-12-01.jsonl", lines.slice(0, 2));
  const verdict = "1 2026-12-01.jsonl:3: head: the log ends before record 5";
  assert.equal(home.verdict(), verdict);
  Deno.removeSync(bench.path("head.json"));
  assert.match(home.verdict(), /^0 audit: ok, 5 records/);
  assert.equal(home.verdict("--expect", `5:${hash}`), verdict);
});

Deno.test("a head that does not match counts once it was seen twice in a row", pure, () => {
  const failed = (failure: ChainFailure): ChainReport => ({ ...WHOLE, failure });
  const head = (line: number) => failed({ file: "f", line, what: "head: the log ends" });
  const chain = failed({ file: "f", line: 1, what: "seq is 9, not 8" });
  const cases: Record<string, [looks: ChainReport[], report: ChainReport, count: number]> = {
    "whole": [[WHOLE, head(1)], WHOLE, 1],
    "a broken chain": [[chain, WHOLE], chain, 1],
    "a head once": [[head(1), WHOLE, head(1)], WHOLE, 2],
    "a head, then a broken chain": [[head(1), chain, WHOLE], chain, 2],
    "a head twice": [[head(1), head(1), WHOLE], head(1), 2],
    "two heads, then none": [[head(1), head(2), WHOLE], WHOLE, 3],
    "two heads, the second twice": [[head(1), head(2), head(2), WHOLE], head(2), 3],
  };
  for (const [name, [looks, report, count]] of Object.entries(cases)) {
    let seen = 0;
    const found = settled(() => looks[seen++] ?? assert.fail("one look too many"));
    assert.deepEqual([found, seen], [report, count], name);
  }
  let line = 0;
  assert.equal(settled(() => head(line += 1)).failure?.line, 10, "and looking comes to an end");
});

Deno.test("a log can be verified while brokerd writes it, over midnight too", async () => {
  using home = new Home();
  const { bench } = home;
  bench.now = Date.parse("2026-12-01T23:59:59.000Z");
  const log = bench.open();
  let running = true;
  let written = 0;
  const writing = (async () => {
    while (running) {
      for (let n = 0; n < 20; n += 1) log.append(event(written += 1));
      bench.now += 20 * 60 * 1000;
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
  })();
  try {
    await until("records", () => written > 100);
    let records = 0;
    for (let n = 0; n < 4; n += 1) {
      const { code, stdout, stderr } = await runCtl(home.root, ["audit", "verify", "--json"]);
      const report: ChainReport = JSON.parse(stdout);
      assert.equal(code, 0, stdout + stderr);
      assert.ok(report.records > records && report.anchored !== null, stdout);
      records = report.records;
    }
    assert.ok(bench.lines("2026-12-02.jsonl").length > 0);
  } finally {
    running = false;
    await writing;
  }
});

Deno.test("reading changes nothing", () => {
  using home = new Home();
  const before = home.bench.snapshot();
  assert.match(home.verdict(), OK);
  home.bench.write("head.json", encodeHead({ seq: 9, hash: HASH }));
  const spoiled = home.bench.snapshot();
  assert.match(home.verdict(), /^1 /);
  assert.deepEqual(home.bench.snapshot(), spoiled);
  assert.notDeepEqual(before, spoiled);
});
