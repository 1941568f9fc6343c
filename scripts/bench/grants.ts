/** Decisions over many grants: reading them and deciding, and deciding alone. */
import { realFiles } from "../../broker/files.ts";
import { grantReader } from "../../broker/grants.ts";
import { decide } from "../../broker/policy.ts";
import { FRESH } from "../../broker/state.ts";
import { Bare } from "./calls.ts";
import { BenchHome, type Figure, figure } from "./figures.ts";
import { interleave } from "./measure.ts";

const GRANTS = 1000;
/** Decisions in a row: one alone takes less than the clock can tell. */
const IN_A_ROW = 200;
/** What `decide` alone may take, in microseconds. */
const DECIDE_US = 100;

const CALL = {
  now: "2026-01-01T00:00:00.000Z",
  ...{ state: FRESH, tool: "read_file", arguments: '{"path":"/etc/passwd"}' },
};

/** A decision that reads 1,000 grant files, against reading the files. */
export async function manyGrants(rounds: number): Promise<Figure[]> {
  using home = new BenchHome(GRANTS);
  using bare = new Bare(home);
  const read = grantReader(realFiles, `${home.path}/grants`);
  const times = await interleave({
    decision: () => void decide({ ...CALL, grants: read() }),
    reading: () => bare.readGrants(),
  }, rounds);
  const name = `decision with ${GRANTS} grant files`;
  const { decision, reading } = times;
  return [figure(name, "ms", decision, "reading the files", reading.median, { atMost: 1.5 })];
}

/** `decide` over 1,000 grants in memory, against one pass over them that compares a path. */
export async function decideAlone(rounds: number): Promise<Figure[]> {
  using home = new BenchHome(GRANTS);
  const grants = grantReader(realFiles, `${home.path}/grants`)();
  if (!grants.ok) throw new Error("the grants of the bench are not valid");
  let found = 0;
  const onePass = () => {
    for (const { tool, constraints } of grants.grants) {
      if (tool !== CALL.tool) continue;
      for (const path of constraints.paths) if ("/etc/passwd".startsWith(path)) found += 1;
    }
  };
  const inMicroseconds = (run: () => void) => {
    const from = performance.now();
    for (let n = 0; n < IN_A_ROW; n += 1) run();
    return (performance.now() - from) * 1000 / IN_A_ROW;
  };
  const times = await interleave({
    decide: () => inMicroseconds(() => decide({ ...CALL, grants })),
    onePass: () => inMicroseconds(onePass),
  }, rounds);
  if (found > 0) throw new Error("a grant covers what none should");
  const name = `decide alone, ${GRANTS} grants`;
  const most = `the ${DECIDE_US} µs that it may take`;
  return [
    figure(name, "µs", times.decide, most, DECIDE_US, { atMost: 1 }),
    figure(name, "µs", times.decide, "one pass over them", times.onePass.median),
  ];
}
