/**
 * `deno task demo`: the whole decision path with nobody at the keyboard: the real daemons behind their
 * locks, the stand-in for a model, the real bxctl for the owner's answers, and the log read back.
 */
import { GRANTS, NOTE } from "../ctl/init_files.ts";
import { DENIALS } from "../loop/denials.ts";
import { encodeRecord } from "../proto/audit.ts";
import { display } from "../proto/escape.ts";
import { say } from "../proto/io/log.ts";
import { sha256 } from "../proto/ids.ts";
import { readArgs, runScript } from "./support/cli.ts";
import { runCtl } from "./support/ctl.ts";
import { Ending } from "./support/ending.ts";
import { forbidLinks } from "./support/kernel_lock.ts";
import { EXAMPLE_GRANTS, type Home, prepareHome, TempHome } from "./support/home.ts";
import { runnerTables } from "./support/podman.ts";
import { PROJECT } from "./support/roles.ts";
import { Stack } from "./support/stack.ts";
import { outcomeLines, play, problemsOf, recordsIn, type Step } from "./support/story.ts";

const HELP = `demo plays the decision path with the real programs and checks what came of each step

usage: deno task demo [--keep] [--no-tools]

  --keep       leave the temporary home where it is, and say where; after a failure it is kept anyway
  --no-tools   run no tool: allowed calls fail (default: in containers, where podman can run them)
  --help       this text

With tools a page is fetched, too, from a server of the demo's own; that needs root, for its port 443.

exit status: 0 everything came out as it must, 1 something did not, 2 wrong usage`;

/** What a call that may run comes to where no tool runs (specification 7). */
const NO_TOOL = { status: "failed", content: "the runner arrives in M3b" } as const;

/** How long the grant of the last step is still valid, in milliseconds: so long its approval waits. */
const SHORT_MS = 5000;

/** What the demo can do on this machine. */
interface Means {
  readonly tools: boolean;
  readonly pages: boolean;
}

/** What must come of a call that runs: `content`, and `NO_TOOL` where no tool runs. */
function ran({ tools }: Means, content: string | RegExp): Pick<Step, "result"> & { word: string } {
  return tools
    ? { result: { status: "result", content }, word: "result: result" }
    : { result: NO_TOOL, word: "result: failed" };
}

function stepsFor({ notes, drafts }: Home, means: Means): Step[] {
  const note = `${notes}/a.md`;
  const draft = `${drafts}/b.md`;
  const onNotes = "decision on read_file: ask, grant notes-read";
  const written = ran(means, `wrote ${draft}`);
  const read = ran(means, NOTE);
  // Whoever it is, it is not root.
  const command = ran(means, /^\{"exit":0,"stdout":"[1-9]\d*\\n","stderr":""\}$/);
  const page = ran(
    means,
    /^\{"status":"HTTP\/\S+ 200","headers":\{.*\},"body":"a page\\n"\}$/,
  );
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
      say: `write "${draft}" a first draft`,
      answer: null,
      tool: "write_file",
      result: written.result,
      records: ["decision on write_file: allowed, grant drafts-write", written.word],
    },
    {
      title: "an ask grant asks the owner, who approves",
      say: `read ${note}`,
      answer: "approve",
      tool: "read_file",
      result: read.result,
      records: [onNotes, "approval approved: ask", read.word],
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
      title: "a command, which the owner approves",
      say: "run id -u",
      answer: "approve",
      tool: "shell",
      result: command.result,
      records: [
        ...["decision on shell: ask, grant commands-run", "approval approved: ask"],
        command.word,
      ],
    },
    ...means.pages
      ? [
        {
          title: "a page of a host that a grant names",
          say: "fetch https://page.example/",
          answer: null,
          tool: "http_fetch",
          result: page.result,
          records: ["decision on http_fetch: allowed, grant pages-fetch", page.word],
        } as const,
      ]
      : [],
    {
      title: "a call that nobody answers until its grant expires",
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

/** Writes the grant of the notes again, so that it soon expires. */
function expireSoon(home: Home): void {
  const expires = new Date(Date.now() + SHORT_MS).toISOString();
  Deno.writeTextFileSync(
    `${home.layout.grants}/notes-read.toml`,
    `expires = "${expires}"\n${GRANTS["notes-read"](home)}`,
  );
}

/** Plays everything. Returns how many steps there were, and how many did not come out. */
async function playAll(stack: Stack, means: Means): Promise<{ steps: number; wrong: number }> {
  const outcomes: boolean[] = [];
  for (const step of stepsFor(stack.home, means)) {
    if (step.answer === "wait") expireSoon(stack.home);
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

async function demo(stack: Stack, means: Means): Promise<number> {
  await stack.start();
  console.log(`demo: the home is ${display(stack.home.path)}, the model is the stand-in`);
  const { steps, wrong } = await playAll(stack, means);
  console.log(
    wrong === 0
      ? `\ndemo: all ${steps} steps came out as they must`
      : `\ndemo: ${wrong} of ${steps} steps did not come out as they must`,
  );
  return wrong === 0 ? 0 : 1;
}

/** A server of pages for `http_fetch`, on the only port that is reached; null where it may not be taken. */
function servePages(): Deno.HttpServer | null {
  const tls = `${PROJECT}/fixtures/tls`;
  try {
    return Deno.serve({
      ...{ hostname: PAGES_ADDRESS, port: 443, onListen: () => {} },
      cert: Deno.readTextFileSync(`${tls}/page.pem`),
      key: Deno.readTextFileSync(`${tls}/page.key`),
    }, () => new Response("a page\n", { headers: { "content-type": "text/plain" } }));
  } catch (error) {
    if (error instanceof Deno.errors.PermissionDenied) return null;
    if (error instanceof Deno.errors.AddrInUse) return null;
    throw error;
  }
}

/** An address of this machine that nothing else is likely to serve pages on. */
const PAGES_ADDRESS = "127.0.0.9";
const EGRESS = {
  private: [PAGES_ADDRESS],
  ca_file: `${PROJECT}/fixtures/tls/ca.pem`,
  hosts: { "page.example": PAGES_ADDRESS },
};

async function main(args: string[]): Promise<number> {
  const { values } = readArgs({
    args,
    options: {
      "keep": { type: "boolean", default: false },
      "no-tools": { type: "boolean", default: false },
    },
  });
  using ending = new Ending();
  const tell = (...lines: readonly string[]) => say("demo", ...lines);
  const tables = await runnerTables(!values["no-tools"], tell, ending.asked);
  if (typeof tables === "number") return tables;
  const tools = "runner" in tables;
  await using pages = tools ? servePages() : null;
  if (tools && pages === null) tell("no page is fetched: port 443 cannot be served on here");
  using place = new TempHome("demo", values.keep);
  const grants = [
    ...EXAMPLE_GRANTS,
    ...pages === null ? [] : ["pages-fetch" as const],
  ];
  await using stack = new Stack({
    home: prepareHome(place.path, grants),
    llama: null,
    tables: { ...tables, egress: EGRESS },
    afterBroker: () => forbidLinks("demo"),
  });
  const means = { tools, pages: pages !== null };
  const status = await Promise.race([demo(stack, means), ending.asked]);
  // A signal is no failure to look into.
  if (status !== 1) place.done();
  return status;
}

if (import.meta.main) await runScript("demo", HELP, Deno.args, main);
