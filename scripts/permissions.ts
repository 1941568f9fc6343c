/** `deno task permissions ROLE`: the Deno flags of one role, one a line (contracts 1). */
import { display } from "../proto/escape.ts";
import { readArgs, runScript, UsageError } from "./support/cli.ts";
import { flagsFor, roleOf } from "./support/roles.ts";

const HELP = `permissions prints the Deno flags that a role is started with, one a line

usage: deno task permissions ROLE [--config PATH]
       deno task permissions bxctl [--config PATH] [--home PATH] [--admin-socket PATH] [--loop-socket PATH]
                                   [--with-grants] [--writes-grants] [--grants DIR] [--out FILE]
                                   [--for-doctor]

  ROLE             brokerd (or broker), loopd (or loop), bxctl (or ctl)
  --config PATH    the role's configuration (default /etc/boxmaker/ROLE.toml, which may be missing)
  --with-grants    of bxctl: for a command that reads the grants (why, grants test, replay and check)
  --writes-grants  of bxctl: for approve --remember and grants revoke, which read and write them
  --grants DIR     of bxctl: the same, for this directory of grants
  --out FILE       of bxctl: for audit report, which reads the grants and writes this file
  --for-doctor     of bxctl: for doctor, which looks at the machine
  --help           this text

environment: BOXMAKER_HOME   the home where the configuration names none (default /var/lib/boxmaker)
exit status: 0 printed, 1 the configuration cannot be used, 2 wrong usage`;

/** What bxctl takes on its command line beside its configuration. */
const PLACES = ["home", "admin-socket", "loop-socket", "grants", "out"] as const;

function main(args: string[]): number {
  const path = { type: "string" } as const;
  const { values, positionals } = readArgs({
    args,
    allowPositionals: true,
    options: {
      ...{ "config": path, "home": path, "admin-socket": path, "loop-socket": path },
      ...{ "grants": path, "out": path, "with-grants": { type: "boolean", default: false } },
      ...{ "writes-grants": { type: "boolean", default: false } },
      ...{ "for-doctor": { type: "boolean", default: false } },
    },
  });
  const [name, ...more] = positionals;
  const role = name === undefined ? null : roleOf(name);
  if (role === null) throw new UsageError("name one role: brokerd, loopd or bxctl");
  if (more[0] !== undefined) {
    throw new UsageError(`one role at a time, and not ${display(more[0])} too`);
  }
  const foreign = role === "bxctl" ? undefined : PLACES.find((place) => values[place]);
  if (foreign !== undefined) throw new UsageError(`--${foreign} is for bxctl only`);
  for (const name of ["with-grants", "writes-grants", "for-doctor"] as const) {
    if (role !== "bxctl" && values[name]) throw new UsageError(`--${name} is for bxctl only`);
  }
  const readsGrants = values["with-grants"] || values.grants !== undefined ||
    values.out !== undefined;
  const flags = flagsFor(role, values, Deno.env.get("BOXMAKER_HOME"), {
    ...{ readsGrants, writesGrants: values["writes-grants"], examines: values["for-doctor"] },
  });
  for (const flag of flags) console.log(flag);
  return 0;
}

if (import.meta.main) await runScript("permissions", HELP, Deno.args, main);
