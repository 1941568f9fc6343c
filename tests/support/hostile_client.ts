/** Clients that mean harm: plain bytes on a socket, and what comes back until the daemon closes. */
import { decodeFrame } from "../../proto/frames.ts";
import { BODIES, type Kind, type Message } from "../../proto/messages.ts";
import { until, within } from "./broker.ts";
import { holding } from "./hostile.ts";

const KINDS = Object.keys(BODIES) as Kind[];

/** Writes all of `bytes`, or as much as the daemon takes before it closes. */
export async function pour(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  try {
    for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
  } catch {
    // closed by the daemon: what it answered can still be read
  }
}

/** The frames that come until the daemon closes. Throws for anything that is no frame. */
export async function answersOn(conn: Deno.Conn): Promise<Message[]> {
  const read = async () => {
    const chunks: Uint8Array<ArrayBuffer>[] = [];
    while (true) {
      const chunk = new Uint8Array(64 * 1024);
      const count = await conn.read(chunk).catch(() => null);
      if (count === null) return await new Blob(chunks).text();
      chunks.push(chunk.subarray(0, count));
    }
  };
  const lines = (await within("end of the connection", read())).split("\n");
  if (lines.pop() !== "") throw new Error("the daemon closed in the middle of a frame");
  return lines.map((line) => {
    const decoded = decodeFrame(new TextEncoder().encode(line), KINDS);
    if (!decoded.ok) throw new Error(`not a frame: ${line}`);
    return decoded.message;
  });
}

/** Sends `bytes`, then its end where `ends`, and gives what comes back. */
export async function exchange(
  path: string,
  bytes: Uint8Array,
  ends = false,
): Promise<Message[]> {
  using conn = await Deno.connect({ transport: "unix", path });
  // Read at the same time: a daemon may answer before it has taken everything.
  const answers = answersOn(conn);
  await pour(conn, bytes);
  if (ends) await (conn as Deno.UnixConn).closeWrite().catch(() => {});
  return await answers;
}

/** Waits until the daemon `pid` holds no more open files than `count`. */
export async function filesBackTo(pid: number, count: number): Promise<void> {
  await until(`return to ${count} open files`, () => holding(pid).fds <= count);
}

/** `n` of something at the same time, each told its number. */
export async function atOnce<T>(n: number, one: (index: number) => Promise<T>): Promise<T[]> {
  return await Promise.all(Array.from({ length: n }, (_, index) => one(index)));
}
