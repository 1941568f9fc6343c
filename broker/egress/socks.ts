/**
 * SOCKS 5 as a server reads and answers it (RFC 1928): no authentication, CONNECT only. Both readers
 * take all bytes that came so far, and say how many of them they used: what follows is the client's
 * data. Pure.
 */
import { type Address, formatAddress } from "./addresses.ts";

const VERSION = 5;
const NO_AUTHENTICATION = 0;
const CONNECT = 1;
const IPV4 = 1;
const NAME = 3;
const IPV6 = 4;

/** The answers to a greeting: the one method that is spoken here, and that there is none in common. */
export const USE_NO_AUTHENTICATION = new Uint8Array([VERSION, NO_AUTHENTICATION]);
export const NO_COMMON_METHOD = new Uint8Array([VERSION, 0xff]);

/** The codes of an answer to a request (RFC 1928, section 6). */
export const REPLIES = {
  succeeded: 0,
  failed: 1,
  notAllowed: 2,
  hostUnreachable: 4,
  commandNotSupported: 7,
  addressTypeNotSupported: 8,
} as const;
export type Reply = keyof typeof REPLIES;

/** The answer to a request. The address in it, which nobody needs, is 0.0.0.0:0. */
export function replyBytes(reply: Reply): Uint8Array<ArrayBuffer> {
  return new Uint8Array([VERSION, REPLIES[reply], 0, IPV4, 0, 0, 0, 0, 0, 0]);
}

/** `more`: the bytes so far are the beginning of one. `bad`: they are not, whatever follows. */
export type Read<T> =
  | { readonly status: "more" }
  | { readonly status: "bad"; readonly why: string; readonly reply: Reply | null }
  | { readonly status: "read"; readonly value: T; readonly used: number };

const MORE = { status: "more" } as const;

/** Reads a greeting. Its value: whether the client can do without authentication. */
export function readGreeting(bytes: Uint8Array): Read<boolean> {
  const [version, count] = bytes;
  if (version === undefined) return MORE;
  if (version !== VERSION) {
    return { status: "bad", why: "what the client sent is not SOCKS 5", reply: null };
  }
  if (count === undefined || bytes.length < 2 + count) return MORE;
  const value = bytes.subarray(2, 2 + count).includes(NO_AUTHENTICATION);
  return { status: "read", value, used: 2 + count };
}

/** Where a client asks to be connected to. */
export interface Target {
  /** A name as the client wrote it, each byte a character; or an address. */
  readonly host: string;
  /** Whether it was sent as a name. What the name looks like is not checked here. */
  readonly isName: boolean;
  readonly port: number;
}

function addressText(bytes: Uint8Array, family: Address["family"]): string {
  return formatAddress({
    family,
    value: bytes.reduce((value, byte) => value << 8n | BigInt(byte), 0n),
  });
}

/** Where the host stands in a request with this address type and this first byte of the host. */
function hostPlace(type: number, first: number): { start: number; end: number } | null {
  switch (type) {
    case IPV4:
      return { start: 4, end: 8 };
    case NAME:
      return { start: 5, end: 5 + first };
    case IPV6:
      return { start: 4, end: 20 };
    default:
      return null;
  }
}

/** Reads a request. */
export function readRequest(bytes: Uint8Array): Read<Target> {
  const [version, command, reserved, type, first] = bytes;
  if (version === undefined) return MORE;
  if (version !== VERSION) return { status: "bad", why: "the request is not SOCKS 5", reply: null };
  if (command === undefined) return MORE;
  if (command !== CONNECT) {
    const why = "the request is not to connect";
    return { status: "bad", why, reply: "commandNotSupported" };
  }
  if (reserved === undefined) return MORE;
  if (reserved !== 0) return { status: "bad", why: "the request is not SOCKS 5", reply: "failed" };
  if (type === undefined || first === undefined) return MORE;
  const place = hostPlace(type, first);
  if (place === null) {
    const why = "the request names neither a host nor an address";
    return { status: "bad", why, reply: "addressTypeNotSupported" };
  }
  const { start, end } = place;
  const [high, low] = bytes.subarray(end);
  if (high === undefined || low === undefined) return MORE;
  const host = bytes.subarray(start, end);
  const isName = type === NAME;
  const value = {
    host: isName ? String.fromCharCode(...host) : addressText(host, type === IPV4 ? 4 : 6),
    isName,
    port: high << 8 | low,
  };
  return { status: "read", value, used: end + 2 };
}
