/** The display rules themselves (`proto/escape.ts`), by which all that `bxctl` prints goes. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { parse } from "smol-toml";
import { display, displayJson, displayProse, displayToml } from "../../proto/escape.ts";

const pure = { permissions: "none" } as const;

const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\p{Default_Ignorable_Code_Point}]/u;

/** Texts of ordinary, hidden and odd characters, lone surrogates among them, without `\` or a host. */
const anyText = fc.array(fc.oneof(
  fc.string({ unit: "binary", maxLength: 4 }),
  fc.constantFrom("\x1b[31m", "\r\n", "\t", "\u202e", "\u2066", "\u200b", "\u{e0041}", "\ufe0f"),
  fc.constantFrom("\ud800", "\udc00", "\u2028", "\x9b", "\x7f", "\ue000", "\u{10ffff}", "\u00ad"),
)).map((parts) => parts.join("").replaceAll("\\", "/").replaceAll(/xn--/gi, "xn-"));

/** What `display` wrote for `shown`, taken back. */
const undone = (shown: string) =>
  shown.replace(
    /\\u(?:\{([0-9a-f]+)\}|([0-9a-f]{4}))/g,
    (_, long, short) => String.fromCodePoint(parseInt(long ?? short, 16)),
  );

Deno.test(
  "what is displayed holds no hidden character, and nothing of the text is lost",
  pure,
  () => {
    fc.assert(fc.property(anyText, (text) => {
      const shown = display(text);
      assert.doesNotMatch(shown, HIDDEN);
      assert.equal(undone(shown), text);
    }));
  },
);

Deno.test("a string of TOML shows what it holds, and is read as it was", pure, () => {
  fc.assert(fc.property(anyText, (text) => {
    const value = text.toWellFormed();
    const shown = displayToml(value);
    assert.doesNotMatch(shown, HIDDEN);
    assert.equal(parse(`key = ${shown}`)["key"], value);
  }));
  assert.equal(displayToml("a\u202e\x9b\u{e0041}"), String.raw`"a\u202e\u009b\U000e0041"`);
});

Deno.test("prose keeps newlines and tabs, and is as safe otherwise", pure, () => {
  fc.assert(fc.property(anyText, (text) => {
    const shown = displayProse(text);
    assert.doesNotMatch(shown.replace(/[\n\t]/g, ""), HIDDEN);
    assert.equal(undone(shown), text);
    assert.equal(shown.split("\n").length, text.split("\n").length);
  }));
});

Deno.test("JSON for the owner reads as the same value and holds no hidden character", pure, () => {
  fc.assert(fc.property(fc.dictionary(anyText, anyText), (value) => {
    const shown = displayJson(value);
    assert.doesNotMatch(shown, HIDDEN);
    assert.equal(JSON.stringify(JSON.parse(shown)), JSON.stringify(value));
  }));
});

Deno.test("every hidden character is escaped in its one form, with lowercase hex", pure, () => {
  const forms: Record<string, string> = {
    "\0": "\\u0000",
    "\x1b": "\\u001b",
    "\x7f": "\\u007f",
    "\x9f": "\\u009f",
    "\u00ad": "\\u00ad",
    "\u034f": "\\u034f",
    "\u115f": "\\u115f",
    "\u2029": "\\u2029",
    "\ud8ff": "\\ud8ff",
    "\ufeff": "\\ufeff",
    "\uffff": "\\uffff",
    "\u{e0020}": "\\u{e0020}",
    "\u{e0100}": "\\u{e0100}",
    "\u{10fffd}": "\\u{10fffd}",
  };
  for (const [character, form] of Object.entries(forms)) {
    assert.equal(display(`a${character}b`), `a${form}b`);
    assert.equal(displayProse(`a${character}b`), `a${form}b`);
  }
  for (const plain of ["\\", "\\u001b", "é", "日本語", "😀", "\u0301", " ", "\u00a0"]) {
    assert.equal(display(plain), plain);
  }
});

Deno.test("an encoded host is followed by its decoded form wherever it stands", pure, () => {
  const forms: Record<string, string> = {
    "https://xn--80ak6aa92e.com/a": "https://xn--80ak6aa92e.com (аррӏе.com)/a",
    "HTTPS://XN--80AK6AA92E.COM": "HTTPS://XN--80AK6AA92E.COM (аррӏе.com)",
    "www.xn--mnchen-3ya.de.": "www.xn--mnchen-3ya.de (www.münchen.de).",
    "\u200bxn--mnchen-3ya.de": "\\u200bxn--mnchen-3ya.de (münchen.de)",
    // Right after the escapes of JSON.
    '"\\nxn--mnchen-3ya.de"': '"\\nxn--mnchen-3ya.de (münchen.de)"',
    // A host whose letters the model wrote as escapes of JSON is the same host.
    '"https://\\u0078n--bcher-kva.foo.org/"':
      '"https://\\u0078n--bcher-kva.foo.org (bücher.foo.org)/"',
    '"https:\\u002f\\u002fx.xn--bcher-kva.org"':
      '"https:\\u002f\\u002fx.xn--bcher-kva.org (x.bücher.org)"',
    '"\\nx.xn--bcher-kva.org"': '"\\nx.xn--bcher-kva.org (x.bücher.org)"',
    '"https:\\u002f/x.x\\u006E--bcher-kva.org:443/"':
      '"https:\\u002f/x.x\\u006E--bcher-kva.org (x.bücher.org):443/"',
    '"https://x\\u002exn--bcher-kva.org/"': '"https://x\\u002exn--bcher-kva.org (x.bücher.org)/"',
    '"https://\\u0058\\u004e--bcher-kva.org/"':
      '"https://\\u0058\\u004e--bcher-kva.org (bücher.org)/"',
    // Letters right before it do not hide it; whole labels before it belong to it.
    "axn--bcher-kva.org": "axn--bcher-kva.org (bücher.org)",
    "AXN--BCHER-KVA.ORG": "AXN--BCHER-KVA.ORG (bücher.org)",
    "www.XN--MNCHEN-3YA.DE": "www.XN--MNCHEN-3YA.DE (www.münchen.de)",
    "xn-- is no host": "xn-- (xn-\ufffd) is no host",
    "example.com": "example.com",
    [`xn--${"a".repeat(300)}.de`]: `xn--${"a".repeat(300)}.de`,
  };
  for (const [text, shown] of Object.entries(forms)) {
    assert.equal(display(text), shown);
    assert.equal(displayProse(text), shown);
  }
});

Deno.test("a host of 253 characters is the longest that is decoded", pure, () => {
  const longest = `${`${"a".repeat(61)}.`.repeat(3)}${"b".repeat(49)}.xn--mnchen-3ya.de`;
  assert.equal(longest.length, 253);
  const decoded = longest.replace("xn--mnchen-3ya", "münchen");
  assert.equal(display(longest), `${longest} (${decoded})`);
  assert.equal(display(`c${longest}`), `c${longest}`);
});

Deno.test("a decoded host is escaped like everything else", pure, () => {
  // A zero-width joiner, which Hindi needs and host names may hold.
  assert.equal(display("xn--11b2ezcw70k.com"), "xn--11b2ezcw70k.com (क्\\u200dष.com)");
});

Deno.test("a megabyte without an end of a word is displayed as a short text is", pure, () => {
  // One that took time by the square of its length would be at it for a quarter of an hour.
  for (const unit of ["a", "a.", "xn--", "-.x"]) {
    const text = unit.repeat(1_000_000 / unit.length);
    assert.equal(display(text), text);
  }
});
