/**
 * A document as its reader follows it, in a fresh copy of the project: its `sh` blocks are typed into a shell,
 * one after the other, and its `console` blocks into the chat of `deno task up`. What the document shows is
 * held against what is really printed.
 */
import assert from "node:assert/strict";
import { type Block, blocks } from "./docs.ts";
import { Followed, ROOT, TempDir } from "./scripts.ts";

/** What of the project a reader needs to have. */
const COPIED = ["broker", "ctl", "docs", "loop", "proto", "scripts", "deno.json", "deno.lock"];

/** Where the project lies in the documents. */
const SHOWN_PROJECT = "/home/kyle/boxmaker";

/** How long one thing that is waited for may take, in milliseconds: a reader waits, too. */
const PATIENCE_MS = 120_000;

/** What differs from run to run, and what stands in its place on both sides. */
const VARYING: readonly (readonly [RegExp, string])[] = [
  [/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\b/g, "TIME"],
  [/\b\d{4}-\d\d-\d\d\.jsonl\b/g, "DAY.jsonl"],
  [/\b[0-9a-f]{64}\b/g, "HASH"],
  [/\bchat-\d+-[0-9a-f]{8}\b/g, "SESSION"],
  [/\b\d+ (?:sec|min) ago\b/g, "AGE ago"],
  [/\bexpires in \d+ (?:sec|min)\b/g, "expires in SPAN"],
];

/** `text` with what varies replaced, and without the spaces that end a line. */
function settled(text: string): string {
  const lines = text.replaceAll("\r", "").split("\n").map((line) => line.trimEnd()).join("\n");
  return VARYING.reduce((done, [form, word]) => done.replace(form, word), lines).trim();
}

/** A line of a document for lines that it leaves out. */
const LEFT_OUT = "…";

/** Whether `shown` is what was printed, `printed`, but for the lines that it leaves out. */
export function shows(shown: string, printed: string): boolean {
  const real = settled(printed);
  const [first = "", ...more] = `\n${settled(shown)}\n`.split(`\n${LEFT_OUT}\n`);
  const all = `\n${real}\n`;
  // Nothing left out: all of it is shown.
  if (more.length === 0) return all === first;
  if (!all.startsWith(`${first}\n`)) return false;
  let at = first.length;
  for (const part of more.slice(0, -1)) {
    const found = all.indexOf(`\n${part}\n`, at);
    if (found < 0) return false;
    at = found + part.length + 1;
  }
  const last = more.at(-1) ?? "";
  return all.length - last.length > at && (last === "" || all.endsWith(`\n${last}`));
}

/** In place of npx: the Deno that runs the tests, which is the version that the documents name. */
const NPX = `#!/bin/sh
if [ "$1 $2" != "--yes deno@${Deno.version.deno}" ]; then echo "npx of a test: not $*"; exit 99; fi
shift 2
exec '${Deno.execPath()}' "$@"
`;

/** Whether the command of `block` is the one that opens the chat. */
function opensChat({ lines }: Block): boolean {
  return lines.some((line) => / task up\b/.test(line));
}

/** One line of a `console` block that is typed, and what is shown after it. */
interface Exchange {
  readonly typed: string;
  readonly shown: readonly string[];
}

/** The exchanges of a chat: what follows `> ` is typed. */
export function exchanges(lines: readonly string[]): Exchange[] {
  return lines.reduce<Exchange[]>((found, line) => {
    if (line.startsWith("> ")) return [...found, { typed: line.slice(2), shown: [] }];
    const last = found.at(-1);
    assert(last !== undefined, `a chat begins with a line that is typed, not with ${line}`);
    return [...found.slice(0, -1), { ...last, shown: [...last.shown, line] }];
  }, []);
}

/** A reader with a shell and, from the block on that starts it, a chat. Dispose of it when done. */
export class Walkthrough implements AsyncDisposable {
  readonly #place = new TempDir();
  /** Where the copy of the project is. */
  readonly project = `${this.#place.path}/boxmaker`;
  readonly #options = {
    cwd: this.project,
    ms: PATIENCE_MS,
    env: {
      PATH: `${this.#place.path}/bin:${Deno.env.get("PATH") ?? ""}`,
      LC_ALL: "C.UTF-8",
      // A chat that does not draw its lines prints just what it says.
      TERM: "dumb",
    },
  } as const;
  readonly #shell: Followed;
  #chat: Followed | null = null;
  #typedBlocks = 0;
  #prompts = 0;
  /** Each block that was typed, and what came: what the document could show. */
  readonly transcript: string[] = [];

  constructor() {
    this.#place.write("bin/npx", NPX);
    Deno.chmodSync(`${this.#place.path}/bin/npx`, 0o755);
    Deno.mkdirSync(this.project);
    const sources = COPIED.map((name) => `${ROOT}/${name}`);
    const { success } = new Deno.Command("cp", { args: ["-R", ...sources, this.project] })
      .outputSync();
    assert(success, "the project was copied");
    this.#shell = Followed.start(["sh", "-c", "umask 022; exec 2>&1; exec sh"], this.#options);
  }

  /** Follows `markdown` to its end. `skipped`: lines of `sh` blocks that are not typed. */
  async follow(markdown: string, skipped: readonly string[] = []): Promise<void> {
    const all = blocks(markdown);
    for (const [at, block] of all.entries()) {
      if (block.language === "console") await this.#talk(block);
      if (block.language !== "sh") continue;
      const lines = block.lines.filter((line) => !skipped.includes(line));
      if (opensChat({ ...block, lines })) {
        await this.#openChat(lines.join("\n"));
        continue;
      }
      const printed = await this.#type(lines.join("\n"));
      const next = all[at + 1];
      const shown = next?.language === "text" ? next.lines.join("\n") : "";
      this.#compare(lines.join("\n"), printed, shown);
    }
    assert(this.#typedBlocks > 0, "the document has commands");
  }

  /** Ends the chat as its reader does. Returns the exit status of `up`, null where there was none. */
  async close(): Promise<number | null> {
    if (this.#chat === null) return null;
    await this.#chat.type("\x04");
    return await this.#chat.ends();
  }

  #compare(typed: string, printed: string, shown: string): void {
    const real = printed.replaceAll(this.project, SHOWN_PROJECT);
    this.transcript.push(`$ ${typed}\n${real}`);
    // The comparison of the whole is for whoever reads the failure.
    if (!shows(shown, real)) assert.equal(settled(real), settled(shown), `after: ${typed}`);
  }

  /** Types `commands` into the shell. Returns what they print. */
  async #type(commands: string): Promise<string> {
    const end = `[end of block ${this.#typedBlocks++}]`;
    const from = this.#shell.output.length;
    await this.#shell.type(`${commands.replaceAll(SHOWN_PROJECT, this.project)}\necho '${end}'\n`);
    await this.#shell.shows(`${end}\n`);
    return this.#shell.output.slice(from, this.#shell.output.indexOf(end, from));
  }

  async #openChat(command: string): Promise<void> {
    assert(this.#chat === null, "one chat is opened");
    this.#typedBlocks++;
    this.#chat = Followed.onTerminal(["sh", "-c", `${command}`], this.#options);
    await this.#prompt();
  }

  /** Waits until the chat asks for the next line. */
  async #prompt(): Promise<void> {
    await this.#chat?.shows("\n> ", ++this.#prompts);
  }

  async #talk(block: Block): Promise<void> {
    const chat = this.#chat;
    assert(chat !== null, "a chat is open");
    for (const { typed, shown } of exchanges(block.lines)) {
      const from = chat.output.length;
      await chat.type(`${typed.replaceAll(SHOWN_PROJECT, this.project)}\r`);
      const answers: string[] = [];
      for (const line of shown) {
        const [, question, answer = ""] = /^(.*\[y\/N\] )(\w)$/.exec(line) ?? [];
        if (question === undefined) continue;
        await chat.shows(question);
        await chat.type(`${answer}\r`);
        answers.push(answer);
      }
      await this.#prompt();
      // This terminal does not echo what is typed; the answers are where it would.
      const printed = chat.output.slice(from, chat.output.lastIndexOf("\n> "))
        .replace(/\[y\/N\] /g, () => `[y/N] ${answers.shift() ?? ""}\n`);
      this.#compare(`(chat) ${typed}`, printed, shown.join("\n"));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#chat?.[Symbol.asyncDispose]();
    await this.#shell[Symbol.asyncDispose]();
    this.#place[Symbol.dispose]();
  }
}
