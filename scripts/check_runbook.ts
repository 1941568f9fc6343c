/**
 * Holds the messages and docs/runbook.md together (specification 11): every message of a state that
 * refuses names an entry that exists, every entry has its five parts, and none is left over.
 */
import { resolve } from "node:path";
import { display } from "../proto/escape.ts";
import { Failure, readArgs, runScript } from "./support/cli.ts";
import { PROJECT } from "./support/roles.ts";

const HELP = `check_runbook checks that every named entry of docs/runbook.md exists and is whole

usage: scripts/check-runbook [FOLDER]

  FOLDER    the project (default this one)
  --help    this text

exit status: 0 every entry is there, 1 something is missing or left over, 2 wrong usage`;

/** Where entries are named. */
const SEARCHED = ["broker", "loop", "ctl", "proto", "scripts", "docs"] as const;
const RUNBOOK = "docs/runbook.md";

/** The parts of an entry, in order (specification 11). */
export const PARTS = [
  "What you see",
  "Why the system refuses",
  "How to confirm",
  "How to fix",
  "How to check the fix",
] as const;

export interface Source {
  readonly file: string;
  readonly text: string;
}

/** A place that names an entry; `anchor` is null where what it names cannot be read off. */
interface Reference {
  readonly place: string;
  readonly anchor: string | null;
}

/** A call of `runbook` with its argument, where that is a literal. */
const CALL = /(?<!function )\brunbook\((?:"([\w-]+)"\))?/g;

/** The references in a file: `docs/runbook.md#<anchor>`, and in code the argument of `runbook`. */
export function referencesIn({ file, text }: Source): Reference[] {
  return text.split("\n").flatMap((line, index) => {
    const place = `${file}:${index + 1}`;
    const named = [...line.matchAll(/docs\/runbook\.md#([\w-]+)/g)].map(([, anchor = ""]) =>
      anchor
    );
    const calls = file.endsWith(".ts") ? [...line.matchAll(CALL)] : [];
    const given = calls.map(([, anchor]) => anchor ?? null);
    return [...named, ...given].map((anchor) => ({ place, anchor }));
  });
}

/** An entry of the runbook: a level-2 heading, and the level-3 headings with the text below each. */
interface Entry {
  readonly anchor: string;
  readonly line: number;
  readonly parts: { readonly heading: string; text: string }[];
}

/** The entries of the runbook's text. Nothing in a fenced block is a heading. */
export function entriesIn(markdown: string): Entry[] {
  const entries: Entry[] = [];
  let fenced = false;
  for (const [index, line] of markdown.split("\n").entries()) {
    if (/^(```|~~~)/.test(line)) fenced = !fenced;
    const [, level, heading = ""] = fenced ? [] : /^(#{2,3}) (.*)$/.exec(line) ?? [];
    const part = entries.at(-1)?.parts.at(-1);
    if (level === "##") entries.push({ anchor: heading, line: index + 1, parts: [] });
    else if (level === "###") entries.at(-1)?.parts.push({ heading, text: "" });
    else if (part !== undefined) part.text += line.trim();
  }
  return entries;
}

/** What is wrong with the runbook or with what names its entries, in words. */
export function problemsOf(markdown: string, sources: readonly Source[]): string[] {
  const entries = entriesIn(markdown);
  const references = sources.flatMap(referencesIn);
  const has = (anchor: string) => entries.some((entry) => entry.anchor === anchor);
  // The samples in the runbook repeat the messages: they do not count as naming their entry.
  const named = new Set(
    references.filter(({ place }) => !place.startsWith(`${RUNBOOK}:`)).map(({ anchor }) => anchor),
  );
  return [
    ...references.flatMap(({ place, anchor }) => {
      if (anchor === null) return [`${place}: runbook is not given the entry's name as a literal`];
      return has(anchor) ? [] : [`${place}: ${RUNBOOK} has no entry ## ${anchor}`];
    }),
    ...entries.flatMap(({ anchor, line, parts }, index) => {
      const at = `${RUNBOOK}:${line}: ${anchor}`;
      const headings = parts.map(({ heading }) => heading).join(", ");
      const empty = parts.filter(({ text }) => text === "").map(({ heading }) => heading);
      return [
        ...entries.findIndex((entry) => entry.anchor === anchor) < index
          ? [`${at} is there twice`]
          : [],
        ...headings === PARTS.join(", ")
          ? []
          : [`${at} has the parts [${headings}], not [${PARTS.join(", ")}]`],
        ...empty.map((heading) => `${at}: nothing stands under ${heading}`),
        ...named.has(anchor) ? [] : [`${at} is named nowhere`],
      ];
    }),
  ];
}

/** The files below `folder` of the project `project` in which entries may be named. */
function sourcesIn(project: string, folder: string): Source[] {
  return [...Deno.readDirSync(`${project}/${folder}`)].flatMap(({ name, isDirectory }) => {
    const file = `${folder}/${name}`;
    if (isDirectory) return sourcesIn(project, file);
    return [{ file, text: Deno.readTextFileSync(`${project}/${file}`) }];
  });
}

function main(args: string[]): number {
  const { positionals } = readArgs({ args, allowPositionals: true });
  const project = resolve(positionals[0] ?? PROJECT);
  const sources = SEARCHED.flatMap((folder) => sourcesIn(project, folder));
  const runbook = sources.find(({ file }) => file === RUNBOOK);
  if (runbook === undefined) throw new Failure(`there is no ${RUNBOOK}`);
  const problems = problemsOf(runbook.text, sources);
  if (problems.length > 0) throw new Failure(...problems.map(display));
  console.log(`check_runbook: ${entriesIn(runbook.text).length} entries, each named and whole`);
  return 0;
}

if (import.meta.main) await runScript("check_runbook", HELP, Deno.args, main);
