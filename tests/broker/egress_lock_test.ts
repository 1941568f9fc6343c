/**
 * The egress proxy's second wall: what its flags keep closed though nothing in it checks anything, and that
 * it does not serve without them (specification 13).
 */
import assert from "node:assert/strict";
import type { EgressSettings } from "../../broker/egress/settings.ts";
import { directoryOf } from "../../proto/layout.ts";
import { EgressWorld, inWorld } from "../support/egress.ts";
import type { Try } from "../support/egress_probe.ts";
import { ECHO, PAGE, SPECIAL } from "../support/egress_world.ts";

const MAIN = "../../broker/egress/main.ts";

/** Flags with `flag` beside them; one without a value, which is everything, in place of those with one. */
const widened = (flag: string) => (flags: string[]) => [
  ...flags.filter((each) => !each.startsWith(`${flag}=`)),
  flag,
];

/** What became of each of `tries` under the flags of a proxy with these settings, as `change` changes them. */
async function outcomes(
  world: EgressWorld,
  settings: EgressSettings,
  tries: readonly Try[],
  change?: (flags: string[]) => string[],
): Promise<Record<string, string>> {
  const args = [JSON.stringify(tries)];
  const { stdout, stderr } = await world.underFlags(settings, "./egress_probe.ts", args, change);
  assert.ok(stdout !== "", stderr);
  const each: string[] = JSON.parse(stdout);
  return Object.fromEntries(tries.map((one, index) => [one.join(" "), each[index] ?? ""]));
}

const all = (tries: readonly Try[], outcome: string) =>
  Object.fromEntries(tries.map((one) => [one.join(" "), outcome]));

inWorld("under its flags nothing but its hosts on port 443 is reached", async (world) => {
  world.resolve({ "page.example": PAGE, "a.page.example": PAGE, "evil.example": ECHO });
  const settings = world.settings();
  const closed: Try[] = [
    ...["evil.example 443", "page.example 80", "a.page.example 80", `${ECHO} 443`].map((
      to,
    ): Try => [
      "connect",
      to,
    ]),
    ...SPECIAL.map((address): Try => ["connect", `${address} 443`]),
    ["fetch", "https://evil.example/"],
    ["fetch", "http://page.example/"],
    ["listen", "127.0.0.1 443"],
    ["listen", "0.0.0.0 0"],
    ["resolve", "evil.example"],
  ];
  const open: Try[] = [["connect", "page.example 443"], ["connect", "a.page.example 443"]];
  assert.deepEqual(await outcomes(world, settings, closed), all(closed, "closed"));
  assert.deepEqual(await outcomes(world, settings, open), all(open, "open"));
  // The same places, without the lock on the network alone, are there.
  const free = { ...settings, private: ["0.0.0.0/0", "::/0"] };
  const places = closed.filter(([act]) => act === "connect");
  const reached = await outcomes(world, free, places, widened("--allow-net"));
  assert.deepEqual(reached, all(places, "open"));
});

inWorld(
  "special IPv4 behind a name of the grant is closed without any check",
  async (world) => {
    const settings = world.settings();
    const tries: Try[] = [["connect", "page.example 443"], ["connect", "a.page.example 443"]];
    for (const address of [...SPECIAL.filter((each) => each.includes(".")), "::1"]) {
      world.resolve({ "page.example": address, "a.page.example": [address, ECHO] });
      assert.deepEqual(await outcomes(world, settings, tries), all(tries, "closed"), address);
      assert.equal(world.connections(address), 0);
      const named = { ...settings, private: [address] };
      assert.deepEqual(
        await outcomes(world, named, tries.slice(0, 1)),
        all(tries.slice(0, 1), "open"),
      );
    }
  },
);

inWorld(
  "under its flags there are no files, programs, facts or code but its socket",
  async (world) => {
    world.resolve({ "page.example": ECHO });
    const settings = world.settings();
    const { socket } = settings;
    const closed: Try[] = [
      ["read", "/etc/passwd"],
      ["read", "/etc/hosts"],
      ["read", "/proc/self/environ"],
      ["list", directoryOf(socket)],
      ["list", "/"],
      ["write", `${directoryOf(socket)}/other`],
      ["write", "/tmp/boxmaker-egress-probe"],
      ["unix", `${directoryOf(socket)}/other`],
      ["listenUnix", `${directoryOf(socket)}/other`],
      ["run", "/bin/true"],
      ["env", "PATH"],
      ["sys", ""],
      ["ffi", "libc.so.6"],
      ["import", "https://page.example/x.js"],
      ["import", "npm:boxmaker-is-no-package"],
    ];
    assert.deepEqual(await outcomes(world, settings, closed), all(closed, "closed"));
    const open: Try[] = [["listenUnix", socket]];
    assert.deepEqual(await outcomes(world, settings, open), all(open, "open"));
  },
);

inWorld("it does not serve with more than its flags, and says what is too much", async (world) => {
  const settings = world.settings();
  const args = [JSON.stringify(settings)];
  const wider: Readonly<Record<string, RegExp>> = {
    "--allow-read": /this process may read anywhere/,
    [`--allow-read=${directoryOf(settings.socket)}`]: /may read \//,
    "--allow-write=/": /may write \//,
    "--allow-net": /may connect to anywhere/,
    "--allow-net=host.invalid:443": /may connect to host\.invalid:443/,
    "--allow-net=page.example": /may connect to page\.example:444/,
    [`--allow-net=unix:${directoryOf(settings.socket)}/other`]: /may connect to unix:/,
    "--allow-env": /may read every environment variable/,
    "--allow-run": /may run programs/,
    "--allow-ffi": /may load native code/,
    "--allow-sys": /may read system information/,
  };
  for (const [flag, words] of Object.entries(wider)) {
    const { code, stdout, stderr } = await world.underFlags(settings, MAIN, args, widened(flag));
    assert.equal(code, 1, flag);
    assert.equal(stdout, "", "it was never ready");
    assert.match(stderr, words);
    assert.match(stderr, /permissions-too-wide/);
  }
  // With no more than its flags it is ready, and ends with its input, which is empty here.
  const plain = await world.underFlags(settings, MAIN, args);
  assert.deepEqual(plain, { code: 0, stdout: '{"event":"ready"}\n', stderr: "" });
});

inWorld("it does not serve where an address is not denied that should be", async (world) => {
  const settings = world.settings();
  // Flags for settings that open 10.0.0.0/8, and a proxy that is told of settings that do not.
  const opened = { ...settings, private: ["10.0.0.0/8"] };
  const { code, stderr } = await world.underFlags(opened, MAIN, [JSON.stringify(settings)]);
  assert.equal(code, 1);
  assert.match(stderr, /this process may connect to 10\.0\.0\.0, which it must not/);
  const same = await world.underFlags(opened, MAIN, [JSON.stringify(opened)]);
  assert.equal(same.code, 0, same.stderr);
});

inWorld("it does not serve where code could be imported", async (world) => {
  const settings = world.settings();
  const args = [JSON.stringify(settings)];
  const open = (flags: string[]) => flags.filter((flag) => flag !== "--deny-import");
  const { code, stderr } = await world.underFlags(settings, MAIN, args, open);
  assert.equal(code, 1);
  assert.match(stderr, /may import remote code/);
});

Deno.test("it imports no package: none need be there, and none takes time at its start", async () => {
  const main = new URL(MAIN, import.meta.resolve("../support/egress.ts"));
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", main.pathname],
    stderr: "null",
  }).output();
  const { modules } = JSON.parse(new TextDecoder().decode(stdout));
  const specifiers = modules.map(({ specifier }: { specifier: string }) => specifier);
  assert.ok(specifiers.includes(main.href));
  for (const specifier of specifiers) assert.match(specifier, /^(?:file|node):/);
});
