/**
 * A session log on a disk that is full, started by `tests/loop/session_log_test.ts` under a limit on the
 * size of files: appends what fits, what does not, and what would fit. Prints what each came to.
 */
import { SessionLog } from "../../loop/session_log.ts";

const [directory = ""] = Deno.args;
const time = new Date().toISOString();
const log = await SessionLog.open(
  directory,
  "s1",
  Date.now,
  () => ({ type: "start", time, session: "s1", system: "" }),
);
for (const size of [10, 1_000_000, 10]) {
  try {
    await log.append({ type: "text", text: "x".repeat(size) });
    console.log("written");
  } catch (error) {
    console.log(error instanceof Error ? String(error.cause) : error);
  }
}
await log.close();
