/** The command lines of Podman (specification 7 and 13): one whole list for each tool, and what is refused. */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { mountProblem, podmanArgs, type RunnerSettings } from "../../broker/podman/args.ts";
import { fromUtf8 } from "../../proto/text.ts";
import type { GrantFields } from "../support/grants.ts";
import { specFor } from "../support/specs.ts";

function pure(name: string, fn: () => void | Promise<void>): void {
  Deno.test({ name, permissions: "none", fn });
}

const IMAGE = `sha256:${"a1".repeat(32)}`;
const SETTINGS: RunnerSettings = {
  podman: "/usr/bin/podman",
  ociRuntime: "runc",
  image: IMAGE,
  user: "65534:65534",
  memoryMb: 512,
  processes: 128,
  timeoutMs: 60_000,
  outputBytes: 262_144,
  parallel: 4,
};
const PLACE = {
  name: "boxmaker-1",
  label: "0123456789abcdef",
  asRoot: true,
  proxyDirectory: null,
  caFile: null,
  seccomp: "/h/broker/seccomp.json",
};

/** What stands before the mounts, of every tool. `mounts`: the paths as the tool is told them. */
const before = (mounts: string) => [
  ...["--log-level=error", "--runtime=runc", "run", "--rm", "--pull=never", "--interactive"],
  ...["--log-driver=none", "--name=boxmaker-1", "--label=boxmaker=0123456789abcdef"],
  ...["--network=none", "--no-hosts", "--http-proxy=false", "--read-only"],
  ...["--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges"],
  ...["--security-opt=label=disable", "--security-opt=seccomp=/h/broker/seccomp.json"],
  ...["--user=65534:65534", "--memory=512m"],
  ...["--memory-swap=512m", "--pids-limit=128", "--ulimit=core=0:0"],
  ...["--ulimit=data=536870912:536870912", "--ulimit=fsize=268435456:268435456"],
  ...["--ulimit=nofile=1024:1024", "--ulimit=nproc=512:512", "--timeout=70"],
  ...["--env=LC_ALL=C.UTF-8", "--env=HOME=/tmp", "--env=BOXMAKER_LIMIT=262144"],
  ...["--env=BOXMAKER_SECONDS=60", `--env=BOXMAKER_MOUNTS=${mounts}`],
];
const TMP = "--tmpfs=/tmp:rw,nosuid,nodev,mode=1777,size=64m";
const bind = (path: string, readOnly: boolean) =>
  `--mount=type=bind,source=${path},destination=${path},ro=${readOnly},nosuid,nodev,bind-propagation=private`;

interface Row {
  readonly grant: GrantFields;
  readonly args: Readonly<Record<string, string>>;
  readonly wanted: readonly string[];
  readonly input?: string;
  readonly proxy?: string;
}

const TABLE: Readonly<Record<string, Row>> = {
  "read_file: the granted path, read-only": {
    grant: { tool: "read_file", constraints: { paths: ["/n", "/m"] } },
    args: { path: "/n/a b.md" },
    wanted: [
      ...[...before("/n"), TMP, bind("/n", true), IMAGE, "/usr/lib/boxmaker/tool"],
      ...["read_file", "/n/a b.md"],
    ],
  },
  "write_file: the granted path, writable, and the content to read": {
    grant: { tool: "write_file", constraints: { paths: ["/n"] } },
    args: { path: "/n/a", content: "zwölf\n" },
    wanted: [
      ...[...before("/n"), TMP, bind("/n", false), IMAGE, "/usr/lib/boxmaker/tool"],
      ...["write_file", "/n/a", "7"],
    ],
    input: "zwölf\n",
  },
  "shell: every path of the grant, writable": {
    grant: { tool: "shell", constraints: { paths: ["/n", "/m"] } },
    args: { command: "ls; --rm", cwd: "/m/x" },
    wanted: [
      ...[...before("/n\n/m"), TMP, bind("/n", false), bind("/m", false), IMAGE],
      ...["/usr/lib/boxmaker/tool", "shell", "/m/x", "ls; --rm"],
    ],
  },
  "shell without paths: nothing of the machine": {
    grant: { tool: "shell" },
    args: { command: "ls" },
    wanted: [...before(""), TMP, IMAGE, "/usr/lib/boxmaker/tool", "shell", "", "ls"],
  },
  "shell in /tmp of the machine: no other /tmp": {
    grant: { tool: "shell", constraints: { paths: ["/tmp"] } },
    args: { command: "ls", cwd: "/tmp" },
    wanted: [
      ...[...before("/tmp"), bind("/tmp", false), IMAGE, "/usr/lib/boxmaker/tool"],
      ...["shell", "/tmp", "ls"],
    ],
  },
  "http_fetch: the proxy's directory, and no network still": {
    grant: { tool: "http_fetch", constraints: { hosts: ["a.example"] } },
    args: { url: "https://a.example/--x" },
    wanted: [
      ...[...before(""), TMP],
      "--mount=type=bind,source=/b/egress/1,destination=/run/boxmaker,ro=true,nosuid,nodev,bind-propagation=private",
      ...[IMAGE, "/usr/lib/boxmaker/tool", "http_fetch", "https://a.example/--x"],
    ],
    proxy: "/b/egress/1",
  },
};

for (const [what, { grant, args, wanted, input = "", proxy = null }] of Object.entries(TABLE)) {
  pure(`the whole command line for ${what}`, async () => {
    const spec = await specFor(grant, args);
    const command = podmanArgs(SETTINGS, spec, { ...PLACE, proxyDirectory: proxy });
    assert(command.ok);
    assert.deepEqual(command.args, wanted);
    assert.equal(fromUtf8(command.input), input);
  });
}

pure(
  "an ordinary user stays itself inside, and Podman chooses the OCI runtime unless told",
  async () => {
    const spec = await specFor({ tool: "shell" }, { command: "ls" });
    const command = podmanArgs({ ...SETTINGS, ociRuntime: null }, spec, {
      ...PLACE,
      asRoot: false,
    });
    assert(command.ok);
    assert.deepEqual(command.args.slice(0, 2), ["--log-level=error", "run"]);
    assert(command.args.includes("--userns=keep-id"));
    assert(!command.args.some((word) => word.startsWith("--user=")));
  },
);

pure("certificates of the owner's own come to http_fetch and to no other tool", async () => {
  const place = { ...PLACE, caFile: "/etc/ca.pem" };
  const page = await specFor({ tool: "http_fetch", constraints: { hosts: ["a.example"] } }, {
    url: "https://a.example",
  });
  const fetching = podmanArgs(SETTINGS, page, { ...place, proxyDirectory: "/b/egress/1" });
  assert(fetching.ok);
  assert(fetching.args.includes("--env=BOXMAKER_CA=/run/boxmaker-ca.pem"));
  assert(
    fetching.args.some((word) =>
      word.includes("source=/etc/ca.pem,destination=/run/boxmaker-ca.pem,ro=true")
    ),
  );
  const running = podmanArgs(SETTINGS, await specFor({ tool: "shell" }, { command: "ls" }), place);
  assert(running.ok && !running.args.some((word) => word.includes("ca.pem")));
});

pure("a command that no program can be handed is refused, and the longest one is not", async () => {
  const given = async (command: string) =>
    podmanArgs(SETTINGS, await specFor({ tool: "shell" }, { command }), PLACE);
  assert.deepEqual(await given("a\0b"), {
    ok: false,
    problem: "a command cannot hold the character NUL",
  });
  const longest = "x".repeat(131_071);
  assert((await given(longest)).ok);
  assert.deepEqual(await given(`${longest}x`), {
    ok: false,
    problem: "a command holds at most 131071 bytes",
  });
});

/** Paths and the word of what is wrong with mounting them; null: nothing. */
const MOUNTS: readonly (readonly [path: string, wrong: RegExp | null])[] = [
  ["/n:ro", null],
  ["/a b", null],
  ["/a=b", null],
  ["/a\\b", null],
  ["/-v", null],
  ["/$HOME/*?", null],
  ["/ä", null],
  ["/home/k/usr", null],
  ["/usr/local", null],
  ["/usr/share/doc", null],
  ["/tmp/x", null],
  ["/run/user/1000", null],
  ["/etc", null],
  ["/librarian", null],
  ["/a,b", /comma/],
  ["/a,ro=false", /comma/],
  ['/a"b', /quotation mark/],
  ["/a\nb", /control character/],
  ["/a\x7f", /control character/],
  ["/", /the tools need \/bin of their own/],
  ["/usr", /the tools need \/usr\/bin of their own/],
  ["/usr/lib/x", /\/usr\/lib /],
  ["/bin", /\/bin /],
  ["/proc", /\/proc /],
  ["/proc/1", /\/proc /],
  ["/sys/fs", /\/sys /],
  ["/dev/shm", /\/dev /],
  ["/run", /\/run\/boxmaker /],
  ["/run/boxmaker", /\/run\/boxmaker /],
];

pure("a path mounts exactly itself or not at all", async () => {
  for (const [path, wrong] of MOUNTS) {
    const problem = mountProblem(path);
    if (wrong === null) assert.equal(problem, null, path);
    else assert.match(problem ?? "", wrong, path);
    const spec = await specFor({ tool: "read_file", constraints: { paths: [path] } }, {
      path: path === "/" ? "/x" : `${path}/x`,
    });
    assert.equal(podmanArgs(SETTINGS, spec, PLACE).ok, wrong === null, path);
  }
});

pure("whatever a path is, its mount has seven fields, and two of them are the path", async () => {
  const path = fc.string({ unit: "grapheme", minLength: 1, maxLength: 30 })
    .map((text) => `/${text.replaceAll(/[/\0]/g, "x").replace(/^\.{1,2}$/, "x")}`);
  await fc.assert(fc.asyncProperty(path, async (path) => {
    const spec = await specFor({ tool: "read_file", constraints: { paths: [path] } }, {
      path: `${path}/f`,
    });
    const command = podmanArgs(SETTINGS, spec, PLACE);
    if (!command.ok) return;
    const [mount, ...more] = command.args.filter((word) => word.startsWith("--mount="));
    assert.deepEqual(more, []);
    assert.deepEqual(mount?.slice("--mount=".length).split(","), [
      ...["type=bind", `source=${path}`, `destination=${path}`, "ro=true"],
      ...["nosuid", "nodev", "bind-propagation=private"],
    ]);
  }));
});
