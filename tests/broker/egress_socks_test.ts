/** SOCKS 5 as the egress proxy reads it (RFC 1928), in whatever pieces it comes. */
import assert from "node:assert/strict";
import fc from "fast-check";
import {
  NO_COMMON_METHOD,
  type Read,
  readGreeting,
  readRequest,
  REPLIES,
  replyBytes,
  USE_NO_AUTHENTICATION,
} from "../../broker/egress/socks.ts";
import { utf8 } from "../../proto/text.ts";

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

const bytes = (...values: number[]) => new Uint8Array(values);
const nameRequest = (host: Uint8Array, port: number) =>
  bytes(5, 1, 0, 3, host.length, ...host, port >> 8, port & 0xff);

function read<T>(result: Read<T>): { value: T; used: number } {
  assert.ok(result.status === "read", JSON.stringify(result));
  return { value: result.value, used: result.used };
}

function bad(result: Read<unknown>): { why: string; reply: string | null } {
  assert.ok(result.status === "bad", JSON.stringify(result));
  return { why: result.why, reply: result.reply };
}

pure("a greeting offers no authentication, or does not", () => {
  assert.deepEqual(read(readGreeting(bytes(5, 1, 0))), { value: true, used: 3 });
  assert.deepEqual(read(readGreeting(bytes(5, 3, 2, 1, 0))), { value: true, used: 5 });
  assert.deepEqual(read(readGreeting(bytes(5, 2, 1, 2, 0))), { value: false, used: 4 });
  assert.deepEqual(read(readGreeting(bytes(5, 0))), { value: false, used: 2 });
  const most = new Uint8Array(257).fill(255);
  most.set([5, 255]);
  assert.deepEqual(read(readGreeting(most)), { value: false, used: 257 });
});

pure("what is not SOCKS 5 is known by its first byte", () => {
  for (const first of [4, 0, 0x16, 0x47, 255]) {
    assert.match(bad(readGreeting(bytes(first))).why, /is not SOCKS 5/);
    assert.match(bad(readRequest(bytes(first))).why, /is not SOCKS 5/);
  }
});

pure("a request names a host, or an address", () => {
  assert.deepEqual(read(readRequest(nameRequest(utf8("page.example"), 443))), {
    value: { host: "page.example", isName: true, port: 443 },
    used: 19,
  });
  assert.deepEqual(read(readRequest(bytes(5, 1, 0, 1, 10, 0, 0, 255, 0, 80))), {
    value: { host: "10.0.0.255", isName: false, port: 80 },
    used: 10,
  });
  const six = bytes(5, 1, 0, 4, 0x20, 1, 0xd, 0xb8, ...new Uint8Array(11), 1, 0xff, 0xff);
  assert.deepEqual(read(readRequest(six)), {
    value: { host: "2001:db8:0:0:0:0:0:1", isName: false, port: 65535 },
    used: 22,
  });
  // Whatever bytes a name has, each is one character: nothing is decoded.
  assert.equal(read(readRequest(nameRequest(bytes(0, 0xff, 0x2e), 443))).value.host, "\0\xff.");
  assert.equal(read(readRequest(nameRequest(bytes(), 443))).value.host, "");
});

pure("only CONNECT is spoken, and each refusal has its reply", () => {
  assert.equal(bad(readRequest(bytes(5, 2))).reply, "commandNotSupported");
  assert.equal(bad(readRequest(bytes(5, 3, 0, 1, 0, 0, 0, 0, 0, 0))).reply, "commandNotSupported");
  assert.equal(bad(readRequest(bytes(5, 1, 1))).reply, "failed");
  assert.equal(bad(readRequest(bytes(5, 1, 0, 2, 0))).reply, "addressTypeNotSupported");
});

pure("pieces of any size read as the whole does, and what follows is left", () => {
  const host = fc.uint8Array({ maxLength: 255 });
  const port = fc.integer({ min: 0, max: 65535 });
  fc.assert(fc.property(host, port, fc.uint8Array(), (name, number, rest) => {
    const request = nameRequest(name, number);
    for (let end = 0; end < request.length; end += 1) {
      assert.equal(readRequest(request.subarray(0, end)).status, "more");
    }
    const { value, used } = read(readRequest(bytes(...request, ...rest)));
    assert.equal(used, request.length);
    assert.equal(value.port, number);
    assert.deepEqual(Uint8Array.from(value.host, (each) => each.charCodeAt(0)), bytes(...name));
  }));
  fc.assert(fc.property(fc.uint8Array({ maxLength: 255 }), fc.uint8Array(), (methods, rest) => {
    const greeting = bytes(5, methods.length, ...methods);
    for (let end = 0; end < greeting.length; end += 1) {
      assert.equal(readGreeting(greeting.subarray(0, end)).status, "more");
    }
    assert.equal(read(readGreeting(bytes(...greeting, ...rest))).used, greeting.length);
  }));
});

pure("no bytes make a reader throw or wait for more than the longest request", () => {
  const any = fc.uint8Array({ maxLength: 400, size: "max" });
  fc.assert(fc.property(any, fc.boolean(), (sent, begins) => {
    if (begins) sent.set([5, 1, 0, 3].slice(0, sent.length));
    for (const result of [readGreeting(sent), readRequest(sent)]) {
      if (result.status === "more") assert.ok(sent.length < 262);
    }
  }));
});

pure("the answers are those of RFC 1928", () => {
  assert.deepEqual(USE_NO_AUTHENTICATION, bytes(5, 0));
  assert.deepEqual(NO_COMMON_METHOD, bytes(5, 255));
  assert.deepEqual(replyBytes("succeeded"), bytes(5, 0, 0, 1, 0, 0, 0, 0, 0, 0));
  for (const [reply, code] of [["notAllowed", 2], ["hostUnreachable", 4]] as const) {
    assert.equal(replyBytes(reply)[1], code);
    assert.equal(REPLIES[reply], code);
  }
});
