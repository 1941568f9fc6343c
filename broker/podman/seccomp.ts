/**
 * The system calls that a container may make (specification 13). Podman's own list lets a command make user
 * name spaces, in which it has all capabilities, keep data in the kernel's keyrings for later calls, and open
 * vsock sockets, which no network name space holds. This one is Podman's without these, and without what only
 * a process with capabilities could use. Pure.
 */

/** What programs are made of. What is not here fails as if the kernel did not have it. */
const CALLS = `
  accept accept4 access alarm arch_prctl bind brk capget capset chdir chmod chown clock_getres
  clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3
  epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve
  execveat exit exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchown
  fchownat fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstatfs
  fsync ftruncate futex futimesat get_mempolicy get_robust_list get_thread_area getcpu getcwd
  getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp
  getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname
  getsockopt gettid gettimeofday getuid getxattr inotify_add_watch inotify_init inotify_init1
  inotify_rm_watch io_cancel io_destroy io_getevents io_setup io_submit ioctl ioprio_get
  ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown
  lgetxattr link linkat listen listxattr llistxattr lremovexattr lseek lsetxattr lstat madvise
  mbind membarrier memfd_create mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap
  mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap msgctl
  msgget msgrcv msgsnd msync munlock munlockall munmap nanosleep newfstatat open openat openat2
  pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll
  prctl pread64 preadv preadv2 prlimit64 process_mrelease pselect6 pwrite64 pwritev pwritev2 read
  readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages removexattr
  rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask
  rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo
  sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
  sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam
  sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop sendfile sendmmsg
  sendmsg sendto set_mempolicy set_robust_list set_thread_area set_tid_address setfsgid setfsuid
  setgid setgroups setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit
  setsid setsockopt setuid setxattr shmat shmctl shmdt shmget shutdown sigaltstack signalfd
  signalfd4 socketpair splice stat statfs statx symlink symlinkat sync sync_file_range syncfs
  sysinfo tee tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime
  timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname unlink unlinkat
  utime utimensat utimes vfork wait4 waitid write writev
`.trim().split(/\s+/);

/** Flags of clone(2) that make name spaces: mounts, cgroups, UTS, IPC, users, processes, network. */
const NAME_SPACES = 0x7e020000;
/** Families of socket(2): unix, IPv4, IPv6, netlink. */
const FAMILIES = [1, 2, 10, 16];
/** What personality(2) may set: Linux, Linux with 26 bits of version, each for 32 bits, or nothing. */
const PERSONALITIES = [0x0, 0x8, 0x20000, 0x20008, 0xffffffff];
const ENOSYS = 38;

/** libseccomp's names of the architectures. Programs of 32 bits have other numbers, and are not for it. */
const ARCHITECTURES = { x86_64: "SCMP_ARCH_X86_64", aarch64: "SCMP_ARCH_AARCH64" };

/** The list for `architecture`, as JSON for `--security-opt=seccomp=FILE`. */
export function seccompProfile(architecture: keyof typeof ARCHITECTURES): string {
  const allow = (names: readonly string[], ...args: readonly object[]) => (
    { names, action: "SCMP_ACT_ALLOW", args }
  );
  const equal = (value: number) => ({ index: 0, value, valueTwo: 0, op: "SCMP_CMP_EQ" });
  return JSON.stringify({
    defaultAction: "SCMP_ACT_ERRNO",
    defaultErrnoRet: ENOSYS,
    architectures: [ARCHITECTURES[architecture]],
    syscalls: [
      allow(CALLS),
      allow(["clone"], { index: 0, value: NAME_SPACES, valueTwo: 0, op: "SCMP_CMP_MASKED_EQ" }),
      ...FAMILIES.map((family) => allow(["socket"], equal(family))),
      ...PERSONALITIES.map((personality) => allow(["personality"], equal(personality))),
    ],
  });
}
