/** Where things lie in Boxmaker's home (contracts 1). Pure. */

/** The home where neither the configuration nor `BOXMAKER_HOME` names one. */
export const DEFAULT_HOME = "/var/lib/boxmaker";
/** Where each role looks for its configuration when none is named. */
export const CONFIG_DIRECTORY = "/etc/boxmaker";

export interface Layout {
  readonly home: string;
  readonly grants: string;
  readonly broker: string;
  readonly brokerSessions: string;
  readonly audit: string;
  readonly loop: string;
  readonly loopSessions: string;
  readonly memory: string;
  readonly core: string;
  readonly brokerSocket: string;
  readonly adminSocket: string;
  readonly loopSocket: string;
}

/**
 * The layout of the home `typed`, an absolute path. A shell completes a directory with a slash at its end; with it, a
 * path below would have an empty component, which no grant may have.
 */
export function layout(typed: string): Layout {
  const home = typed.replace(/\/+/g, "/").replace(/(?<=.)\/$/, "");
  const under = (path: string) => `${home === "/" ? "" : home}/${path}`;
  return {
    home,
    grants: under("grants"),
    broker: under("broker"),
    brokerSessions: under("broker/sessions"),
    audit: under("audit"),
    loop: under("loop"),
    loopSessions: under("loop/sessions"),
    memory: under("memory"),
    core: under("memory/core.md"),
    brokerSocket: under("run/loop-broker/broker.sock"),
    adminSocket: under("run/owner-broker/admin.sock"),
    loopSocket: under("run/owner-loop/loop.sock"),
  };
}

/** The directory that holds `path`, an absolute path. */
export function directoryOf(path: string): string {
  return path.slice(0, Math.max(1, path.lastIndexOf("/")));
}
