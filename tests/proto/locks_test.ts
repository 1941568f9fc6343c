import assert from "node:assert/strict";
import { layout } from "../../proto/layout.ts";
import {
  brokerLock,
  ctlLock,
  denoFlags,
  describe,
  forbidden,
  type Lock,
  loopLock,
  type Question,
  ROLES,
  unlockablePath,
} from "../../proto/locks.ts";

const HOME = layout("/h");
const BROKER = brokerLock({ ...HOME, layout: HOME, configFile: "/e/brokerd.toml", run: [] });
const LOOP = loopLock({
  ...HOME,
  layout: HOME,
  configFile: "/e/loopd.toml",
  llama: "127.0.0.1:8080",
});
const CTL_PLACES = { ...HOME, layout: HOME, configFile: "/e/bxctl.toml", grantsToWrite: null };
const CTL = ctlLock({ ...CTL_PLACES, grantsToRead: null, pageToWrite: null });
const CTL_WITH_GRANTS = ctlLock({
  ...CTL_PLACES,
  grantsToRead: HOME.grants,
  pageToWrite: null,
});
const LOCKS = { brokerd: BROKER, loopd: LOOP, bxctl: CTL };

const ALWAYS = ["--no-prompt", "--cached-only", "--deny-import", "--frozen"];

// The table of contracts 1, word for word, and what is set aside for new objects, which is no permission.
const FLAGS = {
  brokerd: [
    ...ALWAYS,
    "--v8-flags=--max-semi-space-size=1",
    "--allow-read=/e/brokerd.toml,/h/grants,/h/broker,/h/audit,/h/run/loop-broker,/h/run/owner-broker",
    "--allow-write=/h/broker,/h/audit,/h/run/loop-broker,/h/run/owner-broker",
    "--allow-net=unix:/h/run/loop-broker/broker.sock,unix:/h/run/owner-broker/admin.sock",
    "--allow-env=BOXMAKER_HOME",
  ],
  loopd: [
    ...ALWAYS,
    "--v8-flags=--max-semi-space-size=2",
    "--allow-read=/e/loopd.toml,/h/loop,/h/memory,/h/run/loop-broker/broker.sock,/h/run/owner-loop",
    "--allow-write=/h/loop,/h/run/loop-broker/broker.sock,/h/run/owner-loop",
    "--allow-net=unix:/h/run/loop-broker/broker.sock,unix:/h/run/owner-loop/loop.sock,127.0.0.1:8080",
    "--allow-env=BOXMAKER_HOME",
  ],
  bxctl: [
    ...ALWAYS,
    "--v8-flags=--max-semi-space-size=2",
    "--allow-read=/e/bxctl.toml,/h/audit,/h/run/owner-broker/admin.sock,/h/run/owner-loop/loop.sock",
    "--allow-write=/h/run/owner-broker/admin.sock,/h/run/owner-loop/loop.sock",
    "--allow-net=unix:/h/run/owner-broker/admin.sock,unix:/h/run/owner-loop/loop.sock",
    "--allow-env=BOXMAKER_HOME,NO_COLOR,TERM",
  ],
} as const;

for (const role of ROLES) {
  Deno.test(`the flags of ${role} are its row and nothing else`, { permissions: "none" }, () => {
    assert.equal(LOCKS[role].role, role);
    assert.deepEqual(denoFlags(LOCKS[role]), FLAGS[role]);
  });
}

Deno.test("configured places stand in the flags", { permissions: "none" }, () => {
  const broker = brokerLock({
    layout: HOME,
    configFile: "/c",
    grants: "/g",
    brokerSocket: "/s/b/b.sock",
    adminSocket: "/s/a/a.sock",
    run: ["/usr/bin/podman", "/opt/deno"],
  });
  assert.equal(denoFlags(broker).at(-1), "--allow-run=/usr/bin/podman,/opt/deno");
  assert.deepEqual(broker.read, ["/c", "/g", "/h/broker", "/h/audit", "/s/b", "/s/a"]);
  assert.deepEqual(broker.net, ["unix:/s/b/b.sock", "unix:/s/a/a.sock"]);
});

Deno.test("bxctl reads the grants and writes a page for a report, and then alone", {
  permissions: "none",
}, () => {
  const places = { grantsToRead: HOME.grants, pageToWrite: "/r/page.html" };
  const report = ctlLock({ ...CTL_PLACES, ...places });
  assert.deepEqual(report, {
    ...CTL_WITH_GRANTS,
    write: [...CTL.write, "/r/page.html"],
  });
  const elsewhere = ctlLock({ ...CTL_PLACES, ...places, grantsToRead: "/g" });
  assert.deepEqual(elsewhere.read.filter((path) => !CTL.read.includes(path)), ["/g"]);
  // It may not do more than that, such as write beside the page.
  const asked = forbidden(elsewhere, HOME).map(describe);
  assert.ok(asked.includes("write /r") && asked.includes("read /h/grants"));
  assert.ok(!asked.includes("write /r/page.html"));
});

Deno.test("a command of bxctl that reads the grants reads them beside the rest, and no more", {
  permissions: "none",
}, () => {
  const { read, ...rest } = CTL_WITH_GRANTS;
  const { read: usual, ...usually } = CTL;
  assert.deepEqual(rest, usually);
  assert.deepEqual(read.filter((path) => path !== "/h/grants"), usual);
  assert.deepEqual(read.filter((path) => !usual.includes(path)), ["/h/grants"]);
  const asked = (lock: Lock) => forbidden(lock, HOME).map(describe);
  const left = asked(CTL_WITH_GRANTS);
  assert.deepEqual(asked(CTL).filter((one) => !left.includes(one)), ["read /h/grants"]);
  assert.ok(left.includes("write /h/grants"));
});

Deno.test(
  "the doctor reads the home but for what is private in it, and asks two facts of the system",
  {
    permissions: "none",
  },
  () => {
    const lock = ctlLock({ ...CTL_PLACES, grantsToRead: null, pageToWrite: null, examines: true });
    assert.deepEqual(lock.write, CTL.write);
    assert.deepEqual([lock.net, lock.env, lock.run], [CTL.net, CTL.env, []]);
    const more = lock.read.filter((path) => !CTL.read.includes(path));
    assert.deepEqual(more.slice(0, 4), [
      "/h",
      "/h/grants",
      "/h/run/owner-broker",
      "/h/run/owner-loop",
    ]);
    for (const path of more.slice(4)) assert.match(path, /^\/(etc|usr)\//);
    const flags = denoFlags(lock);
    assert.ok(flags.includes("--deny-read=/h/loop/sessions,/h/memory,/h/broker/sessions"));
    assert.ok(flags.includes("--allow-sys=statfs,uid"));
    // What it is asked about: all that the others are but the home and what lies in it, and what is taken out.
    const asked = forbidden(lock, HOME).map(describe);
    for (
      const place of [
        "read /",
        "read /etc",
        "read /proc",
        "read anywhere",
        "write /h",
        "write /h/grants",
      ]
    ) {
      assert.ok(asked.includes(place), place);
    }
    for (const place of ["/h/loop/sessions", "/h/memory", "/h/broker/sessions"]) {
      assert.ok(asked.includes(`read ${place}`), place);
    }
    assert.ok(!asked.includes("read /h") && !asked.includes("read /h/grants"));
    // Without the command, the row is as before.
    assert.deepEqual(
      ctlLock({ ...CTL_PLACES, grantsToRead: null, pageToWrite: null, examines: false }),
      CTL,
    );
  },
);

Deno.test("loopd without a broker has no broker socket in its row", { permissions: "none" }, () => {
  const lock = loopLock({
    layout: HOME,
    configFile: "/c",
    brokerSocket: null,
    loopSocket: HOME.loopSocket,
    llama: "llama.example.com:443",
  });
  assert.deepEqual(lock.read, ["/c", "/h/loop", "/h/memory", "/h/run/owner-loop"]);
  assert.deepEqual(lock.write, ["/h/loop", "/h/run/owner-loop"]);
  assert.deepEqual(lock.net, ["unix:/h/run/owner-loop/loop.sock", "llama.example.com:443"]);
});

Deno.test("no row may run, load or look at the system, or reach all of anything", {
  permissions: "none",
}, () => {
  for (const role of ROLES) {
    for (const flag of denoFlags(LOCKS[role])) {
      assert.doesNotMatch(flag, /^--allow-(run|ffi|sys|all|import|hrtime)|^-A$/);
      if (flag.startsWith("--allow-")) assert.match(flag, /^--allow-(read|write|net|env)=[^,]/);
      assert.doesNotMatch(flag, /,,|,$|=$/);
    }
  }
});

Deno.test("a path that the flags cannot express is refused", { permissions: "none" }, () => {
  for (const path of ["/", "/h", "/h/a b", "/h/a:b", "/h/ü", "/h/..a", "/h/a.b", "/h/=", "/h/*"]) {
    assert.equal(unlockablePath(path), null, path);
  }
  const bad = {
    "": /not an absolute path/,
    "h": /not an absolute path/,
    "./h": /not an absolute path/,
    "~/h": /not an absolute path/,
    "/h/../etc": /\. or \.\./,
    "/h/./a": /\. or \.\./,
    "/..": /\. or \.\./,
    "/h/a,b": /comma/,
    "/h,/etc": /comma/,
    "/h\n--allow-run": /newline/,
    "/h\r": /control/,
    "/h\0": /control/,
    "/h\x7f": /control/,
  };
  for (const [path, problem] of Object.entries(bad)) {
    assert.match(unlockablePath(path) ?? "allowed", problem, JSON.stringify(path));
  }
});

/** Whether the runtime would say yes to `question` under the flags of `lock`: its rules, in short. */
function isGranted(lock: Lock, question: Question): boolean {
  switch (question.name) {
    case "read":
    case "write": {
      const { path } = question;
      return path !== undefined &&
        lock[question.name].some((place) => path === place || path.startsWith(`${place}/`));
    }
    case "net":
      return question.host !== undefined && lock.net.includes(question.host);
    default:
      return false;
  }
}

for (const role of ROLES) {
  Deno.test(`${role} is not asked about anything in its own row`, { permissions: "none" }, () => {
    const granted = forbidden(LOCKS[role], HOME).filter((one) => isGranted(LOCKS[role], one));
    assert.deepEqual(granted, []);
  });
}

const words = (lock: Lock) => new Set(forbidden(lock, HOME).map(describe));

Deno.test("every role is asked about all of everything", { permissions: "none" }, () => {
  for (const role of ROLES) {
    const asked = words(LOCKS[role]);
    for (
      const all of [
        ...["read anywhere", "write anywhere", "connect to anywhere", "run programs"],
        ...["read every environment variable", "load native code", "read system information"],
        ...["import remote code", "read /", "write /", "read /etc", "write /etc", "read /proc"],
        ...["read /h", "write /h", "write /e"],
      ]
    ) assert.ok(asked.has(all), `${role}: ${all}`);
  }
});

// Contracts 1 names what loopd must not hold; the others follow from their rows.
const FOREIGN = {
  loopd: [
    ...["read /h/broker", "write /h/broker", "read /h/audit", "write /h/audit"],
    ...["read /h/grants", "write /h/grants", "write /h/memory"],
    ...["connect to unix:/h/run/owner-broker/admin.sock", "read /h/run/owner-broker/admin.sock"],
    ...["write /h/run/owner-broker/admin.sock", "read /h/run/loop-broker"],
  ],
  brokerd: [
    ...["write /h/grants", "read /h/loop", "write /h/loop", "read /h/memory", "write /h/memory"],
    ...["connect to unix:/h/run/owner-loop/loop.sock", "write /h/run/owner-loop/loop.sock"],
  ],
  bxctl: [
    ...["write /h/audit", "read /h/broker", "write /h/broker", "read /h/loop", "write /h/loop"],
    ...["read /h/grants", "write /h/grants", "read /h/memory", "write /h/memory"],
    ...["connect to unix:/h/run/loop-broker/broker.sock", "write /h/run/owner-broker"],
  ],
} as const;

for (const role of ROLES) {
  Deno.test(`${role} is asked about the places of the others`, { permissions: "none" }, () => {
    const asked = words(LOCKS[role]);
    for (const place of FOREIGN[role]) assert.ok(asked.has(place), place);
  });
}

Deno.test("a slash too many in a configured path does not look like more", {
  permissions: "none",
}, () => {
  const places = layout("/h/");
  const lock = brokerLock({
    layout: places,
    configFile: "/e//brokerd.toml",
    grants: "/h/grants/",
    brokerSocket: "/h/run/loop-broker/broker.sock",
    adminSocket: "/h/run//owner-broker/admin.sock",
    run: [],
  });
  const plain = (value: string) => value.replace(/\/+/g, "/").replace(/(?<=.)\/$/, "");
  const own = [...lock.read, ...lock.write].map(plain);
  for (const question of forbidden(lock, places)) {
    if (question.name !== "read" || question.path === undefined) continue;
    assert.ok(!own.includes(plain(question.path)), question.path);
  }
});

Deno.test("a command of bxctl that writes the grants writes them beside the rest, and no more", {
  permissions: "none",
}, () => {
  const writing = ctlLock({
    ...CTL_PLACES,
    grantsToRead: HOME.grants,
    grantsToWrite: HOME.grants,
    pageToWrite: null,
  });
  assert.deepEqual(writing, { ...CTL_WITH_GRANTS, write: [...CTL.write, HOME.grants] });
  const asked = (lock: Lock) => forbidden(lock, HOME).map(describe);
  const left = asked(writing);
  assert.deepEqual(asked(CTL_WITH_GRANTS).filter((one) => !left.includes(one)), [
    "write /h/grants",
  ]);
  assert.ok(left.includes("write /h"));
});
