/** Reading a file in whose place something else may stand: it never waits, and takes no more than was asked for. */
import fs from "node:fs";

/**
 * The bytes of the regular file at `path`, links followed; of one larger than `maxBytes` one byte more than
 * that. Null where something else stands there. Throws as the runtime does.
 */
export function readRegularFile(path: string, maxBytes: number): Uint8Array | null {
  // Looked at first, since opening a device may do something; opened without waiting for a FIFO's writer.
  if (!Deno.statSync(path).isFile) return null;
  const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  try {
    if (!fs.fstatSync(fd).isFile()) return null;
    const buffer = new Uint8Array(maxBytes + 1);
    let size = 0;
    for (let read = -1; read !== 0 && size < buffer.length; size += read) {
      read = fs.readSync(fd, buffer, size, buffer.length - size, size);
    }
    return buffer.subarray(0, size);
  } finally {
    fs.closeSync(fd);
  }
}
