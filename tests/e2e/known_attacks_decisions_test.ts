/**
 * Known faults of comparable tools that a single decision answers (docs/known-attacks.md): paths, URLs, JSON
 * and names that other checkers read otherwise than what they were to protect. Each case is named after its
 * entry, and shows that the same grants allow the call without the trick.
 */
import assert from "node:assert/strict";
import { decide } from "../../broker/policy.ts";
import type { DataClass } from "../../proto/tools.ts";
import { type GrantFields, grantSet } from "../support/grants.ts";

/** Arguments as the model writes them, then what becomes of them. */
type Attack = readonly [text: string, outcome: string];

interface Case {
  readonly grants: Readonly<Record<string, GrantFields>>;
  /** `read_file` unless given. */
  readonly tool?: string;
  readonly attacks: readonly Attack[];
  /** The same without the trick: allowed. */
  readonly plain: string;
}

const NOTES: Case["grants"] = { notes: { constraints: { paths: ["/srv/notes"] } } };
const fetching = (...hosts: string[]): GrantFields => ({
  tool: "http_fetch",
  constraints: { hosts },
});
/** Everything below example.com but one host. */
const ALL_BUT_EVIL: Case["grants"] = {
  all: fetching("*.example.com"),
  "not-evil": { ...fetching("evil.example.com"), mode: "deny" },
};
const urls = (outcome: string, ...list: string[]): Attack[] =>
  list.map((url) => [JSON.stringify({ url }), outcome]);
const WWW = '{"url":"https://www.example.com/"}';

const CASES: Readonly<Record<string, Case>> = {
  "CVE-2025-53110: a directory whose name begins like the granted one": {
    grants: NOTES,
    attacks: [
      ['{"path":"/srv/notes_old/a"}', "no_grant"],
      ['{"path":"/srv/notes../keys/a"}', "no_grant"],
      ['{"path":"/srv/notes/../keys/a"}', "invalid_arguments"],
    ],
    plain: '{"path":"/srv/notes/a"}',
  },
  "CVE-2021-41773: an encoded step upwards": {
    grants: NOTES,
    // Nothing decodes: the second is the name of a file in the notes, and stays one.
    attacks: [
      ['{"path":"/srv/notes/%2e%2e/../keys/a"}', "invalid_arguments"],
      ['{"path":"/srv/notes/.%2e/keys/a"}', "allowed"],
      ['{"path":"/srv/.%2e/keys/a"}', "no_grant"],
      ['{"path":"/srv/notes/\\u002e\\u002e/keys/a"}', "invalid_arguments"],
    ],
    plain: '{"path":"/srv/notes/a"}',
  },
  "CVE-2021-43860: a NUL, after which one reader stops": {
    grants: NOTES,
    attacks: [
      ['{"path":"/srv/notes/a\\u0000/../../etc/shadow"}', "invalid_arguments"],
      ['{"path":"/srv/notes\\u0000"}', "invalid_arguments"],
    ],
    plain: '{"path":"/srv/notes/a0"}',
  },
  "CVE-2026-49401: two spellings of one name": {
    grants: {
      all: { constraints: { paths: ["/srv/b\u00fccher"] } },
      keys: { mode: "deny", constraints: { paths: ["/srv/b\u00fccher/schl\u00fcssel"] } },
    },
    attacks: [
      ['{"path":"/srv/bu\\u0308cher/a"}', "no_grant"],
      ['{"path":"/SRV/b\\u00fccher/a"}', "no_grant"],
      ['{"path":"/srv/b\\u00fccher/schl\\u00fcssel/a"}', "denied_by_grant"],
      // Another file here; the same one on a file system that folds spellings. The entry says so.
      ['{"path":"/srv/b\\u00fccher/schlu\\u0308ssel/a"}', "allowed"],
    ],
    plain: '{"path":"/srv/b\\u00fccher/a"}',
  },
  "CVE-2017-12635: the same key twice": {
    grants: NOTES,
    attacks: [
      ['{"path":"/srv/notes/a","path":"/etc/shadow"}', "invalid_arguments"],
      ['{"path":"/etc/shadow","path":"/srv/notes/a"}', "invalid_arguments"],
      ['{"path":"/srv/notes/a","\\u0070ath":"/etc/shadow"}', "invalid_arguments"],
    ],
    plain: '{"path":"/srv/notes/a"}',
  },
  "CVE-2019-10744: keys that reach the prototype": {
    grants: NOTES,
    attacks: [
      ['{"path":"/srv/notes/a","__proto__":{"path":"/etc/shadow"}}', "invalid_arguments"],
      ['{"__proto__":{"path":"/srv/notes/a"}}', "invalid_arguments"],
      ['{"path":"/srv/notes/a","constructor":{"prototype":{"mode":"auto"}}}', "invalid_arguments"],
    ],
    plain: '{"path":"/srv/notes/a"}',
  },
  "CVE-2020-36518: brackets nested without end": {
    grants: NOTES,
    attacks: [
      ["[".repeat(500_000), "invalid_arguments"],
      [`{"path":${"[".repeat(250_000)}${"]".repeat(250_000)}}`, "invalid_arguments"],
      [
        `{"path":"/srv/notes/a","x":${'{"a":'.repeat(100_000)}1${"}".repeat(100_001)}`,
        "invalid_arguments",
      ],
    ],
    plain: '{"path":"/srv/notes/[[[["}',
  },
  "Bishop Fox, 2021: text that two JSON readers end differently": {
    grants: NOTES,
    attacks: [
      ['{"path":"/srv/notes/\\ud800"}', "invalid_arguments"],
      ['{"path":"/srv/notes/a"}{"path":"/etc/shadow"}', "invalid_arguments"],
      ['{"path":"/srv/notes/a",/*"path":"/etc/shadow"*/}', "invalid_arguments"],
      ['\ufeff{"path":"/srv/notes/a"}', "invalid_arguments"],
    ],
    plain: ' {"path" : "/srv/notes/\\ud83d\\ude00"}\n',
  },
  "CVE-2021-3156: a backslash at the end": {
    grants: NOTES,
    attacks: [
      ['{"path":"/srv/notes/a\\"}', "invalid_arguments"],
      ['{"path":"/etc/shadow\\\\"}', "no_grant"],
    ],
    plain: '{"path":"/srv/notes/a\\\\"}',
  },
  "CVE-2023-22809: more files behind the first": {
    grants: NOTES,
    attacks: [
      ['{"path":["/srv/notes/a","/etc/shadow"]}', "invalid_arguments"],
      ['{"path":"/srv/notes/a","paths":["/etc/shadow"]}', "invalid_arguments"],
      ['{"path":"-- /srv/notes/a"}', "invalid_arguments"],
      // One file of an odd name in the notes, and no second one.
      ['{"path":"/srv/notes/a -- /etc/shadow"}', "allowed"],
    ],
    plain: '{"path":"/srv/notes/a"}',
  },
  "CVE-2021-4034: no arguments at all": {
    grants: NOTES,
    attacks: ["", " ", "{}", "[]", "null", "0", '""', '{"path":""}'].map((text) =>
      [text, "invalid_arguments"] as const
    ),
    plain: '{"path":"/srv/notes"}',
  },
  "CVE-2026-24052: a host that begins like the allowed one": {
    tool: "http_fetch",
    grants: { docs: fetching("docs.example.com"), wild: fetching("*.example.org") },
    attacks: urls(
      "no_grant",
      "https://docs.example.com.evil.example/",
      "https://evil-docs.example.com/",
      "https://evilexample.org/",
      "https://www.example.org.evil.example/",
      "https://example.org/",
    ),
    plain: '{"url":"https://docs.example.com/"}',
  },
  "CVE-2021-29921 and CVE-2021-28918: an IP address in another notation": {
    tool: "http_fetch",
    grants: ALL_BUT_EVIL,
    attacks: urls(
      "invalid_arguments",
      "https://0177.0.0.1/",
      "https://127.1/",
      "https://2130706433/",
      "https://0x7f.0.0.1/",
      "https://127.0.0.0x1/",
      "https://[::ffff:127.0.0.1]/",
      "https://localhost/",
    ),
    plain: '{"url":"https://127.0.0.1.example.com/"}',
  },
  "CVE-2024-24806: a host name longer than a resolver holds": {
    tool: "http_fetch",
    grants: ALL_BUT_EVIL,
    attacks: urls(
      "invalid_arguments",
      `https://${"a.".repeat(130)}example.com/`,
      `https://${"a".repeat(64)}.example.com/`,
    ),
    plain: JSON.stringify({ url: `https://${"a.".repeat(121)}example.com/` }),
  },
  "CVE-2023-24329 and CVE-2022-0691: blanks and control characters that are skipped": {
    tool: "http_fetch",
    grants: ALL_BUT_EVIL,
    attacks: [
      ...urls("denied_by_grant", "https://evil.example.com/"),
      ...urls(
        "invalid_arguments",
        " https://evil.example.com/",
        "\u0008https://evil.example.com/",
        "https://ev\til.example.com/",
        "https://evil.example.com\r\n/",
        "ht\ntps://evil.example.com/",
      ),
    ],
    plain: WWW,
  },
  "CVE-2022-30115: a dot at the end of the host": {
    tool: "http_fetch",
    grants: ALL_BUT_EVIL,
    attacks: [
      ...urls("denied_by_grant", "https://evil.example.com/"),
      ...urls("invalid_arguments", "https://evil.example.com./", "https://www.example.com./"),
    ],
    plain: WWW,
  },
  "CVE-2022-27780: an encoded slash in the host": {
    tool: "http_fetch",
    grants: ALL_BUT_EVIL,
    attacks: urls(
      "invalid_arguments",
      "https://evil.example%2fwww.example.com/",
      "https://evil.example%2Fwww.example.com/",
      "https://evil.example%00.example.com/",
    ),
    plain: '{"url":"https://www.example.com/%2f"}',
  },
  "CVE-2016-8624: a # before the @": {
    tool: "http_fetch",
    grants: ALL_BUT_EVIL,
    attacks: urls(
      "invalid_arguments",
      "https://evil.example#@www.example.com/",
      "https://evil.example?@www.example.com/",
    ),
    plain: '{"url":"https://www.example.com/#@evil.example"}',
  },
  "CVE-2018-3774: a backslash or a user before the host": {
    tool: "http_fetch",
    grants: ALL_BUT_EVIL,
    attacks: urls(
      "invalid_arguments",
      "https://evil.example\\@www.example.com/",
      "https://www.example.com\\.evil.example/",
      "https:\\\\www.example.com/",
      "https:/www.example.com/",
      "https://www.example.com@evil.example/",
      "https://www.example.com:443@evil.example/",
    ),
    plain: '{"url":"https://www.example.com/\\\\@evil.example"}',
  },
  "CVE-2025-6514: a URL that is a command to somebody": {
    tool: "http_fetch",
    grants: ALL_BUT_EVIL,
    attacks: urls(
      "invalid_arguments",
      "https://www.$(id).example.com/",
      "https://`id`.example.com/",
      "file:///etc/passwd",
      "http://www.example.com/",
      "https://www.example.com:22/",
    ),
    plain: '{"url":"https://www.example.com:443/?$(id)"}',
  },
  "IDN homographs, 2017: letters that look like others": {
    tool: "http_fetch",
    grants: { fruit: fetching("apple.com", "*.apple.com") },
    attacks: [
      ...urls("no_grant", "https://xn--80ak6aa92e.com/"),
      ...urls(
        "invalid_arguments",
        "https://\u0430\u0440\u0440\u04cf\u0435.com/",
        "https://www\u3002apple.com/",
      ),
    ],
    plain: '{"url":"https://apple.com/"}',
  },
};

const FRESH = { taint: "private", untrusted: false } as const;

/** How a call comes out in a fresh session, or one with that taint. */
function outcomeOf(
  grants: Case["grants"],
  tool: string,
  text: string,
  taint: DataClass = FRESH.taint,
): string {
  const record = decide({
    now: "2026-12-01T10:00:00.000Z",
    grants: grantSet(grants),
    state: { ...FRESH, taint },
    tool,
    arguments: text,
  }).toRecord();
  return record.outcome === "denied" ? record.reason : record.outcome;
}

for (const [name, { grants, tool = "read_file", attacks, plain }] of Object.entries(CASES)) {
  Deno.test(name, { permissions: "none" }, () => {
    for (const [text, outcome] of attacks) {
      assert.equal(outcomeOf(grants, tool, text), outcome, text.slice(0, 200));
    }
    assert.equal(outcomeOf(grants, tool, plain), "allowed", plain);
  });
}

Deno.test("Tool shadowing, 2025: a name that looks like a tool's", { permissions: "none" }, () => {
  const call = (tool: string) => outcomeOf(NOTES, tool, '{"path":"/srv/notes/a"}');
  const names = [
    "read_file ",
    "Read_File",
    "r\u0435ad_file",
    "read_file\u200b",
    "read_file\0",
    "",
    "__proto__",
    "constructor",
  ];
  for (const name of names) assert.equal(call(name), "no_grant", JSON.stringify(name));
  assert.equal(call("read_file"), "allowed");
});

Deno.test("CVE-2025-53773: an agent that widens its own rules", { permissions: "none" }, () => {
  const write = (paths: string[], mode = "auto"): GrantFields => ({
    tool: "write_file",
    mode,
    constraints: { paths },
  });
  const rules = '{"path":"/home/kyle/boxmaker/grants/all.toml","content":""}';
  const outcome = (grants: Case["grants"], text = rules) => outcomeOf(grants, "write_file", text);
  assert.equal(outcome({ drafts: write(["/home/kyle/drafts"]) }), "no_grant");
  // What a careless grant covers it covers; a deny beside it takes the home out again.
  const careless = { all: write(["/home/kyle"]) };
  assert.equal(outcome(careless), "allowed");
  const careful = { ...careless, home: write(["/home/kyle/boxmaker"], "deny") };
  assert.equal(outcome(careful), "denied_by_grant");
  assert.equal(outcome(careful, '{"path":"/home/kyle/a","content":""}'), "allowed");
});

Deno.test(
  "The lethal trifecta, 2025: secrets read, then a page asked for",
  { permissions: "none" },
  () => {
    const grants: Case["grants"] = {
      keys: { result_class: "secret", constraints: { paths: ["/srv/keys"] } },
      web: { ...fetching("*.example.com"), max_taint: "private" },
    };
    const leak = '{"url":"https://www.example.com/?key=s3cret"}';
    assert.equal(outcomeOf(grants, "read_file", '{"path":"/srv/keys/k"}'), "allowed");
    assert.equal(outcomeOf(grants, "http_fetch", leak, "secret"), "taint_too_high");
    assert.equal(outcomeOf(grants, "http_fetch", leak, "private"), "allowed");
  },
);
