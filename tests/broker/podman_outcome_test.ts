/** What a container's output and end mean: the runner's own framing, and what imitates it. */
import assert from "node:assert/strict";
import {
  type Ended,
  hasStarted,
  lastWords,
  mayHaveRun,
  mountFailure,
  outcomeOf,
} from "../../broker/podman/outcome.ts";
import type { RunOutcome } from "../../broker/runner.ts";
import { utf8 } from "../../proto/text.ts";
import type { ToolArgs } from "../../proto/tools.ts";

function pure(name: string, fn: () => void | Promise<void>): void {
  Deno.test({ name, permissions: "none", fn });
}

const LIMIT = 10;
const ARGS = {
  read: { tool: "read_file", path: "/n/a" },
  write: { tool: "write_file", path: "/n/a\x1b[2J", content: "x" },
  shell: { tool: "shell", command: "x" },
  fetch: { tool: "http_fetch", url: "https://a.example" },
} as const satisfies Record<string, ToolArgs>;

function ended(
  stdout: string | Uint8Array,
  { stderr = "", code = 0, how = "exited" }: {
    readonly stderr?: string | Uint8Array;
    readonly code?: number;
    readonly how?: Ended["how"];
  } = {},
): Ended {
  const bytes = (said: string | Uint8Array) => typeof said === "string" ? utf8(said) : said;
  return { how, code, stdout: bytes(stdout), stderr: bytes(stderr) };
}

const outcome = (args: ToolArgs, end: Ended) => outcomeOf(args, end, LIMIT, 1500);
const result = (content: string, truncated = false): RunOutcome => ({
  status: "result",
  content,
  truncated,
});
const failed = (message: string): RunOutcome => ({ status: "failed", message });

pure("a tool has started once it has said so first, and not otherwise", () => {
  assert(hasStarted(ended("S")));
  assert(hasStarted(ended("Srest")));
  for (const said of ["", "s", "xS", "\nS", "Error"]) assert(!hasStarted(ended(said)), said);
  assert(!hasStarted(ended("", { stderr: "S" })));
});

pure("the last words are one line, as data, and not long", () => {
  assert.equal(lastWords(ended("", { stderr: "one\ntwo\x1b[2J\n\n" })), "two\\u001b[2J");
  assert.equal(lastWords(ended("", { stderr: "" })), "");
  assert.equal(lastWords(ended("", { stderr: "x".repeat(5000) })).length, 1000);
});

pure(
  "a granted path that is not there, or leads elsewhere, is told from a runner that fails",
  () => {
    const missing = ended("", {
      code: 125,
      stderr: "Error: statfs /n: no such file or directory\n",
    });
    assert.equal(mountFailure(missing), "the granted path /n does not exist");
    const link = "/n leads through a symbolic link to /etc/ssh; the grant must name the real path";
    assert.equal(mountFailure(ended("", { code: 70, stderr: `${link}\n` })), link);
    assert.equal(mountFailure(ended("", { code: 125, stderr: "Error: crun: no\n" })), null);
  },
);

pure(
  "a container whose words were lost may have run; one that podman could not start has not",
  () => {
    for (const code of [0, 1, 71, 137]) assert(mayHaveRun(ended("", { code })), String(code));
    for (const code of [70, 125, 126, 127]) assert(!mayHaveRun(ended("", { code })), String(code));
    assert(!mayHaveRun(ended("S", { code: 1 })));
    for (const how of ["late", "stopped"] as const) {
      assert(!mayHaveRun(ended("", { code: 137, how })));
    }
  },
);

const FILES: readonly (readonly [bytes: string | Uint8Array, wanted: RunOutcome])[] = [
  ["", result("")],
  ["S", result("S")],
  ["0123456789", result("0123456789")],
  ["0123456789x", result("0123456789", true)],
  // A character that the limit would cut in two goes as a whole.
  ["012345678äx", result("012345678", true)],
  ["01234567€xy", result("01234567", true)],
  ["0123456😀yz", result("0123456", true)],
  ["012345😀y", result("012345😀", true)],
  ["\ufeffa", result("\ufeffa")],
  [new Uint8Array([0x61, 0xff]), failed("the file is not UTF-8 text")],
  [new Uint8Array([0xc3]), failed("the file is not UTF-8 text")],
  [new Uint8Array([...utf8("012345"), 0xed, 0xa0, 0x80]), failed("the file is not UTF-8 text")],
  // Nothing but continuations is no text either, cut or not.
  [new Uint8Array(20).fill(0x80), failed("the file is not UTF-8 text")],
];

pure("a file is its text, whole or cut between two characters", () => {
  for (const [bytes, wanted] of FILES) {
    const content = typeof bytes === "string" ? utf8(bytes) : bytes;
    const stdout = new Uint8Array([...utf8("S"), ...content]);
    assert.deepEqual(outcome(ARGS.read, ended(stdout)), wanted, JSON.stringify(bytes));
  }
  // Words on stderr change nothing of a tool that ended well.
  assert.deepEqual(outcome(ARGS.read, ended("Sa", { stderr: "b" })), result("a"));
});

pure("a tool that ends badly fails with its own words, or its status", () => {
  for (const args of [ARGS.read, ARGS.write, ARGS.fetch]) {
    const said = ended("Shalf", { code: 1, stderr: "/n/a does not exist\n" });
    assert.deepEqual(outcome(args, said), failed("/n/a does not exist"));
    assert.deepEqual(
      outcome(args, ended("S", { code: 137 })),
      failed("the tool ended with status 137"),
    );
    assert.deepEqual(
      outcome(args, ended("S", { code: 137, how: "late" })),
      failed("it was stopped after 1500 ms"),
    );
    assert.deepEqual(
      outcome(args, ended("S", { code: 137, how: "stopped" })),
      failed("it was stopped with brokerd"),
    );
  }
});

pure("a file that was written is told by its name, as data", () => {
  assert.deepEqual(outcome(ARGS.write, ended("S")), result("wrote /n/a\\u001b[2J"));
});

const COMMANDS: readonly (readonly [end: Ended, wanted: RunOutcome])[] = [
  [ended("SC"), result('{"exit":0,"stdout":"","stderr":""}')],
  [
    ended("SCa\n", { stderr: "\0b\n", code: 3 }),
    result('{"exit":3,"stdout":"a\\n","stderr":"b\\n"}'),
  ],
  // What Podman warned of is not the command's; a NUL of its own is.
  [
    ended("SC", { stderr: "Resource limits are not supported\n\0b\0\n" }),
    result('{"exit":0,"stdout":"","stderr":"b\\u0000\\n"}'),
  ],
  [
    ended("SC", { stderr: "Resource limits are not" }),
    result('{"exit":0,"stdout":"","stderr":""}'),
  ],
  // What looks like the runner's words is data.
  [
    ended('SC","e":7', { stderr: "\0SC", code: 0 }),
    result('{"exit":0,"stdout":"\\",\\"e\\":7","stderr":"SC"}'),
  ],
  [ended(new Uint8Array([0x53, 0x43, 0xff])), result('{"exit":0,"stdout":"�","stderr":""}')],
  // Both streams have one limit.
  [ended("SC0123456789"), result('{"exit":0,"stdout":"0123456789","stderr":""}')],
  [ended("SC0123456789x"), result('{"exit":0,"stdout":"0123456789","stderr":""}', true)],
  [
    ended("SC012345", { stderr: "\0abcdef" }),
    result('{"exit":0,"stdout":"012345","stderr":"abcd"}', true),
  ],
  [
    ended("SC01234567890", { how: "cut", code: 137 }),
    result('{"exit":null,"stdout":"0123456789","stderr":""}', true),
  ],
  [
    ended("SCa", { how: "late", code: 137 }),
    failed('it was stopped after 1500 ms; until then: {"exit":null,"stdout":"a","stderr":""}'),
  ],
  [
    ended("SCa", { how: "stopped", code: 137 }),
    failed('it was stopped with brokerd; until then: {"exit":null,"stdout":"a","stderr":""}'),
  ],
  // The command itself has not run.
  [ended("S", { code: 71, stderr: "/n/x does not exist\n" }), failed("/n/x does not exist")],
  [ended("S", { code: 137 }), failed("the shell ended with status 137")],
  [ended("S", { how: "late", code: 137 }), failed("it was stopped after 1500 ms")],
];

pure("a command is its status and its output, which cannot pass for anything else", () => {
  for (const [end, wanted] of COMMANDS) assert.deepEqual(outcome(ARGS.shell, end), wanted);
});

const PAGES: readonly (readonly [said: string, wanted: RunOutcome])[] = [
  ["HTTP/1.1 200 OK \n\n", result('{"status":"HTTP/1.1 200 OK","headers":{},"body":""}')],
  [
    "HTTP/2 404\ncontent-type: text/html; charset=utf-8\nlocation: https://a.example/:x\n\nno",
    result(
      '{"status":"HTTP/2 404","headers":{"content-type":"text/html; charset=utf-8",' +
        '"location":"https://a.example/:x"},"body":"no"}',
    ),
  ],
  // A body that begins as headers do.
  [
    "HTTP/2 200\n\n\n\nHTTP/2 500\nx: y\n",
    result('{"status":"HTTP/2 200","headers":{},"body":"\\n\\nHTTP/2 5"}', true),
  ],
  ["HTTP/2 200\n\n0123456789", result('{"status":"HTTP/2 200","headers":{},"body":"0123456789"}')],
  [
    "HTTP/2 200\n\n012345678ä",
    result('{"status":"HTTP/2 200","headers":{},"body":"012345678"}', true),
  ],
  ["HTTP/2 200\nno end", failed("the answer of the server has no end of its headers")],
];

pure("a page is its status line, a few headers and its body", () => {
  for (const [said, wanted] of PAGES) {
    assert.deepEqual(outcome(ARGS.fetch, ended(`S${said}`)), wanted, said);
  }
});
