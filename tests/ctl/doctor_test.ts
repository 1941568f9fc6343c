/** `bxctl doctor`: everything as it should be, and each thing wrong once. */
import assert from "node:assert/strict";
import { doctorChecks, type DoctorFacts } from "../../ctl/doctor_checks.ts";
import { report } from "../../ctl/doctor.ts";
import { lookAround } from "../../ctl/machine.ts";
import { auditFileName, encodeRecord } from "../../proto/audit.ts";
import { timestamp } from "../../proto/ids.ts";
import { onPath } from "../../scripts/support/podman.ts";
import {
  flagsFor as brokerFlags,
  frame,
  RawClient,
  readFile,
  startBroker,
} from "../support/broker.ts";
import { CtlHome, flagsFor, Recorder, runCtl } from "../support/ctl.ts";
import { IS_ROOT, run } from "../support/hostile.ts";
import { messagesOf } from "../support/messages.ts";
import { Daemons, entriesIn, plain } from "../support/status_home.ts";

const GRANT = 'tool = "read_file"\nmode = "ask"\n[constraints]\npaths = ["/n"]\n';

const ALL_RIGHT = [
  "ok       Deno                      2.9.6, of bxctl, brokerd, loopd",
  "ok       lock of bxctl             exactly its row, as far as the runtime says",
  "ok       lock of brokerd           exactly its row, as far as the runtime says",
  "ok       lock of loopd             exactly its row, as far as the runtime says",
  "ok       home                      HOME, mode 0700",
  "ok       grants                    HOME/grants, mode 0700",
  "ok       a grant                   HOME/grants/notes.toml, mode 0600",
  "ok       audit log                 HOME/audit, mode 0700",
  "ok       newest file               HOME/audit/FILE, mode 0600",
  "ok       brokerd's own             HOME/broker, mode 0700",
  "ok       loopd's own               HOME/loop, mode 0700",
  "ok       directory of broker.sock  HOME/run/loop-broker, mode 0700",
  "ok       broker.sock               HOME/run/loop-broker/broker.sock, mode 0600",
  "ok       directory of admin.sock   HOME/run/owner-broker, mode 0700",
  "ok       admin.sock                HOME/run/owner-broker/admin.sock, mode 0600",
  "ok       directory of loop.sock    HOME/run/owner-loop, mode 0700",
  "ok       loop.sock                 HOME/run/owner-loop/loop.sock, mode 0600",
  "ok       path of broker.sock       N of 107 bytes",
  "ok       path of admin.sock        N of 107 bytes",
  "ok       path of loop.sock         N of 107 bytes",
  "ok       clock                     TIME, no record is of later",
  "ok       disk                      N MiB free, and room for N files",
  "ok       runner                    none is configured: no tool runs",
  "all right",
];

/** Daemons in a home with a grant, and a record in the log. */
async function start(): Promise<Daemons> {
  const daemons = await Daemons.start({ prepare: (home) => home.grant("notes", GRANT) });
  using client = await RawClient.connect(daemons.home.layout.brokerSocket);
  await client.send(frame("tool_request", readFile("s1", "c1", "/elsewhere")));
  assert.equal((await client.next())?.final, true);
  return daemons;
}

/** What the doctor says, with what differs from run to run replaced. */
async function doctor(daemons: Daemons): Promise<{ code: number; lines: string[] }> {
  const { code, stdout, stderr } = await daemons.ctl("doctor");
  assert.equal(stderr, "");
  const lines = plain(stdout, daemons.home, daemons.llama.url).map((line) =>
    line.replace(/\d+ of 107/, "N of 107").replace(/\d+ MiB/, "N MiB")
      // A file system that makes its inodes as it needs them has no number of them.
      .replace(/for \d+ files/, "for N files").replace(
        /MiB free$/,
        "MiB free, and room for N files",
      )
  );
  return { code, lines };
}

Deno.test("all is as it should be: a line for each thing, exit status 0, and the same as JSON", async () => {
  await using daemons = await start();
  assert.deepEqual(await doctor(daemons), { code: 0, lines: ALL_RIGHT });
  const { code, stdout } = await daemons.ctl("doctor", "--json");
  const { ok, checks } = JSON.parse(stdout);
  assert.deepEqual([code, ok, checks.length], [0, true, ALL_RIGHT.length - 1]);
});

Deno.test("a mode that lets others in is wrong, for each place, and chmod is named", async (t) => {
  await using daemons = await start();
  const { layout } = daemons.home;
  const [newest = ""] = daemons.home.auditFiles();
  const cases = {
    "home": [layout.home, 0o755, "0755", "0700", "use", "home-too-open"],
    "grants": [layout.grants, 0o770, "0770", "0750", "write", "home-too-open"],
    "a grant": [`${layout.grants}/notes.toml`, 0o622, "0622", "0600", "write", "home-too-open"],
    "audit log": [layout.audit, 0o701, "0701", "0700", "use", "home-too-open"],
    "newest file": [`${layout.audit}/${newest}`, 0o644, "0644", "0600", "use", "home-too-open"],
    "brokerd's own": [layout.broker, 0o710, "0710", "0700", "use", "home-too-open"],
    "loopd's own": [layout.loop, 0o750, "0750", "0700", "use", "home-too-open"],
    "directory of admin.sock": [
      ...[`${layout.home}/run/owner-broker`, 0o750] as const,
      ...["0750", "0700", "use", "socket-directory"] as const,
    ],
    "admin.sock": [layout.adminSocket, 0o660, "0660", "0600", "use", "socket-directory"],
    "loop.sock": [layout.loopSocket, 0o700, "0700", "0600", "use", "socket-directory"],
  } as const;
  for (const [name, [path, mode, shown, to, what, entry]] of Object.entries(cases)) {
    await t.step(name, async () => {
      const before = (Deno.lstatSync(path).mode ?? 0) & 0o777;
      Deno.chmodSync(path, mode);
      const { code, lines } = await doctor(daemons);
      Deno.chmodSync(path, before);
      const place = path.replace(daemons.home.home, "HOME").replace(newest, "FILE");
      const wrong = [
        `wrong    ${name.padEnd(24)}  ${place} has mode ${shown}: others may ${what} it`,
        `${" ".repeat(35)}chmod ${to} ${place}; see docs/runbook.md#${entry}`,
      ];
      const expected = ALL_RIGHT.flatMap((line) =>
        line.startsWith(`ok       ${name.padEnd(24)} `) ? wrong : [line]
      );
      assert.deepEqual(lines, expected.with(-1, "1 wrong"));
      assert.equal(code, 1);
      entriesIn(lines);
    });
  }
  assert.deepEqual((await doctor(daemons)).lines, ALL_RIGHT);
});

Deno.test("what is missing or something else than it should be is said", async () => {
  using home = new CtlHome();
  for (const path of [home.layout.home, home.layout.audit]) Deno.chmodSync(path, 0o700);
  const lineOf = async (name: string) => {
    const { code, stdout } = await runCtl(home.layout.home, ["doctor"]);
    return [code, stdout.split("\n").find((line) => line.slice(9).startsWith(`${name} `))] as const;
  };
  const [missing, grants] = await lineOf("grants");
  assert.match(grants ?? "", /^wrong .*\/grants is not there$/);
  assert.equal(missing, 1);
  Deno.mkdirSync(home.layout.grants, { mode: 0o700 });
  const [there, found] = await lineOf("grants");
  assert.match(found ?? "", /^ok .*\/grants, mode 0700$/);
  assert.equal(there, 0);
  // The home may lie elsewhere: that is no fault, and is said.
  Deno.symlinkSync("/elsewhere", home.layout.loop);
  const [link, loop] = await lineOf("loopd's own");
  assert.match(loop ?? "", /^warning .*\/loop is a link, and what it leads to was not looked at$/);
  assert.equal(link, 0);
  Deno.writeTextFileSync(home.layout.broker, "");
  const [code, broker] = await lineOf("brokerd's own");
  assert.match(broker ?? "", /^wrong .*\/broker is no directory$/);
  assert.equal(code, 1);
});

Deno.test({
  name: "a place of another user is wrong",
  ignore: !IS_ROOT, // only root may give files away
  async fn() {
    await using daemons = await start();
    Deno.chownSync(daemons.home.layout.grants, 65534, 65534);
    const { code, lines } = await doctor(daemons);
    const wrong =
      "wrong    grants                    HOME/grants belongs to user 65534, and bxctl runs as user 0";
    assert.ok(lines.includes(wrong), lines.join("\n"));
    assert.equal(code, 1);
    Deno.chownSync(daemons.home.layout.grants, 0, 0);
    assert.equal((await doctor(daemons)).code, 0);
  },
});

Deno.test("a socket's path of more than 107 bytes is wrong, and of 107 is not", async () => {
  using home = new CtlHome();
  Deno.mkdirSync(home.layout.grants, { mode: 0o700 });
  for (const path of [home.layout.home, home.layout.audit]) Deno.chmodSync(path, 0o700);
  const rest = (name: string) => 107 - `${home.root}//`.length - name.length;
  for (const [more, state] of [[0, "ok"], [1, "wrong"]] as const) {
    const path = `${home.root}/${"s".repeat(rest("a.sock") + more)}/a.sock`;
    assert.equal(path.length, 107 + more);
    const args = ["doctor", "--admin-socket", path];
    const flags = flagsFor(home.layout.home, ["doctor"]).map((flag) =>
      flag.replaceAll(home.layout.adminSocket, path)
        .replaceAll(home.layout.adminSocket.replace("/admin.sock", ""), path.replace("/a.sock", ""))
    );
    const { code, stdout } = await runCtl(home.layout.home, args, { flags });
    const line = stdout.split("\n").find((line) => line.includes("  path of admin.sock"));
    assert.match(line ?? stdout, new RegExp(`^${state}`));
    assert.equal(code, more, stdout);
  }
});

Deno.test("a record of the future is wrong, and one of the past is not", async () => {
  for (const [ahead, code] of [[-60_000, 0], [86_400_000, 1]] as const) {
    using home = new CtlHome();
    Deno.mkdirSync(home.layout.grants, { mode: 0o700 });
    for (const path of [home.layout.home, home.layout.audit]) Deno.chmodSync(path, 0o700);
    const time = timestamp(Date.now() + ahead);
    const line = encodeRecord({
      ...{ seq: 0, time, prev: "0".repeat(64) },
      event: { type: "recovery", torn_bytes: 1, torn_sha256: "0".repeat(64) },
    });
    const file = `${home.layout.audit}/${auditFileName(time)}`;
    Deno.writeFileSync(file, new Uint8Array([...line, 0x0a]), { mode: 0o600 });
    const ran = await runCtl(home.layout.home, ["doctor"]);
    const clock = ran.stdout.split("\n").find((line) => line.includes("  clock  "));
    assert.match(
      clock ?? "",
      code === 0
        ? /^ok .* no record is of later$/
        : /^wrong .*, and record 0 is of .*: (?:1 day|24 hr) later$/,
    );
    assert.equal(ran.code, code, ran.stdout);
    // A line that a crash cut off does not hide the one before it.
    Deno.writeTextFileSync(file, '{"seq":1,', { append: true });
    assert.equal((await runCtl(home.layout.home, ["doctor"])).code, code);
  }
});

Deno.test({
  name: "a file system that is nearly full is wrong, one with little room a warning",
  ignore: !IS_ROOT, // only root may mount a small file system
  async fn() {
    for (const [size, state] of [["32m", "wrong"], ["256m", "warning"], ["2g", "ok"]] as const) {
      using home = new CtlHome();
      run("mount", "-t", "tmpfs", "-o", `size=${size},mode=0700`, "none", home.layout.home);
      try {
        Deno.mkdirSync(home.layout.grants, { mode: 0o700 });
        Deno.mkdirSync(home.layout.audit, { mode: 0o700 });
        const { code, stdout } = await runCtl(home.layout.home, ["doctor"]);
        const line = stdout.split("\n").find((line) => line.includes("  disk  "));
        assert.match(line ?? "", new RegExp(`^${state} .* MiB free`));
        assert.equal(code, state === "wrong" ? 1 : 0, stdout);
        entriesIn(stdout.split("\n"));
      } finally {
        run("umount", home.layout.home);
      }
    }
  },
});

Deno.test("a daemon that was started with less than its row says so", async () => {
  await using daemons = await start();
  await daemons.broker?.stop();
  const { home } = daemons;
  const flags = brokerFlags(home).map((flag) =>
    flag.startsWith("--allow-read=") ? flag.replace(`${home.layout.grants},`, "") : flag
  );
  daemons.broker = await startBroker(home, { flags });
  const { code, lines } = await doctor(daemons);
  const at = lines.indexOf(
    "warning  lock of brokerd           it was started with fewer permissions than its row has",
  );
  assert.deepEqual(lines.slice(at + 1, at + 3).map((line) => line.trim()), [
    "it may not read HOME/grants",
    "see docs/runbook.md#permissions-too-wide",
  ]);
  assert.equal(code, 0);
});

Deno.test("without its own row the doctor says what it may not look at, and fails nothing", async () => {
  using home = new CtlHome();
  Deno.chmodSync(home.layout.audit, 0o700);
  const flags = flagsFor(home.layout.home, ["status"]);
  const { code, stdout, stderr } = await runCtl(home.layout.home, ["doctor"], { flags });
  assert.deepEqual([code, stderr], [0, ""], stdout);
  const unknown = stdout.split("\n").filter((line) => line.startsWith("unknown"));
  assert.ok(unknown.some((line) => line.includes("  home  ")), stdout);
  assert.ok(unknown.some((line) => line.includes("  disk  ")), stdout);
  assert.ok(entriesIn(stdout.split("\n")).includes("doctor-sees-little"));
});

Deno.test("only what is named as a file of the log is one", async () => {
  using home = new CtlHome();
  Deno.mkdirSync(`${home.layout.audit}/z.jsonl`, { recursive: true });
  Deno.writeTextFileSync(`${home.layout.audit}/2026-12-01.jsonl`, "", { mode: 0o644 });
  const { stdout } = await runCtl(home.layout.home, ["doctor"]);
  const files = stdout.split("\n").filter((line) => line.includes("newest file"));
  assert.equal(files.length, 1, stdout);
  assert.match(files[0] ?? "", /^wrong .*2026-12-01\.jsonl has mode 0644: others may use it$/);
});

Deno.test("where no home is, the doctor says so of the disk, and sends nobody for other permissions", async () => {
  using home = new CtlHome();
  const path = `${home.layout.home}/none`;
  const { stdout } = await runCtl(path, ["doctor"]);
  const lines = stdout.split("\n");
  const disk = lines.find((line) => line.includes("  disk  "));
  assert.match(disk ?? "", /^unknown +disk +\/.*\/none is not there: bxctl init makes it$/);
  assert.ok(!entriesIn(lines).includes("doctor-sees-little"), stdout);
});

Deno.test("with more than its row, or without what is taken out of it, the doctor does not run", async () => {
  using home = new CtlHome();
  const flags = flagsFor(home.layout.home, ["doctor"]);
  assert.ok(flags.some((flag) => flag.startsWith("--deny-read=")));
  const wider = {
    "reads anywhere": flags.map((flag) => flag.startsWith("--allow-read=") ? "--allow-read" : flag),
    "reads what is private": flags.filter((flag) => !flag.startsWith("--deny-read=")),
    "knows the system": flags.map((flag) => flag.startsWith("--allow-sys=") ? "--allow-sys" : flag),
  };
  for (const [what, flags] of Object.entries(wider)) {
    const { code, stderr } = await runCtl(home.layout.home, ["doctor"], { flags });
    assert.equal(code, 1, what);
    assert.match(
      stderr,
      /which it must not\nbxctl: see docs\/runbook\.md#permissions-too-wide/,
      what,
    );
  }
});

Deno.test("the doctor's row reads no conversation, no memory and no session's state", () => {
  using home = new CtlHome();
  const { layout } = home;
  const hidden = [layout.loopSessions, layout.memory, layout.brokerSessions];
  for (const directory of hidden) {
    Deno.mkdirSync(directory, { recursive: true });
    Deno.writeTextFileSync(`${directory}/x`, "private");
  }
  const probe = `${home.root}/probe.ts`;
  Deno.writeTextFileSync(
    probe,
    `
    for (const path of Deno.args) {
      try {
        Deno.statSync(path);
        console.log("yes");
      } catch (error) {
        console.log(error.name);
      }
    }
  `,
  );
  const { stdout } = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", ...flagsFor(layout.home, ["doctor"]).filter((flag) => flag !== "--frozen"), probe],
      ...[layout.home, layout.loop, layout.broker],
      ...hidden.map((directory) => `${directory}/x`),
    ],
  }).outputSync();
  assert.equal(
    new TextDecoder().decode(stdout),
    "yes\n".repeat(3) + "NotCapable\n".repeat(3),
  );
});

/** The facts of a home that is as it should be, with daemons that say so. */
function facts(home: CtlHome): DoctorFacts {
  const [broker] = messagesOf("broker_status");
  const [loop] = messagesOf("loop_status");
  assert(broker !== undefined && loop !== undefined);
  for (const path of [home.layout.home, home.layout.audit]) Deno.chmodSync(path, 0o700);
  Deno.mkdirSync(home.layout.grants, { recursive: true, mode: 0o700 });
  return {
    machine: lookAround({ ...home.layout, layout: home.layout }),
    lock: { too_wide: [], missing: [] },
    brokerd: { ok: true, status: broker.body },
    loopd: { ok: true, status: loop.body },
    newest: { ok: true, record: null },
    now: Date.parse("2026-12-01T10:00:00.000Z"),
  };
}

/** How `facts` come out, and the line that is not ok. */
function told(facts: DoctorFacts): { status: number; bad: string[] } {
  const io = new Recorder();
  const status = report(facts, io, false);
  const lines = io.out.split("\n").slice(0, -2);
  entriesIn(lines);
  return {
    status,
    bad: lines.filter((line) => !/^(?:ok| )/.test(line)).map((line) =>
      line.replace(/ {2,}/g, "  ")
    ),
  };
}

Deno.test("another version of Deno, a wide lock and a clock far off are wrong", () => {
  using home = new CtlHome();
  const right = facts(home);
  assert.deepEqual(told(right), { status: 0, bad: [] });
  assert(right.brokerd.ok);
  const { status } = right.brokerd;
  const cases: [DoctorFacts, string][] = [
    [
      { ...right, machine: { ...right.machine, deno: "2.9.5" } },
      "wrong  Deno  2.9.6 is needed, and this is 2.9.5 of bxctl",
    ],
    [
      { ...right, brokerd: { ok: true, status: { ...status, deno: "2.8.0" } } },
      "wrong  Deno  2.9.6 is needed, and this is 2.8.0 of brokerd",
    ],
    [
      { ...right, lock: { too_wide: ["run programs"], missing: [] } },
      "wrong  lock of bxctl  it may do what it must not",
    ],
    [
      {
        ...right,
        brokerd: {
          ok: true,
          status: { ...status, lock: { too_wide: ["read anywhere"], missing: [] } },
        },
      },
      "wrong  lock of brokerd  it may do what it must not",
    ],
    [{ ...right, now: 0 }, "wrong  clock  it is 1970-01-01T00:00:00.000Z"],
    [
      { ...right, machine: { ...right.machine, disk: { ok: true, free: 2 ** 40, files: 3 } } },
      "wrong  disk  1048576 MiB free, and room for 3 files: on a full disk every call is denied",
    ],
  ];
  for (const [wrong, line] of cases) assert.deepEqual(told(wrong), { status: 1, bad: [line] });
});

Deno.test("where a runner is configured, what it needs is looked at", () => {
  using home = new CtlHome();
  const right = facts(home);
  assert(right.brokerd.ok);
  const { status } = right.brokerd;
  const runner = {
    podman: "/usr/bin/podman",
    oci_runtime: "runc",
    image: "sha256:0",
    image_state: "there",
  } as const;
  const system = {
    podman: ["/usr/bin/podman"],
    runtimes: ["/usr/sbin/runc"],
    users: "root:x:0:0::/root:/bin/sh\no:x:1000:1000::/home/o:/bin/sh\n",
    ranges: ["o:100000:65536\n", "1000:100000:65536\n"],
  };
  const works: DoctorFacts = {
    ...right,
    machine: { ...right.machine, uid: 1000, places: [], system },
    brokerd: { ok: true, status: { ...status, runner } },
  };
  assert.deepEqual(told(works), { status: 0, bad: [] });
  const names = doctorChecks(works, { deno: "2.9.6", socketPath: 107 }).slice(-3);
  assert.deepEqual(names.map(({ name, words }) => [name, words]), [
    ["Podman", "/usr/bin/podman"],
    ["OCI runtime", "/usr/sbin/runc"],
    ["user namespaces", "/etc/subuid and /etc/subgid have a range for this user"],
  ]);
  const machine = (changed: Partial<typeof system>): DoctorFacts => ({
    ...works,
    machine: { ...works.machine, system: { ...system, ...changed } },
  });
  const said = [{ about: "runner", lines: ["allowed calls cannot run: no such file"] }];
  const cases: [DoctorFacts, string][] = [
    [
      { ...works, brokerd: { ok: true, status: { ...status, runner, troubles: said } } },
      "wrong  Podman  /usr/bin/podman does not work for brokerd",
    ],
    [machine({ runtimes: [] }), "wrong  OCI runtime  runc is not there"],
    [machine({ runtimes: ["/usr/bin/crun"] }), "wrong  OCI runtime  runc is not there"],
    [
      machine({ ranges: ["o:1:2\n", "other:1:2\n"] }),
      "wrong  user namespaces  /etc/subuid or /etc/subgid has no range for this user",
    ],
  ];
  for (const [wrong, line] of cases) assert.deepEqual(told(wrong), { status: 1, bad: [line] });
});

Deno.test({
  name: "a real brokerd says where its Podman is",
  ignore: onPath("podman") === null, // podman answers brokerd
  async fn() {
    const podman = onPath("podman") ?? "";
    const image = `sha256:${"0".repeat(64)}`;
    const more = `[runner]\nruntime = "podman"\npodman = "${podman}"\nimage = "${image}"\n`;
    await using daemons = await Daemons.start({ more });
    const { lines } = await doctor(daemons);
    assert.ok(
      lines.some((line) => /^ok {7}Podman +\/.*podman/.test(line)),
      lines.join("\n"),
    );
  },
});
