/** Ways to the network, and ways to code. */
import dgram from "node:dgram";
import dns from "node:dns";
import http2 from "node:http2";
import net from "node:net";
import tls from "node:tls";
import workerThreads from "node:worker_threads";
import { anew, once } from "./files.ts";
import { type Act, beyond, past } from "./outcome.ts";

const asData = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;

/** The two parts of `host:port`. */
function split(target: string): { readonly hostname: string; readonly port: number } {
  const [hostname = "", port] = target.split(":");
  return { hostname, port: Number(port) };
}

/** Node's word for a refusal of the runtime by its name service. */
class Refused extends Deno.errors.NotCapable {}

async function nameService(asking: Promise<unknown>): Promise<void> {
  try {
    await asking;
  } catch (error) {
    const text = String(error);
    if (/ EPERM | UNKNOWN /.test(text)) throw new Refused(text);
    if (!/ENOTFOUND|ECONNREFUSED|EAI_AGAIN|ETIMEOUT|ESERVFAIL/.test(text)) throw error;
  }
}

async function throughProxy(url: string, proxy: Deno.Proxy): Promise<void> {
  using client = Deno.createHttpClient({ proxy });
  await past(fetch(url, { client }).then((response) => response.body?.cancel()));
}

/** `target`: `host:port`. */
export const NETWORK_ACTS = {
  connectTls: (target: string) => past(Deno.connectTls(split(target))),
  nodeTls: (target: string) => {
    const { hostname, port } = split(target);
    return past(once(tls.connect(port, hostname), "secureConnect"));
  },
  nodeHttp2: (target: string) => {
    const session = http2.connect(`http://${target}`);
    return past(once(session, "connect")).finally(() => session.destroy());
  },
  eventSource: (target: string) => {
    // It tells no reason, so the reason is asked for in the same words by `fetch`.
    const source = new EventSource(`http://${target}/`);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    source.onopen = () => resolve();
    source.onerror = () => reject(new Error("no events"));
    return promise.catch(() => fetch(`http://${target}/`).then((r) => r.body?.cancel()))
      .finally(() => source.close());
  },
  datagram: async (target: string) => {
    const { hostname } = split(target);
    const socket = dgram.createSocket("udp4");
    socket.bind(0, hostname);
    await once(socket, "listening");
    socket.close();
  },
  nodeListen: async (target: string) => {
    const { hostname } = split(target);
    const server = net.createServer();
    server.listen(0, hostname);
    await once(server, "listening");
    server.close();
  },
  serve: async (target: string) => {
    const { hostname } = split(target);
    await Deno.serve({ hostname, port: 0, onListen: () => {} }, () => new Response()).shutdown();
  },
  /** The model's address may be fetched; what stands between is another one. */
  proxyHttp: (target: string) => throughProxy("http://127.0.0.1/", { url: `http://${target}` }),
  proxySocks: (target: string) => throughProxy("http://127.0.0.1/", { url: `socks5://${target}` }),
  proxyTcp: (target: string) =>
    throughProxy("http://127.0.0.1/", { transport: "tcp", ...split(target) }),

  resolveName: (target: string) =>
    beyond(() =>
      Deno.resolveDns("name.invalid", "A", {
        nameServer: { ipAddr: split(target).hostname, port: split(target).port },
      })
    ),
  nodeLookup: (target: string) => nameService(dns.promises.lookup(target)),
  nodeResolve: (target: string) => nameService(dns.promises.resolve4(target)),

  /** `target`: the name of an abstract socket, which no file stands for. */
  abstract: (target: string) =>
    beyond(() => Deno.connect({ transport: "unix", path: `\0${target}` })),
  nodeAbstract: (target: string) => beyond(() => once(net.connect(`\0${target}`), "connect")),
  nodeListenAbstract: async (target: string) => {
    const server = net.createServer();
    server.listen(`\0${target}`);
    await once(server, "listening");
    server.close();
  },
} as const satisfies Record<string, Act>;

function fromNodeWorker(code: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const worker = new workerThreads.Worker(code, { eval: true });
  worker.on("message", (text) => text === "open" ? resolve() : reject(new Error(text)));
  worker.on("error", reject);
  return promise.finally(() => worker.terminate());
}

/** A worker that says `open` once what `code` imports is loaded. */
export function fromWorker(url: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const worker = new Worker(url, { type: "module" });
  worker.onmessage = ({ data }) => data === "open" ? resolve() : reject(new Error(String(data)));
  worker.onerror = (event) => {
    event.preventDefault();
    reject(new Error(event.message));
  };
  return promise.finally(() => worker.terminate());
}

const reading = (target: string) => `Deno.readFileSync(${JSON.stringify(target)})`;

const reporting = (code: string) =>
  `try { ${code}; postMessage("open"); } catch (error) { postMessage(String(error)); }`;

/** `target`: a file that exists. */
export const WORKER_ACTS = {
  workerImports: (target: string) =>
    fromWorker(asData(`import "file://${target}" with { type: "text" }; postMessage("open");`)),
  workerOfOwnModule: (target: string, own: string) => {
    const path = `${anew(own)}.mjs`;
    const code = `import text from "file://${target}" with { type: "text" }; postMessage("open");`;
    Deno.writeTextFileSync(path, code);
    return fromWorker(`file://${path}`);
  },
  workerInWorker: (target: string) => {
    const inner = JSON.stringify(asData(reporting(reading(target))));
    const outer = `const inner = new Worker(${inner}, { type: "module" });
      inner.onmessage = ({ data }) => postMessage(data);`;
    return fromWorker(asData(outer));
  },
  nodeWorker: (target: string) =>
    fromNodeWorker(`const { parentPort } = require("node:worker_threads");
      const postMessage = (text) => parentPort.postMessage(text);
      ${reporting(`require("node:fs").readFileSync(${JSON.stringify(target)})`)}`),
  requireInNodeWorker: (target: string) =>
    fromNodeWorker(`const { parentPort } = require("node:worker_threads");
      const postMessage = (text) => parentPort.postMessage(text);
      ${reporting(`require(${JSON.stringify(target)})`)}`),
} as const satisfies Record<string, Act>;

/** `target`: an address of code. */
export const CODE_ACTS = {
  importByDataModule: (target: string) => past(import(asData(`import ${JSON.stringify(target)};`))),
  workerImportsCode: (target: string) =>
    past(fromWorker(asData(`import ${JSON.stringify(target)}; postMessage("open");`))),
} as const satisfies Record<string, Act>;
