/** Addresses, ranges and the table of special-purpose addresses of the egress proxy (specification 13). */
import assert from "node:assert/strict";
import fc from "fast-check";
import {
  allowed,
  cidr,
  deniedRanges,
  endsOf,
  formatAddress,
  formatCidr,
  isAddress,
  isCidr,
  isSpecial,
  parseAddress,
  specialWords,
  subtract,
} from "../../broker/egress/addresses.ts";

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

function address(text: string) {
  const parsed = parseAddress(text);
  assert.ok(parsed, text);
  return parsed;
}

const anyFamily = fc.constantFrom(4 as const, 6 as const);
const bitsOf = (family: 4 | 6) => family === 4 ? 32 : 128;
const anyAddress = anyFamily.chain((family) =>
  fc.bigInt({ min: 0n, max: (1n << BigInt(bitsOf(family))) - 1n })
    .map((value) => ({ family, value }))
);
const anyCidr = anyAddress.chain(({ family, value }) =>
  fc.integer({ min: 0, max: bitsOf(family) }).map((prefix) => {
    const rest = BigInt(bitsOf(family) - prefix);
    return { family, base: value >> rest << rest, prefix };
  })
);
/** Ranges at and beside the ends of the special ones: where a mistake would be. */
const special = ["10.0.0.0/8", "127.0.0.0/8", "192.0.0.0/24", "224.0.0.0/4", "0.0.0.0/8"].map(cidr);
const nearSpecial = fc.tuple(
  fc.constantFrom(...special.flatMap(endsOf)),
  fc.integer({ min: -3, max: 3 }),
)
  .map(([{ family, value }, step]) => ({ family, value: value + BigInt(step) }))
  .filter(({ value }) => value >= 0n && value < 1n << 32n);

pure("an address has one spelling for IPv4, and those of RFC 4291 for IPv6", () => {
  const values: Readonly<Record<string, string | null>> = {
    "1.2.3.4": "1.2.3.4",
    "255.255.255.255": "255.255.255.255",
    "256.0.0.1": null,
    "1.2.3": null,
    "1.2.3.4.5": null,
    "01.2.3.4": null,
    "0x1.2.3.4": null,
    "1.2.3.4 ": null,
    "1.2.3.4\n": null,
    "١.2.3.4": null,
    "16909060": null,
    "1..3.4": null,
    "": null,
    "::": "0:0:0:0:0:0:0:0",
    "::1": "0:0:0:0:0:0:0:1",
    "1::": "1:0:0:0:0:0:0:0",
    "1:2:3:4:5:6:7:8": "1:2:3:4:5:6:7:8",
    "1:2:3:4:5:6:7::": "1:2:3:4:5:6:7:0",
    "FE80::AbCd": "fe80:0:0:0:0:0:0:abcd",
    "::ffff:1.2.3.4": "0:0:0:0:0:ffff:102:304",
    "1:2:3:4:5:6:1.2.3.4": "1:2:3:4:5:6:102:304",
    "1:2:3:4:5:6:7:1.2.3.4": null,
    "::ffff:1.2.3.256": null,
    "1.2.3.4::": null,
    "1:2:3:4:5:6:7:8:9": null,
    "1:2:3:4:5:6:7": null,
    "1:2:3:4:5:6:7:8::": null,
    "1::2::3": null,
    ":1:2:3:4:5:6:7": null,
    "1:2:3:4:5:6:7:": null,
    ":::": null,
    ":": null,
    "12345::": null,
    "g::": null,
    "fe80::1%eth0": null,
    "[::1]": null,
    "::1/128": null,
  };
  for (const [text, expected] of Object.entries(values)) {
    const parsed = parseAddress(text);
    assert.equal(parsed === null ? null : formatAddress(parsed), expected, JSON.stringify(text));
    assert.equal(isAddress(text), expected !== null, text);
  }
});

pure("an address written out reads as itself", () => {
  fc.assert(
    fc.property(anyAddress, (any) => assert.deepEqual(parseAddress(formatAddress(any)), any)),
  );
  fc.assert(fc.property(anyCidr, (any) => assert.deepEqual(cidr(formatCidr(any)), any)));
});

pure("IPv6 text of the runtime's own URL reader is the same address", () => {
  fc.assert(fc.property(fc.ipV6(), (text) => {
    const shortest = new URL(`http://[${text}]/`).hostname.slice(1, -1);
    assert.deepEqual(address(shortest), address(text));
  }));
});

pure("a range is an address and the number of its bits that count, and no other bit is set", () => {
  const valid = [
    "10.0.0.0/8",
    "10.1.2.3",
    "10.1.2.3/32",
    "0.0.0.0/0",
    "::/0",
    "fd00::/8",
    "::1/128",
  ];
  const invalid = [
    ...["10.0.0.1/8", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8/8"],
    ...[
      "10/8",
      "fd00::1/8",
      "::/129",
      "localhost",
      "",
      "/8",
      "10.0.0.0/8,0.0.0.0/0",
      " 10.0.0.0/8",
    ],
  ];
  for (const text of valid) assert.ok(isCidr(text), text);
  for (const text of invalid) {
    assert.ok(!isCidr(text), text);
    assert.throws(() => cidr(text), /is not a range/);
  }
});

pure("a special address has words, with its neighbours outside the range as ordinary ones", () => {
  // The first and the last address of each range, and what stands beside it.
  const words: Readonly<Record<string, string | null>> = {
    "0.0.0.0": "an address of this host",
    "0.255.255.255": "an address of this host",
    "1.0.0.0": null,
    "9.255.255.255": null,
    "10.0.0.0": "a private address",
    "10.255.255.255": "a private address",
    "11.0.0.0": null,
    "100.63.255.255": null,
    "100.64.0.0": "a shared address of a provider's network",
    "100.100.100.100": "a shared address of a provider's network",
    "100.127.255.255": "a shared address of a provider's network",
    "100.128.0.0": null,
    "126.255.255.255": null,
    "127.0.0.1": "a loopback address",
    "127.255.255.255": "a loopback address",
    "128.0.0.0": null,
    "169.253.255.255": null,
    "169.254.169.254": "a link-local address",
    "169.255.0.0": null,
    "172.15.255.255": null,
    "172.16.0.0": "a private address",
    "172.31.255.255": "a private address",
    "172.32.0.0": null,
    "191.255.255.255": null,
    "192.0.0.192": "a reserved address",
    "192.0.1.0": null,
    "192.0.2.1": "an address for documentation",
    "192.31.196.1": "a reserved address",
    "192.52.193.1": "a reserved address",
    "192.88.99.1": "an address of a 6to4 relay",
    "192.167.255.255": null,
    "192.168.0.0": "a private address",
    "192.168.255.255": "a private address",
    "192.169.0.0": null,
    "192.175.48.1": "a reserved address",
    "198.17.255.255": null,
    "198.18.0.0": "an address for benchmarks",
    "198.19.255.255": "an address for benchmarks",
    "198.20.0.0": null,
    "198.51.100.1": "an address for documentation",
    "203.0.113.1": "an address for documentation",
    "223.255.255.255": null,
    "224.0.0.1": "a multicast address",
    "239.255.255.255": "a multicast address",
    "240.0.0.0": "a reserved address",
    "255.255.255.254": "a reserved address",
    "255.255.255.255": "the broadcast address",
    "::": "an address of this host",
    "::1": "a loopback address",
    "::127.0.0.1": "an IPv4-compatible address",
    "::ffff:8.8.8.8": "an IPv4-mapped address",
    "::ffff:127.0.0.1": "an IPv4-mapped address",
    "64:ff9b::a00:1": "an IPv4 address behind NAT64",
    "64:ff9b:1::1": "an IPv4 address behind NAT64",
    "100::1": "a discard address",
    "100:0:0:1::1": "a reserved address",
    "1fff:ffff::1": "a reserved address",
    "2000::1": null,
    "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff": null,
    "2001::1": "a Teredo address",
    "2001:1::1": "a reserved address",
    "2001:2::1": "an address for benchmarks",
    "2001:1ff:ffff::1": "a reserved address",
    "2001:200::1": null,
    "2001:db7:ffff::1": null,
    "2001:db8::1": "an address for documentation",
    "2001:db9::1": null,
    "2002:7f00:1::1": "a 6to4 address",
    "2003::1": null,
    "2606:4700::1111": null,
    "2620:4f:8000::1": "a reserved address",
    "3ffe:ffff::1": null,
    "3fff::1": "an address for documentation",
    "3fff:1000::1": null,
    "4000::1": "a reserved address",
    "5f00::1": "a segment routing address",
    "8000::1": "a reserved address",
    "fbff::1": "a reserved address",
    "fc00::1": "a private address",
    "fd00:ec2::254": "a private address",
    "fe00::1": "a reserved address",
    "fe80::1": "a link-local address",
    "febf::1": "a link-local address",
    "fec0::1": "a private address",
    "ff02::1": "a multicast address",
  };
  for (const [text, expected] of Object.entries(words)) {
    assert.equal(specialWords(address(text)), expected, text);
    assert.equal(isSpecial(address(text)), expected !== null, text);
  }
});

pure("`private` opens exactly what it names", () => {
  const opens = (range: string, text: string) => allowed(address(text), [cidr(range)]);
  assert.ok(opens("10.1.2.3", "10.1.2.3"));
  assert.ok(!opens("10.1.2.3", "10.1.2.4"));
  assert.ok(!opens("10.1.2.3", "10.1.2.2"));
  assert.ok(opens("10.1.2.0/30", "10.1.2.0") && opens("10.1.2.0/30", "10.1.2.3"));
  assert.ok(!opens("10.1.2.0/30", "10.1.2.4"));
  // The same IPv4 address as IPv6 is another address.
  assert.ok(!opens("10.1.2.3", "::ffff:10.1.2.3"));
  assert.ok(!opens("10.1.2.3", "64:ff9b::10.1.2.3"));
  assert.ok(opens("::ffff:10.1.2.3", "::ffff:10.1.2.3"));
  assert.ok(!opens("::/0", "10.1.2.3"));
  assert.ok(!opens("0.0.0.0/0", "fd00::1"));
  assert.ok(opens("fd00::5", "fd00::5"));
  assert.ok(!opens("fd00::5", "fd00::6"));
  // What is not special needs no name.
  assert.ok(allowed(address("93.184.215.14"), []));
  assert.ok(!allowed(address("10.1.2.3"), []));
});

const holds = (ranges: ReturnType<typeof deniedRanges>, one: ReturnType<typeof address>) =>
  ranges.some((range) => {
    const [first, last] = endsOf(range);
    return first.family === one.family && first.value <= one.value && one.value <= last.value;
  });

pure("a range without holes holds what it held and they do not", () => {
  const within = fc.record({
    range: anyCidr,
    holes: fc.array(anyCidr, { maxLength: 4 }),
    one: anyAddress,
  });
  fc.assert(fc.property(within, ({ range, holes, one }) => {
    for (const each of [one, ...endsOf(range), ...holes.flatMap(endsOf)]) {
      const expected = holds([range], each) && !holds(holes, each);
      assert.equal(holds(subtract(range, holes), each), expected);
    }
  }));
  assert.deepEqual(subtract(cidr("10.0.0.0/30"), [cidr("10.0.0.2")]).map(formatCidr), [
    "10.0.0.0/31",
    "10.0.0.3/32",
  ]);
  assert.deepEqual(subtract(cidr("10.0.0.0/30"), [cidr("0.0.0.0/0")]), []);
  assert.deepEqual(subtract(cidr("10.0.0.0/30"), [cidr("::/0")]), [cidr("10.0.0.0/30")]);
});

pure("IPv4 is denied to the runtime where it is special and not named, and nowhere else", () => {
  const ipv4 = anyCidr.filter(({ family }) => family === 4);
  const near = fc.oneof(
    ipv4,
    nearSpecial.map(({ value }) => ({ family: 4 as const, base: value, prefix: 32 })),
  );
  const given = fc.record({
    named: fc.array(near, { maxLength: 4 }),
    one: fc.oneof(anyAddress, nearSpecial),
  });
  fc.assert(
    fc.property(given, ({ named, one }) => {
      const denied = deniedRanges(named);
      for (const each of [one, ...named.flatMap(endsOf)].filter(({ family }) => family === 4)) {
        assert.equal(holds(denied, each), !allowed(each, named), formatAddress(each));
      }
    }),
    { numRuns: 500 },
  );
});

pure("of IPv6 the runtime is denied this host's two addresses, unless they are named", () => {
  const ofIpv6 = (named: string[]) =>
    deniedRanges(named.map(cidr)).filter(({ family }) => family === 6).map(formatCidr);
  assert.deepEqual(ofIpv6([]), ["0:0:0:0:0:0:0:0/128", "0:0:0:0:0:0:0:1/128"]);
  assert.deepEqual(ofIpv6(["::1"]), ["0:0:0:0:0:0:0:0/128"]);
  assert.deepEqual(ofIpv6(["::/127"]), []);
});
