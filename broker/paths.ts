/** Paths in grants and arguments (specification 3, "Paths"). Compared as they are, never normalised. Pure. */
import { utf8Length } from "../proto/text.ts";

/** The longest path, in bytes of UTF-8. */
export const MAX_PATH_BYTES = 4096;

/** What is wrong with the form of `path`, or null where it is a valid absolute path. */
export function pathProblem(path: string): string | null {
  if (!path.startsWith("/")) return "is not absolute";
  if (utf8Length(path) > MAX_PATH_BYTES) return `is longer than ${MAX_PATH_BYTES} bytes`;
  if (path.includes("\0")) return "has a NUL in it";
  if (path === "/") return null;
  for (const component of path.slice(1).split("/")) {
    if (component === "") return "has an empty component (// or a trailing /)";
    if (component === "." || component === "..") return `has a ${component} component`;
  }
  return null;
}

/** Whether `path` is `directory` or lies in it, by whole components. Both are valid paths. */
export function isInside(directory: string, path: string): boolean {
  if (directory === "/" || path === directory) return true;
  return path.startsWith(directory) && path[directory.length] === "/";
}

/** The longest of `directories` that contains `path`, or null. */
export function longestContaining(directories: readonly string[], path: string): string | null {
  let longest: string | null = null;
  for (const directory of directories) {
    if (isInside(directory, path) && directory.length > (longest ?? "").length) longest = directory;
  }
  return longest;
}
