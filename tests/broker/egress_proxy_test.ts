/** The egress proxy as brokerd starts it, in a network of its own: who is reached, and who is not (specification 13). */
import assert from "node:assert/strict";
import { isAddress } from "../../broker/egress/addresses.ts";
import { until } from "../support/broker.ts";
import { inWorld } from "../support/egress.ts";
import { ECHO, ECHO6, PAGE, SPECIAL } from "../support/egress_world.ts";

inWorld("a host of the grant is reached over TLS, and another one is not", async (world) => {
  world.resolve({ "page.example": PAGE, "www.page.example": PAGE, "evil.example": PAGE });
  const proxy = await world.proxy();
  assert.match(
    await proxy.fetch("page.example", "/a"),
    /^HTTP\/1\.1 200 .*this is page\.example\/a/s,
  );
  assert.match(await proxy.fetch("www.page.example"), /this is www\.page\.example\//);
  assert.equal(await proxy.refusal("evil.example"), "evil.example is not a host of the grant");
  assert.equal(world.connections(PAGE), 2);
  const wide = await world.proxy({ hosts: ["evil.example"] });
  using _ = await wide.open("evil.example");
});

inWorld(
  "TLS holds: a host with a certificate for other names is reached, and not believed",
  async (world) => {
    world.resolve({ "a.page.example": PAGE });
    const proxy = await world.proxy();
    await assert.rejects(proxy.fetch("a.page.example"));
    assert.equal(proxy.child.refused().count, 0);
  },
);

inWorld(
  "a redirect leads to another host, which is held against the grant like any",
  async (world) => {
    world.resolve({ "page.example": PAGE, "evil.example": ECHO });
    const proxy = await world.proxy();
    const answer = await proxy.fetch("page.example", "/elsewhere");
    const [, host = ""] = /^location: https:\/\/([^/]*)/im.exec(answer) ?? [];
    assert.equal(await proxy.refusal(host), "evil.example is not a host of the grant");
    assert.equal(world.connections(ECHO), 0);
  },
);

inWorld(
  "a wildcard does not cover the host it stands on, though Deno's flag does",
  async (world) => {
    world.resolve({ "page.example": ECHO, "a.page.example": ECHO });
    const proxy = await world.proxy({ hosts: ["*.page.example"] });
    assert.equal(await proxy.refusal("page.example"), "page.example is not a host of the grant");
    assert.equal(await proxy.echo("a.page.example", "x"), "x");
  },
);

inWorld("port 443 and no other", async (world) => {
  world.resolve({ "page.example": PAGE });
  const proxy = await world.proxy();
  for (const port of [80, 0, 444, 65535, 8443]) {
    assert.equal(await proxy.refusal("page.example", port), `port ${port} is not 443`);
  }
  using _ = await proxy.open("page.example");
  assert.equal(world.connections(PAGE, 80), 0);
});

inWorld("no spelling of an address is a name", async (world) => {
  world.resolve({ "page.example": PAGE });
  const spellings = [
    ...[
      "127.0.0.1",
      "93.184.215.14",
      "93.184.55054",
      "93.12113678",
      "1572394766",
      "127.1",
      "127.0.1",
    ],
    ...["0x7f.1", "0x7f000001", "0177.0.0.1", "017700000001", "127.0.0.1.", "0x7f.0x0.0x0.0x1"],
    ...["::1", "[::1]", "::ffff:127.0.0.1", "::1%lo", "1.0.0.127.in-addr.arpa.", "①②⑦.0.0.1"],
    ...[
      "localhost",
      "LOCALHOST",
      "localhost.",
      "page.example.",
      "PAGE.example",
      "page.example\0",
      "",
    ],
    ...[
      "page.example:443",
      "user@page.example",
      "page.example/",
      " page.example",
      "page.example\n",
    ],
    ...["page.example\0.evil.example", "..", "*.page.example", "p\xe4ge.example"],
  ];
  // Loopback is open, so that only the spelling can be what is refused.
  const opened = { private: ["127.0.0.1", "::1"] };
  // One proxy keeps the reasons of 20 refusals.
  for (let at = 0; at < spellings.length; at += 20) {
    const proxy = await world.proxy(opened);
    for (const host of spellings.slice(at, at + 20)) {
      const why = await proxy.refusal(host);
      if (isAddress(host)) assert.equal(why, `${host} is an address, not a name`);
      else {assert.match(
          why,
          /needs at least two labels|has a label that|address in disguise/,
          host,
        );}
    }
  }
  const proxy = await world.proxy(opened);
  const addresses = [
    [1, 127, 0, 0, 1],
    [1, 93, 184, 215, 14],
    [4, ...new Uint8Array(15), 1],
    [4, ...new Uint8Array(10), 255, 255, 127, 0, 0, 1],
  ];
  for (const address of addresses) {
    const why = await proxy.refusalOf(new Uint8Array([5, 1, 0, ...address, 1, 187]));
    assert.match(why, /^[0-9a-f.:]+ is an address, not a name$/);
  }
  assert.equal(world.connections("127.0.0.1") + world.connections("::1"), 0);
  assert.equal(world.connections(PAGE), 0);
  // The same places by name.
  world.resolve({ "page.example": "127.0.0.1", "www.page.example": "::1" });
  assert.equal(await proxy.echo("page.example", "four"), "four");
  assert.equal(await proxy.echo("www.page.example", "six"), "six");
});

inWorld("a name that leads to a special address is refused before a byte passes", async (world) => {
  const proxy = await world.proxy();
  const mapped = ["::ffff:127.0.0.1", "::ffff:10.1.2.3", `::ffff:${ECHO}`];
  for (const address of [...SPECIAL, ...mapped, "0.0.0.0", "::"]) {
    world.resolve({ "page.example": address });
    const why = await proxy.refusal("page.example");
    assert.match(why, /^page\.example leads to [0-9a-f.:]+, an? /, address);
  }
  // IPv6 ranges are no flags: there the proxy's own check is what keeps bytes back.
  for (const at of ["fd00::5 443", "fd00::6 443", "127.0.0.1 443", "10.1.2.3 443", `${ECHO} 443`]) {
    await until(
      `end at ${at}`,
      () => world.arrivals.some((each) => each.at === at && each.bytes !== null),
    );
  }
  for (const { at, bytes } of world.arrivals) assert.equal(bytes ?? 0, 0, at);
  for (const [family, address] of [["4", ECHO], ["6", ECHO6]] as const) {
    world.resolve({ "page.example": address });
    assert.equal(await proxy.echo("page.example", family), family);
  }
});

inWorld("IPv4 that is special is not even connected to", async (world) => {
  const proxy = await world.proxy();
  for (const address of SPECIAL.filter((each) => each.includes("."))) {
    world.resolve({ "page.example": address });
    await proxy.refusal("page.example");
    // With an address beside it that may be reached, too.
    world.resolve({ "page.example": [address, ECHO] });
    await proxy.refusal("page.example");
    assert.equal(world.connections(address), 0, address);
  }
});

inWorld("`private` opens exactly what it names", async (world) => {
  const proxy = await world.proxy({ private: ["10.1.2.3", "fd00::5", "192.168.0.0/16"] });
  const open = ["10.1.2.3", "fd00::5", "192.168.1.1", ECHO];
  for (const address of open) {
    world.resolve({ "page.example": address });
    assert.equal(await proxy.echo("page.example", address), address);
  }
  const closed = [...SPECIAL.filter((each) => !open.includes(each)), "::ffff:10.1.2.3"];
  for (const address of closed) {
    world.resolve({ "page.example": address });
    assert.match(await proxy.refusal("page.example"), /^page\.example leads to /, address);
  }
});

inWorld("a name that leads elsewhere the second time is refused the second time", async (world) => {
  world.resolve({ "page.example": ECHO });
  const proxy = await world.proxy();
  assert.equal(await proxy.echo("page.example", "first"), "first");
  using kept = await proxy.open("page.example");
  world.resolve({ "page.example": "10.1.2.3" });
  const why = "page.example leads to 10.1.2.3, a private address";
  assert.equal(await proxy.refusal("page.example"), why);
  world.resolve({ "page.example": "fd00::5" });
  const six = "page.example leads to fd00::5, a private address";
  assert.equal(await proxy.refusal("page.example"), six);
  // What was made before stays with the address it was made to.
  await kept.write(new Uint8Array([33]));
  assert.equal(await kept.read(new Uint8Array(1)), 1);
  assert.equal(world.connections("10.1.2.3"), 0);
});

inWorld("the static table leads where it says, and looks nothing up", async (world) => {
  world.resolve({ "page.example": "10.1.2.4", "www.page.example": "10.1.2.4" });
  const table = {
    "page.example": ECHO,
    "www.page.example": "10.1.2.3",
    "six.page.example": "fd00::5",
    "evil.example": ECHO,
  };
  const proxy = await world.proxy({ table });
  assert.equal(await proxy.echo("page.example", "x"), "x");
  const why = "www.page.example leads to 10.1.2.3, a private address";
  assert.equal(await proxy.refusal("www.page.example"), why);
  assert.match(await proxy.refusal("six.page.example"), /leads to fd00:0:0:0:0:0:0:5, a private/);
  assert.equal(await proxy.refusal("evil.example"), "evil.example is not a host of the grant");
  const named = await world.proxy({ table, private: ["10.1.2.3", "fd00::5"] });
  assert.equal(await named.echo("www.page.example", "y"), "y");
  assert.equal(await named.echo("six.page.example", "z"), "z");
  assert.equal(world.connections("10.1.2.4"), 0);
});

inWorld("what cannot be looked up or reached is told as that", async (world) => {
  world.resolve({ "page.example": "93.184.215.99" });
  const proxy = await world.proxy();
  assert.equal(await proxy.refusal("www.page.example"), "www.page.example could not be looked up");
  assert.equal(await proxy.refusal("page.example"), "page.example could not be reached");
});
