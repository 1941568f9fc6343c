/** docs/known-attacks.md names only tests that exist, and every test that was written for it. */
import assert from "node:assert/strict";
import { PROJECT, read } from "../support/docs.ts";

/** The name of a test as its source has it, between quotes or as a template. */
interface NamedTest {
  readonly file: string;
  readonly name: string;
}

interface Entry {
  readonly title: string;
  /** The text that tells what went wrong elsewhere. */
  readonly fault: string;
  /** The points of the list, in order. */
  readonly points: readonly (readonly [label: string, text: string])[];
}

const LABELS = ["Input", "Here", "Test", "Not closed"];
/** Files of tests that were written for the document. */
const OWN = /^tests\/e2e\/known_attacks_\w+_test\.ts$/;

/** `text` on one line, as it reads wherever it was wrapped. */
const oneLine = (text: string) => text.replace(/\s+/g, " ").trim();

/** The entries of `markdown`: each heading of the third level. */
function entriesOf(markdown: string): Entry[] {
  const sections = markdown.split(/^### /m).slice(1);
  return sections.map((section) => {
    const [body = ""] = section.split(/^## /m);
    const [head = "", ...items] = body.split(/^- /m);
    const [title = "", ...fault] = head.split("\n");
    return {
      title,
      fault: oneLine(fault.join(" ")),
      points: items.map((item) => {
        const [label = "", ...text] = item.split(":");
        return [label, oneLine(text.join(":"))] as const;
      }),
    };
  });
}

/** What stands between backticks in `text`. */
function codes(text: string): string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, code]) => code ?? "");
}

function textsOf(entry: Entry, label: string): string[] {
  return entry.points.filter(([name]) => name === label).map(([, text]) => text);
}

function testsOf(entry: Entry): NamedTest[] {
  return textsOf(entry, "Test").map((text) => {
    const [file = "", name = ""] = codes(text);
    return { file, name };
  });
}

/** The source of a test file, or null where there is none. */
function sourceOf(file: string): string | null {
  try {
    return /^tests\/\w+\/\w+_test\.ts$/.test(file) ? read(file) : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** What is wrong with `entry`; empty where nothing is. */
function problemsOf(entry: Entry): string[] {
  const { title, fault, points } = entry;
  const found: string[] = [];
  if (!/\b\d{4}\b/.test(title) && !title.includes(":")) found.push("no year and no name");
  if (fault === "") found.push("does not say what went wrong");
  for (const [label] of points) if (!LABELS.includes(label)) found.push(`a point named ${label}`);
  for (const label of ["Input", "Here"]) {
    if (textsOf(entry, label).length !== 1) found.push(`needs one ${label}`);
  }
  const tests = testsOf(entry);
  if (tests.length === 0) found.push("names no test");
  const [input = ""] = textsOf(entry, "Input");
  const sources = tests.map(({ file, name }) => {
    const source = sourceOf(file);
    if (source === null) found.push(`there is no ${file}`);
    else if (!source.includes(`"${name}"`) && !source.includes(`\`${name}\``)) {
      found.push(`${file} has no test ${name}`);
    }
    return oneLine(source ?? "");
  });
  if (tests.every(({ file }) => OWN.test(file))) {
    // Other tests may build what they try, or write it otherwise.
    for (const code of codes(input)) {
      if (!sources.some((source) => source.includes(code))) found.push(`no test tries ${code}`);
    }
  }
  return found.map((problem) => `${title}: ${problem}`);
}

/** The tests of the document's own files, by their names: those that begin with a fault and a year. */
function ownTests(): NamedTest[] {
  const files = [...Deno.readDirSync(new URL("tests/e2e/", PROJECT))]
    .map(({ name }) => `tests/e2e/${name}`).filter((file) => OWN.test(file));
  return files.flatMap((file) =>
    [...read(file).matchAll(/"((?:CVE|GHSA|[A-Z])[^"\n]*\d{4}[^"\n:]*: [^"\n]+)"/g)]
      .map(([, name]) => ({ file, name: name ?? "" }))
  );
}

const entries = entriesOf(read("docs/known-attacks.md"));

Deno.test("every entry of known-attacks.md names its input, its outcome and a test that exists", () => {
  assert.ok(entries.length >= 30, `${entries.length} entries`);
  assert.deepEqual(entries.flatMap(problemsOf), []);
  assert.equal(new Set(entries.map(({ title }) => title)).size, entries.length, "each once");
});

Deno.test("every test that was written for known-attacks.md is named there", () => {
  const named = new Set(entries.flatMap(testsOf).map(({ file, name }) => `${file}: ${name}`));
  const own = ownTests();
  assert.ok(own.length >= 30, `${own.length} tests`);
  assert.deepEqual(own.filter(({ file, name }) => !named.has(`${file}: ${name}`)), []);
});

Deno.test("an entry without its test, its input or its fault is noticed", () => {
  const file = "tests/e2e/known_attacks_prompts_test.ts";
  const whole = "### A fault, 2020\n\nIt went\nwrong.\n\n- Input: `\\x9b21t`\n- Here: escaped.\n" +
    `- Test: \`${file}\`:\n  \`CVE-2003-0063: the window's title as input\`\n`;
  const problems = (text: string) => entriesOf(text).flatMap(problemsOf).join("; ");
  assert.equal(problems(whole), "");
  assert.match(problems(whole.replace("title as", "name as")), /has no test CVE-2003-0063/);
  assert.match(problems(whole.replace("prompts_test", "absent_test")), /there is no tests/);
  assert.match(problems(whole.replace("21t", "22t")), /no test tries \\x9b22t/);
  assert.match(problems(whole.replace(/- Test[^]*/, "")), /names no test/);
  assert.match(problems(whole.replace("- Here", "- There")), /a point named There; .*one Here/);
  assert.match(problems(whole.replace("It went\nwrong.", "")), /does not say what went wrong/);
});
