/** Hosts, host patterns and URLs (specification 3, "Hosts"; contracts 3 and 8): the vectors, and what they leave out. */
import assert from "node:assert/strict";
import { parseArguments } from "../../broker/args.ts";
import { readGrant } from "../../broker/grant_rules.ts";
import {
  hostMatches,
  hostPatternProblem,
  hostProblem,
  MAX_URL_BYTES,
  urlHost,
} from "../../broker/hosts.ts";
import { utf8 } from "../../proto/text.ts";
import hosts from "../../fixtures/vectors/hosts.json" with { type: "json" };
import urls from "../../fixtures/vectors/urls.json" with { type: "json" };
import { grantFile } from "../support/grants.ts";

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

const grantWith = (pattern: string) =>
  readGrant("g.toml", utf8(grantFile({ tool: "http_fetch", constraints: { hosts: [pattern] } })));

for (const { name, pattern, host, expect } of hosts) {
  if (host === undefined) {
    assert.ok(expect === "valid" || expect === "invalid");
    pure(`a host pattern's form, in a grant too: ${name}: ${expect}`, () => {
      assert.equal(hostPatternProblem(pattern) === null, expect === "valid");
      assert.equal(!Array.isArray(grantWith(pattern)), expect === "valid");
    });
  } else {
    assert.ok(expect === "match" || expect === "no_match");
    pure(`a host and a pattern: ${name}: ${expect}`, () => {
      assert.equal(hostPatternProblem(pattern), null, "the pattern is valid");
      assert.equal(urlHost(`https://${host}/`), host, "the host is valid");
      assert.equal(hostMatches(pattern, host), expect === "match");
    });
  }
}

for (const { name, url, expect } of urls) {
  const host = typeof expect === "string" ? null : expect.host;
  assert.ok(host !== null || expect === "invalid");
  pure(`a URL, in an argument too: ${name}: ${host ?? "invalid"}`, () => {
    assert.equal(urlHost(url), host);
    const args = parseArguments("http_fetch", JSON.stringify({ url }));
    assert.deepEqual(args, host === null ? null : { tool: "http_fetch", url });
  });
}

/** Host names that are in a grant what they are in a URL. */
const HOSTS: Readonly<Record<string, boolean>> = {
  "example.com": true,
  "1.example": true,
  "a.1b": true,
  "a.0y": true,
  "a.x0": true,
  "a.0x0g": true,
  "127.0.0.1": false,
  "1.2": false,
  "a.1": false,
  "a.00": false,
  "0x7f.1": false,
  "1.0x": false,
  "a.0xff": false,
  "a.0x0123456789abcdef": false,
  "com": false,
  ".com": false,
  "a..b": false,
  "a.com.": false,
  "a_b.com": false,
  "a.com-": false,
  "A.com": false,
  "bücher.example": false,
  "a.com\n": false,
  "[::1]": false,
};

pure("a host name is one in a grant, under a wildcard and in a URL alike", () => {
  for (const [host, valid] of Object.entries(HOSTS)) {
    assert.equal(hostProblem(host) === null, valid, host);
    assert.equal(hostPatternProblem(host) === null, valid, host);
    assert.equal(hostPatternProblem(`*.${host}`) === null, valid, `*.${host}`);
    assert.equal(urlHost(`https://${host}/`), valid ? host : null, host);
  }
});

pure("a wildcard stands only once, at the start, and counts as no label", () => {
  for (
    const pattern of ["*", "*.", "*.*.example.com", "a.*.com", "*a.com", "example.*", "**.a.b"]
  ) {
    assert.notEqual(hostPatternProblem(pattern), null, pattern);
  }
  const longest = `${"a".repeat(63)}.`.repeat(3) + "a".repeat(61);
  assert.equal(longest.length, 253);
  assert.equal(hostPatternProblem(longest), null);
  assert.equal(hostPatternProblem(`*.${longest}`), null);
  assert.match(hostPatternProblem(`*.${longest}a`) ?? "", /longer than 253 bytes/);
});

pure("each thing that is wrong with a host has its own words", () => {
  assert.match(hostProblem("localhost") ?? "", /two labels/);
  assert.match(hostProblem("a-.com") ?? "", /has a label that is not 1 to 63/);
  assert.match(hostProblem("10.0.0.1") ?? "", /IP address in disguise/);
  assert.match(hostProblem("a.".repeat(127) + "aa") ?? "", /longer than 253 bytes/);
});

pure("no reading but the plain one finds a host in a URL", () => {
  const url = "https://www.example.com/";
  assert.equal(urlHost(url), "www.example.com");
  const others = [
    ` ${url}`,
    `\t${url}`,
    `${url} `,
    `${url}\n`,
    `${url}\r\n`,
    "https:/\\www.example.com/",
    "https:\\\\www.example.com\\",
    "https:www.example.com/",
    "https:/www.example.com/",
    "//www.example.com/",
    "www.example.com",
    "https://www.exa\tmple.com/",
    "https://www.example.com\\@other.example/",
    "https://www.example.com@other.example/",
    "https://www.example.com:443@other.example/",
    "https://www.example.com:0443/",
    "https://www.example.com:4430/",
    "https://www.example.com:443:443/",
    "https://www.example.com#f",
    "https://www.example.com?x",
    "https://www.example.com:443?x",
    "https://www.example.com%2f.other.example/",
    "https://www。example。com/",
    "https://ｗｗｗ.example.com/",
    "https://www.example.com/\x7f",
    "https://www.example.com/\x00",
    "https://www.example.com/ü",
    "data:text/plain,x",
    "file:///etc/passwd",
  ];
  for (const other of others) assert.equal(urlHost(other), null, JSON.stringify(other));
});

pure("what follows the first slash is the server's to read", () => {
  for (
    const rest of ["", "@other.example/", "//other.example", "\\", "..", "%00", ":80", "?#[]^`|"]
  ) {
    assert.equal(urlHost(`https://www.example.com/${rest}`), "www.example.com", rest);
  }
});

pure("a URL's limit counts bytes", () => {
  const url = "https://www.example.com/".padEnd(MAX_URL_BYTES, "a");
  assert.equal(urlHost(url), "www.example.com");
  assert.equal(urlHost(`${url}a`), null);
});
