/** The pages of the manual: what they say is what the tables, the schemas and the readers have. */
import assert from "node:assert/strict";
import * as z from "zod";
import { Schema as BrokerSchema } from "../../broker/config.ts";
import { readGrant } from "../../broker/grant_rules.ts";
import { type CommandName, COMMANDS, type CommandSpec, OPTIONS } from "../../ctl/commands.ts";
import { readLoopConfig, Schema as LoopSchema } from "../../loop/config.ts";
import { Constraints, Grant, GRANT_MODES } from "../../proto/grants.ts";
import { DATA_CLASSES, TOOL_NAMES } from "../../proto/tools.ts";
import { regenerated, roff } from "../../scripts/support/man.ts";
import { mainOf } from "../../scripts/support/roles.ts";
import { type GrantFields, grantFile } from "../support/grants.ts";
import { PROJECT } from "../support/docs.ts";
import {
  entriesOf,
  hasProgram,
  type Page,
  PAGES,
  pathOf,
  plainText,
  printed,
  sectionsOf,
} from "../support/manual.ts";
import { runScript, TempDir } from "../support/scripts.ts";
import { utf8 } from "../../proto/text.ts";

function section(page: Page, title: string): string {
  const text = sectionsOf(page).get(title);
  assert.ok(text !== undefined, `${page} has no section ${title}`);
  return text;
}

Deno.test("every command and option of the table is in bxctl.1 with its words, and nothing else", () => {
  const commands = entriesOf(section("bxctl.1", "COMMANDS"));
  const names = Object.keys(COMMANDS) as CommandName[];
  assert.equal(commands.length, names.length);
  for (const [index, name] of names.entries()) {
    const { operand, needed = [], options, about }: CommandSpec = COMMANDS[name];
    const { head, text } = commands[index] ?? { head: "", text: "" };
    assert.equal(text, `${about}.`);
    const [words] = head.split(/ [[-]/, 1);
    assert.equal(words, operand === null ? name : `${name} ${operand}`);
    const listed = [...head.matchAll(/--([a-z-]+)/g)].map(([, option]) => option);
    assert.deepEqual(listed, [...needed, ...options]);
  }
  const options = entriesOf(section("bxctl.1", "OPTIONS"));
  const expected = Object.entries(OPTIONS).map(([name, { value, about }]) => ({
    head: value === null ? `--${name}` : `--${name} ${value}`,
    text: `${about}.`,
  }));
  assert.deepEqual(options, expected);
});

Deno.test("what is generated in bxctl.1 is what would be written now", () => {
  const page = Deno.readTextFileSync(pathOf("bxctl.1"));
  assert.equal(regenerated(page), page, "write it: deno task man");
  const other = page.replace("talk with the model.\n", "talk with nobody.\n");
  assert.notEqual(other, page);
  assert.equal(regenerated(other), page);
  assert.throws(() => regenerated("no page\n"), /the page has no place for its commands/);
});

Deno.test("text is escaped for man", () => {
  assert.equal(
    roff(`.a 'b' "c" \\d -e ^~\``),
    "\\&.a \\(aqb\\(aq \\(dqc\\(dq \\ed \\-e \\(ha\\(ti\\(ga",
  );
});

/** A key of a configuration, as JSON Schema describes it. */
const Described = z.object({
  type: z.string().optional(),
  minimum: z.number().optional(),
  maximum: z.number().optional(),
  default: z.unknown().optional(),
  enum: z.array(z.string()).optional(),
});
const Tables = z.object({
  properties: z.record(z.string(), z.object({ properties: z.record(z.string(), Described) })),
});

/** The keys of a configuration's tables, as `[table] key`. */
function keysOf(schema: z.ZodType): Map<string, z.infer<typeof Described>> {
  const { properties } = Tables.parse(z.toJSONSchema(schema, { io: "input" }));
  return new Map(
    Object.entries(properties).flatMap(([table, { properties: keys }]) =>
      Object.entries(keys).map(([key, described]) => [`[${table}] ${key}`, described] as const)
    ),
  );
}

/** What a page says of each key. */
function describedIn(page: Page): Map<string, string> {
  const tables = section(page, "CONFIGURATION").split(/^\.SS /m).slice(1);
  return new Map(tables.flatMap((table) => {
    const [name = ""] = table.split("\n", 1);
    return entriesOf(table).map(({ head, text }) => [`${name} ${head}`, text] as const);
  }));
}

/** Defaults that are not in the schema, as the reader gives them. */
function loopDefaults(): Record<string, unknown> {
  using place = new TempDir();
  const { llama } = readLoopConfig(place.write("loopd.toml", ""), undefined);
  return { "[llama] timeout_ms": llama.timeoutMs, "[llama] max_tool_calls": llama.maxToolCalls };
}

const DAEMONS = [
  { page: "brokerd.8", schema: BrokerSchema, role: "brokerd", defaults: {} },
  { page: "loopd.8", schema: LoopSchema, role: "loopd", defaults: loopDefaults() },
] as const;

for (const { page, schema, role, defaults } of DAEMONS) {
  Deno.test(`${page} has every key of the configuration with its limits and its default, and no other`, () => {
    const keys = keysOf(schema);
    const described = describedIn(page);
    assert.deepEqual([...described.keys()].sort(), [...keys.keys()].sort());
    for (const [key, spec] of keys) {
      const text = described.get(key) ?? "";
      const usual = spec.default ?? new Map(Object.entries(defaults)).get(key);
      if (spec.type === "integer") {
        const limits = `From ${spec.minimum} to ${spec.maximum}; default ${usual}.`;
        assert.ok(text.includes(limits), `${key}: ${limits}\n${text}`);
      } else if (typeof usual === "string") {
        assert.match(text, new RegExp(`default (is )?${usual.replaceAll("/", "\\/")}\\.`), key);
      } else assert.match(text, /Left out, |by default |Needed for /, key);
      for (const word of spec.enum ?? []) assert.match(text, new RegExp(`\\b${word}\\b`), key);
    }
  });

  Deno.test(`${page} has every option of the command line, and no other`, async () => {
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--quiet", "--no-prompt", mainOf(role), "--help"],
    }).output();
    const help = new TextDecoder().decode(stdout);
    const offered = [...help.matchAll(/^ {2}(--[a-z-]+(?: [A-Z]+)?) /gm)].map(([, option]) =>
      option
    );
    assert.ok(offered.includes("--config PATH"));
    const heads = entriesOf(section(page, "OPTIONS")).map(({ head }) => head);
    assert.deepEqual(heads.sort(), offered.sort());
    const synopsis = plainText(section(page, "SYNOPSIS"));
    for (const option of offered) assert.ok(synopsis.includes(option?.split(" ")[0] ?? ""), option);
  });
}

Deno.test("the entry of the runbook that brokerd.8 names is there", () => {
  const { text = "" } = entriesOf(section("brokerd.8", "OPTIONS"))
    .find(({ head }) => head === "--accept-break") ?? {};
  const [, entry] = /See the entry ([a-z-]+) of docs\/runbook\.md/.exec(text) ?? [];
  const runbook = Deno.readTextFileSync(new URL("docs/runbook.md", PROJECT));
  assert.ok(entry !== undefined && runbook.includes(`\n## ${entry}\n`), text);
});

Deno.test("boxmaker-grants.5 has every key of a grant with its words, and no other", () => {
  const keys = new Map(
    entriesOf(section("boxmaker-grants.5", "KEYS")).map(({ head, text }) => [head, text]),
  );
  const { constraints: _, ...own } = Grant.shape;
  assert.deepEqual([...keys.keys()], Object.keys(own));
  const words = {
    tool: TOOL_NAMES,
    mode: GRANT_MODES,
    max_taint: DATA_CLASSES,
    result_class: DATA_CLASSES,
  };
  for (const [key, values] of Object.entries(words)) {
    for (const word of values) assert.match(keys.get(key) ?? "", new RegExp(`\\b${word}\\b`), key);
    assert.match(keys.get(key) ?? "", /Needed\.$/, key);
  }
  for (const key of Object.keys(own).filter((key) => !Object.hasOwn(words, key))) {
    assert.doesNotMatch(keys.get(key) ?? "", /Needed/, key);
  }
  const constraints = entriesOf(section("boxmaker-grants.5", "CONSTRAINTS"));
  assert.deepEqual(constraints.map(({ head }) => head), Object.keys(Constraints.shape));
});

/** Whether the reader takes a grant with these fields. */
function isValid(fields: GrantFields): boolean {
  return !Array.isArray(readGrant("g.toml", utf8(grantFile(fields))));
}

Deno.test("boxmaker-grants.5 says what the reader takes: constraints of each tool, and its examples", () => {
  const tools = entriesOf(section("boxmaker-grants.5", "TOOLS"));
  assert.deepEqual(tools.map(({ head }) => head), [...TOOL_NAMES]);
  for (const { head: tool, text } of tools) {
    const [, paths, hosts] = /^paths: (\w+); hosts: (\w+)\./.exec(text) ?? [];
    const given = { paths: { paths: ["/n"] }, hosts: { hosts: ["example.com"] } };
    const wanted = {
      ...paths === "required" ? given.paths : {},
      ...hosts === "required" ? given.hosts : {},
    };
    assert.ok(isValid({ tool, constraints: wanted }), tool);
    for (const [name, need] of [["paths", paths], ["hosts", hosts]] as const) {
      assert.match(need ?? "", /^(required|optional|none)$/, tool);
      const { [name]: _, ...without } = { paths: undefined, hosts: undefined, ...wanted };
      const others = Object.fromEntries(Object.entries(without).filter(([, value]) => value));
      assert.equal(isValid({ tool, constraints: { ...wanted, ...given[name] } }), need !== "none");
      assert.equal(isValid({ tool, constraints: others }), need !== "required", `${tool} ${name}`);
    }
  }
  const examples = section("boxmaker-grants.5", "EXAMPLES").split(/^\.EX\n/m).slice(1)
    .map((part) => part.split(/^\.EE$/m, 1)[0] ?? "");
  assert.equal(examples.length, 2);
  for (const example of examples) {
    assert.ok(!Array.isArray(readGrant("example.toml", utf8(example))), example);
  }
});

Deno.test("each page has the sections that its reader looks for, and names the others", () => {
  const needed = {
    "bxctl.1": ["SIGNALS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"],
    "brokerd.8": ["SIGNALS", "EXIT STATUS", "ENVIRONMENT", "FILES"],
    "loopd.8": ["SIGNALS", "EXIT STATUS", "ENVIRONMENT", "FILES"],
    "boxmaker-grants.5": ["FILES", "EXAMPLES"],
  } as const satisfies Record<Page, readonly string[]>;
  for (const page of PAGES) {
    const [name = "", number = ""] = page.split(".");
    const source = Deno.readTextFileSync(pathOf(page));
    assert.ok(source.startsWith(`.TH ${name.toUpperCase()} ${number} 2026-12-01 Boxmaker\n`), page);
    const titles = [...sectionsOf(page).keys()];
    for (const title of ["NAME", "DESCRIPTION", "SEE ALSO", ...needed[page]]) {
      assert.ok(titles.includes(title), `${page}: ${title}`);
    }
    for (const other of PAGES.filter((other) => other !== page)) {
      const [title = "", part = ""] = other.split(".");
      const see = plainText(section(page, "SEE ALSO"));
      assert.ok(see.includes(`${title} (${part})`), `${page}: ${other}`);
    }
  }
});

Deno.test({
  name: "groff and mandoc read the pages without a warning",
  // groff or mandoc is not there; Debian has them in the packages groff-base and mandoc.
  ignore: !hasProgram("groff") || !hasProgram("mandoc"),
  fn: async () => {
    using place = new TempDir();
    const bad = place.write("bad.1", ".TH BAD 1\n.XX\n\\fBhello\n");
    const groff = (path: string) => printed("groff", "-man", "-Tutf8", "-ww", path);
    const mandoc = (path: string) => printed("mandoc", "-Tlint", "-Wwarning", path);
    assert.notEqual((await groff(bad)).said, "");
    assert.notEqual((await mandoc(bad)).out, "");
    for (const page of PAGES) {
      assert.equal((await groff(pathOf(page))).said, "", page);
      assert.deepEqual(await mandoc(pathOf(page)), { out: "", said: "" }, page);
    }
    // What is read in the end has the words of the table as they are.
    const { out } = await printed("mandoc", "-Tascii", "-Owidth=200", pathOf("bxctl.1"));
    const text = out.replace(/.(?!\n)\p{Cc}/gu, "").replace(/\s+/g, " ");
    for (const { about } of [...Object.values(COMMANDS), ...Object.values(OPTIONS)]) {
      assert.ok(text.includes(` ${about}. `), about);
    }
    for (const option of Object.keys(OPTIONS)) assert.ok(text.includes(` --${option}`), option);
  },
});

Deno.test("deno task man finds nothing to write", async () => {
  const ran = await runScript("man.ts", ["--check"]);
  assert.deepEqual(ran, { code: 0, stdout: "", stderr: "" });
});
