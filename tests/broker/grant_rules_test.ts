/** What makes a grant file valid (specification 3, "Loading"; contracts 3 and 8), file by file. */
import assert from "node:assert/strict";
import { MAX_GRANT_BYTES, readGrant } from "../../broker/grant_rules.ts";
import { GRANT_MODES } from "../../proto/grants.ts";
import { sha256 } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";
import { DATA_CLASSES, type ToolName } from "../../proto/tools.ts";
import { grantFile, grantOf } from "../support/grants.ts";

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

/** What is wrong with a grant file, as `line: problem`. */
function problems(content: string | Uint8Array, file = "g.toml"): string[] {
  const bytes = typeof content === "string" ? utf8(content) : content;
  const loaded = readGrant(file, bytes);
  if (!Array.isArray(loaded)) return [];
  assert.ok(loaded.every((problem) => problem.file === file), "each names the bare file");
  return loaded.map(({ line, problem }) => `${line ?? "-"}: ${problem}`);
}

const HEAD = 'tool = "read_file"\nmode = "auto"\nmax_taint = "secret"\nresult_class = "private"\n';
const PATHS = '[constraints]\npaths = ["/n"]\n';
const VALID = HEAD + PATHS;

/** Each rule: a file that breaks it, the problem it must give with its line, and the file mended. */
const RULES: Readonly<Record<string, { file: string; gives: string[]; mended?: string }>> = {
  "1: not TOML": {
    file: `${HEAD}[constraints\npaths = ["/n"]\n`,
    gives: ["5: not valid TOML: "],
  },
  "1: a key twice": { file: `${HEAD}mode = "deny"\n${PATHS}`, gives: ["5: not valid TOML: "] },
  "1: an unknown field": { file: `${HEAD}note = "x"\n${PATHS}`, gives: ["5: unknown key note"] },
  "1: an unknown constraint": {
    file: `${VALID}commands = ["ls"]\n`,
    gives: ["7: unknown key constraints.commands"],
  },
  "1: an unknown table": { file: `${VALID}[limits]\n`, gives: ["7: unknown key limits"] },
  "1: no tool": { file: VALID.replace('tool = "read_file"\n', ""), gives: ["-: tool is missing"] },
  "1: no mode": { file: VALID.replace('mode = "auto"\n', ""), gives: ["-: mode is missing"] },
  "1: no max_taint": {
    file: VALID.replace('max_taint = "secret"\n', ""),
    gives: ["-: max_taint is missing"],
  },
  "1: no result_class": {
    file: VALID.replace('result_class = "private"\n', ""),
    gives: ["-: result_class is missing"],
  },
  "1: an unknown mode": {
    file: VALID.replace('"auto"', '"allow"'),
    gives: ['2: mode: expected one of "deny"|"ask"|"auto"'],
  },
  "1: a mode in capitals": { file: VALID.replace('"auto"', '"Deny"'), gives: ["2: mode: "] },
  "1: an unknown class": {
    file: VALID.replace('"secret"', '"top"'),
    gives: ['3: max_taint: expected one of "public"|"private"|"secret"'],
  },
  "1: an unknown result class": {
    file: VALID.replace('"private"', '""'),
    gives: ["4: result_class: "],
  },
  "1: untrusted as text": {
    file: `${HEAD}untrusted = "false"\n${PATHS}`,
    gives: ["5: untrusted: expected boolean"],
    mended: `${HEAD}untrusted = false\n${PATHS}`,
  },
  "1: expires as a TOML date": {
    file: `${HEAD}expires = 2027-01-01T00:00:00.000Z\n${PATHS}`,
    gives: ["5: expires: expected string, received a date without quotes"],
    mended: `${HEAD}expires = "2027-01-01T00:00:00.000Z"\n${PATHS}`,
  },
  "1: expires without milliseconds": {
    file: `${HEAD}expires = "2027-01-01T00:00:00Z"\n${PATHS}`,
    gives: ["5: expires: not a time as YYYY-MM-DDTHH:MM:SS.mmmZ"],
  },
  "1: expires on no real day": {
    file: `${HEAD}expires = "2027-02-29T00:00:00.000Z"\n${PATHS}`,
    gives: ["5: expires: not a time"],
    mended: `${HEAD}expires = "2028-02-29T00:00:00.000Z"\n${PATHS}`,
  },
  "1: paths that are no list": {
    file: `${HEAD}[constraints]\npaths = "/n"\n`,
    gives: ["6: constraints.paths: expected array"],
  },
  "1: a path that is no text": {
    file: `${HEAD}[constraints]\npaths = ["/n", 1]\n`,
    gives: ["6: constraints.paths.1: expected string"],
  },
  "1: a byte-order mark": { file: `\ufeff${VALID}`, gives: ["1: starts with a byte-order mark"] },
  "1: an empty file": {
    file: "",
    gives: [
      "-: tool is missing",
      "-: mode is missing",
      "-: max_taint is missing",
      "-: result_class is missing",
    ],
  },
  "3: an unknown tool": {
    file: VALID.replace("read_file", "read"),
    gives: ["1: tool is not one of read_file, write_file, shell, http_fetch"],
  },
  "3: a core tool": { file: VALID.replace("read_file", "clock"), gives: ["1: tool is not one of"] },
  "4: a secret": {
    file: `${HEAD}secret = "token"\n${PATHS}`,
    gives: ["5: secrets are not supported until M4"],
  },
  "4: secret = false is set": {
    file: `${HEAD}secret = false\n${PATHS}`,
    gives: ["5: secrets are not supported until M4"],
  },
  "4: an empty secret is set": {
    file: `${VALID}[secret]\n`,
    gives: ["7: secrets are not supported until M4"],
  },
  "5: patterns": {
    file: `${VALID}patterns = ["*.md"]\n`,
    gives: ["7: patterns are not supported"],
    mended: `${VALID}patterns = []\n`,
  },
  "7: a relative path": {
    file: `${HEAD}[constraints]\npaths = ["/n",\n"n/a"]\n`,
    gives: ['6: path "n/a" is not absolute'],
  },
  "7: a trailing slash": {
    file: `${HEAD}constraints.paths = ["/n/"]\n`,
    gives: ['5: path "/n/" has an empty component'],
    mended: `${HEAD}constraints.paths = ["/n"]\n`,
  },
  "7: a NUL": {
    file: `${HEAD}[constraints]\npaths = ["/n\\u0000"]\n`,
    gives: ['6: path "/n\\u0000" has a NUL in it'],
  },
  "7: an empty path": {
    file: `${HEAD}[constraints]\npaths = [""]\n`,
    gives: ['6: path "" is not absolute'],
  },
  "7: each of two paths": {
    file: `${HEAD}[constraints]\npaths = ["~", "/n", "/.."]\n`,
    gives: ['6: path "~" is not absolute', '6: path "/.." has a .. component'],
  },
  "8: a host with one label": {
    file: grantFile({ tool: "http_fetch", constraints: { hosts: ["localhost"] } }),
    gives: ['6: host "localhost" needs at least two labels'],
    mended: grantFile({ tool: "http_fetch", constraints: { hosts: ["localhost.example"] } }),
  },
  "8: an address": {
    file: grantFile({ tool: "http_fetch", constraints: { hosts: ["a.example", "127.0.0.1"] } }),
    gives: ['6: host "127.0.0.1" is an IP address in disguise'],
    mended: grantFile({ tool: "http_fetch", constraints: { hosts: ["a.example"] } }),
  },
  "8: a wildcard in the middle": {
    file: grantFile({ tool: "http_fetch", constraints: { hosts: ["a.*.example"] } }),
    gives: ['6: host "a.*.example" has a label'],
    mended: grantFile({ tool: "http_fetch", constraints: { hosts: ["*.a.example"] } }),
  },
};

for (const [rule, { file, gives, mended = VALID }] of Object.entries(RULES)) {
  pure(`a grant file breaks rule ${rule}`, () => {
    const found = problems(file);
    assert.equal(found.length, gives.length, found.join("\n"));
    for (const [at, given] of gives.entries()) {
      assert.ok(found[at]?.startsWith(given), `${found[at]}\nnot\n${given}`);
    }
    assert.deepEqual(problems(mended), []);
  });
}

pure("rule 1: a file that is not UTF-8", () => {
  const bytes = utf8(`# ü\n${VALID}`);
  assert.deepEqual(problems(bytes), []);
  assert.deepEqual(problems(bytes.filter((_, at) => at !== 3)), ["-: is not UTF-8"]);
  assert.deepEqual(problems(new Uint8Array([0xff, 0xfe])), ["-: is not UTF-8"]);
});

pure("rule 2: a stem is 1 to 64 of a-z, 0-9 and -", () => {
  for (const stem of ["a", "0", "-", "notes-read", "a".repeat(64)]) {
    assert.deepEqual(problems(VALID, `${stem}.toml`), [], stem);
  }
  const problem = "-: the name before .toml must be 1 to 64 of a-z, 0-9 and -";
  for (
    const stem of ["", "a".repeat(65), "A", "a_b", "a.b", "a b", "ü", ".hidden", "a\n", "\u202e"]
  ) {
    assert.deepEqual(problems(VALID, `${stem}.toml`), [problem], stem);
  }
  assert.deepEqual(problems("", "A.toml").length, 5, "the rest of the file is looked at too");
});

/** The table of rule 6: what each tool needs, may have, and does not take. */
const TAKES = {
  read_file: { paths: "required", hosts: "must be empty" },
  write_file: { paths: "required", hosts: "must be empty" },
  shell: { paths: "optional", hosts: "must be empty" },
  http_fetch: { paths: "must be empty", hosts: "required" },
} as const satisfies Record<ToolName, { paths: string; hosts: string }>;

for (const [tool, takes] of Object.entries(TAKES)) {
  pure(`rule 6: ${tool}: paths ${takes.paths}, hosts ${takes.hosts}`, () => {
    for (const paths of [undefined, [], ["/n"], ["/n", "/m"]]) {
      for (const hosts of [undefined, [], ["a.example"], ["a.example", "*.b.example"]]) {
        const wanted: string[] = [];
        for (const [name, values] of [["paths", paths], ["hosts", hosts]] as const) {
          const given = values !== undefined && values.length > 0;
          if (takes[name] === "required" && !given) wanted.push(`${tool} needs ${name}`);
          if (takes[name] === "must be empty" && given) wanted.push(`${tool} takes no ${name}`);
        }
        const constraints = {
          ...(paths === undefined ? {} : { paths }),
          ...(hosts === undefined ? {} : { hosts }),
        };
        const found = problems(grantFile({ tool, constraints }));
        const what = `${JSON.stringify(constraints)}: ${found}`;
        assert.equal(found.length, wanted.length, what);
        for (const [at, problem] of wanted.entries()) {
          assert.ok(found[at]?.includes(problem), what);
          const line = found[at]?.split(":")[0];
          const written = problem.includes("paths") ? paths : hosts;
          assert.equal(line === "-", written === undefined, `${what}: names the line it stands on`);
        }
      }
    }
  });
}

pure("rule 6: a table of constraints that is not there is an empty one", () => {
  assert.deepEqual(problems(HEAD), ["-: read_file needs paths in [constraints]"]);
  assert.deepEqual(problems(`${HEAD}[constraints]\n`), problems(HEAD));
  assert.deepEqual(problems(HEAD.replace("read_file", "shell")), []);
});

pure("a file of 64 KiB is read, one byte more is not", () => {
  const longest = VALID + "#".repeat(MAX_GRANT_BYTES - VALID.length);
  assert.equal(MAX_GRANT_BYTES, 65_536);
  assert.deepEqual(problems(longest), []);
  assert.deepEqual(problems(`${longest}#`), ["-: is larger than 64 KiB"]);
});

pure("a file with many faults names each of them, a long value shortened with its length", () => {
  const path = "n".repeat(300);
  assert.deepEqual(
    problems(`${HEAD}secret = 1\n[constraints]\npaths = ["${path}"]\npatterns = [""]`),
    [
      "5: secrets are not supported until M4",
      "8: patterns are not supported",
      `7: path "${"n".repeat(200)}" (of 300 characters) is not absolute`,
    ],
  );
});

pure("a value of 200 characters is the longest that is shown whole, whatever each takes", () => {
  const said = (host: string) =>
    problems(`tool = "http_fetch"\nmode = "auto"\nmax_taint = "secret"
result_class = "public"\n[constraints]\nhosts = ["${host}"]`)[0] ?? "";
  for (const letter of ["A", "ä", "😀"]) {
    const host = letter.repeat(200);
    assert(said(host).startsWith(`6: host "${host}" `), said(host));
    assert.doesNotMatch(said(host), /characters/);
    assert(said(`${host}B`).startsWith(`6: host "${host}" (of 201 characters) `));
  }
});

pure("a file with the most faults that fit in it is read in one go", () => {
  const paths = Array.from({ length: 15_000 }, () => '""').join(",");
  const file = `${HEAD}[constraints]\npaths = [${paths}]\n`;
  assert.ok(file.length < MAX_GRANT_BYTES);
  assert.equal(problems(file).length, 15_000);
});

pure("what a file leaves out has its default", () => {
  assert.deepEqual(readGrant("shell.toml", utf8(HEAD.replace("read_file", "shell"))), {
    id: "shell",
    tool: "shell",
    mode: "auto",
    max_taint: "secret",
    result_class: "private",
    untrusted: false,
    expires: null,
    hint: null,
    constraints: { paths: [], hosts: [], patterns: [] },
    remembered: null,
    sha256: sha256(utf8(HEAD.replace("read_file", "shell"))),
  });
});

pure("what a file gives is read, with the hash of the file's bytes", () => {
  for (const mode of GRANT_MODES) {
    for (const max_taint of DATA_CLASSES) {
      for (const result_class of DATA_CLASSES) {
        const fields = {
          tool: "write_file",
          ...{ mode, max_taint, result_class },
          untrusted: true,
          expires: "2027-01-01T00:00:00.000Z",
          constraints: { paths: ["/n", "/ü", "/"] },
        };
        assert.deepEqual(grantOf(fields, "w-1"), {
          ...fields,
          id: "w-1",
          hint: null,
          remembered: null,
          constraints: { paths: ["/n", "/ü", "/"], hosts: [], patterns: [] },
          sha256: sha256(utf8(grantFile(fields))),
        });
      }
    }
  }
  const file = utf8(VALID);
  const commented = utf8(`${VALID}# the same grant in another file\n`);
  const [one, other] = [readGrant("g.toml", file), readGrant("g.toml", commented)];
  assert.ok(!Array.isArray(one) && !Array.isArray(other));
  assert.notEqual(one.sha256, other.sha256);
});

pure("the example of the specification is valid", () => {
  const example = `# grants/notes-read.toml
tool = "read_file"
mode = "auto"
max_taint = "secret"
result_class = "private"
untrusted = false
expires = "2027-01-01T00:00:00.000Z"

[constraints]
paths = ["/home/kyle/notes"]
`;
  assert.deepEqual(problems(example, "notes-read.toml"), []);
});

pure("a grant that was read cannot be changed", () => {
  const grant = grantOf({ constraints: { paths: ["/n"] } });
  const { constraints } = grant;
  for (const part of [grant, constraints, constraints.paths, constraints.hosts]) {
    assert.ok(Object.isFrozen(part));
  }
  assert.throws(() => constraints.paths.push("/"), TypeError);
});
