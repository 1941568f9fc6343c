/** `deno task permissions`: what it prints is what the programs can be started with, and nothing else. */
import assert from "node:assert/strict";
import { flagsFor } from "../../scripts/support/roles.ts";
import { ROOT, runScript, TempDir } from "../support/scripts.ts";

const HOME = "/srv/box maker";

Deno.test("each role's flags are printed one a line, and nothing else", async () => {
  using place = new TempDir();
  const configs = {
    brokerd: place.write("b.toml", `[paths]\nhome = "${HOME}"\ngrants = "/srv/grants"\n`),
    loopd: place.write("l.toml", `[paths]\nhome = "${HOME}"\n[llama]\nurl = "http://model:81"\n`),
    bxctl: place.write("c.toml", `[paths]\nhome = "${HOME}"\n`),
  } as const;
  const always = "--no-prompt\n--cached-only\n--deny-import\n--frozen\n";
  const run = `${HOME}/run`;
  const expected = {
    brokerd: "--v8-flags=--max-semi-space-size=1\n" +
      `--allow-read=${configs.brokerd},/srv/grants,${HOME}/broker,${HOME}/audit,` +
      `${run}/loop-broker,${run}/owner-broker\n` +
      `--allow-write=${HOME}/broker,${HOME}/audit,${run}/loop-broker,${run}/owner-broker\n` +
      `--allow-net=unix:${run}/loop-broker/broker.sock,unix:${run}/owner-broker/admin.sock\n` +
      "--allow-env=BOXMAKER_HOME\n",
    loopd: "--v8-flags=--max-semi-space-size=2\n" +
      `--allow-read=${configs.loopd},${HOME}/loop,${HOME}/memory,${run}/owner-loop\n` +
      `--allow-write=${HOME}/loop,${run}/owner-loop\n` +
      `--allow-net=unix:${run}/owner-loop/loop.sock,model:81\n--allow-env=BOXMAKER_HOME\n`,
    bxctl: "--v8-flags=--max-semi-space-size=2\n" +
      `--allow-read=${configs.bxctl},${HOME}/audit,${run}/owner-broker/admin.sock,` +
      `${run}/owner-loop/loop.sock\n` +
      `--allow-write=${run}/owner-broker/admin.sock,${run}/owner-loop/loop.sock\n` +
      `--allow-net=unix:${run}/owner-broker/admin.sock,unix:${run}/owner-loop/loop.sock\n` +
      "--allow-env=BOXMAKER_HOME,NO_COLOR,TERM\n",
  };
  const names = { brokerd: "broker", loopd: "loop", bxctl: "ctl" } as const;
  for (const role of ["brokerd", "loopd", "bxctl"] as const) {
    for (const name of [role, names[role]]) {
      const { code, stdout, stderr } = await runScript("permissions.ts", [
        ...[name, "--config", configs[role]],
      ]);
      assert.deepEqual({ code, stdout, stderr }, {
        code: 0,
        stdout: always + expected[role],
        stderr: "",
      });
    }
  }
});

Deno.test("BOXMAKER_HOME counts where the configuration names no home, and for bxctl so do its places", async () => {
  const env = { BOXMAKER_HOME: "/srv/home" };
  const print = async (...args: string[]) => {
    const { code, stdout } = await runScript("permissions.ts", args, { env });
    assert.equal(code, 0);
    return stdout.trimEnd().split("\n");
  };
  assert.deepEqual(await print("brokerd"), flagsFor("brokerd", {}, "/srv/home"));
  assert((await print("brokerd")).join().includes("/srv/home/audit"));
  assert((await print("bxctl", "--home", "/srv/other")).join().includes("/srv/other/audit"));
  const places = { "admin-socket": "/srv/a.sock", "loop-socket": "/srv/l.sock" };
  assert.deepEqual(
    await print("bxctl", "--admin-socket=/srv/a.sock", "--loop-socket", "/srv/l.sock"),
    flagsFor("bxctl", places, "/srv/home"),
  );
  const report = await print("bxctl", "--out=/srv/page.html", "--grants=/srv/g");
  assert.deepEqual(
    report,
    flagsFor("bxctl", { out: "/srv/page.html", grants: "/srv/g" }, "/srv/home", {
      readsGrants: true,
    }),
  );
  assert.match(report.join("\n"), /read=\S*,\/srv\/g,\S*\n--allow-write=\S*,\/srv\/page\.html\n/);
});

Deno.test("for a command of bxctl that reads the grants, its flags have them", async () => {
  const env = { BOXMAKER_HOME: "/srv/home" };
  const print = async (...args: string[]) =>
    (await runScript("permissions.ts", ["bxctl", ...args], { env })).stdout;
  assert.match(await print("--with-grants"), /^--allow-read=.*,\/srv\/home\/grants,/m);
  assert.match(await print("--grants", "/srv/g"), /^--allow-read=.*,\/srv\/g,/m);
  assert.doesNotMatch(await print("--with-grants"), /^--allow-write=.*grants/m);
  assert.match(await print("--writes-grants"), /^--allow-read=.*,\/srv\/home\/grants,/m);
  assert.match(await print("--writes-grants"), /^--allow-write=.*,\/srv\/home\/grants$/m);
  assert.doesNotMatch(await print(), /grants/);
});

Deno.test("for the doctor, bxctl's flags let it look at the home, and no other's do", async () => {
  const env = { BOXMAKER_HOME: "/srv/home" };
  const print = async (...args: string[]) =>
    (await runScript("permissions.ts", ["bxctl", ...args], { env })).stdout;
  const doctor = await print("--for-doctor");
  assert.deepEqual(
    doctor.trimEnd().split("\n"),
    flagsFor("bxctl", {}, "/srv/home", { examines: true }),
  );
  assert.match(doctor, /^--allow-read=.*,\/srv\/home,/m);
  assert.match(doctor, /^--deny-read=\/srv\/home\/loop\/sessions,/m);
  assert.doesNotMatch(await print(), /deny-read|allow-sys|,\/srv\/home,/);
});

Deno.test("what the flags cannot express, or what is no configuration, goes to stderr, with 1", async () => {
  using place = new TempDir();
  const unknown = place.write("u.toml", "[paths]\nhom = 1\n");
  const comma = place.write("c.toml", '[paths]\nhome = "/a,b"\n');
  const newline = place.write("n.toml", '[paths]\nhome = "/a\\nb"\n');
  const bad: readonly (readonly [string[], RegExp])[] = [
    [["brokerd", "--config", unknown], /u\.toml:2: unknown key paths\.hom$/m],
    [["brokerd", "--config", comma], /home: \/a,b has a comma in it/],
    [["loopd", "--config", newline], /home: \/a\\u000ab has a newline/],
    [["bxctl", "--home", "/a,b"], /\/a,b has a comma in it/],
    [["bxctl", "--config", "relative"], /relative is not an absolute path/],
    [["brokerd", "--config", `${place.path}/absent.toml`], /no such file/],
  ];
  for (const [args, words] of bad) {
    const { code, stdout, stderr } = await runScript("permissions.ts", args);
    assert.equal(code, 1, args.join(" "));
    assert.equal(stdout, "");
    assert.match(stderr, words);
    assert(stderr.endsWith("permissions: see docs/runbook.md#config-invalid\n"), stderr);
  }
});

Deno.test("wrong usage goes to stderr, with 2; --help to stdout, with 0", async () => {
  for (
    const args of [
      [],
      ["other"],
      ["toString"],
      ["brokerd", "loopd"],
      ["brokerd", "--home", "/a"],
      ["brokerd", "--grants", "/a"],
      ["brokerd", "--with-grants"],
      ["brokerd", "--for-doctor"],
      ["loopd", "--writes-grants"],
      ["brokerd", "--out", "/a.html"],
      ["brokerd", "--colour"],
      ["brokerd", "--config"],
    ]
  ) {
    const { code, stdout, stderr } = await runScript("permissions.ts", args);
    assert.equal(code, 2, args.join(" "));
    assert.equal(stdout, "");
    assert.match(stderr, /^permissions: .*\npermissions: --help tells more\n$/);
  }
  const { code, stdout } = await runScript("permissions.ts", ["--help"]);
  assert.equal(code, 0);
  assert(stdout.startsWith("permissions prints the Deno flags"));
});

Deno.test("the programs start with exactly what is printed", async () => {
  using place = new TempDir();
  const env = { BOXMAKER_HOME: place.path };
  const { stdout } = await runScript("permissions.ts", ["ctl"], { env });
  const verify = (flags: readonly string[]) =>
    new Deno.Command(Deno.execPath(), {
      args: ["run", ...flags, `${ROOT}/ctl/main.ts`, "audit", "verify"],
      env: { ...env, NO_COLOR: "1" },
    }).output();
  Deno.mkdirSync(`${place.path}/audit`);
  const flags = stdout.trimEnd().split("\n");
  assert.equal((await verify(flags)).code, 0);
  // One more, and the program refuses.
  const { code, stderr } = await verify([...flags, "--allow-run"]);
  assert.equal(code, 1);
  assert.match(new TextDecoder().decode(stderr), /this process may run programs/);
});
