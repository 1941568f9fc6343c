/** The manual's pages: their sections and entries as the source has them, and how programs print them. */
import { existsSync } from "node:fs";
import { PROJECT } from "./docs.ts";

export const PAGES = ["bxctl.1", "brokerd.8", "loopd.8", "boxmaker-grants.5"] as const;
export type Page = (typeof PAGES)[number];

export function pathOf(page: Page): string {
  return new URL(`docs/man/${page}`, PROJECT).pathname;
}

/** The text of each section of `page`, by its title. */
export function sectionsOf(page: Page): Map<string, string> {
  const parts = Deno.readTextFileSync(pathOf(page)).split(/^\.SH (.*)\n/m).slice(1);
  const sections = new Map<string, string>();
  for (let at = 0; at < parts.length; at += 2) sections.set(parts[at] ?? "", parts[at + 1] ?? "");
  return sections;
}

/** Text as it reads: without requests, changes of font and escapes. */
export function plainText(source: string): string {
  return source
    .replace(
      /^\.(?:[BI][RI]?|R[BI]) (.*)$/gm,
      (_, words: string) => words.replace(/ (?=[.,;)])/g, ""),
    )
    .replace(/^\..*$/gm, "")
    .replace(/\\f[BIR]/g, "")
    .replaceAll("\\-", "-").replaceAll("\\(aq", "'").replaceAll("\\(dq", '"')
    .replaceAll("\\(ti", "~").replaceAll("\\e", "\\")
    .replace(/\s+/g, " ").trim();
}

/** The entries of a section: the words at its edge, and what is said of them. */
export function entriesOf(section: string): { readonly head: string; readonly text: string }[] {
  return section.split(/^\.TP\n/m).slice(1).map((entry) => {
    const [head = "", ...lines] = entry.split("\n");
    return { head: plainText(head.replace(/" "?|"/g, "")), text: plainText(lines.join("\n")) };
  });
}

/** Whether Debian's package of `program` is there. */
export function hasProgram(program: "groff" | "mandoc"): boolean {
  return existsSync(`/usr/bin/${program}`);
}

/** What `program` prints to the one stream and complains of on the other. */
export async function printed(
  program: "groff" | "mandoc",
  ...args: readonly string[]
): Promise<{ readonly out: string; readonly said: string }> {
  const { stdout, stderr } = await new Deno.Command(program, { args: [...args] }).output();
  const decoder = new TextDecoder();
  return { out: decoder.decode(stdout), said: decoder.decode(stderr) };
}
