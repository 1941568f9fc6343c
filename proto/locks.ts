/**
 * The one table of Deno permissions (contracts 1, "Every role is started locked"). `deno task`, the
 * compiled builds, the service units and the tests all take their flags from here, and each role holds
 * itself against its row at its start. Pure: what the runtime says is handed in.
 */
import { directoryOf, type Layout } from "./layout.ts";

export const ROLES = ["brokerd", "loopd", "bxctl"] as const;
export type Role = (typeof ROLES)[number];

/** What one role may do. Paths are absolute. */
export interface Lock {
  readonly role: Role;
  readonly read: readonly string[];
  readonly write: readonly string[];
  readonly net: readonly string[];
  readonly env: readonly string[];
  /** Programs that it may start, and no other. */
  readonly run: readonly string[];
  /** What it may not read though it lies in what it may; nothing unless given. */
  readonly notRead?: readonly string[];
  /** The facts of the system that it may ask for; none unless given. */
  readonly sys?: readonly ("statfs" | "uid")[];
}

/** What the table needs of brokerd's configuration. */
export interface BrokerPlaces {
  readonly configFile: string;
  readonly layout: Layout;
  readonly grants: string;
  readonly brokerSocket: string;
  readonly adminSocket: string;
  /** The programs that run tools: Podman, and Deno for the egress proxy. None where no tool runs. */
  readonly run: readonly string[];
}

/** What the table needs of loopd's configuration. */
export interface LoopPlaces {
  readonly configFile: string;
  readonly layout: Layout;
  readonly brokerSocket: string | null;
  readonly loopSocket: string;
  /** `host:port` of the model server. */
  readonly llama: string;
}

/** What the table needs of bxctl's configuration. */
export interface CtlPlaces {
  readonly configFile: string;
  readonly layout: Layout;
  readonly adminSocket: string;
  readonly loopSocket: string;
  /** The grants directory, where it is not the home's; only `doctor` needs it beside the next one. */
  readonly grants?: string;
  /** The grants directory, for the commands that read it; null for all others. */
  readonly grantsToRead: string | null;
  /** The grants directory, for `approve --remember` and `grants revoke`; null for all others. */
  readonly grantsToWrite: string | null;
  /** The page that `audit report` writes; null for all other commands. */
  readonly pageToWrite: string | null;
  /** For `doctor`, which looks at the machine; no other command does. */
  readonly examines?: boolean;
}

export function brokerLock(places: BrokerPlaces): Lock {
  const { layout, brokerSocket, adminSocket } = places;
  const own = [layout.broker, layout.audit, directoryOf(brokerSocket), directoryOf(adminSocket)];
  return {
    role: "brokerd",
    read: [places.configFile, places.grants, ...own],
    write: own,
    net: [`unix:${brokerSocket}`, `unix:${adminSocket}`],
    env: ["BOXMAKER_HOME"],
    run: places.run,
  };
}

export function loopLock(places: LoopPlaces): Lock {
  const { layout, brokerSocket, loopSocket } = places;
  const broker = brokerSocket === null ? [] : [brokerSocket];
  return {
    role: "loopd",
    read: [places.configFile, layout.loop, layout.memory, ...broker, directoryOf(loopSocket)],
    write: [layout.loop, ...broker, directoryOf(loopSocket)],
    net: [...broker.map((path) => `unix:${path}`), `unix:${loopSocket}`, places.llama],
    env: ["BOXMAKER_HOME"],
    run: [],
  };
}

export function ctlLock(places: CtlPlaces): Lock {
  return places.examines === true ? doctorLock(places) : usualCtlLock(places);
}

/** Files of the system by which `doctor` sees what runs the tools, and whether their user may. */
export const SYSTEM_FILES = {
  users: "/etc/passwd",
  ranges: ["/etc/subuid", "/etc/subgid"],
  podman: ["/usr/bin/podman", "/usr/local/bin/podman"],
  runtimes: [
    ...["/usr/bin/crun", "/usr/sbin/crun", "/usr/local/bin/crun", "/usr/local/sbin/crun"],
    ...["/usr/bin/runc", "/usr/sbin/runc", "/usr/local/bin/runc", "/usr/local/sbin/runc"],
  ],
} as const;

/**
 * bxctl's row for `doctor`: modes and owners of the home's places cannot be had without reading the home, so
 * what is private in it is taken out again: the conversations, the memory and the sessions' states.
 */
function doctorLock(places: CtlPlaces): Lock {
  const { layout, adminSocket, loopSocket, grants } = places;
  const usual = usualCtlLock(places);
  const { users, ranges, podman, runtimes } = SYSTEM_FILES;
  return {
    ...usual,
    read: [
      ...[...usual.read, layout.home, grants ?? layout.grants],
      ...[directoryOf(adminSocket), directoryOf(loopSocket)],
      ...[users, ...ranges, ...podman, ...runtimes],
    ],
    notRead: [layout.loopSessions, layout.memory, layout.brokerSessions],
    sys: ["statfs", "uid"],
  };
}

function usualCtlLock(places: CtlPlaces): Lock {
  const { layout, adminSocket, loopSocket, grantsToRead, grantsToWrite, pageToWrite } = places;
  const grants = grantsToRead === null ? [] : [grantsToRead];
  const written = grantsToWrite === null ? [] : [grantsToWrite];
  const page = pageToWrite === null ? [] : [pageToWrite];
  return {
    role: "bxctl",
    read: [places.configFile, layout.audit, ...grants, adminSocket, loopSocket],
    write: [adminSocket, loopSocket, ...written, ...page],
    net: [`unix:${adminSocket}`, `unix:${loopSocket}`],
    env: ["BOXMAKER_HOME", "NO_COLOR", "TERM"],
    run: [],
  };
}

/** What the table needs for `bxctl init`. */
export interface InitPlaces {
  readonly configFile: string;
  /** Every place of the home that it makes. */
  readonly places: readonly string[];
  /** Those of them that are not there yet. */
  readonly missing: readonly string[];
}

/** bxctl's row for `init` alone: it connects nowhere, and writes nothing that exists. */
export function initLock({ configFile, places, missing }: InitPlaces): Lock {
  return {
    role: "bxctl",
    read: [configFile, ...places],
    write: missing,
    net: [],
    env: ["BOXMAKER_HOME", "NO_COLOR", "TERM"],
    run: [],
  };
}

/**
 * Without `--cached-only` and `--deny-import` a process with no permission at all still reaches the
 * network through `import()` of an `npm:` or `https:` address.
 */
export const ALWAYS = ["--no-prompt", "--cached-only", "--deny-import", "--frozen"] as const;

/**
 * What the runtime may set aside for new objects of a thread, in MiB; left alone it grows to 16. `brokerd`,
 * which keeps nothing of a call, would come to twice its memory by that; in `bxctl` `audit verify` would hold
 * on to ever more that is not used; `loopd` would stand still for twice as long to look through it. No
 * permission.
 */
const HEAP: Readonly<Record<Role, readonly string[]>> = {
  brokerd: ["--v8-flags=--max-semi-space-size=1"],
  loopd: ["--v8-flags=--max-semi-space-size=2"],
  bxctl: ["--v8-flags=--max-semi-space-size=2"],
};

/** The flags of `lock` as `deno run` and `deno compile` take them. */
export function denoFlags(lock: Lock): string[] {
  // A flag with nothing after its = would allow everything, or be refused.
  const flag = (name: string, values: readonly string[]) =>
    values.length === 0 ? [] : [`--${name}=${values.join(",")}`];
  return [
    ...ALWAYS,
    ...HEAP[lock.role],
    ...flag("allow-read", lock.read),
    ...flag("allow-write", lock.write),
    ...flag("allow-net", lock.net),
    ...flag("allow-env", lock.env),
    ...flag("allow-run", lock.run),
    ...flag("deny-read", lock.notRead ?? []),
    ...flag("allow-sys", lock.sys ?? []),
  ];
}

/**
 * Why a configured path cannot stand in the table, or null: Deno's flags separate paths by commas, one
 * flag is one line of output, and a relative path means another place for each program.
 */
export function unlockablePath(path: string): string | null {
  if (!path.startsWith("/")) return "is not an absolute path";
  if (path.split("/").some((part) => part === "." || part === "..")) {
    return "has a . or .. in it";
  }
  if (path.includes(",")) return "has a comma in it, which Deno's permission flags cannot express";
  if (/\p{Cc}/u.test(path)) {
    return "has a newline or another control character in it, which Deno's permission flags cannot express";
  }
  return null;
}

/** A question to the runtime, in the words of `Deno.permissions.query`. */
export type Question =
  | { readonly name: "read" | "write"; readonly path?: string }
  | { readonly name: "net"; readonly host?: string }
  | { readonly name: "env" | "run" | "ffi" | "sys" | "import" };

/**
 * What a role must not hold beside its row: everything at once, whatever starts programs or loads
 * code, the directories above its own, and the places of the other roles.
 */
export function forbidden(lock: Lock, layout: Layout): Question[] {
  const names = ["read", "write", "net", "env", "run", "ffi", "sys", "import"] as const;
  const places = [
    ...["/", "/etc", "/proc", layout.home, layout.grants, layout.broker, layout.audit],
    ...[layout.loop, layout.memory],
    ...[layout.brokerSocket, layout.adminSocket, layout.loopSocket],
    ...[...lock.read, ...lock.write].map(directoryOf),
  ];
  // The runtime takes /a//b/ for /a/b, and so must this.
  const plain = (path: string) => path.replace(/\/+/g, "/").replace(/(?<=.)\/$/, "");
  const within = (path: string, allowed: readonly string[]) =>
    allowed.map(plain).some((place) =>
      plain(path) === place || plain(path).startsWith(`${place === "/" ? "" : place}/`)
    );
  const sockets = [layout.brokerSocket, layout.adminSocket, layout.loopSocket];
  return [
    ...names.map((name) => ({ name })),
    ...[...places.filter((path) => !within(path, lock.read)), ...lock.notRead ?? []].map((
      path,
    ) => ({
      name: "read" as const,
      path,
    })),
    ...places.filter((path) => !within(path, lock.write)).map((path) => ({
      name: "write" as const,
      path,
    })),
    ...sockets.map((path) => `unix:${path}`).filter((host) => !lock.net.includes(host)).map((
      host,
    ) => ({ name: "net" as const, host })),
  ];
}

/** A question as words for the owner, such as `read /var/lib/boxmaker/audit`. */
export function describe(question: Question): string {
  if (question.name === "read" || question.name === "write") {
    return `${question.name} ${question.path ?? "anywhere"}`;
  }
  if (question.name === "net") return `connect to ${question.host ?? "anywhere"}`;
  const words = {
    env: "read every environment variable",
    run: "run programs",
    ffi: "load native code",
    sys: "read system information",
    import: "import remote code",
  } as const;
  return words[question.name];
}
