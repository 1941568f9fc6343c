/** Where bxctl finds the grants, and for which commands they are in its row. */
import assert from "node:assert/strict";
import { lockOf, readCtlConfig } from "../../ctl/config.ts";
import { ConfigError } from "../../proto/io/config_file.ts";
import { TempDir } from "../support/scripts.ts";

Deno.test("the grants are those of the command line, else of the file, else of the home", () => {
  using place = new TempDir();
  const config = place.write("c.toml", '[paths]\nhome = "/srv/h"\ngrants = "/srv/g"\n');
  const bare = place.write("b.toml", '[paths]\nhome = "/srv/h"\n');
  const grants = (overrides: Parameters<typeof readCtlConfig>[0]) =>
    readCtlConfig(overrides, undefined).grants;
  assert.equal(grants({ config, grants: "/srv/x" }), "/srv/x");
  assert.equal(grants({ config }), "/srv/g");
  assert.equal(grants({ config: bare }), "/srv/h/grants");
  // Another home has other grants.
  assert.equal(grants({ config, home: "/srv/o" }), "/srv/o/grants");
  assert.equal(grants({ config, home: "/srv/o", grants: "/srv/x" }), "/srv/x");
});

Deno.test("the grants are in the row of the commands that read them", () => {
  using place = new TempDir();
  const config = place.write("c.toml", '[paths]\nhome = "/srv/h"\ngrants = "/srv/g"\n');
  const row = (readsGrants: boolean) =>
    lockOf(readCtlConfig({ config }, undefined, { readsGrants })).read;
  assert.deepEqual(row(true).filter((path) => !row(false).includes(path)), ["/srv/g"]);
  assert.equal(row(true).length, row(false).length + 1);
});

Deno.test("a directory of grants holds no place of the home, and lies in none of another role", () => {
  const read = (grants: string) => readCtlConfig({ home: "/srv/h", grants }, undefined).grants;
  for (
    const grants of ["/", "/srv", "/srv/h", "/srv/h/", "//srv//h", "/srv/h/loop", "/srv/h/broker/x"]
      .concat("/srv/h/memory", "/etc", "/proc/", "relative", "/a,b")
  ) assert.throws(() => read(grants), ConfigError, grants);
  for (
    const grants of [
      "/srv/h/grants",
      "/srv/h/grants/new",
      "/srv/h2",
      "/srv/hx/loop",
      "/srv/h/loops",
    ]
      .concat("/etc/boxmaker/grants", "/home/kyle/grants")
  ) assert.equal(read(grants), grants);
});
