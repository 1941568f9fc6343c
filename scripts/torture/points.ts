/** Every point at which a system call of brokerd can be made to fail, and the ways to fail there. */
import type { Stand, Watched } from "./stand.ts";

/** What a fault is aimed at: a part of the home, or the sockets. */
export type Target = keyof Watched | "sockets";

/** One injected fault: the `n`-th `syscall` of brokerd's main thread on `target`. */
export interface Fault {
  readonly target: Target;
  readonly syscall: string;
  readonly n: number;
  /** As `strace -e inject=` takes it, without `when`. */
  readonly how: string;
  /** From the `n`-th on every one fails, as when a disk has died. */
  readonly onwards: boolean;
}

/** Before the call is done; after it, is before the next one. */
const KILL = "signal=SIGKILL";

/**
 * How each system call is made to fail. Short writes are not among them: strace can only claim them, and
 * `places.ts` makes real ones.
 */
const WAYS = {
  openat: ["error=EIO", "error=ENOSPC", "error=EMFILE", "error=EINTR", KILL],
  write: ["error=EIO", "error=ENOSPC", "error=EINTR", KILL],
  pwrite64: ["error=EIO", "error=ENOSPC", "error=EINTR", KILL],
  read: ["error=EIO", "error=EINTR"],
  pread64: ["error=EIO", "error=EINTR", "retval=0"],
  fsync: ["error=EIO", "error=ENOSPC", "error=EINTR", KILL],
  rename: ["error=EIO", "error=ENOSPC", KILL],
  unlink: ["error=EIO", "error=EACCES", KILL],
  mkdir: ["error=EIO", "error=ENOSPC", "error=EACCES"],
  getdents64: ["error=EIO"],
  statx: ["error=EIO", "error=EACCES"],
  fstat: ["error=EIO"],
  ftruncate: ["error=EIO"],
  flock: ["error=EINTR", "error=ENOLCK"],
  accept4: ["error=EMFILE", "error=ECONNABORTED", "error=EINTR", "error=EIO", KILL],
  recvfrom: ["error=EIO", "error=ECONNRESET", "error=EINTR", KILL],
  sendto: ["error=EIO", "error=EPIPE", "error=EINTR", KILL],
} as const satisfies Record<string, readonly string[]>;

/** strace then stops the program at the calls that it watches and at no others. */
const QUICK = "--seccomp-bpf";
const SOCKET_CALLS = ["accept4", "recvfrom", "sendto"];
export const TARGETS = ["audit", "broker", "grants", "sockets"] as const;

const isOfSockets = (syscall: string) => SOCKET_CALLS.includes(syscall);

/** The system calls that are watched of `target`. */
function syscallsOf(target: Target): string[] {
  return Object.keys(WAYS).filter((name) => isOfSockets(name) === (target === "sockets"));
}

/** `strace`, which follows the program and becomes nobody's parent; `trace`: where it writes. */
function strace(
  stand: Stand,
  target: Target,
  sessions: readonly string[],
  trace: string,
): string[] {
  const paths = target === "sockets" ? [] : stand.watched(sessions)[target];
  return ["strace", "-D", "-f", "-o", trace, ...paths.flatMap((path) => ["-P", path])];
}

/** The command that counts the system calls of `target`. */
export function counting(
  stand: Stand,
  target: Target,
  sessions: readonly string[],
  trace: string,
): string[] {
  return [
    ...strace(stand, target, sessions, trace),
    QUICK,
    "-e",
    `trace=${syscallsOf(target).join(",")}`,
  ];
}

/** The command that injects `fault`. */
export function injecting(
  stand: Stand,
  { target, syscall, n, how, onwards }: Fault,
  sessions: readonly string[],
  trace: string,
): string[] {
  const when = `${n}${onwards ? "+" : ""}`;
  return [
    ...strace(stand, target, sessions, trace),
    // With it no signal is injected.
    ...(how === KILL ? [] : [QUICK]),
    ...["-e", `trace=${syscall}`, "-e", `inject=${syscall}:${how}:when=${when}`],
  ];
}

/** The numbers of the calls of one kind that only the main thread makes: strace counts for each thread. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** The calls of the thread `pid`, by kind, from what `counting` wrote. */
export function counted(trace: string, pid: number): Record<string, Span> {
  const own: Record<string, number> = {};
  const others: Record<string, number> = {};
  for (const [, thread, name = ""] of trace.matchAll(/^(\d+) +(\w+)\(/gm)) {
    // The runtime's own threads read the pipe of its signals, and it ends where that fails.
    const counts = Number(thread) === pid ? own : others;
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return Object.fromEntries(
    Object.entries(own).map(([name, to]) => [name, { from: (others[name] ?? 0) + 1, to }]),
  );
}

/** Every fault at every point of `counts`. */
export function faultsAt(target: Target, counts: Readonly<Record<string, Span>>): Fault[] {
  return Object.entries(counts).flatMap(([syscall, { from, to }]) =>
    waysOf(syscall).flatMap((how) =>
      Array.from({ length: Math.max(0, to - from + 1) }, (_, at) => ({
        ...{ target, syscall, n: from + at, how, onwards: false },
      }))
    )
  );
}

/** How `syscall` can be made to fail. */
export function waysOf(syscall: string): readonly string[] {
  return Object.entries(WAYS).find(([name]) => name === syscall)?.[1] ?? [];
}

/**
 * Whether a machine can go on failing in that way. Nothing is interrupted for ever. Where no connection is
 * accepted any more, nobody is told anything, and `descriptors` shows that, with its end.
 */
export function canLast({ syscall, how }: Fault): boolean {
  return how !== "error=EINTR" && syscall !== "accept4";
}

/** Whether the fault ends the process. */
export function kills({ how }: Fault): boolean {
  return how === KILL;
}

/** A fault in one line, as `--fault` takes it. */
export function named({ target, syscall, n, how, onwards }: Fault): string {
  return `${target} ${syscall} ${n}${onwards ? "+" : ""} ${how}`;
}

/** The fault of that name, or null. */
export function faultNamed(name: string): Fault | null {
  const [target, syscall = "", when = "", how = ""] = name.split(" ");
  const known = TARGETS.find((known) => known === target);
  const [, n, onwards] = /^(\d+)(\+?)$/.exec(when) ?? [];
  if (known === undefined || n === undefined || !waysOf(syscall).includes(how)) return null;
  return { target: known, syscall, n: Number(n), how, onwards: onwards === "+" };
}
