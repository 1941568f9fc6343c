/** `read_file` and `write_file` of the image, in containers as `brokerd` starts them. */
import assert from "node:assert/strict";
import { GrantPlace, podman, runTool } from "../support/image.ts";
import { toolTest } from "../support/containers.ts";
import { until } from "../support/broker.ts";

/** Names that a shell could take for something else. */
const NAMES = [
  ...["two words", " blank at both ends ", "new\nline", "newline at the end\n", "-rf", "--help"],
  ...["*", "[a]?", "'\"`", "$(touch x)", "${HOME}", "back\\slash\\n", "a;b|c&d", "%s%n", "é 日本"],
  ...["~", "{a,b}", "!1", "#x", "\t"],
];

/** What lies in `directory`, by name. */
function namesIn(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
}

toolTest("a file is written and read under every name, and nothing else is", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  const call = { mounts: [grant], writable: true };
  for (const name of NAMES) {
    const path = `${grant}/${name}`;
    const content = `of ${name}`;
    const size = String(new TextEncoder().encode(content).length);
    const written = await runTool("write_file", [path, size], { ...call, input: content });
    assert.deepEqual([written.code, written.text, written.stderr], [0, "S", ""], name);
    assert.equal(Deno.readTextFileSync(path), content);
    const read = await runTool("read_file", [path], { mounts: [grant] });
    assert.deepEqual([read.code, read.stderr], [0, ""]);
    assert.equal(new TextDecoder().decode(read.stdout), `S${content}`);
  }
  assert.deepEqual(namesIn(grant), [...NAMES].sort());
});

toolTest("read_file gives the bytes as they are, and one more than the limit", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  const path = `${grant}/bytes`;
  for (const [size, limit] of [[0, 100], [100, 100], [101, 100], [300_000, 200_000]] as const) {
    const bytes = Uint8Array.from({ length: size }, (_, at) => at % 256);
    Deno.writeFileSync(path, bytes);
    const { code, stdout } = await runTool("read_file", [path], { mounts: [grant], limit });
    assert.equal(code, 0);
    assert.equal(stdout[0], "S".charCodeAt(0));
    assert.deepEqual(stdout.subarray(1), bytes.subarray(0, limit + 1));
  }
});

toolTest("read_file of a file of 1 TiB ends at the limit", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  Deno.writeTextFileSync(`${grant}/big`, "");
  Deno.truncateSync(`${grant}/big`, 2 ** 40);
  const { code, stdout } = await runTool("read_file", [`${grant}/big`], { mounts: [grant] });
  assert.deepEqual([code, stdout.length], [0, 1002]);
});

toolTest("read_file of anything but a file that may be read says what it is", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  Deno.writeTextFileSync(`${grant}/secret`, "x");
  Deno.chmodSync(`${grant}/secret`, 0o600);
  Deno.mkdirSync(`${grant}/closed`, { mode: 0o700 });
  Deno.mkdirSync(`${grant}/folder`);
  await new Deno.Command("mkfifo", { args: [`${grant}/fifo`] }).output();
  using _listener = Deno.listen({ transport: "unix", path: `${grant}/socket` });
  Deno.symlinkSync("/root/.ssh/id", `${grant}/out`);
  Deno.symlinkSync("/etc/passwd", `${grant}/passwd`);
  Deno.symlinkSync("/proc/self/environ", `${grant}/environ`);
  Deno.symlinkSync("loop", `${grant}/loop`);
  Deno.symlinkSync("/dev/zero", `${grant}/device`);
  const words: Record<string, string> = {
    absent: "does not exist",
    "secret/x": "does not exist",
    secret: "may not be read",
    "closed/x": "may not be read",
    folder: "is a directory",
    fifo: "is a fifo",
    socket: "is a socket",
    device: "is a character special file",
    out: "is a symbolic link to something that is not there",
    loop: "is a symbolic link to something that is not there",
    passwd: "leads out of what is granted, to /etc/passwd",
  };
  for (const [name, message] of Object.entries(words)) {
    const path = `${grant}/${name}`;
    const { code, text, stderr } = await runTool("read_file", [path], { mounts: [grant] });
    assert.deepEqual([code, text, stderr], [1, "S", `${path} ${message}\n`]);
  }
  const environ = await runTool("read_file", [`${grant}/environ`], { mounts: [grant] });
  assert.deepEqual([environ.code, environ.text], [1, "S"]);
  assert.match(environ.stderr, /leads out of what is granted, to \/proc\/\d+\/environ$/m);
});

toolTest("read_file follows a link inside the grant, and into another mount", async () => {
  using place = new GrantPlace();
  const [grant, other] = [place.directory("grant"), place.directory("other")];
  Deno.writeTextFileSync(`${other}/file`, "there");
  Deno.writeTextFileSync(`${grant}/file`, "here");
  Deno.symlinkSync("file", `${grant}/near`);
  Deno.symlinkSync(`${other}/file`, `${grant}/far`);
  const mounts = [grant, other];
  assert.equal((await runTool("read_file", [`${grant}/near`], { mounts })).text, "Shere");
  assert.equal((await runTool("read_file", [`${grant}/far`], { mounts })).text, "Sthere");
  const alone = await runTool("read_file", [`${grant}/far`], { mounts: [grant] });
  assert.deepEqual([alone.code, alone.text], [1, "S"]);
});

toolTest("write_file keeps the rights of a file, but for those that change the user", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  const call = { mounts: [grant], writable: true, input: "new" };
  for (const [name, mode] of [["open", 0o666], ["program", 0o6777]] as const) {
    Deno.writeTextFileSync(`${grant}/${name}`, "old, and longer");
    Deno.chmodSync(`${grant}/${name}`, mode);
    assert.equal((await runTool("write_file", [`${grant}/${name}`, "3"], call)).code, 0);
    assert.equal(Deno.readTextFileSync(`${grant}/${name}`), "new");
    assert.equal(Deno.statSync(`${grant}/${name}`).mode! & 0o7777, mode & 0o777);
  }
  assert.equal((await runTool("write_file", [`${grant}/fresh`, "3"], call)).code, 0);
  assert.equal(Deno.statSync(`${grant}/fresh`).mode! & 0o7777, 0o644);
});

toolTest("write_file replaces a hard link's name and leaves the file's other names", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  Deno.writeTextFileSync(`${place.path}/outside`, "old");
  Deno.chmodSync(`${place.path}/outside`, 0o666);
  Deno.linkSync(`${place.path}/outside`, `${grant}/inside`);
  const call = { mounts: [grant], writable: true, input: "new" };
  assert.equal((await runTool("write_file", [`${grant}/inside`, "3"], call)).code, 0);
  assert.equal(Deno.readTextFileSync(`${grant}/inside`), "new");
  assert.equal(Deno.readTextFileSync(`${place.path}/outside`), "old");
});

toolTest("write_file where it cannot write says why, and leaves everything as it was", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  Deno.writeTextFileSync(`${grant}/file`, "old");
  Deno.mkdirSync(`${grant}/folder`);
  Deno.mkdirSync(`${grant}/closed`);
  await new Deno.Command("mkfifo", { args: [`${grant}/fifo`] }).output();
  Deno.symlinkSync("/etc/passwd", `${grant}/out`);
  Deno.symlinkSync("file", `${grant}/near`);
  Deno.symlinkSync("/tmp", `${grant}/tmp`);
  const before = namesIn(grant);
  const call = { mounts: [grant], writable: true, input: "new" };
  const words: Record<string, string> = {
    "absent/x": `the directory ${grant}/absent does not exist`,
    "file/x": `${grant}/file is not a directory`,
    "closed/x": `${grant}/closed may not be written`,
    "tmp/x": `${grant}/tmp leads out of what is granted, to /tmp`,
    file: `${grant}/file may not be written`,
    folder: `${grant}/folder is a directory`,
    fifo: `${grant}/fifo is a fifo`,
    out: `${grant}/out is a symbolic link`,
    near: `${grant}/near is a symbolic link`,
    ["n".repeat(256)]: `${grant}/${"n".repeat(256)} could not be written: File name too long`,
  };
  for (const [name, message] of Object.entries(words)) {
    const { code, text, stderr } = await runTool("write_file", [`${grant}/${name}`, "3"], call);
    assert.deepEqual([code, text, stderr], [1, "S", `${message}\n`]);
  }
  const readOnly = await runTool("write_file", [`${grant}/x`, "3"], { ...call, writable: false });
  assert.deepEqual([readOnly.code, readOnly.stderr], [1, `${grant} may not be written\n`]);
  const outside = await runTool("write_file", [`${place.path}/x`, "3"], call);
  assert.deepEqual([outside.code, outside.text], [1, "S"]);
  assert.deepEqual(namesIn(grant), before);
  assert.equal(Deno.readTextFileSync(`${grant}/file`), "old");
});

toolTest("a tool that fails reads its input to the end all the same", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  Deno.chmodSync(place.path, 0o777);
  const link = `${place.path}/link`;
  Deno.symlinkSync("grant", link);
  const input = new Uint8Array(5_000_000);
  const size = String(input.length);
  const call = { writable: true, input };
  const folder = place.directory("grant/folder");
  const failed = await runTool("write_file", [folder, size], { ...call, mounts: [grant] });
  assert.deepEqual([failed.code, failed.stderr], [1, `${folder} is a directory\n`]);
  const refused = await runTool("write_file", [`${link}/x`, size], { ...call, mounts: [link] });
  assert.deepEqual([refused.code, refused.text], [70, ""]);
});

toolTest("write_file writes nothing when its content ends early", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  const path = `${grant}/file`;
  const call = { mounts: [grant], writable: true, input: "12345" };
  const cut = await runTool("write_file", [path, "6"], call);
  assert.equal(cut.code, 1);
  assert.equal(cut.stderr, `${path} was not written: 5 of 6 bytes of its content came\n`);
  assert.deepEqual(namesIn(grant), []);
  assert.equal((await runTool("write_file", [path, "5"], call)).code, 0);
  assert.deepEqual(namesIn(grant), ["file"]);
  assert.equal((await runTool("write_file", [path, "0"], { ...call, input: "" })).code, 0);
  assert.equal(Deno.readTextFileSync(path), "");
});

toolTest("write_file that is killed leaves the old content", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  Deno.writeTextFileSync(`${grant}/file`, "old");
  Deno.chmodSync(`${grant}/file`, 0o666);
  const name = `boxmaker-test-${crypto.randomUUID()}`;
  const ended = runTool("write_file", [`${grant}/file`, "3"], {
    ...{ mounts: [grant], writable: true, input: null },
    podman: [`--name=${name}`],
  });
  await until("the new file", () => namesIn(grant).length === 2);
  await podman("kill", name);
  const { code, text } = await ended;
  assert.deepEqual([code, text], [137, "S"]);
  assert.equal(Deno.readTextFileSync(`${grant}/file`), "old");
  const left = namesIn(grant).filter((name) => name !== "file");
  assert.match(left.join(), /^\.boxmaker-\w{6}$/);
});

toolTest(
  "write_file on a full disk or beyond a limit keeps the old content and leaves nothing",
  async () => {
    using place = new GrantPlace();
    const disk = place.directory("disk");
    const mount = (command: string, ...args: string[]) => {
      const { code, stderr } = new Deno.Command(command, { args }).outputSync();
      assert.equal(code, 0, new TextDecoder().decode(stderr));
    };
    mount("mount", "-t", "tmpfs", "-o", "size=64k,mode=0777", "tmpfs", disk);
    try {
      const grant = place.directory("disk/grant");
      const path = `${grant}/file`;
      const call = { mounts: [grant], writable: true };
      const big = "x".repeat(200_000);
      assert.equal((await runTool("write_file", [path, "3"], { ...call, input: "old" })).code, 0);
      const full = await runTool("write_file", [path, "200000"], { ...call, input: big });
      assert.equal(full.code, 1);
      assert.equal(full.stderr, `${path} could not be written: No space left on device\n`);
      assert.deepEqual(namesIn(grant), ["file"]);
      assert.equal(Deno.readTextFileSync(path), "old");
    } finally {
      mount("umount", disk);
    }
    const grant = place.directory("grant");
    const limited = await runTool("write_file", [`${grant}/file`, "200000"], {
      ...{ mounts: [grant], writable: true, input: "x".repeat(200_000) },
      podman: ["--ulimit=fsize=100000:100000"],
    });
    assert.equal(limited.code, 1);
    assert.equal(limited.stderr, `${grant}/file could not be written: File too large\n`);
    assert.deepEqual(namesIn(grant), []);
  },
);
