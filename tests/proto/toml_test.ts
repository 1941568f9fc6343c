import assert from "node:assert/strict";
import * as z from "zod";
import { Grant } from "../../proto/grants.ts";
import { text } from "../../proto/text.ts";
import { lineOfKey, readToml } from "../../proto/toml.ts";

const Schema = z.strictObject({
  paths: z.strictObject({ home: text.optional(), grants: text.optional() }).default({}),
  n: z.int().min(1).max(100).optional(),
  on: z.boolean().optional(),
  list: z.array(text).default([]),
});

/** The problems of `content`, as `line: problem`. */
function problems(content: string, schema: z.ZodType = Schema): string[] {
  const result = readToml(schema, content);
  assert.ok(!result.ok, "was read");
  return result.problems.map(({ line, problem }) => `${line ?? "-"}: ${problem}`);
}

Deno.test("a file is read with its defaults", { permissions: "none" }, () => {
  assert.deepEqual(readToml(Schema, ""), { ok: true, value: { paths: {}, list: [] } });
  const content = '# a comment\nn = 3\r\nlist = ["a",\n "b"]\n[paths]\nhome = "/h"\n';
  const value = { paths: { home: "/h" }, n: 3, list: ["a", "b"] };
  assert.deepEqual(readToml(Schema, content), { ok: true, value });
  assert.deepEqual(readToml(Schema, 'paths.home = "/h"'), {
    ok: true,
    value: { paths: { home: "/h" }, list: [] },
  });
});

const UNKNOWN = {
  "at the top": ["n = 1\nhme = 2", "2: unknown key hme"],
  "in a table": ['[paths]\nhome = "/h"\n\nhme = 1', "4: unknown key paths.hme"],
  "in a table with spaces": ["[ paths ]\nhme = 1", "2: unknown key paths.hme"],
  "dotted": ["paths.hme = 1", "1: unknown key paths.hme"],
  "dotted with spaces": ["\npaths . hme = 1", "2: unknown key paths.hme"],
  "in an inline table": ['n = 1\npaths = { home = "/h", hme = 1 }', "2: unknown key paths.hme"],
  "a table": ["n = 1\n[other]\nx = 1", "2: unknown key other"],
  "a table in a table that is not there": ["[other.deep]\nx = 1", "1: unknown key other"],
  "a table in a table": ["[paths]\n[paths.deep]\nx = 1", "2: unknown key paths.deep"],
  "a list of tables": ["n = 1\n[[other]]\nx = 1\n[[other]]\n", "2: unknown key other"],
  "a dotted key that begins elsewhere": ["n = 1\nother.deep.x = 1", "2: unknown key other"],
  "in double quotes": ['n = 1\n"hme" = 1', "2: unknown key hme"],
  "in single quotes": ["n = 1\n'hme' = 1", "2: unknown key hme"],
  "with a space": ['n = 1\n"h m" = 1', "2: unknown key h m"],
  "with a dot": ['n = 1\n"paths.home" = 1', "2: unknown key paths.home"],
  "with an escape": ['n = 1\n"h\\u006de" = 1', "2: unknown key hme"],
  "not in ASCII": ['[paths]\n"ü" = 1', "2: unknown key paths.ü"],
  "empty": ['n = 1\n"" = 1', "2: unknown key "],
  "a number": ["n = 1\n123 = 1", "2: unknown key 123"],
  "named __proto__": ["n = 1\n__proto__ = 1", "2: unknown key __proto__"],
  "a table named __proto__": ["[paths.__proto__]\nhome = 1", "1: unknown key paths.__proto__"],
  "constructor": ["n = 1\nconstructor = 1", "2: unknown key constructor"],
  "after text that looks like it": ["list = ['''\nhme = 1\n''']\nhme = 2", "4: unknown key hme"],
  "after text with quotes": ['list = ["""\\"""\nhme = 1\n""""]\nhme = 2', "4: unknown key hme"],
  "after a comment with quotes": ["# it's\nhme = 1 # '''\n", "2: unknown key hme"],
  "after a list that looks like a table": ['list = [\n"[paths]"\n]\nhme = 1', "4: unknown key hme"],
  "after a list of lists": ['hme = [\n["paths"]\n]', "1: unknown key hme"],
  "after an older table": ["[paths]\n[hme]\nhome = 1", "2: unknown key hme"],
  "with Windows line ends": ["n = 1\r\n\r\nhme = 1\r\n", "3: unknown key hme"],
} as const;

for (const [what, [content, problem]] of Object.entries(UNKNOWN)) {
  Deno.test(`an unknown key is named with its line: ${what}`, { permissions: "none" }, () => {
    assert.deepEqual(problems(content), [problem]);
  });
}

const WRONG = {
  "text for a number": ['n = "1"', "1: n: expected number, received string"],
  "a fraction": ["n = 1.5", "1: n: expected int, received number"],
  "too large": ["\nn = 101", "2: n: Too big: expected number to be <=100"],
  "too small": ["n = 0", "1: n: Too small: expected number to be >=1"],
  "larger than can be held": [
    "on = true\nn = 9007199254740993",
    "2: not valid TOML: integer value cannot be represented losslessly",
  ],
  "infinite": ["n = inf", "1: n: expected number, received Infinity"],
  "a number for text": ["[paths]\nhome = 1", "2: paths.home: expected string, received number"],
  "a number, dotted": ["paths.home = 1", "1: paths.home: expected string, received number"],
  "a number, inline": [
    "\npaths = { home = 1 }",
    "2: paths.home: expected string, received number",
  ],
  "a date for text": [
    "[paths]\nhome = 2026-12-01",
    "2: paths.home: expected string, received a date without quotes",
  ],
  "a table for text": ["[paths.home]\nx = 1", "1: paths.home: expected string, received table"],
  "text for a table": ['paths = "/h"', "1: paths: expected table, received string"],
  "a list of tables for a table": ["[[paths]]", "1: paths: expected table, received array"],
  "text for a list": ['list = "a"', "1: list: expected array, received string"],
  "a number in a list": [
    'n = 1\nlist = [\n"a",\n2]',
    "2: list.1: expected string, received number",
  ],
  "text for yes or no": ['on = "yes"', "1: on: expected boolean, received string"],
} as const;

for (const [what, [content, problem]] of Object.entries(WRONG)) {
  Deno.test(`a wrong value is named with its line: ${what}`, { permissions: "none" }, () => {
    assert.deepEqual(problems(content), [problem]);
  });
}

const INVALID = {
  "a byte-order mark": ["\ufeffn = 1", "1: starts with a byte-order mark"],
  "no value": ["on = true\nn =\n", "2: not valid TOML: invalid value"],
  "a key twice": [
    "n = 1\n\nn = 2",
    "3: not valid TOML: trying to redefine an already defined table or value",
  ],
  "a table twice": [
    "[paths]\n[paths]",
    "2: not valid TOML: trying to redefine an already defined table or value",
  ],
  "a leading zero": ["n = 07", "1: not valid TOML: illegal leading zero"],
} as const;

for (const [what, [content, problem]] of Object.entries(INVALID)) {
  Deno.test(`what is not TOML is named with its line: ${what}`, { permissions: "none" }, () => {
    assert.deepEqual(problems(content), [problem]);
  });
}

Deno.test("what is not TOML gives a line, whatever it is", { permissions: "none" }, () => {
  for (
    const bad of ["n", "= 1", "[paths", "n = 1 2", 'n = "', "n = '''", "n = [1", "n = {", "\0"]
  ) {
    const [problem] = problems(`on = true\n${bad}`);
    assert.match(problem ?? "", /^[23]: not valid TOML: ./, JSON.stringify(bad));
  }
});

Deno.test("every problem of a file is named", { permissions: "none" }, () => {
  assert.deepEqual(problems('b = 1\nn = "x"\na = 1\n[paths]\nhome = 1\nx = 1').sort(), [
    "1: unknown key b",
    "2: n: expected number, received string",
    "3: unknown key a",
    "5: paths.home: expected string, received number",
    "6: unknown key paths.x",
  ]);
});

const GRANT = 'tool = "shell"\nmode = "auto"\nmax_taint = "secret"\nresult_class = "private"\n';

Deno.test("a grant's missing keys are named, and say nothing else", { permissions: "none" }, () => {
  assert.ok(readToml(Grant, GRANT).ok);
  for (const line of GRANT.trimEnd().split("\n")) {
    const [key] = line.split(" ");
    assert.deepEqual(problems(GRANT.replace(line, ""), Grant), [`-: ${key} is missing`]);
  }
});

Deno.test(
  "a grant's wrong words are named with those that are right",
  { permissions: "none" },
  () => {
    assert.deepEqual(problems(GRANT.replace('"auto"', '"Auto"'), Grant), [
      '2: mode: expected one of "deny"|"ask"|"auto"',
    ]);
    assert.deepEqual(problems(`${GRANT}expires = "2027"`, Grant), [
      "5: expires: not a time as YYYY-MM-DDTHH:MM:SS.mmmZ",
    ]);
    assert.deepEqual(problems(`${GRANT}expires = 2027-01-01T00:00:00.000Z`, Grant), [
      "5: expires: expected string, received a date without quotes",
    ]);
  },
);

Deno.test("a grant's defaults", { permissions: "none" }, () => {
  const result = readToml(Grant, GRANT);
  assert.deepEqual(result, {
    ok: true,
    value: {
      tool: "shell",
      mode: "auto",
      max_taint: "secret",
      result_class: "private",
      untrusted: false,
      expires: null,
      hint: null,
      remembered: null,
      constraints: { paths: [], hosts: [], patterns: [] },
    },
  });
  for (const secret of ['"x"', "0", "false", '""', "[]", "{}"]) {
    const given = readToml(Grant, `${GRANT}secret = ${secret}`);
    assert.ok(given.ok && given.value.secret !== undefined, `secret = ${secret} counts as set`);
  }
});

Deno.test("lineOfKey finds keys in tables, dotted and inline", { permissions: "none" }, () => {
  const content = [
    "a = 1",
    "b.c = 2",
    "d = { e = 3, f.g = 4 }",
    "[h.i]",
    "a = 5 # not the first a",
    "[[k]]",
    "x = [",
    "  1, # [l]",
    "]",
    "[l]",
    "y = 1",
  ].join("\n");
  const lines: [string, number | null][] = [
    ["a", 1],
    ["b", 2],
    ["b.c", 2],
    ["d", 3],
    ["d.e", 3],
    ["d.f.g", 3],
    ["h", 4],
    ["h.i", 4],
    ["h.i.a", 5],
    ["k", 6],
    ["k.x", 7],
    ["l", 10],
    ["l.y", 11],
    ["h.j", null],
    ["l.z", null],
    ["none", null],
    ["", null],
  ];
  for (const [path, line] of lines) {
    assert.equal(lineOfKey(content, path === "" ? [] : path.split(".")), line, path);
  }
});
