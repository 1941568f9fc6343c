/** How much memory a container and all that runs for it take at once, by looking at /proc again and again. */
import { residentMiB } from "./figures.ts";

/** Between two looks, in milliseconds. A look itself takes some. */
const LOOK_MS = 4;

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly words: readonly string[];
}

/** What runs on the machine; without what ends meanwhile. */
function processes(): Process[] {
  const found: Process[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      // The name of a program in there may hold anything, a parenthesis too.
      const stat = Deno.readTextFileSync(`/proc/${name}/stat`);
      const [, parent] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      const words = Deno.readTextFileSync(`/proc/${name}/cmdline`).split("\0");
      found.push({ pid: Number(name), parent: Number(parent), words });
    } catch {
      // it has ended
    }
  }
  return found;
}

/** Those of `all` that one of `roots` has started, and what these have started in turn. */
function startedBy(roots: ReadonlySet<number>, all: readonly Process[]): Process[] {
  const family = new Set(roots);
  for (let size = 0; size !== family.size;) {
    size = family.size;
    for (const { pid, parent } of all) if (family.has(parent)) family.add(pid);
  }
  return all.filter(({ pid }) => family.has(pid) && !roots.has(pid));
}

/**
 * The most memory, in MiB, that the processes of a container took at once while `work` went on: Podman,
 * which `starter` starts, with what else it starts meanwhile, and the container with its monitor, which
 * Podman hands over to the first process of the machine. Resident memory: pages that several of them share
 * count several times. What lives for less than some 10 ms may be missed.
 */
export async function peakOfChildrenMiB(
  starter: number,
  work: () => Promise<void>,
): Promise<number> {
  const before = new Set(processes().map(({ pid }) => pid));
  const names = new Set<string>();
  let peak = 0;
  const look = () => {
    const since = processes().filter(({ pid }) => !before.has(pid));
    const children = startedBy(new Set([starter]), since);
    for (const { words } of children) {
      const name = words.find((word) => word.startsWith("--name="));
      if (name !== undefined) names.add(name.slice("--name=".length));
    }
    const named = since.filter(({ words }) => words.some((word) => names.has(word)));
    const monitors = new Set(named.map(({ pid }) => pid));
    const pids = new Set(
      [...children, ...startedBy(monitors, since), ...named].map(({ pid }) => pid),
    );
    peak = Math.max(peak, [...pids].reduce((sum, pid) => sum + memoryOf(pid), 0));
  };
  let over = false;
  const end = work().finally(() => over = true);
  // Thrown below, once the last look is over.
  end.catch(() => {});
  while (!over) {
    look();
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  await end;
  return peak;
}

function memoryOf(pid: number): number {
  try {
    return residentMiB(pid);
  } catch {
    return 0;
  }
}
