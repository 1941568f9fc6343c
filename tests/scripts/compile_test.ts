/** `deno task compile`: the command lines, and what ends up in the programs. */
import assert from "node:assert/strict";
import * as z from "zod";
import { ROLES } from "../../proto/locks.ts";
import { flagsFor, mainOf } from "../../scripts/support/roles.ts";
import { runScript, TempDir } from "../support/scripts.ts";

const HOME = "/srv/box maker";

/** A folder with a configuration for each role. */
function configs(place: TempDir): string {
  place.write("etc/brokerd.toml", `[paths]\nhome = "${HOME}"\n`);
  place.write("etc/loopd.toml", `[paths]\nhome = "${HOME}"\n[llama]\nurl = "http://m:81"\n`);
  place.write("etc/bxctl.toml", `[paths]\nhome = "${HOME}"\n`);
  return `${place.path}/etc`;
}

Deno.test("--print shows the exact command lines, for the default places", async () => {
  const { code, stdout } = await runScript("compile.ts", ["--print", "--out", "/srv/out"]);
  assert.equal(code, 0);
  const [brokerd, loopd, bxctl, ...more] = stdout.split("\n");
  const always = "--no-prompt --cached-only --deny-import --frozen";
  const home = "/var/lib/boxmaker";
  const lineOf = (role: "brokerd" | "loopd" | "bxctl", flags: string) =>
    `${Deno.execPath()} compile --exclude-unused-npm ${always} ${flags} ` +
    `--output /srv/out/${role} ${mainOf(role)}`;
  assert.equal(
    brokerd,
    lineOf(
      "brokerd",
      "--v8-flags=--max-semi-space-size=1 " +
        `--allow-read=/etc/boxmaker/brokerd.toml,${home}/grants,${home}/broker,${home}/audit,` +
        `${home}/run/loop-broker,${home}/run/owner-broker ` +
        `--allow-write=${home}/broker,${home}/audit,${home}/run/loop-broker,${home}/run/owner-broker ` +
        `--allow-net=unix:${home}/run/loop-broker/broker.sock,` +
        `unix:${home}/run/owner-broker/admin.sock --allow-env=BOXMAKER_HOME`,
    ),
  );
  assert.equal(
    loopd,
    lineOf(
      "loopd",
      "--v8-flags=--max-semi-space-size=2 " +
        `--allow-read=/etc/boxmaker/loopd.toml,${home}/loop,${home}/memory,${home}/run/owner-loop ` +
        `--allow-write=${home}/loop,${home}/run/owner-loop ` +
        `--allow-net=unix:${home}/run/owner-loop/loop.sock,127.0.0.1:8080 ` +
        "--allow-env=BOXMAKER_HOME",
    ),
  );
  assert.equal(
    bxctl,
    lineOf(
      "bxctl",
      "--v8-flags=--max-semi-space-size=2 " +
        `--allow-read=/etc/boxmaker/bxctl.toml,${home}/audit,${home}/run/owner-broker/admin.sock,` +
        `${home}/run/owner-loop/loop.sock ` +
        `--allow-write=${home}/run/owner-broker/admin.sock,${home}/run/owner-loop/loop.sock ` +
        `--allow-net=unix:${home}/run/owner-broker/admin.sock,` +
        `unix:${home}/run/owner-loop/loop.sock --allow-env=BOXMAKER_HOME,NO_COLOR,TERM`,
    ),
  );
  assert.deepEqual(more, [""]);
});

Deno.test("--config-dir names the configuration, and a shell reads its paths as one word each", async () => {
  using place = new TempDir();
  const dir = configs(place);
  const { stdout } = await runScript("compile.ts", ["--print", "--config-dir", dir]);
  const { stdout: words } = await new Deno.Command("sh", {
    args: ["-c", stdout.trimEnd().split("\n").map((line) => `printf '%s\\n' ${line}`).join("\n")],
  }).output();
  const lines = new TextDecoder().decode(words).split("\n");
  for (const role of ROLES) {
    const flags = flagsFor(role, { config: `${dir}/${role}.toml` }, undefined);
    assert(flags.some((flag) => flag.includes(`${HOME}/`)));
    for (const flag of flags) assert(lines.includes(flag), flag);
  }
});

/** What Deno writes into a compiled program, as far as it matters here. */
const Baked = z.object({
  permissions: z.record(z.string(), z.union([z.array(z.string()), z.boolean(), z.null()])),
  entrypoint_key: z.string(),
});

function bakedInto(program: string): z.infer<typeof Baked> {
  const text = new TextDecoder("latin1").decode(Deno.readFileSync(program));
  const from = text.indexOf('{"argv":');
  assert(from >= 0, "the program says how it was compiled");
  // Its last key.
  const to = text.indexOf("}", text.indexOf('"app_name":', from));
  return Baked.parse(JSON.parse(text.slice(from, to + 1)));
}

Deno.test("the programs that come out hold exactly their rows, and ask for nothing", async () => {
  using place = new TempDir();
  const out = `${place.path}/out`;
  const args = ["--config-dir", configs(place), "--out", out];
  // The runtime archive cannot be had everywhere. Any program can stand in its place: what Deno adds to
  // it is the same, and only that is looked at.
  const env = { DENORT_BIN: "/bin/true" };
  const { code, stderr } = await runScript("compile.ts", args, { env });
  assert.equal(code, 0, stderr);
  for (const role of ROLES) {
    const { permissions, entrypoint_key } = bakedInto(`${out}/${role}`);
    assert(mainOf(role).endsWith(`/${entrypoint_key}`));
    const row = flagsFor(role, { config: `${place.path}/etc/${role}.toml` }, undefined);
    const expected = row.flatMap((flag) => {
      const [, name, values = ""] = /^--allow-(\w+)=(.*)$/.exec(flag) ?? [];
      return name === undefined ? [] : [[`allow_${name}`, values.split(",")] as const];
    });
    assert.equal(expected.length, 4);
    const held = Object.entries(permissions).filter(([, value]) => value !== null);
    assert.deepEqual(
      Object.fromEntries(held),
      // Everything that could be imported is denied, which wins.
      { ...Object.fromEntries(expected), allow_import: [], deny_import: [], prompt: false },
    );
  }
});

Deno.test("where it cannot be built, that is said, with 1", async () => {
  using place = new TempDir();
  const env = { DENORT_BIN: `${place.path}/absent` };
  const { code, stderr } = await runScript("compile.ts", ["--out", place.path], { env });
  assert.equal(code, 1);
  assert.match(stderr, /^compile: deno compile failed for \S+broker\/main\.ts, with status 1$/m);
  assert.match(stderr, /^compile: it needs the runtime archive/m);
});

Deno.test("a configuration that is missing or wrong is said, with 1; wrong usage with 2", async () => {
  using place = new TempDir();
  const dir = configs(place);
  place.write("etc/loopd.toml", "[llama]\nurl = 7\n");
  const wrong = await runScript("compile.ts", ["--print", "--config-dir", dir]);
  assert.equal(wrong.code, 1);
  assert.equal(wrong.stdout, "");
  assert(wrong.stderr.startsWith(`compile: ${dir}/loopd.toml:2: llama.url`), wrong.stderr);
  Deno.removeSync(`${dir}/loopd.toml`);
  const missing = await runScript("compile.ts", ["--print", "--config-dir", dir]);
  assert.equal(missing.code, 1);
  assert(missing.stderr.startsWith(`compile: ${dir}/loopd.toml: no such file`), missing.stderr);
  assert.equal((await runScript("compile.ts", ["brokerd"])).code, 2);
});
