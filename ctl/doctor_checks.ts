/** What the machine comes to, for `bxctl doctor`. Pure: what was seen and the present are handed in. */
import type { LockReport } from "../proto/status.ts";
import { duration } from "./ago.ts";
import { utf8Length } from "../proto/text.ts";
import { type Check, check, helps, withEntry } from "./checks.ts";
import type { Asked } from "./daemon_status.ts";
import type { Newest } from "./newest_record.ts";

/** What stands at a path. */
export type Found =
  | {
    readonly state: "there";
    readonly kind: "directory" | "socket" | "file" | "link" | "other";
    /** The permission bits. */
    readonly mode: number;
    readonly uid: number | null;
  }
  | { readonly state: "missing" }
  /** Not among the permissions of this process. */
  | { readonly state: "not_allowed" }
  | { readonly state: "unknown"; readonly problem: string };

/** What must hold of a place: `private` keeps all others out, `own` keeps them from writing. */
export type Rule =
  | "private directory"
  | "private file"
  | "private socket"
  | "own directory"
  | "own file";

export interface Place {
  readonly name: string;
  readonly path: string;
  readonly rule: Rule;
  readonly found: Found;
}

export interface Machine {
  /** The version of the runtime. */
  readonly deno: string;
  /** The user that bxctl runs as; null where that is not known. */
  readonly uid: number | null;
  readonly places: readonly Place[];
  /** The paths of the sockets. */
  readonly sockets: Readonly<Record<string, string>>;
  readonly disk:
    /** `free` in bytes; `files`: how many more there may be, null where that has no limit. */
    | { readonly ok: true; readonly free: number; readonly files: number | null }
    | { readonly ok: false; readonly state: "missing" | "not_allowed"; readonly path: string }
    | { readonly ok: false; readonly state: "unknown"; readonly problem: string };
  readonly system: {
    /** The paths of Podman and of OCI runtimes that are there, of those looked at. */
    readonly podman: readonly string[];
    readonly runtimes: readonly string[];
    /** `/etc/passwd`, `/etc/subuid` and `/etc/subgid`; null where one cannot be read. */
    readonly users: string | null;
    readonly ranges: readonly (string | null)[];
  };
}

export interface DoctorFacts {
  readonly machine: Machine;
  /** How bxctl differs from its own row. */
  readonly lock: LockReport;
  readonly brokerd: Asked<"brokerd">;
  readonly loopd: Asked<"loopd">;
  readonly newest: Newest;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** What the checks hold the machine against. */
export interface Limits {
  readonly deno: string;
  /** The longest path of a socket, in bytes. */
  readonly socketPath: number;
}

const MIB = 1024 * 1024;
/** Below, a day of records may not fit: a call in the log takes some KiB, its arguments up to 1 MiB. */
const FEW_BYTES = 64 * MIB;
const SCANT_BYTES = 512 * MIB;
const FEW_FILES = 1000;
/** How far the newest record may be ahead of the clock, in milliseconds: two readings of one clock. */
const CLOCK_SLACK_MS = 2000;
const FIRST_YEAR = 2026;
const LAST_YEAR = 2099;

/** The lines of the doctor, always in this order. */
export function doctorChecks(facts: DoctorFacts, limits: Limits): Check[] {
  const { machine } = facts;
  return [
    denoCheck(facts, limits.deno),
    lockCheck("lock of bxctl", facts.lock),
    daemonLockCheck("lock of brokerd", facts.brokerd),
    daemonLockCheck("lock of loopd", facts.loopd),
    ...placeChecks(machine),
    ...Object.entries(machine.sockets).map(([name, path]) =>
      pathLengthCheck(name, path, limits.socketPath)
    ),
    clockCheck(facts),
    diskCheck(machine),
    ...runnerChecks(facts),
  ];
}

function denoCheck({ machine, brokerd, loopd }: DoctorFacts, wanted: string): Check {
  const versions = {
    bxctl: machine.deno,
    ...brokerd.ok ? { brokerd: brokerd.status.deno } : {},
    ...loopd.ok ? { loopd: loopd.status.deno } : {},
  };
  const wrong = Object.entries(versions).filter(([, version]) => version !== wanted);
  if (wrong.length === 0) {
    return check("Deno", "ok", `${wanted}, of ${Object.keys(versions).join(", ")}`);
  }
  const found = wrong.map(([program, version]) => `${version} of ${program}`).join(", ");
  return check(
    "Deno",
    "wrong",
    `${wanted} is needed, and this is ${found}`,
    helps("docs/runbook.md#deno-version"),
  );
}

function daemonLockCheck(name: string, asked: Asked<"brokerd"> | Asked<"loopd">): Check {
  if (asked.ok) return lockCheck(name, asked.status.lock);
  const [first = "it gave no answer", ...more] = asked.lines;
  return check(name, "unknown", first, ...withEntry(more, "docs/runbook.md#broker-unavailable"));
}

function lockCheck(name: string, { too_wide: wide, missing }: LockReport): Check {
  const help = helps("docs/runbook.md#permissions-too-wide");
  if (wide.length > 0) {
    const words = "it may do what it must not";
    return check(name, "wrong", words, ...wide.map((what) => `it may ${what}`), help);
  }
  if (missing.length > 0) {
    const words = "it was started with fewer permissions than its row has";
    return check(name, "warning", words, ...missing.map((what) => `it may not ${what}`), help);
  }
  return check(name, "ok", "exactly its row, as far as the runtime says");
}

/** A line for each place; those of one name that are right, as the grants' files are, have one together. */
function placeChecks({ places, uid }: Machine): Check[] {
  const checks = places.map((place) => placeCheck(place, uid));
  const seen = new Set<string>();
  return checks.filter(({ name, state }) => {
    const known = seen.has(name);
    seen.add(name);
    return state !== "ok" || !known;
  });
}

const MASKS = {
  "private directory": 0o077,
  "private file": 0o077,
  "private socket": 0o177,
  "own directory": 0o022,
  "own file": 0o022,
} as const satisfies Record<Rule, number>;

function placeCheck({ name, path, rule, found }: Place, uid: number | null): Check {
  const entry = name.endsWith(".sock")
    ? "docs/runbook.md#socket-directory"
    : "docs/runbook.md#home-too-open";
  switch (found.state) {
    case "missing":
      return name === "grants"
        ? check(name, "wrong", `${path} is not there`, helps("docs/runbook.md#grants-invalid"))
        : check(name, "ok", `${path} is not there: it is made when it is needed`);
    case "not_allowed":
      return check(
        name,
        "unknown",
        `${path}: bxctl was started without leave to look at it`,
        START,
      );
    case "unknown":
      return check(name, "wrong", `${path} cannot be looked at: ${found.problem}`, helps(entry));
    case "there":
      break;
  }
  const { mode, kind } = found;
  const shown = mode.toString(8).padStart(4, "0");
  const wanted = rule.slice(rule.indexOf(" ") + 1);
  if (kind === "link") {
    const words = `${path} is a link, and what it leads to was not looked at`;
    return check(name, "warning", words, helps(entry));
  }
  if (kind !== wanted) return check(name, "wrong", `${path} is no ${wanted}`, helps(entry));
  if (uid !== null && found.uid !== uid) {
    const words = `${path} belongs to user ${found.uid}, and bxctl runs as user ${uid}`;
    return check(name, "wrong", words, helps(entry, "run all programs as one user"));
  }
  if ((mode & MASKS[rule]) !== 0) {
    const others = rule.startsWith("own") ? "others may write it" : "others may use it";
    const to = (mode & ~MASKS[rule] & 0o777).toString(8).padStart(4, "0");
    const words = `${path} has mode ${shown}: ${others}`;
    return check(name, "wrong", words, helps(entry, `chmod ${to} ${path}`));
  }
  return check(name, "ok", `${path}, mode ${shown}`);
}

const START = "start it with `deno task ctl doctor`; see docs/runbook.md#doctor-sees-little";

function pathLengthCheck(name: string, path: string, most: number): Check {
  const title = `path of ${name}`;
  const length = utf8Length(path);
  if (length <= most) return check(title, "ok", `${length} of ${most} bytes`);
  const words = `${path} has ${length} bytes, and a socket's path at most ${most}`;
  return check(
    title,
    "wrong",
    words,
    helps("docs/runbook.md#socket-directory", "use a shorter home or [sockets]"),
  );
}

function clockCheck({ newest, now }: DoctorFacts): Check {
  const time = new Date(now);
  const year = time.getUTCFullYear();
  const shown = time.toISOString();
  const help = helps("docs/runbook.md#clock-wrong", "timedatectl");
  if (year < FIRST_YEAR || year > LAST_YEAR) return check("clock", "wrong", `it is ${shown}`, help);
  if (!newest.ok) {
    return check(
      "clock",
      "unknown",
      `it is ${shown}; the newest record cannot be read: ${newest.problem}`,
      helps("docs/runbook.md#audit-chain-broken", "bxctl audit verify"),
    );
  }
  const { record } = newest;
  const ahead = record === null ? 0 : Date.parse(record.time) - now;
  if (record !== null && ahead > CLOCK_SLACK_MS) {
    const words = `it is ${shown}, and record ${record.seq} is of ${record.time}: ${
      duration(ahead)
    } later`;
    return check("clock", "wrong", words, help);
  }
  return check("clock", "ok", `${shown}, no record is of later`);
}

function diskCheck({ disk }: Machine): Check {
  const name = "disk";
  if (!disk.ok) {
    switch (disk.state) {
      case "missing":
        return check(name, "unknown", `${disk.path} is not there: bxctl init makes it`);
      case "not_allowed":
        return check(name, "unknown", "bxctl was started without leave to ask for it", START);
      case "unknown":
        return check(name, "unknown", disk.problem, helps("docs/runbook.md#home-too-open"));
    }
  }
  const { free, files } = disk;
  const words = `${Math.floor(free / MIB)} MiB free` +
    (files === null ? "" : `, and room for ${files} files`);
  const help = helps("docs/runbook.md#audit-unavailable", "make room");
  if (free < FEW_BYTES || (files !== null && files < FEW_FILES)) {
    return check(name, "wrong", `${words}: on a full disk every call is denied`, help);
  }
  return free < SCANT_BYTES ? check(name, "warning", words, help) : check(name, "ok", words);
}

/** What runs the tools, where brokerd says that any does. */
function runnerChecks({ machine, brokerd }: DoctorFacts): Check[] {
  if (!brokerd.ok) return [check("runner", "unknown", "brokerd does not say whether it has one")];
  const { runner, troubles } = brokerd.status;
  const { podman, oci_runtime: runtime } = runner;
  if (podman === null) return [check("runner", "ok", "none is configured: no tool runs")];
  const { system, uid } = machine;
  // That the image is missing says that Podman answers; bxctl status is about the image.
  const said = runner.image_state === "missing"
    ? []
    : troubles.find(({ about }) => about === "runner")?.lines ?? [];
  const missing = !system.podman.includes(podman);
  return [
    said.length > 0
      ? check("Podman", "wrong", `${podman} does not work for brokerd`, ...withEntry(said, RUNNER))
      : check(
        "Podman",
        "ok",
        missing ? `${podman}, as brokerd says` : podman,
        "whether the kernel lets a tool run shows when one does: deno task device-check",
      ),
    runtimeCheck(runtime, system.runtimes),
    rangesCheck(uid, system),
  ];
}

const RUNNER = "docs/runbook.md#runner-unavailable";

function runtimeCheck(wanted: string | null, found: readonly string[]): Check {
  const name = "OCI runtime";
  const fits = found.filter((path) =>
    wanted === null || path === wanted || path.endsWith(`/${wanted}`)
  );
  const [first] = fits;
  if (first !== undefined) return check(name, "ok", first);
  const known = wanted === null || /^(?:crun|runc)$/.test(wanted);
  return known
    ? check(name, "wrong", `${wanted ?? "neither crun nor runc"} is not there`, helps(RUNNER))
    : check(name, "unknown", `${wanted} is not where bxctl may look`);
}

/** Whether an ordinary user has the ranges of user ids that containers of its own need. */
function rangesCheck(uid: number | null, { users, ranges }: Machine["system"]): Check {
  const name = "user namespaces";
  if (uid === 0) return check(name, "ok", "root needs none");
  if (uid === null || users === null || ranges.includes(null)) {
    return check(name, "unknown", "bxctl may not see the ranges of its user", START);
  }
  const user = users.split("\n").map((line) => line.split(":"))
    .find((fields) => fields[2] === String(uid))?.[0];
  const has = (text: string | null) =>
    (text ?? "").split("\n").map((line) => line.split(":")[0])
      .some((owner) => owner === String(uid) || (user !== undefined && owner === user));
  return ranges.every(has)
    ? check(name, "ok", "/etc/subuid and /etc/subgid have a range for this user")
    : check(name, "wrong", "/etc/subuid or /etc/subgid has no range for this user", helps(RUNNER));
}
