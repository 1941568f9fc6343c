import assert from "node:assert/strict";
import { ago, duration, expiry } from "../../ctl/ago.ts";

const pure = { permissions: "none" } as const;
const NOW = Date.parse("2026-12-01T10:00:00.000Z");

Deno.test("a duration is told in the one unit that suits it", pure, () => {
  const second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;
  const cases: [number, string][] = [
    [-5 * minute, "0 sec"],
    [0, "0 sec"],
    [499, "0 sec"],
    [1 * second, "1 sec"],
    [59 * second, "59 sec"],
    [59_600, "1 min"],
    [2 * minute, "2 min"],
    [13 * minute - 20, "13 min"],
    [59 * minute + 40 * second, "1 hr"],
    [23 * hour, "23 hr"],
    [24 * hour, "1 day"],
    [24 * day, "24 days"],
  ];
  for (const [ms, words] of cases) assert.equal(duration(ms), words, String(ms));
});

Deno.test(
  "what is past was some time ago, and a clock that differs makes it no future",
  pure,
  () => {
    assert.equal(ago("2026-12-01T09:58:00.000Z", NOW), "2 min ago");
    assert.equal(ago("2026-12-01T10:00:03.000Z", NOW), "0 sec ago");
  },
);

Deno.test("what is to come expires in some time, and then it has expired", pure, () => {
  assert.equal(expiry("2026-12-01T10:13:00.000Z", NOW), "expires in 13 min");
  assert.equal(expiry("2026-12-01T10:00:00.001Z", NOW), "expires in 0 sec");
  assert.equal(expiry("2026-12-01T10:00:00.000Z", NOW), "expired");
  assert.equal(expiry("2026-12-01T09:00:00.000Z", NOW), "expired");
});
