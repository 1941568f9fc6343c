/** What `deno test` writes as JUnit: which tests ran, and how each came out. Pure. */

export interface TestResult {
  readonly name: string;
  readonly file: string;
  /** 1-based; where the test stands in its file. */
  readonly line: number;
  readonly outcome: "passed" | "failed" | "skipped";
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&apos;": "'",
  "&amp;": "&",
};

function plain(text: string): string {
  return text.replace(/&(?:#(\d+)|#x([0-9a-f]+)|\w+);/gi, (entity, decimal, hex) => {
    if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
    if (hex !== undefined) return String.fromCodePoint(parseInt(hex, 16));
    return ENTITIES[entity] ?? entity;
  });
}

/**
 * The tests of a report. The steps of a test stand behind the tests of their file as `TEST &gt; STEP`;
 * a step that failed has failed its test, so only those count that were skipped.
 */
export function testsIn(report: string): TestResult[] {
  const cases = [...report.matchAll(/<testcase ([^>]*?)(?:\/>|>([^]*?)<\/testcase>)/g)];
  const results: TestResult[] = [];
  for (const [, attributes = "", body = ""] of cases) {
    const attribute = (name: string) =>
      plain(new RegExp(`(?:^| )${name}="([^"]*)"`).exec(attributes)?.[1] ?? "");
    const [name, file] = [attribute("name"), attribute("classname")];
    const outcome = /<(?:failure|error)[ >]/.test(body)
      ? "failed"
      : body.includes("<skipped")
      ? "skipped"
      : "passed";
    const isStep = results.some((test) => test.file === file && name.startsWith(`${test.name} > `));
    if (isStep && outcome !== "skipped") continue;
    results.push({ name, file, line: Number(attribute("line")), outcome });
  }
  return results;
}

/**
 * Why a test is skipped: the comment right above its `ignore:`, which every such test has. Null where
 * there is none. `source` is the text of its file, `line` where the test begins.
 */
export function reasonFor(source: string, line: number): string | null {
  const lines = source.split("\n").slice(line - 1);
  const at = lines.findIndex((text) => /^\s*(?:\{.*)?\bignore: /.test(text));
  const next = lines.findIndex((text, index) => index > 0 && text.startsWith("Deno.test("));
  if (at < 1 || (next >= 0 && next < at)) return null;
  return /^\s*\/\/ (.+)$/.exec(lines[at - 1] ?? "")?.[1] ?? null;
}
