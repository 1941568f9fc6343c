/** Clients of a broker that may die at any moment: what came back, and nothing assumed of it. */
import { LineSplitter } from "../../proto/lines.ts";
import { utf8 } from "../../proto/text.ts";

/** How long an answer may take, in milliseconds. No fault makes brokerd slow: later is a hang. */
const ANSWER_MS = 30_000;

/** An answer did not come, and the connection stayed open: brokerd hangs. */
export class Hang extends Error {}

/** Sends one request and gives each answer to `take`, to the end of the connection or until it says stop. */
export async function converse(
  socket: string,
  kind: string,
  body: unknown,
  take: (answer: unknown) => Promise<"go on" | "stop"> | "go on" | "stop",
): Promise<void> {
  let conn: Deno.Conn;
  try {
    conn = await Deno.connect({ transport: "unix", path: socket });
  } catch {
    return; // nobody is there, which is no answer
  }
  try {
    const bytes = utf8(`${JSON.stringify({ v: 1, kind, final: true, body })}\n`);
    for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
    for await (const line of linesOf(conn)) {
      if (await take(JSON.parse(line)) === "stop") return;
    }
  } catch (error) {
    if (!isGone(error)) throw error;
  } finally {
    conn.close();
  }
}

async function* linesOf(conn: Deno.Conn): AsyncGenerator<string> {
  const splitter = new LineSplitter();
  const chunk = new Uint8Array(64 * 1024);
  const decoder = new TextDecoder("utf-8", { fatal: true });
  while (true) {
    const count = await inTime(conn.read(chunk));
    if (count === null) return;
    for (const { bytes } of splitter.push(chunk.subarray(0, count))) yield decoder.decode(bytes);
  }
}

async function inTime<T>(promise: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Hang(`no answer within ${ANSWER_MS} ms`)), ANSWER_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function isGone(error: unknown): boolean {
  return [
    Deno.errors.ConnectionReset,
    Deno.errors.BrokenPipe,
    Deno.errors.NotConnected,
  ].some((kind) => error instanceof kind);
}
