/** Known faults of terminals and of prompts on them, as texts of a model (docs/known-attacks.md). Each case is named after its entry. */
import assert from "node:assert/strict";
import { approvalBlock } from "../../ctl/block.ts";
import { display, displayJson, displayProse } from "../../proto/escape.ts";
import { pending } from "../support/daemons.ts";

const NOW = Date.parse("2026-12-01T10:00:00.000Z");

/** What a model writes, then how its owner sees it. */
const CASES: Readonly<Record<string, readonly (readonly [text: string, shown: string])[]>> = {
  "CVE-2003-0063: the window's title as input": [
    ["\x1b]2;;id;\x07\x1b[21t", "\\u001b]2;;id;\\u0007\\u001b[21t"],
    ["\x9b21t", "\\u009b21t"],
  ],
  "CVE-2008-2383: an answer to DECRQSS as input": [
    ["\x1bP$q\rid\r\x1b\\", "\\u001bP$q\\u000did\\u000d\\u001b\\"],
    ["\x90$qid\x9c", "\\u0090$qid\\u009c"],
  ],
  "CVE-2022-45063: an answer to a question about the font as input": [
    ["\x1b]50;i$(id)\x07\x1b]50;?\x07", "\\u001b]50;i$(id)\\u0007\\u001b]50;?\\u0007"],
  ],
  "CVE-2019-9535: a terminal's own protocol in output": [
    ["\x1bP1000p%output", "\\u001bP1000p%output"],
    ["\x1b]52;c;aWQK\x07", "\\u001b]52;c;aWQK\\u0007"],
    ["\x1b]8;;https://evil.example\x1b\\here", "\\u001b]8;;https://evil.example\\u001b\\here"],
  ],
  "CVE-2023-28446 and CVE-2023-28101: escapes that rewrite what was asked": [
    ["\x1b[1A\x1b[2K\x1b[8m", "\\u001b[1A\\u001b[2K\\u001b[8m"],
    ["\x08\x08\x08ls\x7f", "\\u0008\\u0008\\u0008ls\\u007f"],
    ["rm\rls", "rm\\u000dls"],
  ],
  "CVE-2021-42574: text that reads in another order than it stands": [
    ["\u202eid\u202c\u2066\u2069\u200f", "\\u202eid\\u202c\\u2066\\u2069\\u200f"],
  ],
  "ASCII smuggling, 2024: letters that nobody sees": [
    ["ls\u{e0072}\u{e006d}\u200b\u2062\ufe0f", "ls\\u{e0072}\\u{e006d}\\u200b\\u2062\\ufe0f"],
  ],
};

for (const [name, texts] of Object.entries(CASES)) {
  Deno.test(name, { permissions: "none" }, () => {
    for (const [text, shown] of texts) {
      assert.equal(display(text), shown);
      assert.equal(displayProse(text), shown);
      assert.doesNotMatch(displayJson({ text }), /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/u);
      for (const whole of [false, true]) {
        const block = approvalBlock(pending({ tool: text, arguments: text }), NOW, whole);
        assert.ok(block.endsWith(`    ${shown} ${shown}\n`), block);
      }
    }
    assert.equal(display("rm -rf é 日本"), "rm -rf é 日本");
  });
}

Deno.test("Lies-in-the-Loop, 2025: the part that matters pushed out of sight", {
  permissions: "none",
}, () => {
  const lines = (args: string, whole: boolean) =>
    approvalBlock(pending({ arguments: args }), NOW, whole).split("\n");
  // By empty lines: they stand as what they are, on the one line of the call.
  const pushed = `{"command":${"\n".repeat(300)}"rm -rf /n"}`;
  assert.deepEqual(lines(pushed, false).slice(1), [
    `    shell {"command":${"\\u000a".repeat(300)}"rm -rf /n"}`,
    "",
  ]);
  // By length: both ends are there and what is left out is counted; a chat shows all before it asks.
  const command = `ls ${" ".repeat(5000)}; rm -rf /n ${" ".repeat(5000)}`;
  const long = JSON.stringify({ command });
  assert.match(lines(long, false)[1] ?? "", /… \d+ more characters, bxctl approvals show 41 …/);
  assert.equal(lines(long, true)[1], `    shell ${long}`);
  assert.deepEqual([lines(long, false).length, lines(long, true).length], [3, 3]);
});
