/** The page of `bxctl audit report` in a browser, made from a log in which every text is hostile. */
import assert from "node:assert/strict";
import { display } from "../../proto/escape.ts";
import { hasBrowser, loaded } from "../support/browser.ts";
import { answered, at, CallsHome, decided, ended } from "../support/calls_log.ts";
import { runCtl } from "../support/ctl.ts";
import { PAYLOADS } from "../support/hostile_words.ts";

/** A server of this machine that notes what is asked of it. */
class Listener implements AsyncDisposable {
  readonly asked: string[] = [];
  readonly #server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    ({ url }) => {
      this.asked.push(new URL(url).pathname);
      return new Response("");
    },
  );
  readonly url = `http://127.0.0.1:${this.#server.addr.port}`;

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

/** What sets a mark on the document, when it runs. */
const RUN = `document.documentElement.setAttribute("data-ran","1")`;
const MARK = 'data-ran="1"';

/** Markup that runs scripts or sends requests to `url`, wherever a page lets it in. */
function markup(url: string): Record<string, string> {
  return {
    "script": `<script>${RUN}</script>`,
    "script from elsewhere": `</td></tr></table><script src="${url}/script"></script>`,
    "picture": `<img src="${url}/img" onerror='${RUN}'>`,
    "vector": `<svg onload='${RUN}'><image href="${url}/svg"/></svg>`,
    "out of an attribute": `"' autofocus onfocus='${RUN}' x="`,
    "out of the style": `</style></title><script>${RUN}</script>`,
    "frame": `<iframe src="${url}/frame" srcdoc="<script>parent.${RUN}</script>"></iframe>`,
    "style": `<style>@import url("${url}/import"); body { background: url("${url}/css") }</style>`,
    "link": `<link rel="stylesheet" href="${url}/link"><link rel="icon" href="${url}/icon">`,
    "refresh": `<meta http-equiv="refresh" content="0;url=${url}/refresh">`,
    "base": `<base href="${url}/base/"><img src="x">`,
    "media": `<video autoplay src="${url}/video"></video><object data="${url}/object"></object>`,
    "entities": `&lt;script&gt;${RUN}&lt;/script&gt;&#60;script&#62;`,
    "comment": `--><!--><script>${RUN}</script><!--`,
    "overlong": `<script>${RUN}</script>`.padEnd(1024 * 1024 - 100, "x"),
  };
}

/** Writes every text of `texts` in every text field of a call that was answered, and of one that was not. */
function hostileLog(home: CallsHome, texts: readonly string[]): void {
  for (const text of texts) {
    const outcome = { outcome: "ask" } as const;
    const fields = { tool: text, arguments: text, grant: text, outcome };
    const asked = home.add(at("09:00:00"), decided(fields));
    home.add(at("09:00:01"), answered(asked, { by: text, post: text, reason: text }));
    home.add(at("09:00:02"), ended(asked, { taint_after: "secret" }));
    const command = JSON.stringify({ command: text });
    home.add(at("09:00:03"), decided({ session: "chat-2", tool: "shell", arguments: command }));
  }
}

/** `text` as a document that was read holds it in a text. */
function inDocument(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

async function report(home: CallsHome): Promise<string> {
  const out = `${home.root}/page.html`;
  const args = ["audit", "report", "--out", out, "--home", home.root];
  const { code, stderr } = await runCtl(home.root, args);
  assert.deepEqual([code, stderr], [0, ""]);
  return out;
}

Deno.test({
  name: "in a browser, nothing of a hostile log runs or leaves, and its texts are read as data",
  // Debian's package chromium is not installed.
  ignore: !hasBrowser(),
  fn: async () => {
    using home = new CallsHome();
    await using listener = new Listener();
    const texts = [...Object.values(markup(listener.url)), ...Object.values(PAYLOADS)];
    hostileLog(home, texts);
    Deno.writeTextFileSync(`${home.root}/grants/<img src=x onerror='${RUN}'>\u202e.toml`, "");
    const path = await report(home);
    const document = await loaded(path);
    assert.ok(!document.includes(MARK));
    assert.equal(listener.asked.join(), "");
    assert.doesNotMatch(document, /<(?:script|img|svg|iframe|link|object|video|form|base)\b/i);
    assert.equal(document.match(/<meta\b/g)?.length, 4);
    assert.equal(document.match(/<style\b/g)?.length, 1);
    // Hidden characters, which would reorder or hide text, are not there; newlines are the page's own.
    assert.doesNotMatch(document.replaceAll("\n", ""), /[\p{C}\p{Default_Ignorable_Code_Point}]/u);
    for (const text of texts.filter((text) => text.length < 2000)) {
      const shown = inDocument(display(text));
      // The tool, the arguments, the grant that was used and who answered, at the least.
      assert.ok(document.split(shown).length > 4, shown);
      assert.ok(document.includes(inDocument(display(JSON.stringify(text)))), shown);
    }
    assert.match(document, /xxx… \d+ more characters, bxctl audit show \d+ …xxx/);
    // The name of a file that is no grant is told, as data.
    const problem = `could not be used: ${
      inDocument(`<img src=x onerror='${RUN}'>`)
    }\\u202e.toml: `;
    assert.ok(document.includes(problem));
  },
});

Deno.test({
  name: "the same markup runs and sends where it is not escaped, and not under the page's policy",
  // Debian's package chromium is not installed.
  ignore: !hasBrowser(),
  fn: async () => {
    using home = new CallsHome();
    await using listener = new Listener();
    home.add(at("09:00:00"), decided());
    const page = Deno.readTextFileSync(await report(home));
    // Without what leads away from the page or hides what follows.
    const { refresh: _, comment: _comment, overlong: _overlong, ...rest } = markup(listener.url);
    const raw = `${page.slice(0, page.indexOf("</body>"))}${Object.values(rest).join("\n")}`;
    const path = `${home.root}/raw.html`;
    Deno.writeTextFileSync(path, raw);
    assert.ok(!(await loaded(path)).includes(MARK));
    assert.equal(listener.asked.join(), "");
    Deno.writeTextFileSync(
      path,
      raw.replace(/<meta http-equiv="Content-Security-Policy"[^>]*>/, ""),
    );
    assert.ok((await loaded(path)).includes(MARK));
    const asked = ["/css", "/img", "/import", "/link", "/script", "/svg"];
    for (const one of asked) assert.ok(listener.asked.includes(one), `${one}: ${listener.asked}`);
  },
});
