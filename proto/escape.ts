/**
 * The display rules (specification 9, "Arguments are printed as data"; contracts 6). Every text that
 * did not come from the program itself goes through here before it reaches a terminal or a daemon's
 * log: nothing that a model, a client or a file wrote can move the cursor, change colours, reorder or
 * hide text. Nothing is stripped. Pure.
 */
import { domainToUnicode } from "node:url";

// \p{C}: Cc, Cf, Cs, Co, Cn.
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const HIDDEN_BUT_LAYOUT = /(?![\n\t])[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
// The text is often JSON, where a host's characters may stand as escapes: `\u0078n--` is `xn--` too.
const CHARACTER = String.raw`(?:[a-z0-9_-]|\\u00(?:2d|3\d|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a]))`;
const DOT = String.raw`(?:\.|\\u002e)`;
// Whole runs of labels: the time to look through a text grows with its length, not with the square.
// Any other escape of JSON is passed over whole: the n of a \n is no letter of the host after it.
const HOST = new RegExp(
  String.raw`${CHARACTER}+(?:${DOT}${CHARACTER}+)*|\\(?:["\\/bfnrt]|u[0-9a-f]{4})`,
  "gi",
);
const ESCAPE = /\\u00([0-9a-f]{2})/gi;
const ENCODED_LABEL = /(?:^|\.)xn--/i;
/** Nothing longer is a host name (specification 3, "Hosts"). */
const MAX_HOST_LENGTH = 253;

function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  return code <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}

function decodeHosts(value: string): string {
  return value.replace(HOST, (written) => {
    const host = written.replace(ESCAPE, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
    // What stands right before a host must not hide it.
    const start = ENCODED_LABEL.test(host) ? 0 : host.search(/xn--/i);
    if (start < 0 || host.length > MAX_HOST_LENGTH) return written;
    return `${written} (${domainToUnicode(host.slice(start))})`;
  });
}

/** `value` on one line as data; a host with an `xn--` label is followed by its decoded form. */
export function display(value: string): string {
  return decodeHosts(value).replace(HIDDEN, escapeCharacter);
}

/** As `display`, but newlines and tabs stay: for the model's own text (contracts 8). */
export function displayProse(value: string): string {
  return decodeHosts(value).replace(HIDDEN_BUT_LAYOUT, escapeCharacter);
}

/** `value` as a string of TOML that shows as data: what `display` escapes is escaped in TOML's own form. */
export function displayToml(value: string): string {
  const escaped = (hidden: string) => {
    const hex = (hidden.codePointAt(0) ?? 0).toString(16);
    return hex.length <= 4 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
  };
  return JSON.stringify(value).replace(HIDDEN, escaped);
}

/**
 * `value` as JSON text that shows as data too: what `display` escapes is escaped in JSON's own form, so
 * that reading it gives the same value.
 */
export function displayJson(value: object): string {
  const units = (hidden: string) => hidden.split("").map(escapeCharacter).join("");
  return JSON.stringify(value).replace(HIDDEN, units);
}
