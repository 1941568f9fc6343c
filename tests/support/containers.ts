/** A real brokerd that runs tools in real containers, and calls of them through its socket. */
import assert from "node:assert/strict";
import { LABEL } from "../../broker/podman/args.ts";
import { labelOf } from "../../broker/podman/runtime.ts";
import { findRunner, onPath, type RunnerTable } from "../../scripts/support/podman.ts";
import type { FinalToolResponse } from "../../proto/messages.ts";
import type { ToolName } from "../../proto/tools.ts";
import { ask, TempHome, until } from "./broker.ts";
import { IS_ROOT } from "./hostile.ts";
import { toolImage } from "./image.ts";

let runner: Promise<RunnerTable> | undefined;

/** The `[runner]` table with which containers run on this machine. */
export function runnerHere(): Promise<RunnerTable> {
  runner ??= (async () => {
    await toolImage();
    const found = await findRunner(() => {});
    if (!found.ok) throw new Error(found.why.join("\n"));
    return found.runner;
  })();
  return runner;
}

/** What a test's configuration says beside what the machine needs. */
export interface ToolOptions {
  /** More keys of `[runner]`, or others than those of the machine. */
  readonly runner?: Readonly<Record<string, string | number>>;
  /** TOML after it, such as an `[egress]` table. */
  readonly more?: string;
}

/** A home whose brokerd runs tools. Start it with `startBroker`. */
export async function toolHome({ runner = {}, more = "" }: ToolOptions = {}): Promise<TempHome> {
  const keys = Object.entries({ ...await runnerHere(), ...runner });
  const table = keys.map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`).join("");
  return new TempHome(`[runner]\n${table}${more}`);
}

/** Whether what the tools need is installed. */
const INSTALLED = ["podman", "mmdebstrap"].every((program) => onPath(program) !== null);

type Test = (t: Deno.TestContext) => void | Promise<void>;

/** A test that runs tools. */
export function toolTest(name: string, fn: Test): void {
  Deno.test({
    name,
    // podman and mmdebstrap run the tools; on Debian: apt install podman runc uidmap mmdebstrap.
    ignore: !INSTALLED,
    fn,
  });
}

/** A test that runs tools, and needs what only root may do. */
export function rootToolTest(name: string, fn: Test): void {
  Deno.test({
    name,
    // Only root may listen on such ports, change what names lead to, or start what is not locked.
    ignore: !INSTALLED || !IS_ROOT,
    fn,
  });
}

/** Whether this process may listen on the port of https. */
const SERVES_HTTPS = (() => {
  try {
    Deno.listen({ hostname: "127.0.0.1", port: 443 }).close();
    return true;
  } catch (error) {
    return error instanceof Deno.errors.AddrInUse;
  }
})();

/** A test that fetches pages from a site of its own. */
export function pageTest(name: string, fn: Test): void {
  Deno.test({
    name,
    // Pages come from port 443, on which only root may listen, or whom the system lets.
    ignore: !INSTALLED || !SERVES_HTTPS,
    fn,
  });
}

let count = 0;

/** Calls `tool` through `broker.sock` and gives the last answer's body. */
export async function callTool(
  home: TempHome,
  tool: ToolName,
  args: object,
): Promise<FinalToolResponse> {
  count += 1;
  const answers = await ask(home.layout.brokerSocket, "tool_request", {
    ...{ session: "s1", call: `c${count}`, tool },
    arguments: JSON.stringify(args),
  });
  const last = answers.at(-1);
  assert(last?.kind === "tool_response" && last.body.status !== "pending_approval");
  return last.body;
}

/** The content of a call that must give one. */
export async function contentOf(home: TempHome, tool: ToolName, args: object): Promise<string> {
  const answer = await callTool(home, tool, args);
  assert(answer.status === "result", JSON.stringify(answer));
  return answer.content;
}

/** What a command came to. */
export interface Ran {
  readonly exit: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `command` by a grant of `shell` that the home has; it must give a result. */
export async function runCommand(home: TempHome, command: string, cwd?: string): Promise<Ran> {
  const args = cwd === undefined ? { command } : { command, cwd };
  return JSON.parse(await contentOf(home, "shell", args));
}

/** The ids of the containers that `home`'s brokerd started and that are still there. */
export async function containersOf(home: TempHome): Promise<string[]> {
  const { podman } = await runnerHere();
  const { code, stdout, stderr } = await new Deno.Command(podman, {
    args: [
      ...["ps", "--all", "--quiet"],
      `--filter=label=${LABEL}=${labelOf(home.layout.home)}`,
    ],
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  assert.equal(code, 0, decoder.decode(stderr));
  return decoder.decode(stdout).split("\n").filter((id) => id !== "");
}

/** Waits until none is left. */
export async function noContainerOf(home: TempHome): Promise<void> {
  await until("end of the containers", async () => (await containersOf(home)).length === 0);
}
