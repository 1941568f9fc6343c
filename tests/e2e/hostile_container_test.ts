/**
 * A command in a container tries what is publicly known to get out of such runners, by the kernel's files,
 * devices, name spaces and system calls. Each attempt is refused, and the same attempts work in a container
 * without the locks, as far as this kernel has what they are about.
 */
import assert from "node:assert/strict";
import { toolTest } from "../support/containers.ts";
import { IS_ROOT } from "../support/hostile.ts";
import {
  assertRefused,
  assertWorked,
  type Attempt,
  type Attempts,
  HostileWorld,
  quoted,
  systemCall,
  triableUnlocked,
} from "../support/hostile_container.ts";

const REFUSED = /(Operation not permitted|Permission denied|Function not implemented)$/;
const READ_ONLY = /(Read-only file system|Permission denied|No such file or directory)$/;
const NOT_THERE = /No such (file or directory|process)$/;
const SILENT = /^$/;

/** Opens `path` for writing, and writes nothing. */
const opens = (path: string, refused = READ_ONLY): Attempt => ({ command: `: >>${path}`, refused });
/** Reads at least one byte of `path` that is not NUL. */
const shows = (path: string, refused: RegExp): Attempt => ({
  command: `[ -n "$(head -c 4096 ${path} | tr -d '\\0')" ]`,
  refused,
});
const calls = (...call: Parameters<typeof systemCall>): Attempt => ({
  command: systemCall(...call),
  refused: REFUSED,
});

/** Flags of mount(2) and unshare(2). */
const MS = { remount: 32, bind: 4096 };
const NEW = { mounts: 0x00020000, users: 0x10000000, network: 0x40000000, processes: 0x20000000 };
const AT_FDCWD = -100;

const kernelFiles: Attempts = {
  "proc: sysrq-trigger, which restarts the machine": opens("/proc/sysrq-trigger"),
  "proc: core_pattern, which runs a program of the host": opens("/proc/sys/kernel/core_pattern"),
  "proc: modprobe, which runs a program of the host": opens("/proc/sys/kernel/modprobe"),
  "proc: hostname of the machine": opens("/proc/sys/kernel/hostname"),
  "proc: forwarding of packets": opens("/proc/sys/net/ipv4/ip_forward"),
  "proc: how much memory may be promised": opens("/proc/sys/vm/overcommit_memory"),
  "proc: formats of programs (binfmt_misc)": opens("/proc/sys/fs/binfmt_misc/register"),
  "proc: the memory of the kernel (kcore)": shows("/proc/kcore", NOT_THERE),
  "proc: the keys of all (keys)": shows("/proc/keys", SILENT),
  "proc: addresses in the kernel (kallsyms)": {
    command: "grep -qvE '^0+ ' /proc/kallsyms",
    refused: SILENT,
  },
  "sys: a setting of the kernel": opens("/sys/kernel/rcu_expedited"),
  "sys: huge pages": opens("/sys/kernel/mm/transparent_hugepage/enabled"),
  "sys: the tables of the firmware": {
    command: "find /sys/firmware -mindepth 1 | grep -q .",
    refused: SILENT,
  },
  "cgroups: another group for the own processes": {
    command: ': >>"$(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs | head -n 1)"',
    refused: READ_ONLY,
  },
  "cgroups: a larger limit of the own memory": {
    command:
      ': >>"$(find /sys/fs/cgroup -maxdepth 2 -name memory.limit_in_bytes -o -maxdepth 2 -name memory.max | head -n 1)"',
    refused: READ_ONLY,
  },
  "cgroups: a larger limit of the own processes": {
    command: ': >>"$(find /sys/fs/cgroup -maxdepth 2 -name pids.max | head -n 1)"',
    refused: READ_ONLY,
  },
  "cgroups: a group of one's own": {
    command:
      'mkdir "$(find /sys/fs/cgroup -maxdepth 2 -name cgroup.procs -printf "%h/boxmaker-try\\n" | head -n 1)"',
    refused: READ_ONLY,
    // It would outlive the container.
    unlocked: null,
  },
  "cgroups: CVE-2022-0492, release_agent by a mount of one's own": {
    command: systemCall("mount", "none", "/mnt", "cgroup", 0, "memory"),
    refused: REFUSED,
    unlocked: /^$|busy/,
  },
  "dev: the memory of the machine": { command: ": </dev/mem", refused: NOT_THERE },
  "dev: the log of the kernel": { command: ": </dev/kmsg", refused: NOT_THERE },
  "dev: file systems of one's own (fuse)": { command: ": </dev/fuse", refused: NOT_THERE },
  "dev: a disk": { command: "find /dev -type b | grep -q .", refused: SILENT },
  "dev: a device node of one's own, of a disk": {
    command: "mknod /tmp/disk b 254 0",
    refused: REFUSED,
  },
  "dev: a device node in the granted directory": {
    command: "mknod memory c 1 1",
    refused: REFUSED,
  },
  "the terminal of the operator": {
    command: ": >/dev/tty",
    refused: /No such device or address$/,
    // That container has no terminal either.
    unlocked: null,
  },
};

const systemCalls: Attempts = {
  "mount: a file system of one's own": calls("mount", "none", "/mnt", "tmpfs", 0, 0),
  "mount: the image writable": calls("mount", "none", "/usr", "none", MS.bind, 0),
  "mount: what hides a file of proc away": {
    ...calls("umount", "/proc/keys", 0),
    // Nothing is hidden there.
    unlocked: /Invalid argument$/,
  },
  "mount: a tree by its handle (open_tree)": calls("open_tree", AT_FDCWD, "/", 1),
  "mount: the new way (fsopen)": calls("fsopen", "tmpfs", 0),
  "pivot_root": { ...calls("pivot_root", "/tmp", "/tmp"), unlocked: /Invalid argument$|busy$/ },
  "chroot": calls("chroot", "/tmp"),
  "unshare: a user name space, with all capabilities in it": calls("unshare", NEW.users),
  "unshare: user and mounts at once": calls("unshare", NEW.users | NEW.mounts),
  "unshare: user and network at once, to reach the packet filter": calls(
    "unshare",
    NEW.users | NEW.network,
  ),
  "unshare: mounts": calls("unshare", NEW.mounts),
  "unshare: processes": calls("unshare", NEW.processes),
  "unshare: by the program, as root inside": { command: "unshare -Ur true", refused: REFUSED },
  "clone: a user name space for a child": {
    // SIGCHLD is 17. The child ends at once.
    command: `perl -e 'my $pid = syscall(${
      Deno.build.arch === "x86_64" ? 56 : 220
    }, ${NEW.users} | 17, 0, 0, 0, 0); exit 0 if $pid > 0; exit 1 if $pid == 0; die "$!\\n"'`,
    refused: REFUSED,
  },
  "clone3: whose flags no filter sees": {
    ...calls("clone3", 0, 0),
    refused: /Function not implemented$/,
    unlocked: /Invalid argument$/,
  },
  "setns": { ...calls("setns", -1, 0), unlocked: /Bad file descriptor$/ },
  "bpf": { ...calls("bpf", 0, 0, 0), unlocked: /Invalid argument$|Argument list too long$/ },
  "perf_event_open": { ...calls("perf_event_open", 0, 0, -1, -1, 0), unlocked: /Bad address$/ },
  "io_uring_setup": {
    ...calls("io_uring_setup", 0, 0),
    refused: /(Operation not permitted|Function not implemented)$/,
    unlocked: /Bad address$|Invalid argument$/,
  },
  "userfaultfd": calls("userfaultfd", 0),
  "fanotify_init": calls("fanotify_init", 0, 0),
  "open_by_handle_at, with which a container read the host's files in 2014": {
    ...calls("open_by_handle_at", AT_FDCWD, 0, 0),
    unlocked: /Bad address$/,
  },
  "keyctl: a ring of keys that other calls see": calls("keyctl", 1, "boxmaker-test"),
  "add_key": {
    ...calls("add_key", "user", "boxmaker-test", "x", 1, -2),
    refused: /(Operation not permitted|Function not implemented)$/,
  },
  "request_key": {
    ...calls("request_key", "user", "boxmaker-none", 0, 0),
    refused: /(Operation not permitted|Function not implemented)$/,
    unlocked: /key not available$/,
  },
  "syslog: the log of the kernel": calls("syslog", 10, 0, 0),
  "init_module": { ...calls("init_module", 0, 0, ""), unlocked: /Exec format error$|Bad address$/ },
  "finit_module": { ...calls("finit_module", -1, "", 0), unlocked: /Bad file descriptor$/ },
  // Without segments it would take a loaded kernel away.
  "kexec_load": { ...calls("kexec_load", 0, 0, 0, 0), unlocked: null },
  "reboot": { ...calls("reboot", 0, 0, 0, 0), unlocked: /Invalid argument$/ },
  "swapon": { ...calls("swapon", "/none", 0), unlocked: NOT_THERE },
  "acct": { ...calls("acct", "/none"), unlocked: NOT_THERE },
  "quotactl": { ...calls("quotactl", 0, "/none", 0, 0), unlocked: NOT_THERE },
  "settimeofday": calls("settimeofday", 0, 0),
  "sethostname": calls("sethostname", "other", 5),
  "socket: packets of the network": calls("socket", 17, 3, 0),
  "socket: raw IP": calls("socket", 2, 3, 1),
  "socket: vsock, which leads from a virtual machine to its host": {
    ...calls("socket", 40, 1, 0),
    refused: /(Function not implemented|Address family not supported by protocol)$/,
  },
  "personality: memory at known addresses": {
    ...calls("personality", 0x0040000),
    refused: /(Operation not permitted|Function not implemented)$/,
  },
  // The machine's own root may lack the right to do these three.
  "the choice of what is killed when memory is short": {
    command: "echo -1000 >/proc/self/oom_score_adj",
    refused: REFUSED,
    unlocked: null,
  },
  "limits: more open files": { command: "ulimit -Hn 4096", refused: REFUSED, unlocked: null },
  "limits: more processes": { command: "ulimit -Hu 8192", refused: REFUSED, unlocked: null },
};

/** What is of the host, by names that only the test knows. */
const hostThings = ({ broker: { pid }, mark, secret, secretFile }: HostileWorld): Attempts => ({
  "a process of the host: its environment": {
    command: `grep -q ${mark} /proc/${pid}/environ`,
    refused: NOT_THERE,
  },
  "a process of the host: its root": {
    command: `cat /proc/1/root${secretFile} /proc/${pid}/root${secretFile} | grep -q ${secret}`,
    refused: NOT_THERE,
  },
  "a process of the host: a signal": { command: `kill -0 ${pid}`, refused: NOT_THERE },
  "a process of the host: ptrace": {
    command: systemCall("ptrace", 16902, pid, 0, 0),
    refused: /(No such process|Function not implemented)$/,
  },
  "a process of the host: its memory": { command: `: </proc/${pid}/mem`, refused: NOT_THERE },
  "a process of the host: its name spaces": {
    command: `nsenter --target ${pid} --net true`,
    refused: NOT_THERE,
  },
});

toolTest("a hostile container: files of the kernel and devices", async () => {
  await using world = await HostileWorld.start();
  assertRefused(await world.tries(kernelFiles), kernelFiles);
});

toolTest("a hostile container: system calls that reach beyond it", async () => {
  await using world = await HostileWorld.start();
  assertRefused(await world.tries(systemCalls), systemCalls);
});

toolTest("a hostile container: processes of the host", async () => {
  await using world = await HostileWorld.start();
  const things = hostThings(world);
  assertRefused(await world.tries(things), things);
});

toolTest("what a hostile container may not do, ordinary programs do not need", async () => {
  await using world = await HostileWorld.start();
  const programs = [
    "seq 100000 >numbers && gzip -k numbers && zcat numbers.gz | cmp - numbers",
    "xz -k -T2 numbers && bzip2 -k numbers && tar cf all.tar numbers.* && tar tf all.tar",
    "find /usr -name 'lib*' | sort | uniq | wc -l",
    "perl -e 'for (1..20) { my $pid = fork; exit 0 if $pid == 0; waitpid $pid, 0; die if $? }'",
    `perl -MSocket -e 'socketpair(my $a, my $b, AF_UNIX, SOCK_STREAM, 0) or die;
       socket(my $s, PF_INET, SOCK_STREAM, 0) or die; bind($s, sockaddr_in(0, INADDR_LOOPBACK)) or die;
       listen($s, 1) or die; connect($a, getsockname $s) and die'`,
    "jq -n '[range(1000)] | add' && ps -e && free && uname -a && date && id",
    "mkdir -p a/b && cp -a numbers a/b && mv a/b c && ln -s c d && chmod 600 d/numbers && rm -r a c d",
    "flock numbers true && timeout 1 true && nice true && setsid --wait true && nproc",
    "getent passwd nobody && mktemp && df . && stat numbers && sync numbers && truncate -s 3 numbers",
    "bash -c 'trap \"exit 0\" USR1; kill -USR1 $$; exit 1' && (sleep 0.1 & wait)",
  ];
  const { stdout } = await world.run(
    programs.map((program) => `bash -c ${quoted(program)} >out 2>&1 || cat out`).join("\n"),
  );
  assert.equal(stdout, "");
});

Deno.test({
  name: "what a hostile container tries works without the locks",
  // Only root may start a container without locks.
  ignore: !IS_ROOT,
  async fn() {
    await using world = await HostileWorld.start();
    const all = triableUnlocked({ ...kernelFiles, ...systemCalls, ...hostThings(world) });
    assertWorked(await world.triesUnlocked(all), all, 40);
  },
});
