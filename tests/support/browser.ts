/** Chromium without a window, in a profile of its own, for pages that are looked at as their readers do. */
import { TempDir } from "./scripts.ts";

/** How long a page may take, in milliseconds: the first start on a busy machine is slow. */
const DEADLINE_MS = 90_000;

/** Where Debian's package chromium puts it. */
const PROGRAM = "/usr/bin/chromium";

export function hasBrowser(): boolean {
  try {
    return Deno.statSync(PROGRAM).isFile;
  } catch {
    return false;
  }
}

/** The document at `path` once it has loaded and its scripts have run, as HTML. */
export async function loaded(path: string): Promise<string> {
  using profile = new TempDir();
  const command = new Deno.Command(PROGRAM, {
    args: [
      // Tests run as root in containers, where its own sandbox cannot be.
      ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
      ...["--no-first-run", "--disable-background-networking", "--disable-component-update"],
      ...[`--user-data-dir=${profile.path}/profile`, "--virtual-time-budget=3000"],
      ...["--dump-dom", `file://${path}`],
    ],
    env: { HOME: profile.path },
    stdin: "null",
    signal: AbortSignal.timeout(DEADLINE_MS),
  });
  const { success, stdout, stderr } = await command.output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}
