/**
 * What `http_fetch` of the image meets in a test: a SOCKS5 proxy on a unix socket, which lets single host
 * names through, and behind it an https server whose certificate authority the test makes.
 */
import { TempDir } from "./scripts.ts";

/** The hosts that the certificate names. */
export const HOSTS = ["page.example", "other.example", "third.example"] as const;

/** How the server answers a request for `path`: all bytes of the response. */
export type Answer = (path: string, head: string) => string | Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();

async function readSome(conn: Deno.Conn, buffer: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const count = await conn.read(buffer);
  if (count === null) throw new Error("the client has gone");
  return buffer.subarray(0, count);
}

async function writeAll(conn: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await conn.write(bytes.subarray(at));
}

function openssl(...args: string[]): void {
  const { code, stderr } = new Deno.Command("openssl", { args }).outputSync();
  if (code !== 0) throw new Error(new TextDecoder().decode(stderr));
}

/** An authority in `folder`/ca.pem, and a certificate of it for `HOSTS` in page.pem with page.key. */
function makeCertificate(folder: string): void {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  openssl(
    ...["req", "-x509", ...key, "-keyout", `${folder}/ca.key`, "-out", `${folder}/ca.pem`],
    ...["-days", "2", "-subj", "/CN=A test's authority"],
  );
  openssl(
    ...["req", "-x509", ...key, "-keyout", `${folder}/page.key`, "-out", `${folder}/page.pem`],
    ...["-CA", `${folder}/ca.pem`, "-CAkey", `${folder}/ca.key`, "-days", "2"],
    ...["-subj", "/CN=page", "-addext", "basicConstraints=critical,CA:FALSE"],
    ...["-addext", `subjectAltName=${HOSTS.map((host) => `DNS:${host}`).join()}`],
  );
}

export class Web implements AsyncDisposable {
  readonly #place = new TempDir();
  readonly #server: Deno.TlsListener;
  readonly #proxy: Deno.UnixListener;
  readonly #allowed: readonly string[];
  readonly #answer: Answer;
  readonly #conns = new Set<Deno.Conn>();
  readonly #serving: Promise<void>[] = [];
  /** The path of each request, in order. */
  readonly asked: string[] = [];
  /** The host and port that each connection through the proxy asked for, in order. */
  readonly wanted: string[] = [];

  /** `allowed`: the hosts that the proxy lets through. */
  constructor(answer: Answer, allowed: readonly string[] = HOSTS) {
    this.#answer = answer;
    this.#allowed = allowed;
    const { path } = this.#place;
    makeCertificate(path);
    this.#server = Deno.listenTls({
      ...{ hostname: "127.0.0.1", port: 0 },
      cert: Deno.readTextFileSync(`${path}/page.pem`),
      key: Deno.readTextFileSync(`${path}/page.key`),
    });
    Deno.mkdirSync(`${path}/run`);
    this.#proxy = Deno.listen({ transport: "unix", path: `${path}/run/proxy.sock` });
    Deno.chmodSync(`${path}/run/proxy.sock`, 0o666);
    this.#serving.push(
      this.#accept(this.#server, (conn) => this.#serve(conn)),
      this.#accept(this.#proxy, (conn) => this.#pass(conn)),
    );
  }

  /** Podman's arguments that give a container the proxy and, unless `trusted` is false, the authority. */
  podman({ trusted = true } = {}): string[] {
    const { path } = this.#place;
    const mount = (source: string, destination: string) =>
      `--mount=type=bind,source=${path}/${source},destination=${destination},ro=true`;
    const authority = [
      mount("ca.pem", "/run/boxmaker-ca.pem"),
      "--env=BOXMAKER_CA=/run/boxmaker-ca.pem",
    ];
    return [mount("run", "/run/boxmaker"), ...trusted ? authority : []];
  }

  async #accept<T extends Deno.Conn>(
    listener: { accept(): Promise<T> },
    serve: (conn: T) => Promise<void>,
  ): Promise<void> {
    while (true) {
      let conn: T;
      try {
        conn = await listener.accept();
      } catch (error) {
        if (error instanceof Deno.errors.BadResource) return;
        if (error instanceof Deno.errors.Interrupted) return;
        throw error;
      }
      this.#conns.add(conn);
      // A client that goes away is a client's right.
      this.#serving.push(serve(conn).catch(() => {}).finally(() => this.#drop(conn)));
    }
  }

  #drop(conn: Deno.Conn): void {
    if (!this.#conns.delete(conn)) return;
    try {
      conn.close();
    } catch {
      // its stream has closed it
    }
  }

  /** One request, whose answer ends with the connection. */
  async #serve(conn: Deno.Conn): Promise<void> {
    const buffer = new Uint8Array(16_384);
    let head = "";
    while (!head.includes("\r\n\r\n")) {
      head += new TextDecoder().decode(await readSome(conn, buffer));
    }
    const [, path = ""] = head.split(" ");
    this.asked.push(path);
    const answer = this.#answer(path, head);
    await writeAll(conn, typeof answer === "string" ? encoder.encode(answer) : answer);
  }

  /** One connection through the proxy: RFC 1928, a host by name, no authentication. */
  async #pass(conn: Deno.Conn): Promise<void> {
    const buffer = new Uint8Array(512);
    await readSome(conn, buffer);
    await writeAll(conn, Uint8Array.of(5, 0));
    const request = await readSome(conn, buffer);
    const length = request[4] ?? 0;
    const host = new TextDecoder().decode(request.subarray(5, 5 + length));
    const port = (request[5 + length] ?? 0) * 256 + (request[6 + length] ?? 0);
    this.wanted.push(request[3] === 3 ? `${host}:${port}` : "an address");
    const lets = request[3] === 3 && this.#allowed.includes(host);
    // 2: not allowed by the rules.
    await writeAll(conn, Uint8Array.of(5, lets ? 0 : 2, 0, 1, 0, 0, 0, 0, 0, 0));
    if (!lets) return;
    const { port: target } = this.#server.addr;
    const onward = await Deno.connect({ hostname: "127.0.0.1", port: target });
    this.#conns.add(onward);
    try {
      await Promise.all([
        conn.readable.pipeTo(onward.writable),
        onward.readable.pipeTo(conn.writable),
      ]);
    } finally {
      this.#drop(onward);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#proxy.close();
    for (const conn of [...this.#conns]) this.#drop(conn);
    await Promise.all(this.#serving);
    this.#place[Symbol.dispose]();
  }
}
