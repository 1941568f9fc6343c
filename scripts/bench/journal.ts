/** A journal of systemd with given lines in it, written by a journald of the bench's own. */
import { utf8 } from "../../proto/text.ts";
import { runProgram } from "./programs.ts";

const JOURNALD = "/lib/systemd/systemd-journald";
const CONF = `[Journal]
Storage=persistent
RateLimitIntervalSec=0
SystemMaxUse=64G
SystemKeepFree=1M
SystemMaxFileSize=64G
ForwardToSyslog=no
`;
/** In a mount namespace of its own: this machine's journal, if it has one, is not touched. */
const START = `mount --bind "$1/log" /var/log/journal &&
mount --bind "$1/run" /run/systemd &&
mount --bind "$1/journald.conf" /etc/systemd/journald.conf &&
exec ${JOURNALD}`;
/** What a sender to journald says first: its name, no unit, its priority, and nothing else. */
const GREETING = "bench\n\n6\n0\n0\n0\n0\n";

const LOOK_MS = 100;
/** How long journald may take to listen, and to write what it was sent, in milliseconds. */
const LISTEN_MS = 10_000;
const WRITE_MS = 600_000;

async function until(what: string, ms: number, look: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + ms;
  while (!await look()) {
    if (performance.now() > end) throw new Error(`${what} took over ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

async function sendTo(socket: string, files: readonly string[]): Promise<void> {
  using conn = await Deno.connect({ transport: "unix", path: socket });
  const send = async (bytes: Uint8Array) => {
    for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
  };
  await send(utf8(GREETING));
  for (const path of files) {
    using file = await Deno.open(path);
    for await (const chunk of file.readable) await send(chunk);
  }
}

/** The newest line of the journal in `log`; empty for none. */
async function newest(log: string): Promise<string> {
  const args = [`--directory=${log}`, "--lines=1", "--output=cat", "--quiet"];
  return await runProgram("journalctl", args).catch(() => "");
}

/**
 * Makes a journal below `directory`, which does not exist, with the lines of `files`. `last` stands in the
 * last of them and in no other. Returns its directory. Throws where this machine has no journald, or this
 * user may not start one.
 */
export async function makeJournal(
  directory: string,
  files: readonly string[],
  last: string,
): Promise<string> {
  const log = `${directory}/log`;
  for (const part of [log, `${directory}/run/journal`]) Deno.mkdirSync(part, { recursive: true });
  Deno.writeTextFileSync(`${directory}/journald.conf`, CONF);
  // Without it, journald keeps its journal in memory and waits to be told that the disk is there.
  Deno.writeTextFileSync(`${directory}/run/journal/flushed`, "");
  await Deno.stat(JOURNALD);
  const journald = new Deno.Command("unshare", {
    args: ["--mount", "sh", "-c", START, "sh", directory],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  let ended = false;
  const end = journald.status.finally(() => ended = true);
  try {
    const socket = `${directory}/run/journal/stdout`;
    await until("the start of journald", LISTEN_MS, async () => {
      if (ended) throw new Error("journald does not start: that needs root and mount namespaces");
      return await Deno.stat(socket).then(() => true, () => false);
    });
    await sendTo(socket, files);
    await until("journald", WRITE_MS, async () => (await newest(log)).includes(last));
  } finally {
    if (!ended) journald.kill("SIGTERM");
    await end;
  }
  return log;
}
