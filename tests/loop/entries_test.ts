/** What the bytes of a session log come to: torn ends are left out, damage is found (contracts 8). */
import assert from "node:assert/strict";
import * as fc from "fast-check";
import { formatEntry, type LogEntry, readLog, recoveryOf } from "../../loop/entries.ts";

const TIME = "2026-12-01T10:00:00.000Z";

const ENTRIES: readonly LogEntry[] = [
  { type: "start", time: TIME, session: "s1", system: "Be kind.\n" },
  { type: "user", time: TIME, text: "Is there milk?" },
  { type: "reasoning", text: "The notes 🥛" },
  { type: "text", text: "I look." },
  {
    type: "calls",
    calls: [
      { call: "call00001", name: "call_tool", arguments: '{"tool":"read_file"' },
      { call: "call00002", name: "", arguments: "" },
    ],
  },
  {
    type: "result",
    call: "call00001",
    status: "result",
    content: "yes",
    class: "private",
    untrusted: true,
  },
  {
    type: "result",
    call: "call00002",
    status: "failed",
    content: "no such tool",
    class: null,
    untrusted: null,
  },
  { type: "end", time: TIME, outcome: "failed", message: "limit" },
  { type: "user", time: TIME, text: "again" },
  { type: "end", time: TIME, outcome: "done", message: null },
];

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

function bytesOf(...parts: readonly (LogEntry | Uint8Array | string)[]): Uint8Array<ArrayBuffer> {
  const all = parts.map((part) =>
    typeof part === "string"
      ? new TextEncoder().encode(part)
      : part instanceof Uint8Array
      ? part
      : formatEntry(part)
  );
  return new Uint8Array(all.flatMap((bytes) => [...bytes]));
}

const WHOLE = bytesOf(...ENTRIES);
/** Where each entry ends, its newline included. */
const ENDS = ENTRIES.map((_, index) => bytesOf(...ENTRIES.slice(0, index + 1)).length);

/** The number of whole entries in the first `size` bytes. */
const wholeBefore = (size: number) => ENDS.filter((end) => end <= size).length;

function good(bytes: Uint8Array) {
  const reading = readLog(bytes, "s1");
  assert(reading.ok, JSON.stringify(reading));
  return reading;
}

function damaged(bytes: Uint8Array): string {
  const reading = readLog(bytes, "s1");
  assert(!reading.ok, JSON.stringify(reading));
  return `${reading.line}: ${reading.problem}`;
}

const withoutRecoveries = (entries: readonly LogEntry[]) =>
  entries.filter(({ type }) => type !== "recovery");

/** `bytes` as loopd leaves them when it finds them so, and goes on. */
function recovered(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { torn } = good(bytes);
  return torn === null ? bytesOf(bytes) : bytesOf(bytes, recoveryOf(torn, TIME));
}

pure("a whole log is read as it was written, and so is an empty one", () => {
  assert.deepEqual(good(WHOLE), { ok: true, entries: [...ENTRIES], torn: null });
  assert.deepEqual(good(new Uint8Array()), { ok: true, entries: [], torn: null });
});

pure(
  "a log that ends at any byte is a crash: its last line is left out, and the rest stays",
  () => {
    for (let size = 0; size <= WHOLE.length; size++) {
      const { entries, torn } = good(WHOLE.subarray(0, size));
      const whole = wholeBefore(size);
      assert.deepEqual(entries, ENTRIES.slice(0, whole), `${size}`);
      const left = size - (ENDS[whole - 1] ?? 0);
      assert.equal(torn?.bytes ?? 0, left);
      if (torn !== null) assert.equal(torn.ended, false);
    }
  },
);

pure("what is appended after a torn end is read again, and the torn line stays left out", () => {
  const next: LogEntry = { type: "user", time: TIME, text: "after" };
  for (let size = 0; size < WHOLE.length; size++) {
    const whole = wholeBefore(size);
    // Before the first entry nothing can go on but a start.
    const more: LogEntry[] = [...(whole === 0 ? ENTRIES.slice(0, 1) : []), next];
    const bytes = bytesOf(recovered(WHOLE.subarray(0, size)), ...more);
    const { entries, torn } = good(bytes);
    assert.equal(torn, null);
    assert.deepEqual(withoutRecoveries(entries), [...ENTRIES.slice(0, whole), ...more]);
  }
});

pure("a recovery that is cut short itself is recovered, again and again", () => {
  const cut = WHOLE.length - 20;
  const once = recovered(WHOLE.subarray(0, cut));
  const next: LogEntry = { type: "user", time: TIME, text: "after" };
  for (let size = cut; size <= once.length; size++) {
    const twice = recovered(once.subarray(0, size));
    for (const again of [size, size + 1, size + 30, twice.length - 1, twice.length]) {
      if (again > twice.length || again < size) continue;
      const { entries, torn } = good(bytesOf(recovered(twice.subarray(0, again)), next));
      assert.equal(torn, null);
      assert.deepEqual(withoutRecoveries(entries), [...ENTRIES.slice(0, -1), next]);
    }
  }
});

pure("a line that lacks only its newline is torn too, also once it has been recovered", () => {
  const bytes = WHOLE.subarray(0, WHOLE.length - 1);
  assert.deepEqual(good(bytes).entries, ENTRIES.slice(0, -1));
  assert.deepEqual(withoutRecoveries(good(recovered(bytes)).entries), ENTRIES.slice(0, -1));
});

pure(
  "a last line that a crash filled with anything is left out, with its newline or without",
  () => {
    for (const rest of ["\0\0\0\0", "\0\0\n", "{}\n", "\n", "\xff", '{"type":"text"}\n']) {
      const { entries, torn } = good(bytesOf(WHOLE, rest));
      assert.deepEqual(entries, ENTRIES, JSON.stringify(rest));
      assert.equal(torn?.ended, rest.endsWith("\n"));
      assert.deepEqual(withoutRecoveries(good(recovered(bytesOf(WHOLE, rest))).entries), ENTRIES);
    }
  },
);

pure("only the last line can be torn: two lines that are nothing are damage", () => {
  const line = `${ENTRIES.length + 1}: not an entry`;
  for (const rest of ["half\nhalf", "half\nhalf\n", "{}\n{}", "\0\n\0"]) {
    assert.equal(damaged(bytesOf(WHOLE, rest)), line, JSON.stringify(rest));
  }
});

pure("a changed byte anywhere but in the last line is damage, at its line", () => {
  // The newline right before the last line belongs to it: without it the two are one last line.
  const lastLine = (ENDS.at(-2) ?? 0) - 1;
  for (let at = 0; at < lastLine; at++) {
    const bytes = WHOLE.slice();
    bytes[at] = 0;
    const line = wholeBefore(at) + 1;
    assert.equal(damaged(bytes), `${line}: not an entry`, `${at}`);
  }
});

pure(
  "two entries that are no longer there, or in another order, are damage where they matter",
  () => {
    const [start, user, , , calls, first, second] = ENTRIES;
    assert(start && user && calls && first && second);
    assert.equal(damaged(bytesOf(user, start)), "1: the first entry is not a start");
    assert.equal(damaged(bytesOf(start, start)), "2: a second start");
    assert.equal(damaged(bytesOf(start, first)), "2: a result of no call");
    assert.equal(damaged(bytesOf(start, calls, first, first)), "4: a second result of a call");
    assert.equal(
      damaged(bytesOf(start, calls, first, second, calls)),
      "5: a call that was asked before",
    );
    good(bytesOf(start, calls, second, first));
  },
);

pure("the log of another session is not this one's", () => {
  const reading = readLog(WHOLE, "s2");
  assert(!reading.ok);
  assert.equal(reading.problem, "the log of another session");
});

pure("an entry in any other form than its one form is damage", () => {
  const line = '{"type":"text","text":"a"}';
  good(bytesOf(...ENTRIES, `${line}\n`, ...ENTRIES.slice(1, 2)));
  for (
    const other of [
      '{"text":"a","type":"text"}',
      '{"type": "text","text":"a"}',
      '{"type":"text","text":"\\u0061"}',
      '{"type":"text","text":"a","more":1}',
      '{"type":"text","text":"\\ud800"}',
      '{"type":"text","text":"a"}\r',
      "",
    ]
  ) {
    const bytes = bytesOf(...ENTRIES, `${other}\n`, ...ENTRIES.slice(1, 2));
    assert.equal(damaged(bytes), `${ENTRIES.length + 1}: not an entry`, other);
  }
});

pure("a recovery covers what it describes and nothing else", () => {
  const torn = bytesOf(WHOLE, "half");
  const line = ENTRIES.length + 2;
  const does = "a recovery that does not fit what it follows";
  const reading = good(torn);
  assert(reading.torn);
  const { torn: right } = reading;
  const after = (recovery: Uint8Array) => bytesOf(torn, recovery, ...ENTRIES.slice(1, 2));
  good(after(recoveryOf(right, TIME)));
  for (
    const wrong of [
      { ...right, bytes: right.bytes + 1 },
      { ...right, bytes: right.bytes - 1 },
      { ...right, bytes: 10 ** 9 },
      { ...right, sha256: "0".repeat(64) },
    ]
  ) {
    assert.equal(damaged(after(recoveryOf(wrong, TIME))), `${line}: ${does}`);
  }
  const twice = bytesOf(WHOLE, "half\nhalf");
  assert.equal(
    damaged(bytesOf(twice, recoveryOf(right, TIME), "x")),
    `${ENTRIES.length + 1}: not an entry`,
  );
});

pure("any bytes are a log, a torn one or a damaged one, and never an exception", () => {
  const part = fc.oneof(
    fc.constantFrom(...ENTRIES.map((entry) => formatEntry(entry))),
    fc.uint8Array({ maxLength: 30 }),
    fc.constantFrom("\n", '{"type":"recovery"', "{}\n").map((text) => bytesOf(text)),
  );
  fc.assert(
    fc.property(fc.array(part), (parts) => {
      const bytes = bytesOf(...parts);
      const reading = readLog(bytes, "s1");
      if (!reading.ok) return;
      assert.deepEqual(
        withoutRecoveries(good(recovered(bytes)).entries),
        withoutRecoveries(reading.entries),
      );
    }),
    { numRuns: 500 },
  );
});
