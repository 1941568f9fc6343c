/**
 * Writing and removing a grant file, for `approve --remember` and `grants revoke` alone (decision 111).
 * brokerd sees a grant whole or not at all: a file counts as one from its rename on.
 */
import { MAX_GRANT_BYTES } from "../broker/grant_rules.ts";
import { readRegularFile } from "../proto/io/regular_file.ts";
import { utf8 } from "../proto/text.ts";
import { grantNotRemoved, grantNotWritten } from "./notices.ts";

/**
 * Writes the new grant `id` with the permission bits of the file of the grant `like`. Synced when it
 * returns. Nothing is ever written over. Throws `Failed`, and then nothing is left.
 */
export function writeGrant(directory: string, id: string, text: string, like: string): void {
  const file = `${directory}/${id}.toml`;
  // No grant to brokerd, by its ending. Whoever else writes this grant stops at it.
  const temporary = `${directory}/.${id}.toml.new`;
  /** The file that is ours to take away again. */
  let ours: string | null = null;
  try {
    const mode = (Deno.statSync(`${directory}/${like}.toml`).mode ?? 0o600) & 0o666;
    using out = Deno.openSync(temporary, { write: true, createNew: true, mode: 0o600 });
    ours = temporary;
    const bytes = utf8(text);
    for (let at = 0; at < bytes.length;) at += out.writeSync(bytes.subarray(at));
    Deno.chmodSync(temporary, mode);
    out.syncSync();
    if (stands(file)) throw new Deno.errors.AlreadyExists(file);
    Deno.renameSync(temporary, file);
    ours = file;
    syncDirectory(directory);
  } catch (error) {
    if (ours !== null) removeQuietly(ours);
    throw grantNotWritten(file, error);
  }
}

/** The bytes of the file of the grant `id`; null where there is no regular file. Throws `Failed`. */
export function grantBytes(directory: string, id: string): Uint8Array | null {
  const file = `${directory}/${id}.toml`;
  try {
    return stands(file) ? readRegularFile(file, MAX_GRANT_BYTES) : null;
  } catch (error) {
    throw grantNotRemoved(file, error);
  }
}

/**
 * Removes the file of the grant `id` if its bytes still are `shown`. Synced when it returns. False where the
 * file is another one by now, which stays. Throws `Failed`.
 */
export function removeGrant(directory: string, id: string, shown: Uint8Array): boolean {
  const file = `${directory}/${id}.toml`;
  const now = grantBytes(directory, id);
  if (now?.toHex() !== shown.toHex()) return false;
  try {
    Deno.removeSync(file);
    syncDirectory(directory);
  } catch (error) {
    throw grantNotRemoved(file, error);
  }
  return true;
}

function stands(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

function syncDirectory(directory: string): void {
  using opened = Deno.openSync(directory, { read: true });
  opened.syncSync();
}

function removeQuietly(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // the error that came before is the one to tell
  }
}
