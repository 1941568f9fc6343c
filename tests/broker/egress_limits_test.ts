/** What one call's egress proxy bears of its clients (specification 13). */
import assert from "node:assert/strict";
import { fromUtf8, utf8 } from "../../proto/text.ts";
import { until, within } from "../support/broker.ts";
import { GREETING, inWorld, request, take, takeAll } from "../support/egress.ts";
import { ECHO, SILENT, STONE } from "../support/egress_world.ts";

const inEchoWorld = (...[name, fn]: Parameters<typeof inWorld>) =>
  inWorld(name, fn, { "page.example": ECHO, "stone.page.example": STONE });

inEchoWorld("a request comes in single bytes, with its data behind it", async (world) => {
  const proxy = await world.proxy();
  using conn = await proxy.connect();
  for (const byte of [...GREETING, ...request("page.example")]) {
    await conn.write(new Uint8Array([byte]));
  }
  await conn.write(utf8("late"));
  assert.equal((await take(conn, 12))[3], 0);
  assert.equal(fromUtf8(await take(conn, 4)), "late");
  using other = await proxy.connect();
  await other.write(new Uint8Array([...GREETING, ...request("page.example"), ...utf8("early")]));
  assert.equal((await take(other, 12))[3], 0);
  assert.equal(fromUtf8(await take(other, 5)), "early");
});

inEchoWorld("the end of one direction is passed on, and the other goes on", async (world) => {
  const proxy = await world.proxy();
  using conn = await proxy.open("page.example");
  await conn.write(utf8("whole"));
  await conn.closeWrite();
  // The host says so only when it has seen the end.
  assert.equal(await takeAll(conn), "wholeend");
});

inEchoWorld("garbage ends its own connection and no other", async (world) => {
  const proxy = await world.proxy();
  using kept = await proxy.open("page.example");
  const cases: readonly (readonly [sent: number[], answer: number[], why: RegExp])[] = [
    [[...utf8("GET / HTTP/1.1\r\n\r\n")], [], /what the client sent is not SOCKS 5/],
    [[4, 1, 1, 187, 1, 2, 3, 4, 0], [], /is not SOCKS 5/],
    [[0x16, 3, 1], [], /is not SOCKS 5/],
    [[5, 1, 2], [5, 255], /wants to authenticate/],
    [[5, 0], [5, 255], /wants to authenticate/],
    [[5, 1, 0, 4], [5, 0], /the request is not SOCKS 5/],
    [[5, 1, 0, 5, 2, 0, 1], [5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0], /is not to connect/],
    [[5, 1, 0, 5, 1, 0, 9, 9], [5, 0, 5, 8, 0, 1, 0, 0, 0, 0, 0, 0], /neither a host nor an/],
    [[5, 1, 0, 5, 1, 7], [5, 0, 5, 1, 0, 1, 0, 0, 0, 0, 0, 0], /is not SOCKS 5/],
  ];
  for (const [index, [sent, answer, why]] of cases.entries()) {
    using conn = await proxy.connect();
    await conn.write(new Uint8Array(sent));
    // What it sends more than was read breaks its connection; the answer comes before.
    assert.deepEqual([...await take(conn, answer.length)], answer);
    assert.equal(await takeAll(conn), "");
    assert.match(await proxy.reason(index + 1), why);
  }
  await kept.write(utf8("still"));
  assert.equal(fromUtf8(await take(kept, 5)), "still");
});

inEchoWorld("clients that go in the middle leave nothing behind", async (world) => {
  const proxy = await world.proxy({ limits: { atOnce: 1, connections: 10_000 } });
  const whole = [...GREETING, ...request("page.example")];
  for (let sent = 0; sent <= whole.length; sent += 4) {
    const conn = await proxy.connect();
    await conn.write(new Uint8Array(whole.slice(0, sent)));
    conn.close();
  }
  // There is room for one: those before are gone.
  await until("room", async () => {
    const { conn, code } = await proxy.ask(request("page.example")).catch(() => ({
      conn: null,
      code: 1,
    }));
    conn?.close();
    return code === 0;
  });
});

inEchoWorld("a client that does not ask in time is closed", async (world) => {
  const proxy = await world.proxy({ limits: { handshakeMs: 1000 } });
  using silent = await proxy.connect();
  assert.equal(await takeAll(silent), "");
  using half = await proxy.connect();
  await half.write(GREETING);
  assert.equal(await takeAll(half), "\x05\0");
  assert.equal(await proxy.reason(2), "nothing was asked for within 1000 ms");
  // Once it has asked, that limit is over.
  using conn = await proxy.open("page.example");
  await new Promise((resolve) => setTimeout(resolve, 1100));
  await conn.write(utf8("x"));
  assert.equal(fromUtf8(await take(conn, 1)), "x");
});

inEchoWorld("a host that does not answer in time is given up", async (world) => {
  const proxy = await world.proxy({ limits: { connectMs: 1500 } });
  world.askFor(SILENT);
  // The name server hears the question and says nothing.
  const why = "silent.page.example was not reached within 1500 ms";
  assert.equal(await proxy.refusal("silent.page.example"), why);
  assert.equal(await proxy.echo("page.example", "x"), "x");
});

inEchoWorld("a connection that lasts too long is cut off", async (world) => {
  const proxy = await world.proxy({ limits: { wholeMs: 300 } });
  using conn = await proxy.open("page.example");
  assert.equal(await takeAll(conn), "");
  const why = "the connection to page.example was cut off after 300 ms";
  assert.equal(await proxy.reason(1), why);
});

inEchoWorld("bytes count in both directions and over all connections", async (world) => {
  const proxy = await world.proxy({ limits: { bytes: 100 } });
  assert.equal(await proxy.echo("page.example", "x".repeat(20)), "x".repeat(20));
  // The echo ends with the connection, and adds `end`.
  using conn = await proxy.open("page.example");
  await conn.write(utf8("y".repeat(20)));
  assert.equal(fromUtf8(await take(conn, 20)), "y".repeat(20));
  await conn.write(utf8("z".repeat(40)));
  assert.equal(await takeAll(conn), "");
  const why = "the connection to page.example was cut off: more than 100 bytes passed";
  assert.equal(await proxy.reason(1), why);
});

inEchoWorld("a host that takes nothing slows its sender, and costs no memory", async (world) => {
  const megabytes = 256;
  const proxy = await world.proxy({ limits: { bytes: 4 * megabytes * 1024 * 1024 } });
  using conn = await proxy.open("stone.page.example");
  const chunk = new Uint8Array(1024 * 1024);
  let written = 0;
  const writing = (async () => {
    for (; written < megabytes; written += 1) {
      for (let at = 0; at < chunk.length;) at += await conn.write(chunk.subarray(at));
    }
  })().catch(() => {});
  // What the system holds for the two sockets fills up, and then nothing moves any more.
  let before = -1;
  while (written > before) {
    before = written;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  assert.ok(written < megabytes, `${written} MiB were taken for a host that takes nothing`);
  // Others are served meanwhile.
  assert.equal(await proxy.echo("page.example", "x"), "x");
  await proxy.child.stop();
  await within("end of writing", writing);
});

inEchoWorld(
  "one connection more than may be open is refused, and one fewer is not",
  async (world) => {
    const proxy = await world.proxy({ limits: { atOnce: 2, connections: 10_000 } });
    using first = await proxy.open("page.example");
    using _second = await proxy.open("page.example");
    using third = await proxy.connect();
    assert.equal(await takeAll(third), "");
    assert.equal(await proxy.reason(1), "too many connections: 2 are open");
    await first.closeWrite();
    assert.equal(await takeAll(first), "end");
    await until("room", async () => {
      using conn = await proxy.connect();
      await conn.write(GREETING);
      return (await take(conn, 2).catch(() => new Uint8Array())).length === 2;
    });
  },
);

inEchoWorld(
  "beyond the limit of a call nobody listens, and what is open goes on",
  async (world) => {
    const proxy = await world.proxy({ limits: { connections: 2 } });
    using kept = await proxy.open("page.example");
    assert.match(await proxy.refusal("evil.example"), /is not a host of the grant/);
    using third = await proxy.connect();
    assert.equal(await takeAll(third), "");
    assert.equal(await proxy.reason(2), "too many connections: 2 were made");
    await assert.rejects(proxy.connect());
    await kept.write(utf8("x"));
    assert.equal(fromUtf8(await take(kept, 1)), "x");
  },
);

inEchoWorld("any number of refusals is counted, and twenty are told, as data", async (world) => {
  const proxy = await world.proxy({ limits: { connections: 1000 } });
  for (let each = 0; each < 30; each += 1) {
    const host = `\x1b[31m${each}\u202e${"x".repeat(200)}.example`.slice(0, 250);
    const { conn } = await proxy.ask(request(host));
    conn.close();
  }
  await proxy.child.stop();
  const { count, reasons } = proxy.child.refused();
  assert.equal(count, 30);
  assert.equal(reasons.length, 20);
  for (const reason of reasons) {
    assert.ok(reason.length <= 200);
    assert.match(reason, /^[\x20-\x7e]*$/);
  }
});
