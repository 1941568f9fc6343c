/**
 * What a new home holds (contracts 1): its directories, the configuration of each program, grants to begin
 * with, and a note to read. `bxctl init` and the scripts make their homes from here. Pure.
 */
import type { Layout } from "../proto/layout.ts";

export interface PlannedFile {
  /** Absolute. */
  readonly path: string;
  readonly content: string;
}

/** A directory of mode 0700. What is planned in it is made with it, and never in one that is there already. */
export interface PlannedDirectory {
  /** Absolute. */
  readonly path: string;
  readonly directories: readonly string[];
  readonly files: readonly PlannedFile[];
  /** It belongs to the user of the tools where Boxmaker runs as root. */
  readonly forTools: boolean;
}

/** Everything that is made, each place apart from the others; `files` lie in the home itself. */
export interface HomePlan {
  readonly home: string;
  readonly directories: readonly PlannedDirectory[];
  readonly files: readonly PlannedFile[];
}

/** The directories that the grants to begin with are about. */
export interface Examples {
  readonly notes: string;
  /** Inside the notes. */
  readonly drafts: string;
}

export function examplesIn({ home }: Layout): Examples {
  const notes = `${home}/notes`;
  return { notes, drafts: `${notes}/drafts` };
}

// A TOML string may hold anything but these two as it is; control characters are refused before.
const quoted = (text: string) => `"${text.replace(/["\\]/g, "\\$&")}"`;

const brokerToml = ({ home }: Layout): string =>
  `# brokerd's configuration. Every key: docs/samples/brokerd.toml.
# brokerd runs as the user who starts it, and so do the tools, unless that is root.
[paths]
home = ${quoted(home)} # the grants are in its folder grants/

[approvals]
ttl_ms = 900000 # how long a call waits for your answer: 15 min

# "deno task up" finds Podman by itself. Started in any other way, brokerd decides and runs no tool, until
# [runner] stands here: "deno task image" prints the lines.
`;

const loopToml = ({ home, brokerSocket }: Layout): string =>
  `# loopd's configuration. Every key: docs/samples/loopd.toml.
[paths]
home = ${quoted(home)}

[broker]
socket = ${quoted(brokerSocket)}

[llama]
# The model server: where llama.cpp's llama-server listens unless told otherwise. "deno task up" takes the
# stand-in's address, or the one after --llama, in place of this one.
url = "http://127.0.0.1:8080"
`;

const ctlToml = ({ home }: Layout): string =>
  `# bxctl's configuration. Every key: docs/samples/bxctl.toml. It counts with "bxctl --config" and the path
# of this file; "bxctl --home" and the home, or BOXMAKER_HOME, say the same.
[paths]
home = ${quoted(home)}
`;

/** Grants by their id. Those of a new home, and more for the scripts. */
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
} as const satisfies Record<string, (examples: Examples) => string>;
export type GrantName = keyof typeof GRANTS;

/** The grants that `bxctl init` makes: one that asks, one that does not. */
export const FIRST_GRANTS = ["notes-read", "drafts-write"] as const satisfies readonly GrantName[];

/** The first note. */
export const NOTE = `# Shopping

- milk
- a new lamp for the hall
`;

/** The plan of the home `layout`, with the grants `grants`, and in systemd/ the service units `units`. */
export function planHome(
  layout: Layout,
  grants: readonly GrantName[],
  units: readonly PlannedFile[],
): HomePlan {
  const examples = examplesIn(layout);
  const { notes, drafts } = examples;
  const { home } = layout;
  const directory = (path: string, more: Partial<PlannedDirectory> = {}): PlannedDirectory => ({
    ...{ path, directories: [], files: [], forTools: false },
    ...more,
  });
  const own = [layout.broker, layout.audit, layout.loop, layout.memory];
  const sockets = ["loop-broker", "owner-broker", "owner-loop"].map((name) =>
    `${home}/run/${name}`
  );
  return {
    home,
    directories: [
      ...[...own, ...sockets].map((path) => directory(path)),
      directory(layout.grants, {
        files: grants.map((name) => ({
          path: `${layout.grants}/${name}.toml`,
          content: GRANTS[name](examples),
        })),
      }),
      directory(notes, {
        directories: [drafts],
        files: [{ path: `${notes}/a.md`, content: NOTE }],
        forTools: true,
      }),
      ...units.length === 0 ? [] : [directory(`${home}/systemd`, { files: units })],
    ],
    files: [
      { path: `${home}/brokerd.toml`, content: brokerToml(layout) },
      { path: `${home}/loopd.toml`, content: loopToml(layout) },
      { path: `${home}/bxctl.toml`, content: ctlToml(layout) },
    ],
  };
}
