import assert from "node:assert/strict";
import { CONFIG_DIRECTORY, DEFAULT_HOME, directoryOf, layout } from "../../proto/layout.ts";

Deno.test("the home is laid out as contracts 1 says", { permissions: "none" }, () => {
  assert.equal(DEFAULT_HOME, "/var/lib/boxmaker");
  assert.equal(CONFIG_DIRECTORY, "/etc/boxmaker");
  assert.deepEqual(layout("/h"), {
    home: "/h",
    grants: "/h/grants",
    broker: "/h/broker",
    brokerSessions: "/h/broker/sessions",
    audit: "/h/audit",
    loop: "/h/loop",
    loopSessions: "/h/loop/sessions",
    memory: "/h/memory",
    core: "/h/memory/core.md",
    brokerSocket: "/h/run/loop-broker/broker.sock",
    adminSocket: "/h/run/owner-broker/admin.sock",
    loopSocket: "/h/run/owner-loop/loop.sock",
  });
});

Deno.test("a home at the root has no double slash", { permissions: "none" }, () => {
  const places = layout("/");
  assert.equal(places.home, "/");
  assert.equal(places.audit, "/audit");
  assert.ok(Object.values(places).every((place) => !place.includes("//")));
});

Deno.test("a home is named plainly, however it was typed", { permissions: "none" }, () => {
  for (const typed of ["/h/of/", "//h//of", "/h/of///", "/h/of"]) {
    assert.deepEqual(layout(typed), layout("/h/of"), typed);
  }
  assert.deepEqual(layout("//"), layout("/"));
});

Deno.test(
  "the directory of a path is what stands before its last slash",
  { permissions: "none" },
  () => {
    for (const [path, directory] of [["/a/b", "/a"], ["/a/b/c", "/a/b"], ["/a", "/"], ["/", "/"]]) {
      assert.equal(directoryOf(path ?? ""), directory);
    }
  },
);
