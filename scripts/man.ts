/** `deno task man`: writes what docs/man/bxctl.1 takes from the table of commands. */
import { Failure, readArgs, runScript } from "./support/cli.ts";
import { regenerated } from "./support/man.ts";
import { PROJECT } from "./support/roles.ts";

const HELP = `man writes the commands and options of bxctl into its page of the manual

usage: deno task man [--check]

  --check   change nothing, and fail where the page is not as it should be
  --help    this text

The page is docs/man/bxctl.1, and the commands and options are those of ctl/args.ts. Read it with
man docs/man/bxctl.1, or copy docs/man/*.1, *.5 and *.8 to where your man looks.

exit status: 0 the page is as it should be, 1 it is not, 2 wrong usage`;

const PAGE = "docs/man/bxctl.1";

function main(args: string[]): number {
  const { values: { check } } = readArgs({ args, options: { check: { type: "boolean" } } });
  const path = `${PROJECT}/${PAGE}`;
  const page = Deno.readTextFileSync(path);
  const made = regenerated(page);
  if (made === page) return 0;
  if (check) throw new Failure(`${PAGE} is not what ctl/args.ts says`, "write it: deno task man");
  Deno.writeTextFileSync(path, made);
  console.log(`wrote ${PAGE}`);
  return 0;
}

if (import.meta.main) await runScript("man", HELP, Deno.args, main);
