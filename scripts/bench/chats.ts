/** From a chunk of the model to the client's event, through loopd and through a bare relay. */
import { Call } from "../../proto/io/client.ts";
import { utf8 } from "../../proto/text.ts";
import { chunk, DONE } from "../standin/chunks.ts";
import { Daemon } from "../support/daemon.ts";
import { prepareHome, TempHome } from "../support/home.ts";
import { Stack } from "../support/stack.ts";
import { type Figure, figure, READY_MS } from "./figures.ts";
import { interleave } from "./measure.ts";

const CHATS = 8;
/** Between two chunks of one chat, in milliseconds: 50 words a second. */
const PACE_MS = 20;
/** What a chunk may take to its event, in milliseconds, at the 99th percentile. */
const EVENT_MS = 5;
/** A chunk says when it was sent, in milliseconds of this process's clock. */
const STAMP = /<(\d+\.\d+)>/g;

/** A model server whose answers are `chunks` chunks long, each with the time at which it was sent. */
function startModel(chunks: number): Deno.HttpServer<Deno.NetAddr> {
  const answer = () => {
    let left = chunks;
    return new ReadableStream<Uint8Array>({
      async pull(controller) {
        await new Promise((resolve) => setTimeout(resolve, PACE_MS));
        const content = `<${performance.now().toFixed(3)}>`;
        if (left > 0) controller.enqueue(utf8(chunk({ content }, 0)));
        else controller.enqueue(utf8(chunk({}, 0, "stop") + DONE));
        if (left === 0) controller.close();
        left -= 1;
      },
    });
  };
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { pathname } = new URL(request.url);
    await request.body?.cancel();
    if (pathname === "/health") return Response.json({ status: "ok" });
    if (pathname !== "/v1/chat/completions") return new Response("", { status: 404 });
    return new Response(answer(), { headers: { "content-type": "text/event-stream" } });
  });
}

/** The milliseconds that the chunks in `text` have taken until now. */
function ages(text: string): number[] {
  const now = performance.now();
  return [...text.matchAll(STAMP)].map(([, sent]) => now - Number(sent));
}

async function throughLoop(socket: string): Promise<number[]> {
  const body = { session: null, text: "say something" };
  const call = await Call.open(socket, { kind: "chat", final: true, body }, ["turn_event"]);
  const found: number[] = [];
  while (true) {
    const { body } = await call.next(READY_MS);
    if (body.type === "text") found.push(...ages(body.text));
    if (body.type === "failed") throw new Error(`the turn failed: ${body.message}`);
    if (body.type === "done") break;
  }
  call.close();
  return found;
}

async function throughRelay(path: string): Promise<number[]> {
  using conn = await Deno.connect({ transport: "unix", path });
  const found: number[] = [];
  const buffer = new Uint8Array(64 * 1024);
  const decoder = new TextDecoder();
  for (let count = await conn.read(buffer); count !== null; count = await conn.read(buffer)) {
    found.push(...ages(decoder.decode(buffer.subarray(0, count))));
  }
  return found;
}

/** The 99th percentile of the chunks of all chats at once; each must have come. */
async function last(chunks: number, chat: () => Promise<number[]>): Promise<number> {
  const times = (await Promise.all(Array.from({ length: CHATS }, chat))).flat();
  if (times.length !== CHATS * chunks) throw new Error(`${times.length} chunks have come`);
  times.sort((a, b) => a - b);
  return times[Math.floor(times.length * 0.99)] ?? NaN;
}

function startRelay(home: string, url: string): Daemon {
  const [socket, log] = [`${home}/run/relay.sock`, `${home}/relay.log`];
  const script = new URL("relay.ts", import.meta.url).pathname;
  const flags = ["--no-prompt", "--cached-only", "--frozen", "--allow-net", "--allow-read"];
  const args = [...flags, "--allow-write", script, socket, url, log];
  return new Daemon({ name: "relay", args });
}

export async function chats(chunks: number, rounds: number): Promise<Figure[]> {
  await using model = startModel(chunks);
  using temporary = new TempHome("bench", false);
  const home = prepareHome(temporary.path);
  const url = `http://127.0.0.1:${model.addr.port}`;
  await using stack = new Stack({ home, llama: url });
  await stack.start();
  await using relay = startRelay(home.path, `${url}/v1/chat/completions`);
  await relay.ready(READY_MS);
  const times = await interleave({
    loop: () => last(chunks, () => throughLoop(home.layout.loopSocket)),
    relay: () => last(chunks, () => throughRelay(`${home.path}/run/relay.sock`)),
  }, rounds);
  temporary.done();
  const name = `loopd, chunk to event, ${CHATS} chats, 99th percentile`;
  const bare = times.relay.median;
  // On a machine where a bare relay takes longer than that, nothing can be said of loopd by that.
  const [baseline, least] = bare > EVENT_MS
    ? ["a bare relay, slower here than the 5 ms it may take", bare]
    : [`the ${EVENT_MS} ms that it may take`, EVENT_MS];
  return [
    figure(name, "ms", times.loop, baseline, least, { atMost: 1 }),
    figure(name, "ms", times.loop, "a bare relay that syncs each chunk", bare),
  ];
}
