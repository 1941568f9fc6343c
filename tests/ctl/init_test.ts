/** `bxctl init` as a process under its own row: what it makes, what it leaves alone, and what it may not. */
import assert from "node:assert/strict";
import { ALWAYS } from "../../proto/locks.ts";
import { readCtlConfig } from "../../ctl/config.ts";
import { unitsFor } from "../../ctl/init_units.ts";
import { layout } from "../../proto/layout.ts";
import { ctlFlagsOf } from "../../scripts/support/roles.ts";
import { PROJECT, snapshot } from "../support/broker.ts";
import { runCtl } from "../support/ctl.ts";
import { IS_ROOT } from "../support/hostile.ts";
import { read } from "../support/docs.ts";
import { ROOT, runScript, TempDir } from "../support/scripts.ts";

/** Runs init by `deno task ctl`'s own launcher. */
async function init(home: string, ...args: readonly string[]) {
  return await runScript("launch.ts", ["ctl", "init", "--home", home, ...args]);
}

/** What init says of each place, by its path in the home. */
async function states(home: string, ...args: readonly string[]): Promise<Record<string, string>> {
  const { code, stdout, stderr } = await init(home, "--json", ...args);
  assert.deepEqual([code, stderr], [0, ""]);
  const { places } = JSON.parse(stdout) as { places: { path: string; state: string }[] };
  return Object.fromEntries(places.map(({ path, state }) => [path.slice(home.length + 1), state]));
}

const PLACES = [
  ...["broker/", "audit/", "loop/", "memory/", "run/loop-broker/", "run/owner-broker/"],
  ...["run/owner-loop/", "grants/", "grants/notes-read.toml", "grants/drafts-write.toml"],
  ...["notes/", "notes/a.md", "systemd/", "systemd/boxmaker-brokerd.service"],
  ...["systemd/boxmaker-loopd.service", "brokerd.toml", "loopd.toml", "bxctl.toml"],
];

function all(state: string): Record<string, string> {
  return Object.fromEntries(PLACES.map((path) => [path, state]));
}

Deno.test("init says what it made and what to type next; again, it changes nothing and says so", async () => {
  using place = new TempDir();
  const home = `${place.path}/of/boxmaker`;
  const first = await init(home);
  const lines = (words: string) =>
    PLACES.map((path) => `  ${words.padEnd(19)}  ${path}\n`).join("");
  const next = `next, in ${ROOT}:
  BOXMAKER_HOME=${home} npx --yes deno@2.9.6 task up
  npx --yes deno@2.9.6 task ctl grants test --tool read_file --arguments '{"path":"/etc/passwd"}' --home ${home}
then: docs/guide.md; as services: docs/samples/README.md
`;
  assert.deepEqual(first, {
    code: 0,
    stdout: `home: ${home}\n${lines("made")}${next}`,
    stderr: "",
  });
  const made = snapshot(home);
  const second = await init(home);
  assert.deepEqual(second, {
    code: 0,
    stdout: `home: ${home}\n${lines("already there")}what was there stays as it is\n${next}`,
    stderr: "",
  });
  assert.deepEqual(snapshot(home), made);
});

Deno.test("only its owner may enter what is made, and the notes are the tools' where that is root", async () => {
  using place = new TempDir();
  const home = `${place.path}/of/boxmaker`;
  assert.deepEqual(await states(home), all("made"));
  for (const path of ["", "/run", ...PLACES.map((path) => `/${path}`)]) {
    const { mode, isDirectory, uid } = Deno.statSync(`${home}${path}`);
    assert.equal((mode ?? 0) & 0o777, isDirectory ? 0o700 : 0o600, path);
    const tools = IS_ROOT && path.startsWith("/notes");
    assert.equal(uid, tools ? 65534 : Deno.uid(), path);
  }
  assert.equal(Deno.statSync(`${home}/notes/drafts`).uid, IS_ROOT ? 65534 : Deno.uid());
});

Deno.test("a dry run makes nothing, and may not", async () => {
  using place = new TempDir();
  const home = `${place.path}/home`;
  assert.deepEqual(await states(home, "--dry-run"), all("made"));
  const { stdout } = await init(home, "--dry-run");
  assert.match(stdout, /^ {2}would be made {8}audit\/$/m);
  assert.deepEqual([...Deno.readDirSync(place.path)], []);
  const flags = (...args: string[]) => ctlFlagsOf(["init", `--home=${home}`, ...args], undefined);
  const writes = (flags: string[] | null) =>
    flags?.filter((flag) => flag.startsWith("--allow-write"));
  assert.deepEqual(writes(flags("--dry-run")), []);
  assert.equal(writes(flags())?.length, 1);
});

Deno.test("what is there stays, and what was taken from a directory does not come back", async () => {
  using place = new TempDir();
  const home = place.path;
  await states(home);
  Deno.writeTextFileSync(`${home}/loopd.toml`, "# mine\n");
  Deno.writeTextFileSync(`${home}/grants/drafts-write.toml`, "# mine, too\n");
  Deno.writeTextFileSync(`${home}/audit/2026-12-01.jsonl`, "{}\n");
  Deno.removeSync(`${home}/grants/notes-read.toml`);
  Deno.removeSync(`${home}/systemd`, { recursive: true });
  Deno.removeSync(`${home}/bxctl.toml`);
  Deno.symlinkSync("/etc/hostname", `${home}/bxctl.toml`);
  Deno.removeSync(`${home}/memory`);
  const before = snapshot(home);
  assert.deepEqual(await states(home), {
    ...all("there"),
    "loopd.toml": "differs",
    "bxctl.toml": "differs",
    "grants/drafts-write.toml": "differs",
    "grants/notes-read.toml": "left_out",
    "memory/": "made",
    "systemd/": "made",
    "systemd/boxmaker-brokerd.service": "made",
    "systemd/boxmaker-loopd.service": "made",
  });
  const after = Object.entries(snapshot(home));
  const isNew = (path: string) => /^\/(memory|systemd)/.test(path);
  assert.deepEqual(Object.fromEntries(after.filter(([path]) => !isNew(path))), before);
  assert.equal(after.filter(([path]) => isNew(path)).length, 4);
});

Deno.test("its row has the missing places for writing, none that exists, and no socket", async () => {
  using place = new TempDir();
  const home = `${place.path}/home`;
  const config = readCtlConfig({ home }, undefined).configFile;
  const row = () => ctlFlagsOf(["init", "--home", home], undefined) ?? [];
  const tops = PLACES.filter((path) => !/^(grants|notes|systemd)\/./.test(path))
    .map((path) => `${home}/${path.replace(/\/$/, "")}`);
  const always = [...ALWAYS, "--v8-flags=--max-semi-space-size=2"];
  const rest = (flags: string[]) =>
    flags.filter((flag) => !/^--allow-write/.test(flag)).map((flag) =>
      flag.split(",").sort().join(",")
    );
  const names = "--allow-env=BOXMAKER_HOME,NO_COLOR,TERM";
  const looks = `--allow-read=${[config, ...tops].join(",")}`.split(",").sort().join(",");
  assert.deepEqual(rest(row()), [...always, looks, names]);
  const writes = () =>
    row().filter((flag) => flag.startsWith("--allow-write=")).map((flag) => flag.slice(14));
  assert.deepEqual(writes()[0]?.split(",").sort(), [...tops].sort());
  await states(home);
  assert.deepEqual(rest(row()), [...always, looks, names]);
  assert.deepEqual(writes(), []);
  Deno.removeSync(`${home}/memory`);
  assert.deepEqual(writes(), [`${home}/memory`]);
});

Deno.test("under its row a log that exists cannot be written, and one that does not can", async () => {
  using place = new TempDir();
  const home = `${place.path}/home`;
  const log = `${home}/audit/2026-12-01.jsonl`;
  const program = place.write(
    "writes.ts",
    `Deno.mkdirSync(${JSON.stringify(`${home}/audit`)}, { recursive: true });
     Deno.writeTextFileSync(${JSON.stringify(log)}, "forged");`,
  );
  const attempt = async () => {
    const flags = ctlFlagsOf(["init", "--home", home], undefined) ?? [];
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", ...flags, program],
      cwd: PROJECT,
    }).output();
    return success ? "written" : new TextDecoder().decode(stderr);
  };
  Deno.mkdirSync(`${home}/audit`, { recursive: true });
  Deno.writeTextFileSync(log, "mine");
  assert.match(await attempt(), /NotCapable: Requires write access/);
  assert.equal(Deno.readTextFileSync(log), "mine");
  Deno.removeSync(`${home}/audit`, { recursive: true });
  assert.equal(await attempt(), "written");
});

Deno.test("with another command's flags it makes nothing, and its own are too wide for another", async () => {
  using place = new TempDir();
  const home = place.path;
  const own = ctlFlagsOf(["init", "--home", home], undefined) ?? [];
  const usual = ctlFlagsOf(["audit", "verify", "--home", home], undefined) ?? [];
  const verify = ["audit", "verify", "--home", home];
  const refused = await runCtl(home, ["init", "--home", home], { flags: usual });
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /^bxctl: started without leave to make .*\/broker\nbxctl: start it with `deno task ctl init`; see docs\/runbook\.md#home-not-made\n$/,
  );
  assert.deepEqual([...Deno.readDirSync(home)], []);
  const wide = await runCtl(home, verify, { flags: own });
  assert.equal(wide.code, 1);
  assert.match(wide.stderr, /^bxctl: this process may write .*\/broker, which it must not$/m);
  assert.equal((await runCtl(home, ["init", "--home", home], { flags: own })).code, 0);
  assert.equal((await runCtl(home, verify, { flags: usual })).code, 0);
});

Deno.test("what cannot be made is named, with what helps, and what was made before it stays", async () => {
  using place = new TempDir();
  const home = `${place.path}/home`;
  const ends = "bxctl: see docs/runbook.md#home-not-made\n";
  place.write("file", "");
  const below = await init(`${place.path}/file/home`);
  assert.equal(below.code, 1);
  assert.match(below.stderr, /^bxctl: cannot make .*\/file\/home\/broker: Not a directory/);
  assert(below.stderr.endsWith(ends), below.stderr);
  place.write("home/memory", "not a directory");
  const taken = await init(home, "--json");
  assert.equal(taken.code, 1);
  const message = `cannot make ${home}/memory: it is there, and is no directory`;
  assert.equal(taken.stderr, `bxctl: ${message}\n${ends}`);
  const { error } = JSON.parse(taken.stdout);
  assert.equal(error.code, "home_not_made");
  assert.equal(Deno.readTextFileSync(`${home}/memory`), "not a directory");
  assert(Deno.statSync(`${home}/loop`).isDirectory);
  Deno.removeSync(`${home}/memory`);
  const mended = await states(home);
  assert.deepEqual([mended["loop/"], mended["memory/"]], ["there", "made"]);
});

Deno.test("a home whose path ends in a slash, as a shell completes it, has grants that are valid", async () => {
  using place = new TempDir();
  const home = `${place.path}/home`;
  const { code, stdout } = await init(`${place.path}//home/`);
  assert.equal(code, 0);
  assert.ok(stdout.startsWith(`home: ${home}\n`), stdout);
  const call = ["--tool", "read_file", "--arguments", `{"path":"${home}/notes/a.md"}`];
  const asked = await runScript("launch.ts", ["ctl", "grants", "test", ...call, "--home", home]);
  assert.match(asked.stdout, /^ask: grant notes-read /m);
});

Deno.test("a home that no daemon could serve is not made", async () => {
  using place = new TempDir();
  const long = `${place.path}/${"x".repeat(80)}`;
  for (const args of [[], ["--dry-run"]]) {
    const { code, stdout, stderr } = await init(long, ...args);
    assert.deepEqual([code, stdout], [1, ""]);
    assert.equal(
      stderr,
      `bxctl: cannot make ${long}: the path of its socket run/owner-broker/admin.sock has ${
        long.length + 28
      } bytes, and a socket's at most 107\nbxctl: see docs/runbook.md#home-not-made\n`,
    );
  }
  assert.deepEqual([...Deno.readDirSync(place.path)], []);
  const root = await init("/", "--dry-run");
  assert.equal(root.code, 1);
  assert.match(root.stderr, /^bxctl: cannot make \/: it is the root of all files\n/);
});

Deno.test("a path that a unit would need quotes for has no units, and that is said", async () => {
  using place = new TempDir();
  const home = `${place.path}/my "home" %h $HOME`;
  const { code, stdout } = await init(home);
  assert.equal(code, 0);
  assert.match(stdout, /^no service units: a path would have to be quoted in them$/m);
  assert.doesNotMatch(stdout, /systemd\//);
  assert.equal(readCtlConfig({ config: `${home}/bxctl.toml` }, undefined).layout.home, home);
  for (const odd of ["/a b", "/a%h", '/a"', "/a\\b", "/a$b", "/a'b", "/ä"]) {
    assert.deepEqual([unitsFor(odd, "/p").length, unitsFor("/h", odd).length], [0, 0], odd);
  }
  assert.equal(unitsFor("/srv/box.maker-1", "/p").length, 2);
});

Deno.test("the units are the samples with the places of the home in them, and no other difference", () => {
  const { home } = layout("/srv/box");
  for (const { path, content } of unitsFor(home, "/opt/boxmaker")) {
    const name = path.slice("/srv/box/systemd/".length);
    const sample = read(`docs/samples/systemd/user/${name}`);
    const back = content.replaceAll("/srv/box", "%h/.local/state/boxmaker")
      .replaceAll("/opt/boxmaker", "%h/boxmaker");
    assert.equal(back, sample.replaceAll("%h/.config/boxmaker", "%h/.local/state/boxmaker"));
    assert.doesNotMatch(content, /%h\/(?!\.local\/bin\/deno|\.cache\/deno)/);
  }
});
