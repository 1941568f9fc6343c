/** Hostile clients of a socket, until the process is ended: they send nothing, garbage, or next to nothing. */
import { utf8 } from "../../proto/text.ts";

const CLIENTS = { silent: 1000, garbage: 16, slow: 128 } as const;
/** A client that was closed comes back after this many milliseconds, so that it is there as good as always. */
const BACK_MS = 1000;
/** Between two bytes of a slow client, in milliseconds. */
const DRIP_MS = 50;

const MIB = 1024 * 1024;
const inFrame = (body: string) => `{"v":1,"kind":"tool_request","final":true,"body":${body}}`;

/** One small frame for each large one. */
const GARBAGE = [
  "x",
  "a".repeat(MIB),
  "{}",
  inFrame("[".repeat(MIB - 100)),
  inFrame("{}"),
  inFrame(`[${"{},".repeat(MIB / 3 - 100)}{}]`),
  "\0",
  inFrame(`"${"\\u0000".repeat(MIB / 6 - 100)}"`),
].map((text) => utf8(`${text}\n`));

const [path, kind] = Deno.args;
if (path === undefined) throw new Error("usage: hostile.ts SOCKET silent|garbage|slow");

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const drain = async (conn: Deno.Conn) => {
  const buffer = new Uint8Array(4096);
  while (await conn.read(buffer) !== null);
};

async function silent(conn: Deno.Conn): Promise<void> {
  await drain(conn);
  await pause(BACK_MS);
}

async function garbage(conn: Deno.Conn, turn: number): Promise<void> {
  const bytes = GARBAGE[turn % GARBAGE.length] ?? GARBAGE[0] ?? utf8("\n");
  try {
    for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
    await drain(conn);
  } catch {
    // refused before it had taken all of it: at once the next one
  }
}

async function slow(conn: Deno.Conn): Promise<void> {
  void drain(conn).catch(() => {});
  for (const byte of utf8("[".repeat(MIB))) {
    await conn.write(new Uint8Array([byte]));
    await pause(DRIP_MS);
  }
}

const acts = { silent, garbage, slow } as const;
if (kind !== "silent" && kind !== "garbage" && kind !== "slow") throw new Error(`no kind ${kind}`);
const act = acts[kind];
const clients = CLIENTS[kind];
let connected = 0;

async function client(socket: string, first: number): Promise<void> {
  for (let turn = first; true; turn += 1) {
    try {
      using conn = await Deno.connect({ transport: "unix", path: socket });
      connected += 1;
      if (connected === clients) console.error("hostile: ready");
      await act(conn, turn);
    } catch {
      // closed by the server, or no room in its queue
      await pause(BACK_MS);
    }
  }
}

for (let n = 0; n < clients; n += 1) void client(path, n);
