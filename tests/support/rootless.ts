/**
 * An ordinary user of the machine, for the length of a test: with subordinate ids, an image of the tools, a
 * copy of the project and a Deno that it may use. Making one takes the superuser. Podman keeps the images
 * and containers of each user apart, so nothing of it stays.
 */
import assert from "node:assert/strict";
import { imageTag } from "../../scripts/support/image.ts";
import { type TestResult, testsIn } from "../../scripts/support/junit.ts";
import { onPath } from "../../scripts/support/podman.ts";
import { PROJECT } from "../../scripts/support/roles.ts";
import { until, within } from "./broker.ts";
import { toolImage } from "./image.ts";

const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** What of the project the tests need. Beside it may lie the owner's own home. */
const PARTS = [
  ...[
    "broker",
    "ctl",
    "docs",
    "fixtures",
    "loop",
    "proto",
    "scripts",
    "tests",
    "deno.json",
    "deno.lock",
  ],
];
/** Where Podman keeps what runs, of a user that has not logged in. */
const RUN_FOLDERS = ["/tmp/podman-run-", "/tmp/containers-user-"];
/**
 * A network of its own, in which everybody may listen on port 443 as the tests' sites do, and the command
 * that follows in it.
 */
const OWN_NETWORK = [
  ...["unshare", "--net", "sh", "-c"],
  'ip link set lo up && echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start && exec "$@"',
  "sh",
] as const;
const decoder = new TextDecoder();

/** Whether such a user can be made here. */
export function canMakeUsers(): boolean {
  const programs = [
    ...["podman", "mmdebstrap", "newuidmap", "newgidmap", "setpriv", "unshare", "ip", "useradd"],
  ];
  return Deno.uid() === 0 && programs.every((name) => onPath(name) !== null);
}

/** Runs `command` as root to its end, which must be a good one. Gives what it printed. */
async function must(program: string, args: readonly string[], what?: string): Promise<string> {
  const command = new Deno.Command(program, { args: [...args], stdin: "null", cwd: "/" });
  const { code, stdout, stderr } = await command.output();
  assert.equal(code, 0, `${what ?? program}: ${decoder.decode(stderr)}`);
  return decoder.decode(stdout);
}

/** How the tests of a file came out that a user ran. */
export interface TestRun {
  readonly code: number;
  readonly tests: readonly TestResult[];
  /** All that it said. */
  readonly output: string;
}

export class OrdinaryUser implements AsyncDisposable {
  readonly name = `boxmaker-test-${Deno.pid}`;
  /** On a disk: not every file system that lies in memory bears what Podman makes. */
  readonly home = Deno.makeTempDirSync({ dir: "/var/tmp", prefix: "boxmaker-user-" });
  uid = NaN;

  private constructor() {}

  /** Makes the user. Dispose of it: then it is gone, with all that it runs and has. */
  static async make(): Promise<OrdinaryUser> {
    const user = new OrdinaryUser();
    try {
      await user.#make();
      return user;
    } catch (error) {
      await user[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #make(): Promise<void> {
    const { name, home } = this;
    await toolImage();
    await must("useradd", ["--no-create-home", `--home-dir=${home}`, "--shell=/bin/sh", name]);
    this.uid = Number(await must("id", ["--user", name]));
    for (const file of ["/etc/subuid", "/etc/subgid"]) {
      assert.match(Deno.readTextFileSync(file), new RegExp(`^${name}:`, "m"), file);
    }
    for (const folder of ["bin", "project", "deno"]) Deno.mkdirSync(`${home}/${folder}`);
    Deno.copyFileSync(Deno.execPath(), `${home}/bin/deno`);
    const parts = PARTS.map((part) => `${PROJECT}/${part}`);
    await must("cp", ["--recursive", ...parts, `${home}/project`]);
    const { npmCache } = JSON.parse(await must(Deno.execPath(), ["info", "--json"]));
    await must("cp", ["--recursive", npmCache, `${home}/deno/npm`]);
    const image = `${home}/image.tar`;
    await must("podman", ["save", "--quiet", `--output=${image}`, imageTag()]);
    await must("chown", ["--recursive", `${name}:`, home]);
    // Podman keeps to the driver that its first command had. Its own choice here, vfs, copies the whole image
    // for each container, which takes seconds.
    const load = ["podman", "load", "--quiet", `--input=${image}`];
    const { code, output } = await this.run(load, { STORAGE_DRIVER: "overlay" });
    assert.equal(code, 0, output);
  }

  /** Runs `command` as the user to its end, in its copy of the project and with `env` alone beside PATH. */
  async run(
    command: readonly string[],
    env: Readonly<Record<string, string>> = {},
    ms = 60_000,
  ): Promise<{ code: number; output: string }> {
    const { name, home } = this;
    const variables = Object.entries({ HOME: home, PATH, ...env });
    const end = new AbortController();
    const [program, ...network] = OWN_NETWORK;
    const child = new Deno.Command(program, {
      args: [
        ...[...network, "setpriv", `--reuid=${name}`, `--regid=${name}`, "--init-groups"],
        ...["env", "--ignore-environment", ...variables.map(([key, value]) => `${key}=${value}`)],
        ...command,
      ],
      cwd: `${home}/project`,
      stdin: "null",
      signal: end.signal,
    }).output();
    try {
      const { code, stdout, stderr } = await within(`end of ${command.join(" ")}`, child, ms);
      return { code, output: decoder.decode(stdout) + decoder.decode(stderr) };
    } finally {
      end.abort();
    }
  }

  /** Runs the tests of `file`, a path in the project, as the user. `ms`: how long they may take together. */
  async test(file: string, ms: number): Promise<TestRun> {
    const { home } = this;
    // One of its own for each file, so that none can pass for another's.
    const report = `${home}/${file.replaceAll("/", "-")}.xml`;
    const flags = ["--no-check", "--frozen", "--cached-only", "--allow-all"];
    const { code, output } = await this.run(
      [`${home}/bin/deno`, "test", ...flags, `--junit-path=${report}`, file],
      { DENO_DIR: `${home}/deno`, NO_COLOR: "1" },
      ms,
    );
    try {
      return { code, output, tests: testsIn(Deno.readTextFileSync(report)) };
    } catch (error) {
      throw new Error(`no report of the tests:\n${output}`, { cause: error });
    }
  }

  /** The ids of the processes that run as the user. */
  #processes(): number[] {
    const own = (pid: string) => {
      try {
        // Not the directory's owner: that is root where a process keeps others from looking into it.
        const status = Deno.readTextFileSync(`/proc/${pid}/status`);
        return Number(/^Uid:\t(\d+)\t/m.exec(status)?.[1]) === this.uid;
      } catch {
        return false;
      }
    };
    return [...Deno.readDirSync("/proc")].map(({ name }) => name)
      .filter((name) => /^\d+$/.test(name) && own(name)).map(Number);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { name, home, uid } = this;
    if (!Number.isNaN(uid)) {
      // Podman leaves a process behind that holds the user's namespace.
      await until(`end of the processes of ${name}`, () => {
        const left = this.#processes();
        for (const pid of left) {
          try {
            Deno.kill(pid, "SIGKILL");
          } catch {
            // it has just ended
          }
        }
        return left.length === 0;
      });
      for (const folder of RUN_FOLDERS) await must("rm", ["-rf", `${folder}${uid}`]);
      await must("userdel", [name]);
    }
    await must("rm", ["-rf", home]);
  }
}
