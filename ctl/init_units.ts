/** The service units of a home: the samples of docs/samples/systemd/user/ with its places in them. Pure. */
import broker from "../docs/samples/systemd/user/boxmaker-brokerd.service" with { type: "text" };
import loop from "../docs/samples/systemd/user/boxmaker-loopd.service" with { type: "text" };
import type { PlannedFile } from "./init_files.ts";

const UNITS = { "boxmaker-brokerd.service": broker, "boxmaker-loopd.service": loop } as const;

/** Where the samples have the home, the configuration and Boxmaker itself. */
const SAMPLE = {
  home: "%h/.local/state/boxmaker",
  config: "%h/.config/boxmaker",
  project: "%h/boxmaker",
} as const;

/** What stands in a unit as it is, without quotes or escapes. */
const PLAIN = /^\/[\w@+:./-]*$/;

/**
 * The units for the daemons of `home`, whose configuration lies in it, with Boxmaker in `project`; both
 * are absolute paths. None where a path would have to be quoted.
 */
export function unitsFor(home: string, project: string): PlannedFile[] {
  if (![home, project].every((path) => PLAIN.test(path))) return [];
  return Object.entries(UNITS).map(([name, sample]) => ({
    path: `${home}/systemd/${name}`,
    content: sample.replaceAll(SAMPLE.home, home).replaceAll(SAMPLE.config, home)
      .replaceAll(SAMPLE.project, project),
  }));
}
