/** The documents of the project as tests read them. */

/** The project's folder, its address ending in a slash. */
export const PROJECT = new URL("../../", import.meta.url);

/** The text of `path`, seen from the project's folder. */
export function read(path: string): string {
  return Deno.readTextFileSync(new URL(path, PROJECT));
}

/** The documents: README.md and every `.md` file below docs/, as paths from the project's folder. */
export function documents(): string[] {
  const found = ["README.md"];
  const walk = (directory: string) => {
    for (const { name, isDirectory } of Deno.readDirSync(new URL(directory, PROJECT))) {
      if (isDirectory) walk(`${directory}${name}/`);
      else if (name.endsWith(".md")) found.push(`${directory}${name}`);
    }
  };
  walk("docs/");
  return found.sort();
}

/** A fenced block of a document. */
export interface Block {
  /** The word after the opening fence; empty where there is none. */
  readonly language: string;
  readonly lines: readonly string[];
}

/** The fenced blocks of `markdown`, in order. */
export function blocks(markdown: string): Block[] {
  return [...markdown.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language, content]) => ({
    language: language ?? "",
    lines: (content ?? "").split("\n").slice(0, -1),
  }));
}

/** The anchors of the headings of `markdown`, as a reader of it makes them. */
export function anchors(markdown: string): Set<string> {
  const prose = markdown.replace(/^```[\s\S]*?^```$/gm, "");
  const headings = [...prose.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading]) => heading ?? "");
  return new Set(
    headings.map((heading) =>
      heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(" ", "-")
    ),
  );
}

/** The relative links of `markdown` that do not stand in a block. */
export function links(markdown: string): string[] {
  const prose = markdown.replace(/^```[\s\S]*?^```$/gm, "");
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target ?? "")
    .filter((target) => !/^[a-z]+:/.test(target));
}
