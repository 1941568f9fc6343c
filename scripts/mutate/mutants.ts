/** The mutants of a file, with names and in an order that stay the same. */
import { fileURLToPath } from "node:url";
import * as z from "zod";
import { Failure } from "../support/cli.ts";
import type { Change } from "./changes.ts";

const PLUGIN = fileURLToPath(new URL("plugin.ts", import.meta.url));

/** One change of one file. */
export interface Mutant {
  /** `broker/policy.ts:120:9 === to !==`: the file, the line, the column and what is done. */
  readonly id: string;
  readonly file: string;
  /** The function or method that it stands in, or an empty text. */
  readonly within: string;
  /** The lines that are changed, as one, and what becomes of them. */
  readonly from: string;
  readonly to: string;
  /** The whole source with the change. */
  readonly source: string;
}

const Changes = z.array(z.strictObject({
  operator: z.string(),
  start: z.int(),
  end: z.int(),
  text: z.string(),
  within: z.string(),
}));

const Linted = z.object({
  diagnostics: z.array(z.object({ code: z.string(), message: z.string() })),
  errors: z.array(z.object({ message: z.string() })),
});

/** The changes that the plugin finds in the file at `path`. */
async function changesIn(path: string): Promise<Change[]> {
  const config = Deno.makeTempFileSync({ prefix: "boxmaker-", suffix: ".json" });
  try {
    const rules = { tags: [], include: ["mutate/mutants"] };
    Deno.writeTextFileSync(config, JSON.stringify({ lint: { plugins: [PLUGIN], rules } }));
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["lint", "--json", `--config=${config}`, path],
      stdin: "null",
    }).output();
    const text = new TextDecoder();
    const linted = Linted.safeParse(JSON.parse(text.decode(stdout) || "null"));
    const { diagnostics = [], errors = [] } = linted.data ?? {};
    const message = diagnostics.find(({ code }) => code === "mutate/mutants")?.message;
    if (message !== undefined) return Changes.parse(JSON.parse(message));
    throw new Failure(
      `${path} cannot be read`,
      ...errors.map(({ message }) => message)
        .concat(text.decode(stderr).trim()),
    );
  } finally {
    Deno.removeSync(config);
  }
}

/** `source` from the start of the line of `start` to the end of the line of `end`, on one line. */
function linesOf(source: string, start: number, end: number): string {
  const from = source.lastIndexOf("\n", start - 1) + 1;
  const to = source.indexOf("\n", end);
  return source.slice(from, to < 0 ? source.length : to).replace(/\s+/g, " ").trim();
}

/** The mutants that `changes` make of the source of `file`, in their order. */
export function mutantsOf(file: string, source: string, changes: readonly Change[]): Mutant[] {
  const seen = new Map<string, number>();
  return changes.map(({ operator, start, end, text, within }) => {
    const changed = source.slice(0, start) + text + source.slice(end);
    const before = source.slice(0, start).split("\n");
    const place = `${file}:${before.length}:${(before.at(-1) ?? "").length + 1} ${operator}`;
    const times = (seen.get(place) ?? 0) + 1;
    seen.set(place, times);
    return {
      id: times === 1 ? place : `${place} #${times}`,
      file,
      within,
      from: linesOf(source, start, end),
      to: linesOf(changed, start, start + text.length),
      source: changed,
    };
  });
}

/** The mutants of `file`, seen from `root`. Throws `Failure` where it cannot be read. */
export async function mutantsIn(root: string, file: string): Promise<Mutant[]> {
  const path = `${root}/${file}`;
  return mutantsOf(file, Deno.readTextFileSync(path), await changesIn(path));
}
