/** brokerd's own directories with something else in them: before its start, and while it runs. */
import assert from "node:assert/strict";
import {
  flagsFor,
  forEach,
  refusedStart,
  snapshot,
  startBroker,
  TempHome,
} from "../support/broker.ts";
import { AUTO, IS_ROOT, mkfifo, run, sparse, WatchedBroker } from "../support/hostile.ts";
import { verifyDirectory } from "../support/log.ts";
import { leaveSocket } from "../support/sockets.ts";

type Put = (path: string) => void;

const link = (target: string): Put => (path) => Deno.symlinkSync(target, path);
const write = (content: string): Put => (path) => Deno.writeTextFileSync(path, content);

/** The one file of the log. */
function logOf({ home }: WatchedBroker): string {
  const [name, ...more] = home.auditFiles();
  assert(name !== undefined && more.length === 0);
  return `${home.layout.audit}/${name}`;
}

/** What stands in the place of head.json and is never written through. */
const NO_HEAD: Readonly<Record<string, Put>> = {
  "a link to a file": (path) => {
    write("untouched")(`${path}.target`);
    link(`${path}.target`)(path);
  },
  "a link to nothing": (path) => link(`${path}.nothing`)(path),
  "a link to /dev/full": link("/dev/full"),
  "a FIFO": mkfifo,
  "a socket": leaveSocket,
  "a directory": (path) => Deno.mkdirSync(path),
};

Deno.test("whatever stands in the place of head.json, calls go on, it is not written through, and it is made anew once that is gone", async () => {
  await using watched = await WatchedBroker.start();
  const { audit } = watched.home.layout;
  const head = `${audit}/head.json`;
  let told = 0;
  for (const [name, put] of Object.entries(NO_HEAD)) {
    Deno.removeSync(head);
    put(head);
    assert.equal(await watched.call(), "allowed", name);
    assert.equal(await watched.call(), "allowed", name);
    await watched.said("see docs/runbook.md#audit-head-unwritable", ++told);
    Deno.removeSync(head);
    assert.equal(await watched.call(), "allowed", name);
    const { seq } = JSON.parse(Deno.readTextFileSync(head));
    assert.equal(seq + 1, verifyDirectory(audit).records, name);
  }
  assert.equal(Deno.readTextFileSync(`${head}.target`), "untouched");
  assert.throws(() => Deno.lstatSync(`${head}.nothing`), Deno.errors.NotFound);
  // One that is far too long is cut to its 128 bytes.
  Deno.removeSync(head);
  sparse(head, 10 * 1024 ** 3);
  assert.equal(await watched.call(), "allowed");
  assert.equal(Deno.statSync(head).size, 128);
  await watched.unharmed();
});

/** What stands in the place of today's log, moved to `beside`. */
const NO_LOG: Readonly<Record<string, (path: string, beside: string) => void>> = {
  "nothing": () => {},
  "a link to nothing": link("nothing"),
  "a link to itself": (path) => link(path)(path),
  "a link to /dev/zero": link("/dev/zero"),
  "a link to /dev/null": link("/dev/null"),
  "a FIFO": mkfifo,
  "a socket": leaveSocket,
  "a directory": (path) => Deno.mkdirSync(path),
  "an empty file": write(""),
  "a file of something else": write("something else\n"),
  "a hard link to a file of something else": (path, beside) => {
    write("something else\n")(`${beside}.other`);
    Deno.linkSync(`${beside}.other`, path);
  },
};

Deno.test("whatever stands in the place of today's log, nothing is let through or written to it, and the log goes on once it is back", async () => {
  await using watched = await WatchedBroker.start();
  const log = logOf(watched);
  const beside = `${watched.home.root}/beside`;
  let records = verifyDirectory(watched.home.layout.audit).records;
  for (const [name, put] of Object.entries(NO_LOG)) {
    Deno.renameSync(log, beside);
    put(log, beside);
    const before = name === "nothing" ? null : Deno.lstatSync(log);
    assert.equal(await watched.call(), "audit_unavailable", name);
    assert.equal(await watched.call("other", "/m"), "audit_unavailable", name);
    if (before === null) assert.throws(() => Deno.lstatSync(log), Deno.errors.NotFound);
    else {
      const after = Deno.lstatSync(log);
      assert.deepEqual([after.ino, after.size], [before.ino, before.size], name);
      Deno.removeSync(log, { recursive: true });
    }
    Deno.renameSync(beside, log);
    assert.equal(await watched.call(), "allowed", `without ${name}`);
    const now = verifyDirectory(watched.home.layout.audit);
    assert.equal(now.failure, null, name);
    assert(now.records > records, name);
    records = now.records;
  }
  await watched.broker.said("audit: written again");
  await watched.unharmed();
});

/** What may lie in audit/, or become of it, without harm. */
const HARMLESS: Readonly<Record<string, (log: string, audit: string) => void>> = {
  "a link to the log, moved elsewhere": (log, audit) => {
    Deno.renameSync(log, `${audit}/../elsewhere`);
    link("../elsewhere")(log);
  },
  "wide modes, another owner, and names that are no dates": (log, audit) => {
    Deno.chmodSync(log, 0o644);
    Deno.chmodSync(audit, 0o755);
    if (IS_ROOT) Deno.chownSync(log, 1, 1);
    write("x")(`${audit}/2026-13-01.jsonl`);
    write("x")(`${audit}/2026-02-30.jsonl`);
    write("x")(`${audit}/2026-12-01.jsonl.bak`);
    write("x")(`${audit}/2026-12-01.jsonl~`);
    write("x")(`${audit}/2026-12-01.JSONL`);
    mkfifo(`${audit}/x.jsonl`);
    link("loop")(`${audit}/loop`);
    Deno.mkdirSync(`${audit}/12026-12-01.jsonl`);
  },
  "a lock that is a FIFO": (_, audit) => {
    Deno.removeSync(`${audit}/.lock`);
    mkfifo(`${audit}/.lock`);
  },
  "a lock that is a link": (_, audit) => {
    Deno.removeSync(`${audit}/.lock`);
    write("untouched")(`${audit}/../lock`);
    link("../lock")(`${audit}/.lock`);
  },
};

Deno.test("what may lie in audit/ is passed over, while brokerd runs and at its start, and its lock holds", async () => {
  await forEach(HARMLESS, async (put, name) => {
    await using watched = await WatchedBroker.start();
    const { audit } = watched.home.layout;
    put(logOf(watched), audit);
    assert.equal(await watched.call(), "allowed", name);
    await watched.unharmed();
    await using again = await startBroker(watched.home);
    const second = await refusedStart(watched.home);
    assert.equal(second.code, 1, name);
    assert.match(second.stderr, /see docs\/runbook\.md#brokerd-already-running\n$/, name);
    assert.equal(await watched.call(), "allowed", name);
    await again.stop();
    assert.equal(verifyDirectory(audit).failure, null, name);
  });
});

/** What stops a start, with its words and its entry of the runbook. */
const STOPS: Readonly<Record<string, readonly [Put, RegExp, string]>> = {
  "a lock that is a directory": [
    (audit) => {
      Deno.removeSync(`${audit}/.lock`);
      Deno.mkdirSync(`${audit}/.lock`);
    },
    /cannot start: .*audit\/\.lock/,
    "brokerd-cannot-start",
  ],
  "a newer log that is a FIFO": [
    (audit) => mkfifo(`${audit}/2999-01-01.jsonl`),
    /audit: 2999-01-01\.jsonl:0: is not a regular file/,
    "audit-chain-broken",
  ],
  "a newer log that is a directory": [
    (audit) => Deno.mkdirSync(`${audit}/2999-01-01.jsonl`),
    /audit: 2999-01-01\.jsonl:0: is not a regular file/,
    "audit-chain-broken",
  ],
  "an older log that is a link to /dev/zero": [
    (audit) => link("/dev/zero")(`${audit}/2000-01-01.jsonl`),
    /audit: 2000-01-01\.jsonl:0: is not a regular file/,
    "audit-chain-broken",
  ],
  "an older log that is a link to nothing": [
    (audit) => link("nothing")(`${audit}/2000-01-01.jsonl`),
    /audit: 2000-01-01\.jsonl:0: is not a regular file/,
    "audit-chain-broken",
  ],
  "an audit/ that is a file": [
    (audit) => {
      Deno.renameSync(audit, `${audit}.away`);
      write("x")(audit);
    },
    /cannot start: Not a directory/,
    "brokerd-cannot-start",
  ],
  "an audit/ that is a FIFO": [
    (audit) => {
      Deno.renameSync(audit, `${audit}.away`);
      mkfifo(audit);
    },
    /cannot start: Not a directory/,
    "brokerd-cannot-start",
  ],
  "an audit/ that is a link to nothing": [
    (audit) => {
      Deno.renameSync(audit, `${audit}.away`);
      link("nothing")(audit);
    },
    /cannot start: /,
    "brokerd-cannot-start",
  ],
};

Deno.test("what is in the way in audit/ stops the start, untouched, and the log goes on without it", async () => {
  await using watched = await WatchedBroker.start();
  await watched.unharmed();
  const { audit, home } = watched.home.layout;
  const good = snapshot(home);
  Deno.renameSync(home, `${home}.good`);
  for (const [name, [put, words, anchor]] of Object.entries(STOPS)) {
    run("cp", "-a", `${home}.good`, home);
    put(audit);
    const before = snapshot(home);
    const { code, stderr } = await refusedStart(watched.home);
    assert.equal(code, 1, name);
    assert.match(stderr, words, name);
    assert(stderr.endsWith(`brokerd: see docs/runbook.md#${anchor}\n`), `${name}: ${stderr}`);
    assert.deepEqual(snapshot(home), before, name);
    Deno.removeSync(home, { recursive: true });
  }
  Deno.renameSync(`${home}.good`, home);
  assert.deepEqual(snapshot(home), good);
  await using again = await startBroker(watched.home);
  assert.equal(await watched.call(), "allowed");
  await again.stop();
  assert.equal(verifyDirectory(audit).failure, null);
});

Deno.test("a home may be a link, and so may broker/ and audit/; their modes and owners are the owner's affair", async () => {
  const moved = (path: string) => {
    Deno.mkdirSync(`${path}.elsewhere`, { recursive: true });
    Deno.chmodSync(`${path}.elsewhere`, 0o755);
    if (IS_ROOT) Deno.chownSync(`${path}.elsewhere`, 1, 1);
    link(`${path}.elsewhere`)(path);
  };
  await using watched = await WatchedBroker.start(({ layout }) => {
    moved(layout.broker);
    moved(layout.audit);
  });
  await watched.unharmed();
});

Deno.test("a socket's path that is too long stops the start before anything is made there", async () => {
  const name = "s".repeat(100);
  using home = new TempHome(`[sockets]\nbroker = "/tmp/${name}/broker.sock"\n`);
  home.grant("good", AUTO);
  const { code, stderr } = await refusedStart(home);
  assert.equal(code, 1);
  assert.match(stderr, /broker\.sock is longer than the 107 bytes that a socket's path may have\n/);
  assert.match(stderr, /see docs\/runbook\.md#socket-directory\n$/);
  assert.throws(() => Deno.lstatSync(`/tmp/${name}`), Deno.errors.NotFound);
});

/** What stands in the place of the configuration. */
const NO_CONFIG: Readonly<Record<string, readonly [Put, string]>> = {
  "a FIFO": [mkfifo, "not a regular file"],
  "a directory": [(path) => Deno.mkdirSync(path), "not a regular file"],
  "a link to /dev/zero": [link("/dev/zero"), "not a regular file"],
  "a link to itself": [(path) => link(path)(path), "cannot be read"],
  "10 GiB of nothing": [(path) => sparse(path, 10 * 1024 ** 3), "larger than 64 KiB"],
};

Deno.test("a configuration that is no file of a bearable size stops the start", async () => {
  await forEach(NO_CONFIG, async ([put, words], name) => {
    using home = new TempHome();
    // The flags are of the good one, which is then replaced.
    const good = Deno.readTextFileSync(home.configFile);
    const flags = flagsFor(home);
    Deno.removeSync(home.configFile);
    put(home.configFile);
    const { code, stderr } = await refusedStart(home, { flags });
    assert.equal(code, 1, name);
    assert.equal(
      stderr,
      `brokerd: ${home.configFile}: ${words}\nbrokerd: see docs/runbook.md#config-invalid\n`,
      name,
    );
    Deno.removeSync(home.configFile, { recursive: true });
    write(good)(home.configFile);
    await using broker = await startBroker(home);
    await broker.stop();
  });
});
