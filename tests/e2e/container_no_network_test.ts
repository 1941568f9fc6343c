/**
 * A command in a container has no way out: what listens on this machine hears nothing of it, by whatever
 * address or name (specification 13). Each way is tried twice: by `shell` through brokerd, and, as proof that it
 * is one, in a container of the same image that has this machine's network.
 */
import assert from "node:assert/strict";
import dgram from "node:dgram";
import { startBroker, type TempHome, until, within } from "../support/broker.ts";
import {
  callTool,
  noContainerOf,
  rootToolTest,
  runCommand,
  toolHome,
} from "../support/containers.ts";
import { GREETING, take } from "../support/egress.ts";
import { forEachConnection } from "../support/egress_world.ts";
import { fetchHome, nothingLeftOf, pageAt } from "../support/fetches.ts";
import { tomlText } from "../support/grants.ts";
import { HttpsSite } from "../support/https_site.ts";
import { GrantPlace, podman, toolImage } from "../support/image.ts";
import { processesWith } from "../support/scripts.ts";

/** What every listener here answers: nobody else says it. */
const ANSWER = `answer-${crypto.randomUUID()}`;
const SITE = "127.0.11.1";
/** Where the test's name server is, and the address that it has for every name. */
const NAME_SERVER = "127.0.11.53";
const NAME_ANSWER = "203.0.113.77";

/** An answer to the question for an address that `message` is (RFC 1035): NAME_ANSWER, and no IPv6 one. */
function nameAnswer(message: Uint8Array): Uint8Array {
  const questionEnd = message.indexOf(0, 12) + 5;
  const question = message.subarray(12, questionEnd);
  const isA = question.at(-3) === 1;
  const head = [...message.subarray(0, 2), 0x81, 0x80, 0, 1, 0, isA ? 1 : 0, 0, 0, 0, 0];
  const record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...NAME_ANSWER.split(".").map(Number)];
  return new Uint8Array([...head, ...question, ...isA ? record : []]);
}

/** What listens on this machine, outside of the containers, and counts who comes. */
class Listeners implements AsyncDisposable {
  /** How many connections and datagrams came. */
  heard = 0;
  readonly #listeners: Deno.Listener[] = [];
  readonly #sockets: dgram.Socket[] = [];
  readonly #serving: Promise<void>[] = [];

  #serve<T extends Deno.Listener>(listener: T): T {
    this.#listeners.push(listener);
    this.#serving.push(forEachConnection(listener, async (conn) => {
      this.heard += 1;
      try {
        await conn.read(new Uint8Array(1024));
        await conn.write(new TextEncoder().encode(`HTTP/1.0 200 OK\r\n\r\n${ANSWER}\n`));
      } finally {
        conn.close();
      }
    }));
    return listener;
  }

  /** Listens at `hostname` and returns the port. */
  tcp(hostname: string): number {
    return this.#serve(Deno.listen({ hostname, port: 0 })).addr.port;
  }

  /** Listens at `path`; a name in the abstract namespace begins with NUL. */
  unix(path: string): void {
    this.#serve<Deno.Listener>(Deno.listen({ transport: "unix", path }));
  }

  /** Takes datagrams at `hostname`, answers each with what `answer` makes of it, and returns the port. */
  async udp(
    hostname: string,
    port = 0,
    answer: (message: Uint8Array) => Uint8Array = () => new TextEncoder().encode(ANSWER),
  ): Promise<number> {
    const socket = dgram.createSocket("udp4");
    this.#sockets.push(socket);
    socket.on("message", (message, from) => {
      this.heard += 1;
      socket.send(answer(message), from.port, from.address);
    });
    const bound = Promise.withResolvers<void>();
    socket.once("error", bound.reject).bind(port, hostname, () => bound.resolve());
    await within("socket", bound.promise);
    return socket.address().port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const listener of this.#listeners) listener.close();
    for (const socket of this.#sockets) socket.close();
    await Promise.all(this.#serving);
  }
}

/** A way out: a command of bash, and what it prints where it is one. */
type Way = readonly [command: string, out: string];

/** One read, since datagrams have no end. */
const READ = "timeout 5 dd bs=1000 count=1 status=none <&3";
const dial = (protocol: "tcp" | "udp", host: string, port: number) =>
  `exec 3<>/dev/${protocol}/${host}/${port} && echo question >&3 && ${READ}`;

/** All commands in one: prints what each said, on both streams, and a NUL. */
function script(ways: Readonly<Record<string, Way>>): string {
  return Object.values(ways)
    .map(([command]) => `printf '%s\\0' "$( ( ${command}; ) 2>&1 )"`)
    .join("\n");
}

/** What each of `ways` came to, from the output of their script. */
function outcomes(ways: Readonly<Record<string, Way>>, output: string): Record<string, string> {
  const said = output.split("\0");
  return Object.fromEntries(Object.keys(ways).map((name, index) => [name, said[index] ?? ""]));
}

/** The addresses of this machine that are not for one network device only. */
function ownAddresses(): string[] {
  return Deno.networkInterfaces().map(({ address }) => address)
    .filter((address) => !address.startsWith("fe80:"));
}

/** A question for the address of a.example, for printf. */
const NAME_QUESTION = "\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\1a\\7example\\0\\0\\1\\0\\1";

/** Ways out, each to something that listens. */
async function waysOut(listeners: Listeners): Promise<Record<string, Way>> {
  const everywhere = listeners.tcp("0.0.0.0");
  const name = `boxmaker-${crypto.randomUUID()}`;
  listeners.unix(`\0${name}`);
  await listeners.udp(NAME_SERVER, 53, nameAnswer);
  const raw = (numbers: string) =>
    `perl -e 'socket(my $s, ${numbers}) or die "$!\\n"; print "${ANSWER}"'`;
  return {
    ...Object.fromEntries(
      ownAddresses().map((address) => [
        `the address ${address}`,
        [dial("tcp", address, listeners.tcp(address)), ANSWER] as const,
      ]),
    ),
    "loopback, to who listens everywhere": [dial("tcp", "127.0.0.1", everywhere), ANSWER],
    "the address for no address": [dial("tcp", "0.0.0.0", everywhere), ANSWER],
    "another loopback address": [dial("tcp", "127.0.11.9", everywhere), ANSWER],
    "localhost by name": [dial("tcp", "localhost", everywhere), ANSWER],
    "UDP": [dial("udp", "127.0.0.1", await listeners.udp("127.0.0.1")), ANSWER],
    "a name server": ["getent ahostsv4 page.example || echo nothing", NAME_ANSWER],
    "a name server by its address": [
      `exec 3<>/dev/udp/${NAME_SERVER}/53 && printf '${NAME_QUESTION}' >&3 && ` +
      `${READ} | od -A n -t u1 | tr -s ' \\n' .`,
      NAME_ANSWER,
    ],
    "an abstract socket": [
      `curl --silent --show-error --abstract-unix-socket ${name} http://any.example/`,
      ANSWER,
    ],
    "the names of abstract sockets": ["cat /proc/net/unix", name],
    "this machine's network namespace": [
      "readlink /proc/self/ns/net",
      Deno.readLinkSync("/proc/self/ns/net"),
    ],
    "bytes of IP": [raw("2, 3, 1"), ANSWER],
    "bytes of the network device": [raw("17, 3, 0x300"), ANSWER],
  };
}

/** Places that may be somewhere else. Nothing of the test's own is there. */
const ELSEWHERE = [
  ["tcp", "169.254.169.254", 80],
  ["tcp", "169.254.1.1", 80],
  ["tcp", "100.100.100.200", 80],
  ["tcp", "192.168.0.1", 80],
  ["tcp", "10.0.2.2", 80],
  ["tcp", "1.1.1.1", 443],
  ["tcp", "fd00:ec2::254", 80],
  ["tcp", "2606:4700:4700::1111", 443],
  ["tcp", "::ffff:1.1.1.1", 443],
  ["udp", "8.8.8.8", 53],
  ["udp", "224.0.0.251", 5353],
  ["udp", "255.255.255.255", 67],
] as const;

/** A home whose grant lets every command run, without a directory. */
async function shellHome(): Promise<TempHome> {
  const home = await toolHome();
  home.grant("run", 'tool = "shell"\nmode = "auto"\n');
  return home;
}

rootToolTest("a command reaches nothing that listens on this machine", async () => {
  await using listeners = new Listeners();
  const ways = await waysOut(listeners);
  using home = await shellHome();
  await using broker = await startBroker(home);
  const { stdout } = await runCommand(home, script(ways));
  for (const [name, said] of Object.entries(outcomes(ways, stdout))) {
    const [, out] = ways[name] ?? [];
    assert(out !== undefined && said !== "" && !said.includes(out), `${name}: ${said}`);
  }
  assert.equal(listeners.heard, 0);
  await noContainerOf(home);
  await broker.stop();

  const open = await podman(
    ...["run", "--rm", "--network=host", "--privileged", `--dns=${NAME_SERVER}`],
    ...["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"],
    ...[await toolImage(), "bash", "-c", script(ways)],
  );
  for (const [name, said] of Object.entries(outcomes(ways, open))) {
    assert(said.includes(ways[name]?.[1] ?? "nothing"), `${name} is no way out: ${said}`);
  }
  assert(listeners.heard > 0);
});

rootToolTest("a command has one network device, and no way to anywhere else", async () => {
  using home = await shellHome();
  await using broker = await startBroker(home);
  const devices = await runCommand(home, "sed -n 's/^ *\\(.*\\):.*/\\1/p' /proc/net/dev");
  assert.equal(devices.stdout, "lo\n");
  assert.equal((await runCommand(home, "tail -n +2 /proc/net/route")).stdout, "");
  const ways = Object.fromEntries(
    ELSEWHERE.map(([protocol, host, port]) =>
      [`${protocol} ${host}`, [dial(protocol, host, port), ""]] as const
    ),
  );
  const { stdout } = await runCommand(home, script(ways));
  for (const [name, said] of Object.entries(outcomes(ways, stdout))) {
    // Not only that nobody answers: there is no way there.
    assert.match(said, /Network is unreachable|Cannot assign requested address/, name);
  }
  // Within the container itself a connection is made: bash can.
  const inside = await runCommand(
    home,
    `perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:9999")
      or die; system("touch /tmp/ready"); $c = $l->accept; print $c "inside\\n"; close $c' &
    until [[ -e /tmp/ready ]]; do sleep 0.01; done
    exec 3<>/dev/tcp/127.0.0.1/9999 && head -n 1 <&3`,
  );
  assert.equal(inside.stdout, "inside\n", inside.stderr);
  await broker.stop();
});

rootToolTest("a command beside a fetch cannot use its proxy", async () => {
  await using site = new HttpsSite(SITE);
  using home = await fetchHome(SITE);
  home.grant("run", 'tool = "shell"\nmode = "auto"\n');
  await using broker = await startBroker(home);
  const page = pageAt(home, "https://page.example/held");
  await until("request", () => site.asked.length === 1);
  const [socket = ""] = processesWith(`${home.layout.broker}/egress`).flatMap(({ commandLine }) =>
    /"socket":"([^"]*)"/.exec(commandLine)?.[1] ?? []
  );
  // Outside, it answers.
  using conn = await Deno.connect({ transport: "unix", path: socket });
  await conn.write(GREETING);
  assert.deepEqual(await take(conn, 2), new Uint8Array([5, 0]));
  const found = await runCommand(home, "ls -A /run/boxmaker; find / -xdev -type s 2>/dev/null");
  assert.equal(found.stdout, "");
  for (const path of ["/run/boxmaker/proxy.sock", socket]) {
    const { exit, stderr } = await runCommand(
      home,
      `curl --silent --show-error --insecure --proxy socks5h://localhost${path} https://page.example/`,
    );
    assert.equal(exit, 7, stderr);
  }
  site.release();
  assert.equal((await page).body, "this is page.example\n");
  assert.deepEqual(site.asked, ["page.example/held"]);
  await nothingLeftOf(home);
  await broker.stop();
});

rootToolTest(
  "a unix socket is reached where the owner has granted its directory, and nowhere else",
  async () => {
    await using listeners = new Listeners();
    using place = new GrantPlace();
    const granted = place.directory("granted");
    const other = place.directory("other");
    for (const directory of [granted, other]) {
      listeners.unix(`${directory}/a.sock`);
      Deno.chmodSync(`${directory}/a.sock`, 0o666);
    }
    using home = await shellHome();
    const paths = `[constraints]\npaths = [${tomlText(granted)}]\n`;
    home.grant("there", `tool = "shell"\nmode = "auto"\n${paths}`);
    home.grant("read", `tool = "read_file"\nmode = "auto"\n${paths}`);
    await using broker = await startBroker(home);
    const { brokerSocket, adminSocket } = home.layout;
    for (
      const path of [`${other}/a.sock`, `${granted}/../other/a.sock`, brokerSocket, adminSocket]
    ) {
      assert(Deno.lstatSync(path).isSocket);
      const gone = `curl --silent --unix-socket ${path} http://any.example/; ls ${path} >&2`;
      const { exit, stdout, stderr } = await runCommand(home, gone, granted);
      assert.deepEqual([exit, stdout], [2, ""], path);
      assert.match(stderr, /No such file or directory/);
    }
    assert.equal(listeners.heard, 0);
    const read = await callTool(home, "read_file", { path: `${granted}/a.sock` });
    assert.deepEqual(read, { status: "failed", message: `${granted}/a.sock is a socket` });
    // What a directory holds is granted with it.
    const reach = `curl --silent --unix-socket ${granted}/a.sock http://any.example/`;
    assert.equal((await runCommand(home, reach, granted)).stdout, `${ANSWER}\n`);
    assert.equal(listeners.heard, 1);
    await broker.stop();
  },
);
