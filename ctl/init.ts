/** `bxctl init`: makes a home to begin with. Needs no daemon, and overwrites nothing. */
import { fileURLToPath } from "node:url";
import { display } from "../proto/escape.ts";
import { readRegularFile } from "../proto/io/regular_file.ts";
import { MAX_SOCKET_PATH_BYTES } from "../proto/io/socket.ts";
import { layout } from "../proto/layout.ts";
import { initLock, type Lock } from "../proto/locks.ts";
import { assertNever, shellWord, utf8, utf8Length } from "../proto/text.ts";
import type { CtlConfig } from "./config.ts";
import {
  FIRST_GRANTS,
  type HomePlan,
  planHome,
  type PlannedDirectory,
  type PlannedFile,
} from "./init_files.ts";
import { unitsFor } from "./init_units.ts";
import { answerJson, type Io, type Status } from "./io.ts";
import { Failed, homeNotMade } from "./notices.ts";

/**
 * What became of a place: it was made; it is there as `init` would make it; it is there and differs, and
 * stays; it is not there, and its directory, which is, stays as it is.
 */
export type PlaceState = "made" | "there" | "differs" | "left_out";
export interface PlaceMade {
  readonly path: string;
  readonly state: PlaceState;
}

/** Whose the notes are where Boxmaker runs as root: the user of the tools ([runner] user). */
const TOOLS_USER = 65534;
const PROJECT = fileURLToPath(new URL("..", import.meta.url)).replace(/\/$/, "");
/** Where `deno task up` looks for its home when none is named. */
const HOME_OF_UP = `${PROJECT}/.boxmaker`;

/** What `bxctl init` makes for `config`. */
function planOf({ layout }: CtlConfig): HomePlan {
  return planHome(layout, FIRST_GRANTS, unitsFor(layout.home, PROJECT));
}

/**
 * The row of the permission table for `bxctl init`: it may look at the places of its plan and write those that
 * are not there yet, with `dryRun` none. So nothing that exists can be overwritten. Throws `Failed`.
 */
export function lockOfInit(config: CtlConfig, dryRun: boolean): Lock {
  const { directories, files } = planOf(config);
  const places = [...directories, ...files].map(({ path }) => path);
  const missing = dryRun ? [] : places.filter((path) => infoOf(path) === null);
  return initLock({ configFile: config.configFile, places, missing });
}

/** Makes the home of `config`, or with `dryRun` says what would be made. Throws `Failed`. */
export function init(config: CtlConfig, dryRun: boolean, io: Io, json: boolean): Status {
  const plan = planOf(config);
  const places = makeHome(plan, dryRun);
  const next = nextCommands(plan.home);
  if (json) {
    answerJson(io, { home: plan.home, dry_run: dryRun, places, next });
    return 0;
  }
  const lines = [
    `home: ${plan.home}`,
    ...places.map(({ path, state }) =>
      `  ${wordsOf(state, dryRun).padEnd(19)}  ${path.slice(plan.home.length + 1)}`
    ),
    ...places.some(({ state }) => state !== "made") ? ["what was there stays as it is"] : [],
    ...unitsFor(plan.home, PROJECT).length > 0
      ? []
      : ["no service units: a path would have to be quoted in them"],
    `next, in ${PROJECT}:`,
    ...next.map((command) => `  ${command}`),
    "then: docs/guide.md; as services: docs/samples/README.md",
  ];
  io.answer(lines.map((line) => `${display(line)}\n`).join(""));
  return 0;
}

/** What a newcomer types next: a look at the grants needs brokerd, so it comes second. */
function nextCommands(home: string): string[] {
  const own = home === HOME_OF_UP ? "" : `BOXMAKER_HOME=${shellWord(home)} `;
  const call = `--tool read_file --arguments ${shellWord(`{"path":"/etc/passwd"}`)}`;
  const deno = "npx --yes deno@2.9.6 task";
  return [`${own}${deno} up`, `${deno} ctl grants test ${call} --home ${shellWord(home)}`];
}

function wordsOf(state: PlaceState, dryRun: boolean): string {
  switch (state) {
    case "made":
      return dryRun ? "would be made" : "made";
    case "there":
      return "already there";
    case "differs":
      return "differs, left alone";
    case "left_out":
      return "left out";
    default:
      return assertNever(state);
  }
}

/**
 * Makes what is missing of `plan`, with `dryRun` nothing, and says what became of each place. What is there
 * stays. Of a directory that is there nothing in it is made: a grant that was taken away does not come
 * back. Throws `Failed` at the first place that cannot be made; those before it stay.
 */
export function makeHome({ home, directories, files }: HomePlan, dryRun = false): PlaceMade[] {
  const problem = homeProblem(home);
  if (problem !== null) throw homeNotMade(home, new Error(problem));
  return [
    ...directories.flatMap((directory) => makeDirectory(directory, dryRun)),
    ...files.map((file) => makeFile(file, infoOf(file.path) === null, dryRun)),
  ];
}

/** Why no daemon could serve a home at `home`; null where nothing speaks against it. */
function homeProblem(home: string): string | null {
  // Its directories would be those of the whole machine.
  if (home === "/") return "it is the root of all files";
  const { adminSocket, brokerSocket, loopSocket } = layout(home);
  for (const socket of [adminSocket, brokerSocket, loopSocket]) {
    const length = utf8Length(socket);
    if (length <= MAX_SOCKET_PATH_BYTES) continue;
    const name = socket.slice(home.length + 1);
    return `the path of its socket ${name} has ${length} bytes, and a socket's at most ${MAX_SOCKET_PATH_BYTES}`;
  }
  return null;
}

function makeDirectory(
  { path, directories, files, forTools }: PlannedDirectory,
  dryRun: boolean,
): PlaceMade[] {
  const info = infoOf(path);
  if (info !== null && !info.isDirectory && !info.isSymlink) {
    throw homeNotMade(path, new Error("it is there, and is no directory"));
  }
  const missing = info === null;
  const all = [path, ...directories];
  if (missing && !dryRun) {
    for (const each of all) {
      attempt(each, () => Deno.mkdirSync(each, { recursive: each === path, mode: 0o700 }));
    }
  }
  const made = files.map((file) => makeFile(file, missing, dryRun));
  if (missing && forTools && !dryRun) {
    for (const each of [...all, ...files.map(({ path }) => path)]) giveToTools(each);
  }
  return [{ path: `${path}/`, state: missing ? "made" : "there" }, ...made];
}

/** Makes `file` where `make`; else holds it against what is there. */
function makeFile({ path, content }: PlannedFile, make: boolean, dryRun: boolean): PlaceMade {
  if (!make) return { path, state: stateOf(path, content) };
  if (!dryRun) attempt(path, () => writeNew(path, content));
  return { path, state: "made" };
}

function stateOf(path: string, content: string): PlaceState {
  const info = infoOf(path);
  if (info === null) return "left_out";
  if (!info.isFile) return "differs";
  const expected = utf8(content);
  const found = attempt(path, () => readRegularFile(path, expected.length));
  return found?.length === expected.length && found.every((byte, at) => byte === expected[at])
    ? "there"
    : "differs";
}

/** Writes a file that is not there, whole or not at all. */
function writeNew(path: string, content: string): void {
  const file = Deno.openSync(path, { write: true, createNew: true, mode: 0o600 });
  try {
    const bytes = utf8(content);
    for (let at = 0; at < bytes.length;) at += file.writeSync(bytes.subarray(at));
  } catch (error) {
    Deno.removeSync(path);
    throw error;
  } finally {
    file.close();
  }
}

/** Where this process is root, `path` becomes the tools' own. */
function giveToTools(path: string): void {
  attempt(path, () => {
    if (Deno.lstatSync(path).uid === 0) Deno.chownSync(path, TOOLS_USER, TOOLS_USER);
  });
}

/** What is at `path`, a link for itself; null where nothing is. Throws `Failed`. */
function infoOf(path: string): Deno.FileInfo | null {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw homeNotMade(path, error);
  }
}

function attempt<T>(path: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw error instanceof Failed ? error : homeNotMade(path, error);
  }
}
