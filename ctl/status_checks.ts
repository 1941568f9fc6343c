/** What the daemons' own words come to, for `bxctl status`. Pure: the present is handed in. */
import type { Body } from "../proto/messages.ts";
import type { Trouble } from "../proto/status.ts";
import { ago, expiry } from "./ago.ts";
import { type Check, check, type Entry, helps, withEntry } from "./checks.ts";
import type { Asked } from "./daemon_status.ts";
import { counted } from "./explained.ts";
import type { Newest } from "./newest_record.ts";

type BrokerStatus = Body<"broker_status">;
type LoopStatus = Body<"loop_status">;

export interface StatusFacts {
  readonly brokerd: Asked<"brokerd">;
  readonly loopd: Asked<"loopd">;
  readonly newest: Newest;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** What brokerd's and loopd's troubles are about where a line of their own says so. */
const SHOWN_ELSEWHERE = ["grants", "audit", "runner"];

/** The lines of the status, always in this order. */
export function statusChecks({ brokerd, loopd, newest, now }: StatusFacts): Check[] {
  const broker = brokerd.ok ? brokerd.status : null;
  const loop = loopd.ok ? loopd.status : null;
  return [
    daemonCheck("brokerd", brokerd, now),
    daemonCheck("loopd", loopd, now),
    loop === null ? notSaid("model server", "loopd") : modelCheck(loop),
    loop === null ? notSaid("tool broker", "loopd") : toolBrokerCheck(loop),
    broker === null ? notSaid("grants", "brokerd") : grantsCheck(broker),
    auditCheck(broker, newest, now),
    broker === null ? notSaid("approvals", "brokerd") : waitingCheck(broker, now),
    broker === null ? notSaid("calls", "brokerd") : runningCheck(broker, now),
    broker === null ? notSaid("tools' image", "brokerd") : imageCheck(broker),
    ...(broker?.troubles ?? []).filter(({ about }) => !SHOWN_ELSEWHERE.includes(about))
      .map((trouble) => troubleCheck(trouble, "wrong", "docs/runbook.md#broker-unavailable")),
    ...(loop?.troubles ?? []).map((trouble) => {
      // It was so at the last call; whether it is now, the line of the tool broker says.
      const over = trouble.about === "broker" && loop?.broker === "listening";
      return troubleCheck(trouble, over ? "warning" : "wrong", "docs/runbook.md#loopd-unavailable");
    }),
  ];
}

function notSaid(name: string, daemon: "brokerd" | "loopd"): Check {
  return check(name, "unknown", `${daemon} does not say`);
}

function daemonCheck(
  name: "brokerd" | "loopd",
  asked: Asked<"brokerd"> | Asked<"loopd">,
  now: number,
): Check {
  if (asked.ok) {
    const { version, deno, since } = asked.status;
    return check(name, "ok", `${version}, Deno ${deno}, since ${since} (${ago(since, now)})`);
  }
  const entry = name === "brokerd"
    ? "docs/runbook.md#broker-unavailable"
    : "docs/runbook.md#loopd-unavailable";
  const [first = "it gave no answer", ...more] = withEntry(asked.lines, entry);
  return check(name, "wrong", first, ...more);
}

function modelCheck({ model: { url, state, problem } }: LoopStatus): Check {
  const words = problem === null ? url : `${url}: ${problem}`;
  switch (state) {
    case "ok":
      return check("model server", "ok", words);
    case "loading":
      return check(
        "model server",
        "warning",
        words,
        helps("docs/runbook.md#loopd-selftest-failed"),
      );
    case "failed":
      return check("model server", "wrong", words, helps("docs/runbook.md#loopd-selftest-failed"));
    case "runs_tools": {
      const tools = `${url} runs tools itself: ${problem ?? ""}`;
      return check("model server", "wrong", tools, helps("docs/runbook.md#llama-runs-tools"));
    }
  }
}

function toolBrokerCheck({ broker }: LoopStatus): Check {
  switch (broker) {
    case "listening":
      return check("tool broker", "ok", "loopd reaches brokerd's socket");
    case "none":
      return check(
        "tool broker",
        "warning",
        "loopd.toml names none, so the model has no tools",
        helps("docs/runbook.md#broker-unavailable"),
      );
    case "unreachable":
      return check(
        "tool broker",
        "wrong",
        "nobody listens where loopd.toml says that brokerd is",
        helps("docs/runbook.md#broker-unavailable"),
      );
  }
}

function grantsCheck({ grants: { count, problem_count: wrong, problems } }: BrokerStatus): Check {
  if (wrong === 0) return check("grants", "ok", counted(count, "grant"));
  return check(
    "grants",
    "wrong",
    `every call is denied: ${counted(wrong, "problem")}`,
    ...problems.map(({ file, line, problem }) =>
      `${file}:${line === null ? "" : `${line}:`} ${problem}`
    ),
    helps("docs/runbook.md#grants-invalid", "bxctl grants check"),
  );
}

/** Its head as brokerd says it, with the time that the files give it. */
function auditCheck(broker: BrokerStatus | null, newest: Newest, now: number): Check {
  const name = "audit log";
  if (broker === null) {
    if (!newest.ok) {
      const help = helps("docs/runbook.md#audit-chain-broken", "bxctl audit verify");
      return check(name, "unknown", newest.problem, help);
    }
    const found = newest.record === null
      ? "no record"
      : headWords(newest.record.seq, newest.record.file, newest.record.time, now);
    return check(name, "unknown", `${found}, as the files say`);
  }
  const { state, next_seq: next, file } = broker.audit;
  const last = newest.ok && newest.record?.seq === next - 1 ? newest.record.time : null;
  const head = next === 0 ? "no record yet" : headWords(next - 1, file, last, now);
  const said = broker.troubles.find(({ about }) => about === "audit")?.lines ?? [];
  switch (state) {
    case "open":
      return check(name, "ok", head);
    case "disturbed":
      return check(
        name,
        "warning",
        `${head}; the newest file is not as brokerd left it, and the next call will look into that`,
        helps("docs/runbook.md#audit-chain-broken", "bxctl audit verify"),
      );
    case "latched":
    case "lost": {
      const until = state === "lost" ? "until brokerd starts again" : "until a record is written";
      return check(
        name,
        "wrong",
        `every call is denied ${until}; ${head}`,
        ...withEntry(said, "docs/runbook.md#audit-unavailable"),
        "bxctl audit verify says whether it is whole",
      );
    }
  }
}

function headWords(seq: number, file: string | null, time: string | null, now: number): string {
  const when = time === null ? "" : ` of ${time} (${ago(time, now)})`;
  return `record ${seq}${when}${file === null ? "" : ` in ${file}`}`;
}

function waitingCheck({ waiting: { count, limit, items } }: BrokerStatus, now: number): Check {
  if (count === 0) return check("approvals", "ok", "none wait for you");
  const full = count >= limit;
  return check(
    "approvals",
    full ? "wrong" : "ok",
    full
      ? `${count} wait for you, as many as may; further calls that ask fail`
      : `${count} ${count === 1 ? "waits" : "wait"} for you`,
    ...items.map(({ approval, session, tool, expires }) =>
      `${approval}  session ${session}  ${tool}  ${expiry(expires, now)}`
    ),
    ...left(count, items.length),
    full ? helps("docs/runbook.md#approvals-full", "bxctl approvals") : "bxctl approvals",
  );
}

function runningCheck({ running: { count, items } }: BrokerStatus, now: number): Check {
  if (count === 0) return check("calls", "ok", "none run");
  return check(
    "calls",
    "ok",
    `${count} ${count === 1 ? "runs" : "run"} or ${count === 1 ? "waits" : "wait"} for a turn`,
    ...items.map(({ decision, session, tool, since }) =>
      `${decision}  session ${session}  ${tool}  since ${since} (${ago(since, now)})`
    ),
    ...left(count, items.length),
    "bxctl audit show SEQ",
  );
}

function left(count: number, shown: number): string[] {
  return count === shown ? [] : [`and ${count - shown} more`];
}

function imageCheck({ runner, troubles }: BrokerStatus): Check {
  const name = "tools' image";
  const said = troubles.find(({ about }) => about === "runner")?.lines ?? [];
  const image = runner.image ?? "";
  if (runner.image_state === "none") {
    const words = "no tool runs: brokerd.toml names no runner";
    return check(name, "warning", words, helps("docs/runbook.md#runner-off"));
  }
  if (runner.image_state === "missing") {
    const words = `${image} is not there, so no tool runs`;
    return check(name, "wrong", words, helps("docs/runbook.md#image-missing", "deno task image"));
  }
  if (said.length > 0) {
    const words = `the runner does not work (image ${image})`;
    return check(name, "wrong", words, ...withEntry(said, "docs/runbook.md#runner-unavailable"));
  }
  if (runner.image_state === "unknown") {
    const words = `podman does not say whether ${image} is there`;
    return check(name, "wrong", words, helps("docs/runbook.md#runner-unavailable"));
  }
  return check(name, "ok", image);
}

function troubleCheck({ about, lines }: Trouble, state: "wrong" | "warning", entry: Entry): Check {
  const [first = "", ...more] = withEntry(lines, entry);
  return check(about, state, first, ...more);
}
