/**
 * IP addresses, ranges of them, and the special-purpose addresses that a tool's call must not reach
 * (specification 13). Pure.
 */

type Family = 4 | 6;

export interface Address {
  readonly family: Family;
  /** The address as one number of 32 or 128 bits. */
  readonly value: bigint;
}

/** The addresses whose first `prefix` bits are those of `base`. */
export interface Cidr {
  readonly family: Family;
  readonly base: bigint;
  readonly prefix: number;
}

const BITS = { 4: 32, 6: 128 } as const satisfies Record<Family, number>;
const DECIMAL_BYTE = /^(?:0|[1-9][0-9]{0,2})$/;
const HEX_GROUP = /^[0-9a-f]{1,4}$/i;
const IPV4_TAIL = /^(.*:)([0-9]+\.[0-9]+\.[0-9]+\.[0-9]+)$/;

function parseIpv4(text: string): bigint | null {
  const parts = text.split(".");
  if (parts.length !== 4) return null;
  if (!parts.every((part) => DECIMAL_BYTE.test(part) && Number(part) <= 255)) return null;
  return parts.reduce((value, part) => value << 8n | BigInt(part), 0n);
}

/** `text` with an IPv4 address at its end written as two groups; null where that is no address. */
function withoutIpv4Tail(text: string): string | null {
  const tail = IPV4_TAIL.exec(text);
  if (tail === null) return text;
  const value = parseIpv4(tail[2] ?? "");
  return value === null
    ? null
    : `${tail[1]}${(value >> 16n).toString(16)}:${(value & 0xffffn).toString(16)}`;
}

function parseIpv6(text: string): bigint | null {
  const [before = "", after, ...more] = withoutIpv4Tail(text)?.split("::") ?? [];
  if (more.length > 0) return null;
  const groupsOf = (half: string) => half === "" ? [] : half.split(":");
  const head = groupsOf(before);
  const tail = groupsOf(after ?? "");
  const missing = 8 - head.length - tail.length;
  // `::` stands for one group or more.
  if (after === undefined ? missing !== 0 : missing < 1) return null;
  const groups = [...head, ...Array.from({ length: missing }, () => "0"), ...tail];
  if (!groups.every((group) => HEX_GROUP.test(group))) return null;
  return groups.reduce((value, group) => value << 16n | BigInt(`0x${group}`), 0n);
}

/**
 * The address that `text` is, or null. IPv4 as four decimal numbers without leading zeros, IPv6 as in
 * RFC 4291 without brackets and without a zone: no other spelling is an address.
 */
export function parseAddress(text: string): Address | null {
  const family = text.includes(":") ? 6 : 4;
  const value = family === 6 ? parseIpv6(text) : parseIpv4(text);
  return value === null ? null : { family, value };
}

/** `address` as text that `parseAddress` reads. */
export function formatAddress({ family, value }: Address): string {
  const [width, count, base, separator] = family === 4
    ? [8n, 4n, 10, "."] as const
    : [16n, 8n, 16, ":"] as const;
  const part = (index: bigint) => value >> (width * index) & ((1n << width) - 1n);
  const parts = Array.from(
    { length: Number(count) },
    (_, index) => part(count - 1n - BigInt(index)),
  );
  return parts.map((each) => each.toString(base)).join(separator);
}

function isWithin(address: Address, { family, base, prefix }: Cidr): boolean {
  const rest = BigInt(BITS[family] - prefix);
  return address.family === family && address.value >> rest === base >> rest;
}

/** The first and the last address of `range`. */
export function endsOf({ family, base, prefix }: Cidr): [Address, Address] {
  const size = 1n << BigInt(BITS[family] - prefix);
  return [{ family, value: base }, { family, value: base + size - 1n }];
}

/**
 * The range that `text` is, or null: an address, which is the range of itself alone, or an address, `/` and
 * the number of bits that count. The other bits are 0, so that a mistake is not taken for a wider range.
 */
export function parseCidr(text: string): Cidr | null {
  const [start = "", length, ...more] = text.split("/");
  const address = parseAddress(start);
  if (address === null || more.length > 0) return null;
  const { family, value } = address;
  if (length === undefined) return { family, base: value, prefix: BITS[family] };
  if (!DECIMAL_BYTE.test(length) || Number(length) > BITS[family]) return null;
  const range = { family, base: value, prefix: Number(length) };
  const rest = BigInt(BITS[family] - range.prefix);
  return value >> rest << rest === value ? range : null;
}

/** `range` as text that `parseCidr` reads. */
export function formatCidr({ family, base, prefix }: Cidr): string {
  return `${formatAddress({ family, value: base })}/${prefix}`;
}

/** Whether `text` is an address as `[egress.hosts]` takes it. */
export function isAddress(text: string): boolean {
  return parseAddress(text) !== null;
}

/** Whether `text` is an address or a range as `[egress] private` takes it. */
export function isCidr(text: string): boolean {
  return parseCidr(text) !== null;
}

/** What `text` is as a range. Only for text that was checked: throws where it is none. */
export function cidr(text: string): Cidr {
  const range = parseCidr(text);
  if (range === null) throw new Error(`${text} is not a range of addresses`);
  return range;
}

/**
 * The special-purpose addresses with words for each: every entry of IANA's two registries (RFC 6890), the
 * addresses for many receivers, and all of IPv6 that is not given out for single hosts of the internet
 * (2000::/3). An address has the words of the first range it is in.
 *
 * Some of these the registries call globally reachable (AS112, AMT, NAT64, a few of 2001::/23). None serves
 * pages, and through NAT64, 6to4 and Teredo a private IPv4 address is reached, so they are refused too.
 */
const SPECIAL = ([
  ["0.0.0.0/8", "an address of this host"],
  ["10.0.0.0/8", "a private address"],
  ["100.64.0.0/10", "a shared address of a provider's network"],
  ["127.0.0.0/8", "a loopback address"],
  ["169.254.0.0/16", "a link-local address"],
  ["172.16.0.0/12", "a private address"],
  ["192.0.0.0/24", "a reserved address"],
  ["192.0.2.0/24", "an address for documentation"],
  ["192.31.196.0/24", "a reserved address"],
  ["192.52.193.0/24", "a reserved address"],
  ["192.88.99.0/24", "an address of a 6to4 relay"],
  ["192.168.0.0/16", "a private address"],
  ["192.175.48.0/24", "a reserved address"],
  ["198.18.0.0/15", "an address for benchmarks"],
  ["198.51.100.0/24", "an address for documentation"],
  ["203.0.113.0/24", "an address for documentation"],
  ["224.0.0.0/4", "a multicast address"],
  ["255.255.255.255", "the broadcast address"],
  ["240.0.0.0/4", "a reserved address"],
  ["::", "an address of this host"],
  ["::1", "a loopback address"],
  ["::/96", "an IPv4-compatible address"],
  ["::ffff:0:0/96", "an IPv4-mapped address"],
  ["64:ff9b::/96", "an IPv4 address behind NAT64"],
  ["64:ff9b:1::/48", "an IPv4 address behind NAT64"],
  ["100::/64", "a discard address"],
  ["100:0:0:1::/64", "a reserved address"],
  ["2001::/32", "a Teredo address"],
  ["2001:2::/48", "an address for benchmarks"],
  ["2001::/23", "a reserved address"],
  ["2001:db8::/32", "an address for documentation"],
  ["2002::/16", "a 6to4 address"],
  ["2620:4f:8000::/48", "a reserved address"],
  ["3fff::/20", "an address for documentation"],
  ["5f00::/16", "a segment routing address"],
  ["fc00::/7", "a private address"],
  ["fe80::/10", "a link-local address"],
  ["fec0::/10", "a private address"],
  ["ff00::/8", "a multicast address"],
  ["::/3", "a reserved address"],
  ["4000::/2", "a reserved address"],
  ["8000::/1", "a reserved address"],
] as const).map(([range, words]) => ({ range: cidr(range), words }));

/** What makes `address` special, in words such as `a loopback address`; null where nothing does. */
export function specialWords(address: Address): string | null {
  return SPECIAL.find(({ range }) => isWithin(address, range))?.words ?? null;
}

/** Whether `address` stands in the table of special-purpose addresses. */
export function isSpecial(address: Address): boolean {
  return specialWords(address) !== null;
}

/** Whether a call may reach `address`: it is not special, or `named` holds it. */
export function allowed(address: Address, named: readonly Cidr[]): boolean {
  return !isSpecial(address) || named.some((range) => isWithin(address, range));
}

function holds(outer: Cidr, inner: Cidr): boolean {
  return outer.prefix <= inner.prefix &&
    isWithin({ family: inner.family, value: inner.base }, outer);
}

/** The ranges that together are `range` without `holes`. */
export function subtract(range: Cidr, holes: readonly Cidr[]): Cidr[] {
  if (holes.some((hole) => holds(hole, range))) return [];
  const inside = holes.filter((hole) => holds(range, hole));
  if (inside.length === 0) return [range];
  // A hole is smaller than the range that holds it, so there is a bit more to split at.
  const prefix = range.prefix + 1;
  const half = 1n << BigInt(BITS[range.family] - prefix);
  return [range.base, range.base + half].flatMap((base) =>
    subtract({ family: range.family, base, prefix }, inside)
  );
}

/**
 * The special addresses that Deno's `--deny-net` can express, without those that `named` opens: IPv4
 * ranges, and of IPv6, for which Deno takes no ranges, this host's two. A deny wins over an allow.
 */
export function deniedRanges(named: readonly Cidr[]): Cidr[] {
  const expressible = SPECIAL.map(({ range }) => range)
    .filter(({ family, prefix }) => family === 4 || prefix === BITS[6]);
  return expressible.flatMap((range) => subtract(range, named));
}
