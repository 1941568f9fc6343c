/** The image of the tools as a whole: what is in it, what is not, and the tools one after the other. */
import assert from "node:assert/strict";
import { TOOLS } from "../../scripts/support/image.ts";
import { GrantPlace, runInImage, runTool } from "../support/image.ts";
import { toolTest } from "../support/containers.ts";

/** What `script` prints in the image, run as the container's user, or as root with the rights to look. */
async function printed(script: string, { root = false } = {}): Promise<string> {
  const podman = root ? ["--user=0:0", "--cap-add=DAC_READ_SEARCH"] : [];
  const { code, text, stderr } = await runInImage(["/bin/bash", "-c", script], { podman });
  assert.equal(code, 0, stderr);
  return text;
}

toolTest(
  "the tools belong to root, with their rights, and nobody else may write anything",
  async () => {
    const listing = await printed(
      "cd /usr/lib/boxmaker; stat --format='%U %a %n' *; stat --format='%U %a' .",
    );
    assert.deepEqual(
      listing.trim().split("\n").sort(),
      [
        "root 755",
        ...Object.entries({ ...TOOLS, recipe: "0644" }).map(([name, mode]) =>
          `root ${mode.slice(1)} ${name}`
        ),
      ].sort(),
    );
    const writable = "find / -xdev \\( -perm -0002 -o -user 65534 \\) ! -type l ! -path '/tmp*'";
    assert.equal(await printed(`${writable} ! -perm -1000`, { root: true }), "");
  },
);

toolTest("no file raises rights, and none is a device", async () => {
  assert.equal(await printed("find / -xdev -type f -perm /6000", { root: true }), "");
  assert.equal(await printed("find / -xdev \\( -type b -o -type c \\)", { root: true }), "");
  // The same search finds one that is made.
  const made = "cp /bin/true /tmp/x; chmod u+s /tmp/x; find /tmp -xdev -type f -perm /6000";
  assert.equal(await printed(made), "/tmp/x\n");
});

toolTest("a shell's usual programs are there, and no compiler", async () => {
  const there =
    "awk bash bzip2 cat curl cut diff find grep gzip head jq ls patch ps sed sort tail tar tr " +
    "uniq unzip wc xargs xz";
  assert.equal(
    await printed(`for x in ${there}; do command -v $x >/dev/null || echo $x; done`),
    "",
  );
  assert.equal(await printed("for x in cc gcc python3 apt sudo; do command -v $x; done; true"), "");
  assert.match(await printed("grep -c BEGIN /etc/ssl/certs/ca-certificates.crt"), /^\d{2,3}\n$/);
});

toolTest("the mount points under /run are there, empty", async () => {
  assert.equal(
    await printed("ls -A /run/boxmaker; stat -c %F%s /run/boxmaker-ca.pem"),
    [
      "regular empty file0\n",
    ].join(),
  );
});

toolTest("in a tool's container only /tmp and what is granted can be written", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  const script =
    `for d in / /etc /run /run/boxmaker /usr/lib/boxmaker /var/tmp /home /tmp "$PWD"; do
    touch "$d/x" 2>/dev/null && echo "$d"; done; true`;
  const call = { mounts: [grant] };
  const closed = await runTool("shell", [grant, script], call);
  assert.equal(closed.text, "SC/tmp\n");
  const open = await runTool("shell", [grant, script], { ...call, writable: true });
  assert.equal(open.text, `SC/tmp\n${grant}\n`);
});

toolTest("what one call writes the next one runs and the next one reads", async () => {
  using place = new GrantPlace();
  const grant = place.directory("grant");
  const call = { mounts: [grant], writable: true };
  const words = "b\na\n";
  const written = await runTool("write_file", [`${grant}/words`, "4"], { ...call, input: words });
  assert.deepEqual([written.code, written.text], [0, "S"]);
  const sorted = await runTool("shell", [grant, "sort words > sorted; wc -l < sorted"], call);
  assert.deepEqual([sorted.code, sorted.text], [0, "SC2\n"]);
  const read = await runTool("read_file", [`${grant}/sorted`], { mounts: [grant] });
  assert.deepEqual([read.code, read.text], [0, "Sa\nb\n"]);
});
