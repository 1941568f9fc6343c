/**
 * `deno task demo`: the whole decision path with nobody at the keyboard: the real daemons behind their
 * locks, the stand-in for a model, the real bxctl for the owner's answers, and the log read back.
 */
import { DENIALS } from "../loop/denials.ts";
import { encodeRecord } from "../proto/audit.ts";
import { display } from "../proto/escape.ts";
import { sha256 } from "../proto/ids.ts";
import { readArgs, runScript } from "./support/cli.ts";
import { runCtl } from "./support/ctl.ts";
import { Ending } from "./support/ending.ts";
import { forbidLinks } from "./support/kernel_lock.ts";
import { brokerToml, type Home, prepareHome, TempHome } from "./support/home.ts";
import { Stack } from "./support/stack.ts";
import { outcomeLines, play, problemsOf, recordsIn, type Step } from "./support/story.ts";

const HELP = `demo plays the decision path with the real programs and checks what came of each step

usage: deno task demo [--keep]

  --keep    leave the temporary home where it is, and say where; after a failure it is kept anyway
  --help    this text

exit status: 0 everything came out as it must, 1 something did not, 2 wrong usage`;

/** What an approved call comes to as long as no tool runs (specification 7). */
const NOT_YET = { status: "failed", content: "the runner arrives in M3b" } as const;

/** The time that the last step's approval waits, in milliseconds. */
const SHORT_TTL_MS = 500;

function stepsFor({ notes, drafts }: Home): Step[] {
  const note = `${notes}/a.md`;
  const onNotes = "decision on read_file: ask, grant notes-read";
  return [
    {
      title: "what no grant covers is denied",
      say: "read /etc/passwd",
      answer: null,
      tool: "read_file",
      result: { status: "denied", content: DENIALS.no_grant },
      records: ["decision on read_file: denied no_grant, grant -"],
    },
    {
      title: "an auto grant lets a call through without asking",
      say: `write "${drafts}/b.md" a first draft`,
      answer: null,
      tool: "write_file",
      result: NOT_YET,
      records: ["decision on write_file: allowed, grant drafts-write", "result: failed"],
    },
    {
      title: "an ask grant asks the owner, who approves",
      say: `read ${note}`,
      answer: "approve",
      tool: "read_file",
      result: NOT_YET,
      records: [onNotes, "approval approved: ask", "result: failed"],
    },
    {
      title: "the same call, and the owner refuses",
      say: `read ${note}`,
      answer: "refuse",
      tool: "read_file",
      result: { status: "denied", content: DENIALS.approval_refused },
      records: [onNotes, "approval refused: denied approval_refused"],
    },
    {
      title: "the same call, and nobody answers until it expires (after a restart of brokerd)",
      say: `read ${note}`,
      answer: "wait",
      tool: "read_file",
      result: { status: "denied", content: DENIALS.approval_expired },
      records: [onNotes, "approval expired: denied approval_expired"],
    },
  ];
}

/** Tells of a step what came, and of `problems` which they are. Returns whether there were none. */
function report(title: string, lines: readonly string[], problems: readonly string[]): boolean {
  console.log(`\n${title}`);
  for (const line of lines) console.log(`    ${line}`);
  for (const problem of problems) console.log(`    NOT AS IT MUST BE: ${display(problem)}`);
  if (problems.length === 0) console.log("    as it must be");
  return problems.length === 0;
}

/** What is wrong with what `bxctl audit verify` says of the log, which it must find whole. */
async function verifyWhole({ places, home }: Stack): Promise<[string[], string[]]> {
  const { code, stdout } = await runCtl(places, "audit", "verify");
  const records = recordsIn(home.layout.audit);
  const last = records.at(-1);
  const head = last === undefined ? "-" : sha256(encodeRecord(last));
  const expected = `audit: ok, ${records.length} records, head ${head}\nanchored at ${last?.seq}\n`;
  const problems = code === 0 && stdout === expected
    ? []
    : [`status ${code}, and not ${JSON.stringify(expected)}`];
  return [["$ bxctl audit verify", ...stdout.trimEnd().split("\n")], problems];
}

/** The same with a copy of the log in which one word was changed. */
async function verifyChanged({ home, places }: Stack): Promise<[string[], string[]]> {
  const copy = `${home.path}/changed`;
  const [name = ""] = [...Deno.readDirSync(home.layout.audit)].map(({ name }) => name)
    .filter((name) => name.endsWith(".jsonl")).sort();
  const whole = Deno.readTextFileSync(`${home.layout.audit}/${name}`);
  const changed = whole.replace("/etc/passwd", "/etc/hostname");
  Deno.mkdirSync(`${copy}/audit`, { recursive: true });
  Deno.writeTextFileSync(`${copy}/audit/${name}`, changed);
  const { code, stdout } = await runCtl({ ...places, home: copy }, "audit", "verify");
  const [said = ""] = stdout.split("\n");
  // The record itself still reads well; the one after it names another hash.
  const found = code === 1 && said.startsWith(`${name}:2: `);
  const problems = found ? [] : [`status ${code}, and the change was not found at ${name}:2`];
  return [["$ bxctl audit verify --home COPY", said], problems];
}

/** Plays everything. Returns how many steps there were, and how many did not come out. */
async function playAll(stack: Stack): Promise<{ steps: number; wrong: number }> {
  const outcomes: boolean[] = [];
  for (const step of stepsFor(stack.home)) {
    if (step.answer === "wait") {
      Deno.writeTextFileSync(stack.home.brokerConfig, brokerToml(stack.home, SHORT_TTL_MS));
      await stack.restartBroker();
    }
    const outcome = await play(stack, step);
    const title = `${outcomes.length + 1}. ${step.title}`;
    outcomes.push(report(title, outcomeLines(step, outcome), problemsOf(step, outcome)));
  }
  const checks = [
    ["the log is whole", verifyWhole],
    ["one word changed in a copy of it is found", verifyChanged],
  ] as const;
  for (const [title, check] of checks) {
    outcomes.push(report(`${outcomes.length + 1}. ${title}`, ...await check(stack)));
  }
  return { steps: outcomes.length, wrong: outcomes.filter((right) => !right).length };
}

async function demo(stack: Stack): Promise<number> {
  await stack.start();
  console.log(`demo: the home is ${display(stack.home.path)}, the model is the stand-in`);
  const { steps, wrong } = await playAll(stack);
  console.log(
    wrong === 0
      ? `\ndemo: all ${steps} steps came out as they must`
      : `\ndemo: ${wrong} of ${steps} steps did not come out as they must`,
  );
  return wrong === 0 ? 0 : 1;
}

async function main(args: string[]): Promise<number> {
  const { values } = readArgs({ args, options: { keep: { type: "boolean", default: false } } });
  forbidLinks("demo");
  using ending = new Ending();
  using place = new TempHome("demo", values.keep);
  await using stack = new Stack({ home: prepareHome(place.path), llama: null });
  const status = await Promise.race([demo(stack), ending.asked]);
  // A signal is no failure to look into.
  if (status !== 1) place.done();
  return status;
}

if (import.meta.main) await runScript("demo", HELP, Deno.args, main);
