/** `bxctl approve --remember`, `grants list` and `grants revoke` with the real brokerd, each under its own row. */
import assert from "node:assert/strict";
import { AskingBroker, endOf } from "../support/asked.ts";
import { ctlFlagsOf } from "../../scripts/support/roles.ts";
import { forEach, namesOf } from "../support/broker.ts";
import { runCtl, Terminal } from "../support/ctl.ts";

const DRAFTS = { tool: "write_file", mode: "ask", constraints: { paths: ["/d"] } };
const READ = { mode: "ask", constraints: { paths: ["/n"] } };
const write = (path: string, content = "x") => ({ path, content });

Deno.test("ask, approve and remember, and the same call runs: another one, or after the end, is asked about", async () => {
  await using asking = await AskingBroker.start({ drafts: DRAFTS });
  const { path } = asking;
  Deno.chmodSync(asking.file("drafts"), 0o640);
  const waiting = await asking.waits("write_file", write("/d/a.md"));
  const { approval } = waiting;
  const id = `remembered-${approval}`;
  const ran = await runCtl(path, ["approve", `${approval}`, "--remember", "1h", "--yes"]);
  assert.equal(ran.stderr, "");
  assert.equal(ran.code, 0);
  assert.equal(await endOf(waiting), "ran");
  const text = Deno.readTextFileSync(asking.file(id));
  assert.ok(
    ran.stdout.includes(text.trimEnd().split("\n").map((l) => `    ${l}`.trimEnd()).join("\n")),
  );
  assert.match(ran.stdout, new RegExp(`\\napproved ${approval}: runs\\nremembered until `));
  assert.equal((Deno.statSync(asking.file(id)).mode ?? 0) & 0o777, 0o640);
  assert.deepEqual(asking.names(), ["drafts.toml", `${id}.toml`]);

  // The same place with other content, and in another session.
  assert.equal(await asking.call("write_file", write("/d/a.md", "other")), "ran");
  assert.equal(await asking.call("write_file", write("/d/a.md"), "s2"), "ran");
  for (const other of ["/d/b.md", "/d/a.md/c", "/d/a.md2"]) {
    await asking.asks("write_file", write(other));
  }
  assert.equal((await runCtl(path, ["grants", "check"])).stdout, "grants: ok\n");
  assert.match(
    (await runCtl(path, ["grants", "list"])).stdout,
    new RegExp(
      `^${id}  auto  write_file  expires in 60 min|^${id}  auto  write_file  expires in 1 hr`,
      "m",
    ),
  );

  // An end in the past, as after an hour.
  const ended = text.replace(/expires = ".*"/, 'expires = "2026-01-01T00:00:00.000Z"');
  assert.notEqual(ended, text);
  Deno.writeTextFileSync(asking.file(id), ended);
  await asking.asks("write_file", write("/d/a.md"));
  assert.match(
    (await runCtl(path, ["grants", "list"])).stdout,
    new RegExp(`^${id}  auto  write_file  expired  `, "m"),
  );
  Deno.writeTextFileSync(asking.file(id), text);
  assert.equal(await asking.call("write_file", write("/d/a.md")), "ran");

  const revoked = await runCtl(path, ["grants", "revoke", id, "--yes"]);
  assert.equal(revoked.code, 0, revoked.stderr);
  assert.match(revoked.stdout, new RegExp(`\\nrevoked ${id}\\n$`));
  await asking.asks("write_file", write("/d/a.md"));
  assert.deepEqual(asking.names(), ["drafts.toml"]);
});

Deno.test("an edit of the ask grant, a deny grant and more taint end what is remembered", async () => {
  await using asking = await AskingBroker.start({ notes: { ...READ, max_taint: "private" } });
  const approval = await asking.asks("read_file", { path: "/n/a" });
  const ran = await runCtl(asking.path, ["approve", `${approval}`, "--remember", "30m", "--yes"]);
  assert.equal(ran.code, 0, ran.stderr);
  const call = (session = "s1") => asking.call("read_file", { path: "/n/a" }, session);
  assert.equal(await call(), "ran");
  asking.put("no", { mode: "deny", constraints: { paths: ["/n/a"] } });
  assert.equal(await call(), "denied_by_grant");
  Deno.removeSync(asking.file("no"));
  assert.equal(await call(), "ran");
  const states = `${asking.home.layout.broker}/sessions`;
  Deno.mkdirSync(states, { recursive: true });
  Deno.writeTextFileSync(`${states}/s3.json`, '{"taint":"secret","untrusted":false}\n');
  assert.equal(await call("s3"), "taint_too_high");
  asking.put("notes", { ...READ, max_taint: "private", constraints: { paths: ["/n", "/m"] } });
  await asking.asks("read_file", { path: "/n/a" });
  const { stdout } = await runCtl(asking.path, ["grants", "list"]);
  assert.match(stdout, /\n {4}without effect: notes is gone, or was changed since\n/);
});

Deno.test("where the answer would not hold, nothing is written and the call waits on", async () => {
  const cases = {
    "a deny grant that came since": {
      change: (asking: AskingBroker) => asking.put("no", { ...READ, mode: "deny" }),
      said: /this call is not asked about\nbxctl: denied \(denied_by_grant\): grant no denies it\n/,
    },
    "a result that is more than the grant's taint": {
      change: (asking: AskingBroker) =>
        asking.put("notes", { ...READ, max_taint: "private", result_class: "secret" }),
      said:
        /at taint secret, another one like it would come out so:\nbxctl: denied \(taint_too_high\)/,
    },
    "an invalid grant": {
      change: (asking: AskingBroker) => Deno.writeTextFileSync(asking.file("bad"), "tool = 1\n"),
      said: /could not be used: bad\.toml/,
    },
    "a grant of that name": {
      change: (asking: AskingBroker) => asking.put("remembered-0", DRAFTS),
      said: /a grant remembered-0 is there already/,
    },
  };
  await forEach(cases, async ({ change, said }) => {
    await using asking = await AskingBroker.start({ notes: READ });
    const waiting = await asking.waits("read_file", { path: "/n/a" });
    const { approval } = waiting;
    assert.equal(approval, 0);
    change(asking);
    const before = asking.names();
    const ran = await runCtl(asking.path, ["approve", `${approval}`, "--remember", "1h", "--yes"]);
    assert.equal(ran.code, 1);
    assert.match(ran.stderr, said);
    assert.ok(ran.stderr.endsWith("see docs/runbook.md#not-remembered\n"), ran.stderr);
    assert.deepEqual(asking.names(), before);
    const { stdout } = await runCtl(asking.path, ["approvals", "--json"]);
    assert.deepEqual(JSON.parse(stdout).map((one: { approval: number }) => one.approval), [0]);
  });
});

Deno.test("a shell call is held to its cwd, and one without a cwd is not remembered", async () => {
  await using asking = await AskingBroker.start({
    bare: { tool: "shell", mode: "ask" },
    run: { tool: "shell", mode: "ask", constraints: { paths: ["/s", "/t"] } },
  });
  const bare = await asking.asks("shell", { command: "ls" });
  const refused = await runCtl(asking.path, ["approve", `${bare}`, "--remember", "1h", "--yes"]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /a shell call without a cwd names no place/);
  const approval = await asking.asks("shell", { command: "ls", cwd: "/s/b" });
  const ran = await runCtl(asking.path, ["approve", `${approval}`, "--remember", "1h", "--yes"]);
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(
    ran.stdout,
    /\nany command with that cwd will run without asking, not this one alone\n/,
  );
  assert.equal(await asking.call("shell", { command: "make", cwd: "/s/b" }), "ran");
  for (const cwd of ["/s", "/s/b/c", "/t"]) await asking.asks("shell", { command: "ls", cwd });
});

Deno.test("a fetch is held to its host, whatever the grant's pattern takes in", async () => {
  await using asking = await AskingBroker.start({
    pages: { tool: "http_fetch", mode: "ask", constraints: { hosts: ["*.page.example"] } },
  });
  const url = (host: string) => ({ url: `https://${host}/x?y` });
  const approval = await asking.asks("http_fetch", url("xn--bcher-kva.page.example"));
  const ran = await runCtl(asking.path, ["approve", `${approval}`, "--remember", "1d", "--yes"]);
  assert.equal(ran.code, 0, ran.stderr);
  assert.match(ran.stdout, /hosts = \["xn--bcher-kva\.page\.example \(bücher\.page\.example\)"\]/);
  assert.equal(await asking.call("http_fetch", url("xn--bcher-kva.page.example")), "ran");
  for (const host of ["a.page.example", "x.xn--bcher-kva.page.example"]) {
    await asking.asks("http_fetch", url(host));
  }
});

Deno.test("hostile paths are remembered as they are, and shown as data", async () => {
  const paths = {
    newline: '/n/a\n[remembered]\npath = "/x',
    quotes: `/n/"'\\""" ''' # x`,
    glob: "/n/*",
    globs: "/n/**/?[a-z]{b,c}",
    escapes: "/n/\u001b[2J\u202egpj.exe\u200b\u{e0041}\u009b1A\u007f\ufeff",
    percent: "/n/%2e%2e/..%2f",
    unicode: "/n/ü/e\u0301/😀",
    spaces: "/n/ a\t b ",
  };
  await forEach(paths, async (place) => {
    await using asking = await AskingBroker.start({ notes: READ });
    const approval = await asking.asks("read_file", { path: place });
    const ran = await runCtl(asking.path, ["approve", `${approval}`, "--remember", "1h", "--yes"]);
    assert.equal(ran.code, 0, ran.stderr);
    // deno-lint-ignore no-control-regex
    assert.doesNotMatch(ran.stdout, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200b\ufeff\u{e0041}]/u);
    assert.equal(await asking.call("read_file", { path: place }), "ran");
    for (
      const other of ["/n", "/n/a", "/n/b/c", `${place}/x`, `${place}x`, place.normalize("NFC")]
    ) {
      if (other !== place) await asking.asks("read_file", { path: other });
    }
    const listed = await runCtl(asking.path, ["grants", "list"]);
    assert.equal(listed.code, 0, listed.stderr);
    // deno-lint-ignore no-control-regex
    assert.doesNotMatch(listed.stdout, /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u200b\ufeff\u{e0041}]/u);
    const id = `remembered-${approval}`;
    assert.equal((await runCtl(asking.path, ["grants", "revoke", id, "--yes"])).code, 0);
    await asking.asks("read_file", { path: place });
  });
});

Deno.test("a long path goes on indented, where it could pass for a line of bxctl's", async () => {
  await using asking = await AskingBroker.start({ notes: READ });
  // In whatever line it stands: spaces to beyond the terminal's edge, and then what looks like another call.
  const place = `/n/a${" ".repeat(80)}0  1 sec ago  session s1${" ".repeat(80)}harmless`;
  const approval = await asking.asks("read_file", { path: place });
  const id = `remembered-${approval}`;
  const linesOf = async (...args: string[]) => {
    const shell = "stty cols 60 rows 24; exec $BXCTL";
    await using terminal = new Terminal(asking.path, args, { shell });
    if (!args.includes("list")) {
      await terminal.shows("[y/N] ");
      await terminal.type("y\n");
    }
    assert.equal(await terminal.ends(), 0, terminal.screen);
    return terminal.screen.split("\r\n");
  };
  for (
    const args of [
      ["approve", `${approval}`, "--remember", "1h"],
      ["grants", "list"],
      ["grants", "revoke", id],
    ]
  ) {
    const lines = await linesOf(...args);
    const ofModel = lines.filter((line) => / sec ago|harmless/.test(line));
    assert.notEqual(ofModel.length, 0, lines.join("\n"));
    for (const line of ofModel) {
      assert.ok(line.length <= 60, line);
      assert.match(line, /^ {4}|^\d+ {2}\d+ sec ago {2}expires/);
    }
  }
});

Deno.test("on a terminal only y writes the grant; anything else leaves the call waiting", async () => {
  await using asking = await AskingBroker.start({ notes: READ });
  const waiting = await asking.waits("read_file", { path: "/n/a" });
  const { approval } = waiting;
  const args = ["approve", `${approval}`, "--remember", "1h"];
  const question = `approve ${approval} and write it? [y/N] `;
  for (const typed of ["\n", "Y\n", "yes\n", "\u0004"]) {
    await using terminal = new Terminal(asking.path, args);
    await terminal.shows(question);
    assert.ok(terminal.screen.includes('    path = "/n/a"'), terminal.screen);
    await terminal.type(typed);
    await terminal.shows("bxctl: nothing was done");
    assert.equal(await terminal.ends(), 1);
    assert.deepEqual(asking.names(), ["notes.toml"]);
  }
  {
    await using terminal = new Terminal(asking.path, args);
    await terminal.shows(question);
    // Between the question and the answer the grant is edited: what was shown would not hold.
    const text = Deno.readTextFileSync(asking.file("notes"));
    Deno.writeTextFileSync(asking.file("notes"), `${text}# edited\n`);
    await terminal.type("y\n");
    await terminal.shows("see docs/runbook.md#not-remembered");
    assert.ok(
      terminal.screen.includes("the file of notes has been changed since"),
      terminal.screen,
    );
    assert.equal(await terminal.ends(), 1);
    assert.deepEqual(asking.names(), ["notes.toml"]);
  }
  {
    await using terminal = new Terminal(asking.path, args);
    await terminal.shows(question);
    await terminal.type("y\n");
    await terminal.shows(`approved ${approval}: runs`);
    assert.equal(await terminal.ends(), 0);
  }
  assert.equal(await endOf(waiting), "ran");
  assert.equal(await asking.call("read_file", { path: "/n/a" }), "ran");

  const id = `remembered-${approval}`;
  {
    await using terminal = new Terminal(asking.path, ["grants", "revoke", id]);
    await terminal.shows("remove it? [y/N] ");
    await terminal.type("\n");
    await terminal.shows(`bxctl: the grant ${id} stays`);
    assert.equal(await terminal.ends(), 1);
  }
  {
    await using terminal = new Terminal(asking.path, ["grants", "revoke", id]);
    await terminal.shows("remove it? [y/N] ");
    Deno.writeTextFileSync(asking.file(id), Deno.readTextFileSync(asking.file(id)) + "# mine\n");
    await terminal.type("y\n");
    await terminal.shows(`the file of ${id} was changed while it was shown, and stays`);
    assert.equal(await terminal.ends(), 1);
    assert.equal(await asking.call("read_file", { path: "/n/a" }), "ran");
  }
  {
    await using terminal = new Terminal(asking.path, ["grants", "revoke", id]);
    await terminal.shows("remove it? [y/N] ");
    await terminal.type("y\n");
    await terminal.shows(`revoked ${id}`);
    assert.equal(await terminal.ends(), 0);
  }
  await asking.asks("read_file", { path: "/n/a" });
});

Deno.test("what has changed since the ask is said with the question, and under it nothing is written", async () => {
  await using asking = await AskingBroker.start({ notes: READ });
  const { approval } = await asking.waits("read_file", { path: "/n/a" });
  const twin = await asking.asks("read_file", { path: "/n/a" });
  asking.put("notes", { ...READ, max_taint: "private", untrusted: true });
  const edited = "changed since: grant notes.toml was edited";
  await using terminal = new Terminal(asking.path, ["approve", `${approval}`, "--remember", "1h"]);
  await terminal.shows("and write it? [y/N] ");
  assert.ok(terminal.screen.includes(`    2 identical calls: ${approval}, ${twin}; an answer`));
  assert.ok(terminal.screen.includes(`    ${edited}\r\n`), terminal.screen);
  const states = `${asking.home.layout.broker}/sessions`;
  Deno.mkdirSync(states, { recursive: true });
  Deno.writeTextFileSync(`${states}/s1.json`, '{"taint":"private","untrusted":true}\n');
  await terminal.type("y\n");
  await terminal.shows("see docs/runbook.md#not-remembered");
  assert.ok(
    terminal.screen.includes(
      "changed since: the session has seen untrusted content; grant notes.toml was edited",
    ),
    terminal.screen,
  );
  assert.equal(await terminal.ends(), 1);
  assert.deepEqual(asking.names(), ["notes.toml"]);
});

Deno.test("without a terminal nothing is done unless --yes says so beforehand", async () => {
  await using asking = await AskingBroker.start({ notes: READ });
  const approval = await asking.asks("read_file", { path: "/n/a" });
  const args = ["approve", `${approval}`, "--remember", "1h"];
  for (const more of [[], ["--json"]]) {
    const ran = await runCtl(asking.path, [...args, ...more], { stdin: "y\n" });
    assert.equal(ran.code, 1);
    assert.match(ran.stderr, /bxctl: to do it without being asked, add --yes\n/);
    assert.deepEqual(asking.names(), ["notes.toml"]);
  }
  const ran = await runCtl(asking.path, [...args, "--yes", "--json"]);
  assert.equal(ran.code, 0, ran.stderr);
  const id = `remembered-${approval}`;
  const { remembered, ...answer } = JSON.parse(ran.stdout);
  assert.deepEqual(answer, { approval, answer: "approved", outcome: { outcome: "allowed" } });
  assert.equal(remembered.grant, id);
  assert.equal(remembered.text, Deno.readTextFileSync(asking.file(id)));
  const stays = await runCtl(asking.path, ["grants", "revoke", id]);
  assert.equal(stays.code, 1);
  assert.deepEqual(asking.names(), ["notes.toml", `${id}.toml`]);
  const revoked = await runCtl(asking.path, ["grants", "revoke", id, "--yes", "--json"]);
  assert.deepEqual(JSON.parse(revoked.stdout), { grant: id, revoked: true });
});

Deno.test("a brokerd that reads other grants approves the call, and nothing is left of the grant", async () => {
  await using asking = await AskingBroker.start({ notes: READ });
  const elsewhere = `${asking.home.root}/elsewhere`;
  Deno.mkdirSync(elsewhere);
  Deno.copyFileSync(asking.file("notes"), `${elsewhere}/notes.toml`);
  const config = `${asking.home.root}/bxctl.toml`;
  const { home } = asking.home;
  Deno.writeTextFileSync(config, `[paths]\nhome = "${home}"\ngrants = "${elsewhere}"\n`);
  const waiting = await asking.waits("read_file", { path: "/n/a" });
  const args = ["approve", `${waiting.approval}`, "--remember", "1h", "--yes", "--config", config];
  const flags = ctlFlagsOf(args, home) ?? assert.fail();
  const ran = await runCtl(asking.path, args, { flags });
  assert.equal(ran.code, 1);
  assert.match(
    ran.stderr,
    /brokerd did not see the new grant, so nothing is remembered: does it read /,
  );
  assert.match(ran.stderr, /the grant remembered-0 was taken back\n/);
  assert.equal(await endOf(waiting), "ran");
  assert.deepEqual(namesOf(elsewhere), ["notes.toml"]);
});

Deno.test("a call that has ended meanwhile, or a second owner: nothing is written over or left", async () => {
  await using asking = await AskingBroker.start({ notes: READ });
  const waiting = await asking.waits("read_file", { path: "/n/a" });
  const { approval } = waiting;
  await using terminal = new Terminal(asking.path, ["approve", `${approval}`, "--remember", "1h"]);
  await terminal.shows("and write it? [y/N] ");
  assert.equal((await runCtl(asking.path, ["refuse", `${approval}`])).code, 0);
  await terminal.type("y\n");
  await terminal.shows(`the grant remembered-${approval} was taken back`);
  assert.ok(terminal.screen.includes(`no approval ${approval} is pending`), terminal.screen);
  assert.equal(await terminal.ends(), 1);
  assert.deepEqual(asking.names(), ["notes.toml"]);
  // What is left of a bxctl that was ended while it wrote.
  const next = await asking.asks("read_file", { path: "/n/a" });
  const left = `${asking.home.layout.grants}/.remembered-${next}.toml.new`;
  Deno.writeTextFileSync(left, "half");
  const args = ["approve", `${next}`, "--remember", "1h", "--yes"];
  const ran = await runCtl(asking.path, args);
  assert.equal(ran.code, 1);
  assert.match(
    ran.stderr,
    new RegExp(
      `or what is left of writing it, is there already\n.*approval ${next} waits: .*\n.*#grant-not-written\n$`,
    ),
  );
  assert.equal(Deno.readTextFileSync(left), "half");
  Deno.removeSync(left);
  assert.equal((await runCtl(asking.path, args)).code, 0);
});
