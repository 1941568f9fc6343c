/** What `bxctl doctor` sees of the machine. It looks and changes nothing; what it may not look at, it says. */
import fs from "node:fs";
import { isAuditFileName } from "../proto/audit.ts";
import { directoryOf, type Layout } from "../proto/layout.ts";
import { SYSTEM_FILES } from "../proto/locks.ts";
import { readRegularFile } from "../proto/io/regular_file.ts";
import { fromUtf8 } from "../proto/text.ts";
import type { Found, Machine, Place } from "./doctor_checks.ts";
import { messageOf } from "./notices.ts";

/** The files of users and of their ranges are small. */
const MAX_SYSTEM_FILE_BYTES = 1024 * 1024;
/** At most so many grant files are looked at. */
const MAX_GRANT_FILES = 1000;

export interface MachinePlaces {
  readonly layout: Layout;
  readonly grants: string;
  readonly adminSocket: string;
  readonly loopSocket: string;
}

/** What stands at `path`. Links are not followed. */
function foundAt(path: string): Found {
  try {
    const info = Deno.lstatSync(path);
    const kind = info.isDirectory
      ? "directory"
      : info.isSocket
      ? "socket"
      : info.isFile
      ? "file"
      : info.isSymlink
      ? "link"
      : "other";
    return { state: "there", kind, mode: (info.mode ?? 0) & 0o7777, uid: info.uid };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return { state: "missing" };
    if (error instanceof Deno.errors.NotCapable) return { state: "not_allowed" };
    return { state: "unknown", problem: messageOf(error) };
  }
}

/** Looks at the machine around the home of `places`. */
export function lookAround(places: MachinePlaces): Machine {
  const { layout, grants, adminSocket, loopSocket } = places;
  const at = (name: string, path: string, rule: Place["rule"]): Place => ({
    ...{ name, path, rule, found: foundAt(path) },
  });
  const socket = (name: string, path: string): Place[] => [
    at(`directory of ${name}`, directoryOf(path), "private directory"),
    at(name, path, "private socket"),
  ];
  return {
    deno: Deno.version.deno,
    uid: ownUid(),
    places: [
      at("home", layout.home, "private directory"),
      at("grants", grants, "own directory"),
      ...filesIn(grants, (name) => name.endsWith(".toml")).slice(0, MAX_GRANT_FILES)
        .map((file) => at("a grant", file, "own file")),
      at("audit log", layout.audit, "private directory"),
      ...filesIn(layout.audit, isAuditFileName).slice(-1)
        .map((file) => at("newest file", file, "private file")),
      at("brokerd's own", layout.broker, "private directory"),
      at("loopd's own", layout.loop, "private directory"),
      ...socket("broker.sock", layout.brokerSocket),
      ...socket("admin.sock", adminSocket),
      ...socket("loop.sock", loopSocket),
    ],
    sockets: {
      "broker.sock": layout.brokerSocket,
      "admin.sock": adminSocket,
      "loop.sock": loopSocket,
    },
    disk: diskOf(layout.home),
    system: {
      podman: SYSTEM_FILES.podman.filter(isThere),
      runtimes: SYSTEM_FILES.runtimes.filter(isThere),
      users: textOf(SYSTEM_FILES.users),
      ranges: SYSTEM_FILES.ranges.map(textOf),
    },
  };
}

/** The user that this process runs as; null where it may not ask. */
function ownUid(): number | null {
  try {
    return Deno.uid();
  } catch {
    return null;
  }
}

/** The paths in `directory` whose names are `wanted`, in order; none where it cannot be read. */
function filesIn(directory: string, wanted: (name: string) => boolean): string[] {
  try {
    return [...Deno.readDirSync(directory)].map(({ name }) => name)
      .filter(wanted).sort().map((name) => `${directory}/${name}`);
  } catch {
    return [];
  }
}

function isThere(path: string): boolean {
  return foundAt(path).state === "there";
}

function textOf(path: string): string | null {
  try {
    const bytes = readRegularFile(path, MAX_SYSTEM_FILE_BYTES);
    return bytes === null ? null : fromUtf8(bytes);
  } catch {
    return null;
  }
}

/** The room on the file system of `path`, for those who are not root. */
function diskOf(path: string): Machine["disk"] {
  try {
    const { bavail, bsize, files, ffree } = fs.statfsSync(path);
    // A file system that makes its inodes as it needs them says 0.
    return { ok: true, free: bavail * bsize, files: files === 0 ? null : ffree };
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return { ok: false, state: "not_allowed", path };
    // Only what is not there at all: the system says the same of a link that leads nowhere.
    if (foundAt(path).state === "missing") return { ok: false, state: "missing", path };
    return { ok: false, state: "unknown", problem: messageOf(error) };
  }
}
