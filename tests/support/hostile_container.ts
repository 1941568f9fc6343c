/**
 * What a hostile command tries, in one container call for a whole table: each attempt ends with 0 only where
 * it works. The same attempts run in a container without the locks, to show that it is the locks that refuse.
 */
import assert from "node:assert/strict";
import { type Broker, startBroker, TempHome } from "./broker.ts";
import {
  callTool,
  contentOf,
  type Ran,
  runnerHere,
  toolHome,
  type ToolOptions,
} from "./containers.ts";
import { tomlText } from "./grants.ts";
import { GrantPlace, podman } from "./image.ts";

/** One thing to try. */
export interface Attempt {
  /** Bash. It ends with 0 only where what it tries works. */
  readonly command: string;
  /** What is said where it is refused; the end of the last line is enough. */
  readonly refused: RegExp;
  /**
   * What comes of it without the locks: success unless given. Null where that must not be tried, or could not
   * differ; the comment beside it says which.
   */
  readonly unlocked?: RegExp | null;
}

export type Attempts = Readonly<Record<string, Attempt>>;

/** What came of an attempt. */
export interface Tried {
  readonly status: number;
  /** The last line that it said. */
  readonly words: string;
}

/** How a kernel says that it has no such thing, with locks or without. */
const ABSENT = /Function not implemented|No such (file or directory|device)|not supported/;

/** Runs every attempt, one after the other and each for at most five seconds. */
export function scriptOf(attempts: Attempts): string {
  const tries = Object.values(attempts).map(({ command }) => `try ${quoted(command)}`);
  return `try() {
  words=$(timeout -s KILL 5 bash -c "$1" 2>&1 </dev/null | tr -d '\\0' | tail -n 1; exit "\${PIPESTATUS[0]}")
  printf '%s\\n%s\\n' "$?" "$words"
}
${tries.join("\n")}`;
}

/** What `scriptOf(attempts)` printed, by the names of the attempts. */
export function triedIn(stdout: string, attempts: Attempts): Record<string, Tried> {
  const names = Object.keys(attempts);
  const lines = stdout.split("\n");
  assert.equal(lines.length, 2 * names.length + 1, stdout);
  return Object.fromEntries(names.map((name, index) => {
    const [status = "", words = ""] = lines.slice(2 * index, 2 * index + 2);
    return [name, { status: Number(status), words }];
  }));
}

/** Fails with the names of all attempts that were not refused in the way that their table says. */
export function assertRefused(tried: Readonly<Record<string, Tried>>, attempts: Attempts): void {
  const open = Object.entries(attempts).filter(([name, { refused }]) => {
    const { status = 0, words = "" } = tried[name] ?? {};
    return status === 0 || !refused.test(words);
  });
  assert.deepEqual(open.map(([name]) => [name, tried[name]]), []);
}

/**
 * Fails with the names of all attempts that did not work without the locks, but for what this kernel does not
 * have. At least `atLeast` must have worked.
 */
export function assertWorked(
  tried: Readonly<Record<string, Tried>>,
  attempts: Attempts,
  atLeast: number,
): void {
  const worked = ([name, { unlocked }]: [string, Attempt]) => {
    const { status = 1, words = "" } = tried[name] ?? {};
    return unlocked ? unlocked.test(words) : status === 0;
  };
  const failed = Object.entries(attempts).filter((entry) => !worked(entry));
  const odd = failed.filter(([name]) => !ABSENT.test(tried[name]?.words ?? ""));
  assert.deepEqual(odd.map(([name]) => [name, tried[name]]), []);
  const works = Object.keys(attempts).length - failed.length;
  assert(works >= atLeast, `only ${works} worked`);
}

/** The attempts that may be tried without locks. */
export function triableUnlocked(attempts: Attempts): Attempts {
  return Object.fromEntries(
    Object.entries(attempts).filter(([, { unlocked }]) => unlocked !== null),
  );
}

/**
 * Runs `script` as root in a container of the tools' image without any lock, in the machine's own name spaces
 * but that of mounts, with `directory` mounted at itself. Gives its stdout.
 */
export async function runUnlocked(script: string, directory: string): Promise<string> {
  const { image } = await runnerHere();
  return await podman(
    ...["run", "--rm", "--privileged", "--user=0:0", "--network=host", "--pid=host", "--ipc=host"],
    ...["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096", "--workdir", directory],
    ...["--mount", `type=bind,source=${directory},destination=${directory}`],
    ...[image, "bash", "-c", script],
  );
}

/** The numbers of system calls where the test runs, of those that programs of the image do not make. */
const CALLS = {
  x86_64: {
    ...{ socket: 41, ptrace: 101, mknod: 259, mount: 165, umount: 166, pivot_root: 155 },
    ...{ chroot: 161, unshare: 272, setns: 308, syslog: 103, reboot: 169, swapon: 167 },
    ...{ settimeofday: 164, sethostname: 170, acct: 163, quotactl: 179, init_module: 175 },
    ...{ finit_module: 313, kexec_load: 246, add_key: 248, request_key: 249, keyctl: 250 },
    ...{ move_pages: 279, process_vm_readv: 310, perf_event_open: 298, bpf: 321 },
    ...{ userfaultfd: 323, open_by_handle_at: 304, fanotify_init: 300, personality: 135 },
  },
  aarch64: {
    ...{ socket: 198, ptrace: 117, mknod: 33, mount: 40, umount: 39, pivot_root: 41 },
    ...{ chroot: 51, unshare: 97, setns: 268, syslog: 116, reboot: 142, swapon: 224 },
    ...{ settimeofday: 170, sethostname: 161, acct: 89, quotactl: 60, init_module: 105 },
    ...{ finit_module: 273, kexec_load: 104, add_key: 217, request_key: 218, keyctl: 219 },
    ...{ move_pages: 239, process_vm_readv: 270, perf_event_open: 241, bpf: 280 },
    ...{ userfaultfd: 282, open_by_handle_at: 265, fanotify_init: 262, personality: 92 },
  },
}[Deno.build.arch];
/** Those that have the same number everywhere. */
const NEW_CALLS = { io_uring_setup: 425, open_tree: 428, fsopen: 430, clone3: 435 };

/**
 * A command that makes the system call `name`, and ends with 0 where that does. Texts must not hold a single
 * quotation mark.
 */
export function systemCall(
  name: keyof typeof CALLS | keyof typeof NEW_CALLS,
  ...args: readonly (number | string)[]
): string {
  const number = { ...CALLS, ...NEW_CALLS }[name];
  const words = args.map((arg) => typeof arg === "number" ? String(arg) : JSON.stringify(arg));
  const names = words.map((_, index) => `, $a[${index}]`).join("");
  return `perl -e 'my @a = (${words}); syscall(${number}${names}) >= 0 or die "$!\\n"'`;
}

/** `text` as one word of a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The processes of the machine that have `mark` in their command line or environment. */
export function processesWith(mark: string): number[] {
  const bytes = new TextEncoder().encode(mark);
  return [...Deno.readDirSync("/proc")].map(({ name }) => Number(name)).filter((pid) =>
    Number.isInteger(pid) && pid !== Deno.pid &&
    ["cmdline", "environ"].some((file) => holds(`/proc/${pid}/${file}`, bytes))
  );
}

function holds(file: string, wanted: Uint8Array): boolean {
  try {
    return new TextDecoder("latin1").decode(Deno.readFileSync(file))
      .includes(new TextDecoder("latin1").decode(wanted));
  } catch {
    // The process has ended.
    return false;
  }
}

/** A brokerd with a grant of `shell`, one of `read_file` and one of `write_file` for one directory. */
export class HostileWorld implements AsyncDisposable {
  /** A word that is in brokerd's environment, and nowhere else. */
  readonly mark = `mark-${crypto.randomUUID()}`;
  /** What the secret file holds. */
  readonly secret = `secret-${crypto.randomUUID()}`;
  readonly place = new GrantPlace();
  /** The granted directory. */
  readonly directory = this.place.directory("granted");
  /** A directory beside it that is not granted, and a file in it that everybody may read. */
  readonly outside = this.place.directory("outside");
  readonly secretFile = `${this.outside}/secret`;
  readonly home: TempHome;
  #broker: Broker | undefined;

  private constructor(home: TempHome) {
    this.home = home;
    Deno.writeTextFileSync(this.secretFile, this.secret);
    const paths = `mode = "auto"\n[constraints]\npaths = [${tomlText(this.directory)}]\n`;
    for (const tool of ["shell", "read_file", "write_file"]) {
      home.grant(tool.replace("_", "-"), `tool = "${tool}"\n${paths}`);
    }
  }

  static async start(options: ToolOptions = {}): Promise<HostileWorld> {
    const world = new HostileWorld(await toolHome(options));
    try {
      world.#broker = await startBroker(world.home, { env: { BOXMAKER_MARK: world.mark } });
      return world;
    } catch (error) {
      await world[Symbol.asyncDispose]();
      throw error;
    }
  }

  get broker(): Broker {
    assert(this.#broker !== undefined);
    return this.#broker;
  }

  /** Runs `command` in the granted directory; it must give a result. */
  async run(command: string): Promise<Ran> {
    const args = { command, cwd: this.directory };
    return JSON.parse(await contentOf(this.home, "shell", args));
  }

  /** What came of each of `attempts` in one call. */
  async tries(attempts: Attempts): Promise<Record<string, Tried>> {
    const { stdout } = await this.run(scriptOf(attempts));
    return triedIn(stdout, attempts);
  }

  /** The same without the locks. */
  async triesUnlocked(attempts: Attempts): Promise<Record<string, Tried>> {
    return triedIn(await runUnlocked(scriptOf(attempts), this.directory), attempts);
  }

  /** Why a call of `tool` on the path failed. */
  async failure(tool: "read_file" | "write_file", path: string): Promise<string> {
    const args = tool === "read_file" ? { path } : { path, content: "changed\n" };
    const answer = await callTool(this.home, tool, args);
    assert(answer.status === "failed", JSON.stringify(answer));
    return answer.message;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#broker?.[Symbol.asyncDispose]();
    this.home[Symbol.dispose]();
    this.place[Symbol.dispose]();
  }
}
