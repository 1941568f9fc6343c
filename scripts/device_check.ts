/**
 * `scripts/device-check`: the check on the owner's machine with a real model server (specification 12,
 * "On straylight"). A model is asked to read a file, the owner's approval lets it, and what must come of
 * that comes: its content, which the model reports, and a log that verifies.
 */
import { display } from "../proto/escape.ts";
import { say } from "../proto/io/log.ts";
import { readArgs, runScript } from "./support/cli.ts";
import { CtlProcess, runCtl } from "./support/ctl.ts";
import { Ending } from "./support/ending.ts";
import { prepareHome, TempHome } from "./support/home.ts";
import { forbidLinks } from "./support/kernel_lock.ts";
import { runnerTables } from "./support/podman.ts";
import { Stack } from "./support/stack.ts";
import { inWords, recordsIn } from "./support/story.ts";

const HELP = `device-check checks the decision path with a model server, in a temporary home

usage: scripts/device-check [--llama URL] [--ask TEXT] [--keep] [--no-tools]

  --llama URL   the llama.cpp server, http://HOST:PORT (default: the stand-in, which is no model)
  --ask TEXT    what the model is asked; PATH in it is the file (default: to read the file)
  --keep        leave the home where it is, and say where; after a failure it is kept anyway
  --no-tools    run no tool: the call fails (default: in a container, where podman can run one)
  --help        this text

exit status: 0 everything came out as it must, 1 something did not, 2 wrong usage`;

/** What the chat shows of the call, and the log of its end. */
export interface Wanted {
  readonly line: string;
  readonly record: string;
}

/** The first line of the note, and where no tool runs, what is said instead (specification 7). */
const WANTED = {
  tools: { line: "[result] read_file # Shopping", record: "result: result" },
  noTools: { line: "[failed] read_file the runner arrives in M3b", record: "result: failed" },
} as const satisfies Record<string, Wanted>;

/** What a chat showed. */
export interface Shown {
  /** Its exit status. */
  readonly code: number;
  readonly lines: readonly string[];
  /** The number of the first approval block, and its second line. */
  readonly approval: { readonly number: number; readonly call: string } | null;
  /** What `bxctl approve` said. */
  readonly answered: string | null;
}

/** The number of the approval whose block begins with `line`, or null for any other line. */
function approvalIn(line: string): number | null {
  const [, number] = /^(\d+) {2}.* {2}grant notes-read {2}taint private$/.exec(line) ?? [];
  return number === undefined ? null : Number(number);
}

/** Asks the model, and approves the first call that waits; a further one is refused. */
async function converse({ places }: Stack, text: string): Promise<Shown> {
  await using ctl = new CtlProcess(places, "chat", `--say=${text}`);
  const lines: string[] = [];
  let approval: Shown["approval"] = null;
  let answered: string | null = null;
  for (let line = await ctl.line(); line !== null; line = await ctl.line()) {
    lines.push(line);
    console.log(`    ${display(line)}`);
    const number = approvalIn(line);
    if (number === null) continue;
    const call = await ctl.line() ?? "";
    lines.push(call);
    console.log(`    ${display(call)}`);
    const answer = approval === null ? "approve" : "refuse";
    const { stdout, stderr } = await runCtl(places, answer, String(number));
    console.log(`    $ bxctl ${answer} ${number}\n    ${display((stdout + stderr).trim())}`);
    if (approval !== null) continue;
    approval = { number, call };
    answered = stdout.trim();
  }
  const { code, stderr } = await ctl.ended();
  for (const line of stderr.trimEnd().split("\n")) console.log(`    ${display(line)}`);
  return { code, lines, approval, answered };
}

/** What a check is called, and whether it holds. */
export type Check = readonly [name: string, holds: boolean];

/** The checks of what the chat showed. `path`: the file that was asked for. */
export function checksOf(
  { code, lines, approval, answered }: Shown,
  path: string,
  { line: wanted }: Wanted,
): Check[] {
  const answer = lines.findIndex((line) => line.startsWith(wanted));
  const words = lines.slice(answer + 1).filter((line) => !/^\[\w+\] |^\s*$/.test(line));
  return [
    ["the approval block appears", approval !== null],
    ["it shows the call", approval?.call.trim() === `read_file ${JSON.stringify({ path })}`],
    ["approving it lets it run", answered === `approved ${approval?.number}: runs`],
    ["it comes out as it must, and the model is told", answer >= 0],
    ["the model reports it in words", answer >= 0 && words.length > 0],
    ["the turn comes to its end", code === 0],
  ];
}

/** The checks of the log after the chat. */
async function checkLog({ places, home }: Stack, { record }: Wanted): Promise<Check[]> {
  const wanted = [
    ...["decision on read_file: ask, grant notes-read", "approval approved: ask"],
    record,
  ];
  const { code, stdout } = await runCtl(places, "audit", "verify");
  for (const line of stdout.trimEnd().split("\n")) console.log(`    ${display(line)}`);
  const records = recordsIn(home.layout.audit);
  const first = records.findIndex(({ event }) => inWords(event) === wanted[0]);
  const story = records.slice(first, first + wanted.length).map(({ event }) => inWords(event));
  return [
    ["the audit log verifies", code === 0 && stdout.startsWith(`audit: ok, ${records.length} `)],
    [
      "it holds the decision, the approval and the result",
      story.join() === wanted.join(),
    ],
  ];
}

function report(checks: readonly Check[]): number {
  console.log();
  for (const [name, holds] of checks) console.log(`${holds ? "ok     " : "FAILED "} ${name}`);
  const failed = checks.filter(([, holds]) => !holds).length;
  console.log(`device-check: ${checks.length - failed} hold, ${failed} do not`);
  return failed === 0 ? 0 : 1;
}

async function check(
  stack: Stack,
  ask: string,
  path: string,
  wanted: Wanted,
): Promise<number> {
  await stack.start();
  const text = ask.replaceAll("PATH", path);
  console.log(`$ bxctl chat --say ${display(JSON.stringify(text))}`);
  const shown = await converse(stack, text);
  console.log("$ bxctl audit verify");
  return report([...checksOf(shown, path, wanted), ...await checkLog(stack, wanted)]);
}

/** A sentence that the stand-in knows, and one for a model. */
const ASK = {
  standin: "read PATH",
  model: "Read the file PATH with your tools, once, and tell me in a sentence what came of it.",
} as const;

async function main(args: string[]): Promise<number> {
  const { values } = readArgs({
    args,
    options: {
      llama: { type: "string" },
      ask: { type: "string" },
      keep: { type: "boolean", default: false },
      "no-tools": { type: "boolean", default: false },
    },
  });
  const { llama = null, ask = llama === null ? ASK.standin : ASK.model } = values;
  using ending = new Ending();
  const tell = (...lines: readonly string[]) => say("device-check", ...lines);
  const tables = await runnerTables(!values["no-tools"], tell, ending.asked);
  if (typeof tables === "number") return tables;
  using place = new TempHome("device-check", values.keep);
  const home = prepareHome(place.path, ["notes-read"]);
  await using stack = new Stack({
    ...{ home, llama, tables },
    afterBroker: () => forbidLinks("device-check"),
  });
  const wanted = "runner" in tables ? WANTED.tools : WANTED.noTools;
  const checking = check(stack, ask, `${home.notes}/a.md`, wanted);
  const status = await Promise.race([checking, ending.asked]);
  if (status !== 1) place.done();
  return status;
}

if (import.meta.main) await runScript("device-check", HELP, Deno.args, main);
