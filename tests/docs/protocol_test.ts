/** docs/protocol.md holds what the programs speak: its examples, kinds, reasons and codes. */
import assert from "node:assert/strict";
import { type Anchor, encodeHead, parseHead, parseRecord } from "../../proto/audit.ts";
import { DENY_REASONS } from "../../proto/decisions.ts";
import { decodeFrame } from "../../proto/frames.ts";
import { BODIES, ERROR_CODES, type Kind } from "../../proto/messages.ts";
import { utf8 } from "../../proto/text.ts";
import { blocks, read } from "../support/docs.ts";

const protocol = read("docs/protocol.md");
const examples = blocks(protocol).filter(({ language }) => language === "jsonl")
  .flatMap(({ lines }) => lines);
const frames = examples.filter((line) => line.startsWith('{"v":'));
const records = examples.filter((line) => line.includes('"prev":'));
const kinds = Object.keys(BODIES) as Kind[];

Deno.test("every frame in protocol.md is one in its one form, and there is one of each kind", () => {
  const seen = new Set<string>();
  for (const line of frames) {
    const decoded = decodeFrame(utf8(line), kinds);
    assert.ok(decoded.ok, line);
    seen.add(decoded.message.kind);
  }
  assert.deepEqual([...seen].sort(), [...kinds].sort());
});

Deno.test("every record in protocol.md is one in its one form, and there is one of each type", () => {
  const types = records.map((line) => {
    const record = parseRecord(utf8(line));
    assert.ok(record, line);
    return record.event.type;
  });
  const all = ["accepted_break", "approval", "decision", "recovery", "result"];
  assert.deepEqual([...new Set(types)].sort(), all);
});

Deno.test("the head in protocol.md is one in its one form", () => {
  const heads = examples.filter((line) => line.startsWith('{"seq":') && !records.includes(line));
  assert.equal(heads.length, 1);
  const head: Anchor = JSON.parse(heads[0] ?? "");
  const bytes = encodeHead(head);
  assert.deepEqual(parseHead(bytes), head);
  assert.equal(new TextDecoder().decode(bytes).trimEnd(), heads[0]);
});

Deno.test("protocol.md names every reason of a denial and every error code, and no other", () => {
  const firstCells = (from: string) => {
    const table = protocol.slice(protocol.indexOf(from)).match(/(?:^\|.*\n)+/m)?.[0] ?? "";
    return [...table.matchAll(/^\| `(\w+)`/gm)].map(([, word]) => word ?? "");
  };
  assert.deepEqual(firstCells("Reasons, in the order").sort(), [...DENY_REASONS].sort());
  assert.deepEqual(firstCells("### Errors").sort(), [...ERROR_CODES].sort());
});
