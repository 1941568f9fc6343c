/** `memory/core.md`, what the owner wants every new session to know (contracts 8). */
import { readRegularFile } from "../proto/io/regular_file.ts";
import { fromUtf8 } from "../proto/text.ts";

/** A larger one is unreadable, in bytes: it would fill the model's context. */
export const MAX_CORE_BYTES = 256 * 1024;

/** The file is there and cannot be used. */
export class CoreUnreadable extends Error {}

/** The text of the file at `path`, or null where there is none. Throws `CoreUnreadable`. */
export function readCore(path: string): string | null {
  try {
    // Without following: a link to nothing is there.
    Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw new CoreUnreadable(`${path} cannot be read`, { cause: error });
  }
  let bytes: Uint8Array | null;
  try {
    bytes = readRegularFile(path, MAX_CORE_BYTES);
  } catch (error) {
    throw new CoreUnreadable(`${path} cannot be read`, { cause: error });
  }
  if (bytes === null) throw new CoreUnreadable(`${path} is not a regular file`);
  if (bytes.length > MAX_CORE_BYTES) {
    throw new CoreUnreadable(`${path} is larger than ${MAX_CORE_BYTES} bytes`);
  }
  const content = fromUtf8(bytes);
  if (content === null) throw new CoreUnreadable(`${path} is not UTF-8`);
  return content;
}
