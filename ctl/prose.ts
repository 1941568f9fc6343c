/** The model's text on its way to the terminal, piece by piece. Pure. */
import { displayProse } from "../proto/escape.ts";

/** An encoded host is at most this long; a longer run of its characters is none. */
const MAX_HOST_LENGTH = 253;
const HOST_AT_END = /[a-z0-9_.-]+$/i;
/** A label that is encoded, or that may become it: `xn--…`, or at the end `x`, `xn`, `xn-`. */
const MAY_BE_ENCODED = /(?:^|\.)(?:xn--|xn?$|xn-$)/i;

/**
 * Escapes a text that comes in pieces as if it came whole: the end of a piece is held back while it may
 * be the beginning of an encoded host, which is shown with its decoded form (contracts 6).
 */
export class Prose {
  #held = "";

  /** What of the text so far can be shown now. */
  push(piece: string): string {
    const text = this.#held + piece;
    const [end = ""] = HOST_AT_END.exec(text.slice(-MAX_HOST_LENGTH - 1)) ?? [];
    const holds = end.length <= MAX_HOST_LENGTH && MAY_BE_ENCODED.test(end);
    this.#held = holds ? end : "";
    return displayProse(text.slice(0, text.length - this.#held.length));
  }

  /** The rest, once nothing more comes. */
  end(): string {
    const rest = displayProse(this.#held);
    this.#held = "";
    return rest;
  }
}
