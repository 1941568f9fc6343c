/** `tool` and `shell` of the image: what mounts are refused, and how a command runs. */
import assert from "node:assert/strict";
import { GrantPlace, runTool } from "../support/image.ts";
import { toolTest } from "../support/containers.ts";

/** Whether the directory at `path` is mounted and used, or what is said instead. */
async function mounted(path: string, podman: readonly string[] = []): Promise<true | string> {
  const { code, stdout, stderr } = await runTool("shell", [path, "echo in $PWD"], {
    mounts: [path],
    podman,
  });
  const text = new TextDecoder().decode(stdout);
  if (code === 0) {
    assert.equal(text, `SCin ${path}\n`);
    return true;
  }
  assert.deepEqual([code, text], [70, ""]);
  return stderr.trimEnd();
}

toolTest("a directory is mounted under its real name, whatever that is", async () => {
  using place = new GrantPlace();
  for (const name of ["plain", "two words", "back\\slash", "*", "é", "etc", "$(id)", "a:b", "%b"]) {
    assert.equal(await mounted(place.directory(name)), true, name);
  }
});

toolTest("a grant's path that has become a symbolic link mounts nothing", async () => {
  using place = new GrantPlace();
  const real = place.directory("real");
  place.directory("secrets");
  place.directory("real/deep");
  assert.equal(await mounted(`${real}/deep`), true);
  Deno.symlinkSync("secrets", `${place.path}/link`);
  Deno.symlinkSync(place.path, `${place.path}/up`);
  const words = (path: string, root: string) =>
    `${path} leads through a symbolic link to ${root}; the grant must name the real path`;
  const [link, within] = [`${place.path}/link`, `${place.path}/up/real`];
  assert.equal(await mounted(link), words(link, `${place.path}/secrets`));
  // Its last component is right, and one before it is the link.
  assert.equal(await mounted(within), words(within, real));
});

toolTest("a link to a whole file system or to a system's directory mounts nothing", async () => {
  using place = new GrantPlace();
  place.directory("home");
  assert.equal(await mounted(`${place.path}/home`), true);
  // Each is called as what it leads to, so that the end of its path is right.
  for (const root of ["/", "/etc", "/root", "/var"]) {
    const path = `${place.path}${root === "/" ? "/all" : root}`;
    Deno.symlinkSync(root, path);
    assert.equal(
      await mounted(path),
      `${path} cannot be told from a symbolic link to ${root}; grant directories in it instead`,
    );
  }
});

toolTest("of several mounts each is held to its path, and must be there", async () => {
  using place = new GrantPlace();
  const [good, other] = [place.directory("good"), place.directory("other")];
  const link = `${place.path}/link`;
  Deno.symlinkSync("other", link);
  const both = await runTool("shell", ["", "true"], { mounts: [good, other] });
  assert.deepEqual([both.code, both.text], [0, "SC"]);
  const one = await runTool("shell", ["", "true"], { mounts: [good, link] });
  assert.deepEqual([one.code, one.text], [70, ""]);
  const absent = await runTool("shell", ["", "true"], {
    podman: [`--env=BOXMAKER_MOUNTS=${good}`],
  });
  assert.deepEqual([absent.code, absent.text], [70, ""]);
  assert.equal(absent.stderr, `${good} is not mounted\n`);
  // What stands at the path inside is a link of the image's.
  const inside = await runTool("shell", ["", "true"], {
    podman: [
      "--env=BOXMAKER_MOUNTS=/bin/grant",
      `--mount=type=bind,source=${good},destination=/bin/grant,ro=true`,
    ],
  });
  assert.deepEqual([inside.code, inside.stderr], [70, "/bin/grant is not mounted\n"]);
});

toolTest("a file can be mounted too", async () => {
  using place = new GrantPlace();
  const path = `${place.path}/one file`;
  Deno.writeTextFileSync(path, "one");
  const { code, text } = await runTool("read_file", [path], { mounts: [path] });
  assert.deepEqual([code, text], [0, "Sone"]);
});

toolTest("what is not a tool does not start", async () => {
  for (const name of ["common", "../../bin/id", "", "tool"]) {
    const { code, text, stderr } = await runTool(name, []);
    assert.deepEqual([code, text, stderr], [70, "", `${name} is not a tool\n`]);
  }
});

toolTest("a command's streams and status are its own", async () => {
  const cases: Record<string, readonly [number, string, string]> = {
    "echo out; echo err >&2; exit 7": [7, "out\n", "err\n"],
    "exit 70": [70, "", ""],
    "exit 71": [71, "", ""],
    "-x": [127, "", "/bin/bash: line 1: -x: command not found\n"],
    "": [0, "", ""],
    "cat; echo end": [0, "end\n", ""],
    "kill -TERM $$": [143, "", ""],
    "kill -KILL $$": [137, "", ""],
    'printf \'%s\' "$0" "$#"': [0, "/bin/bash0", ""],
    "printf '\\000\\377'": [0, "\0\xff", ""],
    'for i in 1 2 3; do\necho "$i * \' \\\\"\ndone': [0, "1 * ' \\\n2 * ' \\\n3 * ' \\\n", ""],
    "env | sort | cut -d= -f1 | paste -sd,": [0, "HOME,LC_ALL,PATH,PWD,SHLVL,_\n", ""],
    "ls /proc/self/fd | paste -sd,": [0, "0,1,2,3\n", ""],
    "echo $HOME $PWD; umask; echo a > ~/b && cat ~/b": [0, "/tmp /tmp\n0022\na\n", ""],
    "rm -rf /usr/lib/boxmaker 2>/dev/null; ls /usr/lib/boxmaker | wc -l": [0, "7\n", ""],
  };
  for (const [command, [code, stdout, stderr]] of Object.entries(cases)) {
    // Stdin stays open: a command that had it would wait.
    const end = await runTool("shell", ["", command], { input: null });
    assert.deepEqual(
      [end.code, end.text, end.stderr],
      [code, `SC${stdout}`, `\0${stderr}`],
      command,
    );
  }
});

toolTest("a directory that cannot be entered is said, and no command runs", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  place.directory("grant/-");
  Deno.writeTextFileSync(`${grant}/file`, "");
  Deno.mkdirSync(`${grant}/closed`, { mode: 0o700 });
  const call = { mounts: [grant], writable: true };
  const entered = await runTool("shell", [`${grant}/-`, "pwd; touch here"], call);
  assert.deepEqual([entered.code, entered.text], [0, `SC${grant}/-\n`]);
  assert(Deno.statSync(`${grant}/-/here`).isFile);
  const words = {
    absent: "does not exist",
    file: "is not a directory",
    closed: "may not be entered",
  };
  for (const [name, message] of Object.entries(words)) {
    const path = `${grant}/${name}`;
    const { code, text, stderr } = await runTool("shell", [path, "touch /tmp/x"], call);
    assert.deepEqual([code, text, stderr], [71, "S", `${path} ${message}\n`]);
  }
});

toolTest("a command that leaves others behind ends with them", async () => {
  const { code, text } = await runTool("shell", ["", "sleep 1000 & echo left"]);
  assert.deepEqual([code, text], [0, "SCleft\n"]);
});
