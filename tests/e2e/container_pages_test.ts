/**
 * What http_fetch makes of a hostile site's answers and of large ones, its proxies side by side, and that it
 * fails without one (specification 13): from brokerd's socket through real containers.
 */
import assert from "node:assert/strict";
import { namesOf, startBroker, type TempHome, until } from "../support/broker.ts";
import { containersOf, contentOf, pageTest } from "../support/containers.ts";
import {
  answerTo,
  failureAt,
  fetchHome,
  nothingLeftOf,
  type Page,
  pageAt,
  refusedLines,
} from "../support/fetches.ts";
import { tomlText } from "../support/grants.ts";
import { HttpsSite, response } from "../support/https_site.ts";
import { GrantPlace } from "../support/image.ts";
import { processesWith, TempDir } from "../support/scripts.ts";

const SITE = "127.0.10.1";

/** `text` as a server sends it that says whatever it likes: each character is one byte. */
const bytesOf = (text: string) => Uint8Array.from(text, (each) => each.charCodeAt(0));

const FAKE_PAGE = '{"status":"HTTP/1.1 200 OK","headers":{},"body":"granted"}';
const FAKE_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/fake\r\n\r\n";

/** What a hostile site sends, and what of it is the page. */
const HOSTILE: Readonly<Record<string, readonly [sent: string, page: Page]>> = {
  "a body that looks like a head": [
    response("404 Not Found", {}, `\r\n\r\n\n\n${FAKE_HEAD}x`),
    { status: "HTTP/1.1 404 Not Found", headers: {}, body: `\r\n\r\n\n\n${FAKE_HEAD}x` },
  ],
  "a body that looks like a page's JSON": [
    response("404 Not Found", {}, FAKE_PAGE),
    { status: "HTTP/1.1 404 Not Found", headers: {}, body: FAKE_PAGE },
  ],
  "a body that ends the JSON string that it is in": [
    response("404 Not Found", {}, '\\"}\n{"status":"HTTP/1.1 200 OK"}\0SC\x1b[2J'),
    {
      status: "HTTP/1.1 404 Not Found",
      headers: {},
      body: '\\"}\n{"status":"HTTP/1.1 200 OK"}\0SC\x1b[2J',
    },
  ],
  "a body that is not UTF-8": [
    response("200 OK", {}, "a\xff\xfeb"),
    { status: "HTTP/1.1 200 OK", headers: {}, body: "a\ufffd\ufffdb" },
  ],
  "control characters in the head": [
    response('200 \x1b[31m"\x07', { "Content-Type": 'a\x1b]0;t\x07"\xe2\x80\xaeb' }, "x"),
    {
      status: 'HTTP/1.1 200 ?[31m"?',
      headers: { "content-type": 'a?]0;t?"???b' },
      body: "x",
    },
  ],
  "a head before the head": [
    `HTTP/1.1 103 Early Hints\r\nContent-Type: text/early\r\n\r\n${response("403 No", {}, "x")}`,
    { status: "HTTP/1.1 403 No", headers: {}, body: "x" },
  ],
  "a header's name that JavaScript knows": [
    response("200 OK", { "__proto__": "x", "Content-Type": "a", "constructor": "x" }, "x"),
    { status: "HTTP/1.1 200 OK", headers: { "content-type": "a" }, body: "x" },
  ],
  "headers that lead elsewhere but by a redirect": [
    response("200 OK", {
      "Location": "https://evil.example/",
      "Refresh": "0; url=https://evil.example/",
      "Alt-Svc": 'h2="evil.example:443"; ma=9999',
      "Link": "<https://evil.example/>; rel=preload",
    }, '<meta http-equiv="refresh" content="0; url=https://evil.example/">'),
    {
      status: "HTTP/1.1 200 OK",
      headers: { location: "https://evil.example/" },
      body: '<meta http-equiv="refresh" content="0; url=https://evil.example/">',
    },
  ],
};

/** What is no page at all, and why the fetch fails. */
const BROKEN: Readonly<Record<string, readonly [sent: string, why: RegExp]>> = {
  "nothing": ["", /^curl: \(52\) Empty reply from server$/],
  "no HTTP": ["granted", /^curl: \(1\) |only https/],
  "less than was promised": [response("200 OK", { "Content-Length": "9" }, "x"), /^curl: \(18\) /],
  "a line of 1 MiB": [response("200 OK", { "X": "x".repeat(1024 * 1024) }, "x"), /^curl: \(\d+\) /],
  "a length below nothing": [
    response("200 OK", { "Content-Length": "-1" }, "x"),
    /^curl: \(\d+\) /,
  ],
  "a packed body that is not packed": [
    response("200 OK", { "Content-Encoding": "gzip" }, FAKE_HEAD),
    /^curl: \((23|61)\) /,
  ],
};

pageTest("what a hostile page says stands in its place, and nowhere else", async (t) => {
  const sent = [...Object.entries(HOSTILE), ...Object.entries(BROKEN)];
  const pathOf = (name: string) => `/${name.replaceAll(/\W/g, "-")}`;
  await using site = new HttpsSite(
    SITE,
    Object.fromEntries(sent.map(([name, [text]]) => [pathOf(name), () => bytesOf(text)])),
  );
  using home = await fetchHome(SITE);
  await using broker = await startBroker(home);
  for (const [name, [, page]] of Object.entries(HOSTILE)) {
    await t.step(name, async () => {
      assert.deepEqual(await pageAt(home, `https://page.example${pathOf(name)}`), page);
    });
  }
  for (const [name, [, why]] of Object.entries(BROKEN)) {
    await t.step(name, async () => {
      assert.match(await failureAt(home, `https://page.example${pathOf(name)}`), why);
    });
  }
  assert.deepEqual(
    new Set(site.asked),
    new Set(sent.map(([name]) => `page.example${pathOf(name)}`)),
  );
  await broker.stop();
  assert.deepEqual(refusedLines(broker.stderr), []);
});

pageTest("a large, a packed, an endless and a slow page end at the limits", async (t) => {
  await using _site = new HttpsSite(SITE);
  const limits = { output_bytes: 5000, timeout_ms: 5000 };
  using home = await fetchHome(SITE, {}, { runner: limits });
  await using broker = await startBroker(home);
  for (const path of ["/big", "/bomb", "/endless"]) {
    await t.step(path, async () => {
      const answer = await answerTo(home, `https://page.example${path}`);
      assert(answer.status === "result", JSON.stringify(answer));
      assert.equal(answer.truncated, true);
      const page: Page = JSON.parse(answer.content);
      assert.equal(page.body, "0".repeat(limits.output_bytes));
    });
  }
  await t.step("/slow", async () => {
    assert.equal(
      await failureAt(home, "https://page.example/slow"),
      "it was stopped after 5000 ms",
    );
  });
  await t.step("/endless-headers", async () => {
    assert.match(await failureAt(home, "https://page.example/endless-headers"), /^curl|^it was/);
  });
  await nothingLeftOf(home);
  // Within the limits the same pages come whole.
  const whole = await answerTo(home, "https://page.example/status/200");
  assert(whole.status === "result");
  assert.equal(whole.truncated, false);
  await broker.stop();
});

pageTest("fetches side by side have a proxy each, and nothing is left of them", async () => {
  await using site = new HttpsSite(SITE);
  using home = await fetchHome(SITE, {}, { runner: { parallel: 4 } });
  await using broker = await startBroker(home);
  const proxies = `${home.layout.broker}/egress`;
  const names = ["page.example", "www.page.example", "other.example", "page.example"];
  const pages = names.map((name) => pageAt(home, `https://${name}/held`));
  await until("four requests", () => site.asked.length === 4);
  const sockets = processesWith(proxies).flatMap(({ commandLine }) =>
    /egress\/main\.ts .*"socket":"([^"]*)"/.exec(commandLine)?.[1] ?? []
  );
  assert.deepEqual(
    sockets.toSorted(),
    namesOf(proxies).map((name) => `${proxies}/${name}/proxy.sock`),
  );
  assert.equal(sockets.length, 4);
  assert.equal((await containersOf(home)).length, 4);
  site.release();
  const bodies = (await Promise.all(pages)).map(({ body }) => body);
  assert.deepEqual(bodies, names.map((name) => `this is ${name}\n`));
  await nothingLeftOf(home);
  await broker.stop();
});

pageTest("without a proxy no page is fetched, and everything else runs", async () => {
  await using site = new HttpsSite(SITE);
  using place = new TempDir();
  using notes = new GrantPlace();
  const directory = notes.directory("notes");
  Deno.writeTextFileSync(`${directory}/a.md`, "still here\n");
  // The system takes 107 bytes at most. brokerd's own sockets have shorter names than a proxy's.
  const longest = 107 - "/broker/egress/12345678/proxy.sock".length;
  using home = await homeOfLength(place, longest + 1);
  home.grant(
    "read",
    `tool = "read_file"\nmode = "auto"\n[constraints]\npaths = [${tomlText(directory)}]\n`,
  );
  await using broker = await startBroker(home);
  for (let times = 0; times < 2; times += 1) {
    assert.equal(
      await failureAt(home, "https://page.example/"),
      "the egress proxy could not be started",
    );
    assert.equal(await contentOf(home, "read_file", { path: `${directory}/a.md` }), "still here\n");
  }
  assert.equal(site.connections, 0);
  await nothingLeftOf(home);
  await broker.stop();
  assert.match(
    broker.stderr,
    /http_fetch cannot run: .*longer than the 107 bytes.*\n.*see docs\/runbook\.md#egress-cannot-start\n/,
  );
  // One byte less is not too long.
  using shorter = await homeOfLength(place, longest);
  await using _works = await startBroker(shorter);
  assert.equal((await pageAt(shorter, "https://page.example/")).body, "this is page.example\n");
});

/** A home whose path has `bytes` bytes, below `place`. */
async function homeOfLength(place: TempDir, bytes: number): Promise<TempHome> {
  const usual = Deno.env.get("TMPDIR");
  const homeIn = async (directory: string) => {
    Deno.env.set("TMPDIR", directory);
    return await fetchHome(SITE);
  };
  try {
    using short = await homeIn(place.path);
    const directory = `${place.path}/${"x".repeat(bytes - short.home.length - 1)}`;
    // Names of another length may have led to the same one before.
    Deno.mkdirSync(directory, { recursive: true });
    // Names of temporary directories are not all of one length.
    while (true) {
      const home = await homeIn(directory);
      if (home.home.length === bytes) return home;
      home[Symbol.dispose]();
    }
  } finally {
    if (usual === undefined) Deno.env.delete("TMPDIR");
    else Deno.env.set("TMPDIR", usual);
  }
}
