/** What an egress proxy is told, the flags that come of it, and what it tells (specification 13). */
import assert from "node:assert/strict";
import { readEvent } from "../../broker/egress/events.ts";
import { eventLine } from "../../broker/egress/events.ts";
import {
  EGRESS_LIMITS,
  egressFlags,
  type EgressSettings,
  isGranted,
  settingsProblem,
  tableAddress,
} from "../../broker/egress/settings.ts";
import { ALWAYS } from "../../proto/locks.ts";

function pure(name: string, fn: () => void): void {
  Deno.test({ name, permissions: "none", fn });
}

const settings = (fields: Partial<EgressSettings> = {}): EgressSettings => ({
  socket: "/run/e/egress.sock",
  hosts: ["page.example", "*.docs.example"],
  table: {},
  private: [],
  limits: EGRESS_LIMITS,
  ...fields,
});

/** The values of one flag; null where it is not there. */
function flag(given: EgressSettings, name: string): string[] | null {
  const found = egressFlags(given).filter((each) => each.startsWith(`--${name}=`));
  assert.ok(found.length <= 1);
  return found[0]?.slice(name.length + 3).split(",") ?? null;
}

pure("the flags are the grant's hosts on port 443, the socket, and nothing else", () => {
  const flags = egressFlags(settings());
  assert.deepEqual(flags.slice(0, -1), [
    ...ALWAYS,
    "--allow-read=/run/e/egress.sock",
    "--allow-write=/run/e/egress.sock",
    "--allow-net=unix:/run/e/egress.sock,page.example:443,*.docs.example:443",
  ]);
  const denied = flag(settings(), "deny-net") ?? [];
  for (const range of ["10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "[0:0:0:0:0:0:0:1]"]) {
    assert.ok(denied.includes(range), range);
  }
  assert.ok(!denied.some((range) => range.includes(":") && range.includes("/")), "no IPv6 range");
});

pure(
  "the table's addresses are let through for hosts of the grant, special ones where they are named",
  () => {
    const table = {
      "page.example": "93.184.215.14",
      "a.docs.example": "2606:4700::5",
      "b.docs.example": "10.1.2.3",
      "c.docs.example": "fd00::5",
      "evil.example": "93.184.215.15",
    };
    const plain = flag(settings({ table }), "allow-net");
    assert.deepEqual(plain?.slice(3), ["93.184.215.14:443", "[2606:4700:0:0:0:0:0:5]:443"]);
    const named = settings({ table, private: ["10.1.2.3", "fd00::/64"] });
    assert.deepEqual(flag(named, "allow-net")?.slice(3), [
      ...["93.184.215.14:443", "[2606:4700:0:0:0:0:0:5]:443"],
      ...["10.1.2.3:443", "[fd00:0:0:0:0:0:0:5]:443"],
    ]);
  },
);

pure("what is private by name is not denied, and its neighbours are", () => {
  const denied = flag(settings({ private: ["10.1.2.3"] }), "deny-net") ?? [];
  assert.ok(!denied.includes("10.0.0.0/8"));
  assert.ok(!denied.includes("10.1.2.3/32"));
  assert.ok(denied.includes("10.1.2.2/32"));
  assert.equal(flag(settings({ private: ["0.0.0.0/0", "::/0"] }), "deny-net"), null);
});

pure("settings that cannot be held are refused with words, and no flags are made of them", () => {
  const problems: readonly (readonly [Partial<EgressSettings>, RegExp])[] = [
    [{ socket: "run/e.sock" }, /is not an absolute path/],
    [{ socket: "/run/a,b.sock" }, /has a comma/],
    [{ socket: "/run/a\n.sock" }, /has a newline/],
    [{ socket: `/${"a".repeat(107)}` }, /is longer than the 107 bytes/],
    [{ socket: `/${"ä".repeat(54)}` }, /is longer than the 107 bytes/],
    [{ hosts: [] }, /no host/],
    [{ hosts: ["page.example,127.0.0.1"] }, /has a label/],
    [{ hosts: ["10.0.0.1"] }, /IP address in disguise/],
    [{ hosts: ["*"] }, /two labels/],
    [{ table: { "page.example": "evil.example" } }, /is not an IP address/],
    [{ table: { "page.example": "10.0.0.0/8" } }, /is not an IP address/],
    [{ table: { localhost: "93.184.215.14" } }, /two labels/],
    [{ private: ["10.0.0.0/8,0.0.0.0/0"] }, /neither an IP address nor a range/],
    [{ limits: { ...EGRESS_LIMITS, bytes: 0 } }, /bytes is not a whole number above 0/],
    [{ limits: { ...EGRESS_LIMITS, wholeMs: 1.5 } }, /wholeMs is not/],
  ];
  for (const [fields, words] of problems) {
    assert.match(settingsProblem(settings(fields)) ?? "", words);
    assert.throws(() => egressFlags(settings(fields)), words);
  }
  assert.equal(settingsProblem(settings()), null);
  assert.equal(settingsProblem(settings({ socket: `/${"a".repeat(106)}` })), null);
});

pure("the check is stricter than the flag: a wildcard does not cover the host it stands on", () => {
  assert.ok(isGranted(settings(), "a.docs.example"));
  assert.ok(!isGranted(settings(), "docs.example"));
  assert.ok(!isGranted(settings(), "a.page.example"));
});

pure("the table knows its own names only", () => {
  const given = settings({ table: { "page.example": "93.184.215.14" } });
  assert.deepEqual(tableAddress(given, "page.example"), { family: 4, value: 0x5db8d70en });
  assert.equal(tableAddress(given, "constructor"), null);
  assert.equal(tableAddress(given, "other.example"), null);
});

pure("an event is one line, whatever is in it, and reads as what it was", () => {
  const why = 'a\n"\u001b[31m is not a host';
  const line = eventLine({ event: "refused", host: "a\n", port: 1, why });
  assert.equal(line.indexOf("\n"), line.length - 1);
  assert.deepEqual(readEvent(line), { event: "refused", why });
  assert.deepEqual(readEvent(eventLine({ event: "ready" })), { event: "ready" });
  const others = ["", "{", "null", "[]", "1", '{"event":1}', '{"event":"refused"}', '{"why":"x"}'];
  for (const other of [...others, '{"event":"refused","why":1}', '{"event":"other"}']) {
    assert.equal(readEvent(other), null, other);
  }
  assert.equal(readEvent(eventLine({ event: "closed", host: "a.b", sent: 1, received: 2 })), null);
});
