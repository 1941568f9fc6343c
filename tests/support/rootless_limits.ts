/**
 * Tests of the tools that only an ordinary user can pass; tests/e2e/rootless_test.ts runs them. What control
 * groups bound for root, they do not bound for such a user everywhere: then the limits of the kernel hold.
 */
import assert from "node:assert/strict";
import { startBroker } from "./broker.ts";
import { callTool, contentOf, noContainerOf, runCommand, toolHome } from "./containers.ts";
import { tomlText } from "./grants.ts";
import { GrantPlace } from "./image.ts";

const SHELL = 'tool = "shell"\nmode = "auto"\n';

/** Forks until it may not, or 200 times, and prints how often it did. */
const FORKS = `perl -e '
  my @children;
  for (1..200) { my $pid = fork; last unless defined $pid; if ($pid == 0) { sleep 60; exit }
    push @children, $pid }
  kill 9, @children; print scalar @children;
'`;

Deno.test("a tool is the ordinary user itself, with no more rights, and what it writes is the user's", async () => {
  const uid = Deno.uid();
  assert.notEqual(uid, 0);
  using home = await toolHome();
  using place = new GrantPlace();
  home.grant(
    "write",
    `tool = "write_file"\nmode = "auto"\n[constraints]\npaths = [${tomlText(place.path)}]\n`,
  );
  home.grant("run", SHELL);
  await using _ = await startBroker(home);
  const path = `${place.path}/note`;
  await contentOf(home, "write_file", { path, content: "x" });
  assert.equal(Deno.statSync(path).uid, uid);
  const { stdout } = await runCommand(home, "id -u; id -g; grep ^CapBnd /proc/self/status");
  assert.equal(stdout, `${uid}\n${Deno.gid()}\nCapBnd:\t0000000000000000\n`);
});

Deno.test("a command makes no more processes than it may", async () => {
  for (const [processes, least, most] of [[20, 10, 40], [60, 80, 120]] as const) {
    using home = await toolHome({ runner: { processes, parallel: 2 } });
    home.grant("run", SHELL);
    await using _ = await startBroker(home);
    const { stdout, stderr } = await runCommand(home, FORKS);
    const made = Number(stdout);
    assert(made >= least && made < most, `of ${processes}: ${made} ${stderr}`);
  }
});

Deno.test("a fork bomb ends with its call, and the next call runs", async () => {
  using home = await toolHome({ runner: { processes: 30, parallel: 1, timeout_ms: 3000 } });
  home.grant("run", SHELL);
  await using _ = await startBroker(home);
  const answer = await callTool(home, "shell", { command: "perl -e 'fork while 1'" });
  assert(answer.status === "failed", JSON.stringify(answer));
  assert.match(answer.message, /^it was stopped after 3000 ms/);
  await noContainerOf(home);
  assert.equal((await runCommand(home, "echo here")).stdout, "here\n");
});

Deno.test("a command has no more memory than it may", async () => {
  const command = "perl -e '$x = \"x\" x 200_000_000; print length $x'";
  for (const [memory_mb, stdout] of [[128, ""], [512, "200000000"]] as const) {
    using home = await toolHome({ runner: { memory_mb } });
    home.grant("run", SHELL);
    await using _ = await startBroker(home);
    const ran = await runCommand(home, command);
    assert.equal(ran.stdout, stdout, JSON.stringify(ran));
    assert.equal(ran.exit === 0, stdout !== "");
    if (stdout === "") assert.match(ran.stderr, /Out of memory/);
  }
});
