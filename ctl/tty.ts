/** The terminal that a chat is typed on: keys from stdin, and what is typed drawn on stderr. */
import { stdin } from "./keyboard.ts";
import type { Size } from "./screen.ts";
import type { Tty } from "./typist.ts";

/** Of a terminal that does not tell its size. */
const USUAL: Size = { columns: 80, rows: 24 };

const encoder = new TextEncoder();

/** The size of the terminal, as it is now. */
export function terminalSize(): Size {
  try {
    const { columns, rows } = Deno.consoleSize();
    return { columns: columns || USUAL.columns, rows: rows || USUAL.rows };
  } catch {
    return USUAL;
  }
}

/** The process's own terminal; null where a line cannot be edited on one. */
export function realTty(): Tty | null {
  if (!stdin.isTerminal() || !Deno.stderr.isTerminal()) return null;
  return {
    read: stdin.read,
    setRaw: (on) => Deno.stdin.setRaw(on),
    size: terminalSize,
    write(text) {
      const bytes = encoder.encode(text);
      try {
        for (let at = 0; at < bytes.length;) at += Deno.stderr.writeSync(bytes.subarray(at));
      } catch {
        // the terminal has gone away, which reading tells too
      }
    },
  };
}
