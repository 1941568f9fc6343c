/**
 * http_fetch from brokerd's socket to a real https site: the policy, a real container, a real egress proxy,
 * and which hosts are reached (specification 13).
 */
import assert from "node:assert/strict";
import { recordsIn } from "../../scripts/support/story.ts";
import { flagsFor, PROJECT, startBroker, type TempHome } from "../support/broker.ts";
import { containersOf, rootToolTest } from "../support/containers.ts";
import {
  answerTo,
  failureAt,
  fetchHome,
  NAMES,
  NOT_GRANTED,
  nothingLeftOf,
  pageAt,
  PROXY_REFUSED,
  refusedLines,
  UNNAMED,
} from "../support/fetches.ts";
import { HttpsSite, response } from "../support/https_site.ts";
import { Followed, TempDir } from "../support/scripts.ts";

/** Where the site is, and a loopback address that no configuration here names. */
const SITE = "127.0.9.1";
const OTHER = "127.0.9.2";
rootToolTest(
  "a granted host is fetched: status, headers and body; a status such as 404 is a result",
  async () => {
    await using site = new HttpsSite(SITE);
    using home = await fetchHome(SITE);
    await using broker = await startBroker(home);
    const headers = { "content-type": "text/plain" };
    for (const name of NAMES) {
      const page = { status: "HTTP/1.1 200 OK", headers, body: `this is ${name}\n` };
      assert.deepEqual(await pageAt(home, `https://${name}/`), page);
    }
    const missing = await pageAt(home, "https://page.example/status/404");
    assert.deepEqual(missing, { status: "HTTP/1.1 404 So It Is", headers, body: "404\n" });
    assert.equal((await pageAt(home, "https://page.example:443/status/500")).body, "500\n");
    // Of this machine the site learns nothing.
    const { body } = await pageAt(home, "https://page.example/headers?a=%2e%2e/../b");
    assert.deepEqual(body.split("\r\n"), [
      "GET /headers?a=%2e%2e/../b HTTP/1.1",
      "Host: page.example",
      "User-Agent: boxmaker",
      "Accept: */*",
      "Accept-Encoding: deflate, gzip, br, zstd",
    ]);
    assert.equal(site.asked.length, 6);
    await nothingLeftOf(home);
    const results = recordsIn(home.layout.audit).filter(({ event }) => event.type === "result");
    assert.equal(results.length, 6);
    await broker.stop();
    assert.deepEqual(refusedLines(broker.stderr), []);
  },
);

rootToolTest("what no grant covers does not run", async () => {
  await using site = new HttpsSite(SITE);
  using home = await fetchHome(SITE);
  await using broker = await startBroker(home);
  const urls = {
    no_grant: [
      ...NOT_GRANTED.map((name) => `https://${name}/`),
      "https://notpage.example/",
    ],
    invalid_arguments: [
      `https://${SITE}/`,
      "https://[::1]/",
      "https://2130706433/",
      "https://0x7f.0.0.1/",
      "https://localhost/",
      "http://page.example/",
      "https://page.example:8443/",
      "https://page.example./",
      "https://PAGE.example/",
      "https://page.example@evil.example/",
      "https://evil.example\\@page.example/",
      "https://page.example/\r\nHost: evil.example",
      "file:///etc/passwd",
      "--config=/etc/passwd",
    ],
  };
  for (const [reason, each] of Object.entries(urls)) {
    for (const url of each) {
      assert.deepEqual(await answerTo(home, url), { status: "denied", reason }, url);
    }
  }
  assert.equal(site.connections, 0);
  assert.deepEqual(await containersOf(home), []);
  assert.equal((await pageAt(home, "https://page.example/")).body, "this is page.example\n");
  await broker.stop();
});

rootToolTest("TLS is real: who the site is counts, and who says so", async () => {
  await using site = new HttpsSite(SITE);
  const invalid = "the host's certificate is not valid";
  {
    using home = await fetchHome(SITE, { caFile: null });
    await using _broker = await startBroker(home);
    assert.equal(await failureAt(home, "https://page.example/"), invalid);
    assert.equal(site.connections, 1);
  }
  using home = await fetchHome(SITE);
  await using broker = await startBroker(home);
  assert.equal(await failureAt(home, `https://${UNNAMED}/`), invalid);
  assert.equal(site.connections, 2);
  assert.deepEqual(site.asked, []);
  assert.equal((await pageAt(home, "https://page.example/")).body, "this is page.example\n");
  await broker.stop();
  // The connection was allowed; it was the certificate that was not believed.
  assert.deepEqual(refusedLines(broker.stderr), []);
});

const ONLY_HTTPS = "only https is fetched";

/** Where a granted page sends on to, and why the fetch fails. */
const REDIRECTS: Readonly<Record<string, readonly [to: string, why: string]>> = {
  "to another host": [
    "https://evil.example/",
    `${PROXY_REFUSED}evil.example is not a host of the grant`,
  ],
  "to a host whose name begins with a granted one": [
    "https://page.example.evil.example/",
    `${PROXY_REFUSED}page.example.evil.example is not a host of the grant`,
  ],
  "to another host behind a granted one as its user": [
    "https://page.example@evil.example/",
    `${PROXY_REFUSED}evil.example is not a host of the grant`,
  ],
  "to another host without a scheme": [
    "//evil.example/",
    `${PROXY_REFUSED}evil.example is not a host of the grant`,
  ],
  "to the site's address": [
    `https://${SITE}/`,
    `${PROXY_REFUSED}${SITE} is an address, not a name`,
  ],
  "to the site's address as one number": [
    "https://2130708737/",
    `${PROXY_REFUSED}${SITE} is an address, not a name`,
  ],
  "to an IPv6 address": [
    "https://[::1]/",
    `${PROXY_REFUSED}0:0:0:0:0:0:0:1 is an address, not a name`,
  ],
  "to this machine by name": [
    "https://localhost/",
    `${PROXY_REFUSED}localhost needs at least two labels, as example.com`,
  ],
  "to another port": [
    "https://page.example:8443/",
    `${PROXY_REFUSED}port 8443 is not 443`,
  ],
  "to the port without TLS": [
    "https://page.example:80/",
    `${PROXY_REFUSED}port 80 is not 443`,
  ],
  "to http": ["http://page.example/", ONLY_HTTPS],
  "to http on the port of https": ["http://page.example:443/", ONLY_HTTPS],
  "to a file": ["file:///etc/passwd", ONLY_HTTPS],
  "to another protocol": ["gopher://page.example/", ONLY_HTTPS],
};

rootToolTest("a redirect leads nowhere that a call may not go", async (t) => {
  await using site = new HttpsSite(SITE);
  using home = await fetchHome(SITE);
  await using broker = await startBroker(home);
  const redirect = (to: string) => `https://page.example/redirect?to=${encodeURIComponent(to)}`;
  for (const [name, [to, why]] of Object.entries(REDIRECTS)) {
    await t.step(name, async () => {
      const before = site.connections;
      assert.equal(await failureAt(home, redirect(to)), why);
      assert.equal(site.connections, before + 1);
    });
  }
  assert.deepEqual([...new Set(site.asked)], ["page.example/redirect"]);
  assert.equal(site.plainConnections, 0);
  // Between hosts of the grant it is followed; one without end is not.
  const { body } = await pageAt(home, redirect(redirect("https://other.example/")));
  assert.equal(body, "this is other.example\n");
  assert.match(await failureAt(home, "https://page.example/loop"), /redirected more than 5 times$/);
  await broker.stop();
  const told = Object.values(REDIRECTS).filter(([, why]) => why.startsWith(PROXY_REFUSED))
    .map(([, why]) => `brokerd: egress: 1 connections refused: ${why.slice(PROXY_REFUSED.length)}`);
  assert.deepEqual(refusedLines(broker.stderr), told);
});

rootToolTest(
  "a granted name does not lead to a private address, unless the owner has named that",
  async () => {
    await using site = new HttpsSite(SITE);
    const words = `page.example leads to ${SITE}, a loopback address`;
    for (const named of [[], [OTHER], ["10.0.0.0/8"]]) {
      using home = await fetchHome(SITE, { private: named });
      await using broker = await startBroker(home);
      assert.equal(await failureAt(home, "https://page.example/"), PROXY_REFUSED + words);
      await broker.stop();
      assert.deepEqual(refusedLines(broker.stderr), [
        `brokerd: egress: 1 connections refused: ${words}`,
      ]);
    }
    assert.equal(site.connections, 0);
    using home = await fetchHome(SITE, { private: ["127.0.9.0/31"] });
    await using _broker = await startBroker(home);
    assert.equal((await pageAt(home, "https://page.example/")).body, "this is page.example\n");
  },
);

/** A brokerd in whose eyes `hosts` is /etc/hosts. */
async function startWithHosts(home: TempHome, hosts: string): Promise<Followed> {
  const main = new URL("broker/main.ts", PROJECT).pathname;
  const brokerd = Followed.start([
    "unshare",
    ...["--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts],
    ...[Deno.execPath(), "run", ...flagsFor(home), main, "serve", "--config", home.configFile],
  ]);
  await brokerd.shows("brokerd: ready");
  return brokerd;
}

rootToolTest(
  "a name that leads elsewhere the second time is held against the rules again",
  async () => {
    using place = new TempDir();
    const hosts = place.write("hosts", "");
    const lead = (...addresses: string[]) =>
      Deno.writeTextFileSync(hosts, addresses.map((each) => `${each} page.example\n`).join(""));
    await using site = new HttpsSite(SITE, {
      "/turn": () => {
        lead(OTHER);
        return response("302 Found", { Location: "/" }, "");
      },
    });
    await using other = new HttpsSite(OTHER);
    // No table: each name is looked up.
    using home = await fetchHome(SITE, { hosts: {} });
    await using brokerd = await startWithHosts(home, hosts);
    const fetched = () => failureAt(home, "https://page.example/");
    lead(SITE);
    assert.equal((await pageAt(home, "https://page.example/")).body, "this is page.example\n");
    lead(OTHER);
    const words = `page.example leads to ${OTHER}, a loopback address`;
    assert.equal(await fetched(), PROXY_REFUSED + words);
    // Within one call, too.
    lead(SITE);
    assert.equal(await failureAt(home, "https://page.example/turn"), PROXY_REFUSED + words);
    lead("169.254.169.254");
    assert.match(await fetched(), /leads to 169\.254\.169\.254, a link-local address$/);
    // Also where one of its addresses may be reached.
    lead(OTHER, SITE);
    assert.equal(await fetched(), PROXY_REFUSED + words);
    assert.deepEqual([site.connections, other.connections], [2, 0]);
    lead();
    assert.match(await fetched(), /page\.example could not be (looked up|reached)$/);
    lead(SITE);
    assert.equal((await pageAt(home, "https://page.example/")).body, "this is page.example\n");
    assert(brokerd.output.includes(`brokerd: egress: 1 connections refused: ${words}\n`));
    brokerd.signal("SIGTERM");
    assert.equal(await brokerd.ends(), 0);
    await nothingLeftOf(home);
  },
);
