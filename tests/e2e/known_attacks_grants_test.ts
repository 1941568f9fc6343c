/** Known faults of readers of configuration, as grant files (docs/known-attacks.md). Each case is named after its entry. */
import assert from "node:assert/strict";
import { readGrant } from "../../broker/grant_rules.ts";
import { utf8 } from "../../proto/text.ts";

const HEAD = 'tool = "read_file"\nmode = "deny"\nmax_taint = "secret"\nresult_class = "private"\n';
const COVERS = '[constraints]\npaths = ["/srv/notes"]\n';
const SHELL = HEAD.replace("read_file", "shell");

interface Case {
  /** Files that are no grants, with words of the problem. */
  readonly attacks: readonly (readonly [file: string, problem: RegExp])[];
  /** The same without the trick: a valid grant. */
  readonly plain: string;
}

const NESTED = /excessively nested/;
const AGAIN = /redefine an already defined/;

const CASES: Readonly<Record<string, Case>> = {
  "Command lists by prefix, 2025: a rule for the beginning of a command": {
    attacks: [
      [SHELL + '[constraints]\npatterns = ["ls *"]\n', /patterns are not supported/],
      [SHELL + 'commands = ["ls"]\n', /unknown key commands/],
      [SHELL + '[constraints]\nhosts = ["ls"]\n', /shell takes no hosts/],
    ],
    plain: SHELL + COVERS,
  },
  "CVE-2017-12635 in TOML: the same key twice": {
    attacks: [
      [HEAD + 'mode = "auto"\n' + COVERS, AGAIN],
      [HEAD + '"mo\\u0064e" = "auto"\n' + COVERS, AGAIN],
      [HEAD + COVERS + '[constraints]\npaths = ["/"]\n', AGAIN],
      [HEAD + 'constraints.paths = ["/"]\n' + COVERS, AGAIN],
      [HEAD + 'constraints = { paths = ["/srv/notes"], paths = ["/"] }\n', AGAIN],
    ],
    plain: HEAD + 'constraints = { paths = ["/srv/notes", "/"] }\n',
  },
  "CVE-2025-54803: a table that is the prototype": {
    attacks: [
      [HEAD + COVERS + '[__proto__]\nmode = "auto"\n', /unknown key __proto__/],
      ['"__proto__".mode = "auto"\n' + HEAD + COVERS, /unknown key __proto__/],
      [HEAD + 'constraints.__proto__.paths = ["/"]\n', /unknown key constraints.__proto__/],
      [HEAD + COVERS + '[constructor.prototype]\nmode = "auto"\n', /unknown key constructor/],
    ],
    plain: HEAD + '[constraints]\npaths = ["/srv/__proto__"]\n',
  },
  "GHSA-pqhp-25j4-6hq9: a file nested until the stack ends": {
    attacks: [
      [`${HEAD}x = ${"[".repeat(30_000)}\n${COVERS}`, /not valid TOML/],
      [`${HEAD}x = ${"[".repeat(30_000)}${"]".repeat(30_000)}\n${COVERS}`, NESTED],
      [`${HEAD}x = ${"{a=".repeat(15_000)}1${"}".repeat(15_000)}\n${COVERS}`, NESTED],
      [`${HEAD}${"a.".repeat(30_000)}a = 1\n${COVERS}`, /not valid TOML|unknown key/],
    ],
    plain: `${HEAD}${COVERS}# ${"[".repeat(30_000)}\n`,
  },
};

for (const [name, { attacks, plain }] of Object.entries(CASES)) {
  Deno.test(name, { permissions: "none" }, () => {
    for (const [file, problem] of attacks) {
      const read = readGrant("g.toml", utf8(file));
      assert.ok(Array.isArray(read), file.slice(0, 300));
      assert.match(read.map(({ problem }) => problem).join("; "), problem);
    }
    assert.ok(!Array.isArray(readGrant("g.toml", utf8(plain))), "the same without the trick");
    assert.equal(Object.hasOwn(Object.prototype, "mode"), false);
  });
}
