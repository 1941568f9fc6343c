/**
 * A network of its own with the names and addresses a test wants, real egress proxies in it, and clients
 * that speak SOCKS 5. Needs root, and `ip`, `nsenter` and `unshare`.
 */
import assert from "node:assert/strict";
import net from "node:net";
import tls from "node:tls";
import { fileURLToPath } from "node:url";
import { type EgressChild, startEgress } from "../../broker/egress/child.ts";
import {
  EGRESS_LIMITS,
  egressFlags,
  type EgressLimits,
  type EgressSettings,
} from "../../broker/egress/settings.ts";
import { onPath } from "../../scripts/support/podman.ts";
import { LineSplitter } from "../../proto/lines.ts";
import { fromUtf8, utf8 } from "../../proto/text.ts";
import { until, within } from "./broker.ts";
import { SILENT, SITES } from "./egress_world.ts";

const file = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const CA = Deno.readTextFileSync(file("../../fixtures/tls/ca.pem"));

const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Where `ip` puts each address of the sites, and this host's own. */
function addressCommands(): string[] {
  const own = ["127.0.0.1", "127.8.9.1", "::1"];
  const others = new Set(
    SITES.map(({ hostname }) => hostname).filter((each) => !own.includes(each)),
  );
  return [...others].map((each) =>
    each.includes(":")
      ? `ip -6 address add ${each}/128 dev lo nodad`
      : `ip address add ${each}/32 dev lo`
  );
}

/** What came to an address: a connection, or, with `bytes`, its end. */
interface Arrival {
  readonly at: string;
  readonly bytes: number | null;
}

export interface Settings extends Partial<Omit<EgressSettings, "limits">> {
  readonly limits?: Partial<EgressLimits>;
}

export class EgressWorld implements AsyncDisposable {
  readonly directory = Deno.makeTempDirSync({ prefix: "boxmaker-egress-" });
  readonly arrivals: Arrival[] = [];
  /** The runtime, in this network. */
  readonly deno = `${this.directory}/deno`;
  readonly #sites: Deno.ChildProcess;
  readonly #reading: Promise<void>;
  readonly #proxies: EgressChild[] = [];

  private constructor() {
    Deno.writeTextFileSync(`${this.directory}/hosts`, "");
    this.askFor("127.0.0.98");
    const script = [
      "set -e",
      "ip link set lo up",
      ...addressCommands(),
      ...["hosts", "resolv.conf"].map((name) =>
        `mount --bind ${quoted(`${this.directory}/${name}`)} /etc/${name}`
      ),
      `exec ${quoted(Deno.execPath())} run --quiet --no-check --allow-all --cached-only ${
        quoted(file("./egress_sites.ts"))
      }`,
    ].join("\n");
    this.#sites = new Deno.Command("unshare", {
      args: ["--mount", "--net", "sh", "-c", script],
      stdin: "null",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const target = `--target=${this.#sites.pid}`;
    const enter = `exec nsenter ${target} --mount --net -- ${quoted(Deno.execPath())} "$@"`;
    Deno.writeTextFileSync(this.deno, `#!/bin/sh\n${enter}\n`, { mode: 0o700 });
    this.#reading = this.#read();
  }

  async #read(): Promise<void> {
    const lines = new LineSplitter();
    for await (const chunk of this.#sites.stdout) {
      for (const { bytes } of lines.push(chunk)) {
        this.arrivals.push(JSON.parse(fromUtf8(bytes) ?? ""));
      }
    }
  }

  static async start(): Promise<EgressWorld> {
    const world = new EgressWorld();
    await until("sites", () => world.arrivals.some(({ at }) => at === "all"));
    world.arrivals.length = 0;
    return world;
  }

  /** Makes names lead to these addresses from now on, and all others nowhere. */
  resolve(names: Readonly<Record<string, string | readonly string[]>>): void {
    const lines = Object.entries(names)
      .flatMap(([name, addresses]) => [addresses].flat().map((each) => `${each} ${name}\n`));
    Deno.writeTextFileSync(`${this.directory}/hosts`, lines.join(""));
  }

  /** Whom names are asked for that the file lacks: nobody is there, or, at SILENT, somebody who says nothing. */
  askFor(names: "127.0.0.98" | typeof SILENT): void {
    Deno.writeTextFileSync(
      `${this.directory}/resolv.conf`,
      `nameserver ${names}\noptions timeout:30\n`,
    );
  }

  /** Settings with a socket in a directory of its own. */
  settings({ limits, ...fields }: Settings = {}): EgressSettings {
    const directory = Deno.makeTempDirSync({ dir: this.directory });
    return {
      socket: `${directory}/egress.sock`,
      hosts: ["page.example", "*.page.example", "other.example"],
      table: {},
      private: [],
      ...fields,
      limits: { ...EGRESS_LIMITS, ...limits },
    };
  }

  /** A proxy as brokerd starts it, and where it listens. It ends with the world. */
  async proxy(settings: Settings = {}): Promise<Proxy> {
    const whole = this.settings(settings);
    const child = startEgress(this.deno, whole);
    this.#proxies.push(child);
    await within("proxy", child.ready);
    return new Proxy(child, whole.socket);
  }

  /** Runs a module in this network under the very flags of a proxy, as `change` changes them. */
  async underFlags(
    settings: EgressSettings,
    module: string,
    args: string[],
    change: (flags: string[]) => string[] = (flags) => flags,
  ): Promise<{ code: number; stdout: string; stderr: string }> {
    const flags = change(egressFlags(settings));
    const { stdout, stderr, code } = await new Deno.Command(this.deno, {
      args: ["run", "--quiet", "--no-check", ...flags, file(module), ...args],
      stdin: "null",
    }).output();
    return { code, stdout: fromUtf8(stdout) ?? "", stderr: fromUtf8(stderr) ?? "" };
  }

  /** How many connections came to an address, on port 443 unless another one is named. */
  connections(hostname: string, port = 443): number {
    const at = `${hostname} ${port}`;
    return this.arrivals.filter((each) => each.at === at && each.bytes === null).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#proxies.map((each) => each.stop()));
    this.#sites.kill("SIGKILL");
    await this.#sites.status;
    await this.#reading;
    Deno.removeSync(this.directory, { recursive: true });
  }
}

/** The bytes of a request for `host`, a name. */
export function request(host: string, port = 443): Uint8Array<ArrayBuffer> {
  const name = Uint8Array.from(host, (each) => each.charCodeAt(0));
  return new Uint8Array([5, 1, 0, 3, name.length, ...name, port >> 8, port & 0xff]);
}

export const GREETING = new Uint8Array([5, 1, 0]);

/** `count` bytes from `conn`; fewer where it ends before. */
export async function take(conn: Deno.Conn, count: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(count);
  let at = 0;
  const reading = async () => {
    for (let read; at < count && (read = await conn.read(bytes.subarray(at))) !== null;) at += read;
  };
  await within(`${count} bytes`, reading());
  return bytes.subarray(0, at);
}

/** All that comes until the other end closes. A connection that breaks has ended too. */
export async function takeAll(conn: Deno.Conn): Promise<string> {
  const chunk = new Uint8Array(16 * 1024);
  let text = "";
  const reading = async () => {
    for (let read; (read = await conn.read(chunk).catch(() => null)) !== null;) {
      text += fromUtf8(chunk.subarray(0, read)) ?? "?";
    }
  };
  await within("end", reading());
  return text;
}

export class Proxy {
  readonly child: EgressChild;
  readonly socket: string;

  constructor(child: EgressChild, socket: string) {
    this.child = child;
    this.socket = socket;
  }

  async connect(): Promise<Deno.UnixConn> {
    return await Deno.connect({ transport: "unix", path: this.socket });
  }

  /** Asks for a host by these bytes, and returns the code of the answer; null where none came. */
  async ask(bytes: Uint8Array): Promise<{ conn: Deno.UnixConn; code: number | null }> {
    const conn = await this.connect();
    await conn.write(GREETING);
    await conn.write(bytes);
    assert.deepEqual(await take(conn, 2), new Uint8Array([5, 0]));
    return { conn, code: (await take(conn, 10))[1] ?? null };
  }

  /** A connection to `host`, or an assertion. */
  async open(host: string): Promise<Deno.UnixConn> {
    const { conn, code } = await this.ask(request(host));
    assert.equal(code, 0, `${host} was refused: ${this.child.refused().reasons}`);
    return conn;
  }

  /** What comes back from an echoing host. */
  async echo(host: string, text: string): Promise<string> {
    using conn = await this.open(host);
    await conn.write(utf8(text));
    return fromUtf8(await take(conn, utf8(text).length)) ?? "";
  }

  /** Why a request is refused, as brokerd is told. The client is answered, with no byte behind it. */
  async refusal(host: string, port = 443): Promise<string> {
    return await this.refusalOf(request(host, port));
  }

  async refusalOf(bytes: Uint8Array): Promise<string> {
    const { count } = this.child.refused();
    const { conn, code } = await this.ask(bytes);
    using _ = conn;
    assert.ok(code !== 0 && code !== null, `the answer is ${code}`);
    assert.equal(await takeAll(conn), "");
    return await this.reason(count + 1);
  }

  /** The reason of refusal number `count`, once it was told. */
  async reason(count: number): Promise<string> {
    await until("reason", () => this.child.refused().count >= count);
    assert.equal(this.child.refused().count, count);
    return this.child.refused().reasons[count - 1] ?? "";
  }

  /** A page over TLS that trusts the test's own authority only. */
  async fetch(host: string, path = "/"): Promise<string> {
    const socket = net.connect({ path: this.socket });
    const once = (emitter: NodeJS.EventEmitter, event: string) =>
      within(
        event,
        new Promise<unknown>((resolve, reject) => {
          emitter.once(event, resolve).once("error", reject);
        }),
      );
    try {
      socket.write(GREETING);
      await once(socket, "data");
      socket.write(request(host));
      const reply = await once(socket, "data");
      assert.ok(reply instanceof Uint8Array && reply[1] === 0, `${host} was refused`);
      const secure = tls.connect({ socket, servername: host, ca: CA });
      await once(secure, "secureConnect");
      secure.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
      let text = "";
      secure.on("data", (bytes: Uint8Array) => text += fromUtf8(bytes));
      await once(secure, "end");
      return text;
    } finally {
      socket.destroy();
    }
  }
}

/** Whether a network of its own can be made here. */
const CAN_MAKE_WORLDS = Deno.uid() === 0 &&
  ["ip", "nsenter", "unshare"].every((program) => onPath(program) !== null);

/** A test in a network of its own, in which `names` lead to addresses. */
export function inWorld(
  name: string,
  fn: (world: EgressWorld) => Promise<void>,
  names: Readonly<Record<string, string>> = {},
): void {
  Deno.test({
    name,
    // A network of its own takes root, and ip, nsenter and unshare (Debian's iproute2 and util-linux).
    ignore: !CAN_MAKE_WORLDS,
    fn: async () => {
      await using world = await EgressWorld.start();
      world.resolve(names);
      await fn(world);
    },
  });
}
