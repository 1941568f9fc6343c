/** `bxctl grants list` and what `grants revoke` refuses. */
import assert from "node:assert/strict";
import { listGrants } from "../../ctl/grants_list.ts";
import { revokeGrant } from "../../ctl/grants_revoke.ts";
import { Keyboard } from "../../ctl/keyboard.ts";
import { PlainLines } from "../../ctl/lines.ts";
import { Failed } from "../../ctl/notices.ts";
import { sha256 } from "../../proto/ids.ts";
import { utf8 } from "../../proto/text.ts";
import { namesOf } from "../support/broker.ts";
import { Recorder } from "../support/ctl.ts";
import { type GrantFields, grantFile } from "../support/grants.ts";
import { TempDir } from "../support/scripts.ts";

const ASK = grantFile({ tool: "write_file", mode: "ask", constraints: { paths: ["/d"] } });

function remembered(expires: string, asked = ASK): string {
  const fields: GrantFields = { tool: "write_file", expires, constraints: { paths: ["/d"] } };
  const hash = sha256(utf8(asked));
  return `${grantFile(fields)}[remembered]\ngrant = "drafts"\nsha256 = "${hash}"\npath = "/d/a"\n`;
}

Deno.test("grants list prints each grant in words", () => {
  using place = new TempDir();
  place.write("drafts.toml", ASK);
  place.write("remembered-3.toml", remembered("2026-12-01T10:59:00.000Z"));
  place.write("remembered-4.toml", remembered("2026-12-01T09:00:00.000Z"));
  place.write("remembered-5.toml", remembered("2026-12-01T10:05:00.000Z", `${ASK}# before\n`));
  const web = { tool: "http_fetch", untrusted: true, hint: "try \u202ethe\nmirror" };
  place.write(
    "web.toml",
    grantFile({ ...web, constraints: { hosts: ["*.a.example", "b.example"] } }),
  );
  place.write("sh.toml", grantFile({ tool: "shell", mode: "deny", max_taint: "private" }));
  const io = new Recorder();
  assert.equal(listGrants(place.path, io, false), 0);
  assert.equal(
    io.out,
    `drafts  ask  write_file  no expiry
    a path in "/d"; up to taint secret; results are private
remembered-3  auto  write_file  expires in 59 min  by approve --remember, for drafts
    the path "/d/a" alone, with "/d" mounted; up to taint secret; results are private
remembered-4  auto  write_file  expired  by approve --remember, for drafts
    the path "/d/a" alone, with "/d" mounted; up to taint secret; results are private
remembered-5  auto  write_file  expires in 5 min  by approve --remember, for drafts
    the path "/d/a" alone, with "/d" mounted; up to taint secret; results are private
    without effect: drafts is gone, or was changed since
sh  deny  shell  no expiry
    only without a cwd; up to taint private; results are private
web  auto  http_fetch  no expiry
    hosts "*.a.example", "b.example"; up to taint secret; results are private and untrusted
    tells the model: try \\u202ethe\\u000amirror
`,
  );
  io.out = "";
  assert.equal(listGrants(place.path, io, true), 0);
  const { problems, grants } = JSON.parse(io.out);
  assert.deepEqual(problems, []);
  assert.deepEqual(
    grants.map((one: { id: string; expired: boolean; in_effect: boolean }) => [
      ...[one.id, one.expired, one.in_effect],
    ]),
    [
      ["drafts", false, true],
      ["remembered-3", false, true],
      ["remembered-4", true, false],
      ["remembered-5", false, false],
      ["sh", false, true],
      ["web", false, true],
    ],
  );
});

Deno.test("a broken file is named with its line, beside the grants that are whole", () => {
  using place = new TempDir();
  const io = new Recorder();
  assert.equal(listGrants(place.path, io, false), 0);
  assert.equal(io.out, "no grants\n");
  io.out = "";
  place.write("drafts.toml", ASK);
  place.write("bad.toml", `${ASK}pathz = 1\n`);
  assert.equal(listGrants(place.path, io, false), 1);
  assert.match(io.out, /^drafts {2}ask .*\n.*\nbad\.toml:7: unknown key constraints\.pathz\n$/);
  assert.match(io.err, /with these grants every call would be denied; .*#grants-invalid\n$/);
});

Deno.test("revoke removes what --remember wrote, and refuses what its owner did", async () => {
  using place = new TempDir();
  place.write("drafts.toml", ASK);
  place.write("remembered-3.toml", remembered("2026-12-01T10:59:00.000Z"));
  // The name alone makes no remembered grant, and a broken one is somebody's edit.
  place.write("remembered-7.toml", ASK);
  place.write("remembered-8.toml", `${remembered("2026-12-01T10:59:00.000Z")}x = 1\n`);
  const io = new Recorder();
  const keyboard = new Keyboard({
    read: () => Promise.resolve(null),
    isTerminal: () => false,
    setRaw: () => {},
  });
  const revoke = (id: string) =>
    revokeGrant(
      place.path,
      id,
      { lines: new PlainLines(keyboard, io), yes: true, json: false },
      io,
    );
  const refused = { drafts: "not_remembering", "remembered-7": "not_remembering" };
  const all = { ...refused, "remembered-8": "not_remembering", "remembered-9": "no_such_grant" };
  const before = namesOf(place.path);
  for (const [id, code] of Object.entries(all)) {
    await assert.rejects(revoke(id), (error) => error instanceof Failed && error.code === code, id);
  }
  assert.deepEqual(namesOf(place.path), before);
  assert.equal(await revoke("remembered-3"), 0);
  assert.deepEqual(namesOf(place.path), before.filter((name) => name !== "remembered-3.toml"));
});
