/**
 * Noticing that `npx` has ended. It passes SIGTERM and SIGHUP to a shell of its own, which dies of it and
 * leaves what it started running. So a script looks whether that shell is still there. The runtime lets
 * only a script with every permission look at other processes; one that may run programs has no less.
 */

const POLL_MS = 500;

function contentOf(path: string): string | null {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return null; // no such process, no /proc on this system, or not every permission
  }
}

function parentOf(pid: number): number | null {
  const [, parent] = /^PPid:\s*(\d+)$/m.exec(contentOf(`/proc/${pid}/status`) ?? "") ?? [];
  return parent === undefined ? null : Number(parent);
}

/** The shell between npx and the `deno task` that runs this script; null where npx did not start it. */
function shellOfNpx(): number | null {
  const shell = parentOf(Deno.ppid);
  const npx = shell === null ? null : parentOf(shell);
  const title = contentOf(`/proc/${npx}/cmdline`) ?? "";
  return /\bnp[mx]\b/.test(title) ? shell : null;
}

/**
 * Calls `gone` once, when the npx that started this script has ended. Keeps no process alive. Give it the
 * function that ends to stop looking.
 */
export function watchStarter(gone: () => void): () => void {
  const shell = shellOfNpx();
  if (shell === null) return () => {};
  const timer = setInterval(() => {
    if (parentOf(Deno.ppid) === shell) return;
    clearInterval(timer);
    gone();
  }, POLL_MS);
  Deno.unrefTimer(timer);
  return () => clearInterval(timer);
}
