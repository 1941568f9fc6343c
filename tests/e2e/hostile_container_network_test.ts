/**
 * A hostile command without a grant of hosts reaches nothing: the machine's loopback, its addresses, names,
 * abstract sockets and the keys of the kernel are all somebody else's. What it tries works without the locks.
 */
import assert from "node:assert/strict";
import { toolTest } from "../support/containers.ts";
import { IS_ROOT } from "../support/hostile.ts";
import {
  assertRefused,
  assertWorked,
  type Attempts,
  HostileWorld,
  triableUnlocked,
} from "../support/hostile_container.ts";

/** The number of the call keyctl. */
const KEYCTL = Deno.build.arch === "x86_64" ? 250 : 219;

const REFUSED = /(Connection refused|Network is unreachable|Cannot assign requested address)$/;
const NOT_THERE = /(No such file or directory|Connection refused)$/;

/** What listens on the machine for one test, and answers each connection by ending it. */
class Listeners implements Disposable {
  readonly tcp = Deno.listen({ hostname: "0.0.0.0", port: 0 });
  readonly port = this.tcp.addr.port;
  readonly abstractName = `boxmaker-${crypto.randomUUID()}`;
  readonly abstract = Deno.listen({ transport: "unix", path: `\0${this.abstractName}` });
  /** The machine's own addresses. */
  readonly addresses = Deno.networkInterfaces()
    .filter(({ family, address }) => family === "IPv4" && !address.startsWith("127."))
    .map(({ address }) => address);

  constructor() {
    for (const listener of [this.tcp, this.abstract]) {
      (async () => {
        for await (const connection of listener) connection.close();
      })();
    }
  }

  [Symbol.dispose](): void {
    this.tcp.close();
    this.abstract.close();
  }
}

const tcp = (address: string, port: number) => `: <>/dev/tcp/${address}/${port}`;
const unix = (perlPath: string) =>
  `perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) or die "$!\\n";
    connect(S, pack_sockaddr_un(${perlPath})) or die "$!\\n"'`;

function reaching({ port, addresses, abstractName }: Listeners, world: HostileWorld): Attempts {
  const own = addresses.map((address) =>
    [`the machine by its address ${address}`, {
      command: tcp(address, port),
      refused: REFUSED,
    }] as const
  );
  const { brokerSocket, adminSocket } = world.home.layout;
  return {
    "the loopback of the machine": { command: tcp("127.0.0.1", port), refused: REFUSED },
    "the loopback by another address of it": { command: tcp("127.8.8.8", port), refused: REFUSED },
    "the loopback by 0.0.0.0": { command: tcp("0.0.0.0", port), refused: REFUSED },
    ...Object.fromEntries(own),
    "an abstract socket of the machine": {
      command: unix(`"\\0${abstractName}"`),
      refused: /Connection refused$/,
    },
    "an interface but the loopback": {
      command: "ls /sys/class/net | grep -v '^lo$'",
      refused: /^$/,
    },
    // These lead to machines of others, or to paths that are not mounted there either.
    "the address where clouds keep secrets": {
      command: tcp("169.254.169.254", 80),
      refused: REFUSED,
      unlocked: null,
    },
    "the name of a host": {
      command: "getent hosts debian.org",
      refused: /^$/,
      unlocked: null,
    },
    "a server of names": {
      command: "echo >/dev/udp/9.9.9.9/53",
      refused: REFUSED,
      unlocked: null,
    },
    "IPv6": { command: tcp("2606:4700:4700::1111", 53), refused: REFUSED, unlocked: null },
    "broker.sock": { command: unix(`"${brokerSocket}"`), refused: NOT_THERE, unlocked: null },
    "admin.sock": { command: unix(`"${adminSocket}"`), refused: NOT_THERE, unlocked: null },
    "the socket of podman": {
      command: unix('"/run/podman/podman.sock"'),
      refused: NOT_THERE,
      unlocked: null,
    },
    "the socket of an egress proxy": {
      command: unix('"/run/boxmaker/proxy.sock"'),
      refused: NOT_THERE,
      unlocked: null,
    },
  };
}

toolTest("a hostile container: no network, and no socket, is reached", async () => {
  await using world = await HostileWorld.start();
  using listeners = new Listeners();
  const attempts = reaching(listeners, world);
  assertRefused(await world.tries(attempts), attempts);
});

Deno.test({
  name: "what a hostile container tries to reach is reached without the locks",
  // Only root may start a container without locks.
  ignore: !IS_ROOT,
  async fn() {
    await using world = await HostileWorld.start();
    using listeners = new Listeners();
    const triable = triableUnlocked(reaching(listeners, world));
    assertWorked(await world.triesUnlocked(triable), triable, 5);
  },
});

toolTest("a hostile container: what one call leaves, another does not find", async () => {
  await using world = await HostileWorld.start();
  const name = `boxmaker-${crypto.randomUUID()}`;
  // A ring of keys, linked to that of the user; shared memory; a queue; an abstract socket. Whether any
  // of them can be made is not what counts.
  await world.run(
    [
      `perl -e 'my ($n, $s, $u) = ("${name}", -3, -4); my $join = ${KEYCTL}; syscall($join, 1, $n);
        syscall($join, 8, $s, $u)'`,
      `echo ${name} >/dev/shm/${name}`,
      `perl -e 'my $id = shmget(77, 4096, 0666 | 512); shmwrite($id, "${name}", 0, 64)'`,
      `echo ${name} >/tmp/${name}`,
    ].join("; "),
  );
  const found = await world.run(
    `cat /dev/shm/* /tmp/* 2>/dev/null
     perl -e 'my $id = shmget(77, 4096, 0); my $b = ""; shmread($id, $b, 0, 64) and print $b'
     perl -e 'my ($u, $ids) = (-4, "\\0" x 400); my $n = syscall(${KEYCTL}, 11, $u, $ids, 400);
       for my $key (unpack("l*", substr($ids, 0, $n > 0 ? $n : 0))) {
         my $text = "\\0" x 200; syscall(${KEYCTL}, 6, $key, $text, 200); print $text }'`,
  );
  assert.equal(found.stdout.includes(name), false, found.stdout);
});

toolTest("stays possible: a socket in a granted directory answers", async () => {
  await using world = await HostileWorld.start();
  const path = `${world.directory}/agent`;
  using listener = Deno.listen({ transport: "unix", path });
  Deno.chmodSync(path, 0o666);
  (async () => {
    for await (const connection of listener) connection.close();
  })();
  assert.equal((await world.run(unix('"agent"'))).exit, 0);
});
