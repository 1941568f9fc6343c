import assert from "node:assert/strict";
import { approvalBlock, shortened } from "../../ctl/block.ts";
import { pending } from "../support/daemons.ts";

const pure = { permissions: "none" } as const;
const NOW = Date.parse("2026-12-01T10:00:00.000Z");

Deno.test("a waiting call is two lines: what it is about, then tool and arguments", pure, () => {
  const item = pending({
    session: "chat-1758200000000",
    arguments: '{"command": "rm -rf /home/kyle/scratch/build", "cwd": "/home/kyle/scratch"}',
  });
  assert.equal(
    approvalBlock(item, NOW, false),
    "41  2 min ago  expires in 13 min  session chat-1758200000000  grant shell-scratch  taint private\n" +
      '    shell {"command": "rm -rf /home/kyle/scratch/build", "cwd": "/home/kyle/scratch"}\n',
  );
});

Deno.test("nothing in a call can leave its two lines or reach the terminal as it is", pure, () => {
  const evil = "\x1b[2J\x9b31m\r\n\u202e\u200b\u2066\u{e0041}\ufe0f\u2028\x7f\0";
  const shown =
    "\\u001b[2J\\u009b31m\\u000d\\u000a\\u202e\\u200b\\u2066\\u{e0041}\\ufe0f\\u2028\\u007f\\u0000";
  const item = pending({ tool: `t${evil}`, arguments: `a${evil}`, grant: `g${evil}` });
  for (const whole of [false, true]) {
    assert.equal(
      approvalBlock(item, NOW, whole),
      `41  2 min ago  expires in 13 min  session chat-1  grant g${shown}  taint private\n` +
        `    t${shown} a${shown}\n`,
    );
  }
});

Deno.test("an encoded host is followed by what it stands for", pure, () => {
  const item = pending({ tool: "http_fetch", arguments: '{"url":"https://xn--80ak6aa92e.com/a"}' });
  assert.ok(
    approvalBlock(item, NOW, true)
      .endsWith('    http_fetch {"url":"https://xn--80ak6aa92e.com (аррӏе.com)/a"}\n'),
  );
});

Deno.test(
  "arguments over 2,000 characters are shown by both ends, and in full when asked",
  pure,
  () => {
    const ofLength = (length: number) =>
      "<".repeat(1500) + "-".repeat(length - 1900) + ">".repeat(400);
    const shown = (args: string, whole: boolean) =>
      approvalBlock(pending({ arguments: args }), NOW, whole).split("\n")[1];
    assert.equal(shown(ofLength(2000), false), `    shell ${ofLength(2000)}`);
    assert.equal(
      shown(ofLength(2001), false),
      `    shell ${"<".repeat(1500)}… 101 more characters, bxctl approvals show 41 …${
        ">".repeat(400)
      }`,
    );
    assert.equal(shown(ofLength(2001), true), `    shell ${ofLength(2001)}`);
  },
);

Deno.test("a text is cut before it is escaped, and never within a character", pure, () => {
  // 2,000 characters, of which each counts once, however long it is when escaped or in UTF-16.
  assert.equal(shortened("\x1b".repeat(2000), "how"), "\\u001b".repeat(2000));
  assert.equal(shortened("😀".repeat(2000), "how"), "😀".repeat(2000));
  assert.equal(
    shortened("😀".repeat(1000) + "\x1b".repeat(1001), "how"),
    "😀".repeat(1000) + "\\u001b".repeat(500) + "… 101 more characters, how …" +
      "\\u001b".repeat(400),
  );
  const odd = shortened(`a${"😀".repeat(2001)}b`, "how");
  assert.equal(odd, `a${"😀".repeat(1499)}… 103 more characters, how …${"😀".repeat(399)}b`);
});
