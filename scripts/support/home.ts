/** A home to try Boxmaker in: the configuration of both daemons, example grants and a note to read. */
import { parse, stringify } from "smol-toml";
import { readBrokerConfig } from "../../broker/config.ts";
import { makeHome } from "../../ctl/init.ts";
import { examplesIn, FIRST_GRANTS, type GrantName, planHome } from "../../ctl/init_files.ts";
import { Failed } from "../../ctl/notices.ts";
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

/** The places of the home `typed`, an absolute path. */
export function homeAt(typed: string): Home {
  const places = layout(typed);
  const { home: path } = places;
  const { notes, drafts } = examplesIn(places);
  return {
    ...{ path, notes, drafts, layout: places },
    brokerConfig: `${path}/brokerd.toml`,
    loopConfig: `${path}/loopd.toml`,
    logs: `${path}/log`,
  };
}

/** The grants of a home that a script makes. */
export const EXAMPLE_GRANTS = [
  ...FIRST_GRANTS,
  "commands-run",
] as const satisfies readonly GrantName[];

/**
 * Makes the home at `path` as `bxctl init` does, with the example grants `grants`. What exists stays as it is,
 * and a home that has a grants directory already gets no further grant. Throws `Failure` and `ConfigError`.
 */
export function prepareHome(
  path: string,
  grants: readonly GrantName[] = EXAMPLE_GRANTS,
): Home {
  const problem = unlockablePath(path);
  if (problem !== null) throw new Failure(`the home ${display(path)} ${problem}`);
  const home = homeAt(path);
  try {
    // A script starts the daemons itself: it has no use for service units.
    makeHome(planHome(home.layout, grants, []));
  } catch (error) {
    throw error instanceof Failed ? new Failure(...error.lines) : error;
  }
  Deno.mkdirSync(home.logs, { recursive: true, mode: 0o700 });
  return home;
}

/** Whether the example grant `name` is among those of `home`. */
export function hasGrant({ layout }: Home, name: GrantName): boolean {
  try {
    return Deno.statSync(`${layout.grants}/${name}.toml`).isFile;
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
