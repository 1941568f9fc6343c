/** A home to try Boxmaker in: the configuration of both daemons, example grants and a note to read. */
import { parse, stringify } from "smol-toml";
import { readBrokerConfig } from "../../broker/config.ts";
import { readLoopConfig } from "../../loop/config.ts";
import { display } from "../../proto/escape.ts";
import { say } from "../../proto/io/log.ts";
import { type Layout, layout } from "../../proto/layout.ts";
import { unlockablePath } from "../../proto/locks.ts";
import { Failure } from "./cli.ts";

export interface Home {
  readonly path: string;
  readonly layout: Layout;
  readonly brokerConfig: string;
  readonly loopConfig: string;
  /** The directory that the example grants are about, and one inside it. */
  readonly notes: string;
  readonly drafts: string;
  /** Where scripts put what the daemons say. */
  readonly logs: string;
}

/** The places of a home at `path`, an absolute path. */
export function homeAt(path: string): Home {
  return {
    path,
    layout: layout(path),
    brokerConfig: `${path}/brokerd.toml`,
    loopConfig: `${path}/loopd.toml`,
    notes: `${path}/notes`,
    drafts: `${path}/notes/drafts`,
    logs: `${path}/log`,
  };
}

// A TOML string may hold anything but these two as it is; control characters are refused before.
const quoted = (text: string) => `"${text.replace(/["\\]/g, "\\$&")}"`;

const brokerToml = ({ path }: Home): string =>
  `# brokerd's configuration. Every key: docs/samples/brokerd.toml.
[paths]
home = ${quoted(path)}

[approvals]
ttl_ms = 900000 # how long a call waits for your answer
`;

const loopToml = ({ path, layout }: Home): string =>
  `# loopd's configuration. Every key: docs/samples/loopd.toml.
[paths]
home = ${quoted(path)}

[broker]
socket = ${quoted(layout.brokerSocket)}

[llama]
# "deno task up" takes the stand-in's address, or the one after --llama, in place of this one.
url = "http://127.0.0.1:8080"
`;

/** The example grants by their id. */
export const GRANTS = {
  "notes-read": ({ notes }) =>
    `# The model may read the notes, and you are asked each time. What no grant covers is denied, such as
# reading /etc/passwd. Grants are read at every call: change this file, and the next call knows.
tool = "read_file"
mode = "ask"             # or auto: without asking; deny: never
max_taint = "private"    # not in a session that has seen anything secret
result_class = "private" # how sensitive what it reads is

[constraints]
paths = [${quoted(notes)}]
`,
  "drafts-write": ({ drafts }) =>
    `# The model may write drafts without asking. Other places below the notes it may read, not write.
tool = "write_file"
mode = "auto"
max_taint = "private"
result_class = "private"

[constraints]
paths = [${quoted(drafts)}]
`,
  "commands-run": () =>
    `# The model may run commands, and you are asked each time. The grant names no paths: a command sees
# nothing of this machine's files and has no network.
tool = "shell"
mode = "ask"
max_taint = "private"
result_class = "private"
`,
  "pages-fetch": () =>
    `# The model may fetch pages of this host without asking. What a page says is not to be trusted.
tool = "http_fetch"
mode = "auto"
max_taint = "private"
result_class = "public"
untrusted = true

[constraints]
hosts = ["page.example"]
`,
} as const satisfies Record<string, (home: Home) => string>;
export type GrantName = keyof typeof GRANTS;
/** The grants of a new home. */
export const EXAMPLE_GRANTS = ["notes-read", "drafts-write", "commands-run"] as const;

/** Whose the notes are where Boxmaker runs as root: the user of the tools ([runner] user). */
const TOOLS_USER = 65534;

/** The first note. */
export const NOTE = `# Shopping

- milk
- a new lamp for the hall
`;

/** Writes a file that does not exist yet. */
function writeNew(path: string, content: string): void {
  try {
    Deno.writeTextFileSync(path, content, { createNew: true, mode: 0o600 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}

/**
 * Makes the home at `path` with the example grants `grants`. What exists stays as it is, and a home that
 * has a grants directory already gets no further grant. Throws `Failure` and `ConfigError`.
 */
export function prepareHome(
  path: string,
  grants: readonly GrantName[] = EXAMPLE_GRANTS,
): Home {
  const problem = unlockablePath(path);
  if (problem !== null) throw new Failure(`the home ${display(path)} ${problem}`);
  const home = homeAt(path);
  for (const directory of [path, `${path}/run`, home.logs]) {
    Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
  }
  writeNew(home.brokerConfig, brokerToml(home));
  writeNew(home.loopConfig, loopToml(home));
  if (!exists(home.layout.grants)) {
    Deno.mkdirSync(home.layout.grants, { mode: 0o700 });
    for (const name of grants) writeNew(`${home.layout.grants}/${name}.toml`, GRANTS[name](home));
  }
  if (!exists(home.notes)) {
    Deno.mkdirSync(home.drafts, { recursive: true, mode: 0o700 });
    const note = `${home.notes}/a.md`;
    writeNew(note, NOTE);
    if (Deno.uid() === 0) {
      for (const path of [home.notes, home.drafts, note]) {
        Deno.chownSync(path, TOOLS_USER, TOOLS_USER);
      }
    }
  }
  return home;
}

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** A temporary directory for a home: gone at the end, but after a failure or where it is to be kept. */
export class TempHome implements Disposable {
  readonly path: string;
  readonly #script: string;
  #keep = true;
  readonly #asked: boolean;

  constructor(script: string, keep: boolean) {
    this.#script = script;
    this.#asked = keep;
    this.path = Deno.makeTempDirSync({ prefix: `boxmaker-${script}-` });
  }

  /** Everything went well: there is nothing to look at. */
  done(): void {
    this.#keep = this.#asked;
  }

  [Symbol.dispose](): void {
    if (this.#keep) say(this.#script, `the home is kept: ${display(this.path)}`);
    else Deno.removeSync(this.path, { recursive: true });
  }
}

/** Throws `Failure` where a configuration of `home` is about another home, as after it was moved. */
export function checkSameHome({ path, brokerConfig, loopConfig }: Home): void {
  const homes = {
    [brokerConfig]: readBrokerConfig(brokerConfig, path).layout.home,
    [loopConfig]: readLoopConfig(loopConfig, path).layout.home,
  };
  for (const [file, named] of Object.entries(homes)) {
    if (named === path) continue;
    throw new Failure(
      `${display(file)} names another home, ${display(named)}`,
      "correct it, or move it away: it is then written anew",
    );
  }
}

/**
 * Writes loopd's configuration for a run with the model server at `url`: `home`'s own with that address
 * in it. Returns its path. Throws `ConfigError`.
 */
export function loopConfigForRun({ path, loopConfig }: Home, url: string): string {
  // Whatever is wrong with it is said of the owner's file.
  readLoopConfig(loopConfig, path);
  const own = parse(Deno.readTextFileSync(loopConfig));
  const llama = typeof own.llama === "object" ? own.llama : {};
  const forRun = `${path}/run/loopd.toml`;
  const content = stringify({ ...own, llama: { ...llama, url } });
  Deno.writeTextFileSync(forRun, `# Written by a script at each run.\n${content}`, { mode: 0o600 });
  readLoopConfig(forRun, path);
  return forRun;
}

/**
 * Writes brokerd's configuration for a run with `tables` where the owner's own file has none of that name.
 * Returns the path of the file to use. Throws `ConfigError`.
 */
export function brokerConfigForRun(
  { path, brokerConfig }: Home,
  tables: Readonly<Record<string, object>>,
): string {
  readBrokerConfig(brokerConfig, path);
  const own = parse(Deno.readTextFileSync(brokerConfig));
  const forRun = `${path}/run/brokerd.toml`;
  const content = stringify({ ...tables, ...own });
  Deno.writeTextFileSync(forRun, `# Written by a script at each run.\n${content}`, { mode: 0o600 });
  readBrokerConfig(forRun, path);
  return forRun;
}

/** Whether the owner's own configuration of brokerd says how tools run. */
export function namesRunner({ brokerConfig }: Home): boolean {
  return "runner" in parse(Deno.readTextFileSync(brokerConfig));
}
