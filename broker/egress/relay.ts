/** Two ends of a connection: limits in time, and passing bytes from each to the other. */
import type { Reply } from "./socks.ts";

/** The most that is held of one direction while its receiver takes nothing, in bytes. */
export const CHUNK_BYTES = 32 * 1024;

/**
 * Why a connection is not made, or not kept: a short sentence for the model and the owner. `reply`: what
 * the client is answered; null where it no longer waits for an answer to its request, or never did.
 */
export class Refusal extends Error {
  readonly reply: Reply | null;

  constructor(why: string, reply: Reply | null = null) {
    super(why);
    this.reply = reply;
  }
}

/** Runs `work`. Where it is not done after `ms` milliseconds, `end` makes it fail, and `late` is thrown. */
export async function within<T>(
  ms: number,
  end: () => void,
  late: Refusal,
  work: () => Promise<T>,
): Promise<T> {
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    end();
  }, ms);
  try {
    return await work();
  } catch (error) {
    throw isLate ? late : error;
  } finally {
    clearTimeout(timer);
  }
}

export function close(conn: Deno.Conn): void {
  try {
    conn.close();
  } catch {
    // closed already
  }
}

export async function writeAll(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

/** The bytes that a connection has passed on to the host, and from it. */
export interface Passed {
  sent: number;
  received: number;
}

/**
 * Passes bytes both ways until both sides have ended; the end of one is passed on while the other still
 * sends. `first` goes to the server before all else. `spend` is asked before bytes are passed, and throws
 * where they are too many. Throws as soon as one way breaks; the caller closes both ends.
 */
export async function relay(
  client: Deno.Conn,
  server: Deno.Conn,
  first: Uint8Array,
  passed: Passed,
  spend: (count: number) => void,
): Promise<void> {
  const pass = async (bytes: Uint8Array, to: Deno.Conn, count: keyof Passed) => {
    spend(bytes.length);
    await writeAll(to, bytes);
    passed[count] += bytes.length;
  };
  // The next chunk is read only when this one is written: a slow reader slows its sender.
  const pump = async (from: Deno.Conn, to: Deno.Conn, count: keyof Passed) => {
    const chunk = new Uint8Array(CHUNK_BYTES);
    for (let read; (read = await from.read(chunk)) !== null;) {
      await pass(chunk.subarray(0, read), to, count);
    }
    await to.closeWrite();
  };
  const up = pass(first, server, "sent").then(() => pump(client, server, "sent"));
  const down = pump(server, client, "received");
  await Promise.all([up, down]);
}
