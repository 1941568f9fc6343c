/**
 * The brokerd that is tortured: `broker/main.ts` as it is, but with a runtime that gives content, so that
 * there is taint to raise, and a clock that the harness steps. Each run is in the journal, a file that no
 * fault touches, before its content is given back.
 *
 * usage: brokerd.ts JOURNAL CLOCK ARGUMENT…     CLOCK: a file with the milliseconds to add to the time
 */
import { main } from "../../broker/main.ts";
import type { RunOutcome, RunSpec, Runtime } from "../../broker/runner.ts";
import { utf8 } from "../../proto/text.ts";

/** Gives as content the path that was asked for; a path below `/fail` makes the tool fail. */
function journalling(journal: string): Runtime {
  const file = Deno.openSync(journal, { append: true, create: true });
  return {
    run({ args }: RunSpec): Promise<RunOutcome> {
      const { tool, ...rest } = args;
      const line = utf8(`${JSON.stringify({ tool, arguments: JSON.stringify(rest) })}\n`);
      if (file.writeSync(line) !== line.length) throw new Error("a short write to the journal");
      const path = args.tool === "read_file" ? args.path : "";
      return Promise.resolve(
        path.startsWith("/fail")
          ? { status: "failed", message: `no such file: ${path}` }
          : { status: "result", content: `the content of ${path}`, truncated: false },
      );
    },
  };
}

/** The time plus what stands in the file `path`, as it was last read: reading it takes a file descriptor. */
function stepped(path: string): () => number {
  let step = 0;
  return () => {
    try {
      step = Number(Deno.readTextFileSync(path));
    } catch {
      // the step of last time
    }
    return Date.now() + step;
  };
}

const [journal = "", clock = "", ...args] = Deno.args;
main(args, journalling(journal), stepped(clock));
