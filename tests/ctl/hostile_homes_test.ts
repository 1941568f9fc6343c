/** bxctl in a home where something else stands than was left there: it ends, and says what it found. */
import assert from "node:assert/strict";
import { flagsFor, runCtl } from "../support/ctl.ts";
import { forEach } from "../support/broker.ts";
import { mkfifo, sparse, WatchedBroker } from "../support/hostile.ts";
import { leaveSocket } from "../support/sockets.ts";

type Put = (path: string) => void;

const link = (target: string): Put => (path) => Deno.symlinkSync(target, path);

/** What stands in the place of a file and is none that can be read. */
const NO_FILE: Readonly<Record<string, Put>> = {
  "a link to nothing": link("nothing"),
  "a link to itself": (path) => link(path)(path),
  "a link to /dev/zero": link("/dev/zero"),
  "a FIFO": mkfifo,
  "a socket": leaveSocket,
  "a directory": (path) => Deno.mkdirSync(path),
};

/** A home that a brokerd has served, copied for each case. */
async function forEachIn(
  cases: Readonly<Record<string, Put>>,
  check: (home: string, put: Put, name: string) => Promise<void>,
): Promise<void> {
  await using watched = await WatchedBroker.start();
  await watched.unharmed();
  let n = 0;
  await forEach(cases, async (put, name) => {
    const home = `${watched.home.root}/home-${++n}`;
    await new Deno.Command("cp", { args: ["-a", watched.home.home, home] }).output();
    await check(home, put, name);
  });
}

Deno.test("audit verify ends, with a failure at line 0, whatever stands in the place of a file of the log", async () => {
  await forEachIn(NO_FILE, async (home, put, name) => {
    const path = `${home}/audit/2000-01-01.jsonl`;
    put(path);
    const { code, stdout } = await runCtl(home, ["audit", "verify"]);
    assert.equal(code, 1, name);
    assert.match(stdout, /^2000-01-01\.jsonl:0: cannot be read: /, name);
    Deno.removeSync(path, { recursive: true });
    const after = await runCtl(home, ["audit", "verify"]);
    assert.match(after.stdout, /^audit: ok, /, `without ${name}`);
  });
});

Deno.test("audit verify ends, and says that the log is not anchored, whatever stands in the place of head.json", async () => {
  const cases = {
    ...NO_FILE,
    "10 GiB of nothing": (path: string) => sparse(path, 10 * 1024 ** 3),
  };
  await forEachIn(cases, async (home, put, name) => {
    const path = `${home}/audit/head.json`;
    const good = await runCtl(home, ["audit", "verify"]);
    assert.match(good.stdout, /\nanchored at \d+\n$/, `without ${name}`);
    Deno.removeSync(path);
    put(path);
    const { code, stdout } = await runCtl(home, ["audit", "verify"]);
    assert.equal(code, 0, name);
    assert.match(stdout, /^audit: ok, [^]*\nnot anchored\n$/, name);
  });
});

Deno.test("audit verify ends, with a failure of the directory, whatever stands in its place", async () => {
  const cases = Object.fromEntries(
    Object.entries(NO_FILE).filter(([name]) => name !== "a directory"),
  );
  await forEachIn(cases, async (home, put, name) => {
    Deno.renameSync(`${home}/audit`, `${home}/away`);
    put(`${home}/audit`);
    const { code, stdout } = await runCtl(home, ["audit", "verify"]);
    assert.equal(code, 1, name);
    assert.match(stdout, /^audit:0: cannot be read: [^\n]*\nnot anchored\n$/, name);
    Deno.removeSync(`${home}/audit`);
    Deno.renameSync(`${home}/away`, `${home}/audit`);
    assert.equal((await runCtl(home, ["audit", "verify"])).code, 0, `without ${name}`);
  });
});

Deno.test("whatever stands in the place of the configuration, bxctl ends and says so", async () => {
  const cases = {
    ...NO_FILE,
    "10 GiB of nothing": (path: string) => sparse(path, 10 * 1024 ** 3),
  };
  await forEachIn(cases, async (home, put, name) => {
    const file = `${home}/bxctl.toml`;
    const flags = flagsFor(home).map((flag) =>
      flag.replace("--allow-read=", `--allow-read=${file},`)
    );
    const verify = ["audit", "verify", "--config", file];
    put(file);
    const { code, stdout, stderr } = await runCtl(home, verify, { flags });
    assert.deepEqual([code, stdout], [1, ""], name);
    assert.match(
      stderr,
      /bxctl\.toml: (no such file|cannot be read|not a regular file|larger than 64 KiB)\n/,
      name,
    );
    assert.match(stderr, /see docs\/runbook\.md#config-invalid\n$/, name);
    Deno.removeSync(file, { recursive: true });
    Deno.writeTextFileSync(file, `[paths]\nhome = "${home}"\n`);
    assert.equal((await runCtl(home, verify, { flags })).code, 0, `without ${name}`);
  });
});
