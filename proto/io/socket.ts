/** Making a unix socket that only its owner can reach (specification 6; contracts 8). */
import { directoryOf } from "../layout.ts";
import { display } from "../escape.ts";
import { utf8Length } from "../text.ts";

/** The system takes no longer path for a socket, in bytes. */
export const MAX_SOCKET_PATH_BYTES = 107;

/** A socket's place that is not safe to use. Nothing was changed. */
export class SocketPlaceError extends Error {}

function lstat(path: string): Deno.FileInfo | null {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw new SocketPlaceError(`${display(path)} cannot be looked at`, { cause: error });
  }
}

/**
 * The user id this process makes files as, seen on a file made and removed in `directory`: asking the
 * runtime for it would need `--allow-sys`.
 */
export function ownerOfNewFile(directory: string): number | null {
  const probe = Deno.makeTempFileSync({ dir: directory, prefix: ".owner-" });
  try {
    return Deno.lstatSync(probe).uid;
  } finally {
    Deno.removeSync(probe);
  }
}

/**
 * Throws `SocketPlaceError` where `path` is too long for a socket, its directory is wider than 0700 or not of
 * `owner`, or something else than a socket stands there. Changes nothing.
 */
export function checkSocketPlace(path: string, owner: number | null): void {
  if (utf8Length(path) > MAX_SOCKET_PATH_BYTES) {
    throw new SocketPlaceError(
      `${
        display(path)
      } is longer than the ${MAX_SOCKET_PATH_BYTES} bytes that a socket's path may have`,
    );
  }
  const directory = directoryOf(path);
  const found = lstat(directory);
  if (found !== null) {
    if (!found.isDirectory) throw new SocketPlaceError(`${display(directory)} is not a directory`);
    if (found.mode !== null && (found.mode & 0o077) !== 0) {
      const mode = (found.mode & 0o777).toString(8).padStart(4, "0");
      throw new SocketPlaceError(`${display(directory)} has mode ${mode}, wider than 0700`);
    }
    if (found.uid !== owner) {
      throw new SocketPlaceError(`${display(directory)} belongs to another user`);
    }
  }
  const socket = lstat(path);
  if (socket !== null && !socket.isSocket) {
    throw new SocketPlaceError(`${display(path)} exists and is not a socket`);
  }
}

/** Whether somebody answers on the socket at `path`. */
export async function isListening(path: string): Promise<boolean> {
  try {
    (await Deno.connect({ transport: "unix", path })).close();
    return true;
  } catch {
    return false;
  }
}

/**
 * Listens on `path`: makes its directory with mode 0700 where it is missing, removes a stale socket and
 * gives the new one mode 0600. `checkSocketPlace` comes first.
 */
export function listen(path: string): Deno.UnixListener {
  const directory = directoryOf(path);
  if (lstat(directory) === null) Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
  if (lstat(path) !== null) Deno.removeSync(path);
  const listener = Deno.listen({ transport: "unix", path });
  // The directory keeps others out in the moment before this.
  Deno.chmodSync(path, 0o600);
  return listener;
}

/** Removes the socket at `path`. What else somebody has put there stays: the next start says so. */
export function removeSocket(path: string): void {
  if (lstat(path)?.isSocket) Deno.removeSync(path);
}
